"""Segments without gaps on uniform times, shifted rows, and findings across chunks."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import EXACT, SAME_ALGEBRA, assert_close
from raising import raises

import mindyn
from mindyn.foundation.errors import Code
from mindyn.logs.formats.array_table import ArrayTable, open_arrays
from mindyn.logs.interpolation import delay_rows
from mindyn.logs.log import join_logs, log_from_arrays
from mindyn.logs.log_errors import LogError
from mindyn.logs.metadata import LogMetadata
from mindyn.logs.number_checks import LogInspector
from mindyn.logs.read_log import sample_segments
from mindyn.logs.segments import resample_pieces, split_at_gaps

ROBOT = mindyn.load_robot("planar2")


def straight(time):
    """Positions that grow evenly: whatever interpolates smoothly keeps them."""
    q = np.column_stack([2.0 * time + 1.0, -0.5 * time])
    return log_from_arrays(ROBOT.joint_names, time, q, 3.0 * q)


def uneven(seconds, rate, seed):
    rng = np.random.default_rng(seed)
    time = np.arange(0, seconds, 1 / rate)
    return time + np.where(np.arange(len(time)) > 0, rng.uniform(-0.2, 0.2, len(time)) / rate, 0.0)


@pytest.mark.parametrize("chunk", [1000, 37, 7])
def test_uniform_rows_are_at_every_step_from_the_first_stamp_to_the_last(chunk):
    time = 5.0 + uneven(2.0, 100.0, seed=1)
    log, rate = straight(time), 80.0
    chunks = [log.take(slice(k, k + chunk)) for k in range(0, len(log), chunk)]
    created = join_logs([part.rows for part in resample_pieces(split_at_gaps(chunks, 0.1), rate) if len(part.rows)])
    count = int((time[-1] - time[0]) * rate) + 1
    assert_close(created.time, time[0] + np.arange(count) / rate, SAME_ALGEBRA)
    assert_close(created.q, straight(created.time).q, 1e-9)
    assert_close(created.tau, straight(created.time).tau, 1e-9)
    nearest = [int(np.argmin(np.abs(time - t))) for t in created.time]
    assert created.rows.tolist() == nearest


@pytest.mark.parametrize("chunk", [1000, 25, 10])
def test_a_log_is_cut_at_its_gaps_wherever_chunks_end(chunk):
    time = np.concatenate([np.arange(0, 0.3, 0.01), 1.0 + np.arange(0, 0.4, 0.01), 3.0 + np.arange(0, 0.2, 0.01)])
    log = straight(time)
    result = list(split_at_gaps([log.take(slice(k, k + chunk)) for k in range(0, len(log), chunk)], 0.05))
    segments: dict[int, list] = {}
    for part in result:
        segments.setdefault(part.segment, []).append(part)
    assert [sum(len(part.rows) for part in parts) for parts in segments.values()] == [30, 40, 20]
    assert list(segments) == [0, 1, 2]
    for parts in segments.values():
        assert [part.is_last for part in parts] == [False] * (len(parts) - 1) + [True]


@pytest.mark.parametrize("rows", [0.3, 2.7, -1.4, 5.0])
def test_a_straight_line_is_delayed_to_its_very_ends(rows):
    x = np.column_stack([np.arange(40.0), 7.0 - 0.2 * np.arange(40.0)])
    assert_close(delay_rows(x, rows), x - rows * np.array([1.0, -0.2]), 1e-12)


def test_the_largest_of_several_jumps_is_known_whichever_chunk_it_is_in():
    time = np.arange(300) / 100
    q = np.column_stack([0.1 * np.sin(time), 0.1 * np.cos(time)])
    q[50:, 0] += 1.0
    q[150:, 0] -= 3.0
    q[250:, 0] += 2.0
    log = log_from_arrays(ROBOT.joint_names, time, q, np.sin(np.outer(time, [1.0, 2.0])))
    for length in (300, 100):
        seen = LogInspector(ROBOT)
        for start in range(0, 300, length):
            seen.see(log.take(slice(start, start + length)))
        (note,) = map(str, seen.findings())
        assert "jumps by -3 rad at 1.5 s (row 150), the largest of 3 such steps" in str(note)


def test_arrays_of_two_lengths_are_rejected():
    table = ArrayTable("run.npz", {"t": np.arange(5.0), "q": np.zeros((5, 2)), "tau": np.zeros((4, 2))}, 2)
    assert len(next(iter(table.chunks(["t", "q"], 10)))["t"]) == 5
    with raises(LogError, code=Code.DISAGREEMENT, subject="run.npz"):
        list(table.chunks(["t", "tau"], 10))


@pytest.mark.parametrize("name", ["q", "qd", "qdd", "tau"])
def test_samples_that_are_not_finite_are_rejected(name):
    arrays = {item: np.ones((6, 2)) for item in ("q", "qd", "qdd", "tau")}
    arrays[name][3, 1] = np.nan
    with raises(mindyn.MindynError, code=Code.NOT_FINITE):
        mindyn.Samples(ROBOT.joint_names, *arrays.values(), 100.0, np.zeros(6, dtype=np.int64))


def test_slow_logs_are_logs():
    assert LogMetadata(rate_hz=0.5).rate_hz == 0.5
    with raises(LogError, code=Code.INVALID_VALUE, subject="rate_hz"):
        LogMetadata(rate_hz=0.0)
    with raises(LogError, code=Code.INVALID_VALUE, subject="skip_rows"):
        LogMetadata(skip_rows=-1)
    assert_close(np.array(LogMetadata(skip_rows=1).skip_rows), 1, EXACT)


def test_arrays_may_stand_along_either_axis():
    time, q = np.arange(6.0), np.arange(12.0).reshape(6, 2)
    for shaped, table in ((time, q), (time[:, None], q), (time[None], q.T)):
        (chunk,) = ArrayTable("run.npz", {"t": shaped, "q": table}, 2).chunks(["t", "q"], 10)
        assert chunk["t"].tolist() == time.tolist()
        assert chunk["q"].tolist() == q.tolist()
    with raises(LogError, code=Code.WRONG_SHAPE, subject="q"):
        list(ArrayTable("run.npz", {"q": np.zeros((6, 3))}, 2).chunks(["q"], 10))


def test_matlab_files_of_version_7_3_are_read_as_hdf5(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "run.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        file["q"] = np.arange(8.0).reshape(2, 4)
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")
    (chunk,) = open_arrays(path, 2).chunks(["q"], 10)
    assert chunk["q"].tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]


@pytest.mark.parametrize("count", [400, 5000, 40_000])
def test_a_sparse_log_has_between_half_and_all_of_the_requested_rows(count, tmp_path):
    time = np.arange(count) / 100
    log = straight(time)
    np.savez(tmp_path / "run.npz", t=time, q=log.q, tau=log.tau)
    scan = mindyn.scan_log(
        tmp_path / "run.npz",
        ROBOT,
        columns={"time": "t", "position": "q", "torque": "tau"},
        units={"time": "s", "position": "rad", "torque": "N m"},
        side="joint",
        metadata={"joints": list(ROBOT.joint_names)},
        chunk_rows=1000,
    )
    for rows in (320, 3200):
        segments = sample_segments(scan, rows)
        assert min(count, rows / 2) <= len(segments) <= rows + rows // 16
        if count > rows:
            assert np.count_nonzero(np.diff(segments.rows) > 1) >= 7
            assert segments.rows[-1] > 0.8 * count
