"""Parts of priors, lengths and certificates, compared with other formulas, differences and numbers by hand.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from closeness import DERIVATIVE, EXACT, ORACLE, SAME_ALGEBRA, SOLVED, assert_close
from raising import raises
from small_arms import divergence_of, long_rod_on_a_slide, planar_arm, slope_of, space_of_base
from stand_in import stand_in

from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.foundation.algebra.inertia import mass_com_inertia, phi_about_origin, pseudo_inertia
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.feasibility.conditions.nearest_values import (
    _adjoint,
    certificate_slack,
    match_values,
    relative_metric,
)
from mindyn.identification.feasibility.conditions.physical_space import MIN_LENGTH_M, physical_values, space_of
from mindyn.identification.feasibility.conditions.priors import (
    Prior,
    _add_entropic,
    _format_unused,
    _have_same_joints,
    build_prior,
    find_placeholders,
)
from mindyn.identification.feasibility.optimisation.conic_program import ConeRows, ConicProgram, matrix_of_triangle
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.robots.parts import Frame, Limits

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


def test_the_sentence_of_a_prior_names_its_links():
    assert Prior((None, None), "entropic", ()).sentence.startswith("no prior: unidentifiable parameters")
    assert not Prior((None, None), "entropic", ()).is_known
    half = Prior((BALL, None), "euclidean", ())
    assert half.is_known
    assert (
        half.sentence
        == "unidentifiable parameters take the prior (euclidean) for 1 of 2 links, the smallest mass for the others"
    )
    assert Prior((BALL, BALL), "entropic", ()).sentence == "unidentifiable parameters take the prior (entropic)"
    assert _format_unused({"a": "why", "b": "other", "c": "why"}) == [
        "not used as a prior: a, c (why)",
        "not used as a prior: b (other)",
    ]


def arm(*bodies):
    robot = planar_arm([0.5] * (len(bodies) - 1), len(bodies))
    return replace(robot, links=tuple(replace(link, phi=phi) for link, phi in zip(robot.links, bodies, strict=True)))


def test_links_that_state_the_same_body_are_placeholders_unless_there_is_one():
    ball, turned = phi_about_origin(2.0, np.zeros(3), np.diag([0.02, 0.03, 0.04])), np.diag([0.04, 0.02, 0.03])
    same = phi_about_origin(2.0, np.array([0.3, 0.0, 0.0]), turned)
    result = find_placeholders(arm(ball, same))
    assert set(result) == {"link1", "link2"}
    assert set(result.values()) == {"every link has the same mass and inertia, a placeholder"}
    assert find_placeholders(arm(ball)) == {}
    assert find_placeholders(arm(ball, 1.5 * ball)) == {}
    assert find_placeholders(arm(ball, ball, 1.5 * ball)) == {}
    assert find_placeholders(arm(ball, None)) == {"link2": "it has no inertial parameters"}
    assert set(find_placeholders(arm(ball, same, None))) == {"link1", "link2", "link3"}
    heavy_unit = phi_about_origin(2.0, np.zeros(3), np.eye(3))
    unit = phi_about_origin(1.0, np.array([0.1, 0.0, 0.0]), np.eye(3))
    assert find_placeholders(arm(ball, heavy_unit)) == {}
    assert find_placeholders(arm(ball, unit)) == {"link2": "mass 1 and the unit tensor are a placeholder"}
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


def test_lengths_of_a_robot():
    result = space_of_base(base_parameters(planar_arm([0.5, 0.3], 3)))
    assert_close([result.length, result.reach], [0.4, 0.8], SAME_ALGEBRA)  # the first joint is at the base itself
    short = space_of_base(base_parameters(planar_arm([0.01])))
    assert (short.length, short.reach) == (MIN_LENGTH_M, 10 * MIN_LENGTH_M)
    single = space_of_base(base_parameters(planar_arm([], 1)))
    assert (single.length, single.reach) == (MIN_LENGTH_M, 10 * MIN_LENGTH_M)
    slide = long_rod_on_a_slide()
    joints = (replace(slide.joints[0], limits=Limits(lower=-0.5, upper=2.0)), slide.joints[1])
    stretched = space_of_base(base_parameters(replace(slide, joints=joints)))
    assert_close(stretched.reach, 2.5, SAME_ALGEBRA)
    frame = Frame("tool", "rod", Pose(np.eye(3), np.array([0.0, 3.0, 4.0])))
    assert_close(space_of_base(base_parameters(replace(slide, joints=joints, frames=(frame,)))).reach, 5.0, ORACLE)


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


def test_parameters_behind_an_estimate_count_while_they_have_its_values(space):
    x = state(space)
    held = SimpleNamespace(labels=space.labels, values=x)
    beta = space.matrix @ x
    assert physical_values(stand_in(physical=held, beta=beta), space) is x
    assert physical_values(stand_in(physical=None, beta=beta), space) is None
    moved = beta.copy()
    moved[0] *= 1 + 1e-6
    assert physical_values(stand_in(physical=held, beta=moved), space) is None
    other = SimpleNamespace(labels=("a", *space.labels[1:]), values=x)
    assert physical_values(stand_in(physical=other, beta=beta), space) is None


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


def test_values_are_compared_in_parts_of_themselves_or_of_their_kind():
    families = ["link", "link", "link", "friction", "friction", "offset"]
    result = SimpleNamespace(parameters=[SimpleNamespace(family=family) for family in families])
    beta = np.array([3.0, -4.0, 0.0, 0.2, 1e-9, 0.0])
    link, friction = np.sqrt(25 / 3), np.sqrt(0.04 / 2)
    expected = [1 / 3, 1 / 4, 100 / link, 1 / 0.2, 100 / friction, 100 / link]
    W = relative_metric(result, beta)
    assert_close(np.diag(W), expected, 1e-7)
    assert_close(W, np.diag(np.diag(W)), EXACT)
    assert_close(relative_metric(result, np.zeros(6)), 100 * np.eye(6), SAME_ALGEBRA)


def test_a_certificate_is_the_matrix_that_multiplies_a_pseudo_inertia(space):
    rng = np.random.default_rng(0)
    c, phi = rng.normal(size=10), near(BALL, 3)
    C = _adjoint(c)
    assert_close(C, C.T, EXACT)
    assert_close((C * pseudo_inertia(phi)).sum(), c @ phi, SAME_ALGEBRA)
    y, none = rng.normal(size=len(space.names)), np.zeros(0)
    asked = (space.matrix.T @ y) * space.units
    worst = [np.linalg.eigvalsh(_adjoint(asked[space.link(i)]))[0] for i in range(2)]
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


def test_the_cost_of_the_entropic_program_equals_the_divergence(space):
    """With the link held: w (tr Q - log det Q) by eigenvalues, Q = L^-1 P L^-T."""
    x, program = state(space), ConicProgram(space.size)
    _add_entropic(program, space, 1, BALL, space.units, 0.7)
    program.add_rows(ConeRows("zero", np.eye(space.size), -x / space.units))
    ratios = np.linalg.eigvals(np.linalg.inv(pseudo_inertia(BALL)) @ pseudo_inertia(x[space.link(1)])).real
    assert_close(program.solve().cost, 0.7 * float((ratios - np.log(ratios)).sum()), SOLVED)
