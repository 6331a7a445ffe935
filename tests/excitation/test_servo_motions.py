"""Motions for position servos: a log of targets and positions of the designed motion gives the four values."""

from __future__ import annotations

import numpy as np
import pytest
from cli.program import mindyn_program
from plants.mujoco_servo import JOINTS, random_plant, simulate_plant, write_arm

import mindyn
from mindyn.cli.exit_codes import ExitCode
from mindyn.foundation.findings import Kind
from mindyn.logs import log_from_targets

SAFETY = mindyn.SafetySettings(floor=None, accept_unchecked=("turret", "upper", "fore"))
SEARCH = mindyn.SearchSettings(starts=1)


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    return mindyn.load_robot(write_arm(tmp_path_factory.mktemp("arm")))


def design(arm, velocity, seconds):
    limits = mindyn.MotionLimits.of(arm, lower=-1.2, upper=1.2, velocity=velocity, acceleration=30.0, effort=3.0)
    return mindyn.design_motion(
        arm,
        seconds=seconds,
        purpose="servo",
        limits=limits,
        safety=SAFETY,
        log=mindyn.ExpectedLog(rate_hz=50.0),
        search=SEARCH,
    )


@pytest.fixture(scope="module")
def motion(arm):
    return design(arm, 4.0, 120.0)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_log_of_the_motion_gives_the_four_values(arm, motion, seed):
    plant = random_plant(np.random.default_rng(seed))
    target, _, _, t = motion.sample(50.0)
    q = np.round(simulate_plant(plant, target, 50.0) / 0.0015) * 0.0015
    estimate = mindyn.identify_servos(arm, log_from_targets(JOINTS, t, q, target, "unknown"))
    true = np.column_stack([plant.kp, plant.kd, plant.fc, plant.ia])
    assert estimate.has_scale.tolist() == [False, True, True]
    np.testing.assert_allclose(estimate.values[1:, :3], true[1:, :3], rtol=0.1)
    factors = estimate.values[1:, 3] / true[1:, 3]
    assert ((factors > 0.5) & (factors < 2)).all()
    ratios, expected = estimate.values[0] / estimate.kp[0], true[0] / plant.kp[0]
    np.testing.assert_allclose(ratios[1:3], expected[1:3], rtol=0.1)
    # MuJoCo's soft friction may be found to change with speed, which is an information.
    assert {finding.kind for finding in estimate.findings} - {Kind.MISSING_FRICTION} == {Kind.FREE_SCALE}


def test_the_motion_is_fast_reverses_often_and_changes_gravity(arm, motion):
    q, qd, _, _ = motion.sample(50.0)
    assert (np.abs(qd).max(axis=0) > 0.5).all()
    assert (np.abs(qd).max(axis=0) <= 2.0 + 1e-6).all()  # half of the speed limit
    assert ((np.diff(np.sign(qd), axis=0) != 0).sum(axis=0) > 20).all()
    gravity = mindyn.compile_model(arm).gravity(q)
    assert (np.ptp(gravity[:, 1:], axis=0) > 0.15).all()
    assert Kind.SLOW_MOTION not in {finding.kind for finding in motion.findings}
    assert 0 < motion.rehearsal_speed <= 1


def test_the_prediction_is_that_of_servo_values(motion):
    predicted = dict(zip(motion.prediction.names, motion.prediction.relative, strict=True))
    assert len(predicted) == 12
    assert predicted["kd/kp lift"] < 0.1
    assert predicted["kp lift"] < 0.1
    assert not predicted["kp pan"] < 0.1  # no gravity
    assert not motion.levers


def test_a_motion_that_must_be_slow_is_one_finding(arm):
    slow = [f for f in design(arm, 0.4, 30.0).findings if f.kind is Kind.SLOW_MOTION]
    assert [finding.joints for finding in slow] == [JOINTS]


def test_the_command_designs_two_minutes_and_a_rehearsal(tmp_path):
    robot = write_arm(tmp_path)
    limits = tmp_path / "limits.toml"
    limits.write_text("lower = -1.2\nupper = 1.2\nvelocity = 4.0\nacceleration = 30.0\neffort = 3.0\n")
    parts = ("--starts", 1, "--deadline-s", 2.0, "--rate-hz", 50, "--no-floor", "--out", tmp_path / "motion")
    unchecked = [word for link in ("turret", "upper", "fore") for word in ("--accept-unchecked", link)]
    ended = mindyn_program("excite", robot, "--for", "servo", "--limits", limits, *parts, *unchecked)
    assert ended.code == ExitCode.DONE
    assert "A motion of 120 s" in ended.out
    assert (tmp_path / "motion" / "rehearsal.csv").is_file()
