"""Projections: the smallest move, compared with other solvers; new configurations; tables of Yoshida; errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import assert_close
from equations import equations
from raising import raises
from robots import random_robot, with_random_drives
from small_arms import grid, planar_arm, project_values, regressor_matrices

from mindyn.errors import Code, InputError
from mindyn.estimators.estimate import Estimate, load_estimate
from mindyn.estimators.estimate_parts import JointResidual
from mindyn.estimators.least_squares import LeastSquares
from mindyn.feasibility.inertia_family import InertiaFamily
from mindyn.feasibility.positive_definite import check_positive_definite
from mindyn.feasibility.projection import project_to_positive_definite
from mindyn.feasibility.worst_configurations import joint_ranges
from mindyn.identifiability.base_sets import base_parameters
from mindyn.kernels.model import compile_model
from mindyn.logs.samples import Samples
from mindyn.papers.yoshida_paper import yoshida_puma
from mindyn.regression.regressor import Regressor
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings

ANOTHER_SOLVER = 2e-3
"""Relative, of the distance moved: a grid's coarseness and the other solver's tolerance."""
TWO_LINKS = base_parameters(planar_arm([0.5]))
EXAMPLE = np.array([{"Izz1R": 0.30, "Izz2": 0.05, "mcx2": 0.28, "mcy2": 0.10}[name] for name in TWO_LINKS.names])


def impossible(seed, joints, drives=False):
    """A base set and values around the robot's own that are not possible."""
    robot = random_robot(seed, joints=joints, tree=False)
    base = base_parameters(with_random_drives(robot, seed) if drives else robot, drives=drives)
    rng = np.random.default_rng(seed)
    for _ in range(50):
        beta = base.values + 1.5 * rng.normal(size=base.count) * np.abs(base.values)
        if check_positive_definite((base, beta), count=500).holds is False:
            return base, beta
    raise AssertionError("no impossible values")


