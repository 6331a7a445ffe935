"""Elastic joints of arms that MuJoCo simulates: intervals contain the true compliance, or it is not stated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from closeness import ROUND_TRIP, SAME_ALGEBRA, assert_close
from plants.mujoco_arm import random_arm_file, random_drives
from plants.mujoco_elastic_arm import Elastic, plan_motion, record_elastic
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, InputError
from mindyn.identification import identify_elasticity, load_elasticity, predict_deflection
from mindyn.identification.elasticity.hysteresis import dahl_states
from mindyn.logs.metadata import LogMetadata

NOISE_RAD = 1e-5


class Case:
    """A robot of MuJoCo with elastic joints, its log without motor positions, and its recording."""

    def __init__(
        self, folder: Path, seed: int, joints: int, *, hysteresis: float = 0.0, vertical: bool = False
    ) -> None:
        rng = np.random.default_rng(seed)
        path, _ = random_arm_file(rng, joints, folder)
        while vertical is not _has_vertical_axis(path):
            path, _ = random_arm_file(rng, joints, folder)
        drives = random_drives(rng, path)
        motion, torque = plan_motion(path, rng, 1.0, 14.0)
        self.compliance = 2e-3 / torque
        damping = 0.1 * np.sqrt(drives.armature / self.compliance)
        elements = (hysteresis * torque, 0.1 * torque * self.compliance, np.zeros(joints))
        elastic = Elastic(1 / self.compliance, damping, *elements)
        self.recording = record_elastic(path, drives, elastic, motion, seconds=14.0, step_s=2e-4)
        self.robot = mindyn.load_robot(path)
        self.q, self.motor_q = (
            values + NOISE_RAD * rng.standard_normal(values.shape)
            for values in (self.recording.q, self.recording.motor_q)
        )
        self.tau = self.recording.tau * (1 + 0.01 * rng.standard_normal(self.q.shape))
        self.estimate = mindyn.identify(self.robot, self.log())

    def log(self, motor_q=None, tau=None):
        """Return the log, with motor positions if they are given."""
        tau = self.tau if tau is None else tau
        return mindyn.log_from_arrays(self.robot, self.recording.time, self.q, tau, motor_q=motor_q)


def _has_vertical_axis(path: str) -> bool:
    return 'euler="0 0 0"' in Path(path).read_text().split("<joint")[0]


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    return Case(tmp_path_factory.mktemp("arm"), 5, 2)


@pytest.fixture(scope="module")
def elasticity(arm):
    return identify_elasticity(arm.estimate, arm.log(arm.motor_q))


def covers(joint, truth):
    low, high = joint.compliance_interval
    return low <= truth <= high


def test_intervals_contain_the_compliance_of_a_mujoco_spring(arm, elasticity):
    for joint, truth in zip(elasticity.joints, arm.compliance, strict=True):
        assert joint.state == "determined"
        assert covers(joint, truth)
        assert abs(joint.compliance / truth - 1) < 0.05
        assert joint.stiffness_interval[0] < 1 / truth < joint.stiffness_interval[1]


def test_deflections_are_predicted(arm, elasticity):
    prediction = predict_deflection(elasticity, arm.estimate, arm.log(arm.motor_q))
    assert (prediction.error < 0.1).all()


def test_hysteresis_widens_intervals_and_does_not_bias_them(tmp_path):
    case = Case(tmp_path, 6, 2, hysteresis=0.2)
    joints = identify_elasticity(case.estimate, case.log(case.motor_q)).joints
    assert all(covers(joint, truth) for joint, truth in zip(joints, case.compliance, strict=True))


def test_no_stiffness_of_a_vertical_axis(tmp_path):
    """Its torque is proportional to its acceleration: any rotor inertia explains the same deflection."""
    case = Case(tmp_path, 7, 1, vertical=True)
    (joint,) = identify_elasticity(case.estimate, case.log(case.motor_q)).joints
    assert joint.state == "not separable"
    assert "rotor inertia" in joint.reason
    assert np.isnan(joint.stiffness)


def test_no_stiffness_of_rigid_joints(arm):
    rng = np.random.default_rng(0)
    motor = arm.recording.q + NOISE_RAD * rng.standard_normal(arm.q.shape)
    elasticity = identify_elasticity(arm.estimate, arm.log(motor))
    assert not any(joint.is_determined for joint in elasticity.joints)
    assert np.isinf(elasticity.stiffness).all()


def test_a_time_offset_between_encoders_is_no_compliance(arm):
    late = np.column_stack([np.interp(arm.recording.time + 0.003, arm.recording.time, c) for c in arm.motor_q.T])
    joints = identify_elasticity(arm.estimate, arm.log(late)).joints
    for joint, truth in zip(joints, arm.compliance, strict=True):
        assert abs(joint.time_offset_s - 0.003) < 3e-4
        assert covers(joint, truth)


def test_joint_torque_sensors(arm):
    """The measured torque replaces the prediction, which is its instrument; the rotor inertia is not in it."""
    rng = np.random.default_rng(1)
    size = arm.recording.through.std(axis=0)
    log = arm.log(arm.motor_q, arm.recording.through + 0.02 * size * rng.standard_normal(arm.q.shape))
    joints = identify_elasticity(arm.estimate, replace(log, metadata=LogMetadata(torque_sensor=True))).joints
    for joint, truth in zip(joints, arm.compliance, strict=True):
        assert joint.state == "determined"
        assert joint.rotor_inertia == 0
        assert abs(joint.compliance / truth - 1) < 0.02


def test_positions_of_other_motors_are_unusable(arm):
    coupled = arm.motor_q + 0.01 * arm.motor_q[:, ::-1]
    assert {joint.state for joint in identify_elasticity(arm.estimate, arm.log(coupled)).joints} == {"unusable"}
    degrees = identify_elasticity(arm.estimate, arm.log(np.degrees(arm.motor_q)))
    assert all("changes by 57" in joint.reason for joint in degrees.joints)


def test_a_joint_without_encoder_at_the_link(arm):
    """Its motor gives the motion of the link model, and its compliance is not stated."""
    t, q = arm.recording.time, arm.q * [1.0, 0.0]
    log = mindyn.log_from_arrays(arm.robot, t, q, arm.tau, motor_q=arm.motor_q)
    assert np.array_equal(log.q[:, 1], arm.motor_q[:, 1])
    assert log.findings[-1].joints == (arm.robot.joint_names[1],)
    joints = identify_elasticity(arm.estimate, log).joints
    assert joints[1].reason == "it has only one encoder that moves"
    assert covers(joints[0], arm.compliance[0])


def test_motor_positions_do_not_change_the_fit(arm):
    again = mindyn.identify(arm.robot, arm.log(arm.motor_q))
    assert np.array_equal(again.beta, arm.estimate.beta)
    assert np.array_equal(again.covariance, arm.estimate.covariance)


def test_logs_without_motor_positions_are_rejected(arm):
    with raises(InputError, Code.MISSING_VALUE, "columns.motor_position"):
        identify_elasticity(arm.estimate, arm.log())
    with raises(InputError, Code.WRONG_TYPE, "estimate"):
        identify_elasticity(arm.robot, arm.log(arm.motor_q))


def test_saved_elasticity_is_the_same(elasticity, tmp_path):
    loaded = load_elasticity(elasticity.save(tmp_path / "elasticity.json"))
    assert repr(loaded.joints) == repr(elasticity.joints)
    assert all(np.array_equal(a, b) for a, b in zip(loaded.curves, elasticity.curves, strict=True))
    path = tmp_path / "elasticity.json"
    path.write_text(path.read_text().replace('"determined"', '"not visible"', 1))
    with raises(InputError, Code.DISAGREEMENT, "sha256"):
        load_elasticity(path)


def test_feedforward_holds_the_links(elasticity):
    q, tau = np.array([0.3, -0.2]), np.array([5.0, -1.0])
    assert_close(elasticity.motor_positions(q, tau), q + tau / elasticity.stiffness, SAME_ALGEBRA)
    with raises(InputError, Code.WRONG_SHAPE, "tau"):
        elasticity.motor_positions(q, 1.0)


def test_sidecars_describe_motor_positions(arm, tmp_path):
    """At the motor, a column is the angle of the motor; gears convert it."""
    log = arm.log(arm.motor_q)
    path, _ = log.save(tmp_path / "run.csv", arm.robot)
    assert_close(mindyn.read_log(path, arm.robot).motor_q, log.motor_q, ROUND_TRIP)
    sides = {"position": "joint", "torque": "joint", "motor_position": "motor"}
    read = mindyn.read_log(path, arm.robot, side=sides, metadata={"gears": [100.0, -50.0]})
    assert_close(read.motor_q, log.motor_q / [100.0, -50.0], SAME_ALGEBRA)
    assert_close(read.q, log.q, ROUND_TRIP)


def test_dahl_states_solve_their_equation():
    torque = np.concatenate([np.linspace(0, 3, 4000), np.linspace(3, -2, 4000), np.linspace(-2, 1, 4000)])
    z = dahl_states(torque, 0.7, [0])
    state, expected = 0.0, [0.0]
    for step in np.diff(torque):
        state += step / 0.7 * (1 - np.sign(step) * state)
        expected.append(state)
    assert_close(z, np.array(expected), 5e-3)
