"""Candidates of robots with loops, simulated under a controller: the motion is the simulator's, and fits recover."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closed_loops import CONTROL_HZ, simulate_tracking, tracking
from closeness import assert_close
from equations import equations

import mindyn
from mindyn.identification.estimators.closed_loop_instruments import ClosedLoopInstruments
from mindyn.motions.simulation.closed_loop import ClosedLoop
from mindyn.motions.simulation.controllers import SineMotion
from mindyn.regression.regressor import Regressor
from mindyn.robots.parts import Drive

REPLAYED = 1e-8
"""By base values of a numerical set, over 500 steps under feedback."""
LOOP = {"control_rate_hz": CONTROL_HZ, "initial": "reference"}
SWING = SineMotion([0.4], [[1.5], [0.8]], [[0.5], [1.3]], [[0.0], [1.0]])


def press() -> mindyn.Robot:
    """A slider-crank with friction at the crank and at the ram, which is a passive joint of the loop."""
    robot = mindyn.load_robot("slider_crank")
    crank, *_ = robot.primary_names
    driven = Drive(crank, 10.0, viscous=0.02, coulomb=0.05, rotor_inertia=2e-3)
    return replace(robot, drives=(driven, Drive("ram", viscous=3.0, coulomb=8.0)))


def palletiser() -> mindyn.Robot:
    """A parallelogram, whose closure is affine, with friction that a dependent joint shares with a primary one."""
    robot = mindyn.load_robot("palletiser")
    drives = [Drive(name, viscous=2.0, coulomb=1.0, rotor_inertia=0.05) for name in robot.primary_names]
    return replace(robot, drives=(*drives, Drive("joint3", coulomb=0.5)))


def reference(robot):
    n = robot.joint_count
    return (
        SWING if n == 1 else SineMotion(np.full(n, 0.2), np.full(n, 0.3), np.linspace(0.5, 1.2, n), np.arange(float(n)))
    )


@pytest.mark.parametrize("robot", [press(), palletiser()], ids=lambda robot: robot.name)
def test_the_loop_is_that_of_simulate(robot):
    controller = tracking(robot, reference(robot))
    motion = simulate_tracking(robot, controller, method="fixed", seconds=1.0)
    base = Regressor(robot).base
    loop = ClosedLoop(robot, base, controller, rate_hz=100.0, rows=len(motion.t), control_rate_hz=CONTROL_HZ)
    process = loop.run(base.values[None], motion.q[0], motion.qd[0])
    for name in ("q", "qd", "qdd", "tau"):
        assert_close(getattr(process, name)[0], getattr(motion, name), REPLAYED)
    rough = loop.run(1.1 * base.values[None], motion.q[0], motion.qd[0])
    assert np.abs(rough.tau - process.tau).max() > 0.01 * np.abs(process.tau).max()


@pytest.fixture(scope="module")
def recorded():
    """The controller of the press, and the rows of its motion."""
    robot = press()
    controller = tracking(robot, SWING)
    return controller, equations(robot, simulate_tracking(robot, controller, method="fixed").samples())


def test_instruments_of_the_simulated_motion_bear_noise_that_least_squares_does_not(recorded):
    """Positions as encoders read them, differentiated: least squares shrinks what multiplies accelerations."""
    controller, rows = recorded
    robot, clean = rows.robot, rows.all_samples("a test")
    log = mindyn.log_from_arrays(clean.joint_names, np.arange(len(clean)) / 100.0, noisy(clean.q), clean.tau)
    raw = mindyn.Conditioning(motion_hz=None, edge_s=0.0, stamps="uniform")
    read = equations(robot, mindyn.condition(robot, log, raw).samples)
    plain, result = mindyn.LeastSquares().fit(read), ClosedLoopInstruments(controller, **LOOP).fit(read)
    assert result.provenance.notes["settled"]
    wrong = [np.median(np.abs(item.predict(clean) - clean.tau)) for item in (plain, result)]
    assert wrong[1] < 0.5 * wrong[0]


def noisy(q):
    return q + 1e-3 * np.random.default_rng(1).standard_normal(q.shape)
