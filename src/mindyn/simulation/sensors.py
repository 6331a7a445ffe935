"""Sensors: what encoders and current (or torque) measurement make of a simulated motion.

In order: the signal is delayed, sampled, given noise, rounded to the sensor's resolution, and only then converted to
the side on which it is reported, as a drive does it: an encoder counts the motor's turns, and joint positions are
G^-1 times them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, pi
from typing import get_args

import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.loop_closure import primary_gears
from mindyn.errors import InputError, MissingPhysicsError, require_choice
from mindyn.robots.drive_matrices import require_invertible_gears
from mindyn.robots.parts import Side
from mindyn.robots.robot import Robot
from mindyn.simulation.inputs import make_read_only, require_positive
from mindyn.simulation.results import Measurement, Simulation


@dataclass(frozen=True, slots=True)
class Sensors:
    """Sensors of one robot, the same on every axis.

    They sit at the motors where every axis has a drive, else at the joints.

    rate_hz                  of the readings
    counts_per_revolution    of the encoders, at the motor (4 x its lines); None: no rounding
    position_noise           standard deviation, rad, before rounding
    torque_noise             standard deviation, N m: of the current times the motor's torque constant
    torque_resolution        N m of one step of the current measurement; None: no rounding
    position_delay_s         a reading at t shows the position at t - delay; before the beginning, the first one
    torque_delay_s           likewise
    position_side            where positions are reported
    torque_side              where torques are reported
    seed                     of the noise
    noise_side               side on which the two noises are stated; None: where the sensors sit. A gear of 100 makes
                             30 N m at the joint of 0.3 N m at the motor
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
                require_positive(getattr(self, name), name, "leave it out for readings that are not rounded")
        for name in ("position_noise", "torque_noise", "position_delay_s", "torque_delay_s"):
            value = getattr(self, name)
            if not isfinite(value) or value < 0:
                raise InputError(f"{name} must be finite and not negative, got {value!r}", hint="0 is a perfect sensor")
        for name in ("position_side", "torque_side"):
            require_choice(getattr(self, name), get_args(Side), name)
        if self.noise_side is not None:
            require_choice(self.noise_side, get_args(Side), "noise_side")
        if not isinstance(self.seed, (int, np.integer)) or self.seed < 0:
            raise InputError(f"seed = {self.seed!r} must be a whole number, zero or more", hint="leave it out for 0")


def measure(robot: Robot, motion: Simulation, sensors: Sensors) -> Measurement:
    """What the sensors read during a motion of the robot."""
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
    """G (n, n), or the identity for a robot that does not have a drive on every axis."""
    driven = {drive.joint for drive in robot.drives}
    missing = [name for name in robot.primary_names if name not in driven]
    if not missing:
        return require_invertible_gears(robot, primary_gears(robot))
    undriven = f"robot {robot.name!r} states no drive of: {', '.join(missing)}"
    if "motor" in (sensors.position_side, sensors.torque_side):
        raise MissingPhysicsError(
            f"{undriven}, but readings at the motors are asked for",
            hint="add [[drive]] tables to the robot file, or ask for the joint side",
        )
    if robot.drives and sensors.counts_per_revolution is not None:
        raise MissingPhysicsError(
            f"{undriven}, so that counts for each revolution of their motors say nothing about them",
            hint="add [[drive]] tables to the robot file, or leave the counts out",
        )
    return np.eye(len(robot.primary_names))


def _encoder_resolution(robot: Robot, sensors: Sensors) -> float | None:
    """Radians (of the motor) of one count."""
    if sensors.counts_per_revolution is None:
        return None
    sliding = [joint.name for joint in robot.primary_joints if joint.kind == "prismatic"]
    if sliding and not robot.drives:
        raise MissingPhysicsError(
            f"joint {sliding[0]!r} is prismatic and robot {robot.name!r} states no drives, so that counts for each "
            "revolution of its motor say nothing about it",
            hint="add [[drive]] tables to the robot file, or leave the counts out",
        )
    return 2 * pi / sensors.counts_per_revolution


def _add_noise_and_round(
    signal: Array, noise: float, resolution: float | None, rng: np.random.Generator, to_sensor: Array | None = None
) -> Array:
    """With noise, rounded. Noise is drawn even where it is zero, so that one setting does not change another's draw.

    to_sensor  takes noise that is stated at the joints to where the sensors sit
    """
    drawn = noise * rng.standard_normal(signal.shape)
    noisy = signal + (drawn if to_sensor is None else drawn @ to_sensor.T)
    return noisy if resolution is None else np.round(noisy / resolution) * resolution


def _interpolate_positions(motion: Simulation, times: Array) -> Array:
    """Positions between the rows of the motion, by cubic polynomials through q and qd."""
    last = len(motion.t) - 1
    row = np.clip((times * motion.rate_hz).astype(np.int64), 0, max(last - 1, 0))
    h = 1 / motion.rate_hz
    x = np.clip(times * motion.rate_hz - row, 0, 1)[:, None]
    after = np.minimum(row + 1, last)
    start, end = motion.q[row], motion.q[after]
    bends = h * (motion.qd[row] * x * (1 - x) ** 2 - motion.qd[after] * x**2 * (1 - x))
    return np.asarray(start + (end - start) * x**2 * (3 - 2 * x) + bends)


def _sample_torques(motion: Simulation, times: Array) -> Array:
    """The torque held at each time."""
    row = np.floor(times * motion.rate_hz + 1e-6).astype(np.int64)
    return motion.tau[np.clip(row, 0, len(motion.t) - 1)]
