"""Conic programs with known minima, ranges, minors, the simplest candidate, and unidentifiable loads.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from closeness import EXACT, ORACLE, SAME_ALGEBRA, SOLVED, assert_close
from raising import raises
from stand_in import stand_in

from mindyn.applications.payload.identify_payload import (
    _build_findings,
    _initial_weights,
    _known_information,
    _normal_equations,
    _shifts_without_each,
    identify_payload,
)
from mindyn.foundation.algebra.jackknife import jackknife_covariance
from mindyn.foundation.errors import Code, InputError, MissingPhysicsError, UnknownNameError
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.feasibility.checks.positive_definite import (
    _descent_bounds,
    _format_failing_orders,
    _name_joints,
    check_positive_definite,
    failing_minors,
    joint_ranges,
    name_positions,
    sample_configurations,
)
from mindyn.identification.feasibility.fits import prior_and_drive_choice
from mindyn.identification.feasibility.optimisation.conic_program import (
    ConeRows,
    ConicError,
    ConicProgram,
    InfeasibleProgramError,
    matrix_of_triangle,
    triangle,
)
from mindyn.identification.runs_with_loads import Payload, find_undetermined_parameters
from mindyn.logs.samples import Samples
from mindyn.regression.build_rows import build_rows
from mindyn.robots.loading import load_robot


def program(*rows, cost=None, squares=None, size=2):
    result = ConicProgram(size)
    if cost is not None:
        result.cost[:] = cost
    if squares is not None:
        result.add_squares(*squares)
    result.add_rows(*rows)
    return result


def test_a_program_that_zero_satisfies_is_never_called_infeasible(monkeypatch):
    """The solver may say so of almost exact data."""
    monkeypatch.setattr("mindyn.identification.feasibility.optimisation.conic_program.ACCEPTED_STATUSES", ())
    monkeypatch.setattr("mindyn.identification.feasibility.optimisation.conic_program.INFEASIBLE_STATUSES", ("Solved",))
    target = (np.eye(2), np.array([3.0, -4.0]))
    for offset, code in ((np.zeros(2), Code.NOT_CONVERGED), (np.ones(2), Code.DISAGREEMENT)):
        with raises(ConicError, code):
            program(ConeRows("nonnegative", np.eye(2), offset), squares=target).solve()


def test_each_cone_constrains_its_rows():
    eye, zero = np.eye(2), np.zeros(2)
    target = (eye, np.array([3.0, -4.0]))
    assert_close(program(ConeRows("nonnegative", eye, zero), squares=target).solve().x, [3.0, 0.0], SOLVED)
    solution = program(ConeRows("zero", np.array([[1.0, 1.0]]), np.array([-1.0])), squares=target).solve()
    assert_close(solution.x, [4.0, -3.0], SOLVED)
    assert_close(solution.cost, 1.0, SOLVED)
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


def test_programs_without_a_minimum_raise():
    result = np.array([[1.0, 0.0]])
    apart = [ConeRows("nonnegative", result, np.array([-1.0])), ConeRows("nonnegative", -result, np.array([-1.0]))]
    with raises(InfeasibleProgramError, Code.DISAGREEMENT):
        program(*apart, cost=[1.0, 0.0]).solve()
    with raises(ConicError, Code.NOT_CONVERGED, "DualInfeasible"):
        program(ConeRows("nonnegative", result, np.zeros(1)), cost=[-1.0, 0.0]).solve()


def test_further_variables_stand_behind_the_first():
    result = program(ConeRows("nonnegative", np.eye(2), np.zeros(2)), squares=(np.eye(2), np.array([1.0, 2.0])))
    assert result.add_variables(2) == slice(2, 4)
    result.add_squares(np.array([[0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0]]), np.array([5.0, 4.0]))
    assert_close(result.solve().x, [1.0, 2.0, 5.0, 3.0], SOLVED)


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
    assert_close(joint_ranges(arm, {"b": (0.0, 9.0), "c": (1.0, 1.0)}), [turn, [0.0, 9.0], [1.0, 1.0]], EXACT)
    still = family(*arm.joints, moving=[1])
    assert_close(joint_ranges(still), [[0, 0], [0.1, 0.4], [0, 0]], EXACT)
    for wrong in ((2.0, 1.0), (0.0, np.inf), (1.0,)):
        with raises(InputError, Code.OUT_OF_RANGE, "a"):
            joint_ranges(arm, {"a": wrong})
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "z"):
        joint_ranges(arm, {"z": (0.0, 1.0)})
    with raises(MissingPhysicsError, Code.MISSING_VALUE, "s"):
        joint_ranges(family(joint("s", "prismatic", 0.0, None)))


def test_configurations_are_named_in_degrees_and_metres():
    arm = family(joint("a"), joint("b", "prismatic"), joint("c"), moving=[0, 1])
    result = name_positions(arm, np.array([1.5 * np.pi, 7.0, 1.0]))
    assert list(result) == ["a", "b"]
    assert_close([result["a"]["position"], result["b"]["position"]], [-90.0, 7.0], SAME_ALGEBRA)
    assert [item["unit"] for item in result.values()] == ["deg", "m"]
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
    result = failing_minors(M)
    assert result["leading"] == [0.25, 0.25, 0.5]
    assert result["trailing"] == [0.25, 0.75, 0.5]
    assert result["first"] == [0.25, 0.25, 0.25]
    item = _format_failing_orders({"failing_minors": result})
    assert item == "; the first leading minor that fails is of order 1 at 25 %, 2 at 25 %, 3 at 25 %"
    assert _format_failing_orders({"failing_minors": {"first": [0.0, 0.0]}}) == ""
    assert _name_joints(family(joint("a"), joint("b"), joint("c")), np.array([0.5, -0.8, 0.3])) == ["b", "a"]


def test_a_check_needs_at_least_one_configuration():
    robot = load_robot("planar2")
    with raises(InputError, Code.OUT_OF_RANGE, "count"):
        check_positive_definite(robot, count=0)
    answer = check_positive_definite(robot, count=1)
    assert answer.holds
    assert answer.witness["configurations"] == 1
    assert answer.witness["inertia_matrix"] == ("with rotors" if robot.drives else "of the chain alone")
    assert answer.witness["failing_fraction"] == 0.0


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
def test_the_simplest_candidate_that_is_not_significantly_worse_is_selected(monkeypatch, errors, taken):
    errors_by_weight = {float(k): error for k, error in enumerate(errors)}

    def fold_errors(_problem, _folds, _weights, candidates):
        return np.array([errors_by_weight[weight] for _, weight in candidates])

    monkeypatch.setattr(prior_and_drive_choice, "_fold_errors", fold_errors)
    problem = SimpleNamespace(drop_kinds=lambda _kinds: None)
    tried: list = []
    result = prior_and_drive_choice._compute_errors(problem, [], None, [((), w) for w in errors_by_weight], tried)
    assert prior_and_drive_choice._select_drive_model(result) == taken
    assert [outcome["weight"] for outcome in tried] == list(errors_by_weight)
    means = [float(np.mean(element)) for element in errors]
    assert [entry["error"] for entry in tried] == means
    spreads = [np.std(value, ddof=1) / np.sqrt(3) if np.isfinite(value).all() else 0.0 for value in errors]
    np.testing.assert_allclose([item["spread"] for item in tried], spreads)
    monkeypatch.setattr(prior_and_drive_choice, "_fold_errors", lambda *given: np.full((len(given[3]), 3), np.inf))
    with raises(ConicError, Code.NOT_CONVERGED, "prior_weight"):
        prior_and_drive_choice._compute_errors(problem, [], None, [((), 1.0)], tried)


@pytest.mark.parametrize(
    ("errors", "taken"),
    [
        ([[1.02, 1.9, 3.1], [1.0, 2.0, 3.0]], 0),  # blocks do not distinguish the weights
        ([[1.2, 2.2, 3.5], [1.0, 2.0, 3.0], [1.1, 2.1, 3.3]], 1),  # worse on every block
        ([[np.inf] * 3, [1.1, 1.9, 3.0], [1.0, 2.0, 3.0]], 1),
        ([[2.0, 4.0, 6.0], [1.3, 2.5, 3.8], [1.0, 2.0, 3.0]], 2),
    ],
)
def test_a_prior_gets_the_least_weight_that_is_not_significantly_worse(errors, taken):
    assert prior_and_drive_choice._select_least_weight(np.array(errors)) == taken


def load_with(mass, half_widths):
    return Payload("hand", np.array([mass, *[0.0] * 9]), np.diag(np.square(half_widths)), (), 1.0, ())


def test_parameters_of_a_load_are_unidentifiable_if_intervals_are_wider_than_the_load():
    for mass in (2.0, -2.0):  # m / 2, m L / 2 and m L^2 of a load of L = 0.1 m
        just = np.array([1.0, *[0.1] * 3, *[0.02] * 6])
        assert find_undetermined_parameters(load_with(mass, 0.99 * just)) == ()
        assert len(find_undetermined_parameters(load_with(mass, 1.01 * just))) == 10
    assert len(find_undetermined_parameters(load_with(2.0, 1.01 * np.array([1.0, *[0.0] * 9])))) == 1


def parameter(kind, name="p"):
    return SimpleNamespace(kind=kind, name=name)


def test_parameters_that_a_load_may_change_are_free():
    kinds = [("friction", "gone"), ("friction", "a"), ("link", "b"), ("rotor", "c"), ("link", "open")]
    result = stand_in(
        parameters=[parameter(kind, name) for kind, name in kinds],
        beta=np.zeros(5),
        covariance=np.diag([1.0, 0.0, 0.1, 0.0, 0.0]),
        dropped=("gone",),
        unidentifiable=("open",),
    )
    information, _, free = _known_information(result, 5)
    assert free.tolist() == [1, 2, 4, *range(5, 15)]
    assert np.flatnonzero(information).tolist() == [len(free) + 1]
    assert_close(information[1, 1], 10.0, ORACLE)


def test_notes_on_a_loaded_run():
    q = np.column_stack([np.linspace(0, 0.04, 9), np.linspace(0, 0.06, 9)])
    samples = SimpleNamespace(q=q, joint_names=("a", "b"))
    plain, full = (
        SimpleNamespace(parameters=[parameter(kind) for kind in kinds]) for kinds in (["link"], ["link", "viscous"])
    )
    assert [str(build_finding.kind) for build_finding in _build_findings(plain, samples)] == [
        "friction is missing",
        "joint does not move",
    ]
    (note,) = _build_findings(full, samples)
    assert note.message.endswith("loaded run: a")
    assert _build_findings(full, SimpleNamespace(q=2 * q, joint_names=("a", "b"))) == ()


def test_the_jackknife_gives_the_covariance_of_a_fit():
    rng = np.random.default_rng(0)
    blocks = [(rng.normal(size=(20, 3)), rng.normal(size=20)) for _ in range(4)]
    start, free = np.array([0.5, -1.0, 2.0]), np.array([0, 2])
    normal = [_normal_equations(block, start, free) for block in blocks]
    R, z = blocks[0]
    assert_close(normal[0][0], R[:, free].T @ R[:, free], SAME_ALGEBRA)
    assert_close(normal[0][1], R[:, free].T @ (z - R @ start), SAME_ALGEBRA)
    prior = np.diag([0.5, 2.0])
    A, b = sum(entry[0] for entry in normal) + prior, sum(value[1] for value in normal)
    theta = np.linalg.solve(A, b)
    shifts = [np.linalg.solve(A - item[0], b - item[1]) - theta for item in normal]
    covariance = jackknife_covariance(_shifts_without_each(normal, prior, theta))
    assert_close(covariance, 0.75 * sum(np.outer(s, s) for s in shifts), ORACLE)
    residuals = [SimpleNamespace(rms=2.0, correlation=0.5), SimpleNamespace(rms=0.0, correlation=None)]
    assert_close(_initial_weights(stand_in(residuals=residuals)) * [12.0, 1e-18], [1.0, 1.0], SAME_ALGEBRA)


@pytest.mark.parametrize("deviation", [-0.01, 1.0, np.nan, np.inf])
def test_a_torque_scale_is_sure_to_a_part_of_itself(deviation):
    robot = load_robot("planar2")
    motion = np.random.default_rng(0).normal(size=(4, 100, 2))
    samples = Samples(robot.joint_names, *motion, 100.0, np.zeros(100, dtype=np.int64))
    estimate = LeastSquares().fit(build_rows(robot, samples))
    with raises(InputError, Code.OUT_OF_RANGE, "gain_deviation"):
        identify_payload(estimate, samples, gain_deviation=deviation)
