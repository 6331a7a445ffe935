"""A friction law gives the same torque on arrays, in compiled code and as text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, InputError, RobotError
from mindyn.robots.friction_laws import FITTED_SHAPES, FRICTION_LAWS, LOAD_SHAPES, FrictionLaw, stribeck

WRITTEN_OUT = {
    "speed": lambda u: u,
    "direction": lambda u: np.sign(u),
    "difference": lambda u: np.where(u == 0, 0.0, 1.0),
    "asymmetric": lambda u: np.where(u < 0, -u, u),
    "root": lambda u: np.sign(u) * abs(u) ** 0.5,
    "square": lambda u: u * abs(u),
    "cubic": lambda u: u * u * u,
    "stribeck": lambda u: np.sign(u) * np.exp(-10 * abs(u)),
}
SPEEDS = np.concatenate([np.linspace(-2, 2, 41), [0.0, 1e-3, -1e-3, 0.1]])


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_a_law_is_the_same_in_arrays_and_in_compiled_code(name):
    law = FRICTION_LAWS[name]
    expected = WRITTEN_OUT[name](SPEEDS)
    assert_close(law.values(SPEEDS, np.sign(SPEEDS)), expected, SAME_ALGEBRA)
    torque = mindyn.ExtraTorque("friction", "joint1", law.text("qd", "sign(qd)"), 1.0)
    robot = replace(mindyn.load_robot("planar2"), gravity=np.zeros(3), drives=(), extras=(torque,))
    still = np.zeros((len(SPEEDS), 2))
    qd = np.column_stack([SPEEDS, 0 * SPEEDS])
    tau = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(still, qd, still)
    assert_close(tau[:, 0], expected, SAME_ALGEBRA)


def test_every_law_is_written_out_or_depends_on_the_load():
    assert set(FRICTION_LAWS) == {*WRITTEN_OUT, *LOAD_SHAPES}


def test_friction_columns_of_a_fit_are_laws_of_the_table():
    assert set(FITTED_SHAPES) <= set(FRICTION_LAWS) - set(LOAD_SHAPES)
    smooth = np.tanh(SPEEDS / 0.05)
    assert_close(FRICTION_LAWS["root"].values(SPEEDS, smooth), smooth * np.sqrt(np.abs(SPEEDS)), SAME_ALGEBRA)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_stribeck_friction_has_the_given_exponent(exponent):
    extra = stribeck("joint1", 3.0, 0.2, exponent)
    robot = replace(mindyn.load_robot("planar2"), gravity=np.zeros(3), drives=(), extras=(extra,))
    qd = np.array([-0.13, 0.0])
    tau = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(0 * qd, qd, 0 * qd)
    assert_close(tau[0], -3.0 * np.exp(-((0.13 / 0.2) ** exponent)), SAME_ALGEBRA)
    column = FRICTION_LAWS["stribeck"].with_constants(speed=0.2, exponent=exponent)
    assert_close(column.values(np.array([-0.13]), np.array([-1.0])), [tau[0] / 3.0], SAME_ALGEBRA)


def test_the_text_contains_a_speed_of_several_joints():
    assert FRICTION_LAWS["root"].text("(2.0 * qd1 - qd3)", "sign(2.0 * qd1 - qd3)") == (
        "sign(2.0 * qd1 - qd3) * sqrt(abs(2.0 * qd1 - qd3))"
    )


def test_a_law_that_depends_on_the_load_requires_it():
    law = FrictionLaw("loaded", "s * abs(load)", ("1", "1"), "proportional to the load")
    u, load = np.array([0.3, -0.2]), np.array([-5.0, 7.0])
    assert law.needs_load
    assert_close(law.values(u, np.sign(u), load), [5.0, -7.0], 0.0)
    with raises(InputError, Code.MISSING_VALUE, "load"):
        law.values(u, np.sign(u))
    assert law.text("qd", "sign(qd)") == "sign(qd) * abs(load)"


def test_unknown_variables_and_invalid_constants_are_rejected():
    with raises(RobotError, Code.UNSUPPORTED, "w"):
        FrictionLaw("unknown", "s * w")
    with raises(RobotError, Code.OUT_OF_RANGE, "the Stribeck exponent"):
        stribeck("joint1", 1.0, 0.1, 0.0)
