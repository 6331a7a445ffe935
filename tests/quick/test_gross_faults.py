"""The whole chain on one arm that MuJoCo simulates: values, intervals, bands, errors, files, payload and motions.

Each test compares with MuJoCo, Pinocchio, NumPy or the true parameters, so that a factor in any of these results is
seen within seconds.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from cli.program import mindyn_program
from plants.mujoco_arm import Drives, random_arm_file, random_drives, record

import mindyn
from mindyn.applications import contact_thresholds, contact_trace, find_contacts
from mindyn.cli.exit_codes import ExitCode
from mindyn.foundation.findings import Severity
from mindyn.identification import torque_bands
from mindyn.logs.log import log_from_arrays

NOISE = 0.02
LOAD_KG = 1.3
LOAD = '<body name="load"><inertial pos="0.04 0.01 0.02" mass="{}" diaginertia="1e-3 1e-3 1e-3"/></body>'
LAST_JOINT = 'range="-2.6 2.6" limited="true"/>'


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    """Return the MJCF files of an arm, the true one and one with wrong masses, and its drives."""
    rng = np.random.default_rng(5)
    true, file = random_arm_file(rng, 4, tmp_path_factory.mktemp("arm"), mass_error=0.1)
    return true, file, random_drives(rng, true)


def take_log(path: str, drives: Drives, seed: int, joint_names, seconds: float = 15.0):
    """Return a log of MuJoCo's arm, and its recording without noise."""
    rng = np.random.default_rng(seed)
    recording = record(path, drives, rng, seconds=seconds)
    return log_from_arrays(joint_names, recording.time, recording.q, add_noise(recording.tau, rng)), recording


def add_noise(tau, rng):
    return tau + NOISE * np.sqrt((tau**2).mean(axis=0)) * rng.standard_normal(tau.shape)


@pytest.fixture(scope="module")
def robot(plant):
    return mindyn.load_robot(plant[1])


@pytest.fixture(scope="module")
def training(plant, robot):
    return take_log(plant[0], plant[2], 1, robot.joint_names)


@pytest.fixture(scope="module")
def estimate(robot, training):
    return mindyn.identify(robot, training[0])


@pytest.fixture(scope="module")
def other(plant, robot):
    return take_log(plant[0], plant[2], 2, robot.joint_names, 8.0)


def test_a_sound_log_has_no_error_and_the_weight_of_the_true_arm(estimate, other):
    assert not [finding for finding in estimate.findings if finding.severity is Severity.ERROR]
    q, still = other[1].q[::50], np.zeros_like(other[1].q[::50])
    Y = estimate.regressor.dense(estimate.regressor.parts(q, still, still, still))
    weights = Y @ np.where(estimate.regressor.rigid, estimate.beta, 0.0)
    true = other[1].weight[::50]
    assert np.sqrt(((weights - true) ** 2).sum() / (true**2).sum()) < 0.03


def test_deviations_are_those_between_recordings(robot, training, estimate):
    """Other noise on the same motion moves the values by about their stated deviations."""
    rng, (log, recording) = np.random.default_rng(9), training
    logs = [replace(log, tau=add_noise(recording.tau, rng)) for _ in range(6)]
    fits = [mindyn.identify(robot, again, mindyn.LeastSquares(), estimate.settings) for again in logs]
    between = np.std([fit.beta for fit in fits], axis=0, ddof=1)
    stated = fits[0].deviations
    known = np.isfinite(stated) & (between > 0)
    assert 0.6 < np.median(stated[known] / between[known]) < 6.0


