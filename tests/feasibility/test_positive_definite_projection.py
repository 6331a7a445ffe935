"""Nearest values with a positive definite inertia matrix: another solver, the closed form, any arm, and the command."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli.program import mindyn_program
from closeness import assert_close
from feasibility.small_arms import grid, planar_arm, regressor_matrices
from raising import raises
from robots import random_robot, with_random_drives

import mindyn
from mindyn import Joint, Link
from mindyn.cli.exit_codes import ExitCode
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.errors import Code, InputError
from mindyn.identification import check_positive_definite, project_to_positive_definite
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimate_parts import FitData, ParameterValues, Uncertainty
from mindyn.identification.feasibility.checks.positive_definite import joint_ranges
from mindyn.identification.feasibility.conditions.inertia_matrix_family import InertiaMatrixFamily
from mindyn.papers import yoshida_puma
from mindyn.regression.regressor import Regressor
from mindyn.robots.robot import Robot

ANOTHER_SOLVER = 2e-3
"""Relative, of the distance moved: the coarseness of a grid and the tolerance of the other solver."""


def right_angle_arm():
    """Return two revolute joints at 90 degrees."""
    turn, z = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]]), np.array([0.0, 0, 1])
    joints = (
        Joint("joint1", "revolute", "base", "link1", Pose(None, (0, 0, 0)), z),
        Joint("joint2", "revolute", "link1", "link2", Pose(turn, (0.3, 0, 0)), z),
    )
    return Robot("right angle", Link("base"), joints, (Link("link1"), Link("link2")))


RIGHT_ANGLE = mindyn.base_parameters(right_angle_arm())
REPORTED = np.array([0.1202, -0.1403, -0.2246, -0.0634, -0.0743, -0.1552, -0.0157, 0.1984])


def impossible(seed, joints, *, with_drives=False, size=1.5):
    """Return a base set and values around the robot's own whose inertia matrix is not positive definite."""
    robot = random_robot(seed, joints=joints, tree=False)
    base = mindyn.base_parameters(with_random_drives(robot, seed) if with_drives else robot, with_drives=with_drives)
    rng = np.random.default_rng(seed)
    for _ in range(100):
        beta = base.values + size * rng.normal(size=base.count) * np.abs(base.values)
        if check_positive_definite((base, beta), count=500).holds is False:
            return base, beta
    raise AssertionError("no impossible values")


