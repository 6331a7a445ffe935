"""Lin's inertia constants and minimal linear combinations: the fixtures, theorem 2, the case without gravity."""

from __future__ import annotations

import numpy as np
import pytest
from chunks import seeds_of_chunk
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from parameters.chains import (
    assert_equals_sampled,
    assert_equals_structural,
    assert_reproduces_torques,
    random_chain,
    random_tree,
)
from raising import raises
from robots import NONE, OBLIQUE, random_motion
from seeds.test_published import FIXTURES, robot_of_fixture

from mindyn import base_parameters, load_robot
from mindyn.foundation.algebra.inertia import tensor_from_entries, transform_phi
from mindyn.foundation.algebra.poses import IDENTITY
from mindyn.foundation.algebra.rotations import cos_sin, rot_z
from mindyn.foundation.errors import Code, InputError, RobotError
from mindyn.parameters import lin_base, lin_constants, varying_parts
from mindyn.parameters.lin import lin_structure

CHUNK = 100
VERSIONS = (1995, 1999)


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture["name"])
def test_structure_of_the_fixtures(fixture):
    structure = lin_structure(robot_of_fixture(fixture))
    assert (structure.r + 1, structure.s + 1) == (fixture["r"], fixture["s"])
    between = range(structure.r, structure.s)
    delta = {str(i + 1): structure.joints[i].delta for i in between if structure.joints[i].kind == "revolute"}
    sigma = {str(i + 1): structure.joints[i].sigma for i in between if structure.joints[i].kind == "prismatic"}
    assert (delta, sigma) == (fixture["delta"], fixture["sigma"])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture["name"])
def test_constants_and_varying_parts_of_the_fixtures(fixture, version):
    robot = robot_of_fixture(fixture)
    constants = lin_constants(robot, version=version)
    parts = varying_parts(robot, fixture["q"], version=version)
    assert_close(constants.k, fixture["k"], SAME_ALGEBRA)
    assert_close(constants.U, fixture[f"U{version}"], SAME_ALGEBRA)
    assert_close(parts.l, fixture["l"], SAME_ALGEBRA)
    assert_close(parts.V, fixture[f"V{version}"], SAME_ALGEBRA)
    assert_close(constants.mass, np.cumsum(fixture["m"][::-1])[::-1], SAME_ALGEBRA)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture["name"])
def test_combinations_of_the_fixtures(fixture, version):
    base = lin_base(robot_of_fixture(fixture), version)
    expected = fixture[f"MLC{version}"]
    assert base.names == tuple(expected)
    assert_close(base.values, list(expected.values()), SAME_ALGEBRA)


def composite(robot, structure, q, i):
    """First moment and tensor of links i..n about O_i, by moving every link's parameters there."""
    X, total = IDENTITY, np.zeros(10)
    for j in range(i, robot.joint_count):
        if j > i:
            row = structure.joints[j].row
            turns = structure.joints[j].kind == "revolute"
            slide = np.array([0.0, 0.0, 0.0 if turns else q[j]])
            turn = rot_z(*cos_sin(q[j])) if turns else np.eye(3)
            X = X @ row.pose @ type(X)(turn, slide)
        total = total + transform_phi(X @ structure.dh.links[j], robot.links[j].phi)
    return total[1:4], tensor_from_entries(total[4:])


@pytest.mark.parametrize("version", VERSIONS)
def test_constant_and_varying_part_add_up_to_the_composite_body(version):
    for seed in seeds_of_chunk(0, 40):
        robot = random_chain(seed)
        structure = lin_structure(robot)
        q = random_motion(robot, seed)[0]
        constants, parts = lin_constants(robot, version=version), varying_parts(robot, q, version=version)
        for i in range(robot.joint_count):
            first, tensor = composite(robot, structure, q, i)
            assert_close(constants.k[i] + parts.l[i], first, SAME_ALGEBRA)
            assert_close(constants.U[i] + parts.V[i], tensor, SAME_ALGEBRA)


