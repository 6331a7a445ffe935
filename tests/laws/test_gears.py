"""Motor side and joint side through a coupled gear matrix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from closeness import SAME_ALGEBRA, assert_close
from raising import raises

from mindyn import Drive, load_robot
from mindyn.foundation.errors import Code, RobotError
from mindyn.motions.simulation.sensors import Sensors, measure
from mindyn.motions.simulation.simulate import simulate
from mindyn.robots.drive_matrices import gear_matrix, require_invertible_gears


def test_yoshidas_gears_are_the_inverse_of_his_matrix():
    K = [
        *([0.016, 0, 0, 0, 0, 0], [0, 0.00926, 0, 0, 0, 0], [0, 0, 0.0186, 0, 0, 0], [0, 0, 0, -0.0132, 0, 0]),
        *([0, 0, 0, 0.00018, -0.0139, 0], [0, 0, 0, 0.00014, 0.00251, -0.013]),
    ]
    assert_close(gear_matrix(load_robot("puma560_yoshida")) @ K, np.eye(6), SAME_ALGEBRA)


def test_singular_gears_are_rejected():
    robot = load_robot("planar2")
    drives = (Drive("joint1", 2.0, {"joint2": 2.0}), Drive("joint2", 1.0, {"joint1": 1.0}))
    with raises(RobotError, Code.INVALID_STRUCTURE, "planar2"):
        require_invertible_gears(robot, gear_matrix(replace(robot, drives=drives)))


def test_very_different_ratios_are_not_singular():
    """Sensors and conversions accept a ratio of 1e7 together with one of 1e-7."""
    robot = load_robot("planar2")
    robot = replace(robot, drives=(Drive("joint1", 1e7), Drive("joint2", 1e-7)))
    assert_close(require_invertible_gears(robot, gear_matrix(robot)), np.diag([1e7, 1e-7]), SAME_ALGEBRA)
    motion = simulate(robot, lambda *_: np.zeros(2), seconds=0.01, q0=[0.3, 0.4])
    read = measure(robot, motion, Sensors(rate_hz=100.0, position_side="motor"))
    assert_close(read.position[0], [0.3e7, 0.4e-7], SAME_ALGEBRA)
