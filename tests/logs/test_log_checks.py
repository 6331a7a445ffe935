"""What looks wrong with a log beside its robot: degrees, limits, torques a thousand times off, units, jumps."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from raising import raises

from mindyn.foundation.errors import Code
from mindyn.logs.log import log_from_arrays
from mindyn.logs.log_errors import LogError
from mindyn.logs.number_checks import LogInspector, check_units
from mindyn.logs.units import unit_factor
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Limits

T = np.arange(200) / 100


def robot_with(*, effort=None, reach=2.0):
    robot = load_robot("planar2")
    limits = Limits(lower=-reach, upper=reach, effort=effort)
    return replace(robot, joints=tuple(replace(joint, limits=limits) for joint in robot.joints))


def log_with(robot, *, position=1.0, torque=5.0, qd=None):
    q = position * np.column_stack([np.sin(3 * T), np.cos(2 * T)])
    tau = torque * np.column_stack([np.sin(3 * T), np.cos(2 * T)])
    return log_from_arrays(robot.joint_names, T, q, tau, qd)


def notes_of(log, robot):
    return " ".join(map(str, check_units(log, robot, ())))


def test_whole_turns_are_not_beyond_the_limits():
    robot = robot_with(reach=4.0)
    log = log_with(robot)
    assert "beyond its limits" not in notes_of(replace(log, q=log.q + 2 * np.pi), robot)
    assert "beyond its limits" not in notes_of(replace(log, q=log.q - 2 * np.pi), robot)
    assert "beyond its limits" in notes_of(replace(log, q=log.q + np.pi), robot)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_positions_in_degrees_are_recognised_whichever_way_they_go(sign):
    robot = robot_with(reach=2.0)
    q = sign * np.column_stack([90 * np.abs(np.sin(3 * T)), 60 * np.abs(np.cos(2 * T))])
    with raises(LogError, code=Code.WRONG_UNIT, subject="degrees"):
        check_units(log_from_arrays(robot.joint_names, T, q, q), robot, ())
    assert "degrees" not in notes_of(log_with(robot), robot)
    far = log_from_arrays(robot.joint_names, T, 4 * q, q)  # beyond the limits as degrees too
    assert "degrees" not in notes_of(far, robot)


@pytest.mark.parametrize(("position", "beyond"), [(1.9, False), (2.03, False), (2.06, True), (-2.06, True)])
def test_limits_are_left_by_more_than_a_hundredth_of_their_range(position, beyond):
    robot = robot_with(reach=2.0)
    q = np.column_stack([position * np.abs(np.sin(3 * T)), 0.5 * np.cos(2 * T)])
    notes = notes_of(log_from_arrays(robot.joint_names, T, q, q), robot)
    assert ("joint joint1 moves from" in notes) == beyond
    assert "joint joint2" not in notes


def test_torques_a_thousand_times_off_are_recognised():
    robot = robot_with(effort=100.0)
    assert "torques" not in notes_of(log_with(robot, torque=50.0), robot)
    with raises(LogError, code=Code.WRONG_UNIT, subject="milli"):
        check_units(log_with(robot, torque=50_000.0), robot, ())
    with raises(LogError, code=Code.WRONG_UNIT, subject="milli"):
        check_units(log_with(robot, torque=0.04), robot, ())
    crossing = 50 * np.column_stack([np.sin(3 * T), np.sin(2 * T)])  # the peak counts, not that it passes zero
    assert "torques" not in notes_of(log_from_arrays(robot.joint_names, T, 0.01 * crossing, crossing), robot)
    unlimited = robot_with()
    for torque in (0.04, 50_000.0):
        assert "torques" not in notes_of(log_with(unlimited, torque=torque), unlimited)
    half = replace(robot, joints=(robot.joints[0], unlimited.joints[1]))  # a joint without a limit may have the torque
    assert "torques" not in notes_of(log_with(half, torque=0.04), half)


def test_a_unit_of_the_other_kind_of_joint_is_rejected_with_a_list_of_valid_units():
    assert unit_factor("position", "deg", "revolute", "j") == pytest.approx(np.pi / 180)
    assert unit_factor("position", "mm", "prismatic", "j") == 1e-3
    assert unit_factor("torque", "mA", "revolute", "j") == unit_factor("torque", "mA", "prismatic", "j")
    with raises(LogError, code=Code.WRONG_UNIT, subject="units.position"):
        unit_factor("position", "mm", "revolute", "j")
    with raises(LogError, code=Code.WRONG_UNIT, subject="units.position"):
        unit_factor("position", "rad", "prismatic", "j")


def test_a_joint_that_jumps_is_known_in_its_own_unit():
    robot = load_robot("scara")
    seen = LogInspector(robot)
    q = np.tile(0.01 * np.sin(T)[:, None], (1, robot.joint_count))
    for joint in range(robot.joint_count):
        q[100 + joint :, joint] += 0.7
    log = log_from_arrays(robot.joint_names, T, q, q)
    seen.see(log.take(slice(0, 101)))
    seen.see(log.take(slice(101, None)))
    result = [str(finding) for finding in seen.findings()]
    for joint, name in enumerate(robot.joint_names):
        unit = "m" if robot.joints[joint].kind == "prismatic" else "rad"
        (note,) = [item for item in result if f"joint {name} jumps" in item]
        assert re.search(rf"jumps by 0.7\d* {unit} at {T[100 + joint]:.6g} s \(row {100 + joint}\)", note)


def test_a_jump_from_the_first_row_to_the_second_is_known():
    robot = load_robot("scara")
    seen = LogInspector(robot)
    q = np.tile(0.01 * np.sin(T)[:, None], (1, robot.joint_count))
    q[1:, 0] += 0.7
    seen.see(log_from_arrays(robot.joint_names, T, q, q))
    (note,) = [item for item in map(str, seen.findings()) if "jumps" in item]
    assert "(row 1)" in note
