"""Gautier and Khalil's set: survivors in place, serial and tree arms, and how it differs from Lin's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from chunks import seeds_of_chunk
from closeness import ORACLE, assert_close
from parameters.chains import (
    assert_equals_sampled,
    assert_equals_structural,
    assert_reproduces_torques,
    random_chain,
    random_tree,
)
from raising import raises
from robots import NONE, OBLIQUE
from seeds.test_published import FIXTURES, robot_of_fixture

from mindyn import load_robot
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.errors import Code, RobotError
from mindyn.parameters.gautier_khalil import gautier_khalil_base
from mindyn.parameters.lin import lin_base
from mindyn.robots.parts import Loop

CHUNK = 100


@pytest.mark.parametrize("chunk", range(4))
def test_span_of_random_chains(chunk):
    for seed in seeds_of_chunk(chunk * CHUNK, CHUNK):
        assert_equals_sampled([gautier_khalil_base(random_chain(seed))], seed)


@pytest.mark.parametrize("chunk", range(2))
def test_span_of_random_trees(chunk):
    for seed in seeds_of_chunk(chunk * CHUNK, CHUNK):
        assert_equals_sampled([gautier_khalil_base(random_tree(seed))], seed)


def test_equals_the_structural_set():
    for seed in seeds_of_chunk(0, CHUNK):
        assert_equals_structural(gautier_khalil_base(random_chain(seed) if seed % 2 else random_tree(seed)))


def test_survivors_stay_in_place_in_dh_frames():
    robots = [robot_of_fixture(fixture) for fixture in FIXTURES]
    for robot in [*robots, load_robot("puma560"), load_robot("scara")]:
        base = gautier_khalil_base(robot)
        assert base.survivors is not None
        assert (base.matrix[:, base.survivors] == np.eye(base.count)).all()


def test_no_survivors_in_other_link_frames():
    assert gautier_khalil_base(load_robot("stanford")).survivors is None  # the source's joint 3 points against z


@pytest.mark.parametrize("seed", range(10))
def test_values_reproduce_the_torques(seed):
    assert_reproduces_torques(gautier_khalil_base(random_tree(seed)), seed)


def test_equals_lin_1999_if_all_joints_are_revolute():
    for seed in seeds_of_chunk(0, 120):
        robot = random_chain(seed, kinds=("revolute",))
        T = gautier_khalil_base(robot).transform_to(lin_base(robot, 1999))
        order = T.argmax(axis=1)
        assert_close(T, np.eye(len(T))[order], ORACLE)


def test_differs_from_lin_1995_by_moments_of_inertia_about_outer_axes():
    """Table I of Lin 1995, by conversion: U33 of a link is counted again in the links before it."""
    robot = load_robot("puma560")
    gautier, lin = gautier_khalil_base(robot), lin_base(robot, 1995)
    T = gautier.transform_to(lin)
    terms = {
        name: {gautier.names[k]: round(row[k], 9) for k in np.flatnonzero(np.abs(row) > ORACLE)}
        for name, row in zip(lin.names, T, strict=True)
    }
    assert terms["U33_2"] == {"ZZR2": 1.0, "ZZR3": 1.0, "ZZR5": 1.0}
    assert terms["U11-22_4"] == {"XXR4": 1.0, "ZZR5": -1.0, "ZZ6": 1.0}
    assert terms["kx_3"] == {"MXR3": 1.0}
    assert_close(T @ gautier.values, lin.values, ORACLE)


def test_differs_from_lin_at_prismatic_joints():
    robot = load_robot("stanford")
    gautier, lin = gautier_khalil_base(robot), lin_base(robot)
    lin_mass = lin.matrix[lin.names.index("m_3")]
    khalil_mass = gautier.matrix[gautier.names.index("MR3")]
    assert_close(lin_mass, khalil_mass, ORACLE)  # one prismatic joint: the mass from it outwards in both
    T = gautier.transform_to(lin)
    assert np.abs(T - np.eye(len(T))[np.abs(T).argmax(axis=1)]).max() > 0.01


@pytest.mark.parametrize(
    ("name", "counts"),
    [("puma560", (36, 38, 34)), ("stanford", (33, 35, 31)), ("scara", (8, 10, 8))],
)
def test_known_counts(name, counts):
    actual = [gautier_khalil_base(load_robot(name, gravity=g)).count for g in (None, OBLIQUE, NONE)]
    assert tuple(actual) == counts


def test_three_joint_puma_has_fifteen():
    assert gautier_khalil_base(load_robot("puma560").subchain("base", "link3")).count == 15


def test_loops_raise():
    robot = load_robot("scara")
    loop = Loop("pin", robot.link_names[0], robot.link_names[3], Pose(), Pose(), (robot.joint_names[3],))
    with raises(RobotError, Code.UNSUPPORTED, "gautier"):
        gautier_khalil_base(replace(robot, loops=(loop,)))
