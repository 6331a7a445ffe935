"""Units have their factors to SI, and values their side of the gear."""

from __future__ import annotations

import numpy as np
from closeness import EXACT, SAME_ALGEBRA, assert_close
from raising import raises

from mindyn.foundation.errors import Code
from mindyn.logs.conversion import array_per_joint, create_conversion, motor_gears
from mindyn.logs.log_errors import LogError
from mindyn.logs.metadata import LogMetadata
from mindyn.logs.units import CURRENT_UNITS, UNIT_FACTORS, unit_factor
from mindyn.robots.loading import load_robot


def test_factors_of_all_units():
    turn = np.pi / 180
    assert_close(list(UNIT_FACTORS["time"].values()), [1, 1e-3, 1e-6, 1e-9], EXACT)
    assert_close(list(UNIT_FACTORS["position"].values()), [1, turn, 1, 1e-3], EXACT)
    assert_close(list(UNIT_FACTORS["velocity"].values()), [1, turn, 2 * np.pi / 60, 1, 1e-3], SAME_ALGEBRA)
    assert_close(list(UNIT_FACTORS["acceleration"].values()), [1, turn, 1, 1e-3], EXACT)
    assert_close(list(UNIT_FACTORS["torque"].values()), [1, 1e-3, 1, 1e-3, 1, 1e-3], EXACT)
    assert [unit in CURRENT_UNITS for unit in UNIT_FACTORS["torque"]] == [False] * 4 + [True] * 2
    assert unit_factor("torque", "Nm", "revolute", "j") == 1.0
    assert unit_factor("time", "ms", "prismatic", "j") == 1e-3
    with raises(LogError, code=Code.WRONG_UNIT, subject="units.torque"):
        unit_factor("torque", "kNm", "revolute", "j")


ROBOT = load_robot("planar2")


def convert(signals, **stated):
    units = {"position": "rad", "velocity": "deg/s", "torque": "N m"}
    return create_conversion(LogMetadata(units=units, **stated), ROBOT, signals)


def test_motors_turn_further_and_push_less_than_joints():
    G = np.array([[100.0, 0.0], [20.0, 50.0]])
    raw = np.array([[100.0, 70.0], [-3.0, 5.0]])
    created = convert(("position", "velocity", "torque"), side="motor", gears=G.tolist(), position_offset=[0.5, 0.0])
    assert_close(created.apply("position", raw), raw @ np.linalg.inv(G).T + [0.5, 0.0], SAME_ALGEBRA)
    assert_close(created.apply("velocity", raw), np.deg2rad(raw @ np.linalg.inv(G).T), SAME_ALGEBRA)
    assert_close(created.apply("torque", raw), raw @ G, SAME_ALGEBRA)
    joint = convert(("position", "torque"), side="joint")
    assert_close(joint.apply("torque", raw), raw, EXACT)
    assert_close(joint.apply("position", raw), raw, EXACT)
    kept = joint.apply("torque", np.array([[np.nan, 1.0]]))
    assert kept[0, 1] == 1.0
    with raises(LogError, code=Code.INVALID_VALUE, subject="gears"):
        motor_gears(LogMetadata(gears=[[1.0, 2.0], [2.0, 4.0]]), ROBOT)
    assert_close(motor_gears(LogMetadata(gears=[50.0, -30.0]), ROBOT), np.diag([50.0, -30.0]), EXACT)
    with raises(LogError, code=Code.DISAGREEMENT, subject="gains"):
        array_per_joint({"a": 1.0}, ROBOT.primary_names, "gains")


def test_a_table_for_some_joints_names_those_without_a_value():
    with raises(LogError, Code.DISAGREEMENT, "kp") as raised:
        array_per_joint({"b": 1.0, "c": 2.0}, ("a", "b"), "kp")
    assert "no value for a;" in raised.value.message
    assert "no joint c" in raised.value.message
