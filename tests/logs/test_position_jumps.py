"""A position that jumps is named with its file before other errors, and no derivative crosses the jump."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from plants.mujoco_arm import random_arm_file, random_drives, record
from raising import raises

import mindyn
from mindyn.foundation.errors import Code
from mindyn.foundation.findings import Kind
from mindyn.logs.log import log_from_arrays
from mindyn.logs.log_errors import LogError
from mindyn.logs.number_checks import check_units
from mindyn.logs.segments import StepLimits, split_at_gaps


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    rng = np.random.default_rng(4)
    true, _ = random_arm_file(rng, 3, tmp_path_factory.mktemp("arm"))
    return mindyn.load_robot(true), record(true, random_drives(rng, true), rng, seconds=16.0, sines=3)


def with_jumps(rec, size=2.0):
    """Return positions that are wrong by `size` rad for a second, twice."""
    q = rec.q.copy()
    q[400:500, 1] += size
    q[900:1000, 2] -= size
    return q


def test_a_log_with_jumps_gives_the_model_of_its_parts(recording, monkeypatch):
    robot, rec = recording
    jumping = log_from_arrays(robot.joint_names, rec.time, with_jumps(rec), rec.tau)
    by_hand = [jumping.take(slice(a, b)) for a, b in pairwise((0, 400, 500, 900, 1000, 1600))]
    sound = log_from_arrays(robot.joint_names, rec.time, rec.q, rec.tau)

    def error_of(logs):
        estimate = mindyn.identify(robot, logs, mindyn.LeastSquares(), mindyn.EquationSettings())
        return mindyn.validate(estimate, sound).error.total

    error = error_of(jumping)
    assert error == pytest.approx(error_of(by_hand), rel=0.05)
    monkeypatch.setattr("mindyn.logs.pipeline.split_speeds", lambda *_: np.full(3, np.inf))
    assert error_of(jumping) > 1.2 * error


@pytest.mark.parametrize("chunk", [7, 100, 1600])
def test_segments_end_at_jumps_whatever_the_chunks(recording, chunk):
    robot, rec = recording
    log = log_from_arrays(robot.joint_names, rec.time, with_jumps(rec), rec.tau)
    chunks = [log.take(slice(k, k + chunk)) for k in range(0, len(log), chunk)]
    limits = StepLimits(0.05, np.full(3, 50.0), 0.01)
    rows = {}
    for piece in split_at_gaps(chunks, limits):
        rows.setdefault(piece.segment, []).extend(piece.rows.rows.tolist())
    assert [len(found) for found in rows.values()] == [400, 100, 400, 100, 600]


def test_jittering_stamps_are_no_jumps(recording):
    robot, rec = recording
    time = rec.time.copy()
    time[1::2] -= 0.0099
    log = replace(log_from_arrays(robot.joint_names, rec.time, rec.q, rec.tau), time=time)
    assert len(list(split_at_gaps([log], StepLimits(0.05, np.full(3, 50.0), 0.01)))) == 1


def test_jumps_are_named_with_the_file_although_velocities_disagree(recording, tmp_path):
    robot, rec = recording
    q = with_jumps(rec, size=40.0)
    columns = {"time": rec.time}
    for signal, values in (("q", q), ("qd", rec.qd), ("tau", rec.tau)):
        columns |= {f"{signal}{i + 1}": values[:, i] for i in range(3)}
    pl.DataFrame(columns).write_csv(tmp_path / "run7.csv")
    metadata = {
        "columns": {"time": "time", "position": "q{i}", "velocity": "qd{i}", "torque": "tau{i}"},
        "units": {"time": "s", "position": "rad", "velocity": "rad/s", "torque": "N m"},
        "side": "joint",
        "accept": ["degrees"],
    }
    log = mindyn.read_log(tmp_path / "run7.csv", robot, metadata=metadata)
    jumps = [finding for finding in log.findings if finding.kind is Kind.POSITION_JUMP]
    assert len(jumps) == 2
    assert all("of run7.csv" in finding.message for finding in jumps)


def test_a_wrong_unit_of_the_velocity_is_still_found(recording):
    robot, rec = recording
    log = log_from_arrays(robot.joint_names, rec.time, with_jumps(rec), rec.tau)
    with raises(LogError, Code.WRONG_UNIT, "velocity"):
        check_units(replace(log, qd=57.3 * rec.qd), robot, ())
