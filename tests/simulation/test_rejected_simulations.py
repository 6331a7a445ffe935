"""Simulations that are not possible raise errors that name their subject."""

from __future__ import annotations

from dataclasses import replace

import casadi
import numpy as np
import pytest
from raising import raises
from robots import random_robot
from simulation.plants import arm, block, constant, nothing

import mindyn
from mindyn.foundation.errors import Code, InputError, MissingPhysicsError, RobotError, UnknownNameError
from mindyn.motions.simulation.controllers import ComputedTorque, ProportionalDerivative, SineMotion
from mindyn.motions.simulation.results import SimulationError
from mindyn.motions.simulation.rollouts import roll_out
from mindyn.motions.simulation.sensors import Sensors, measure
from mindyn.motions.simulation.simulate import simulate
from mindyn.robots.parts import Drive

ROBOT = random_robot(0, joints=2)
GOOD = {"seconds": 0.1, "q0": [0.0, 0.0]}


def test_torques_shorter_than_the_rollout():
    with raises(InputError, code=Code.WRONG_SHAPE, subject="tau"):
        roll_out(ROBOT, np.zeros(2), np.zeros(2), np.zeros((50, 2)), dt=1e-3, steps=100)


@pytest.mark.parametrize(
    ("change", "code", "subject"),
    [
        ({"seconds": -1}, Code.OUT_OF_RANGE, "seconds"),
        ({"seconds": float("nan")}, Code.OUT_OF_RANGE, "seconds"),
        ({"rate_hz": 0}, Code.OUT_OF_RANGE, "rate_hz"),
        ({"control_rate_hz": -5.0}, Code.OUT_OF_RANGE, "control_rate_hz"),
        ({"longest_step_s": 0.0}, Code.OUT_OF_RANGE, "longest_step_s"),
        ({"q0": [0.0]}, Code.WRONG_SHAPE, "q0"),
        ({"qd0": [0.0, np.inf]}, Code.NOT_FINITE, "qd0"),
        ({"method": "euler"}, Code.UNKNOWN_NAME, "euler"),
    ],
)
def test_broken_settings(change, code, subject):
    with raises(InputError, code=code, subject=subject):
        simulate(ROBOT, nothing, **(GOOD | change))


@pytest.mark.parametrize("method", ["adaptive", "fixed"])
def test_controllers_that_answer_nonsense(method):
    with raises(InputError, code=Code.WRONG_SHAPE, subject="torque"):
        simulate(ROBOT, constant(np.zeros(3)), method=method, **GOOD)
    broken = lambda t, _q, _qd: np.array([0.0, np.nan if t > 0.05 else 0.0])  # noqa: E731
    with raises(InputError, code=Code.NOT_FINITE, subject="joint2"):
        simulate(ROBOT, broken, method=method, **GOOD)
    with raises(InputError, code=Code.WRONG_TYPE, subject="torque"):
        simulate(ROBOT, np.zeros((5, 2)), method=method, **GOOD)


