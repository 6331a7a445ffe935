"""The physically consistent fit: the truth from exact data, a consistent arm from bad data, and priors."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest
from closeness import assert_close
from equations import equations
from estimators.recovered import exact_samples, smooth_samples
from feasibility.small_arms import long_rod_on_a_slide
from raising import raises
from robots import random_robot, with_random_drives
from small_arms import space_of_base

import mindyn
from mindyn import Bounds, Friction, LeastSquares, PhysicallyConsistent
from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.foundation.algebra.inertia import check_consistency, pseudo_inertia
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.feasibility.checks.consistent_values import check_consistent
from mindyn.identification.feasibility.conditions.physical_space import space_of
from mindyn.identification.feasibility.conditions.priors import build_prior
from mindyn.identification.feasibility.fits.constrained_fit import FitProblem
from mindyn.identification.feasibility.optimisation.conic_program import ConicProgram
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.regression.row_blocks import gather
from mindyn.robots.parts import Drive, Joint, Link
from mindyn.robots.placeholders import find_placeholders
from mindyn.robots.robot import Robot

RECOVERED = 1e-4
"""From exact samples: what the lightest prior and the solver's tolerance leave."""


def arm(seed=3, joints=3):
    return with_random_drives(random_robot(seed, joints=joints, tree=False, gravity=(0.0, 0.0, -9.81)), seed)


def physical(estimate):
    return dict(zip(estimate.values.physical.labels, estimate.values.physical.values, strict=True))


def links_of(estimate):
    x = estimate.values.physical.values
    return [x[10 * i : 10 * i + 10] for i in range(len(estimate.robot.links))]


@pytest.mark.parametrize("prior", ["robot", None])
def test_exact_samples_give_the_truth(prior):
    robot = arm()
    estimate = PhysicallyConsistent(prior=prior, prior_weight=0.0, kinds="all").fit(
        equations(robot, exact_samples(robot))
    )
    assert_close(estimate.base_values, estimate.base.values, RECOVERED)
    assert all(check_consistency(phi).status == "consistent" for phi in links_of(estimate))


def test_bad_data_give_a_consistent_arm_unlike_least_squares():
    robot = arm(4)
    samples = exact_samples(robot, 80, noise=20.0)
    assert check_consistent(LeastSquares().fit(equations(robot, samples))).holds is False
    estimate = PhysicallyConsistent(prior=None, kinds="all").fit(equations(robot, samples))
    assert check_consistent(estimate).holds is True
    assert all(check_consistency(phi).is_feasible for phi in links_of(estimate))
    assert all(v >= 0 for k, v in physical(estimate).items() if k.startswith(("Im", "fv", "fc")))
    assert "smallest total mass" in estimate.status


def test_unidentifiable_parameters_take_the_prior():
    robot = arm(5)
    samples = exact_samples(robot, noise=0.1)
    estimate = PhysicallyConsistent(prior_weight=1e-3).fit(equations(robot, samples))
    assert physical(estimate)["m1"] == pytest.approx(
        robot.phi[0], rel=1e-3
    )  # the first mass has no effect on any torque
    assert "prior" in estimate.status
    least = PhysicallyConsistent(prior=None).fit(equations(robot, samples))
    assert sum(phi[0] for phi in links_of(least)) < sum(phi[0] for phi in links_of(estimate))


def test_stream_and_information_give_the_same_as_samples():
    robot = arm(6)
    samples = exact_samples(robot, 400, noise=0.5)
    fit = PhysicallyConsistent(prior_weight=1e-2, kinds="all")
    whole = fit.fit(equations(robot, samples))
    assert_close(fit.fit(equations(robot, iter([samples]))).beta, whole.beta, 1e-6)
    assert_close(fit.fit(equations(robot, gather(Regressor(robot), samples))).beta, whole.beta, 1e-6)


def test_information_alone_cannot_choose_the_priors_weight():
    robot = arm(6)
    with raises(InputError, Code.TOO_LITTLE_DATA, "prior_weight"):
        PhysicallyConsistent().fit(equations(robot, gather(Regressor(robot), exact_samples(robot))))


def test_time_does_not_depend_on_the_length_of_the_log():
    robot = arm(7)
    fit = PhysicallyConsistent(prior_weight=1e-2, kinds="all")
    seconds = []
    for count in (500, 10_000):
        information = gather(Regressor(robot), exact_samples(robot, count, noise=0.5))
        fit.fit(equations(robot, information))  # kernels and imports once
        start = perf_counter()
        fit.fit(equations(robot, information))
        seconds.append(perf_counter() - start)
    assert seconds[1] < 3 * seconds[0]


