"""Segments of a few rows between gaps, robots with one joint, names that are not text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from messages import messages
from raising import raises

import mindyn
from mindyn import Conditioning
from mindyn.foundation.errors import Code, RobotFileError
from mindyn.logs.log_errors import LogError
from mindyn.logs.metadata import find_sidecar
from mindyn.logs.pipeline import condition_stream
from mindyn.logs.time_stamps import has_bursts

ARM = mindyn.load_robot("planar2")
STATED = {
    "joints": ["joint1", "joint2"],
    "side": "joint",
    "columns": {"time": "t", "position": "q", "torque": "tau"},
    "units": {"time": "s", "position": "rad", "torque": "N m"},
}


def with_rows_between_gaps(count):
    """A log of 1200 rows; rows 600 to 600 + count lie between two gaps of 1 s."""
    t = np.arange(1200) / 200
    q = np.column_stack([np.sin(t), np.cos(3 * t)])
    stamps = t + (np.arange(1200) >= 600) + (np.arange(1200) >= 600 + count)
    return mindyn.log_from_arrays(ARM.primary_names, stamps, q, np.cos(q), np.gradient(q, 1 / 200, axis=0))


@pytest.mark.parametrize("velocity", ["differentiated", "measured"])
@pytest.mark.parametrize("cutoff", [None, 20.0])
@pytest.mark.parametrize("edge", [0.0, 0.02])
def test_short_segments_between_gaps_are_dropped_with_a_note(velocity, cutoff, edge):
    settings = Conditioning(
        velocity=velocity,
        motion_hz=cutoff,
        edge_s=edge,
    )
    samples = {
        count: mindyn.condition(
            ARM,
            with_rows_between_gaps(count),
            settings,
        )
        for count in (1, 5, 20)
    }
    assert any(note.startswith("row 600 (1 row) dropped") for note in messages(samples[1]))
    assert 600 not in samples[1].rows
    assert (599 in samples[1].rows) == (edge == 0.0)
    assert not any("dropped" in note for note in messages(samples[20]))
    assert np.isin(np.arange(604, 616), samples[20].rows).all()
    for block in samples.values():
        assert all(np.isfinite(array).all() for array in (block.samples.qd, block.samples.qdd, block.samples.tau))


def test_many_short_segments_are_known_in_one_note():
    log = with_rows_between_gaps(1)
    stamps = log.time + np.where(np.arange(1200) < 700, 0.0, np.arange(1200) - 700.0)
    lone = mindyn.log_from_arrays(ARM.primary_names, stamps, log.q, log.tau)
    notes = mindyn.condition(
        ARM,
        lone,
        Conditioning(rate_hz=200.0),
    ).findings
    known = [note for note in map(str, notes) if "dropped" in note]
    assert len(known) == 1
    assert known[0].startswith("500 segments between gaps, the first of them row 600, (500 rows) dropped")


@pytest.mark.parametrize("shape", [(-1,), (-1, 1), (1, -1)])
def test_a_robot_of_one_joint_is_logged_in_arrays(tmp_path, shape):
    t = np.arange(400) / 200
    np.savez(tmp_path / "log.npz", t=t, q=np.sin(t).reshape(shape), tau=np.cos(t).reshape(shape))
    arm = mindyn.load_robot("scara", lock={"joint2": 0.0, "joint3": 0.0, "joint4": 0.0})
    log = mindyn.read_log(tmp_path / "log.npz", arm, metadata={**STATED, "joints": ["joint1"]})
    assert np.array_equal(log.q, np.sin(t)[:, None])
    assert np.array_equal(log.tau, np.cos(t)[:, None])


def test_time_of_two_columns_is_rejected(tmp_path):
    t = np.arange(400) / 200
    both = np.column_stack([np.sin(t), np.cos(t)])
    np.savez(tmp_path / "log.npz", t=both, q=both, tau=both)
    with raises(LogError, code=Code.WRONG_SHAPE, subject="t"):
        mindyn.read_log(tmp_path / "log.npz", ARM, metadata=STATED)


def test_a_name_that_is_not_utf8_does_not_break_the_error(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "log.h5", "w") as file:
        file.create_dataset(b"t\xff", data=np.arange(400) / 200)
        file.create_dataset("q", data=np.zeros((400, 2)))
    with raises(LogError, code=Code.UNKNOWN_NAME, subject="tau"):
        mindyn.read_log(tmp_path / "log.h5", ARM, metadata=STATED)


def test_stamps_within_clock_resolution_are_equal():
    log = with_rows_between_gaps(1)
    stamps = np.array(log.time)
    stamps[5] = stamps[4] + 1e-12
    created = mindyn.log_from_arrays(ARM.primary_names, stamps, log.q, log.tau)
    assert 5 not in created.rows
    assert len(created) == len(log) - 1


def test_a_folder_is_rejected_as_robot(tmp_path):
    with raises(RobotFileError, code=Code.WRONG_TYPE):
        mindyn.load_robot(tmp_path)


def test_the_sidecar_of_the_current_folder_is_found(tmp_path, monkeypatch):
    (tmp_path / "bag").mkdir()
    (tmp_path / "bag.toml").write_text("")
    monkeypatch.chdir(tmp_path / "bag")
    assert find_sidecar(Path()) == tmp_path / "bag.toml"


def evenly_sampled(stamps):
    t = np.arange(3000) / 500
    q = np.column_stack([np.sin(t) + 0.3 * np.sin(4 * t), np.cos(3 * t)])
    noise = np.random.default_rng(2).normal(scale=1e-6, size=q.shape)
    log = mindyn.log_from_arrays(ARM.primary_names, stamps(t), q + noise, np.cos(q))
    return mindyn.condition(
        ARM,
        log,
        Conditioning(motion_hz=20.0),
    )


BURSTS = {
    "pairs": lambda t: np.where(np.arange(len(t)) % 2, t - 1 / 500 + 1e-4, t),
    "eight at once": lambda t: np.repeat(t[7::8], 8) + np.tile(np.arange(8) * 1e-6, len(t) // 8),
}


@pytest.mark.parametrize("kind", BURSTS)
def test_rows_that_come_in_bursts_are_even(kind):
    clean, result = evenly_sampled(lambda t: t), evenly_sampled(BURSTS[kind])
    assert result.conditioning.rate_hz == 500.0
    assert result.conditioning.stamps == "uniform"
    assert any("in bursts" in note for note in messages(result))
    assert np.array_equal(result.rows, clean.rows)
    for name in ("q", "qd", "qdd"):
        item, other = (getattr(created.samples, name) for created in (result, clean))
        assert np.abs(item - other).max() < 0.01 * np.abs(other).max()


@pytest.mark.parametrize("rows", [120, 200, 400, 404])
@pytest.mark.parametrize("size", [2, 5, 8])
def test_bursts_of_short_logs_are_bursts(rows, size):
    t = np.arange(rows) / 500
    late = t[np.minimum((np.arange(rows) // size + 1) * size, rows) - 1] + np.arange(rows) % size * 1e-6
    assert has_bursts(np.diff(late))
    faster = np.where(np.arange(rows) < rows // 2, t, t[rows // 2] + (t - t[rows // 2]) / 20)
    assert not has_bursts(np.diff(faster))  # two rates, one after the other


def test_a_gap_among_bursts_divides_the_log():
    result = evenly_sampled(lambda t: BURSTS["eight at once"](t) + 2.0 * (np.arange(len(t)) >= 1600))
    assert len(np.unique(result.samples.segments)) == 2
    assert result.conditioning.rate_hz == pytest.approx(500.0, rel=1e-4)


def test_rows_sampled_in_bursts_keep_their_stamps():
    t = BURSTS["pairs"](np.arange(3000) / 500)
    q = np.column_stack([np.sin(t) + 0.3 * np.sin(4 * t), np.cos(3 * t)])
    log = mindyn.log_from_arrays(ARM.primary_names, t, q, np.cos(q))
    samples = mindyn.condition(
        ARM,
        log,
        Conditioning(motion_hz=None, rate_hz=500.0),
    )
    assert samples.conditioning.stamps == "measured"
    assert not any("in bursts" in note for note in messages(samples))


def turning(t):
    return np.column_stack([4.0 * np.sin(0.7 * t), 9.0 * np.cos(0.4 * t)])


def wrap(q):
    return (q + np.pi) % (2 * np.pi) - np.pi


def test_angles_that_wrap_around_are_unwrapped():
    t = np.arange(4000) / 200
    q = turning(t)
    log = mindyn.log_from_arrays(ARM.primary_names, t, wrap(q), np.cos(q))
    jumps = [int((np.abs(np.diff(column)) > 3).sum()) for column in wrap(q).T]
    assert np.allclose(np.diff(log.q, axis=0), np.diff(q, axis=0), atol=1e-12)
    assert all(f"wraps around: {k} jumps by a turn" in note for k, note in zip(jumps, messages(log), strict=True))
    assert min(jumps) > 1
    plain = mindyn.log_from_arrays(ARM.primary_names, t, q, np.cos(q))
    assert messages(plain) == ()
    assert np.array_equal(plain.q, q)


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_angles_are_unwrapped_across_the_chunks_of_a_stream(tmp_path, rows):
    t = np.arange(1500) / 200
    np.savez(tmp_path / "log.npz", t=t, q=wrap(turning(t)), tau=np.cos(turning(t)))
    whole = mindyn.read_log(tmp_path / "log.npz", ARM, metadata=STATED)
    chunks = list(mindyn.scan_log(tmp_path / "log.npz", ARM, metadata=STATED, chunk_rows=rows))
    assert np.array_equal(np.concatenate([chunk.q for chunk in chunks]), whole.q)
    assert np.abs(np.diff(whole.q, axis=0)).max() < 0.1


def test_a_jump_that_is_not_a_full_turn_is_kept():
    t = np.arange(400) / 200
    q = turning(t) + 5.0 * (t > 1)[:, None]
    assert np.array_equal(mindyn.log_from_arrays(ARM.primary_names, t, q, q).q, q)


def test_bursts_that_are_resampled_use_their_stamps():
    t = np.arange(3000) / 500
    q = np.column_stack([np.sin(t) + 0.3 * np.sin(4 * t), np.cos(3 * t)])
    log = mindyn.log_from_arrays(ARM.primary_names, BURSTS["pairs"](t), q, np.cos(q))
    result = mindyn.condition(
        ARM,
        log,
        Conditioning(motion_hz=None, rate_hz=100.0, edge_s=0.1),
    )
    assert result.conditioning.stamps == "measured"
    assert np.abs(result.samples.qd).max() < 1.1 * np.abs(np.gradient(q, 1 / 500, axis=0)).max()
    assert len(result.samples) / 100.0 == pytest.approx(t[-1] - 0.2, abs=0.05)


@pytest.mark.parametrize("rate_hz", [100.0, 250.0, 450.0, 492.5, 1000.0])
@pytest.mark.parametrize("block_rows", [None, 300])
def test_a_log_of_another_rate_than_the_settings_is_interpolated(rate_hz, block_rows):
    settings = evenly_sampled(lambda t: t).conditioning
    assert (settings.stamps, settings.rate_hz) == ("uniform", 500.0)
    t = np.arange(int(6 * rate_hz)) / rate_hz
    q = np.column_stack([np.sin(t) + 0.3 * np.sin(4 * t), np.cos(3 * t)])
    log = mindyn.log_from_arrays(ARM.primary_names, t, q, np.cos(q))
    stream = condition_stream(ARM, log, settings, block_rows=block_rows)
    speeds = np.concatenate([samples.qd for samples in stream])
    start = settings.edge_s + np.arange(len(speeds)) / 500.0
    expected = np.column_stack([np.cos(start) + 1.2 * np.cos(4 * start), -3 * np.sin(3 * start)])
    assert len(speeds) == pytest.approx(500 * (t[-1] - 2 * settings.edge_s), abs=3)
    assert np.abs(speeds - expected).max() < 0.02
    assert any(f"rows at {rate_hz:g} Hz are interpolated to the 500 Hz" in note for note in messages(stream))