@pytest.mark.parametrize("method", ["adaptive", "fixed"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_unstable_gains_are_reported_as_such(method):
    with raises(SimulationError, code=Code.NOT_CONVERGED if method == "adaptive" else Code.NOT_FINITE):
        simulate(ROBOT, lambda _t, _q, qd: 1e5 * qd + 1, method=method, **GOOD)


def test_robots_that_cannot_be_simulated():
    with raises(InputError, code=Code.WRONG_SHAPE, subject="q0"):
        simulate(mindyn.load_robot("five_bar"), nothing, seconds=0.1, q0=np.zeros(5))
    with raises(MissingPhysicsError, Code.MISSING_VALUE, ROBOT.name):
        simulate(ROBOT, nothing, with_drives=True, **GOOD)
    first, second = ROBOT.joint_names
    drives = (Drive(first, 2.0, {second: 1.0}, coulomb=1.0, side="motor"),
              Drive(second, 1.0, {first: 2.0}, coulomb=1.0, side="motor"))  # fmt: skip
    with raises(RobotError, code=Code.INVALID_STRUCTURE, subject="random0"):
        simulate(replace(ROBOT, drives=drives), nothing, with_drives=True, **GOOD)
    with raises(RobotError, code=Code.INVALID_STRUCTURE):
        measure(replace(ROBOT, drives=drives), simulate(ROBOT, nothing, **GOOD), Sensors())


@pytest.mark.parametrize(
    ("given", "code", "subject"),
    [
        ({"dt": -1e-3}, Code.OUT_OF_RANGE, "dt"),
        ({"steps": 0}, Code.OUT_OF_RANGE, "steps"),
        ({"steps": 2.5}, Code.OUT_OF_RANGE, "steps"),
        ({"threads": 0}, Code.OUT_OF_RANGE, "threads"),
        ({"q0": np.zeros((4, 3))}, Code.WRONG_SHAPE, "q0"),
        ({"q0": np.zeros((4, 2)), "qd0": np.zeros((5, 2))}, Code.WRONG_SHAPE, "q0"),
        ({"q0": np.zeros((0, 2))}, Code.WRONG_SHAPE, "q0"),
        ({"q0": [0.0, np.nan]}, Code.NOT_FINITE, "q0"),
        ({"tau": np.full((10, 2), np.nan)}, Code.NOT_FINITE, "tau"),
        ({"tau": np.zeros(3)}, Code.WRONG_SHAPE, "tau"),
        ({"q0": ["a", "b"]}, Code.WRONG_TYPE, "q0"),
    ],
)
def test_broken_rollouts(given, code, subject):
    settings = {"q0": np.zeros(2), "qd0": np.zeros(2), "tau": np.zeros(2), "dt": 1e-3, "steps": 10} | given
    with raises(InputError, code=code, subject=subject):
        roll_out(ROBOT, **settings)


def test_rollouts_that_run_away_are_named():
    q0 = np.zeros((20, 2))
    tau = np.zeros((20, 200, 2))
    tau[7] = 1e200
    with raises(SimulationError, code=Code.NOT_FINITE, subject="q"):
        roll_out(ROBOT, q0, q0, tau, dt=1e-3, steps=200)


def test_laws_that_do_not_fit():
    q, gain = casadi.SX.sym("q", 2), casadi.SX.sym("gain", 2)
    law = casadi.Function("law", [q, gain], [gain * q], ["q", "gain"], ["tau"])
    zeros = np.zeros(2)
    with raises(InputError, code=Code.MISSING_VALUE, subject="gain"):
        roll_out(ROBOT, zeros, zeros, law, dt=1e-3, steps=5)
    with raises(UnknownNameError, code=Code.UNKNOWN_NAME, subject="gian"):
        roll_out(ROBOT, zeros, zeros, law, dt=1e-3, steps=5, signals={"gian": zeros})
    with raises(InputError, code=Code.WRONG_SHAPE, subject="law"):
        roll_out(ROBOT, zeros, zeros, casadi.Function("law", [q], [q[0]], ["q"], ["tau"]), dt=1e-3, steps=5)
    with raises(InputError, code=Code.DUPLICATE, subject="dt"):
        roll_out(ROBOT, zeros, zeros, casadi.Function("law", [q], [q], ["dt"], ["tau"]), dt=1e-3, steps=5)


@pytest.mark.parametrize(
    ("given", "code", "subject"),
    [
        ({"rate_hz": 0.0}, Code.OUT_OF_RANGE, "rate_hz of the sensors"),
        ({"counts_per_revolution": -1}, Code.OUT_OF_RANGE, "counts_per_revolution"),
        ({"position_noise": -1e-3}, Code.OUT_OF_RANGE, "position_noise"),
        ({"torque_delay_s": float("nan")}, Code.OUT_OF_RANGE, "torque_delay_s"),
        ({"torque_side": "link"}, Code.UNKNOWN_NAME, "link"),
    ],
)
def test_broken_sensors(given, code, subject):
    with raises(InputError, code=code, subject=subject):
        Sensors(**given)


def test_sensors_that_the_robot_has_no_drives_for():
    slide = replace(block(), drives=())
    motion = simulate(slide, nothing, seconds=0.1, q0=[0.0])
    with raises(MissingPhysicsError, code=Code.MISSING_VALUE, subject="slide"):
        measure(slide, motion, Sensors(torque_side="motor"))
    with raises(MissingPhysicsError, code=Code.MISSING_VALUE, subject="slide"):
        measure(slide, motion, Sensors(counts_per_revolution=100))
    robot = arm(0, joints=3)
    robot = replace(robot, drives=robot.drives[1:])
    with raises(MissingPhysicsError, code=Code.MISSING_VALUE, subject="joint1"):
        measure(robot, simulate(robot, nothing, seconds=0.1, q0=np.zeros(3)), Sensors(torque_side="motor"))


def test_references_and_gains():
    with raises(InputError, code=Code.WRONG_SHAPE, subject="amplitude"):
        SineMotion(np.zeros(2), np.zeros(3), np.zeros(2), np.zeros(2))
    still = SineMotion(np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2))
    with raises(InputError, code=Code.OUT_OF_RANGE, subject="damping"):
        ProportionalDerivative(still, 1.0, -1.0)
    with raises(InputError, code=Code.WRONG_SHAPE, subject="stiffness"):
        ComputedTorque(ROBOT, still, [1.0, 2.0, 3.0], 1.0)
    with raises(InputError, code=Code.WRONG_SHAPE, subject="reference"):
        ComputedTorque(ROBOT, SineMotion(np.zeros(3), np.zeros(3), np.zeros(3), np.zeros(3)), 1.0, 1.0)
