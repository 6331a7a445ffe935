"""What an output-error fit says of itself, and where it begins: against simulations and hand formulas.

One private name is tested directly: inputs at its limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from closed_loops import CONTROL_HZ, driven_arm, encoder_samples, sines, tracked, tracking
from closeness import SAME_ALGEBRA, assert_close
from equations import equations
from recovered import exact_samples

from mindyn.equations.loop_closure import home_closure
from mindyn.estimators import output_error
from mindyn.estimators.least_squares import LeastSquares
from mindyn.estimators.output_error import OutputError, _size
from mindyn.estimators.simulated_states import LoopReplay, LoopSettings, inertia_matrices, regular_values
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Drive, Joint, Link
from mindyn.robots.robot import Robot
from mindyn.simulation.controllers import SineMotion

LOOP = {"control_rate_hz": CONTROL_HZ, "initial": "reference"}


def one_joint(kind: str, *drives: Drive) -> Robot:
    body = np.array([2.0, 0.1, 0.05, -0.02, 0.3, 0.01, 0.02, 0.4, 0.03, 0.5])
    return Robot("one", Link("base"), (Joint("j", kind, "base", "l"),), (Link("l", body),), drives=drives)


@pytest.mark.parametrize("compare", ["torque", "position"])
def test_residuals_and_percentages_are_those_of_the_replayed_loop(compare):
    robot = driven_arm(0)
    controller = tracking(robot, sines(robot))
    motion = tracked(robot, controller, method="fixed", seconds=1.0)
    samples = encoder_samples(robot, motion, torque_noise=2.0, position_noise=1e-3)
    usable = np.random.default_rng(0).random(samples.q.shape) < 0.8
    samples = replace(samples, usable=usable)
    rows = equations(robot, samples)
    truth = LeastSquares().fit(rows)
    truth = replace(truth, beta=truth.base.values)
    found = OutputError(controller, compare, start=truth, **LOOP).fit(rows)
    replay = LoopReplay(LoopSettings(controller, **LOOP), rows.regressor, samples)
    again = replay.run(found.beta[None])
    measured = samples.tau if compare == "torque" else samples.q
    left = measured - (again.tau if compare == "torque" else again.q)[0]
    rms = lambda values: np.sqrt(np.mean(values**2))  # noqa: E731
    for i, one in enumerate(found.residuals):
        assert_close(one.rms, rms(left[usable[:, i], i]), SAME_ALGEBRA)
        assert_close(one.rms_torque, rms(measured[usable[:, i], i]), SAME_ALGEBRA)
    percent = float(re.search(r"misses ([\d.e+-]+) % of the " + compare, found.status)[1])
    assert percent == float(f"{100 * rms(left[usable]) / rms(measured[usable]):.3g}")
    assert found.provenance["indefinite_iterates"] == 0
    assert "indefinite" not in found.status
    assert found.provenance["least_pivot"] == again.pivots[0] > 0
    assert found.provenance["settled"]
    assert "NOT settled" not in found.status


def test_candidates_on_the_way_that_are_indefinite_are_counted_and_that_of_the_end_is_said(monkeypatch):
    robot = driven_arm(0)
    controller = tracking(robot, sines(robot))
    samples = tracked(robot, controller, method="fixed", seconds=0.5).samples()
    rows = equations(robot, samples)
    fit = LeastSquares().fit(rows)
    search = OutputError(controller, start=replace(fit, beta=fit.base.values), iterations=1, **LOOP)

    class Indefinite(LoopReplay):
        """Every candidate that is tried beside others has a pivot below zero."""

        def run(self, betas):
            motions = super().run(betas)
            several = len(betas) > 1
            stable = np.where(several & (np.arange(len(betas)) > 4), False, motions.stable)
            return replace(motions, pivots=np.full_like(motions.pivots, -1.0 if several else 1.0), stable=stable)

    monkeypatch.setattr(output_error, "LoopReplay", Indefinite)
    found = search.fit(equations(robot, replace(samples, tau=1.1 * samples.tau)))
    assert found.provenance["indefinite_iterates"] == 1
    assert found.provenance["unstable_candidates"] == 3
    assert "3 candidates were unstable and were rejected" in found.status
    assert "the inertia matrix of the estimate is indefinite on the simulated motion" in found.status


def test_steps_are_measured_in_deviations_and_what_is_unidentifiable_does_not_count():
    covariance = np.diag([4.0, 0.25, np.inf])
    assert _size(np.array([1.0, 0.1, 50.0]), covariance, np.zeros(3)) == pytest.approx(0.5)
    assert _size(np.array([0.1, -2.0, 50.0]), covariance, np.zeros(3)) == pytest.approx(4.0)
    assert _size(np.ones(3), np.diag(np.full(3, np.inf)), np.ones(3)) == float("inf")
    exact = _size(np.array([1e-9, 0.0]), np.zeros((2, 2)), np.array([0.0, -1.0]))
    assert exact == pytest.approx(0.01)  # rounding: a part of 1e-9 of the largest parameter ends the iterations


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
@pytest.mark.parametrize("ratio", [None, 1.0, 30.0])
def test_regular_values_of_one_joint_have_its_own_inertia(kind, ratio):
    drives = () if ratio is None else (Drive("j", ratio, viscous=0.1, coulomb=0.2, rotor_inertia=0.05),)
    robot = one_joint(kind, *drives)
    samples = exact_samples(robot, count=40)
    plain = LeastSquares().fit(equations(robot, samples))
    found = regular_values(plain, samples)
    own, regular = (inertia_matrices(plain.regressor, beta, samples) for beta in (plain.beta, found))
    expected = (2.0 if kind == "prismatic" else 0.5) + (0.05 * ratio**2 if ratio else 0.0)
    assert_close(own, np.full((40, 1, 1), expected), 1e-9)
    assert_close(regular, own, 1e-9)
    friction = [k for k, name in enumerate(plain.names) if "viscous" in name or "coulomb" in name]
    assert not np.any(found[friction])


def test_replayed_samples_of_a_linkage_have_the_positions_of_its_loops():
    robot = load_robot("slider_crank")
    robot = replace(
        robot, drives=(Drive(robot.primary_names[0], 10.0, viscous=0.02, coulomb=0.05, rotor_inertia=2e-3),)
    )
    controller = tracking(robot, SineMotion([0.4], [[1.0]], [[0.5]], [[0.0]]))
    recorded = tracked(robot, controller, method="fixed", seconds=0.3).samples()
    rows = equations(robot, recorded)
    replay = LoopReplay(LoopSettings(controller, **LOOP), rows.regressor, recorded)
    motions = replay.run(np.stack([rows.regressor.base.values, 1.5 * rows.regressor.base.values]))
    closure = home_closure(robot)
    for number in range(2):
        found = replay.samples(motions, number)
        assert_close(found.q, motions.q[number], SAME_ALGEBRA)
        assert_close(found.tau, motions.tau[number], SAME_ALGEBRA)
        solved, reached = closure.find_reachable(found.q)
        assert reached.all()
        assert_close(found.dependent_q, solved[:, list(closure.dependent)], 1e-8)
    assert_close(replay.samples(motions).q, motions.q[0], SAME_ALGEBRA)
