"""Bundled robots and equations against published or independently computed numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close

from mindyn import bundled_robots, load_robot
from mindyn.equations.catalogue import build_equation
from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.robots.assembly import assemble_robot
from mindyn.robots.parts import Link
from mindyn.robots.snapping import Snapper
from mindyn.robots.toml_format import read_robot_toml

REFERENCE = Path(__file__).parent / "reference"
FIXTURES = json.loads((REFERENCE / "lin_fixtures.json").read_text())


def robot_of_fixture(fixture):
    """The fixture written as a TOML text with modified DH rows, parameters about the centre of mass."""
    lines = [
        *('format = "mindyn-robot-1"', f'name = "{fixture["name"]}"', 'convention = "modified_dh"', 'angles = "rad"'),
        *('inertia = "com"', f"gravity = {fixture['g0']}", 'root = "base"'),
    ]
    for i, kind in enumerate(fixture["joints"]):
        lines += [
            *(
                "[[joint]]",
                f'name = "j{i}"',
                f'child = "l{i}"',
                f'type = "{"revolute" if kind == "R" else "prismatic"}"',
            ),
            *(
                f"alpha = {fixture['beta'][i]}",
                f"a = {fixture['b'][i]}",
                f"theta = {fixture['theta'][i]}",
                f"d = {fixture['d'][i]}",
            ),
        ]
    robot = assemble_robot(read_robot_toml("\n".join(lines), Snapper()))
    links = [
        Link(f"l{i}", phi_about_origin(m, np.array(c), np.array(inertia)))
        for i, (m, c, inertia) in enumerate(zip(fixture["m"], fixture["c"], fixture["I_com"], strict=True))
    ]
    return replace(robot, links=tuple(links))


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture["name"])
def test_lin_fixtures(fixture):
    robot = robot_of_fixture(fixture)
    q, qd, qdd = (np.array(fixture[key]) for key in ("q", "qd", "qdd"))
    assert_close(np.array(build_equation(robot, "inverse_dynamics")(q, qd, qdd)).ravel(), fixture["tau"], SAME_ALGEBRA)
    assert_close(np.array(build_equation(robot, "inertia_matrix")(q)), fixture["D"], SAME_ALGEBRA)


def test_angeles_example_1_on_the_bundled_stanford_arm():
    data = json.loads((REFERENCE / "angeles_ex1.json").read_text())
    A, B = np.array([np.pi / 30, -np.pi / 60, 0.01, np.pi / 30, np.pi / 30, np.pi / 30]), 2 * np.pi / 10
    start = np.array([0, np.pi / 2, 0, 0, 0, 0])
    torque = build_equation(load_robot("stanford"), "inverse_dynamics")
    for row in data["variants"][data["primary"]]:
        t = row["t"]
        q = start + A * (t - np.sin(B * t) / B)
        assert_close(q, row["q"], SAME_ALGEBRA)
        tau = np.array(torque(q, A * (1 - np.cos(B * t)), A * B * np.sin(B * t))).ravel()
        expected = np.array(row["tau"])
        expected[2] = row["f3_conjugate_to_b3"]
        assert_close(tau, expected, 1e-6)  # the table has six decimals or more


def test_planar_arm_has_the_inertia_matrix_and_gravity_of_the_textbook():
    robot = load_robot("planar2")
    for q1, q2 in ((0.3, 0.7), (-1.0, 2.0)):
        c2, c1, c12 = np.cos(q2), np.cos(q1), np.cos(q1 + q2)
        M = [[200.01 + 50 * c2, 23.5 + 25 * c2], [23.5 + 25 * c2, 122.5]]
        assert_close(np.array(build_equation(robot, "inertia_matrix", with_drives=True)([q1, q2])), M, SAME_ALGEBRA)
        G = 9.81 * np.array([80 * c1 + 25 * c12, 25 * c12])
        assert_close(np.array(build_equation(robot, "gravity")([q1, q2])).ravel(), G, SAME_ALGEBRA)


def test_puma_gravity_has_armstrongs_printed_constants():
    """Armstrong et al. 1986, constants g1..g5 of the explicit model, printed to three digits."""
    g1, g2, g3, g4, g5 = -37.2, -8.44, 1.02, 0.249, -0.0282
    robot = load_robot("puma560")
    q = np.array([0.4, -0.9, 0.7, 0.3, -0.5, 0.2])
    c2, s23, c23, s2 = np.cos(q[1]), np.sin(q[1] + q[2]), np.cos(q[1] + q[2]), np.sin(q[1])
    c4, s5, c5 = np.cos(q[3]), np.sin(q[4]), np.cos(q[4])
    joint2 = g1 * c2 + g2 * s23 + g3 * s2 + g4 * c23 + g5 * (s23 * c5 + c23 * c4 * s5)
    assert np.array(build_equation(robot, "gravity")(q)).ravel()[1] == pytest.approx(joint2, rel=2e-3)


@pytest.mark.parametrize("name", bundled_robots())
def test_bundled_robots_cite_their_source(name):
    robot = load_robot(name)
    assert len(robot.source) > 40
    assert robot.has_parameters
    ranged = [joint.limits.lower is not None for joint in robot.joints]
    assert all(ranged) or name in ("planar2", "thomas_tesar") or robot.loops or "yoshida" in name
    if not robot.loops:
        assert np.isfinite(np.array(build_equation(robot, "inverse_dynamics")(*np.ones((3, robot.joint_count))))).all()
