"""Fields of a parameter describe it independently of its name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.parameters.parameter import (
    friction_parameter,
    joint_side_parameters,
    list_base_parameters,
    standard_parameters,
)
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.robots.friction_laws import FRICTION_LAWS
from mindyn.robots.loading import bundled_robots, load_robot
from mindyn.robots.parts import Drive, ExtraTorque

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
def test_a_geared_motor_of_a_prismatic_joint_has_rotary_units(ratio, side, expected):
    robot = load_robot("scara")
    (joint,) = [candidate for candidate in robot.joints if candidate.kind == "prismatic"]
    number = robot.joint_index(joint.name) + 1
    driven = replace(robot, drives=(Drive(joint.name, ratio, side=side),))
    units = {parameter.name: parameter.unit for parameter in standard_parameters(driven, with_drives=True)}
    assert {kind: units[f"{kind}{number}"] for kind in expected} == expected
    assert [parameter.unit for parameter in joint_side_parameters(driven, joint.name)] == ["N s/m", "N"]


def test_further_friction_has_the_units_of_its_law():
    robot = load_robot("scara")
    (slides,) = [candidate.name for candidate in robot.joints if candidate.kind == "prismatic"]
    turns = robot.joint_names[0]
    units = {"root": ("N m s^0.5", "N s^0.5/m^0.5"), "cubic": ("N m s^3", "N s^3/m^3"), "stribeck": ("N m", "N")}
    for shape, expected in units.items():
        assert (
            tuple(friction_parameter(robot, joint, FRICTION_LAWS[shape]).unit for joint in (turns, slides)) == expected
        )


@pytest.mark.parametrize("name", bundled_robots())
def test_base_parameters_have_the_names_of_their_carriers(name):
    robot = with_estimated_drives(load_robot(name))
    base = base_parameters(robot, with_drives=True)
    standard = {parameter.name: parameter for parameter in standard_parameters(robot, with_drives=True)}
    assert tuple(standard) == base.labels
    for parameter in list_base_parameters(base):
        carrier = standard[parameter.name.removesuffix("R")]
        assert replace(carrier, name=parameter.name) == parameter


def test_an_extra_torque_is_recognised_with_any_name():
    robot = load_robot("planar2")
    first, second = robot.joint_names
    names = {"Imbalance": first, "fc_spring": second, "f_like": first}
    extras = [ExtraTorque(name, joint, f"cos({k} * q)") for k, (name, joint) in enumerate(names.items(), 3)]
    robot = replace(robot, extras=tuple(extras))
    regressor = Regressor(robot, Friction("tanh", 0.1, ("root",), (first,)))
    by_name = {parameter.name: parameter for parameter in regressor.parameters}
    for name, joint in names.items():
        assert by_name[name].identity == ("extra", joint, name)
        assert not by_name[name].is_friction
        assert not by_name[name].depends_on_direction
    assert by_name["f_root1"].identity == ("friction", first, "f_root")
    assert [by_name[name].depends_on_direction for name in ("fvj1", "fcj1", "fc1", "fv1", "f_root1")] == [0, 1, 1, 0, 1]


def test_a_combination_has_the_kind_of_its_highest_moment():
    base = base_parameters(load_robot("puma560"), "lin")
    units = {parameter.name: parameter.unit for parameter in list_base_parameters(base)}
    assert {units[name] for name in units if name.startswith("U")} == {"kg m^2"}
    assert {units[name] for name in units if name.startswith("k")} == {"kg m"}
