"""The consistency check: positive for bodies, negative with a certificate that can be verified by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from chunks import seeds_of_chunk
from feasibility.physical_draws import energy_functional, least_over_point_masses
from raising import raises
from robots import random_robot, random_robots, with_random_drives
from small_arms import check_base_values, space_of_base

import mindyn
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.feasibility.conditions.nearest_values import find_nearest_consistent, relative_metric
from mindyn.kernels.model import compile_model
from mindyn.papers.yoshida_robot import yoshida_puma
from mindyn.parameters.structural import structural_base

CERTIFIED = 1e-6
"""Negative part of a certificate on physical parameters of unit size, against its value -1: the solver's tolerance."""


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_random_robots_are_consistent(start):
    kept = seeds_of_chunk(0, 50)
    for seed, robot in enumerate(random_robots(50, start=start)):
        if seed not in kept:
            continue
        arm = with_random_drives(robot, seed) if seed % 2 else robot
        base = structural_base(arm, with_drives=bool(arm.drives))
        answer = check_base_values(base, base.values)
        assert answer.holds is True, f"seed {start + seed}: {answer.sentence}"
        x = np.array(list(answer.witness["physical"].values()))
        np.testing.assert_allclose(base.matrix @ x, base.values, atol=1e-6 * np.abs(base.values).max())


def find_refuted_values(robot, seed):
    """Base values whose kinetic energy at one configuration is negative, and the functional that says so."""
    rng = np.random.default_rng(seed)
    base = structural_base(robot)
    q, v = rng.uniform(-2, 2, (2, robot.joint_count))
    a = energy_functional(compile_model(robot), base.count, q, v)
    energy = a @ base.values
    assert energy > 0
    return base, base.values - 1.05 * energy * a / (a @ a)


@pytest.mark.parametrize("seed", range(12))
def test_negative_kinetic_energy_is_a_contradiction_with_a_checked_certificate(seed):
    robot = random_robot(seed, joints=2 + seed % 4)
    base, beta = find_refuted_values(robot, seed)
    answer = check_base_values(base, beta)
    assert answer.holds is False
    y = np.array([answer.witness["certificate"][name] for name in base.names])
    y = y / -(y @ beta)  # now y.beta = -1
    assert least_over_point_masses(base.matrix, y, robot.joint_count) > -CERTIFIED
    assert set(answer.witness["contradicting"]) <= set(base.names)
    assert all(name in answer.sentence for name in answer.witness["contradicting"])
    json.dumps(answer.to_dict())


@pytest.mark.parametrize("name", ["puma560", "ur10", "panda"])
@pytest.mark.parametrize("outside", [2e-5, 1e-4, 1e-3])
def test_values_just_outside_the_physical_set_are_refuted(name, outside):
    """Steps from a nearest consistent point back to the values that it is nearest to, of 2e-5 and more of them."""
    base = structural_base(mindyn.load_robot(name), with_drives=False)
    space = space_of_base(base)
    beta = base.values * (1 + 0.5 * np.random.default_rng(3).normal(size=base.count))
    nearest = find_nearest_consistent(space, beta, relative_metric(space, beta))
    step = (beta - nearest.beta) / (nearest.distance / np.sqrt(base.count))
    answer = check_base_values(base, nearest.beta + outside * step)
    assert answer.holds is False


@pytest.mark.parametrize("label", ["Im", "fv", "fc"])
def test_negative_drive_parameters_contradict_and_are_named(label):
    robot = with_random_drives(random_robot(5, joints=3, tree=False), 5)
    base = structural_base(robot, with_drives=True)
    name = next(name for name in reversed(base.names) if name.startswith(label))
    beta = base.values.copy()
    beta[base.names.index(name)] = -0.1
    answer = check_base_values(base, beta)
    assert answer.holds is False
    assert name in answer.witness["contradicting"]


def test_offsets_may_have_any_sign():
    robot = with_random_drives(random_robot(5, joints=3, tree=False), 5)
    base = structural_base(robot, with_drives=True)
    beta = base.values.copy()
    beta[base.names.index("fo2")] = -7.0
    assert check_base_values(base, beta).holds is True


@pytest.mark.parametrize("name", ["planar2", "stanford", "puma560", "panda", "ur10", "scara"])
def test_published_robots_with_point_masses_and_massless_links_are_consistent(name):
    base = structural_base(mindyn.load_robot(name))
    assert check_base_values(base, base.values).holds is True


@pytest.mark.parametrize(("table", "distance"), [("table1", 0.257), ("table2", 0.562), ("table3", 0.142)])
def test_yoshidas_tables_are_not_consistent(table, distance):
    """Rms relative distance, weights 1 / max(|p|, 0.02), of the chain: reference, section 4.4."""
    base = structural_base(yoshida_puma(table))
    assert check_base_values(base, base.values).holds is False
    with_drives = structural_base(yoshida_puma(table), with_drives=True)
    assert check_base_values(with_drives, with_drives.values).holds is False
    W = np.diag(1 / np.maximum(np.abs(base.values), 0.02))
    nearest = find_nearest_consistent(space_of_base(base), base.values, W)
    assert nearest.distance / np.sqrt(base.count) == pytest.approx(distance, abs=2e-3)


@pytest.mark.parametrize("seed", range(4))
def test_nearest_values_are_an_independent_solvers(seed):
    import cvxpy as cp

    robot = random_robot(seed, joints=2)
    base, beta = find_refuted_values(robot, seed)
    beta = beta + 0.3 * np.abs(beta) * np.random.default_rng(seed).standard_normal(len(beta))
    W = np.diag(1 / np.maximum(np.abs(beta), 0.1 * np.abs(beta).max()))
    ours = find_nearest_consistent(space_of_base(base), beta, W)
    bodies = [cp.Variable((4, 4), PSD=True) for _ in robot.links]
    phi = cp.hstack([entry for P in bodies for entry in _parameters(P)])
    problem = cp.Problem(cp.Minimize(cp.norm(W @ (base.matrix @ phi - beta))))
    problem.solve(solver=cp.SCS, eps=1e-8, max_iters=200_000)
    assert ours.distance > 1e-3
    assert ours.distance == pytest.approx(problem.value, rel=2e-4)
    np.testing.assert_allclose(ours.beta, base.matrix @ phi.value, atol=2e-3 * np.abs(beta).max())


def _parameters(P):
    """phi of a pseudo-inertia: J = tr(Sigma) E - Sigma, off-diagonals negative products."""
    xx, yy, zz = P[0, 0], P[1, 1], P[2, 2]
    return [P[3, 3], P[0, 3], P[1, 3], P[2, 3], yy + zz, -P[0, 1], xx + zz, -P[0, 2], -P[1, 2], xx + yy]


def test_a_wrong_number_of_values_raises():
    base = structural_base(mindyn.load_robot("planar2"))
    with raises(InputError, Code.WRONG_SHAPE, "values"):
        check_base_values(base, np.ones(base.count + 1))