def test_entropic_fit_is_an_independent_solvers():
    import cvxpy as cp

    robot = arm(8, joints=2)
    samples = exact_samples(robot, 60, noise=5.0)
    regressor = Regressor(robot)
    information = gather(regressor, samples)
    space, prior = space_of(regressor), build_prior(robot, "robot")
    weights, weight = np.array([0.05, 0.03]), 0.02
    x = FitProblem(space, prior).solve(information, weights, weight)
    R, z = information.stacked(weights)
    v = cp.Variable(space.size)
    cost = cp.sum_squares(R @ space.matrix @ v - z) / 2 / sum(information.counts)
    rules = [v[list(space.nonnegative)] >= 0]
    for i, phi in enumerate(prior.links):
        P = sum(v[10 * i + k] * pseudo_inertia(unit) for k, unit in enumerate(np.eye(10)))
        cost += weight * (cp.trace(np.linalg.inv(pseudo_inertia(phi)) @ P) - cp.log_det(P))
    best = cp.Problem(cp.Minimize(cost), rules)
    best.solve(solver=cp.SCS, eps=1e-8, max_iters=100_000)
    assert_close(space.matrix @ x, space.matrix @ v.value, 1e-3)


def test_a_far_prior_alone_is_returned_by_both_divergences():
    robot = mindyn.load_robot("ur10")
    space = space_of(Regressor(robot))
    for divergence in ("entropic", "euclidean"):
        prior = build_prior(robot, "robot", divergence)
        program = ConicProgram(space.size)
        program.add_rows(*space.cone_rows(space.units))
        prior.add_to(program, space, space.units, 1.0, 1.0)
        assert_close(space.units * program.solve().x[: space.size], robot.phi, RECOVERED)


def test_a_prior_link_wider_than_the_reach_of_the_robot_is_accepted():
    rod = long_rod_on_a_slide().links[1]
    joint = Joint("hinge", "revolute", "base", "rod", axis=np.array([0.0, 1.0, 0.0]))
    robot = with_estimated_drives(Robot("pendulum", Link("base"), (joint,), (rod,), np.array([0.0, 0.0, -9.81])))
    estimate = PhysicallyConsistent(prior_weight=1e-3, kinds="all").fit(
        equations(robot, exact_samples(robot, 200, noise=0.01))
    )
    assert links_of(estimate)[0][0] == pytest.approx(rod.phi[0], rel=0.01)


def test_links_are_as_wide_as_the_data_ask_for():
    robot = long_rod_on_a_slide()
    estimate = PhysicallyConsistent(prior=None).fit(equations(robot, exact_samples(robot, 200, noise=0.01)))
    assert_close(estimate.base_values, estimate.base.values, 1e-3)
    assert "wider" in estimate.status


def test_the_euclidean_divergence_measures_lengths_in_units_of_the_robots():
    robot, other = arm(5), arm(6)
    space, prior = space_of_base(base_parameters(robot)), build_prior(robot, "robot", "euclidean")
    program = ConicProgram(space.size)
    prior.add_to(program, space, space.units, 0.7, 1.0)
    cost = sum(((A @ (other.phi / space.units) - b) ** 2).sum() / 2 for A, b in program.squares)
    D = np.diag([1 / space.length] * 3 + [1.0])
    expected = 0.0
    for link, phi in zip(robot.links, other.links, strict=True):
        P0, P = D @ pseudo_inertia(link.phi) @ D, D @ pseudo_inertia(phi.phi) @ D
        expected += 0.7 * ((P - P0) ** 2).sum() / (P0**2).sum()
    assert cost == pytest.approx(expected, rel=1e-12)


def test_bounds_total_mass_and_symmetry_are_kept():
    robot = arm(9)
    samples = exact_samples(robot, 200, noise=2.0)
    names = robot.link_names
    bounds = Bounds(
        masses={names[0]: (1.0, 2.0)},
        centres={names[2]: ((-0.05, -0.05, -0.05), (0.05, 0.05, 0.05))},
        total_mass=(8.0, 8.0),
        symmetric={names[1]: "xz"},
    )
    first, second, third = links_of(
        PhysicallyConsistent(bounds=bounds, prior_weight=1e-2).fit(equations(robot, samples))
    )
    assert 1 - 1e-6 <= first[0] <= 2 + 1e-6
    assert first[0] + second[0] + third[0] == pytest.approx(8.0, rel=1e-5)
    assert np.abs(third[1:4] / third[0]).max() <= 0.05 + 1e-5
    assert np.abs(second[[2, 5, 8]]).max() < 1e-5


def test_contradicting_bounds_raise():
    robot = arm(9)
    bounds = Bounds(masses={robot.link_names[0]: (2.0, 3.0)}, total_mass=(0.0, 1.0))
    with raises(InputError, Code.DISAGREEMENT, "bounds"):
        PhysicallyConsistent(bounds=bounds, prior_weight=1e-2).fit(equations(robot, exact_samples(robot, 200)))


