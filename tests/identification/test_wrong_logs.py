"""Logs that are wrong without looking wrong: the estimate says so; sound logs pass without a word."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from estimators.recovered import smooth_samples
from honesty.spoiled import visible_findings
from messages import messages
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.findings import Kind
from mindyn.logs.log import log_from_arrays
from mindyn.logs.metadata import LogMetadata
from mindyn.regression.regressor import with_estimated_drives
from mindyn.regression.settings import EquationSettings
from mindyn.robots.drive_matrices import gear_matrix

FIT = mindyn.LeastSquares()
PLAIN = mindyn.Conditioning(motion_hz=20.0, edge_s=0.1)


def sound(name="puma560", rows=2000):
    robot = mindyn.load_robot(name)
    samples = smooth_samples(with_estimated_drives(robot), rows, 1)
    noise = 0.01 * samples.tau.std(axis=0) * np.random.default_rng(0).standard_normal(samples.tau.shape)
    time = np.arange(rows) / samples.rate_hz
    return robot, log_from_arrays(robot.joint_names, time, samples.q, samples.tau + noise)


def visible(robot, log, settings=PLAIN):
    """Errors and warnings that a user sees."""
    return visible_findings(mindyn.identify(robot, log, FIT, EquationSettings(settings)))


@pytest.mark.parametrize("name", ["puma560", "puma560_fgl", "ur10", "panda", "scara", "planar2"])
def test_a_sound_log_raises_no_question(name):
    assert visible(*sound(name)) == []


def test_noise_above_the_torque_of_a_wrist_is_not_a_finding():
    robot, log = sound()
    noise = np.random.default_rng(1).standard_normal(log.tau.shape) * np.array([0, 0, 0, 1, 1, 3])
    estimate = mindyn.identify(
        robot, replace(log, tau=log.tau + noise * log.tau.std(axis=0)), FIT, EquationSettings(PLAIN)
    )
    assert estimate.data.residuals[5].rms > 0.9 * estimate.data.residuals[5].rms_torque
    assert messages(estimate) == ()


@pytest.mark.parametrize("name", ["puma560", "scara"])
@pytest.mark.parametrize("joint", range(4))
def test_a_reversed_torque_is_named(name, joint):
    robot, log = sound(name)
    signs = np.where(np.arange(robot.joint_count) == joint, -1.0, 1.0)
    result = visible(robot, replace(log, tau=log.tau * signs))
    assert [(item.kind, item.joints) for item in result] == [(Kind.WRONG_TORQUE_SIGN, (robot.joint_names[joint],))]


def test_swapped_positions_leave_torque_unexplained():
    robot, log = sound()
    swapped = log.q[:, [0, 2, 1, 3, 4, 5]]
    findings = mindyn.identify(robot, replace(log, q=swapped), FIT, EquationSettings(PLAIN)).findings
    (result,) = [finding for finding in findings if finding.kind == Kind.UNEXPLAINED_TORQUE]
    assert "joint2" in result.joints
    assert "the order of the columns" in result.remedy


@pytest.mark.parametrize(("factor", "words"), [(1e3, "in mN m"), (1e-3, 'in N m where "mN m" is given')])
def test_torques_a_thousand_times_off_are_noticed_without_effort_limits(factor, words):
    robot, log = sound("puma560_fgl")
    (result,) = visible(robot, replace(log, tau=factor * log.tau))
    assert words in result.remedy
    unknown = replace(robot, links=tuple(replace(link, phi=None) for link in robot.links))
    (result,) = visible(unknown, replace(log, tau=factor * log.tau))
    assert result.kind == Kind.IMPLAUSIBLE_WEIGHT


def test_a_log_without_motion_raises():
    robot, log = sound("planar2", 600)
    still = 0.3 + 1e-5 * np.random.default_rng(0).standard_normal(log.q.shape)
    with raises(InputError, Code.TOO_LITTLE_DATA, "position"):
        mindyn.identify(robot, replace(log, q=still))


@pytest.mark.parametrize("change", ["still but one", "one torque", "no torque", "slow", "huge"])
def test_no_log_ends_in_an_error_of_linear_algebra(change):
    robot, log = sound("planar2", 600)
    half = np.array([1.0, 0.0])
    changed = {
        "still but one": {"q": log.q * half},
        "one torque": {"tau": log.tau * half},
        "no torque": {"tau": 0 * log.tau},
        "slow": {"time": 1e3 * log.time},
        "huge": {"q": np.where(np.arange(600)[:, None] == 300, 1e100, log.q)},
    }[change]
    if change in ("one torque", "slow"):
        assert np.isfinite(mindyn.identify(robot, replace(log, **changed)).beta).all()
    else:
        codes = (Code.NOT_IDENTIFIABLE, Code.OUT_OF_RANGE, Code.TOO_LITTLE_DATA)
        with raises(InputError, codes) as raised:
            mindyn.identify(robot, replace(log, **changed))
        assert raised.value.hint


def test_gears_of_the_log_couple_the_drives_of_a_robot_without():
    geared = mindyn.load_robot("puma560_yoshida")
    geared = replace(geared, drives=tuple(replace(drive, side="motor") for drive in geared.drives))
    samples = smooth_samples(geared, 1500, 2)
    log = log_from_arrays(geared.joint_names, np.arange(1500) / samples.rate_hz, samples.q, samples.tau)
    driven = [drive.joint for drive in geared.drives]
    G = gear_matrix(geared)[[driven.index(name) for name in geared.joint_names]]
    log = replace(log, metadata=LogMetadata(side="motor", gears=G.tolist()))
    bare = replace(geared, drives=())
    result, known = (mindyn.identify(robot, log, FIT, EquationSettings(PLAIN)) for robot in (bare, geared))
    assert result.names == known.names
    np.testing.assert_allclose(result.beta, known.beta, rtol=1e-6, atol=1e-9)
    assert str(messages(result)[0]).startswith("friction and rotors are coupled by the log's gears: joint5 with")
    assert not [note for note in messages(known) if "gears" in str(note)]


def test_gears_unlike_the_drives_are_noted():
    robot, log = sound("planar2", 600)
    (result,) = visible(robot, replace(log, metadata=LogMetadata(side="motor", gears=[[100.0, 0.0], [7.0, 100.0]])))
    assert result.kind == Kind.GEARS


def test_pushes_in_a_log_are_named_and_noise_is_not():
    robot, log = sound()
    pushed = log.tau.copy()
    for start in (400, 1500):
        pushed[start : start + 30] += 3 * log.tau.std(axis=0) * np.hanning(30)[:, None]
    (result,) = visible(robot, replace(log, tau=pushed))
    assert result.kind == Kind.CONTACT
    assert result.value == 2
    assert "joint1" in result.joints
