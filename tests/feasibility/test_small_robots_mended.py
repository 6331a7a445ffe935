"""A robot of grams and centimetres is mended as the same one of kilograms and metres: no unit decides what is near."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from closeness import SOLVED, assert_close
from robots import random_robot

import mindyn
from mindyn.algebra.poses import Pose
from mindyn.logs.samples import Samples
from mindyn.regression.rows import build_rows
from mindyn.regression.settings import EquationSettings

LENGTH, MASS = 0.1, 0.01


def smaller(robot, length, mass):
    """The same robot with other lengths and masses; gravity with its lengths, so that it moves alike."""

    def placed(pose):
        return Pose(pose.rotation, tuple(length * pose.translation))

    joints = tuple(replace(one, origin=placed(one.origin), tip=placed(one.tip)) for one in robot.joints)
    factors = mass * np.array([1.0, *[length] * 3, *[length**2] * 6])
    links = tuple(replace(one, phi=one.phi * factors) for one in robot.links)
    return replace(robot, joints=joints, links=links, gravity=length * robot.gravity)


def distance(robot, length, mass):
    """Standard deviations by which an estimate of noisy torques is moved."""
    own, rng = smaller(robot, length, mass), np.random.default_rng(1)
    units = np.array([length if joint.kind == "prismatic" else 1.0 for joint in robot.joints])
    q, qd, qdd = rng.normal(size=(3, 40, robot.joint_count)) * units
    tau = mindyn.compile_model(own).inverse_dynamics(q, qd, qdd)
    tau = tau * (1 + 0.1 * rng.normal(size=tau.shape))
    samples = Samples(own.joint_names, q, qd, qdd, tau, 100.0, np.zeros(40, dtype=np.int64))
    found = mindyn.LeastSquares().fit(build_rows(own, samples, EquationSettings()))
    return mindyn.make_feasible(found).provenance["projected"]["distance"]


def test_the_move_is_the_same_in_standard_deviations():
    robot = random_robot(901, special=True)
    assert_close(distance(robot, LENGTH, MASS), distance(robot, 1.0, 1.0), 100 * SOLVED)