def test_friction_shapes_dissipate_and_drive_parameters_can_be_dropped():
    robot = with_estimated_drives(mindyn.load_robot("planar2"))
    robot = replace(robot, drives=tuple(replace(d, viscous=0.3, coulomb=0.1) for d in robot.drives))
    samples = smooth_samples(robot, 2000)
    noisy = replace(samples, tau=samples.tau + np.random.default_rng(0).normal(0, 0.3, samples.tau.shape))
    friction = Friction("tanh", 0.01, ("stribeck", "root"))
    estimate = PhysicallyConsistent(prior_weight=1e-3, kinds="all", dropped=("Im1", "Im2")).fit(
        equations(robot, noisy, friction=friction)
    )
    x = physical(estimate)
    assert x["Im1"] == x["Im2"] == 0.0
    ratio = robot.drives[0].ratio  # viscous and Coulomb friction act at the motor
    for u in (0.01, 0.1, 1.0):
        torque = (
            ratio**2 * x["fv1"] * u + ratio * x["fc1"] + x["f_stribeck1"] * np.exp(-u / 0.1) + x["f_root1"] * np.sqrt(u)
        )
        assert torque > -1e-6
    with raises(InputError, Code.UNKNOWN_NAME, "Izz2"):
        PhysicallyConsistent(prior_weight=1e-3, dropped=("Izz2",)).fit(equations(robot, samples))


def test_a_fit_without_offsets_is_the_best_that_a_simulator_can_have():
    robot = with_estimated_drives(mindyn.load_robot("planar2"))
    samples = smooth_samples(robot, 500)
    noisy = replace(samples, tau=samples.tau + np.random.default_rng(0).normal(0, 0.3, samples.tau.shape))
    rows = equations(robot, noisy)
    settings = PhysicallyConsistent(prior_weight=1e-9, kinds="all", weights="ordinary")
    estimate = replace(settings, dropped=("offset",)).fit(rows)
    assert estimate.values.dropped == ("fo1", "fo2")
    assert (estimate.beta == replace(settings, dropped=("fo2", "offset", "fo1")).fit(rows).beta).all()
    assert (estimate.beta == replace(settings, dropped=("fo1", "fo2")).fit(rows).beta).all()
    free = settings.fit(rows)
    bare = free.with_values(
        beta=np.where([parameter.kind == "offset" for parameter in free.parameters], 0.0, free.beta)
    )
    misses = [np.square(item.predict(noisy) - noisy.tau).sum() for item in (free, estimate, bare)]
    assert misses == sorted(misses)
    assert (misses[2] - misses[0]) > 1.5 * (misses[1] - misses[0])  # most of what cutting them off costs is won back
    with raises(InputError, Code.UNKNOWN_NAME, "wheel"):
        replace(settings, dropped=("wheel",)).fit(rows)


def test_placeholders_are_never_a_prior():
    robot = arm(10)
    box = np.array([1.0, 0, 0, 0, 0.01, 0, 0.01, 0, 0, 0.01])
    alike = replace(robot, links=tuple(Link(link.name, box) for link in robot.links))
    assert set(find_placeholders(alike)) == set(robot.link_names)
    unit = np.array([1.0, 0, 0, 0, 1.0, 0, 1.0, 0, 0, 1.0])
    mixed = replace(robot, links=(Link(robot.link_names[0], unit), Link(robot.link_names[1], 0 * unit), robot.links[2]))
    assert set(find_placeholders(mixed)) == set(robot.link_names[:2])
    assert not find_placeholders(robot)
    but_one = replace(alike, links=(*alike.links[:2], Link(robot.link_names[2])))
    assert set(find_placeholders(but_one)) == set(robot.link_names)
    estimate = PhysicallyConsistent(prior=alike).fit(equations(robot, exact_samples(robot, noise=1.0)))
    assert "not used as a prior" in estimate.status
    assert "balls of even mass" in estimate.status


def test_a_prior_of_another_arm_raises():
    with raises(InputError, Code.DISAGREEMENT, "random11"):
        PhysicallyConsistent(prior=arm(11)).fit(equations(arm(12), exact_samples(arm(12))))


def test_shapes_of_drives_that_a_loop_keeps_in_step_are_constrained_by_name():
    robot = mindyn.load_robot("parallelogram_planar")
    drives = tuple(Drive(name, 1.0, viscous=0.5, coulomb=0.4) for name in robot.joint_names)
    friction = Friction("tanh", 0.05, ("square",), joint_side=(robot.primary_names[-1],))
    space = space_of(Regressor(replace(robot, drives=drives), friction))
    shaped = [label for label in space.labels if label.startswith("f_")]
    assert 0 < len(shaped) < len(drives)
    number = robot.joint_index(robot.primary_names[-1]) + 1
    named = {space.labels[k] for k in space.nonnegative}
    assert {f"fvj{number}", f"fcj{number}"} <= named
    assert not named & set(shaped)
    for row in space.braking_rows:
        touched = {space.labels[k] for k in np.flatnonzero(row)}
        (shape,) = touched & set(shaped)
        joint = shape.removeprefix("f_square")
        assert {shape} < touched <= {f"fv{joint}", f"fc{joint}", shape}
    assert {space.labels[k] for row in space.braking_rows for k in np.flatnonzero(row)} >= set(shaped)