def test_deviations_include_noise_that_lasts(robot, training, estimate):
    """Slow noise moves the values much more than white noise of the same size: the jackknife must show it."""
    rng, (log, recording) = np.random.default_rng(11), training

    def add_slow_noise(tau):
        steps = rng.standard_normal(tau.shape)
        for k in range(1, len(steps)):
            steps[k] = 0.98 * steps[k - 1] + 0.2 * steps[k]
        return tau + NOISE * np.sqrt((tau**2).mean(axis=0)) * steps

    logs = [replace(log, tau=add_slow_noise(recording.tau)) for _ in range(6)]
    fits = [mindyn.identify(robot, again, mindyn.LeastSquares(), estimate.settings) for again in logs]
    between = np.std([fit.beta for fit in fits], axis=0, ddof=1)
    stated = np.median([fit.deviations for fit in fits], axis=0)
    known = np.isfinite(stated) & (between > 0)
    assert 0.5 < np.median(stated[known] / between[known]) < 5.0


def test_a_band_contains_the_torque_of_another_motion(estimate, other):
    log, recording = other
    samples = estimate.samples_of(log)
    lower, upper = torque_bands(estimate, samples, noise=True)
    inside = (lower <= samples.tau) & (samples.tau <= upper)
    assert 0.75 < inside.mean() < 1.0  # friction around zero velocity is not in the band
    assert (np.median(upper - lower, axis=0) < 0.5 * np.sqrt((recording.tau**2).mean(axis=0))).all()


def test_the_error_is_that_of_the_arrays(estimate, other):
    validation = mindyn.validate(estimate, other[0])
    (prediction,) = validation.predictions
    left = (prediction.measured - prediction.predicted)[prediction.scored]
    power = prediction.measured[prediction.scored]
    np.testing.assert_allclose(validation.error.rmse, np.sqrt((left**2).mean(axis=0)), rtol=1e-6)
    assert validation.error.total == pytest.approx(np.sqrt((left**2).sum() / (power**2).sum()), rel=1e-6)
    np.testing.assert_allclose(
        validation.error.relative, np.sqrt((left**2).sum(axis=0) / (power**2).sum(axis=0)), rtol=1e-6
    )
    assert 0.5 * NOISE < validation.error.total < 4 * NOISE


def test_a_report_shows_the_error_of_the_held_out_log(training, estimate, other, tmp_path):
    """The bar of a joint is as long as the part of its torque that is explained; here a third is missed."""
    wrong = replace(other[0], tau=1.5 * other[0].tau)
    page = mindyn.write_report(
        estimate, tmp_path / "report.html", validation_logs=wrong, training_logs=training[0]
    ).read_text()
    (prediction,) = mindyn.validate(estimate, wrong).predictions
    measured, predicted = prediction.measured[prediction.scored], prediction.predicted[prediction.scored]
    missed = np.linalg.norm(measured - predicted, axis=0) / np.linalg.norm(measured, axis=0)
    assert ((missed > 0.25) & (missed < 0.45)).all()
    bars = [float(width) for width in re.findall(r'<rect width="([0-9.]+)" height="1"', page)]
    np.testing.assert_allclose(bars, 100 * (1 - missed), atol=0.06)


def test_a_push_is_a_contact_with_its_joint_sign_and_size(robot, training, estimate, other):
    log, thresholds = other[0], contact_thresholds(estimate, [training[0]])
    joint, size = robot.joint_names[1], 0.4 * np.sqrt((log.tau**2).mean(axis=0))[1]
    pushed = log.tau - size * ((log.time > 4.0) & (log.time < 4.6))[:, None] * (np.arange(4) == 1)
    traces = [contact_trace(estimate, replace(log, tau=tau), thresholds) for tau in (log.tau, pushed)]
    none, contacts = ([item for item in find_contacts(trace, robot) if joint in item.joints] for trace in traces)
    assert not none
    (contact,) = contacts
    assert contact.joints[joint] == 1
    assert contact.start_s == pytest.approx(4.0, abs=0.2)
    assert contact.torque[joint] == pytest.approx(size, rel=0.3)


def test_the_exit_code_says_whether_a_robot_can_have_the_values(estimate, tmp_path):
    feasible = mindyn.make_feasible(estimate)
    for folder, values, code in (
        ("good", feasible, ExitCode.DONE),
        ("bad", estimate.with_values(beta=-estimate.beta, physical=None), ExitCode.NO),
    ):
        (tmp_path / folder).mkdir()
        values.save(tmp_path / folder / "estimate.json")
        assert mindyn_program("check", tmp_path / folder).code == code


