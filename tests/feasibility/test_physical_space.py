"""The set of physical parameters: units, lengths, cones, braking friction, and the shortest way to given values.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import numpy as np
import pytest
from closeness import EXACT, ORACLE, SAME_ALGEBRA, assert_close
from small_arms import planar_arm

from mindyn.foundation.algebra.inertia import phi_about_origin, pseudo_inertia
from mindyn.identification.feasibility.conditions.nearest_values import (
    _pseudo_inertia_adjoint,
    certificate_slack,
    match_values,
)
from mindyn.identification.feasibility.conditions.physical_space import space_of
from mindyn.identification.feasibility.optimisation.conic_program import matrix_of_triangle
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import Regressor, with_estimated_drives

BALL = phi_about_origin(2.0, np.array([0.2, -0.1, 0.05]), np.array([[0.03, 0.001, 0], [0.001, 0.02, 0], [0, 0, 0.025]]))


@pytest.fixture(scope="module")
def space():
    return space_of(Regressor(with_estimated_drives(planar_arm([0.5]))))


def near(phi, seed=0):
    """A body like the one given."""
    P = pseudo_inertia(phi)
    turn = np.eye(4) + 0.2 * np.random.default_rng(seed).normal(size=(4, 4))
    P = turn @ P @ turn.T
    tensor = np.trace(P[:3, :3]) * np.eye(3) - P[:3, :3]
    return np.array([P[3, 3], *P[:3, 3], *tensor[np.tril_indices(3)]])


def state(space):
    x = np.zeros(space.size)
    x[space.link(0)], x[space.link(1)] = near(BALL, 1), near(2 * BALL, 2)
    x[20:] = 0.1 + np.arange(space.size - 20)
    return x


def test_units_are_link_lengths_or_unit_changes_of_values(space):
    L = 0.5
    assert_close(space.link_units, [1, L, L, L, *[L * L] * 6], EXACT)
    assert_close(space.units[:20], np.tile(space.link_units, 2), EXACT)
    rest = np.abs(space.matrix).max(axis=0)[20:]
    assert_close(space.units[20:], np.where(rest > 0, 1 / np.where(rest > 0, rest, 1.0), 1.0), SAME_ALGEBRA)
    v = state(space) / space.units
    for i, rows in enumerate(space.cone_rows(space.units)[:2]):
        assert rows.order == 4
        result = matrix_of_triangle(rows.matrix @ v + rows.offset)
        D = np.diag([1 / L, 1 / L, 1 / L, 1.0])
        assert_close(result, D @ pseudo_inertia(state(space)[space.link(i)]) @ D, SAME_ALGEBRA)
    for i, rows in enumerate(space.cone_rows(np.ones(space.size))[:2]):
        result = matrix_of_triangle(rows.matrix @ state(space))
        assert_close(result, D @ pseudo_inertia(state(space)[space.link(i)]) @ D, ORACLE)
    signed = [space.labels[k] for k in space.nonnegative]
    assert signed == ["Im1", "fv1", "fc1", "Im2", "fv2", "fc2"]
    assert space.drive_labels("viscous") == ("fv1", "fv2")
    assert len(space.drive_labels()) == 8


def test_a_link_is_as_compact_as_the_reach(space):
    rows = space.compact_rows([None, phi_about_origin(2.0, np.zeros(3), np.diag([2.0, 3.0, 3.0]))])
    x = np.zeros(space.size)
    x[space.link(0)] = phi_about_origin(2.0, np.zeros(3), np.diag([0.1, 0.2, 0.3]))
    x[space.link(1)] = x[space.link(0)]
    assert space.reach == 0.5
    # m - tr(J) / 2 / r^2, r^2 = 0.25 of the first, 4 * 4 / 2 = 8 of the second
    assert_close(rows.matrix @ x + rows.offset, [2.0 - 0.3 / 0.25, 2.0 - 0.3 / 8.0], SAME_ALGEBRA)


def test_friction_that_grows_with_the_load_brakes_whether_driven_or_not():
    robot = with_estimated_drives(planar_arm([0.5]))
    count = Regressor(robot).base.count
    friction = Friction("sign", 0.0, ("load", "driving"), reference=tuple(np.ones(count)))
    result = space_of(Regressor(robot, friction))
    assert len(result.braking_rows) == 4
    for row, (drive, sign) in zip(result.braking_rows, [(1, -1), (1, 1), (2, -1), (2, 1)], strict=True):
        item = {result.labels[k]: value for k, value in enumerate(row) if value}
        assert sorted(item.values()) == [sign, 1.0]
        assert {result.columns[result.labels.index(label)].link_or_joint for label in item} == {f"joint{drive}"}
        assert [value for label, value in item.items() if "driving" in label] == [sign]


def test_a_certificate_is_the_matrix_that_multiplies_a_pseudo_inertia(space):
    rng = np.random.default_rng(0)
    c, phi = rng.normal(size=10), near(BALL, 3)
    C = _pseudo_inertia_adjoint(c)
    assert_close(C, C.T, EXACT)
    assert_close((C * pseudo_inertia(phi)).sum(), c @ phi, SAME_ALGEBRA)
    y, none = rng.normal(size=len(space.names)), np.zeros(0)
    asked = (space.matrix.T @ y) * space.units
    worst = [np.linalg.eigvalsh(_pseudo_inertia_adjoint(asked[space.link(i)]))[0] for i in range(2)]
    signed = [asked[k] for k in space.nonnegative]
    free = [-abs(asked[k]) for k in range(20, space.size) if k not in space.nonnegative]
    assert len(free) == 2
    assert_close(certificate_slack(space, y, none), min([*worst, *signed, *free]), ORACLE)


def test_values_are_reached_by_the_shortest_way(space):
    x = state(space)
    beta = space.matrix @ x + 0.1
    result = match_values(space, x, beta)
    assert_close(space.matrix @ result, beta, ORACLE)
    step = (result - x) / space.units
    null = np.linalg.svd(space.matrix * space.units)[2][len(beta) :]
    assert np.abs(null @ step).max() < 1e-12
    rows = space.cone_rows(space.units)[0]
    start = x / space.units
    moved = rows.from_start(start)
    assert_close(moved.matrix @ (0.3 * start) + moved.offset, 1.3 * rows.matrix @ start, ORACLE)
    plain = space.cone_rows(np.ones(space.size))[0]
    assert_close(plain.in_units(space.units).matrix @ start, plain.matrix @ x, ORACLE)
