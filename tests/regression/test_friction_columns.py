"""Columns of friction written down sample by sample: shapes, loads, joint-side friction, other base sets.

One private name is tested directly: inputs at its limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from raising import raises
from robots import geared_arm, random_robot

from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.load_regressor import LoadRegressor
from mindyn.regression.friction import Friction, _stop_operator
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.robots.friction_laws import FITTED_SHAPES, FRICTION_LAWS, LOAD_SHAPES

GEARED = geared_arm()
ARM = replace(GEARED, drives=())
FIRST, SECOND = ARM.joint_names


def motion(count=6, seed=0):
    return np.random.default_rng(seed).uniform(-2, 2, (3, count, 2))


def columns_of(regressor, q, qd, qdd):
    directions = regressor.directions(q, qd, np.zeros(len(q), dtype=np.int64), 100.0)
    return dict(
        zip(regressor.names, np.moveaxis(regressor.dense(regressor.parts(q, qd, qdd, directions)), 2, 0), strict=True)
    )


def motor_speeds(qd):
    """Joint side: what each motor turns, by its own ratio; the second is turned by the first joint too."""
    return np.column_stack([qd[:, 0], qd[:, 1] + 0.25 * qd[:, 0]])


def acting(values, drive):
    """A friction of a drive on the joints that turn it."""
    shares = np.array([1.0, 0.0]) if drive == 0 else np.array([0.25, 1.0])
    return values[:, None] * shares


@pytest.mark.parametrize("shape", FITTED_SHAPES)
def test_shapes_act_on_the_motion_of_their_motor(shape):
    q, qd, qdd = motion()
    columns = columns_of(Regressor(GEARED, Friction(shapes=(shape,))), q, qd, qdd)
    plain = columns_of(Regressor(GEARED), q, qd, qdd)
    u = motor_speeds(qd)
    added = [name for name in columns if name not in plain]
    assert len(added) == 2
    for k, name in enumerate(added):
        assert_close(columns[name], acting(FRICTION_LAWS[shape].values(u[:, k], np.sign(u[:, k]), None), k), ORACLE)
    for name, values in plain.items():
        assert np.allclose(columns[name], values, rtol=1e-12, atol=1e-12), name


def test_friction_under_load_has_the_torque_that_the_motor_carries():
    """A motor carries G^-T of the joints' torques of links and rotors, times its ratio."""
    q, qd, qdd = motion(seed=1)
    base = base_parameters(GEARED, with_drives=True)
    friction = Friction("tanh", 0.1, LOAD_SHAPES, (), tuple(base.values.tolist()))
    regressor = Regressor(GEARED, friction)
    columns = columns_of(regressor, q, qd, qdd)
    Y = np.moveaxis(np.array([columns[name] for name in base.names]), 0, 2)
    rigid = np.array([parameter.kind in ("link", "rotor") for parameter in regressor.parameters[: base.count]])
    carried = Y[:, :, rigid] @ base.values[rigid]
    G = np.array([[-3.0, 0.0], [0.5, 2.0]])
    load = carried @ np.linalg.inv(G) * [-3.0, 2.0]
    u = motor_speeds(qd)
    names = regressor.names[base.count :]
    assert len(names) == 2 * len(LOAD_SHAPES)
    number = 0
    for k in range(2):
        for shape in LOAD_SHAPES:
            values = FRICTION_LAWS[shape].values(u[:, k], np.tanh(u[:, k] / 0.1), load[:, k])
            assert_close(columns[names[number]], acting(values, k), 1e-9)
            number += 1


def test_the_torque_of_a_load_is_part_of_the_carried_torque():
    q, qd, qdd = motion(seed=3)
    base = base_parameters(GEARED, with_drives=True)
    friction = Friction("sign", 0.0, LOAD_SHAPES, (), tuple(base.values.tolist()))
    plain, phi = Regressor(GEARED, friction), phi_about_origin(2.0, np.array([0.1, 0.2, 0.0]), 0.01 * np.eye(3))
    loaded = LoadRegressor(plain, GEARED.link_names[-1], phi)
    heavier = replace(GEARED, links=(GEARED.links[0], replace(GEARED.links[1], phi=GEARED.links[1].phi + phi)))
    whole = Regressor(
        heavier, replace(friction, reference=tuple(base_parameters(heavier, with_drives=True).values.tolist()))
    )
    ours, theirs = columns_of(loaded, q, qd, qdd), columns_of(whole, q, qd, qdd)
    for name in plain.names[base.count :]:
        assert_close(ours[name], theirs[name], 1e-9)


def test_a_slide_whose_weight_and_offset_are_inseparable_has_no_known_load():
    """The constant weight on a first slide is identifiable only together with the offset of its drive."""
    slide = with_estimated_drives(random_robot(5, joints=2, tree=False, special=False, gravity=(0.0, 0.0, -9.81)))
    assert slide.joints[0].kind == "prismatic"
    obstacle = Regressor(slide).load_obstacle()
    assert obstacle == "fo1R combines the weight of a link and the offset of a drive"
    values = tuple(base_parameters(slide, with_drives=True).values.tolist())
    with raises(InputError, Code.UNSUPPORTED, "friction"):
        Regressor(slide, Friction(shapes=LOAD_SHAPES, reference=values))
    weightless = replace(slide, gravity=np.zeros(3))
    assert Regressor(weightless).load_obstacle() == ""


def test_friction_at_the_joint_is_added_to_that_of_the_motor_or_used_alone():
    q, qd, qdd = motion(seed=2)
    for robot, base in ((GEARED, None), (GEARED, base_parameters(GEARED, with_drives=False)), (ARM, None)):
        regressor = Regressor(robot, Friction(joint_side=(SECOND,)), base)
        columns = columns_of(regressor, q, qd, qdd)
        viscous, coulomb = regressor.names[-2:]
        assert_close(columns[viscous], np.column_stack([0 * qd[:, 1], qd[:, 1]]), SAME_ALGEBRA)
        assert_close(columns[coulomb], np.column_stack([0 * qd[:, 1], np.sign(qd[:, 1])]), SAME_ALGEBRA)
        assert len(regressor.names) == (regressor.base.count + 2)


def test_a_stop_operator_is_clipped_row_by_row():
    rng = np.random.default_rng(3)
    for count in (1, 2, 17, 60):
        steps = 0.7 * rng.normal(size=(count, 3))
        segments = np.sort(rng.integers(0, 4, count))
        z, expected = np.zeros(3), []
        for k in range(count):
            z = np.zeros(3) if k == 0 or segments[k] != segments[k - 1] else np.clip(z + steps[k], -1.0, 1.0)
            expected.append(z)
        assert np.allclose(_stop_operator(steps, segments), expected, rtol=0, atol=1e-13)
