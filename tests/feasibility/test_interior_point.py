"""Many fits at once compared with Clarabel, program by program, and with minima known in closed form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SOLVED, assert_close
from robots import random_phi
from scipy.optimize import nnls
from small_arms import slope_of

import mindyn
from mindyn.foundation.algebra.inertia import pseudo_inertia
from mindyn.foundation.processes import workers
from mindyn.identification.feasibility.conditions.physical_space import PSEUDO_ROWS, space_of
from mindyn.identification.feasibility.conditions.priors import build_prior
from mindyn.identification.feasibility.conditions.user_bounds import Bounds
from mindyn.identification.feasibility.fits import constrained_fit
from mindyn.identification.feasibility.fits.constrained_fit import MIN_PRIOR_FRACTION, FitProblem, solve_all
from mindyn.identification.feasibility.optimisation.conic_program import ConeRows, ConicProgram
from mindyn.identification.feasibility.optimisation.interior_point import minimise_all
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.regression.row_blocks import gather

LINK = ConeRows("semidefinite", PSEUDO_ROWS, np.zeros(10), 4)


def parts_of(robot, count=4, rows=60, noise=0.5):
    """Information of parts of a random motion, with noise, for a regressor with all drives."""
    regressor, rng = Regressor(robot), np.random.default_rng(3)
    model = mindyn.compile_model(robot, with_drives=True)
    parts = []
    for _ in range(count):
        q, qd, qdd = rng.uniform(-1.5, 1.5, (3, rows, robot.joint_count))
        tau = model.inverse_dynamics(q, qd, qdd)
        tau += noise * rng.normal(size=tau.shape)
        segments = np.zeros(rows, dtype=np.int64)
        parts.append(gather(regressor, mindyn.Samples(robot.joint_names, q, qd, qdd, tau, 100.0, segments)))
    return regressor, parts


@pytest.fixture(scope="module")
def arm():
    robot = mindyn.load_robot("puma560")
    rng = np.random.default_rng(0)
    links = [
        replace(link, phi=random_phi(rng)) if link.phi is None or not link.phi.any() else link for link in robot.links
    ]
    return parts_of(with_estimated_drives(replace(robot, links=tuple(links))))


def cost_of(problem, information, weights, weight, x):
    program = problem._build_program(information, problem._factor_with_prior(information, weights), weight, [])
    v = x / problem.space.units
    cost = program.cost @ v + sum(((A @ v - b) ** 2).sum() / 2 for A, b in program.squares)
    for rows, w in program.logarithms:
        entries = rows.matrix @ v
        P = np.zeros((4, 4))
        places = np.tril_indices(4)
        P[places[1], places[0]] = P[places] = entries / np.where(places[0] == places[1], 1.0, np.sqrt(2.0))
        cost -= w * np.linalg.slogdet(P)[1]
    return cost


@pytest.mark.parametrize("prior", ["robot", None])
def test_fits_at_once_are_those_of_clarabel_one_by_one(arm, prior):
    """Data, weights of the prior and dropped parameters differ; the cost is at most that of Clarabel."""
    regressor, parts = arm
    space, floor = space_of(regressor), MIN_PRIOR_FRACTION if prior else 0.0
    problem = FitProblem(space, build_prior(regressor.robot, prior), floor=floor)
    weights = np.linspace(0.5, 4.0, regressor.joint_count)
    fits = [
        (problem.drop_kinds(kinds), part, weight)
        for part, weight, kinds in zip(parts, (1e-5, 1e-3, 0.1, 10.0), ((), ("rotor",), (), ("rotor",)), strict=True)
    ]
    solved = minimise_all(
        [p._build_program(d, p._factor_with_prior(d, weights), w, p._zero_numbers(d, weights)) for p, d, w in fits],
        problem.start(),
    )
    assert all(v is not None for v in solved)
    for (item, data, weight), x in zip(fits, solve_all(fits, weights), strict=True):
        zero = item._zero_numbers(data, weights)
        alone = item._solve_program(
            item._build_program(data, item._factor_with_prior(data, weights), weight, zero), zero
        )
        ours, theirs = (cost_of(item, data, weights, weight, values) for values in (x, alone))
        assert ours <= theirs + 1e-7 * abs(theirs)
        assert not x[list(item.zero)].any()
        assert space.smallest_margin(x) > -1e-8
        # far from the boundary of a flat minimum, values agree to the root of the tolerance of the cost
        assert_close(space.matrix @ x, space.matrix @ alone, 1e-3)


@pytest.mark.parametrize("weight", [1e-3, 0.1])
def test_values_are_minimisers_to_rounding(arm, weight):
    """Where rows bind, the slope of the cost is a nonnegative combination of them; elsewhere it is zero."""
    regressor, parts = arm
    space, weights = space_of(regressor), np.linspace(0.5, 4.0, regressor.joint_count)
    prior, rng = build_prior(regressor.robot, "robot"), np.random.default_rng(1)
    prior = replace(prior, links=tuple(random_phi(rng) if phi is None else phi for phi in prior.links))
    problem, units = FitProblem(space, prior), space.units
    x, T = problem.solve(parts[0], weights, weight), problem._factor_with_prior(parts[0], weights)
    A, b, v = T[:, :-1] @ space.matrix * units, T[:, -1], x / units
    slope = A.T @ (A @ v - b) + weight * slope_of(prior, space, x) * units
    rows = [rows for rows in (*space.cone_rows(units), *problem._bound_rows(units)) if rows.kind == "nonnegative"]
    G, h = np.vstack([group.matrix for group in rows]), np.concatenate([group.offset for group in rows])
    binding = G @ v + h < 1e-9
    assert (G @ v + h).min() > -1e-12
    forces = np.vstack([np.zeros(space.size), G[binding]])  # SciPy needs a row
    assert nnls(forces.T, slope)[1] < 1e-10 * np.abs(A.T @ b).max()


def test_unsolved_programs_are_left_to_clarabel(arm, monkeypatch):
    regressor, parts = arm
    problem = FitProblem(space_of(regressor), build_prior(regressor.robot, "robot"))
    fits = [(problem, part, 1e-2) for part in parts[:2]]
    weights = np.ones(regressor.joint_count)
    together = solve_all(fits, weights)
    monkeypatch.setattr(constrained_fit, "minimise_all", lambda programs, _: [None] * len(programs))
    alone = solve_all(fits, weights)
    for item, other in zip(together, alone, strict=True):
        assert_close(problem.space.matrix @ item, problem.space.matrix @ other, 1e-4)


def test_a_logarithm_and_a_trace_are_least_at_the_expected_body():
    """tr(P0^-1 P) - log det P is least at P0, and t times it with a price c where t (P0^-1 - P^-1) = -c."""
    phi = random_phi(np.random.default_rng(1))
    inverse = np.linalg.inv(pseudo_inertia(phi))
    gradient = np.array([np.trace(inverse @ pseudo_inertia(unit)) for unit in np.eye(10)])
    programs = []
    for weight, price in ((1.0, 0.0), (0.3, 0.0), (0.3, 2.0)):
        program = ConicProgram(10)
        program.cost[:] = weight * gradient * (1 + price)
        program.add_logarithm(LINK, weight)
        programs.append(program)
    first, second, third = minimise_all(programs, np.array([1.0, 0, 0, 0, 1, 0, 1, 0, 0, 1]))
    assert_close(first, phi, SOLVED)
    assert_close(second, phi, SOLVED)
    assert_close(third, phi / 3, SOLVED)
    assert_close(programs[2].solve().x, phi / 3, 1e-3)  # through exponential cones


def test_least_values_over_balls_of_several_radii():
    """Around a body deep inside, the least c.x is c.centre - radius |c|; a row stops it."""
    centre = np.array([10.0, 0, 0, 0, 8.0, 0, 8.0, 0, 0, 8.0])
    programs = []
    for cost, radius in (([1.0] + [0.0] * 9, 0.5), ([0.0] * 4 + [2.0] + [0.0] * 5, 0.1), ([-1.0] + [0.0] * 9, 0.5)):
        program = ConicProgram(10)
        ball = ConeRows("second order", np.vstack([np.zeros(10), np.eye(10)]), np.concatenate([[radius], -centre]))
        limit = ConeRows("nonnegative", -np.eye(10)[:1], np.array([10.2]))
        program.add_rows(LINK, limit, ball)
        program.cost[:] = cost
        programs.append(program)
    result = [program.cost @ v for program, v in zip(programs, minimise_all(programs, centre, 1e-7), strict=True)]
    assert_close(result, [9.5, 15.8, -10.2], SOLVED)


def test_minima_do_not_depend_on_the_number_of_processes(arm, monkeypatch):
    regressor, parts = arm
    problem = FitProblem(space_of(regressor), build_prior(regressor.robot, "robot"))
    weights = np.ones(regressor.joint_count)
    triangles = [problem._factor_with_prior(part, weights) for part in parts[:3]]
    programs = [problem._build_program(part, T, 1e-2, []) for part, T in zip(parts[:3], triangles, strict=True)]
    minima = []
    for cores in (1, 2):
        monkeypatch.setattr(workers, "usable_cores", lambda cores=cores: cores)
        with workers.workers("math", 1):
            assert workers.has_workers() == (cores > 1)
            minima.append(minimise_all(programs, problem.start()))
    assert np.array_equal(*minima)


def test_other_programs_are_not_solved_here():
    """Equations between values, exponential cones, and programs without links."""
    phi = np.array([1.0, 0, 0, 0, 1, 0, 1, 0, 0, 1])
    tied, other, plain = ConicProgram(10), ConicProgram(10), ConicProgram(10)
    tied.add_rows(LINK, ConeRows("zero", np.ones((1, 10)), np.zeros(1)))
    other.add_rows(LINK, ConeRows("exponential", np.eye(3, 10), np.zeros(3)))
    plain.add_squares(np.eye(10), phi)
    assert [minimise_all([program], phi) for program in (tied, other, plain)] == [[None]] * 3
    unbounded = ConicProgram(10)
    unbounded.add_rows(LINK)
    unbounded.cost[0] = -1.0
    assert minimise_all([unbounded], phi) == [None]


def test_symmetric_bodies_are_fitted_by_clarabel(arm):
    """Planes of symmetry fix values at zero; those of links are not in the matrix of a block."""
    regressor, parts = arm
    space = space_of(regressor)
    names = regressor.robot.link_names
    bounds = Bounds(symmetric={names[1]: "xy"}, masses={names[2]: (1.0, 6.0)}).rows(space)
    problem = FitProblem(space, build_prior(regressor.robot, "robot"), bounds)
    weights = np.ones(regressor.joint_count)
    (x,) = solve_all([(problem, parts[0], 1e-2)], weights)
    assert_close(space.matrix @ x, space.matrix @ problem.solve(parts[0], weights, 1e-2), 1e-4)
    assert 1.0 - 1e-6 <= x[space.link(2).start] <= 6.0 + 1e-6
