"""Base sets of parallel robots and linkages: their size is the rank of Pinocchio's projected regressor."""

from __future__ import annotations

from dataclasses import replace
from time import process_time

import numpy as np
import pinocchio as pin
import pytest
from identifiability.loop_oracle import LoopOracle
from laws.closed_linkages import TOPOLOGIES, linkage
from laws.parallel_robots import PARALLEL_ROBOTS, SIX_BARS, six_bar, stewart
from robots import random_robot

from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.equations.identifiability.random_states import draw_positions
from mindyn.equations.loop_closure import home_closure
from mindyn.foundation.algebra.poses import Pose
from mindyn.robots.parts import Limits

SECONDS = 20.0
"""Processor time in which a base set must be found."""


def null_space_rows(robot, seed, count):
    """Rows N^T Y at closed configurations, N the null space of Pinocchio's closure Jacobian."""
    oracle, rng = LoopOracle(robot), np.random.default_rng([seed, 7])
    rows = []
    for p in draw_positions(robot, rng, count):
        q = home_closure(robot).positions(p[None])[0]
        apart, _ = oracle.gaps(q)
        assert apart.max() < 1e-9
        J, _ = oracle.constraint(q, np.zeros_like(q))
        _, s, Vt = np.linalg.svd(J)
        N = Vt[(s > 1e-9 * s[0]).sum() :].T
        qd = N @ rng.uniform(-4, 4, N.shape[1])
        _, turning = oracle.constraint(q, qd)
        qdd = N @ rng.uniform(-20, 20, N.shape[1]) - np.linalg.pinv(J, rcond=1e-9) @ turning
        Y = np.reshape(pin.computeJointTorqueRegressor(oracle.model, oracle.data, q, qd, qdd), (len(q), -1))
        rows.append(N.T @ Y)
    return np.vstack(rows)


def rank(rows):
    size = np.linalg.norm(rows, axis=0)
    s = np.linalg.svd(rows / np.where(size > 1e-12 * size.max(), size, np.inf), compute_uv=False)
    return int((s > 1e-9 * s[0]).sum())


@pytest.mark.parametrize("name", sorted(PARALLEL_ROBOTS))
def test_platforms_have_as_many_parameters_as_the_projected_regressor_has_rank(name):
    robot = PARALLEL_ROBOTS[name](0)
    start = process_time()
    base = base_parameters(robot)
    assert process_time() - start < SECONDS
    assert base.count == rank(null_space_rows(robot, 0, 60))


def test_a_platform_without_limits_is_sampled_at_closed_configurations():
    robot = stewart(2, limits=False)
    start = process_time()
    assert base_parameters(robot).count == 100
    assert process_time() - start < SECONDS


@pytest.mark.parametrize("half", [0.01])
def test_narrow_limits_do_not_change_the_count(half):
    robot = stewart(0)
    joints = [
        replace(joint, limits=Limits(-half, half)) if joint.kind == "prismatic" else joint for joint in robot.joints
    ]
    assert base_parameters(replace(robot, joints=tuple(joints))).count == 100


@pytest.mark.parametrize("name", sorted(SIX_BARS))
def test_six_bars_have_as_many_parameters_as_the_projected_regressor_has_rank(name):
    robot = six_bar(name, with_drives=False)
    assert base_parameters(robot).count == rank(null_space_rows(robot, 0, 120))


def test_random_positions_lie_within_the_limits_of_all_joints():
    robot = PARALLEL_ROBOTS["Delta"](0)
    limits = {"arm1": Limits(-0.3, 0.1), "u2": Limits(-0.2, 0.2), "w3": Limits(upper=0.25)}
    joints = tuple(replace(joint, limits=limits.get(joint.name, joint.limits)) for joint in robot.joints)
    robot = replace(robot, joints=joints)
    q = home_closure(robot).positions(draw_positions(robot, np.random.default_rng(0), 100))
    for name, limit in limits.items():
        at = q[:, robot.joint_index(name)]
        assert at.max() <= limit.upper
        assert limit.lower is None or at.min() >= limit.lower


@pytest.mark.parametrize("topology", sorted(TOPOLOGIES))
def test_no_ordinary_linkage_is_rejected(topology):
    for seed in (0, 3):
        assert base_parameters(linkage(topology, seed), "numeric").count > 0


@pytest.mark.parametrize(("topology", "seed"), [("slide", 0), ("two loops", 8)])
def test_linkages_with_small_last_singular_values_have_full_rank(topology, seed):
    robot = linkage(topology, seed)
    assert base_parameters(robot, "numeric").count == base_parameters(robot).count


def nearly_special(seed, off, scale):
    """A robot of special angles that are off by a little, its lengths scaled."""
    robot, rng = random_robot(seed, special=True), np.random.default_rng(seed)
    joints = []
    for joint in robot.joints:
        x, y, z = off * rng.normal(size=3)
        turn = np.eye(3) + np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        origin = Pose(turn @ joint.origin.rotation, scale * joint.origin.translation)
        joints.append(replace(joint, origin=origin, tip=Pose(joint.tip.rotation, scale * joint.tip.translation)))
    return replace(robot, joints=tuple(joints))


@pytest.mark.parametrize("off", [1e-14, 1e-13, 1e-11])
def test_nearly_degenerate_small_robots_are_not_rejected(off):
    for seed in range(0, 45, 9):
        robot = nearly_special(seed, off, 3e-3)
        base = base_parameters(robot, "numeric")
        assert base_parameters(robot).count >= base.count


def test_long_chains_are_not_rejected():
    assert base_parameters(random_robot(19, joints=21), "numeric").count == 75
