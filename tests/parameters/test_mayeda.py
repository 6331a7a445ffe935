"""Mayeda and Yoshida's set: theorems 2.3.1 and 2.4.1 on random arms, and eq. (3.2) of the PUMA to the letter."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chunks import seeds_of_chunk
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from parameters.chains import (
    RIGHT,
    assert_equals_sampled,
    assert_equals_structural,
    assert_reproduces_torques,
    random_chain,
    random_tree,
)
from raising import raises
from robots import NONE, OBLIQUE

from mindyn import load_robot
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.rotations import cos_sin, rot_x
from mindyn.foundation.errors import Code, RobotError
from mindyn.foundation.notation import LINK_PARAMETERS
from mindyn.parameters.general import general_base
from mindyn.parameters.mayeda import mayeda_base
from mindyn.robots.parts import Joint, Link
from mindyn.robots.robot import Robot

PUMA = json.loads((Path(__file__).parents[1] / "seeds" / "reference" / "yoshida_puma.json").read_text())
CHUNK = 100


@pytest.mark.parametrize("chunk", range(4))
def test_theorem_231_spans_the_sampled_row_space(chunk):
    for seed in seeds_of_chunk(chunk * CHUNK, CHUNK):
        assert_equals_sampled([mayeda_base(random_chain(seed, RIGHT, kinds=("revolute",)))], seed)


@pytest.mark.parametrize("chunk", range(4))
def test_theorem_241_spans_the_sampled_row_space(chunk):
    for seed in seeds_of_chunk(chunk * CHUNK, CHUNK):
        assert_equals_sampled([mayeda_base(random_chain(seed, RIGHT))], seed)


def test_equals_the_structural_set():
    for seed in seeds_of_chunk(0, CHUNK):
        assert_equals_structural(mayeda_base(random_chain(seed, RIGHT)))


def test_equals_the_general_form_except_for_signs():
    """Frames differ by half turns where a twist is -90 or 180 degrees, which turn the sign of some entries."""
    for seed in seeds_of_chunk(0, 120):
        robot = random_chain(seed, RIGHT, kinds=("revolute",))
        mayeda, general = mayeda_base(robot), general_base(robot)
        assert set(mayeda.names) == set(general.names)
        same = general.matrix[[general.names.index(name) for name in mayeda.names]]
        signs = np.sign((mayeda.matrix * same).sum(axis=1, keepdims=True))
        assert_close(mayeda.matrix, signs * same, ORACLE)


@pytest.mark.parametrize("seed", range(10))
def test_values_reproduce_the_torques(seed):
    assert_reproduces_torques(mayeda_base(random_chain(seed, RIGHT)), seed)


def puma_in_yoshidas_frames() -> Robot:
    """The modified DH rows of the file; link frames at Yoshida's origins, the foot of the previous common normal."""
    dh = PUMA["modified_dh"]
    joints = []
    for i, (alpha, a, d) in enumerate(zip(dh["alpha"], dh["a"], dh["d"], strict=True)):
        R = rot_x(*cos_sin(alpha))
        tip = Pose(None, (0.0, 0.0, -d)) if i == 3 else Pose()
        back = joints[-1].tip.inverse() if joints else Pose()
        origin = back @ Pose(R, R @ [0.0, 0.0, d] + [a, 0.0, 0.0])
        parent = joints[-1].child if joints else "base"
        joints.append(Joint(f"joint{i + 1}", "revolute", parent, f"link{i + 1}", origin, np.array([0, 0, 1.0]), tip))
    links = tuple(Link(joint.child) for joint in joints)
    return Robot("puma", Link("base"), tuple(joints), links, np.array([0, 0, -9.81]))


def augmented(symbol: str, link: int, axes: str) -> np.ndarray:
    """Row over phi (60,) of J_i^axes or R_i^axes: augmented by the mass of the links beyond at the end of L_i."""
    lengths = np.array(PUMA["yoshida_convention"]["L"])
    L, row = lengths[link - 1], np.zeros(60)
    index = ["xyz".index(axis) for axis in axes]
    label = f"mc{axes}" if symbol == "R" else f"I{axes * 2 if len(axes) == 1 else axes}"
    row[10 * (link - 1) + LINK_PARAMETERS.index(label)] = 1.0
    beyond = L[index[0]] if symbol == "R" else L @ L * (len(axes) == 1) - L[index[0]] * L[index[-1]]
    row[10 * link :: 10] = beyond
    return row


def row_of_definition(text: str) -> np.ndarray:
    """`J1^z + J2^y + 2 L2z R3^z (+ drive terms)` as a row over phi."""
    lengths = np.array(PUMA["yoshida_convention"]["L"])
    row = np.zeros(60)
    for sign, term in re.findall(r"([+-]?)\s*((?:2 )?(?:L\d[xz] )?[JR]\d\^[xyz]+)", text.split("(")[0]):
        factor = -1.0 if sign == "-" else 1.0
        factor *= 2.0 if term.startswith("2 ") else 1.0
        if length := re.search(r"L(\d)([xz])", term):
            factor *= lengths[int(length[1]) - 1]["xyz".index(length[2])]
        symbol, link, axes = re.search(r"([JR])(\d)\^([xyz]+)", term).groups()
        row += factor * augmented(symbol, int(link), axes)
    return row


def test_the_set_of_the_puma_equals_yoshidas():
    base = mayeda_base(puma_in_yoshidas_frames())
    definitions = PUMA["base_parameter_definitions"]
    assert set(base.names) == set(definitions)
    assert base.count == 36
    assert_close(base.matrix, [row_of_definition(definitions[name]) for name in base.names], SAME_ALGEBRA)


def test_expressions_of_the_puma_equal_the_print():
    base = mayeda_base(puma_in_yoshidas_frames())
    by_name = dict(zip(base.names, base.expressions, strict=True))
    assert by_name["J1z"] == "Izz1 + Iyy2 + Iyy3 + 0.209124 m3 - 0.3 mcz3 + 0.209124 m4 + 0.209124 m5 + 0.209124 m6"
    assert by_name["J3(x-y)"] == "Ixx3 - Iyy3 + Iyy4 + 0.187489 m5 + 0.187489 m6"
    assert by_name["R5y"] == "mcy5 - mcz6"


@pytest.mark.parametrize(
    ("name", "counts"),
    [("puma560", (36, 38, 34)), ("stanford", (33, 35, 31)), ("scara", (8, 10, 8))],
)
def test_known_counts(name, counts):
    actual = [mayeda_base(load_robot(name, gravity=g)).count for g in (None, OBLIQUE, NONE)]
    assert tuple(actual) == counts


def test_three_joint_puma_has_fifteen():
    assert mayeda_base(puma_in_yoshidas_frames().subchain("base", "link3")).count == 15


def test_oblique_axes_and_trees_raise():
    robot = puma_in_yoshidas_frames()
    tilted = replace(robot.joints[2], origin=robot.joints[2].origin @ Pose(rot_x(*cos_sin(0.3))))
    with raises(RobotError, Code.UNSUPPORTED, "joint3"):
        mayeda_base(replace(robot, joints=(*robot.joints[:2], tilted, *robot.joints[3:])))
    with raises(RobotError, Code.UNSUPPORTED, "mayeda"):
        mayeda_base(random_tree(4))
