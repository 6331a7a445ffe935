"""Robot, control loop, recorded motion and clean test motion of a comparison of methods."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal, get_args

import numpy as np

from mindyn.applications.comparison.loop_amplitudes import (
    centre_of_motion,
    largest_amplitude_fraction,
    largest_motion_fraction,
)
from mindyn.equations.loop_closure import primary_gears
from mindyn.foundation.algebra.requirements import require_count, require_positive
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, require_choice
from mindyn.foundation.notation import DRIVE_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.kernels.model import compile_model
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.filters import MIN_EDGE_S
from mindyn.logs.log import Log, log_from_arrays
from mindyn.logs.pipeline import condition
from mindyn.logs.samples import Samples
from mindyn.motions.simulation.controllers import ComputedTorque, SineMotion
from mindyn.motions.simulation.results import Simulation
from mindyn.motions.simulation.sensors import Sensors, measure
from mindyn.motions.simulation.simulate import simulate
from mindyn.robots.drive_matrices import friction_matrix
from mindyn.robots.friction_laws import FRICTION_LAWS
from mindyn.robots.parts import ExtraTorque
from mindyn.robots.robot import Robot

Differentiation = Literal["central", "filtered"]

SINE_COUNT: Final = 6
SLOWEST_HZ: Final = 0.1
DEFAULT_REACH: Final = {"revolute": 0.8, "prismatic": 0.15}
"""Largest distance from the middle of the range of a joint, rad or m."""
BANDWIDTH_RAD_S: Final = 2 * np.pi * 6
"""Bandwidth of the computed-torque loop."""
CONTROLLER_MODEL_SCALE: Final = 0.8
"""Parameters of the model of the controller relative to the true ones: it tracks well, but is not exact."""
GEAR_WITHOUT_DRIVES: Final = 100.0
"""Gear ratio of a robot without drives; rad per m for prismatic joints."""
STRIBECK_SPEED: Final = 0.1
CLEAN_DURATION_S: Final = 5.0
LOOP_CHECK_STEP_S: Final = 0.02
"""Time step of the check that loops close along a motion."""
TORQUE_SEED: Final = 1
"""Last seed of torque noise, so that its draws differ from those of position noise."""


@dataclass(frozen=True, slots=True)
class BenchSetting:
    """Settings of the simulated recordings.

    Parameters
    ----------
    repetitions : int
        Number of recordings with different noise.
    seconds, rate_hz : float
        Duration and sample rate of a recording.
    control_rate_hz : float
        Rate of the computed-torque controller.
    counts_per_revolution : float
        Resolution of the encoders at the motors.
    torque_noise : float
        Standard deviation of the torque noise relative to the rms torque of each joint.
    differentiation : {"central", "filtered"}
        Central differences of raw positions, or of positions filtered at `filter_hz`.
    filter_hz : float
        Cutoff frequency of the filter.
    friction_error : float
        Stribeck friction of the true robot that the model lacks, relative to the Coulomb friction.
    top_hz : float
        Highest frequency of the sines of the motion: larger accelerations are easier.
    seed : int
        Seed of motions and noise.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    repetitions: int = 10
    seconds: float = 20.0
    rate_hz: float = 200.0
    control_rate_hz: float = 1000.0
    counts_per_revolution: float = 1000.0
    torque_noise: float = 0.02
    differentiation: Differentiation = "central"
    filter_hz: float = 10.0
    friction_error: float = 0.0
    top_hz: float = 0.8
    seed: int = 0

    def __post_init__(self) -> None:
        require_count(self.repetitions, "repetitions")
        for name in ("seconds", "rate_hz", "control_rate_hz", "counts_per_revolution", "filter_hz"):
            require_positive(getattr(self, name), name)
        for name in ("torque_noise", "friction_error"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise InputError(
                    f"{name} must be zero or positive, got {getattr(self, name)!r}",
                    code=Code.OUT_OF_RANGE,
                    subject=name,
                )
        if not (np.isfinite(self.top_hz) and self.top_hz > SLOWEST_HZ):
            raise InputError(
                f"top_hz must be above {SLOWEST_HZ:g} Hz, the frequency of the slowest sine; got {self.top_hz!r}",
                code=Code.OUT_OF_RANGE,
                subject="top_hz",
            )
        if not isinstance(self.seed, (int, np.integer)) or self.seed < 0:
            raise InputError(
                f"seed must be a nonnegative integer, got {self.seed!r}", code=Code.OUT_OF_RANGE, subject="seed"
            )
        require_choice(self.differentiation, get_args(Differentiation), "differentiation")

    @property
    def conditioning(self) -> Conditioning:
        """Return the conditioning of recordings."""
        cutoff = None if self.differentiation == "central" else self.filter_hz
        return Conditioning(motion_hz=cutoff, edge_s=0.0, stamps="uniform")


@dataclass(frozen=True, slots=True, eq=False)
class Bench:
    """Robot, its recorded motion, and a clean motion with exact torques.

    robot       model with known structure, whose values are estimated
    truth       the same with friction that the model lacks
    reference   reference of the controller
    motion      motion of the recording, without noise
    clean       another motion with its exact torques
    """

    setting: BenchSetting
    robot: Robot
    truth: Robot
    reference: SineMotion
    motion: Simulation
    clean: Samples

    @property
    def controller(self) -> ComputedTorque:
        """Return computed torque with a model that is too light."""
        return _build_controller(self.robot, self.reference)

    def trial(self, number: int) -> NoisyRecording:
        """Return one recording with its own noise."""
        setting, robot = self.setting, self.robot
        seed = 1_000 * setting.seed + number
        read = measure(robot, self.motion, make_encoders(robot, setting, seed))
        log = self.add_torque_noise(log_from_arrays(robot.primary_names, read.t, read.position, read.torque), seed)
        samples = condition(robot, log, setting.conditioning).samples
        edge = round(MIN_EDGE_S * setting.rate_hz)
        usable = np.zeros(samples.q.shape, dtype=np.bool_)
        usable[edge : len(usable) - edge] = True
        return NoisyRecording(self, log, replace(samples, usable=usable), seed)

    @property
    def torque_deviations(self) -> Array:
        """Return the standard deviations (n,) of the noise of joint torques."""
        return np.asarray(self.setting.torque_noise * np.sqrt((self.motion.tau**2).mean(axis=0)))

    def add_torque_noise(self, log: Log, seed: int, number: int = 0) -> Log:
        """Add torque noise to a log, drawn by seed and number independently of position noise."""
        rng = np.random.default_rng([seed, number, TORQUE_SEED])
        return replace(log, tau=log.tau + self.torque_deviations * rng.standard_normal(log.tau.shape))


@dataclass(frozen=True, slots=True, eq=False)
class NoisyRecording:
    """One recording as a log, and as samples whose rows near the ends are not usable; `seed` for further noise."""

    bench: Bench
    log: Log
    samples: Samples
    seed: int


def make_bench(robot: Robot, setting: BenchSetting) -> Bench:
    """Build the bench of a robot with known parameters."""
    truth = _add_friction_error(robot, setting.friction_error)
    reference = _draw_sines(robot, setting, 0)
    q0, qd0, _ = reference(0.0)
    motion = simulate(
        truth,
        _build_controller(robot, reference),
        seconds=setting.seconds,
        q0=q0,
        qd0=qd0,
        rate_hz=setting.rate_hz,
        control_rate_hz=setting.control_rate_hz,
        with_drives=bool(truth.drives),
        method="fixed",
        longest_step_s=min(1e-3, 1 / setting.control_rate_hz),
    )
    return Bench(setting, robot, truth, reference, motion, _simulate_clean(truth, setting))


def _simulate_clean(truth: Robot, setting: BenchSetting) -> Samples:
    times = np.arange(round(CLEAN_DURATION_S * setting.rate_hz)) / setting.rate_hz
    q, qd, qdd = _draw_sines(truth, setting, 1).rows(times)
    tau = compile_model(truth, with_drives=bool(truth.drives)).inverse_dynamics(q, qd, qdd)
    return Samples(truth.primary_names, q, qd, qdd, tau, setting.rate_hz, np.zeros(len(times), dtype=np.int64))


def _draw_sines(robot: Robot, setting: BenchSetting, number: int) -> SineMotion:
    """Draw a motion of every primary joint by several sines, scaled so that loops close."""
    rng = np.random.default_rng([setting.seed, number, 7])
    centre, reach = _centre_and_reach(robot)
    shape = (SINE_COUNT, len(centre))
    frequency = rng.uniform(SLOWEST_HZ, setting.top_hz, shape)
    amplitude = rng.uniform(0.5, 1.0, shape) * reach / np.sqrt(SINE_COUNT)
    motion = SineMotion(centre, amplitude, frequency, rng.uniform(0, 2 * np.pi, shape))
    if not robot.has_dependents:
        return motion
    times = np.arange(0.0, max(setting.seconds, CLEAN_DURATION_S), LOOP_CHECK_STEP_S)
    scale = largest_motion_fraction(robot, centre, motion.rows(times)[0] - centre)
    return replace(motion, amplitude=scale * amplitude)


def _centre_and_reach(robot: Robot) -> tuple[Array, Array]:
    """Return the middle of the ranges of the primary joints (k,), and the distance from it."""
    joints = robot.primary_joints
    reach = np.array([DEFAULT_REACH[joint.kind] for joint in joints])
    ends = np.array([(j.limits.lower, j.limits.upper) for j in joints], dtype=np.float64)  # None becomes NaN
    reach = np.fmin(reach, (ends[:, 1] - ends[:, 0]) / 4)
    ends[np.isnan(ends).any(axis=1)] = 0.0
    return centre_of_motion(robot, ends[:, 0], ends[:, 1]), reach


def closing_ranges(robot: Robot) -> dict[str, tuple[float, float]] | None:
    """Return ranges of the primary joints within which loops close; None for a robot without dependent joints."""
    if not robot.has_dependents:
        return None
    centre, reach = _centre_and_reach(robot)
    reach = largest_amplitude_fraction(robot, centre, reach) * reach
    return {name: (float(c - r), float(c + r)) for name, c, r in zip(robot.primary_names, centre, reach, strict=True)}


@lru_cache(maxsize=4)
def _build_controller(robot: Robot, reference: SineMotion) -> ComputedTorque:
    known = robot.phi.reshape(-1, PARAMETERS_PER_LINK)  # raises if a link has no parameters
    links = tuple(replace(link, phi=CONTROLLER_MODEL_SCALE * phi) for link, phi in zip(robot.links, known, strict=True))
    drives = (
        replace(drive, **{name: CONTROLLER_MODEL_SCALE * getattr(drive, name) for name in DRIVE_PARAMETERS})
        for drive in robot.drives
    )
    lighter = replace(robot, links=links, drives=tuple(drives))
    return ComputedTorque(lighter, reference, BANDWIDTH_RAD_S**2, 2 * BANDWIDTH_RAD_S, with_drives=bool(robot.drives))


def _add_friction_error(robot: Robot, fraction: float) -> Robot:
    if fraction == 0:
        return robot
    levels = np.abs(friction_matrix(robot)).T @ np.array([drive.coulomb for drive in robot.drives])
    if not levels.any():
        raise InputError(
            f"friction_error is relative to the Coulomb friction, but robot {robot.name!r} has none",
            hint="add [[drive]] tables with coulomb to the robot file, or leave friction_error at 0",
            code=Code.MISSING_VALUE,
            subject=robot.name,
        )
    law = FRICTION_LAWS["stribeck"].with_constants(speed=STRIBECK_SPEED, exponent=2.0)
    formula = law.text("qd", f"tanh(qd / {STRIBECK_SPEED / 10!r})")
    extras = [
        ExtraTorque(f"stribeck_{name}", name, formula, float(fraction * level))
        for name, level in zip(robot.joint_names, levels, strict=True)
    ]
    return replace(robot, extras=(*robot.extras, *extras))


def make_encoders(robot: Robot, setting: BenchSetting, seed: int) -> Sensors:
    """Return encoders at the motors, with noise before rounding that differs between recordings."""
    if robot.drives:
        count = 2 * np.pi / setting.counts_per_revolution
        return Sensors(
            setting.rate_hz,
            counts_per_revolution=setting.counts_per_revolution,
            position_noise=count / np.sqrt(12),
            seed=seed,
        )
    return Sensors(setting.rate_hz, position_noise=float(_position_deviations(robot, setting)[0]), seed=seed)


def _position_deviations(robot: Robot, setting: BenchSetting) -> Array:
    """Return the deviations (n,) of joint positions from rounding to counts and equal noise before it."""
    count = 2 * np.pi / setting.counts_per_revolution * np.sqrt(2 / 12)
    if not robot.drives:
        return np.full(robot.joint_count, count / GEAR_WITHOUT_DRIVES)
    return np.asarray(count * np.linalg.norm(np.linalg.inv(primary_gears(robot)), axis=1))
