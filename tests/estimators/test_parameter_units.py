"""Units of parameters: of the motion that each belongs to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mindyn.estimators.parameter_units import parameter_units
from mindyn.identifiability.base_sets import base_parameters
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Drive

TURNS = {"Im": "kg m^2", "fv": "N m s", "fc": "N m", "fo": "N m"}
SLIDES = {"Im": "kg", "fv": "N s/m", "fc": "N", "fo": "N"}


@pytest.mark.parametrize(
    ("ratio", "side", "expected"),
    [
        (1.0, "joint", SLIDES),
        (1.0, "motor", SLIDES),
        (300.0, "motor", TURNS),
        (300.0, "joint", {**SLIDES, "Im": "kg m^2"}),
    ],
)
def test_a_geared_motor_of_a_prismatic_joint_turns(ratio, side, expected):
    robot = load_robot("scara")
    (joint,) = [one for one in robot.joints if one.kind == "prismatic"]
    number = robot.joint_index(joint.name) + 1
    base = base_parameters(replace(robot, drives=(Drive(joint.name, ratio, side=side),)), drives=True)
    labels = tuple(f"{kind}{number}" for kind in expected)
    beyond = (*base.names, *labels, f"fvj{number}", f"fcj{number}")
    assert parameter_units(base, beyond)[base.count :] == (*expected.values(), "N s/m", "N")
