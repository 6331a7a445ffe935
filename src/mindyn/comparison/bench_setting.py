"""What a comparison of methods is run on: the arm and its loop, one recorded motion, and a clean one to judge by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal, get_args

import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.loop_closure import primary_gears
from mindyn.errors import InputError
from mindyn.estimators.measurement_noise import MeasurementNoise
from mindyn.kernels.model import compile_model
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.log import Log, log_from_arrays
from mindyn.logs.pipeline import condition
from mindyn.logs.samples import Samples
from mindyn.notation import DRIVE_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.robots.drive_matrices import friction_matrix
from mindyn.robots.friction_laws import FRICTION_LAWS
from mindyn.robots.parts import ExtraTorque
from mindyn.robots.robot import Robot
from mindyn.simulation.controllers import ComputedTorque, SineMotion
from mindyn.simulation.inputs import require_count, require_positive
from mindyn.simulation.motion_amplitudes import centre_of_motion, largest_amplitude_fraction, largest_motion_fraction
from mindyn.simulation.results import Simulation
from mindyn.simulation.sensors import Sensors, measure
from mindyn.simulation.simulate import simulate
from mindyn.validation.errors import EDGE_S

Differentiation = Literal["central", "filtered"]

SINE_COUNT: Final = 6
SLOWEST_HZ: Final = 0.1
DEFAULT_REACH: Final = {"revolute": 0.8, "prismatic": 0.15}
"""rad or m, from the middle of a joint's range, where no range is stated."""
BANDWIDTH_RAD_S: Final = 2 * np.pi * 6
"""rad/s of the computed-torque loop."""
CONTROLLER_MODEL_SCALE: Final = 0.8
"""The controller's model of the arm is the arm times this: it tracks well and knows nothing exactly."""
GEAR_WITHOUT_DRIVES: Final = 100.0
"""Motor turns for each turn of a joint whose robot states no drives; for slides, rad for each m."""
STRIBECK_SPEED: Final = 0.1
CLEAN_DURATION_S: Final = 5.0
LOOP_CHECK_STEP_S: Final = 0.02
"""Between two looks at whether a motion closes the loops."""
TORQUE_SEED: Final = 1
"""Last of the seeds of torque noise, so that its draws are not those of position noise."""


@dataclass(frozen=True, slots=True)
class BenchSetting:
    """How the recordings are made.

    repetitions           of the recording, with other noise each
    seconds, rate_hz      of a recording
    control_rate_hz       of the computed-torque controller
    counts_per_revolution of the encoders at the motors
    torque_noise          standard deviation, as part of the rms torque of each joint
    differentiation       "central" differences of positions as read, or "filtered" at filter_hz before
    friction_error        Stribeck friction that the truth has and the model has not, as part of the Coulomb friction
    top_hz                of the sines that every joint moves by: larger accelerations are easier
    seed                  of motions and noise
    """

    repetitions: int = 100
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
                raise InputError(f"{name} = {getattr(self, name)!r} must be a number, zero or more")
        if not (np.isfinite(self.top_hz) and self.top_hz > SLOWEST_HZ):
            raise InputError(f"top_hz = {self.top_hz!r} must be above {SLOWEST_HZ:g} Hz, where the slowest sine is")
        if not isinstance(self.seed, (int, np.integer)) or self.seed < 0:
            raise InputError(f"seed = {self.seed!r} must be a whole number, zero or more")
        if self.differentiation not in get_args(Differentiation):
            raise InputError(
                f"differentiation = {self.differentiation!r}; it may be: {', '.join(get_args(Differentiation))}"
            )

    def bench(self, robot: Robot) -> Bench:
        """Recordings of a robot whose values are known, made so."""
        return make_bench(robot, self)

    @property
    def conditioning(self) -> Conditioning:
        """From recordings to samples."""
        cutoff = None if self.differentiation == "central" else self.filter_hz
        return Conditioning(position_cutoff_hz=cutoff, edge_s=0.0, stamps="uniform")


