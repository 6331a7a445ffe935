"""`simulate_tests`: simulate the logs of a plan for a robot with known parameters."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np

from mindyn.foundation.algebra.requirements import require_positive
from mindyn.foundation.algebra.values import Array, RandomSource, seed_from
from mindyn.kernels.model import Model, compile_model
from mindyn.logs.log import Log, log_from_arrays
from mindyn.motions.simulation.results import Simulation
from mindyn.motions.simulation.sensors import Sensors, measure
from mindyn.motions.step_plans.plan import StepPlan
from mindyn.motions.step_plans.step_motions import BREAKAWAY_S, Breakaways, StepMotion, Trajectory
from mindyn.robots.robot import Robot

BARELY: Final = 1e-9
"""Speed of a joint at breakaway, relative to its full speed; only the direction of friction has an effect."""


def simulate_tests(
    robot: Robot, plan: StepPlan, *, rate_hz: float = 200.0, sensors: Sensors | None = None, rng: RandomSource = 0
) -> dict[str, Log]:
    """Simulate a log for every motion of a plan: the robot follows the plan exactly, with torques from its model.

    Motions and their rounding to encoder counts are the same in every repetition. Give the sensors a `position_noise`
    of a fraction of a count if errors of encoders should differ. A breakaway is logged with the direction of its motion
    as velocity, and the torque at which static friction, taken as equal to Coulomb friction, gives way.

    Parameters
    ----------
    robot : Robot
        Robot with known parameters.
    plan : StepPlan
        Plan of the tests.
    rate_hz : float, default 200.0
        Sample rate of the logs of moving joints.
    sensors : Sensors, optional
        Sensors at the joints, without velocities; their own rate and seed do not count. By default exact values with
        velocities are logged.
    rng : int, numpy.random.Generator or None, default 0
        Seed or generator of the sensor noise, which also depends on the number of the motion; None draws other noise in
        every call.

    Returns
    -------
    dict of str to Log
        Logs by the name of the motion.

    Raises
    ------
    InputError
        If `rate_hz` is not positive.
    MissingPhysicsError
        If the robot lacks a parameter.
    """
    seed = seed_from(rng)
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
    """Return the compiled model; cached for repeated simulations."""
    return compile_model(robot, with_drives=bool(robot.drives))


def _measure_torque(model: Model, motion: StepMotion, path: Trajectory, tau: Array, sensors: Sensors) -> Log:
    """Return the readings of the sensors; breakaways are read by a person, without delays."""
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
