"""What cannot be simulated is refused by name."""

from __future__ import annotations

from dataclasses import replace

import casadi
import numpy as np
import pytest
from raising import raises
from robots import random_robot
from simulation.plants import arm, block, constant, nothing

import mindyn
from mindyn.errors import Code, InputError, MissingPhysicsError, RobotError, UnknownNameError
from mindyn.robots.parts import Drive
from mindyn.simulation.controllers import ComputedTorque, ProportionalDerivative, SineMotion
from mindyn.simulation.results import SimulationError, TorqueLog
from mindyn.simulation.rollouts import rollout
from mindyn.simulation.sensors import Sensors, measure
from mindyn.simulation.simulate import simulate

ROBOT = random_robot(0, joints=2)
GOOD = {"seconds": 0.1, "q0": [0.0, 0.0]}


def test_a_torque_log_shorter_than_the_motion():
    log = TorqueLog(np.arange(50) / 1000, np.zeros((50, 2)))
    with pytest.raises(InputError, match=r"the torque log lasts 0.05 s, but the motion is to last 0.1 s"):
        simulate(ROBOT, log, **GOOD)
    with pytest.raises(InputError, match=r"tau has 50 steps, but the rollouts take 100"):
        rollout(ROBOT, np.zeros(2), np.zeros(2), np.zeros((50, 2)), dt=1e-3, steps=100)


@pytest.mark.parametrize(
    ("t", "tau", "says"),
    [
        ([0, 1, 1], np.zeros((3, 2)), "does not increase: 1 s, then 1 s"),
        ([0, 1], np.zeros((3, 2)), "N >= 2"),
        ([0, 1], [[0, 0], [0, np.nan]], r"tau of the torque log: element \[1, 1\] is nan"),
        ([0, "x"], np.zeros((2, 2)), "must be numbers"),
    ],
)
def test_broken_torque_logs(t, tau, says):
    with pytest.raises(InputError, match=says):
        TorqueLog(t, tau)


def test_a_log_of_another_robot():
    with pytest.raises(InputError, match="3 columns, but the robot has 2 joints"):
        simulate(ROBOT, TorqueLog([0.0, 1.0], np.zeros((2, 3))), **GOOD)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seconds": -1}, "seconds must be a finite number above 0, got -1"),
        ({"seconds": float("nan")}, "seconds must be"),
        ({"rate_hz": 0}, "rate_hz must be"),
        ({"control_rate_hz": -5.0}, "control_rate_hz must be"),
        ({"longest_step_s": 0.0}, "longest_step_s must be"),
        ({"q0": [0.0]}, r"q0 must have shape \(2,\)"),
        ({"qd0": [0.0, np.inf]}, "qd0"),
        ({"method": "euler"}, "method must be one of adaptive, fixed; got 'euler'"),
    ],
)
def test_broken_settings(change, says):
    with pytest.raises(InputError, match=says):
        simulate(ROBOT, nothing, **(GOOD | change))


@pytest.mark.parametrize("method", ["adaptive", "fixed"])
def test_controllers_that_answer_nonsense(method):
    with pytest.raises(InputError, match=r"torques of shape \(3,\) at 0 s, but \(2,\) is needed"):
        simulate(ROBOT, constant(np.zeros(3)), method=method, **GOOD)
    broken = lambda t, _q, _qd: np.array([0.0, np.nan if t > 0.05 else 0.0])  # noqa: E731
    with pytest.raises(InputError, match=r"gave nan for joint 'joint2' at 0.051 s"):
        simulate(ROBOT, broken, method=method, **GOOD)
    with pytest.raises(InputError, match="must be a controller"):
        simulate(ROBOT, np.zeros((5, 2)), method=method, **GOOD)


