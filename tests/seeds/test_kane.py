"""Kane's equations as Angeles, Ma and Rojas write them, corrected."""

from __future__ import annotations

import json

import casadi
import numpy as np
import pytest
from chunks import seeds_of_chunk
from closeness import SAME_ALGEBRA, assert_close
from robots import random_motion
from seeds.test_mlc import CHUNK, reference, serial_robot
from seeds.test_published import REFERENCE

from mindyn import load_robot
from mindyn.equations.external_inputs import ExternalInputs
from mindyn.equations.kane import kane_inverse_dynamics


def torque_function(robot):
    symbols = [*(casadi.SX.sym(name, robot.joint_count) for name in ("q", "qd", "qdd")), casadi.SX.sym("wrench", 6)]
    return casadi.Function(
        "tau", symbols, [kane_inverse_dynamics(robot, *symbols[:3], outside=ExternalInputs(tip_wrench=symbols[3]))]
    )


@pytest.mark.parametrize("start", range(1000, 2000, CHUNK))
def test_kane_equals_newton_euler(start):
    for seed in seeds_of_chunk(start, CHUNK):
        robot = serial_robot(seed)
        motion, wrench = random_motion(robot, seed), np.random.default_rng(seed).normal(size=6)
        tau = np.array(torque_function(robot)(*motion, wrench)).ravel()
        assert_close(tau, reference(robot, motion, wrench), SAME_ALGEBRA)


def test_angeles_example_1():
    data = json.loads((REFERENCE / "angeles_ex1.json").read_text())
    A, B = np.array([np.pi / 30, -np.pi / 60, 0.01, np.pi / 30, np.pi / 30, np.pi / 30]), 2 * np.pi / 10
    torque = torque_function(load_robot("stanford"))
    for row in data["variants"][data["primary"]]:
        t = row["t"]
        tau = np.array(torque(row["q"], A * (1 - np.cos(B * t)), A * B * np.sin(B * t), np.zeros(6))).ravel()
        expected = np.array(row["tau"])
        expected[2] = row["f3_conjugate_to_b3"]
        assert_close(tau, expected, 1e-6)  # the table has six decimals or more