def made_estimate(base, beta, seed=0):
    """Return an estimate with a random covariance, deviations about a fifth of the largest value."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(len(beta), len(beta))) * 0.2 * np.abs(beta).max() / np.sqrt(len(beta))
    covariance = factor @ factor.T + 1e-4 * np.diag(np.diag(factor @ factor.T))
    settings = mindyn.EquationSettings(drive_parameters="stated")
    regressor = Regressor(base.robot, base=base)
    return Estimate(regressor, ParameterValues(beta), Uncertainty(covariance), FitData(settings))


def nearest_on_a_grid(base, beta, whitened, eps, points):
    """Return the nearest values by SCS, with matrix inequalities at the points of a grid where they are violated."""
    import cvxpy as cp

    family = InertiaMatrixFamily(base)
    q = grid(joint_ranges(family), points)
    scales = family.scales * family.scales[:, None]
    units = np.array([regressor_matrices(base, unit, q) * scales for unit in np.eye(base.count)])
    x, n = cp.Variable(base.count), len(scales)
    taken: list[int] = []
    value = beta
    for _ in range(40):
        least = np.linalg.eigvalsh(np.tensordot(value, units, 1))[:, 0]
        broken = [int(k) for k in np.argsort(least)[:12] if least[k] < eps - 1e-7 and int(k) not in taken]
        if not broken:
            return value
        taken += broken
        conditions = [
            cp.reshape(units[:, k].reshape(base.count, -1).T @ x, (n, n), order="C") >> eps * np.eye(n) for k in taken
        ]
        problem = cp.Problem(cp.Minimize(cp.sum_squares(whitened @ (x - beta))), conditions)
        problem.solve(solver=cp.SCS, eps=1e-8, max_iters=200_000)
        value = np.asarray(x.value)
    raise AssertionError("the inequalities of the grid were not all satisfied")


@pytest.mark.parametrize(("seed", "joints", "points"), [(0, 2, 181), (1, 2, 181), (4, 2, 181)])
def test_the_move_is_that_of_another_solver(seed, joints, points):
    base, beta = impossible(seed, joints)
    weights = 1 / np.maximum(np.abs(beta), 0.01 * np.abs(beta).max())
    eps = 0.01 * float(np.abs(base.values).max())
    moved = weights * (project_to_positive_definite(base, beta, eps=eps) - beta)
    other = weights * (nearest_on_a_grid(base, beta, np.diag(weights), eps, points) - beta)
    assert np.linalg.norm(moved) == pytest.approx(np.linalg.norm(other), rel=ANOTHER_SOLVER)
    assert_close(moved, other, 0.02)


def test_two_links_move_to_the_closed_condition():
    """Compare with SLSQP on J1 J2 >= L^2 rho^2, L = 0.5 m."""
    from scipy.optimize import minimize

    base = mindyn.base_parameters(planar_arm([0.5]))
    named = {"Izz1R": 0.30, "Izz2": 0.05, "mcx2": 0.28, "mcy2": 0.10}
    example = np.array([named[name] for name in base.names])
    J1, J2, Rx, Ry = (base.names.index(name) for name in named)
    other = minimize(
        lambda x: (((x - example) / example) ** 2).sum(),
        example,
        constraints={"type": "ineq", "fun": lambda x: x[J1] * x[J2] - 0.25 * (x[Rx] ** 2 + x[Ry] ** 2)},
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    assert np.abs(project_to_positive_definite(base, example, eps=1e-6) - other.x).max() < 2e-5


@pytest.mark.parametrize(("seed", "joints", "drives"), [(2, 3, False), (3, 4, False), (5, 5, True), (6, 6, False)])
def test_projected_values_of_any_arm_pass_the_check_with_other_configurations(seed, joints, drives):
    base, beta = impossible(seed, joints, with_drives=drives)
    projected = project_to_positive_definite(base, beta)
    assert check_positive_definite((base, projected), rng=77, count=20_000).holds


@pytest.mark.parametrize("table", ["table1", "table2", "table3"])
def test_the_chains_of_yoshidas_tables_become_possible(table):
    base = mindyn.base_parameters(yoshida_puma(table), with_drives=False)
    assert check_positive_definite((base, base.values), count=5_000).holds is False
    projected = project_to_positive_definite(base, base.values)
    assert check_positive_definite((base, projected), rng=77, count=20_000).holds


def test_an_estimate_moves_least_in_the_metric_of_its_covariance():
    base, beta = impossible(1, 2)
    estimate = made_estimate(base, beta)
    projected = mindyn.make_feasible(estimate, level="positive definite")
    record = projected.provenance.notes["projected"]
    assert record["level"] == "positive definite"
    assert projected.values.projected
    whitened = np.linalg.inv(np.linalg.cholesky(estimate.covariance))
    other = nearest_on_a_grid(base, beta, whitened, record["eps"], 181)
    distance = float(np.linalg.norm(whitened @ (other - beta)))
    assert record["distance"] == pytest.approx(distance, rel=ANOTHER_SOLVER)
    assert check_positive_definite(projected, rng=3).holds
    assert mindyn.make_feasible(estimate).provenance.notes["projected"]["distance"] >= 0.99 * distance


def test_possible_values_stay_as_they_are():
    base = mindyn.base_parameters(mindyn.load_robot("planar2"))
    assert (project_to_positive_definite(base, base.values) == base.values).all()
    estimate = made_estimate(base, base.values)
    same = mindyn.make_feasible(estimate, level="positive definite")
    assert (same.beta == estimate.beta).all()
    assert not same.values.projected


def test_wrong_arguments_raise():
    base = mindyn.base_parameters(mindyn.load_robot("planar2"))
    with raises(InputError, Code.UNKNOWN_NAME, "possible"):
        mindyn.make_feasible(made_estimate(base, base.values), level="possible")
    with raises(InputError, Code.OUT_OF_RANGE, "eps"):
        project_to_positive_definite(base, base.values, eps=0.0)


SEEDS = (0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 25, 26)
"""Random arms of two or three joints whose inertia matrix depends on one angle at most."""


@pytest.mark.parametrize("seed", [None, *SEEDS])
@pytest.mark.filterwarnings("error")
def test_the_command_prints_only_values_that_it_accepts_itself(seed, tmp_path):
    base, beta = (RIGHT_ANGLE, REPORTED) if seed is None else impossible(seed, 2 + seed % 2, size=0.7)
    estimate = made_estimate(base, beta).with_uncertainty(covariance=np.zeros((len(beta), len(beta))))
    estimate.save(tmp_path / "estimate.json")
    ended = mindyn_program("check", tmp_path / "estimate.json", "--method", "yoshida", "--json")
    assert ended.code == ExitCode.NO
    record = json.loads(ended.out)
    assert record["modified_by"] in ("cones", "projection")
    modified = np.array([record["modified"][name] for name in base.names])
    assert check_positive_definite((base, modified), rng=5).holds
    estimate.with_values(beta=modified).save(tmp_path / "modified.json")
    ended = mindyn_program("check", tmp_path / "modified.json", "--method", "yoshida")
    assert ended.code == ExitCode.DONE, ended.out