@pytest.mark.parametrize("method", ["adaptive", "fixed"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_unstable_gains_are_reported_as_such(method):
    with pytest.raises(SimulationError, match="the motion"):
        simulate(ROBOT, lambda _t, _q, qd: 1e5 * qd + 1, method=method, **GOOD)


def test_robots_that_cannot_be_simulated():
    with pytest.raises(InputError, match=r"q0 must have shape \(3,\)"):
        simulate(mindyn.load_robot("five_bar"), nothing, seconds=0.1, q0=np.zeros(5))
    with raises(MissingPhysicsError, Code.MISSING_VALUE, ROBOT.name):
        simulate(ROBOT, nothing, drives=True, **GOOD)
    first, second = ROBOT.joint_names
    drives = (Drive(first, 2.0, {second: 1.0}, coulomb=1.0, side="motor"),
              Drive(second, 1.0, {first: 2.0}, coulomb=1.0, side="motor"))  # fmt: skip
    with pytest.raises(RobotError, match="gear matrix is singular"):
        simulate(replace(ROBOT, drives=drives), nothing, drives=True, **GOOD)
    with pytest.raises(RobotError, match="gear matrix of robot .* is singular"):
        measure(replace(ROBOT, drives=drives), simulate(ROBOT, nothing, **GOOD), Sensors())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"dt": -1e-3}, "dt must be a finite number above 0"),
        ({"steps": 0}, "steps must be a whole number of at least 1"),
        ({"steps": 2.5}, "steps must be a whole number"),
        ({"threads": 0}, "threads must be"),
        ({"q0": np.zeros((4, 3))}, r"q0 has shape \(4, 3\), but \(B, 2\) or \(2,\) is needed"),
        ({"q0": np.zeros((4, 2)), "qd0": np.zeros((5, 2))}, "the numbers of rollouts differ: q0 4, qd0 5"),
        ({"q0": np.zeros((0, 2))}, "numbers of rollouts differ"),
        ({"q0": [0.0, np.nan]}, r"q0: element \[1\] is not finite"),
        ({"tau": np.full((10, 2), np.nan)}, r"tau: element \[0, 0, 0\] is not finite"),
        ({"tau": np.zeros(3)}, "tau has shape"),
        ({"q0": ["a", "b"]}, "q0 must contain real numbers"),
    ],
)
def test_broken_rollouts(given, says):
    settings = {"q0": np.zeros(2), "qd0": np.zeros(2), "tau": np.zeros(2), "dt": 1e-3, "steps": 10} | given
    with pytest.raises(InputError, match=says):
        rollout(ROBOT, **settings)


def test_rollouts_that_run_away_are_named():
    q0 = np.zeros((20, 2))
    tau = np.zeros((20, 200, 2))
    tau[7] = 1e200
    with pytest.raises(SimulationError, match=r"1 of 20 rollouts are not finite any more, rollout 7 since step"):
        rollout(ROBOT, q0, q0, tau, dt=1e-3, steps=200)


def test_laws_that_do_not_fit():
    q, gain = casadi.SX.sym("q", 2), casadi.SX.sym("gain", 2)
    law = casadi.Function("law", [q, gain], [gain * q], ["q", "gain"], ["tau"])
    zeros = np.zeros(2)
    with pytest.raises(InputError, match="the law reads gain, which signals does not give"):
        rollout(ROBOT, zeros, zeros, law, dt=1e-3, steps=5)
    with pytest.raises(UnknownNameError, match="no signal 'gian'"):
        rollout(ROBOT, zeros, zeros, law, dt=1e-3, steps=5, signals={"gian": zeros})
    with pytest.raises(InputError, match=r"one output \(2, 1\)"):
        rollout(ROBOT, zeros, zeros, casadi.Function("law", [q], [q[0]], ["q"], ["tau"]), dt=1e-3, steps=5)
    with pytest.raises(InputError, match="has a name that steps use themselves"):
        rollout(ROBOT, zeros, zeros, casadi.Function("law", [q], [q], ["dt"], ["tau"]), dt=1e-3, steps=5)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rate_hz": 0.0}, "rate_hz of the sensors"),
        ({"counts_per_revolution": -1}, "counts_per_revolution must be"),
        ({"position_noise": -1e-3}, "position_noise must be finite and not negative"),
        ({"torque_delay_s": float("nan")}, "torque_delay_s must be"),
        ({"torque_side": "link"}, "torque_side must be one of motor, joint; got 'link'"),
    ],
)
def test_broken_sensors(given, says):
    with pytest.raises(InputError, match=says):
        Sensors(**given)


def test_sensors_that_the_robot_has_no_drives_for():
    slide = replace(block(), drives=())
    motion = simulate(slide, nothing, seconds=0.1, q0=[0.0])
    with pytest.raises(MissingPhysicsError, match="readings at the motors are asked for"):
        measure(slide, motion, Sensors(torque_side="motor"))
    with pytest.raises(MissingPhysicsError, match="'slide' is prismatic"):
        measure(slide, motion, Sensors(counts_per_revolution=100))
    robot = arm(0, joints=3)
    robot = replace(robot, drives=robot.drives[1:])
    with pytest.raises(MissingPhysicsError, match="states no drive of: joint1"):
        measure(robot, simulate(robot, nothing, seconds=0.1, q0=np.zeros(3)), Sensors(torque_side="motor"))


def test_references_and_gains():
    with pytest.raises(InputError, match=r"amplitude has shape \(1, 3\), but \(K, 2\) is needed"):
        SineMotion(np.zeros(2), np.zeros(3), np.zeros(2), np.zeros(2))
    still = SineMotion(np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2))
    with pytest.raises(InputError, match="damping must not be negative"):
        ProportionalDerivative(still, 1.0, -1.0)
    with pytest.raises(InputError, match="stiffness"):
        ComputedTorque(ROBOT, still, [1.0, 2.0, 3.0], 1.0)
    with pytest.raises(InputError, match="the reference is of 3 joints, but robot .* has 2"):
        ComputedTorque(ROBOT, SineMotion(np.zeros(3), np.zeros(3), np.zeros(3), np.zeros(3)), 1.0, 1.0)
