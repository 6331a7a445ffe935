"""Loads and gains of whole runs, against least squares on dense rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from raising import raises
from recovered import exact_samples, gains_by_load
from robots import random_robot

from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.rotations import rotation_from_quaternion
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.load_regressor import LoadRegressor
from mindyn.identification.runs_with_loads import Payload
from mindyn.kernels.model import compile_model
from mindyn.regression.regressor import Regressor

ROBOT = random_robot(4, joints=2, tree=False, special=False, gravity=(0.0, 0.0, -9.81))
LOAD = phi_about_origin(3.0, np.array([0.1, -0.05, 0.2]), np.diag([0.02, 0.03, 0.04]))
LINK = ROBOT.link_names[-1]


def runs(noise):
    """A run without and one with the load, of other motions, with noise of the torque."""
    unloaded, loaded = exact_samples(ROBOT, 80, seed=1, noise=noise), exact_samples(ROBOT, 90, seed=2, noise=noise)
    return unloaded, replace(loaded, tau=loaded.tau + dense(loaded)[1] @ LOAD)


def dense(samples):
    """The robot's columns and the load's, (N, n, p) and (N, n, 10)."""
    regressor = Regressor(ROBOT)
    Y = regressor.dense(regressor.parts(samples.q, samples.qd, samples.qdd))
    return Y, compile_model(ROBOT).standard_regressor(samples.q, samples.qd, samples.qdd)[:, :, -10:]


def test_gains_of_runs_are_found_with_the_mass_of_the_load():
    gains = np.array([2.0, 0.25])
    unloaded, loaded = (replace(run, tau=run.tau / gains) for run in runs(0.0))
    assert_close(gains_by_load(ROBOT, unloaded, loaded, mass=3.0).values, gains, 1e-6)
    for mass in (0.0, float("inf")):
        with raises(InputError, Code.OUT_OF_RANGE, "mass"):
            gains_by_load(ROBOT, unloaded, loaded, mass=mass)


def test_columns_of_a_load_stand_behind_those_of_the_arm():
    plain = Regressor(ROBOT)
    longer = LoadRegressor(plain, LINK, LOAD)
    samples = exact_samples(ROBOT, 5)
    motion = samples.q, samples.qd, samples.qdd
    Y, L = dense(samples)
    result = longer.dense(longer.parts(*motion))
    assert_close(result[:, :, : plain.count], Y, SAME_ALGEBRA)
    assert_close(result[:, :, plain.count :], L, SAME_ALGEBRA)
    assert longer.names[plain.count :] == tuple(
        f"load_{name}" for name in (["m", "mcx", "mcy", "mcz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz"])
    )
    assert {parameter.link_or_joint for parameter in longer.parameters[plain.count :]} == {LINK}
    assert_close(longer.carried_torque(*motion), L @ LOAD, SAME_ALGEBRA)
    assert LoadRegressor(plain, LINK).carried_torque(*motion) is None


def test_a_load_in_the_axes_of_a_frame():
    pose = Pose(rotation_from_quaternion(0.8, 0.1, -0.5, 0.3), np.array([0.3, -0.2, 0.1]))
    covariance = np.diag(np.linspace(0.01, 0.1, 10) ** 2)
    payload = Payload(LINK, LOAD, covariance, (), 2.0, unconstrained=LOAD + 0.1)
    moved = payload.in_frame(pose, "tool")
    centre = pose.rotation.T @ (np.array([0.1, -0.05, 0.2]) - pose.translation)
    assert_close(
        moved.phi, phi_about_origin(3.0, centre, pose.rotation.T @ np.diag([0.02, 0.03, 0.04]) @ pose.rotation), ORACLE
    )
    assert moved.link == "tool"
    T = np.array([replace(payload, phi=unit).in_frame(pose, "tool").phi for unit in np.eye(10)]).T
    assert_close(moved.unconstrained, T @ (LOAD + 0.1), ORACLE)
    assert_close(moved.covariance, T @ covariance @ T.T, ORACLE)
    assert_close(payload.half_widths, 2.0 * np.linspace(0.01, 0.1, 10), SAME_ALGEBRA)
    assert payload.mass_interval == (pytest.approx(3.1 - 0.02), pytest.approx(3.1 + 0.02))
    assert Payload(LINK, LOAD, covariance, (), 2.0).mass_interval == (pytest.approx(2.98), pytest.approx(3.02))
    assert_close(payload.centre, [0.1, -0.05, 0.2], SAME_ALGEBRA)
    assert_close(payload.inertia_about_centre, np.diag([0.02, 0.03, 0.04]), ORACLE)
    slopes = np.array(
        [[-c / 3.0 if k == 0 else float(k == i + 1) / 3.0 for k in range(4)] for i, c in enumerate(payload.centre)]
    )
    expected = 2.0 * np.sqrt(slopes**2 @ np.diag(covariance)[:4])
    assert_close(payload.centre_half_widths, expected, SAME_ALGEBRA)
