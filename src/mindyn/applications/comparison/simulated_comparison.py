"""`compare_methods`: compare estimators on one robot by simulation: bias, spread, motion, time and number of tests.

Every repetition is the same motion with different sensor noise. Results are evaluated on another, clean motion:

    bias    rms over the motion of (mean over repetitions of Y beta) - tau, relative to the rms torque of the joint
    spread  rms over motion and repetitions of Y beta - (mean of Y beta), likewise
    motion  rms distance of the motion of the model under the recorded torque, first repetition [Yoshida 1996, 3.6]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import lru_cache
from time import perf_counter, process_time
from typing import Any, Final

import numpy as np

from mindyn.applications.comparison.simulated_recordings import (
    Bench,
    BenchSetting,
    NoisyRecording,
    closing_ranges,
    make_bench,
    make_encoders,
)
from mindyn.applications.step_tests.step_by_step import StepByStep
from mindyn.applications.validation.trajectories import compare_trajectories
from mindyn.foundation.algebra.values import Array, ShortRepr
from mindyn.foundation.errors import MindynError, unknown_name_error
from mindyn.foundation.json_values import to_json_value
from mindyn.foundation.processes.executors import run_tasks
from mindyn.identification.estimators.closed_loop_instruments import ClosedLoopInstruments
from mindyn.identification.estimators.energy_difference import EnergyDifference
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimator import Estimator
from mindyn.identification.estimators.instrumental_variables import InstrumentalVariables
from mindyn.identification.estimators.last_link_first import LastLinkFirst
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.motions.step_plans.plan import StepPlan
from mindyn.motions.step_plans.planner import plan_tests
from mindyn.motions.step_plans.simulated_tests import simulate_tests
from mindyn.regression.build_rows import build_rows
from mindyn.regression.regressor import Regressor
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot
from mindyn.robots.table import format_table

BREAKAWAY_DEVIATIONS: Final = 6.0
"""Standard deviations of the torque by which noise may exchange two breakaway torques if there is no friction."""

TrialFit = Callable[[NoisyRecording], Estimate]


@dataclass(frozen=True, slots=True)
class BenchMethod:
    """Method of the comparison: its fit to a trial, and the number of tests on the robot that it needs."""

    fit: TrialFit
    tests: Callable[[Robot], int] = lambda _robot: 1


def _fit_samples(make: Callable[[NoisyRecording], Estimator]) -> TrialFit:
    """Return a fit to the samples of a trial, by an estimator made for the trial."""

    def fit(trial: NoisyRecording) -> Estimate:
        estimator, robot = make(trial), trial.bench.robot
        settings = estimator.settings_for(robot, EquationSettings(drive_parameters="stated"))
        return estimator.fit(build_rows(robot, trial.samples, settings))

    return fit


def _replay_controller(estimator: Callable[..., Estimator]) -> Callable[[NoisyRecording], Estimator]:
    """Return a factory of an estimator that replays the controller of the trial."""

    def make(trial: NoisyRecording) -> Estimator:
        bench = trial.bench
        return estimator(bench.controller, control_rate_hz=bench.setting.control_rate_hz, initial="reference")

    return make


@lru_cache(maxsize=4)
def _plan_tests(robot: Robot) -> StepPlan:
    return plan_tests(robot, ranges=closing_ranges(robot))


def _fit_step_by_step(trial: NoisyRecording) -> Estimate:
    """Fit the tests of a plan, simulated with the encoders and the torque noise of the trial."""
    bench, plan = trial.bench, _plan_tests(trial.bench.robot)
    setting = bench.setting
    sensors = make_encoders(bench.robot, setting, trial.seed)
    logs = simulate_tests(bench.truth, plan, rate_hz=setting.rate_hz, sensors=sensors, rng=trial.seed)
    logs = {name: bench.add_torque_noise(log, trial.seed, number) for number, (name, log) in enumerate(logs.items(), 1)}
    slack = BREAKAWAY_DEVIATIONS * float(bench.torque_deviations.max())
    return StepByStep(slack=slack).fit(bench.robot, plan, logs)


BENCH_METHODS: Final[dict[str, BenchMethod]] = {
    "least squares": BenchMethod(_fit_samples(lambda _: LeastSquares(weights="ordinary"))),
    "weighted least squares": BenchMethod(_fit_samples(lambda _: LeastSquares())),
    "robust least squares": BenchMethod(_fit_samples(lambda _: LeastSquares(robust=True))),
    "last link first": BenchMethod(_fit_samples(lambda _: LastLinkFirst())),
    "instrumental variables": BenchMethod(_fit_samples(lambda _: InstrumentalVariables())),
    "closed-loop instruments": BenchMethod(_fit_samples(_replay_controller(ClosedLoopInstruments))),
    "momentum difference": BenchMethod(_fit_samples(lambda _: EnergyDifference("momentum"))),
    "step by step": BenchMethod(_fit_step_by_step, lambda robot: len(_plan_tests(robot).tests)),
}
"""All methods by name."""


RESULT_KEYS: Final = (
    *("method", "bias", "spread", "motion", "total_bias", "total_spread", "parameter_bias"),
    *("seconds", "tests", "failed", "reason"),
)
"""Entries of a method in JSON."""
Progress = Callable[[int, int], None]
"""Function that is called with the number of finished repetitions and their total number."""


@dataclass(frozen=True, slots=True, eq=False)
class Repetition:
    """Result of a method for one repetition: values of the structural base set, or the reason why there are none.

    motion  (n,) rms distance of the simulated motion, rad or m; only of the first repetition
    """

    beta: Array | None
    seconds: float
    reason: str = ""
    motion: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MethodResult:
    """One line of the comparison; fractions of 1.

    bias, spread      (n,) for each joint (see the module); NaN if no repetition succeeded; one repetition has no spread
    motion            (n,) rms distance of the motion of the first model under the recorded torque, rad or m; NaN if it
                      cannot be simulated
    parameter_bias    |mean beta - beta| / |beta| with parameters in units of the torque that they cause
    seconds           median processor time of one fit
    tests             tests by a person: one recording, or those of a plan, each of one or more motions
    failed, reason    repetitions without a result, and the reason of the first of them
    """

    method: str
    bias: Array
    spread: Array
    motion: Array
    parameter_bias: float
    seconds: float
    tests: int
    failed: int
    reason: str

    @property
    def total_bias(self) -> float:
        """Return the root mean square of the biases of all joints."""
        return float(np.sqrt(np.mean(self.bias**2)))

    @property
    def total_spread(self) -> float:
        """Return the root mean square of the spreads of all joints."""
        return float(np.sqrt(np.mean(self.spread**2)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MethodComparison(ShortRepr):
    """Results of all methods on one robot.

    Attributes
    ----------
    robot : str
    joint_names : tuple of str
    setting : BenchSetting
    results : tuple of MethodResult
    seconds : float
        Duration of the comparison.
    """

    robot: str
    joint_names: tuple[str, ...]
    setting: BenchSetting
    results: tuple[MethodResult, ...]
    seconds: float

    def __getitem__(self, method: str) -> MethodResult:
        for result in self.results:
            if result.method == method:
                return result
        raise unknown_name_error("method", method, (result.method for result in self.results), "there are")

    def table(self) -> str:
        """Return a line for each method, then the biases and the distances of the motion of all joints."""
        head = ("method", "bias %", "spread %", "param. bias %", "time s", "tests", "failed")
        lines = [head, *(_format_line(result, self.setting.repetitions) for result in self.results)]
        joints = [("bias of the torque, %", *self.joint_names)]
        joints += [(result.method, *(_format_percent(value) for value in result.bias)) for result in self.results]
        motions = [("motion of the model, mrad or mm", *self.joint_names)]
        motions += [(result.method, *(_format_number(1e3 * v) for v in result.motion)) for result in self.results]
        notes = [f"{result.method}: {result.reason}" for result in self.results if result.reason]
        tables = [format_table(table) for table in (lines, joints, motions)]
        return "\n\n".join([*tables, *(["\n".join(notes)] if notes else [])])

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values; numbers that are not finite are None."""
        return {
            "robot": self.robot,
            "joints": list(self.joint_names),
            "setting": asdict(self.setting),
            "seconds": self.seconds,
            "methods": [
                {name: to_json_value(getattr(result, name)) for name in RESULT_KEYS} for result in self.results
            ],
        }


