"""`simulate_tests`: the logs that a robot with known parameters gives in the motions of a plan."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.kernels.model import Model, compile_model
from mindyn.logs.log import Log, log_from_arrays
from mindyn.robots.robot import Robot
from mindyn.simulation.inputs import require_positive
from mindyn.simulation.results import Simulation
from mindyn.simulation.sensors import Sensors, measure
from mindyn.step_tests.motions import BREAKAWAY_S, Breakaways, StepMotion, Trajectory
from mindyn.step_tests.plan import StepPlan

BARELY: Final = 1e-9
"""Part of its stated speed at which a joint breaks away: friction has its direction, and nothing else of speed acts."""


def simulate_tests(
    robot: Robot, plan: StepPlan, *, rate_hz: float = 200.0, sensors: Sensors | None = None, seed: int = 0
) -> dict[str, Log]:
    """A log for every motion of the plan, by name: planned motions exactly followed, torques of the robot's model.

    rate_hz  of the logs of moving joints
    sensors  what they read is logged, at the joints and without velocities; exact values with velocities if left out
    seed     of the sensors' noise, together with the number of the motion; the sensors' own rate and seed do not count

    Motions are the same at every repetition, and so is what rounding to encoder counts does to them: give the sensors a
    position_noise of part of a count where errors of encoders should differ.

    A breakaway is logged with the direction of its motion as velocity, and the torque at which static friction, taken
    to be as large as Coulomb friction, gives way.
    """
    require_positive(rate_hz, "rate_hz")
    model = _model(robot)
    logs = {}
    for number, (name, motion) in enumerate(plan.motions.items()):
        path = motion.trajectory(rate_hz)
        qd = BARELY * path.qd if isinstance(motion, Breakaways) else path.qd
        tau = model.inverse_dynamics(path.q, qd, path.qdd)
        if sensors is None:
            logs[name] = log_from_arrays(robot.primary_names, path.t, path.q, tau, path.qd)
        else:
            drawn = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
            logs[name] = _measure_torque(model, motion, path, tau, replace(sensors, rate_hz=rate_hz, seed=drawn))
    return logs


@lru_cache(maxsize=4)
def _model(robot: Robot) -> Model:
    """Traced once for repeated simulations."""
    return compile_model(robot, drives=bool(robot.drives))


def _measure_torque(model: Model, motion: StepMotion, path: Trajectory, tau: Array, sensors: Sensors) -> Log:
    """What sensors read; breakaways are read off by a person, without delays."""
    robot, instants = model.robot, isinstance(motion, Breakaways)
    if instants:
        sensors = replace(sensors, rate_hz=1 / BREAKAWAY_S, position_delay_s=0.0, torque_delay_s=0.0)
    sensors = replace(sensors, position_side="joint", torque_side="joint")
    none = np.zeros((len(path.t), 0), dtype=np.bool_)
    whole = Simulation(
        robot.primary_names, sensors.rate_hz, path.t, path.q, path.qd, path.qdd, tau, np.zeros_like(tau), none, 0
    )
    read = measure(robot, whole, sensors)
    velocity = path.qd if instants else None
    return log_from_arrays(robot.primary_names, read.t, read.position, read.torque, velocity)
