"""The projection of a robot does not depend on units: grams and centimetres, or kilograms and metres."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from closeness import SOLVED, assert_close
from robots import random_robot

import mindyn
from mindyn.foundation.algebra.poses import Pose
from mindyn.logs.samples import Samples
from mindyn.regression.build_rows import build_rows
from mindyn.regression.settings import EquationSettings

LENGTH, MASS = 0.1, 0.01


def smaller(robot, length, mass):
    """The same robot with other lengths and masses; gravity with its lengths, so that it moves alike."""

    def placed(pose):
        return Pose(pose.rotation, tuple(length * pose.translation))

    joints = tuple(replace(joint, origin=placed(joint.origin), tip=placed(joint.tip)) for joint in robot.joints)
    factors = mass * np.array([1.0, *[length] * 3, *[length**2] * 6])
    links = tuple(replace(link, phi=link.phi * factors) for link in robot.links)
    return replace(robot, joints=joints, links=links, gravity=length * robot.gravity)


def distance(robot, length, mass):
    """Standard deviations by which an estimate of noisy torques is moved."""
    result, rng = smaller(robot, length, mass), np.random.default_rng(1)
    units = np.array([length if joint.kind == "prismatic" else 1.0 for joint in robot.joints])
    q, qd, qdd = rng.normal(size=(3, 40, robot.joint_count)) * units
    tau = mindyn.compile_model(result).inverse_dynamics(q, qd, qdd)
    tau = tau * (1 + 0.1 * rng.normal(size=tau.shape))
    samples = Samples(result.joint_names, q, qd, qdd, tau, 100.0, np.zeros(40, dtype=np.int64))
    estimate = mindyn.LeastSquares().fit(build_rows(result, samples, EquationSettings()))
    return mindyn.make_feasible(estimate).provenance.notes["projected"]["distance"]


def test_the_move_is_the_same_in_standard_deviations():
    robot = random_robot(901, special=True)
    assert_close(distance(robot, LENGTH, MASS), distance(robot, 1.0, 1.0), 100 * SOLVED)
