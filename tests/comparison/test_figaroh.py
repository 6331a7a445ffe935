"""FIGAROH as a method in one file (leaderboard/methods/figaroh.py), if it is installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mindyn import compile_model, load_robot, log_from_arrays
from mindyn.applications.comparison.log_methods import load_method

FILE = Path(__file__).parents[2] / "leaderboard" / "methods" / "figaroh.py"


def test_figaroh_predicts_another_motion():
    pytest.importorskip("figaroh")
    robot = load_robot("planar2")
    model = compile_model(robot)
    t = np.arange(0, 8, 0.01)

    def log(a, b):
        q = np.column_stack([np.sin(a * t), np.cos(b * t)])
        qd = np.column_stack([a * np.cos(a * t), -b * np.sin(b * t)])
        qdd = np.column_stack([-a * a * np.sin(a * t), -b * b * np.cos(b * t)])
        return log_from_arrays(robot.joint_names, t, q, model.inverse_dynamics(q, qd, qdd))

    _, fit = load_method(str(FILE))
    other = log(1.7, 3.1)
    predicted = fit(robot, [log(2.0, 1.3), log(1.1, 2.6)])(other)
    inner = slice(100, -100)
    share = np.linalg.norm((predicted - other.tau)[inner]) / np.linalg.norm(other.tau[inner])
    assert share < 0.05  # its median filter flattens the peaks


def test_the_file_is_a_method_without_it_too():
    assert load_method(str(FILE))[0] == "figaroh"