def compare_methods(
    robot: Robot,
    setting: BenchSetting | None = None,
    methods: Sequence[str] | None = None,
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> MethodComparison:
    """Compare methods on simulated recordings of a robot with known parameters.

    The simulated robot follows sines under computed torque with a model that is too light. Encoders at the motors are
    differentiated, as in Yoshida's comparison of step by step, least squares and instrumental variables (section 3.6).

    Parameters
    ----------
    robot : Robot
        Robot of the logs.
    setting : BenchSetting, optional
        Settings of the recordings.
    methods : sequence of str, optional
        Names in `BENCH_METHODS`; all by default.
    executor : concurrent.futures.Executor, optional
        Fits the repetitions in its workers; the results do not depend on it.
    progress : callable, optional
        Called with the number of finished repetitions and their total number.

    Returns
    -------
    MethodComparison
        Errors of every method over all repetitions.

    Raises
    ------
    UnknownNameError
        If a method does not exist.
    MissingPhysicsError
        If a link has no inertial parameters.

    Examples
    --------
    >>> import mindyn
    >>> from mindyn.applications import BenchSetting, compare_methods
    >>> setting = BenchSetting(repetitions=2, seconds=4.0)
    >>> comparison = compare_methods(mindyn.load_robot("planar2"), setting, ["least squares", "instrumental variables"])
    >>> comparison["instrumental variables"].total_bias < comparison["least squares"].total_bias
    True
    """
    setting, names = setting or BenchSetting(), tuple(BENCH_METHODS if methods is None else methods)
    for name in names:
        if name not in BENCH_METHODS:
            raise unknown_name_error("method", name, BENCH_METHODS, "there are")
    start = perf_counter()
    bench = make_bench(robot, setting)
    fits_of: dict[str, list[Repetition]] = {name: [] for name in names}
    tasks = ((bench, number, names) for number in range(setting.repetitions))
    for done, fits_by_name in enumerate(run_tasks(executor, fit_methods, tasks), start=1):
        for name, fit in fits_by_name.items():
            fits_of[name].append(fit)
        if progress is not None:
            progress(done, setting.repetitions)
    regressor = Regressor(robot)
    results = tuple(_summarise_method(name, fits, bench, regressor) for name, fits in fits_of.items())
    return MethodComparison(robot.name, robot.primary_names, setting, results, perf_counter() - start)


def fit_methods(bench: Bench, number: int, names: Iterable[str]) -> dict[str, Repetition]:
    """Fit every method to one recording."""
    trial = bench.trial(number)
    base = Regressor(bench.robot).base
    repetitions = {}
    for name in names:
        start = process_time()
        try:
            estimate = BENCH_METHODS[name].fit(trial)
            beta = estimate.base.transform_to(base) @ estimate.base_values
            seconds = process_time() - start
            repetitions[name] = Repetition(beta, seconds, motion=None if number else _motion_error(estimate, bench))
        except MindynError as error:
            repetitions[name] = Repetition(None, process_time() - start, error.message)
    return repetitions


def _motion_error(estimate: Estimate, bench: Bench) -> Array:
    """Return the rms distance (n,) of the motion of the model under the torque of the clean motion; NaN if it fails."""
    try:
        return np.asarray(compare_trajectories(estimate, bench.clean).rms)
    except MindynError:  # for example an inertia matrix that is not positive definite
        return np.full(bench.robot.joint_count, np.nan)


def _summarise_method(name: str, fits: list[Repetition], bench: Bench, regressor: Regressor) -> MethodResult:
    betas = np.array([fit.beta for fit in fits if fit.beta is not None])
    reason = next((fit.reason for fit in fits if fit.beta is None), "")
    seconds = float(np.median([fit.seconds for fit in fits]))
    n, failed, tests = bench.robot.joint_count, len(fits) - len(betas), BENCH_METHODS[name].tests(bench.robot)
    if not len(betas):
        nothing = np.full(n, np.nan)
        return MethodResult(name, nothing, nothing, nothing, np.nan, seconds, tests, failed, reason)
    clean = bench.clean
    Y = regressor.dense(regressor.parts(clean.q, clean.qd, clean.qdd))
    mean, size = betas.mean(axis=0), np.sqrt((clean.tau**2).mean(axis=0))
    bias = np.sqrt(((Y @ mean - clean.tau) ** 2).mean(axis=0)) / size
    scatter = betas - mean if len(betas) > 1 else np.full_like(betas, np.nan)
    scatter = np.einsum("kip,rp->rki", Y, scatter)
    spread = np.sqrt((scatter**2).mean(axis=(0, 1))) / size
    columns = np.linalg.norm(Y / size[:, None], axis=(0, 1))
    true = regressor.base.values
    parameters = float(np.linalg.norm(columns * (mean - true)) / np.linalg.norm(columns * true))
    motion = next((fit.motion for fit in fits if fit.motion is not None), np.full(n, np.nan))
    return MethodResult(name, bias, spread, motion, parameters, seconds, tests, failed, reason)


def _format_line(result: MethodResult, repetitions: int) -> tuple[str, ...]:
    shown = map(_format_percent, (result.total_bias, result.total_spread, result.parameter_bias))
    return (result.method, *shown, f"{result.seconds:.3f}", str(result.tests), f"{result.failed} of {repetitions}")


def _format_percent(value: float) -> str:
    return _format_number(100 * value)


def _format_number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3g}"