@dataclass(frozen=True, slots=True, eq=False)
class Bench:
    """One arm, its recorded motion, and a clean motion with the torque that it takes.

    robot       the model: its structure is known, its values are asked for
    truth       the same with friction that the model does not have
    reference   of the controller that the motion was made by
    motion      of the recording, without noise
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
        """Computed torque with a model that is too light."""
        return _build_controller(self.robot, self.reference)

    def trial(self, number: int) -> Trial:
        """One recording with its own noise."""
        setting, robot = self.setting, self.robot
        seed = 1_000 * setting.seed + number
        read = measure(robot, self.motion, make_encoders(robot, setting, seed))
        log = self.add_torque_noise(log_from_arrays(robot.primary_names, read.t, read.position, read.torque), seed)
        samples = condition(log, robot, setting.conditioning).samples
        edge = round(EDGE_S * setting.rate_hz)
        usable = np.zeros(samples.q.shape, dtype=np.bool_)
        usable[edge : len(usable) - edge] = True
        return Trial(self, log, replace(samples, usable=usable), seed)

    @property
    def torque_deviations(self) -> Array:
        """(n,) standard deviations of the noise of joint torques."""
        return self.setting.torque_noise * _rms(self.motion.tau)

    def add_torque_noise(self, log: Log, seed: int, number: int = 0) -> Log:
        """A log with noise of its torques, drawn for its seed and number apart from noise of positions."""
        rng = np.random.default_rng([seed, number, TORQUE_SEED])
        return replace(log, tau=log.tau + self.torque_deviations * rng.standard_normal(log.tau.shape))

    def noise(self) -> MeasurementNoise:
        """Deviations of what regressors are made of, from the resolution of the encoders through the conditioning."""
        rng = np.random.default_rng(self.setting.seed)
        white = rng.standard_normal(self.motion.q.shape) * _position_deviations(self.robot, self.setting)
        noisy, clean = (self._condition_positions(self.motion.q + part) for part in (white, np.zeros_like(white)))
        position, velocity, acceleration = (
            tuple((getattr(noisy, name) - getattr(clean, name)).std(axis=0)) for name in ("q", "qd", "qdd")
        )
        return MeasurementNoise(position, velocity, acceleration, tuple(self.torque_deviations))

    def _condition_positions(self, q: Array) -> Samples:
        log = log_from_arrays(self.robot.primary_names, self.motion.t, q, np.zeros_like(q))
        return condition(log, self.robot, self.setting.conditioning).samples


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One recording: as a log, and as samples whose rows near the ends are not usable; `seed` for further noise."""

    bench: Bench
    log: Log
    samples: Samples
    seed: int


def make_bench(robot: Robot, setting: BenchSetting) -> Bench:
    """The bench of a robot whose values are known."""
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
        drives=bool(truth.drives),
        method="fixed",
        longest_step_s=min(1e-3, 1 / setting.control_rate_hz),
    )
    return Bench(setting, robot, truth, reference, motion, _simulate_clean(truth, setting))


def _simulate_clean(truth: Robot, setting: BenchSetting) -> Samples:
    times = np.arange(round(CLEAN_DURATION_S * setting.rate_hz)) / setting.rate_hz
    q, qd, qdd = _draw_sines(truth, setting, 1).rows(times)
    tau = compile_model(truth, drives=bool(truth.drives)).inverse_dynamics(q, qd, qdd)
    return Samples(truth.primary_names, q, qd, qdd, tau, setting.rate_hz, np.zeros(len(times), dtype=np.int64))


def _draw_sines(robot: Robot, setting: BenchSetting, number: int) -> SineMotion:
    """Every primary joint about the middle of its range by sines of its own, as far as loops stay well closed."""
    rng = np.random.default_rng([setting.seed, number, 7])
    centre, reach = _centre_and_reach(robot)
    shape = (SINE_COUNT, len(centre))
    frequency = rng.uniform(SLOWEST_HZ, setting.top_hz, shape)
    amplitude = rng.uniform(0.5, 1.0, shape) * reach / np.sqrt(SINE_COUNT)
    motion = SineMotion(centre, amplitude, frequency, rng.uniform(0, 2 * np.pi, shape))
    if not robot.has_dependents:
        return motion
    times = np.arange(0.0, max(setting.seconds, CLEAN_DURATION_S), LOOP_CHECK_STEP_S)
    share = largest_motion_fraction(robot, centre, motion.rows(times)[0] - centre)
    return replace(motion, amplitude=share * amplitude)


