"""Filtered windows take every row between the edges of segments once, with all rows that their filter depends on.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from types import SimpleNamespace

import numpy as np
import pytest
from closeness import EXACT, SAME_ALGEBRA, assert_close
from raising import raises
from scipy.signal import butter, sosfiltfilt

import mindyn
from mindyn.foundation.errors import Code, InputError
from mindyn.logs.samples import Samples
from mindyn.regression.regressor import Regressor, _joint_scales, with_estimated_drives
from mindyn.regression.row_blocks import (
    SampleSegment,
    _filter_windows,
    gather,
    require_enough_rows,
    require_joints,
    windows,
)
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Drive


def samples_of(rows, joints=2, segments=None, rate_hz=100.0, seed=0):
    arrays = np.random.default_rng(seed).normal(size=(4, rows, joints))
    numbers = np.zeros(rows, dtype=np.int64) if segments is None else np.asarray(segments)
    return Samples(("a", "b")[:joints], *arrays, rate_hz, numbers)


@pytest.mark.parametrize(
    ("decimation", "inner", "begun"), [(1, range(0, 500), 0), (3, range(40, 420), 0), (4, range(7, 500), 2)]
)
def test_windows_take_every_row_between_the_edges_once(decimation, inner, begun, monkeypatch):
    monkeypatch.setattr("mindyn.regression.row_blocks.FILTERED_ROWS", 60)
    monkeypatch.setattr("mindyn.regression.row_blocks.settling_rows", lambda *_: 20)
    samples = samples_of(500, segments=np.repeat([0, 1, 2], [200, 15, 285]))
    segment_rows = SampleSegment(samples, inner, begun)
    for cutoff in (None, 5.0):
        result = list(windows(segment_rows, cutoff, decimation))
        taken = [row for item in result for row in item.kept_rows]
        edge = 0 if cutoff is None else 10
        expected = []
        for start, stop in ((0, 200), (200, 215), (215, 500)):
            since = begun if start == 0 else 0
            rows = [r for r in range(start, stop) if start + edge <= r < stop - edge and r in inner]
            expected += [r for r in rows if decimation == 1 or (r - start + since) % decimation == 0]
        assert taken == expected
        assert all(len(item.kept_rows) for item in result)
        if cutoff is not None:
            for entry in result:
                segment = next(
                    ends for ends in ((0, 200), (200, 215), (215, 500)) if ends[0] <= entry.kept_rows[0] < ends[1]
                )
                first = entry.kept_rows[0] - (entry.kept_rows[0] - max(segment[0] + 10, inner.start)) % 60
                assert entry.first == max(segment[0], first - 20)
                assert entry.last == min(segment[1], first + 60 + 20)
    assert list(_filter_windows(segment_rows, (200, 215), 5.0, decimation, 10)) == []


def test_samples_of_other_joints_are_rejected():
    regressor = SimpleNamespace(joint_names=("x", "y"), unforced=(), width=lambda i: (3, 4)[i])
    require_joints(SimpleNamespace(joint_names=("a", "b")), samples_of(3))
    with raises(InputError, Code.DISAGREEMENT, "joint_names"):
        require_joints(regressor, samples_of(3))
    still = np.zeros((2, 2))
    with raises(InputError, Code.NOT_IDENTIFIABLE, "x") as rejected:
        require_enough_rows(regressor, (9, 9), still)
    assert "--lock x=" in rejected.value.hint
    with raises(InputError, Code.NOT_IDENTIFIABLE, "x"):
        require_enough_rows(regressor, (9, 9), np.array([[0.0, 0.0], [0.0, 1.0]]))
    with raises(InputError, Code.TOO_LITTLE_DATA, "x"):
        require_enough_rows(regressor, (3, 4), np.array([[0.0, 0.0], [1.0, 1.0]]))


def test_joints_without_a_drive_get_one_to_be_estimated():
    robot = load_robot("planar2")
    second = robot.joint_names[1]
    stated = replace(robot, drives=(Drive(second, 50.0, side="motor"),))
    drives = with_estimated_drives(stated).drives
    assert [drive.joint for drive in drives] == list(robot.joint_names)
    assert [(drive.ratio, drive.side) for drive in drives] == [(1.0, "joint"), (50.0, "motor")]
    assert_close(_joint_scales(replace(robot, drives=drives)), [1.0, 50.0], EXACT)
    sides = replace(robot, drives=(Drive(second, 50.0, side="joint"),))
    assert_close(_joint_scales(sides), [1.0], EXACT)


RATE = 200.0


ROBOT = mindyn.load_robot("planar2")


def two_segments(lengths=(700, 500), seed=0):
    """Torques that fit no model, so that every row counts in the residual."""
    rng = np.random.default_rng(seed)
    count = sum(lengths)
    q, qd, qdd, tau = rng.standard_normal((4, count, 2))
    return mindyn.Samples(ROBOT.joint_names, q, qd, qdd, tau, RATE, np.repeat([0, 1], lengths))


@pytest.mark.parametrize("cutoff_hz", [2.0, 5.0, 20.0])
@pytest.mark.parametrize("decimation", [1, 3])
def test_equations_are_the_filtered_rows_between_the_edges(cutoff_hz, decimation):
    """max(0.1 s, half a period of the cut-off) are cut at both ends of both segments; the rest adds up as R factors."""
    samples, regressor = two_segments(), Regressor(ROBOT)
    information = gather(regressor, samples, cutoff_hz=cutoff_hz, decimation=decimation)
    edge = ceil(max(0.1, 0.5 / cutoff_hz) * RATE)
    taken = [
        np.arange(a, b)[edge : b - a - edge][(-edge) % decimation :: decimation] for a, b in ((0, 700), (700, 1200))
    ]
    assert information.counts == tuple([sum(map(len, taken))] * 2)
    Y = mindyn.compile_model(ROBOT, base=regressor.base, with_drives=regressor.base.with_drives).regressor(
        samples.q, samples.qd, samples.qdd
    )
    sections = butter(4, cutoff_hz, fs=RATE, output="sos")
    rows = np.concatenate([Y, samples.tau[:, :, None]], axis=2)
    smooth = np.concatenate(
        [sosfiltfilt(sections, rows[a:b], axis=0, padlen=ceil(RATE / cutoff_hz)) for a, b in ((0, 700), (700, 1200))]
    )
    for joint, (columns, factor) in enumerate(zip(information.columns, information.factors, strict=True)):
        expected = smooth[np.concatenate(taken), joint][:, [*columns, -1]]
        assert_close(factor.T @ factor, expected.T @ expected, SAME_ALGEBRA * 100)