def test_an_exported_robot_has_the_weight_of_the_true_arm_in_pinocchio(estimate, other, tmp_path):
    mindyn.write_urdf(mindyn.make_feasible(estimate), tmp_path / "arm.urdf")
    model = pin.buildModelFromUrdf(str(tmp_path / "arm.urdf"))
    data, recording = model.createData(), other[1]
    weights = np.array([pin.computeGeneralizedGravity(model, data, q) for q in recording.q[::50]])
    true = recording.weight[::50]
    assert np.sqrt(((weights - true) ** 2).sum() / (true**2).sum()) < 0.05


def test_a_payload_has_its_mass(plant, robot, estimate, tmp_path):
    text = Path(plant[0]).read_text()
    at = text.rindex(LAST_JOINT) + len(LAST_JOINT)
    (tmp_path / "loaded.xml").write_text(text[:at] + LOAD.format(LOAD_KG) + text[at:])
    log, _ = take_log(str(tmp_path / "loaded.xml"), plant[2], 1, robot.joint_names)
    assert mindyn.identify_payload(estimate, log).mass == pytest.approx(LOAD_KG, rel=0.1)


def test_a_motion_keeps_floor_and_speed_by_the_kinematics_of_pinocchio():
    robot = replace(mindyn.load_robot("ur10"), drives=())
    safety = mindyn.SafetySettings(tip_speed=0.6)
    search = mindyn.SearchSettings(starts=1, deadline_s=60.0)
    design = mindyn.design_motion(robot, seconds=10.0, safety=safety, search=search)
    q, qd = np.array([design.motion(t)[:2] for t in np.linspace(0, 10.0, 500)]).transpose(1, 0, 2)
    model = mindyn.to_pinocchio(robot)
    data, last = model.createData(), model.njoints - 1
    fastest, lowest = 0.0, np.inf
    for position, speed in zip(q, qd, strict=True):
        pin.forwardKinematics(model, data, position, speed)
        wrist = pin.getVelocity(model, data, last, pin.LOCAL_WORLD_ALIGNED).linear
        fastest = max(fastest, float(np.linalg.norm(wrist)))
        lowest = min(lowest, *(float(data.oMi[k].translation[2]) for k in range(3, model.njoints)))
    assert 0.02 < fastest < 0.65
    assert lowest > 0.03


def test_a_motion_keeps_its_clearance_by_the_kinematics_of_pinocchio():
    """The origins of the joints lie inside the links, and the links stay a quarter of a metre above the floor."""
    robot = replace(mindyn.load_robot("ur10"), drives=())
    safety = mindyn.SafetySettings(tip_speed=3.0, clearance_m=0.25, floor=0.0)
    search = mindyn.SearchSettings(starts=1, deadline_s=60.0)
    motion = mindyn.MotionSettings(home=[0.0, -2.0, 1.8, -1.2, 0.5, 0.0])
    design = mindyn.design_motion(robot, seconds=10.0, motion=motion, safety=safety, search=search)
    model = mindyn.to_pinocchio(robot)
    data, heights = model.createData(), []
    for t in np.linspace(0, 10.0, 500):
        pin.forwardKinematics(model, data, design.motion(t)[0])
        heights += [float(data.oMi[k].translation[2]) for k in range(3, model.njoints)]
    assert 0.25 < min(heights) < 0.7
    assert max(heights) > min(heights) + 0.2


def test_an_unsafe_design_says_that_it_was_not_checked():
    robot, search = mindyn.load_robot("ur10"), mindyn.SearchSettings(starts=1, deadline_s=3.0)
    safety = mindyn.SafetySettings(self_collision=False, floor=None)
    design = mindyn.design_motion(robot, seconds=8.0, safety=safety, search=search)
    assert [finding for finding in design.findings if finding.severity is Severity.ERROR]
