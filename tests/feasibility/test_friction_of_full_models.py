"""Friction of a full model as formulas: they give the torque of the columns of the fit.

One private name is tested directly: inputs at its limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, assert_close
from robots import geared_arm

from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.identification.feasibility.full_models.full_model import _format_sum, friction_as_extras
from mindyn.kernels.model import compile_model
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import Regressor
from mindyn.robots.friction_laws import FITTED_SHAPES, LOAD_SHAPES
from mindyn.robots.parts import ExtraTorque

GEARED = geared_arm()
ARM = replace(GEARED, drives=())
FIRST, SECOND = ARM.joint_names
JOINT_SIDE = replace(ARM, drives=tuple(replace(drive, side="joint", coupling={}) for drive in GEARED.drives))


@pytest.mark.parametrize("robot", [GEARED, JOINT_SIDE], ids=["motor", "joint"])
@pytest.mark.parametrize("direction", ["sign", "tanh"])
@pytest.mark.parametrize("shapes", [FITTED_SHAPES[:1], LOAD_SHAPES, (*FITTED_SHAPES, *LOAD_SHAPES)], ids=len)
def test_formulas_make_the_torque_of_the_columns(robot, direction, shapes):
    base = base_parameters(robot, with_drives=True)
    reference = tuple(base.values.tolist()) if set(shapes) & set(LOAD_SHAPES) else ()
    friction = Friction(direction, 0.2 if direction == "tanh" else 0.0, shapes, (SECOND,), reference)
    regressor = Regressor(robot, friction)
    rng = np.random.default_rng(1)
    tail = regressor.parameters[base.count :]
    values = {element.identity: float(v) for element, v in zip(tail, rng.uniform(0.1, 1.0, len(tail)), strict=True)}
    values |= {("coulomb", drive.joint, "fc"): drive.coulomb for drive in robot.drives}
    q, qd, qdd = rng.uniform(-2, 2, (3, 12, 2))
    directions = regressor.directions(q, qd, np.zeros(12, dtype=np.int64), 100.0)
    beta = np.concatenate([base.values, [values[entry.identity] for entry in tail]])
    expected = regressor.dense(regressor.parts(q, qd, qdd, directions)) @ beta
    result = friction_as_extras(robot, friction, values, fitted=True)
    drives = tuple(replace(value, coulomb=0.0) for value in robot.drives) if direction == "tanh" else robot.drives
    whole = replace(robot, drives=drives, extras=tuple(result))
    assert_close(compile_model(whole, with_drives=True).inverse_dynamics(q, qd, qdd), expected, ORACLE)
    assert len({item.name for item in result}) == len(result)


def test_a_model_with_sharp_friction_leaves_coulomb_friction_to_the_drives():
    friction = Friction("tanh", 0.2, FITTED_SHAPES[:1])
    values = {("coulomb", FIRST, "fc"): 1.0, ("coulomb", SECOND, "fc"): 1.0}
    assert friction_as_extras(GEARED, friction, values, fitted=False) == []
    assert friction_as_extras(GEARED, Friction(joint_side=(SECOND,)), {}, fitted=True) == []
    smooth = friction_as_extras(GEARED, friction, values, fitted=True)
    assert [(value.name, value.joint) for value in smooth] == [
        (f"coulomb_{FIRST}", FIRST),
        (f"coulomb_{SECOND}_on_{FIRST}", FIRST),
        (f"coulomb_{SECOND}", SECOND),
    ]
    assert_close([item.coefficient for item in smooth], [3.0, 2.0 * 0.25, 2.0], ORACLE)
    taken = replace(GEARED, extras=(ExtraTorque(f"coulomb_{FIRST}", FIRST, "q", 1.0),))
    assert friction_as_extras(taken, friction, values, fitted=True)[0].name == f"coulomb_{FIRST}_2"


@pytest.mark.parametrize(
    ("weights", "joint", "formula"),
    [
        ([0.0, 1.0], 1, "qd"),
        ([0.0, 2.0], 1, "(2.0 * qd)"),
        ([0.25, 1.0], 1, "(0.25 * qd1 + 1.0 * qd2)"),
        ([1.0, 0.0], 1, "(1.0 * qd1)"),
        ([1.0, 0.0, -2.0], 0, "(1.0 * qd1 + -2.0 * qd3)"),
    ],
)
def test_sums_over_joints_as_formulas(weights, joint, formula):
    assert _format_sum(np.array(weights), joint, "qd") == formula
