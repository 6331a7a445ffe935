"""Small pieces of feasibility: conic programs with known minima, ranges, minors, the plainest candidate, open loads."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from closeness import EXACT, ORACLE, SAME_ALGEBRA, SOLVED, assert_close

from mindyn.errors import InputError, MissingPhysicsError, UnknownNameError
from mindyn.feasibility import physically_consistent
from mindyn.feasibility.configurations import joint_ranges, name_positions, sample_configurations
from mindyn.feasibility.conic import (
    ConeRows,
    ConicError,
    ConicProgram,
    InfeasibleProgramError,
    matrix_of_triangle,
    triangle,
)
from mindyn.feasibility.positive_definite import _format_failing_orders, _name_joints, check_positive_definite
from mindyn.feasibility.worst_configurations import _descent_bounds, failing_minors
from mindyn.loads.from_runs import Payload
from mindyn.loads.payload import (
    _build_findings,
    _find_unidentifiable,
    _initial_weights,
    _is_free,
    _jackknife,
    _normal_equations,
    payload,
)
from mindyn.robots.loading import load_robot


def program(*rows, cost=None, squares=None, size=2):
    made = ConicProgram(size)
    if cost is not None:
        made.cost[:] = cost
    if squares is not None:
        made.add_squares(*squares)
    made.add_rows(*rows)
    return made


def test_each_cone_holds_what_it_says():
    eye, zero = np.eye(2), np.zeros(2)
    target = (eye, np.array([3.0, -4.0]))
    assert_close(program(ConeRows("nonnegative", eye, zero), squares=target).solve().x, [3.0, 0.0], SOLVED)
    found = program(ConeRows("zero", np.array([[1.0, 1.0]]), np.array([-1.0])), squares=target).solve()
    assert_close(found.x, [4.0, -3.0], SOLVED)
    assert_close(found.cost, 1.0, SOLVED)
    assert [len(one) for one in found.duals] == [1]
    ball = ConeRows("second order", np.vstack([np.zeros(2), eye]), np.array([1.0, 0.0, 0.0]))
    assert_close(program(ball, squares=target).solve().x, [0.6, -0.8], SOLVED)
    assert_close(program(ball, cost=[1.0, 0.0]).solve().cost, -1.0, SOLVED)
    inside = ConeRows(
        "semidefinite", np.array([[0.0, 0.0], [np.sqrt(2), 0.0], [0.0, 0.0]]), np.array([2.0, 0.0, 8.0]), 2
    )
    assert_close(program(inside, cost=[-1.0, 0.0], squares=(eye[1:], zero[1:])).solve().x[0], 4.0, SOLVED)
    grows = ConeRows("exponential", np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]), np.array([0.0, 1.0, 0.0]))
    fixed = ConeRows("zero", np.array([[1.0, 0.0]]), np.array([-2.0]))
    assert_close(program(grows, fixed, cost=[0.0, 1.0]).solve().x[1], np.exp(2.0), SOLVED)


def test_programs_without_a_minimum_are_refused():
    one = np.array([[1.0, 0.0]])
    apart = [ConeRows("nonnegative", one, np.array([-1.0])), ConeRows("nonnegative", -one, np.array([-1.0]))]
    with pytest.raises(InfeasibleProgramError, match="no values satisfy all rows"):
        program(*apart, cost=[1.0, 0.0]).solve()
    with pytest.raises(ConicError, match="was not solved"):
        program(ConeRows("nonnegative", one, np.zeros(1)), cost=[-1.0, 0.0]).solve()


def test_further_variables_stand_behind_the_first():
    made = program(ConeRows("nonnegative", np.eye(2), np.zeros(2)), squares=(np.eye(2), np.array([1.0, 2.0])))
    assert made.add_variables(2) == slice(2, 4)
    made.add_squares(np.array([[0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0]]), np.array([5.0, 4.0]))
    assert_close(made.solve().x, [1.0, 2.0, 5.0, 3.0], SOLVED)


def test_least_values_over_balls_of_several_radii():
    line = ConeRows("nonnegative", np.array([[0.0, 1.0]]), np.array([0.5]))
    ball = ConeRows("second order", np.vstack([np.zeros(2), np.eye(2)]), np.zeros(3))
    found = program(line, ball).find_least_values(
        np.array([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), 1, np.array([2.0, 3.0, 4.0])
    )
    assert_close(found, [-2.0, -0.5, -4.0], 1e-4)


def test_triangles_hold_symmetric_matrices_with_their_lengths():
    A = np.array([[1.0, 2.0, 4.0], [2.0, 3.0, 5.0], [4.0, 5.0, 6.0]])
    (entries,) = triangle([A]).T
    assert_close(entries, [1, 2 * np.sqrt(2), 3, 4 * np.sqrt(2), 5 * np.sqrt(2), 6], SAME_ALGEBRA)
    assert_close(matrix_of_triangle(entries), A, SAME_ALGEBRA)
    assert_close(entries @ entries, np.sum(A * A), SAME_ALGEBRA)


def joint(name, kind="revolute", lower=None, upper=None):
    return SimpleNamespace(name=name, kind=kind, limits=SimpleNamespace(lower=lower, upper=upper))


def family(*joints, moving=None):
    return SimpleNamespace(joints=joints, moving=range(len(joints)) if moving is None else moving)


def test_ranges_are_those_given_else_limits_else_a_turn():
    arm = family(joint("a", lower=-1.0, upper=2.0), joint("b", "prismatic", 0.1, 0.4), joint("c", lower=-1.0))
    turn = [-np.pi, np.pi]
    assert_close(joint_ranges(arm), [turn, [0.1, 0.4], turn], EXACT)
    assert_close(joint_ranges(arm, within_limits=True), [[-1.0, 2.0], [0.1, 0.4], turn], EXACT)
    assert_close(joint_ranges(arm, {"b": (0.0, 9.0), "c": (1.0, 1.0)}), [turn, [0.0, 9.0], [1.0, 1.0]], EXACT)
    still = family(*arm.joints, moving=[1])
    assert_close(joint_ranges(still), [[0, 0], [0.1, 0.4], [0, 0]], EXACT)
    for wrong in ((2.0, 1.0), (0.0, np.inf), (1.0,)):
        with pytest.raises(InputError, match="range of joint 'a' must be two finite numbers in order"):
            joint_ranges(arm, {"a": wrong})
    with pytest.raises(UnknownNameError, match="no joint 'z'; the model has: a, b, c"):
        joint_ranges(arm, {"z": (0.0, 1.0)})
    with pytest.raises(MissingPhysicsError, match="'s' is prismatic and states no limits"):
        joint_ranges(family(joint("s", "prismatic", 0.0, None)))


def test_configurations_are_named_in_degrees_and_metres():
    arm = family(joint("a"), joint("b", "prismatic"), joint("c"), moving=[0, 1])
    found = name_positions(arm, np.array([1.5 * np.pi, 7.0, 1.0]))
    assert list(found) == ["a", "b"]
    assert_close([found["a"]["position"], found["b"]["position"]], [-90.0, 7.0], SAME_ALGEBRA)
    assert [one["unit"] for one in found.values()] == ["deg", "m"]
    bounds = _descent_bounds(arm, np.array([[-np.pi, np.pi], [-9.0, 9.0], [-1.0, 2.0]]))
    assert bounds.tolist() == [[-np.inf, np.inf], [-9.0, 9.0], [-1.0, 2.0]]


def test_configurations_keep_to_their_ranges_and_differ_by_seed():
    ranges = np.array([[-1.0, 3.0], [0.5, 0.5], [2.0, 2.5]])
    q = sample_configurations(ranges, 500, 0)
    assert q.shape == (500, 3)
    assert (q[:, 1] == 0.5).all()
    for k in (0, 2):
        assert_close(
            np.quantile(q[:, k], [0.25, 0.5, 0.75]), ranges[k, 0] + np.ptp(ranges[k]) * np.array([1, 2, 3]) / 4, 0.01
        )
    assert not np.array_equal(q, sample_configurations(ranges, 500, 1))
    assert np.array_equal(q, sample_configurations(ranges, 500, 0))


def test_minors_that_fail_are_counted_by_order():
    M = np.array(
        [np.diag([1.0, 1.0, 1.0]), np.diag([1.0, -1.0, 1.0]), np.diag([-1.0, -1.0, 1.0]), np.diag([1.0, 1.0, 0.0])]
    )
    found = failing_minors(M)
    assert found["leading"] == [0.25, 0.25, 0.5]
    assert found["trailing"] == [0.25, 0.75, 0.5]
    assert found["first"] == [0.25, 0.25, 0.25]
    said = _format_failing_orders({"failing_minors": found})
    assert said == "; the first leading minor that fails is of order 1 at 25 %, 2 at 25 %, 3 at 25 %"
    assert _format_failing_orders({"failing_minors": {"first": [0.0, 0.0]}}) == ""
    member = SimpleNamespace(family=family(joint("a"), joint("b"), joint("c")))
    assert _name_joints(member, np.array([0.5, -0.8, 0.3])) == ["b", "a"]


def test_values_are_judged_at_one_configuration_or_more():
    robot = load_robot("planar2")
    with pytest.raises(InputError, match="count = 0 configurations"):
        check_positive_definite(robot, count=0)
    found = check_positive_definite(robot, count=1)
    assert found.holds
    assert found.witness["configurations"] == 1
    assert found.witness["inertia_matrix"] == ("with rotors" if robot.drives else "of the chain alone")
    assert found.witness["failing_fraction"] == 0.0


@pytest.mark.parametrize(
    ("errors", "taken"),
    [
        ([[3.0, 3.1, 3.0], [1.1, 2.0, 2.9], [1.0, 2.1, 2.8]], 1),  # the same blocks are hard for both
        ([[1.2, 2.2, 3.1], [1.0, 2.0, 3.0]], 1),  # a little worse, but on every block
        ([[1.2, 1.9, 3.0], [1.0, 2.0, 3.0], [9.0, 9.0, 9.0]], 0),
        ([[np.inf] * 3, [2.0, 2.0, 2.0], [1.0, 1.0, 1.0]], 2),
        ([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]], 0),
    ],
)
def test_the_plainest_candidate_that_blocks_do_not_tell_from_the_best_is_taken(monkeypatch, errors, taken):
    told = {float(k): error for k, error in enumerate(errors)}
    monkeypatch.setattr(physically_consistent, "_fold_errors", lambda _problem, _folds, _weights, weight: told[weight])
    problem = SimpleNamespace(without=lambda _kinds: None)
    tried: list = []
    found = physically_consistent._compute_errors(problem, [], None, [((), w) for w in told], tried)
    assert physically_consistent._select_simplest(found) == taken
    assert [one["weight"] for one in tried] == list(told)
    means = [float(np.mean(own)) for own in errors]
    assert [one["error"] for one in tried] == means
    spreads = [np.std(own, ddof=1) / np.sqrt(3) if np.isfinite(own).all() else 0.0 for own in errors]
    np.testing.assert_allclose([one["spread"] for one in tried], spreads)
    monkeypatch.setattr(physically_consistent, "_fold_errors", lambda *_: [float("inf")] * 3)
    with pytest.raises(ConicError, match="none of the conic programs"):
        physically_consistent._compute_errors(problem, [], None, [((), 1.0)], tried)
    assert_close(
        [
            physically_consistent.PRIOR_WEIGHTS[0],
            physically_consistent.PRIOR_WEIGHTS[-1],
            len(physically_consistent.PRIOR_WEIGHTS),
        ],
        [1e-5, 10.0, 13],
        ORACLE,
    )


def load_with(mass, half_widths):
    return Payload("hand", np.array([mass, *[0.0] * 9]), np.diag(np.square(half_widths)), (), 1.0, ())


def test_parameters_of_a_load_are_open_where_intervals_are_wider_than_the_load():
    for mass in (2.0, -2.0):  # m / 2, m L / 2 and m L^2 of a load of L = 0.1 m
        just = np.array([1.0, *[0.1] * 3, *[0.02] * 6])
        assert _find_unidentifiable(load_with(mass, 0.99 * just)) == ()
        assert len(_find_unidentifiable(load_with(mass, 1.01 * just))) == 10
    assert len(_find_unidentifiable(load_with(2.0, 1.01 * np.array([1.0, *[0.0] * 9])))) == 1


def parameter(kind, name="p"):
    return SimpleNamespace(kind=kind, name=name)


def test_what_a_load_may_change_is_free():
    found = SimpleNamespace(dropped=("gone",), unidentifiable=("open",))
    assert not _is_free(parameter("friction", "gone"), 1.0, found)
    assert _is_free(parameter("friction"), 0.0, found)
    assert _is_free(parameter("link"), 0.1, found)
    assert not _is_free(parameter("rotor"), 0.0, found)
    assert _is_free(parameter("link", "open"), 0.0, found)


def test_notes_on_a_loaded_run():
    q = np.column_stack([np.linspace(0, 0.04, 9), np.linspace(0, 0.06, 9)])
    samples = SimpleNamespace(q=q, joint_names=("a", "b"))
    plain, full = (
        SimpleNamespace(parameters=[parameter(one) for one in kinds]) for kinds in (["link"], ["link", "viscous"])
    )
    assert [str(one.kind) for one in _build_findings(plain, samples)] == ["friction is missing", "joint does not move"]
    (note,) = _build_findings(full, samples)
    assert str(note).endswith("loaded run: a")
    assert _build_findings(full, SimpleNamespace(q=2 * q, joint_names=("a", "b"))) == ()


def test_blocks_left_out_in_turn_spread_a_fit():
    rng = np.random.default_rng(0)
    blocks = [(rng.normal(size=(20, 3)), rng.normal(size=20)) for _ in range(4)]
    start, free = np.array([0.5, -1.0, 2.0]), np.array([0, 2])
    normal = [_normal_equations(one, start, free) for one in blocks]
    R, z = blocks[0]
    assert_close(normal[0][0], R[:, free].T @ R[:, free], SAME_ALGEBRA)
    assert_close(normal[0][1], R[:, free].T @ (z - R @ start), SAME_ALGEBRA)
    prior = np.diag([0.5, 2.0])
    A, b = sum(one[0] for one in normal) + prior, sum(one[1] for one in normal)
    theta = np.linalg.solve(A, b)
    shifts = [np.linalg.solve(A - one[0], b - one[1]) - theta for one in normal]
    assert_close(_jackknife(normal, prior, theta, 4), 0.75 * sum(np.outer(s, s) for s in shifts), ORACLE)
    residuals = [SimpleNamespace(rms=2.0, correlation=0.5), SimpleNamespace(rms=0.0, correlation=None)]
    assert_close(_initial_weights(SimpleNamespace(residuals=residuals)) * [12.0, 1e-18], [1.0, 1.0], SAME_ALGEBRA)


@pytest.mark.parametrize("deviation", [-0.01, 1.0, np.nan, np.inf])
def test_a_torque_scale_is_sure_to_a_part_of_itself(deviation):
    robot = load_robot("planar2")
    with pytest.raises(InputError, match="must be a part of the torque"):
        payload(robot, gain_deviation=deviation)
    with pytest.raises(InputError, match="takes two runs as Samples"):
        payload(replace(robot), gain_deviation=0.0)