@pytest.mark.parametrize("chunk", range(20))
def test_theorem_2_spans_the_sampled_row_space(chunk):
    for seed in seeds_of_chunk(chunk * CHUNK, CHUNK):
        robot = random_chain(seed)
        assert_equals_sampled([lin_base(robot, version) for version in VERSIONS], seed)


@pytest.mark.parametrize("chunk", range(4))
def test_theorem_2_equals_the_structural_set(chunk):
    for seed in seeds_of_chunk(chunk * CHUNK, CHUNK):
        assert_equals_structural(lin_base(random_chain(seed), VERSIONS[seed % 2]))


@pytest.mark.parametrize("chunk", range(3))
def test_without_gravity_axes_through_one_point_hide_first_moments(chunk):
    """600 more chains without gravity; a tenth of them have a revolute joint beyond s that loses kx and ky."""
    corrected = 0
    for seed in range(10_000 + chunk * 200, 10_200 + chunk * 200):
        robot = random_chain(seed, gravity=NONE)
        base = lin_base(robot)
        assert_equals_sampled([base], seed)
        corrected += any(joint.from_centre is not None for joint in lin_structure(robot).joints)
    assert corrected > 10


@pytest.mark.parametrize(
    ("name", "counts"),
    [("puma560", (36, 38, 34)), ("stanford", (33, 35, 31)), ("scara", (8, 10, 8))],
)
def test_known_counts(name, counts):
    actual = [lin_base(load_robot(name, gravity=g)).count for g in (None, OBLIQUE, NONE)]
    assert tuple(actual) == counts


def test_three_joint_puma_has_fifteen():
    assert lin_base(load_robot("puma560").subchain("base", "link3")).count == 15


def test_layout_gives_the_position_of_every_entry():
    robot = load_robot("stanford")
    structure, base = lin_structure(robot), lin_base(robot)
    assert structure.layout[0, "U33"] == 0
    for (joint, symbol), place in structure.layout.items():
        assert base.names[place] == f"{symbol}_{joint + 1}"
    assert len(structure.layout) == base.count


@pytest.mark.parametrize("seed", range(10))
def test_values_reproduce_the_torques(seed):
    assert_reproduces_torques(lin_base(random_chain(seed)), seed)


def test_versions_convert_into_each_other():
    robot = load_robot("puma560")
    old, new = (lin_base(robot, version) for version in VERSIONS)
    assert_close(old.transform_to(new) @ old.values, new.values, ORACLE)


def test_trees_and_unknown_versions_raise():
    with raises(RobotError, Code.UNSUPPORTED, "lin"):
        lin_base(random_tree(4))
    with raises(InputError, Code.UNKNOWN_NAME, "version"):
        lin_base(load_robot("puma560"), 2001)
    with raises(InputError, Code.UNKNOWN_NAME, "version"):
        lin_constants(load_robot("puma560"), version=2001)


def test_varying_parts_need_positions_of_a_chain():
    with raises(RobotError, Code.UNSUPPORTED, "lin"):
        varying_parts(random_tree(4), np.zeros(4))
    for q in (np.zeros(5), np.zeros((2, 6))):
        with raises(InputError, Code.WRONG_SHAPE, "q"):
            varying_parts(load_robot("puma560"), q)
    with raises(InputError, Code.NOT_FINITE, "q"):
        varying_parts(load_robot("puma560"), np.full(6, np.nan))


def test_entries_of_the_constants_are_base_parameters():
    robot = load_robot("puma560")
    constants, base = lin_constants(robot), base_parameters(robot, form="lin")
    values = dict(zip(base.names, base.values, strict=True))
    assert_close(values["U33_1"], constants.U[0, 2, 2], SAME_ALGEBRA)
    assert_close([values["kx_2"], values["ky_2"]], constants.k[1, :2], SAME_ALGEBRA)
    assert_close(values["U11-22_2"], constants.U[1, 0, 0] - constants.U[1, 1, 1], SAME_ALGEBRA)
