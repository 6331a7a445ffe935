"""Rows for dissipative friction equal the friction power of the regressor, for any gear ratio."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close

import mindyn
from mindyn.feasibility.physical_space import BRAKING_SPEEDS_RAD_S, space_of
from mindyn.regression.regressor import Regressor
from mindyn.robots.friction_laws import FITTED_SHAPES


@pytest.mark.parametrize("ratio", [1.0, 60.0, -60.0])
@pytest.mark.parametrize("side", ["motor", "joint"])
def test_a_braking_row_is_friction_torque_along_the_speed(ratio, side):
    """For any values x, the row at u is proportional to sign(u) tau(u), with positive factors."""
    robot = replace(
        mindyn.load_robot("planar2"),
        gravity=np.zeros(3),
        drives=(mindyn.Drive("joint1", ratio, side=side), mindyn.Drive("joint2", side="joint")),
    )
    regressor = Regressor(robot, mindyn.Friction("sign", 0.0, FITTED_SHAPES))
    space = space_of(regressor)
    speeds = np.concatenate([-BRAKING_SPEEDS_RAD_S, BRAKING_SPEEDS_RAD_S])
    assert len(space.braking_rows) == 2 * len(speeds)
    rng = np.random.default_rng(3)
    start = 10 * robot.joint_count
    seen = []
    for _ in range(5):
        x = np.zeros(space.size)
        x[start:] = rng.standard_normal(space.size - start)
        x[start::4][:2] = x[start + 3 :: 4][:2] = 0.0  # neither rotors nor offsets are friction
        qd = np.column_stack([speeds, np.zeros_like(speeds)])
        directions = regressor.directions(0 * qd, qd, np.zeros(len(qd), dtype=np.int64), 100.0)
        tau = regressor.dense(regressor.parts(0 * qd, qd, 0 * qd, directions))[:, 0] @ (space.matrix @ x)
        rows = space.braking_rows[: len(speeds)] @ x
        seen.append(rows / (np.sign(speeds) * tau))
    assert (np.array(seen) > 0).all()
    for factors in seen[1:]:
        assert_close(factors, seen[0], SAME_ALGEBRA * 1e4)
