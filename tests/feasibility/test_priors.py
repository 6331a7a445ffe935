"""Priors of links: divergence, slope and curvature agree, costs balance at the minimum, and bad priors are rejected.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import DERIVATIVE, EXACT, SAME_ALGEBRA, SOLVED, assert_close
from raising import raises
from small_arms import divergence_of, planar_arm, slope_of

from mindyn.foundation.algebra.inertia import mass_com_inertia, phi_about_origin, pseudo_inertia
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.feasibility.conditions.physical_space import space_of
from mindyn.identification.feasibility.conditions.priors import (
    Prior,
    _add_entropic,
    _have_same_joints,
    build_prior,
    find_placeholders,
)
from mindyn.identification.feasibility.optimisation.conic_program import ConeRows, ConicProgram
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


def by_differences(function, x, step=1e-6):
    return np.array([(function(x + step * e) - function(x - step * e)) / (2 * step) for e in np.eye(len(x))])


@pytest.mark.parametrize("divergence", ["entropic", "euclidean"])
def test_a_prior_its_slope_and_its_curvature_agree(space, divergence):
    prior, x = Prior((None, BALL), divergence, ()), state(space)
    assert_close(slope_of(prior, space, x), by_differences(lambda v: divergence_of(prior, space, v), x), DERIVATIVE)
    assert_close(prior.curvature(space, x), by_differences(lambda v: slope_of(prior, space, v), x), DERIVATIVE)
    assert not prior.curvature(space, x)[space.link(0)].any()


def test_an_entropic_prior_is_infinite_outside_of_the_physical_set(space):
    x = state(space)
    assert np.isfinite(Prior((None, BALL), "entropic", ()).curvature(space, x)).all()
    x[space.link(1)] = phi_about_origin(1.0, np.zeros(3), np.diag([0.1, 0.1, 0.3]))
    assert (Prior((None, BALL), "entropic", ()).curvature(space, x) == np.inf).all()
    assert np.isfinite(Prior((None, BALL), "euclidean", ()).curvature(space, x)).all()
    assert np.isfinite(Prior((BALL, None), "entropic", ()).curvature(space, x)).all()
    assert not Prior((None, None), "entropic", ()).curvature(space, x).any()


@pytest.mark.parametrize("divergence", ["entropic", "euclidean"])
def test_at_the_minimum_costs_cancel_the_gradient_of_the_prior(space, divergence):
    """Least w D(x) + c.x over x of the second link: w grad D = -c there; a kilogram of the first costs 3."""
    weight, prior, units = 0.7, Prior((None, BALL), divergence, ()), space.units
    price = np.zeros(space.size)
    price[space.link(1)] = 0.5 * np.array([1.0, 0.5, -0.3, 0.2, 1.0, 0.1, -0.2, 2.0, 0.3, 1.5])
    program = ConicProgram(space.size)
    program.cost[:] = price * units
    prior.add_to(program, space, units, weight, 3.0)
    assert program.cost[0] == 3.0
    assert not program.cost[1:10].any()
    program.cost[0] = 0.0
    others = np.ones(space.size, dtype=bool)
    others[space.link(1)] = False
    program.add_squares(np.eye(space.size)[others], np.zeros(int(others.sum())))
    x = units * program.solve().x[: space.size]
    assert_close(
        weight * slope_of(prior, space, x)[space.link(1)] * units[space.link(1)], -(price * units)[10:20], 1e-2
    )


def arm(*bodies):
    robot = planar_arm([0.5] * (len(bodies) - 1), len(bodies))
    return replace(robot, links=tuple(replace(link, phi=phi) for link, phi in zip(robot.links, bodies, strict=True)))


def test_links_that_state_the_same_body_are_placeholders_unless_there_is_one():
    ball, turned = phi_about_origin(2.0, np.zeros(3), np.diag([0.02, 0.03, 0.04])), np.diag([0.04, 0.02, 0.03])
    same = phi_about_origin(2.0, np.array([0.3, 0.0, 0.0]), turned)
    result = find_placeholders(arm(ball, same))
    assert set(result) == {"link1", "link2"}
    assert len(set(result.values())) == 1
    assert find_placeholders(arm(ball)) == {}
    assert find_placeholders(arm(ball, 1.5 * ball)) == {}
    assert find_placeholders(arm(ball, ball, 1.5 * ball)) == {}
    assert list(find_placeholders(arm(ball, None))) == ["link2"]
    assert set(find_placeholders(arm(ball, same, None))) == {"link1", "link2", "link3"}
    heavy_unit = phi_about_origin(2.0, np.zeros(3), np.eye(3))
    unit = phi_about_origin(1.0, np.array([0.1, 0.0, 0.0]), np.eye(3))
    assert find_placeholders(arm(ball, heavy_unit)) == {}
    assert list(find_placeholders(arm(ball, unit))) == ["link2"]
    wrong = find_placeholders(arm(ball, phi_about_origin(1.0, np.zeros(3), np.diag([0.1, 0.1, 0.3]))))
    assert list(wrong) == ["link2"]


def test_a_prior_with_other_links_or_joints_raises():
    robot = arm(BALL, 2 * BALL)
    other = arm(3 * BALL, 5 * BALL)
    assert_close(build_prior(robot, other).links[1], 5 * BALL, EXACT)
    assert_close(build_prior(robot, "robot", "euclidean").links[0], BALL, EXACT)
    lighter_world = replace(other, gravity=np.zeros(3))
    assert _have_same_joints(robot, lighter_world)
    assert_close(build_prior(robot, lighter_world).links[0], 3 * BALL, EXACT)
    longer = planar_arm([0.7])
    joints = (replace(robot.joints[0], child="x"), replace(robot.joints[1], parent="x"))
    renamed = replace(other, links=(replace(other.links[0], name="x"), other.links[1]), joints=joints)
    for wrong in (longer, renamed):
        with raises(InputError, Code.DISAGREEMENT, "planar"):
            build_prior(robot, wrong)
    with raises(InputError, Code.UNKNOWN_NAME, "ur10"):
        build_prior(robot, "ur10")
    with raises(InputError, Code.UNKNOWN_NAME, "plain"):
        build_prior(robot, None, "plain")
    assert build_prior(robot, None).links == (None, None)


def test_a_prior_thinner_than_ten_millimetres_is_made_thicker():
    mass = 2.0
    for part, widened in ((1.001, False), (0.999, True)):
        least = part * mass * 0.01**2 / 3
        tensor = np.diag([0.04 + 0.02, least + 0.02, least + 0.04])
        phi = phi_about_origin(mass, np.array([0.1, 0.2, 0.3]), tensor)
        prior = build_prior(arm(phi), "robot")
        assert bool(prior.notes) == widened
        assert np.array_equal(prior.links[0], phi) != widened
        _, com, J = mass_com_inertia(prior.links[0])
        assert_close(com, [0.1, 0.2, 0.3], SAME_ALGEBRA)
        exact = max(least, mass * 0.01**2 / 3)
        assert_close(J, np.diag([0.06, exact + 0.02, exact + 0.04]), SAME_ALGEBRA)


def test_the_cost_of_the_entropic_program_equals_the_divergence(space):
    """With the link held: w (tr Q - log det Q) by eigenvalues, Q = L^-1 P L^-T."""
    x, program = state(space), ConicProgram(space.size)
    _add_entropic(program, space, 1, BALL, space.units, 0.7)
    program.add_rows(ConeRows("zero", np.eye(space.size), -x / space.units))
    ratios = np.linalg.eigvals(np.linalg.inv(pseudo_inertia(BALL)) @ pseudo_inertia(x[space.link(1)])).real
    assert_close(program.solve().cost, 0.7 * float((ratios - np.log(ratios)).sum()), SOLVED)
