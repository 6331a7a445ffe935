"""Sheu and Walker's tables: the PUMA 560 (Tables 5 to 8) and the semi-direct-drive arm (Table 12)."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from identifiability.loop_oracle import LoopOracle
from identifiability.parallelogram_arms import REFERENCE
from parameters.oracle import assert_spans_row_space

from mindyn import load_robot
from mindyn.equations.identifiability.numeric import default_priority, numeric_base
from mindyn.equations.identifiability.parameter_space import essential_space
from mindyn.equations.loop_closure import loop_closure
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.rotations import rot_x
from mindyn.robots.parts import Link

PUMA = json.loads((REFERENCE / "puma_sheu_walker.json").read_text())
FIVE_BAR = json.loads((REFERENCE / "fivebar_sheu_walker.json").read_text())
OURS = ("m", "mcx", "mcy", "mcz", "Ix", "Ixy", "Iy", "Ixz", "Iyz", "Iz")
"""The paper's names in our order."""
SIGNS = np.array([-1.0 if name in ("Ixy", "Ixz", "Iyz") else 1.0 for name in OURS])
"""The paper's products of inertia have the opposite sign."""
PRINTED = 1.1e-3
"""Effect of rounding Table 6 to three digits on Tables 7 and 8."""


def vector(table: dict) -> np.ndarray:
    """A table of the paper as our phi; blanks are zero."""
    columns = [[value or 0.0 for value in table[name]] for name in OURS]
    return (np.array(columns) * SIGNS[:, None]).T.ravel()


def labels_of(pattern: dict) -> set[str]:
    """Labels of the parameters marked in a pattern of the paper."""
    double = {"Ix": "Ixx", "Iy": "Iyy", "Iz": "Izz"}
    return {f"{double.get(name, name)}{i + 1}" for name in pattern for i, mark in enumerate(pattern[name]) if mark}


def paper_puma(twist: float):
    """The paper's PUMA with its twists of +-90 degrees written as +-`twist` rad."""
    robot = load_robot("puma560_fgl")
    joints = []
    for joint, alpha in zip(robot.joints, PUMA["convention"]["alpha"], strict=True):
        a = np.sign(alpha) * twist
        R = rot_x(np.cos(a), np.sin(a)) if alpha else np.eye(3)
        joints.append(replace(joint, tip=Pose(R, joint.tip.translation)))
    return replace(robot, joints=tuple(joints))


def kept_labels(base) -> set[str]:
    return {base.labels[k] for k in base.survivors}


def independent_vector(base, phi: np.ndarray) -> np.ndarray:
    return base.embedding @ (base.matrix @ phi)


def test_table_5_needs_the_papers_rounded_right_angle():
    robot = paper_puma(1.5708)
    base = numeric_base(robot, priority=default_priority(robot))
    assert base.count == 36
    assert kept_labels(base) == labels_of(PUMA["table5"]["paper_and_computed_alpha_1_5708"])
    assert any("ill conditioned" in note for note in base.notes)


@pytest.mark.parametrize("source", ["energy", "torque"])
def test_the_default_set_of_the_exact_puma_is_well_conditioned(source):
    robot = load_robot("puma560_fgl")
    base = numeric_base(robot, source)
    assert kept_labels(base) == labels_of(PUMA["table5"]["computed_alpha_exact"])
    assert not any("ill conditioned" in note for note in base.notes)
    assert np.abs(base.matrix).max() < 10
    expected = vector(PUMA["table8_alpha_exact"])
    assert np.abs(independent_vector(base, robot.phi) - expected).max() < 1e-6


def test_tables_7_and_8_follow_from_the_printed_table_6():
    robot = paper_puma(1.5708)
    phi = vector(PUMA["table6"])
    assert np.array_equal(phi, robot.phi)
    space = essential_space(robot)
    base = numeric_base(robot, priority=default_priority(robot))
    assert np.abs(space.vector(phi) - vector(PUMA["table7_paper"])).max() < PRINTED
    assert np.abs(independent_vector(base, phi) - vector(PUMA["table8_paper"])).max() < PRINTED


def test_tables_7_and_8_follow_to_three_digits_from_an_unrounded_table_6():
    robot = paper_puma(1.5708)
    phi = vector(PUMA["rounding_consistency"]["D_R"])
    base = numeric_base(robot, priority=default_priority(robot))
    pairs = (
        (essential_space(robot).vector(phi), vector(PUMA["table7_paper"])),
        (independent_vector(base, phi), vector(PUMA["table8_paper"])),
    )
    for ours, printed in pairs:
        assert np.abs(ours - printed).max() < 0.5e-3


def test_the_three_joint_puma_has_15_parameters():
    robot = load_robot("puma560_fgl").lock({"joint4": 0.3, "joint5": -0.4, "joint6": 0.1})
    assert numeric_base(robot).count == PUMA["puma_3dof"]["rank_energy_difference"] == 15


@pytest.mark.parametrize("offset", FIVE_BAR["axis4_minus_axis2"])
@pytest.mark.parametrize("source", ["energy", "torque"])
def test_the_five_bar_has_26_parameters_and_the_pattern_of_table_12(offset, source):
    robot = load_robot("five_bar")
    joint4 = replace(robot.joints[3], origin=Pose(None, (*offset, 0.0)))
    robot = replace(robot, joints=(*robot.joints[:3], joint4, robot.joints[4]))
    robot = replace(robot, home=np.array([0.0, 0.0, 1.0, -1.0, 1.0]))
    base = numeric_base(robot, source, priority=default_priority(robot))
    assert base.count == FIVE_BAR["result"]["coaxial"]["rank"] == 26
    assert kept_labels(base) == labels_of(FIVE_BAR["table12"])


def test_the_five_bar_has_the_row_space_of_the_oracle():
    robot = load_robot("five_bar")
    closure, oracle = loop_closure(robot), LoopOracle(robot)
    rng = np.random.default_rng(0)
    p, pd, pdd = rng.uniform(-3, 3, (3, 60, 3))
    rows = [oracle.torque_rows(*state) for state in zip(closure.positions(p), pd, pdd, strict=True)]
    assert_spans_row_space(numeric_base(robot).matrix, np.vstack(rows))


def test_a_five_bar_with_equal_sides_has_18_parameters_and_26_with_one_centimetre_difference():
    robot = load_robot("five_bar")
    lengths = FIVE_BAR["parallelogram"]["lengths"]

    def sized(a, b, c, d):
        tips = [Pose(None, (length, 0, 0)) for length in (a, b, c, d)]
        joints = [replace(j, origin=Pose(), tip=t) for j, t in zip(robot.joints[1:], tips, strict=True)]
        return replace(robot, joints=(robot.joints[0], *joints))

    a, b, c, d = lengths
    home = [0.0, 0.0, 1.0, 1.0, -1.0]
    exact, near = sized(a, b, c, d), sized(a, b, c, d + 0.01)
    assert loop_closure(exact, home).affine is not None
    # The default home, q = 0, is flat: opposite sides are parallel there too, and it is taken as a parallelogram.
    assert numeric_base(exact).count == FIVE_BAR["parallelogram"]["rank"] == 18
    assert numeric_base(replace(near, home=np.array(home))).count == 26


def test_phi_of_the_paper_equals_that_of_the_bundled_robot():
    robot = load_robot("puma560_fgl")
    links = [Link(link.name, phi) for link, phi in zip(robot.links, vector(PUMA["table6"]).reshape(6, 10), strict=True)]
    assert replace(robot, links=tuple(links)) == robot
