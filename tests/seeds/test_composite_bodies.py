"""Lin & Fang's five formulations of the inertia matrix: one matrix, and Pinocchio's."""

from __future__ import annotations

import casadi
import numpy as np
import pytest
from chunks import seeds_of_chunk
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from oracles.pinocchio_oracle import pinocchio_model
from raising import raises
from robots import random_motion
from seeds.test_mlc import serial_robot
from seeds.test_published import FIXTURES, robot_of_fixture

from mindyn import load_robot
from mindyn.equations.catalogue import build_equation
from mindyn.equations.composite_bodies import FORMULATIONS, composite_inertia_matrix
from mindyn.foundation.errors import Code, MindynError


def five(robot, q):
    symbol = casadi.SX.sym("q", robot.joint_count)
    results = [composite_inertia_matrix(robot, symbol, k) for k in FORMULATIONS]
    return [np.array(M) for M in casadi.Function("M", [symbol], results)(q)]


@pytest.mark.parametrize("start", range(3000, 4000, 20))
def test_five_formulations_give_the_same_matrix(start):
    for seed in seeds_of_chunk(start, 20):
        robot = serial_robot(seed)
        q = random_motion(robot, seed)[0]
        expected = np.array(build_equation(robot, "inertia_matrix", parameters="standard")(q))
        for M in five(robot, q):
            assert_close(M, expected, SAME_ALGEBRA)


@pytest.mark.parametrize("start", range(2140, 2200, 20))
def test_five_formulations_give_the_matrix_of_pinocchio(start):
    pin = pytest.importorskip("pinocchio")
    for seed in seeds_of_chunk(start, 20):
        robot = serial_robot(seed)
        q = random_motion(robot, seed)[0]
        model = pinocchio_model(robot)
        M = pin.crba(model, model.createData(), q)
        expected = np.triu(M) + np.triu(M, 1).T
        for matrix in five(robot, q):
            assert_close(matrix, expected, ORACLE)


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture["name"])
def test_lin_fixtures(fixture):
    for M in five(robot_of_fixture(fixture), np.array(fixture["q"])):
        assert_close(M, fixture["D"], SAME_ALGEBRA)


def test_an_unknown_formulation_raises():
    with raises(MindynError, Code.UNKNOWN_NAME, "6"):
        composite_inertia_matrix(load_robot("scara"), casadi.SX.sym("q", 4), 6)
