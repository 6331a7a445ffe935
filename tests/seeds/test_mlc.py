"""Lin's inverse dynamics and Lin & Fang's inertia matrix from minimal linear combinations alone."""

from __future__ import annotations

import casadi
import numpy as np
import pytest
from chunks import seeds_of_chunk
from closeness import SAME_ALGEBRA, assert_close
from parameters.chains import random_chain
from raising import raises
from robots import random_motion, random_robot
from seeds.test_published import FIXTURES, robot_of_fixture

from mindyn import load_robot
from mindyn.equations.catalogue import build_equation
from mindyn.equations.external_inputs import ExternalInputs
from mindyn.equations.mlc_dynamics import mlc_inverse_dynamics
from mindyn.equations.mlc_inertia import mlc_inertia_matrix
from mindyn.foundation.errors import Code, MindynError
from mindyn.parameters.lin import lin_base, lin_structure

CHUNK = 25


def serial_robot(seed):
    """Half full of special cases, half with axes anywhere."""
    return random_chain(seed) if seed % 2 else random_robot(seed, joints=1 + seed // 2 % 6, tree=False)


def torques(robot, motion, wrench):
    """From the MLC as inputs: nothing else of the links can enter."""
    base, n = lin_base(robot), robot.joint_count
    symbols = [casadi.SX.sym("mlc", base.count), *(casadi.SX.sym(name, n) for name in ("q", "qd", "qdd"))]
    end = casadi.SX.sym("wrench", 6)
    tau = mlc_inverse_dynamics(lin_structure(robot), *symbols, outside=ExternalInputs(tip_wrench=end))
    return np.array(casadi.Function("tau", [*symbols, end], [tau])(base.values, *motion, wrench)).ravel()


def reference(robot, motion, wrench):
    wrenches = np.zeros((robot.joint_count, 6))
    wrenches[-1] = wrench
    function = build_equation(robot, "inverse_dynamics_with_wrenches", parameters="standard")
    return np.array(function(*motion, wrenches)).ravel()


def matrices(robot, q):
    base, symbol = lin_base(robot), casadi.SX.sym("q", robot.joint_count)
    mlc, structure = casadi.SX.sym("mlc", base.count), lin_structure(robot)
    results = [mlc_inertia_matrix(structure, mlc, symbol, k) for k in (1, 2)]
    return [np.array(M) for M in casadi.Function("M", [mlc, symbol], results)(base.values, q)]


@pytest.mark.parametrize("start", range(0, 1000, CHUNK))
def test_torques_from_mlc_equal_newton_euler(start):
    for seed in seeds_of_chunk(start, CHUNK):
        robot = serial_robot(seed)
        motion, wrench = random_motion(robot, seed), np.random.default_rng(seed).normal(size=6)
        assert_close(torques(robot, motion, wrench), reference(robot, motion, wrench), SAME_ALGEBRA)


@pytest.mark.parametrize("start", range(4000, 5000, CHUNK))
def test_inertia_matrices_from_mlc_equal_composite_bodies(start):
    for seed in seeds_of_chunk(start, CHUNK):
        robot = serial_robot(seed)
        q = random_motion(robot, seed)[0]
        expected = np.array(build_equation(robot, "inertia_matrix", parameters="standard")(q))
        for M in matrices(robot, q):
            assert_close(M, expected, SAME_ALGEBRA)


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture["name"])
def test_lin_fixtures_from_mlc(fixture):
    robot = robot_of_fixture(fixture)
    motion = [np.array(fixture[key]) for key in ("q", "qd", "qdd")]
    assert_close(torques(robot, motion, np.zeros(6)), fixture["tau"], SAME_ALGEBRA)
    for M in matrices(robot, motion[0]):
        assert_close(M, fixture["D"], SAME_ALGEBRA)


def test_forms_for_serial_robots_raise_for_others():
    with raises(MindynError, Code.UNKNOWN_NAME, "3"):
        mlc_inertia_matrix(lin_structure(load_robot("scara")), np.zeros(8), casadi.SX.sym("q", 4), 3)
