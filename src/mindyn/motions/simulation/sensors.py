"""Simulate encoders and current (or torque) sensors.

A signal is delayed and sampled; noise is added, and the result is rounded to the resolution of the sensor. Then the
signal is converted to the side (motor or joint) at which it is reported, as a drive does: an encoder counts the turns
of the motor, and joint positions are G^-1 times motor positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import get_args

import numpy as np

from mindyn.equations.loop_closure import primary_gears
from mindyn.foundation.algebra.requirements import make_read_only, require_number, require_positive
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, MissingPhysicsError, require_choice
from mindyn.motions.simulation.results import Measurement, Simulation
from mindyn.robots.drive_matrices import require_invertible_gears
from mindyn.robots.parts import Side
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True)
class Sensors:
    """Sensors of a robot, equal on every axis.

    The sensors are at the motors if every axis has a drive, and otherwise at the joints.

    Parameters
    ----------
    rate_hz : float
        Rate of the readings, in Hz.
    counts_per_revolution : float or None
        Counts per revolution of the motor (4 times the encoder lines); None disables rounding.
    position_noise : float
        Standard deviation of the position before rounding, in rad.
    torque_noise : float
        Standard deviation of the torque (current times torque constant), in N m.
    torque_resolution : float or None
        Step of the torque (current) measurement, in N m; None disables rounding.
    position_delay_s : float
        Delay of the position, in s: a reading at t shows the position at t - delay, or the first position.
    torque_delay_s : float
        Delay of the torque, in s.
    position_side : {"joint", "motor"}
        Side at which positions are reported.
    torque_side : {"joint", "motor"}
        Side at which torques are reported.
    seed : int
        Seed of the noise.
    noise_side : {"joint", "motor"} or None
        Side to which both noises refer; None is the side of the sensors. With a gear ratio of 100, noise of 0.3 N m at
        the motor is 30 N m at the joint.

    Raises
    ------
    InputError
        If a value is negative, not finite, or not one of the choices.
    """

    rate_hz: float = 1000.0
    counts_per_revolution: float | None = None
    position_noise: float = 0.0
    torque_noise: float = 0.0
    torque_resolution: float | None = None
    position_delay_s: float = 0.0
    torque_delay_s: float = 0.0
    position_side: Side = "joint"
    torque_side: Side = "joint"
    seed: int = 0
    noise_side: Side | None = None

    def __post_init__(self) -> None:
        require_positive(self.rate_hz, "rate_hz of the sensors", "such as 1000.0")
        for name in ("counts_per_revolution", "torque_resolution"):
            if getattr(self, name) is not None:
                require_positive(getattr(self, name), name, "omit it for readings that are not rounded")
        for name in ("position_noise", "torque_noise", "position_delay_s", "torque_delay_s"):
            require_number(getattr(self, name), name, "[0, inf)", "0 is a perfect sensor")
        for name in ("position_side", "torque_side", "noise_side"):
            if name != "noise_side" or self.noise_side is not None:
                require_choice(getattr(self, name), get_args(Side), name)
        if not isinstance(self.seed, (int, np.integer)) or self.seed < 0:
            message = f"seed = {self.seed!r} must be a whole number, zero or more"
            raise InputError(message, hint="omit it for 0", code=Code.OUT_OF_RANGE, subject="seed")


def measure(robot: Robot, motion: Simulation, sensors: Sensors) -> Measurement:
    """Simulate the readings of sensors during a motion.

    Parameters
    ----------
    robot : Robot
        Robot of the motion.
    motion : Simulation
        Motion at the joints.
    sensors : Sensors
        Rate, noise, resolution, delay and side of the sensors.

    Returns
    -------
    Measurement
        Positions and torques at the times of the sensors.

    Raises
    ------
    MissingPhysicsError
        If the motor side is requested but the robot has no drives.
    """
    G = _sensor_gears(robot, sensors)
    rng = np.random.default_rng(sensors.seed)
    times = np.arange(int(motion.t[-1] * sensors.rate_hz + 1e-6) + 1) / sensors.rate_hz
    position = _interpolate_positions(motion, times - sensors.position_delay_s) @ G.T
    inverse: Array = np.asarray(np.linalg.inv(G), dtype=np.float64)
    at_joint = sensors.noise_side == "joint"
    position = _add_noise_and_round(
        position, sensors.position_noise, _encoder_resolution(robot, sensors), rng, G if at_joint else None
    )
    torque = _sample_torques(motion, times - sensors.torque_delay_s) @ inverse
    torque = _add_noise_and_round(
        torque, sensors.torque_noise, sensors.torque_resolution, rng, inverse.T if at_joint else None
    )
    if sensors.position_side == "joint":
        position = position @ inverse.T
    if sensors.torque_side == "joint":
        torque = torque @ G
    return Measurement(
        robot.primary_names,
        sensors.rate_hz,
        make_read_only(times),
        make_read_only(np.ascontiguousarray(position)),
        make_read_only(np.ascontiguousarray(torque)),
        sensors.position_side,
        sensors.torque_side,
    )


def _sensor_gears(robot: Robot, sensors: Sensors) -> Array:
    """Return the gear matrix G (n, n), or the identity if an axis of the robot has no drive."""
    driven = {drive.joint for drive in robot.drives}
    missing = [name for name in robot.primary_names if name not in driven]
    if not missing:
        return require_invertible_gears(robot, primary_gears(robot))
    undriven = f"robot {robot.name!r} has no drive for: {', '.join(missing)}"
    if "motor" in (sensors.position_side, sensors.torque_side):
        raise MissingPhysicsError(
            f"{undriven}, but the sensors report at the motor side",
            hint="add [[drive]] tables to the robot file, or select the joint side",
            subject=missing[0],
        )
    if robot.drives and sensors.counts_per_revolution is not None:
        raise MissingPhysicsError(
            f"{undriven}, so counts_per_revolution of the motors does not give their resolution",
            hint="add [[drive]] tables to the robot file, or omit counts_per_revolution",
            subject=missing[0],
        )
    return np.eye(robot.joint_count)


def _encoder_resolution(robot: Robot, sensors: Sensors) -> float | None:
    """Return the angle of the motor for one count, in rad."""
    if sensors.counts_per_revolution is None:
        return None
    sliding = [joint.name for joint in robot.primary_joints if joint.kind == "prismatic"]
    if sliding and not robot.drives:
        raise MissingPhysicsError(
            f"joint {sliding[0]!r} is prismatic and robot {robot.name!r} has no drives, so counts_per_revolution of "
            "the motor does not give its resolution",
            hint="add [[drive]] tables to the robot file, or omit counts_per_revolution",
            subject=sliding[0],
        )
    return 2 * pi / sensors.counts_per_revolution


def _add_noise_and_round(
    signal: Array, noise: float, resolution: float | None, rng: np.random.Generator, to_sensor: Array | None = None
) -> Array:
    """Add noise, and round.

    Random numbers are used even if the noise is zero, so that a setting does not change other noise.

    to_sensor  matrix that converts noise at the joints to the side of the sensors
    """
    drawn = noise * rng.standard_normal(signal.shape)
    noisy = signal + (drawn if to_sensor is None else drawn @ to_sensor.T)
    return noisy if resolution is None else np.round(noisy / resolution) * resolution


def _interpolate_positions(motion: Simulation, times: Array) -> Array:
    """Return positions between the rows of the motion from cubic polynomials through q and qd."""
    last = len(motion.t) - 1
    row = np.clip((times * motion.rate_hz).astype(np.int64), 0, max(last - 1, 0))
    h = 1 / motion.rate_hz
    x = np.clip(times * motion.rate_hz - row, 0, 1)[:, None]
    after = np.minimum(row + 1, last)
    start, end = motion.q[row], motion.q[after]
    bends = h * (motion.qd[row] * x * (1 - x) ** 2 - motion.qd[after] * x**2 * (1 - x))
    return np.asarray(start + (end - start) * x**2 * (3 - 2 * x) + bends)


def _sample_torques(motion: Simulation, times: Array) -> Array:
    """Return the torque that is held at each time."""
    row = np.floor(times * motion.rate_hz + 1e-6).astype(np.int64)
    return motion.tau[np.clip(row, 0, len(motion.t) - 1)]