def estimate_of(base, beta, seed=0, size=0.2):
    """An estimate with a random covariance, deviations about `size` of the largest value."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(len(beta), len(beta))) * size * np.abs(beta).max() / np.sqrt(len(beta))
    covariance = factor @ factor.T + 1e-4 * np.diag(np.diag(factor @ factor.T))
    regressor = Regressor(base.robot, base=base)
    return Estimate(regressor, beta, covariance, "made up.", (), EquationSettings())


def on_a_grid(base, beta, whitened, eps, points):
    """The nearest values by SCS with a matrix inequality at every point of a grid, taken in where they are broken."""
    import cvxpy as cp

    family = InertiaFamily(base)
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
        held = [
            cp.reshape(units[:, k].reshape(base.count, -1).T @ x, (n, n), order="C") >> eps * np.eye(n) for k in taken
        ]
        cp.Problem(cp.Minimize(cp.sum_squares(whitened @ (x - beta))), held).solve(
            solver=cp.SCS, eps=1e-8, max_iters=200_000
        )
        value = np.asarray(x.value)
    raise AssertionError("the grid's inequalities were not all met")


@pytest.mark.parametrize(("seed", "joints", "points"), [(0, 2, 181), (1, 2, 181), (4, 2, 181), (5, 3, 73)])
def test_the_move_is_that_of_another_solver(seed, joints, points):
    base, beta = impossible(seed, joints)
    weights = 1 / np.maximum(np.abs(beta), 0.02)
    eps = 0.01 * float(np.abs(base.values).max())
    result = project_values(base, beta, weights, eps=eps)
    other = on_a_grid(base, beta, np.diag(weights), eps, points)
    distance = float(np.linalg.norm(weights * (other - beta)))
    assert result.distance == pytest.approx(distance, rel=ANOTHER_SOLVER)
    assert_close(weights * (result.beta - beta), weights * (other - beta), 0.02)
    assert result.after >= 0.99 * eps


def test_an_estimate_moves_least_in_the_metric_of_its_covariance():
    base, beta = impossible(1, 2)
    estimate = estimate_of(base, beta)
    projected = project_to_positive_definite(estimate, eps=0.02)
    whitened = np.linalg.inv(np.linalg.cholesky(estimate.covariance))
    other = on_a_grid(base, beta, whitened, 0.02, 181)
    distance = float(np.linalg.norm(whitened @ (other - beta)))
    assert projected.provenance["projected"]["distance"] == pytest.approx(distance, rel=ANOTHER_SOLVER)
    assert np.linalg.norm(whitened @ (projected.beta - beta)) == pytest.approx(distance, rel=ANOTHER_SOLVER)


def test_two_links_move_to_the_analytic_boundary():
    """The closed condition J1 J2 >= L^2 rho^2 by SLSQP, and the numbers of the worked example."""
    from scipy.optimize import minimize

    J1, J2, Rx, Ry = (TWO_LINKS.names.index(name) for name in ("Izz1R", "Izz2", "mcx2", "mcy2"))
    for weights in (np.ones(4), 1 / EXAMPLE):
        result = project_values(TWO_LINKS, EXAMPLE, weights, eps=1e-6)
        other = minimize(
            lambda x, w=weights: ((w * (x - EXAMPLE)) ** 2).sum(),
            EXAMPLE,
            constraints={"type": "ineq", "fun": lambda x: x[J1] * x[J2] - 0.25 * (x[Rx] ** 2 + x[Ry] ** 2)},
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        assert np.abs(result.beta - other.x).max() < 2e-5
    order = [J1, J2, Rx, Ry]
    examples = [(np.ones(4), [0.3043, 0.0689, 0.2715, 0.0970]), (1 / EXAMPLE, [0.3199, 0.0533, 0.2406, 0.0980])]
    for weights, values in examples:  # the margin that they have is not known
        ends = [project_values(TWO_LINKS, EXAMPLE, weights, eps=eps).beta[order] for eps in (1e-6, 5e-4)]
        assert (np.min(ends, axis=0) - 5e-5 <= values).all()
        assert (np.max(ends, axis=0) + 5e-5 >= values).all()


TABLES = [("table1", False, 0.132), ("table2", False, 0.440), ("table3", False, 0.112), ("table2", True, 0.075)]


@pytest.mark.parametrize(("table", "drives", "move"), TABLES)
def test_yoshidas_tables_move_as_computed_independently(table, drives, move):
    """That computation left eigenvalues between 0.0005 and 0.0011 for eps = 1e-3: moves for these bound its own."""
    base = base_parameters(yoshida_puma(table), drives=drives)
    chain = np.arange(base.count) < 36
    weights = np.where(chain, 1 / np.maximum(np.abs(base.values), 0.02), np.inf)
    result = project_values(base, base.values, weights, eps=1e-3)
    assert result.distance / 6 == pytest.approx(move, rel=0.04)
    least = project_values(base, base.values, weights, eps=5e-4).distance / 6
    assert least - 5e-4 < move < result.distance / 6 + 5e-4
    assert (result.beta[~chain] == base.values[~chain]).all()
    fresh = check_positive_definite((base, result.beta), rng=77, count=60_000)
    assert fresh.holds
    assert fresh.witness["smallest_eigenvalue"] > 0.98e-3


def test_the_moves_of_yoshidas_tables_are_of_the_parameters_named():
    first, third = (base_parameters(yoshida_puma(table)) for table in ("table1", "table3"))
    moved = dict(zip(first.names, _projected(first), strict=True))
    result = {"Ixz6": 0.0301, "Ixy6": -0.0218, "Izz5R": 0.0500, "Ixy5": 0.0405, "Izz4R": 0.0518, "mcy5R": -0.205}
    assert all(moved[name] == pytest.approx(value, abs=1.5e-3) for name, value in result.items())
    moved = dict(zip(third.names, _projected(third), strict=True))
    assert moved["Izz4R"] == pytest.approx(0.0020, abs=1e-3)


def _projected(base):
    return project_values(base, base.values, 1 / np.maximum(np.abs(base.values), 0.02), eps=1e-3).beta


def test_tables_that_are_positive_definite_with_rotors_stay():
    for table in ("table1", "table3"):
        base = base_parameters(yoshida_puma(table), drives=True)
        result = project_values(base, base.values, np.ones(base.count), eps=1e-3)
        assert result.rounds == 0
        assert (result.beta == base.values).all()


@pytest.mark.parametrize("seed", range(5))
def test_projected_estimates_are_positive_definite_at_new_configurations_and_nearer_than_the_truth(seed):
    """Robots of two to six joints, some with drives; their own values are possible, so no nearest is farther."""
    base, beta = impossible(seed, 2 + seed, drives=bool(seed % 2))
    estimate = estimate_of(base, beta, seed)
    true = check_positive_definite((base, base.values), count=2000).witness["smallest_eigenvalue"]
    projected = project_to_positive_definite(estimate, eps=true / 2)
    after = check_positive_definite(projected, rng=1000 + seed, count=20_000)
    assert after.holds
    assert after.witness["smallest_eigenvalue"] > 0.98 * true / 2
    whitened = np.linalg.inv(np.linalg.cholesky(estimate.covariance))
    to_truth = float(np.linalg.norm(whitened @ (base.values - beta)))
    assert projected.provenance["projected"]["distance"] <= to_truth
    assert projected.provenance["projected"]["smallest_eigenvalue_before"] < 0


def test_the_status_lists_the_largest_moves(tmp_path):
    base, beta = impossible(1, 2)
    estimate = estimate_of(base, beta)
    projected = project_to_positive_definite(estimate, eps=0.02)
    record = projected.provenance["projected"]
    for name, move in record["moves"].items():
        k = estimate.names.index(name)
        assert move["to"] == projected.beta[k]
        assert move["deviations"] == pytest.approx((projected.beta[k] - beta[k]) / estimate.deviations[k])
    most = max(record["moves"], key=lambda name: abs(record["moves"][name]["deviations"]))
    assert f"largest moves in deviations of noise: {most} " in projected.status
    shifts = 5 * np.diag(estimate.deviations)
    widened = replace(estimate, covariance=estimate.covariance + shifts.T @ shifts, shifts=shifts)
    for name, move in project_to_positive_definite(widened, eps=0.02).provenance["projected"]["moves"].items():
        assert move["deviations"] == pytest.approx(record["moves"][name]["deviations"], rel=1e-3, abs=1e-6)
    projected.save(tmp_path / "projected.json")
    assert load_estimate(tmp_path / "projected.json").provenance["projected"] == record


def test_unidentifiable_parameters_move_at_the_noticeable_cost_and_dropped_ones_stay_zero():
    base, beta = impossible(1, 2)
    estimate = estimate_of(base, beta)
    plain = project_to_positive_definite(estimate, eps=0.02)
    k = int(np.argmax(np.abs(plain.beta - beta) / estimate.deviations))
    covariance = estimate.covariance.copy()
    covariance[k, k] = np.inf
    distances = []
    for rms in (1.0, 100.0):
        residuals = tuple(JointResidual(name, 10, rms, 2 * rms) for name in base.robot.joint_names)
        loose = replace(estimate, covariance=covariance, unidentifiable=(estimate.names[k],), residuals=residuals)
        record = project_to_positive_definite(loose, eps=0.02).provenance["projected"]
        assert record["moves"][estimate.names[k]]["deviations"] is None
        distances.append(record["distance"])
    assert distances[1] < min(distances[0], plain.provenance["projected"]["distance"])
    beta, covariance = beta.copy(), estimate.covariance.copy()
    beta[k] = covariance[k, :] = covariance[:, k] = 0.0
    fixed = replace(estimate, beta=beta, covariance=covariance, dropped=(estimate.names[k],))
    assert project_to_positive_definite(fixed, eps=1e-3).beta[k] == 0.0


def test_dropped_parameters_move_if_there_is_no_solution_without_them():
    """Essential parameters may leave a joint without any inertia."""
    estimate = estimate_of(TWO_LINKS, EXAMPLE)
    out = [estimate.names.index(name) for name in ("Izz2", "mcx2", "mcy2")]
    beta, covariance = EXAMPLE.copy(), estimate.covariance.copy()
    beta[out] = covariance[out, :] = covariance[:, out] = 0.0
    names = tuple(estimate.names[k] for k in out)
    projected = project_to_positive_definite(replace(estimate, beta=beta, covariance=covariance, dropped=names))
    assert check_positive_definite(projected, rng=3).holds
    assert projected.value("Izz2") > 0
    assert "Izz2 0 -> " in projected.status
    assert projected.dropped + projected.unidentifiable == tuple(
        sorted(names, key=lambda name: projected.value(name) != 0)
    )
    assert np.isinf(projected.deviations[projected.names.index("Izz2")])


def test_few_configurations_in_a_round_are_made_up_for_by_the_fresh_ones_at_the_end(monkeypatch):
    monkeypatch.setattr("mindyn.feasibility.projection.CONFIGURATIONS_PER_ROUND", 1)
    base = base_parameters(yoshida_puma("table1"))
    result = project_values(base, base.values, 1 / np.maximum(np.abs(base.values), 0.02), eps=1e-3)
    assert check_positive_definite((base, result.beta), rng=7).witness["smallest_eigenvalue"] > 0.98e-3


def noisy_fit(dropped=()):
    """A least-squares fit that noise of accelerations made impossible, and its samples."""
    rng = np.random.default_rng(0)
    robot = random_robot(1, joints=3, tree=False, gravity=(0.0, 0.0, -9.81))
    q, qd, qdd = rng.uniform(-2, 2, (3, 800, 3))
    tau = compile_model(robot).inverse_dynamics(q, qd, 0.3 * qdd)
    measured = 0.3 * qdd + 3.0 * rng.normal(size=qdd.shape)
    samples = Samples(robot.joint_names, q, qd, measured, tau, 100.0, np.zeros(len(q), dtype=np.int64))
    return LeastSquares(dropped=dropped).fit(equations(robot, samples)), samples


def test_the_metric_of_the_data_equals_that_of_the_covariance_if_all_parameters_were_fitted():
    estimate, samples = noisy_fit()
    assert check_positive_definite(estimate, count=2000).holds is False
    plain, by_data = project_to_positive_definite(estimate), project_to_positive_definite(estimate, data=samples)
    assert_close(by_data.beta - estimate.beta, plain.beta - estimate.beta, 0.02)
    distances = [item.provenance["projected"]["distance"] for item in (plain, by_data)]
    assert distances[1] == pytest.approx(distances[0], rel=0.01)  # residuals per row, or per degree of freedom


def test_with_data_dropped_parameters_move_at_the_cost_of_their_residuals():
    whole, _ = noisy_fit()
    left_out = tuple(name for name in whole.names if name.startswith("I"))[-2:]
    estimate, samples = noisy_fit(left_out)
    information = Rows(estimate.regressor, EquationSettings(), samples).information
    projected = project_to_positive_definite(estimate, data=information)
    assert check_positive_definite(projected, rng=4, count=5000).holds
    assert set(projected.unidentifiable) == set(left_out)
    assert not projected.dropped
    other, _ = noisy_fit()
    strange = replace(information, names=tuple(f"{name}x" for name in other.names))
    with raises(InputError, Code.DISAGREEMENT, "data"):
        project_to_positive_definite(estimate, data=strange)


def test_the_chain_alone_can_be_projected_within_an_estimate_with_drives():
    robot = yoshida_puma("table3")
    base = base_parameters(robot, drives=True)
    deviations = 0.1 * np.maximum(np.abs(base.values), 1e-6)
    estimate = Estimate(
        Regressor(robot, base=base), base.values, np.diag(deviations**2), "Table 3.", (), EquationSettings()
    )
    assert check_positive_definite(estimate).holds
    assert check_positive_definite(estimate, drives=False).holds is False
    projected = project_to_positive_definite(estimate, drives=False, eps=1e-4)
    assert check_positive_definite(projected, drives=False, rng=5).holds


def test_fixed_parameters_without_a_solution_raise():
    with raises(InputError, Code.NOT_FEASIBLE, "fixed parameters"):
        project_values(TWO_LINKS, -EXAMPLE, np.array([1.0, np.inf, np.inf, np.inf]), eps=1e-3)
    with raises(InputError, Code.NOT_FEASIBLE, "fixed parameters"):
        project_values(TWO_LINKS, -EXAMPLE, np.array([np.inf, 1.0, 1.0, np.inf]), eps=1e-3)


def test_invalid_arguments_of_projections_raise():
    base, beta = impossible(1, 2)
    estimate = estimate_of(base, beta)
    for eps in (0.0, -1.0, np.nan):
        with raises(InputError, Code.OUT_OF_RANGE, "eps"):
            project_to_positive_definite(estimate, eps=eps)
