"""First candidates of simulated loops, and replayed samples: against simulations and hand formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closed_loops import CONTROL_HZ, simulate_tracking, tracking
from closeness import SAME_ALGEBRA, assert_close
from equations import equations
from recovered import exact_samples

from mindyn.equations.loop_closure import home_closure
from mindyn.identification.estimators.closed_loop_instruments import ClosedLoopInstruments, LoopReplay, regular_values
from mindyn.identification.estimators.instrument_steps import inertia_matrices
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.motions.simulation.controllers import SineMotion
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Drive, Joint, Link
from mindyn.robots.robot import Robot

LOOP = {"control_rate_hz": CONTROL_HZ, "initial": "reference"}


def one_joint(kind: str, *drives: Drive) -> Robot:
    body = np.array([2.0, 0.1, 0.05, -0.02, 0.3, 0.01, 0.02, 0.4, 0.03, 0.5])
    return Robot("one", Link("base"), (Joint("j", kind, "base", "l"),), (Link("l", body),), drives=drives)


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
@pytest.mark.parametrize("ratio", [None, 1.0, 30.0])
def test_regular_values_of_one_joint_have_its_own_inertia(kind, ratio):
    drives = () if ratio is None else (Drive("j", ratio, viscous=0.1, coulomb=0.2, rotor_inertia=0.05),)
    robot = one_joint(kind, *drives)
    samples = exact_samples(robot, count=40)
    plain = LeastSquares().fit(equations(robot, samples))
    result = regular_values(plain, samples)
    separate, regular = (inertia_matrices(plain.regressor, beta, samples) for beta in (plain.beta, result))
    expected = (2.0 if kind == "prismatic" else 0.5) + (0.05 * ratio**2 if ratio else 0.0)
    assert_close(separate, np.full((40, 1, 1), expected), 1e-9)
    assert_close(regular, separate, 1e-9)
    friction = [k for k, name in enumerate(plain.names) if "viscous" in name or "coulomb" in name]
    assert not np.any(result[friction])


def test_replayed_samples_of_a_linkage_have_the_positions_of_its_loops():
    robot = load_robot("slider_crank")
    robot = replace(
        robot, drives=(Drive(robot.primary_names[0], 10.0, viscous=0.02, coulomb=0.05, rotor_inertia=2e-3),)
    )
    controller = tracking(robot, SineMotion([0.4], [[1.0]], [[0.5]], [[0.0]]))
    recorded = simulate_tracking(robot, controller, method="fixed", seconds=0.3).samples()
    rows = equations(robot, recorded)
    replay = LoopReplay(ClosedLoopInstruments(controller, **LOOP), rows.regressor, recorded)
    motions = replay.run(np.stack([rows.regressor.base.values, 1.5 * rows.regressor.base.values]))
    closure = home_closure(robot)
    for number in range(2):
        result = replay.samples(motions, number)
        assert_close(result.q, motions.q[number], SAME_ALGEBRA)
        assert_close(result.tau, motions.tau[number], SAME_ALGEBRA)
        solved, reached = closure.find_reachable(result.q)
        assert reached.all()
        assert_close(result.dependent_q, solved[:, list(closure.dependent)], 1e-8)
    assert_close(replay.samples(motions).q, motions.q[0], SAME_ALGEBRA)