def _centre_and_reach(robot: Robot) -> tuple[Array, Array]:
    """(k,) of the primary joints: the middle of their ranges, and how far from it they go."""
    joints = robot.primary_joints
    reach = np.array([DEFAULT_REACH[joint.kind] for joint in joints])
    ends = np.array([(j.limits.lower, j.limits.upper) for j in joints], dtype=np.float64)  # None becomes NaN
    reach = np.fmin(reach, (ends[:, 1] - ends[:, 0]) / 4)
    ends[np.isnan(ends).any(axis=1)] = 0.0
    return centre_of_motion(robot, ends[:, 0], ends[:, 1]), reach


def closing_ranges(robot: Robot) -> dict[str, tuple[float, float]] | None:
    """Ranges of the primary joints within which loops close; None for a robot without dependent joints."""
    if not robot.has_dependents:
        return None
    centre, reach = _centre_and_reach(robot)
    reach = largest_amplitude_fraction(robot, centre, reach) * reach
    return {name: (float(c - r), float(c + r)) for name, c, r in zip(robot.primary_names, centre, reach, strict=True)}


@lru_cache(maxsize=4)
def _build_controller(robot: Robot, reference: SineMotion) -> ComputedTorque:
    known = robot.phi.reshape(-1, PARAMETERS_PER_LINK)  # refuses links without parameters, by name
    links = tuple(replace(link, phi=CONTROLLER_MODEL_SCALE * own) for link, own in zip(robot.links, known, strict=True))
    drives = (
        replace(one, **{name: CONTROLLER_MODEL_SCALE * getattr(one, name) for name in DRIVE_PARAMETERS})
        for one in robot.drives
    )
    lighter = replace(robot, links=links, drives=tuple(drives))
    return ComputedTorque(lighter, reference, BANDWIDTH_RAD_S**2, 2 * BANDWIDTH_RAD_S, drives=bool(robot.drives))


def _add_friction_error(robot: Robot, part: float) -> Robot:
    if part == 0:
        return robot
    levels = np.abs(friction_matrix(robot)).T @ np.array([drive.coulomb for drive in robot.drives])
    if not levels.any():
        raise InputError(
            f"friction_error is a part of the Coulomb friction, but robot {robot.name!r} states none",
            hint="add [[drive]] tables with coulomb to the robot file, or leave friction_error at 0",
        )
    law = FRICTION_LAWS["stribeck"].with_constants(speed=STRIBECK_SPEED, exponent=2.0)
    formula = law.text("qd", f"tanh(qd / {STRIBECK_SPEED / 10!r})")
    extras = [
        ExtraTorque(f"stribeck_{name}", name, formula, float(part * level))
        for name, level in zip(robot.joint_names, levels, strict=True)
    ]
    return replace(robot, extras=(*robot.extras, *extras))


def make_encoders(robot: Robot, setting: BenchSetting, seed: int) -> Sensors:
    """Encoders at the motors, with noise before rounding that makes each recording another; torques as they are."""
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
    """(n,) deviations of joint positions: of rounding to counts, and of as much noise before it."""
    count = 2 * np.pi / setting.counts_per_revolution * np.sqrt(2 / 12)
    if not robot.drives:
        return np.full(len(robot.primary_names), count / GEAR_WITHOUT_DRIVES)
    return np.asarray(count * np.linalg.norm(np.linalg.inv(primary_gears(robot)), axis=1))


def _rms(values: Array) -> Array:
    return np.asarray(np.sqrt((values**2).mean(axis=0)))
