"""`compare_methods`: compare estimators on one robot by Monte Carlo: bias, spread, time and human effort.

Every repetition is the same motion with different sensor noise. Results are evaluated on another, clean motion:

    bias    rms over the motion of (mean over repetitions of Y beta) - tau, relative to the rms torque of the joint
    spread  rms over motion and repetitions of Y beta - (mean of Y beta), likewise
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import lru_cache
from time import perf_counter, process_time
from typing import Any, Final

import numpy as np

from mindyn.algebra.values import Array, ShortRepr
from mindyn.comparison.bench_setting import Bench, BenchSetting, Trial, closing_ranges, make_bench, make_encoders
from mindyn.errors import MindynError, unknown_name_error
from mindyn.estimators.closed_loop_instruments import ClosedLoopInstruments
from mindyn.estimators.energy_difference import EnergyDifference
from mindyn.estimators.estimate import Estimate, Estimator
from mindyn.estimators.instrumental_variables import InstrumentalVariables
from mindyn.estimators.last_link_first import LastLinkFirst
from mindyn.estimators.least_squares import LeastSquares
from mindyn.estimators.output_error import OutputError
from mindyn.estimators.total_least_squares import TotalLeastSquares
from mindyn.executors import process_pool, run_tasks
from mindyn.regression.regressor import Regressor
from mindyn.regression.rows import build_rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot
from mindyn.robots.table import format_table
from mindyn.simulation.inputs import require_count
from mindyn.step_tests.estimator import StepByStep
from mindyn.step_tests.plan import StepPlan
from mindyn.step_tests.planner import plan_tests, simulate_tests

BREAKAWAY_DEVIATIONS: Final = 6.0
"""Deviations of the torque by which noise may exchange two breakaway torques without friction."""

TrialFit = Callable[[Trial], Estimate]


@dataclass(frozen=True, slots=True)
class BenchMethod:
    """Fit of a method to a trial, and the number of tests that a person makes for it; a recording is one."""

    fit: TrialFit
    tests: Callable[[Robot], int] = lambda _robot: 1


def _fit_samples(make: Callable[[Trial], Estimator]) -> TrialFit:
    """Return a fit to the samples of a trial, by an estimator made for the trial."""

    def fit(trial: Trial) -> Estimate:
        estimator, robot = make(trial), trial.bench.robot
        settings = estimator.settings_for(robot, EquationSettings(drives="stated"))
        return estimator.fit(build_rows(robot, trial.samples, settings))

    return fit


def _replay_controller(estimator: Callable[..., Estimator]) -> Callable[[Trial], Estimator]:
    """Return a factory of an estimator that replays the controller of the trial."""

    def make(trial: Trial) -> Estimator:
        bench = trial.bench
        return estimator(bench.controller, control_rate_hz=bench.setting.control_rate_hz, initial="reference")

    return make


@lru_cache(maxsize=4)
def _plan_tests(robot: Robot) -> StepPlan:
    return plan_tests(robot, ranges=closing_ranges(robot))


def _fit_step_by_step(trial: Trial) -> Estimate:
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
    "total least squares": BenchMethod(_fit_samples(lambda trial: TotalLeastSquares(trial.bench.noise()))),
    "output error": BenchMethod(_fit_samples(_replay_controller(OutputError))),
    "step by step": BenchMethod(_fit_step_by_step, lambda robot: len(_plan_tests(robot).tests)),
}
"""All methods by name."""


RESULT_KEYS: Final = (
    *("method", "bias", "spread", "total_bias", "total_spread", "parameter_bias"),
    *("seconds", "tests", "failed", "reason"),
)
"""Entries of a method in JSON."""
Progress = Callable[[int, int], None]
"""Function that is called with the number of finished repetitions and their total number."""


@dataclass(frozen=True, slots=True, eq=False)
class Repetition:
    """Result of a method for one repetition: values of the structural base set, or the reason why there are none."""

    beta: Array | None
    seconds: float
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class MethodResult:
    """One line of the comparison; fractions of 1.

    bias, spread      (n,) for each joint (see the module); NaN if no repetition succeeded; one repetition has no spread
    parameter_bias    |mean beta - beta| / |beta| with parameters in units of the torque that they cause
    seconds           median processor time of one fit
    tests             tests by a person: one recording, or those of a plan, each of one or more motions
    failed, reason    repetitions without a result, and the reason of the first of them
    """

    method: str
    bias: Array
    spread: Array
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
        """Return a line for each method, then the biases of all joints."""
        head = ("method", "bias %", "spread %", "param. bias %", "time s", "tests", "failed")
        lines = [head, *(_format_line(result, self.setting.repetitions) for result in self.results)]
        joints = [("bias of the torque, %", *self.joint_names)]
        joints += [(result.method, *(_format_percent(value) for value in result.bias)) for result in self.results]
        notes = [f"{result.method}: {result.reason}" for result in self.results if result.reason]
        return "\n".join([format_table(lines), "", format_table(joints), *(["", *notes] if notes else [])])

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison in types that JSON can store; None in place of NaN."""
        return {
            "robot": self.robot,
            "joints": list(self.joint_names),
            "setting": asdict(self.setting),
            "seconds": self.seconds,
            "methods": [{name: _to_json(getattr(result, name)) for name in RESULT_KEYS} for result in self.results],
        }


def compare_methods(
    robot: Robot,
    setting: BenchSetting | None = None,
    methods: Sequence[str] | None = None,
    *,
    workers: int = 1,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> MethodComparison:
    """Compare methods on simulated recordings of a robot with known parameters.

    Parameters
    ----------
    robot : Robot
        Robot of the logs.
    setting : BenchSetting, optional
        Settings of the recordings.
    methods : sequence of str, optional
        Names in `BENCH_METHODS`; all by default.
    workers : int
        Number of processes; the results do not depend on it.
    executor : concurrent.futures.Executor, optional
        Used instead of processes.
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
    """
    setting, names = setting or BenchSetting(), tuple(BENCH_METHODS if methods is None else methods)
    for name in names:
        if name not in BENCH_METHODS:
            raise unknown_name_error("method", name, BENCH_METHODS, "there are")
    require_count(workers, "workers")
    start = perf_counter()
    bench = make_bench(robot, setting)
    fits_of: dict[str, list[Repetition]] = {name: [] for name in names}
    for done, fits_by_name in enumerate(_run_repetitions(bench, names, workers, executor), start=1):
        for name, fit in fits_by_name.items():
            fits_of[name].append(fit)
        if progress is not None:
            progress(done, setting.repetitions)
    regressor = Regressor(robot)
    results = tuple(_summarise_method(name, fits, bench, regressor) for name, fits in fits_of.items())
    return MethodComparison(robot.name, robot.primary_names, setting, results, perf_counter() - start)


def _run_repetitions(
    bench: Bench, names: tuple[str, ...], workers: int, executor: Executor | None
) -> Iterator[dict[str, Repetition]]:
    """Yield the fits of every repetition, in order."""
    numbers = range(bench.setting.repetitions)
    if workers == 1 or executor is not None:
        yield from run_tasks(executor, fit_methods, ((bench, number, names) for number in numbers))
        return
    with process_pool(workers, _store_bench, (bench, names)) as pool:
        yield from pool.map(_fit_stored, numbers)


_WORKER_BENCH: list[tuple[Bench, tuple[str, ...]]] = []
"""Bench and methods of a worker process."""


def _store_bench(bench: Bench, names: tuple[str, ...]) -> None:
    _WORKER_BENCH.append((bench, names))


def _fit_stored(number: int) -> dict[str, Repetition]:
    bench, names = _WORKER_BENCH[-1]
    return fit_methods(bench, number, names)


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
            repetitions[name] = Repetition(beta, process_time() - start)
        except MindynError as error:
            repetitions[name] = Repetition(None, process_time() - start, error.message)
    return repetitions


def _summarise_method(name: str, fits: list[Repetition], bench: Bench, regressor: Regressor) -> MethodResult:
    betas = np.array([fit.beta for fit in fits if fit.beta is not None])
    reason = next((fit.reason for fit in fits if fit.beta is None), "")
    seconds = float(np.median([fit.seconds for fit in fits]))
    n, failed, tests = bench.robot.joint_count, len(fits) - len(betas), BENCH_METHODS[name].tests(bench.robot)
    if not len(betas):
        nothing = np.full(n, np.nan)
        return MethodResult(name, nothing, nothing, np.nan, seconds, tests, failed, reason)
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
    return MethodResult(name, bias, spread, parameters, seconds, tests, failed, reason)


def _format_line(result: MethodResult, repetitions: int) -> tuple[str, ...]:
    shown = map(_format_percent, (result.total_bias, result.total_spread, result.parameter_bias))
    return (result.method, *shown, f"{result.seconds:.3f}", str(result.tests), f"{result.failed} of {repetitions}")


def _format_percent(value: float) -> str:
    return "-" if np.isnan(value) else f"{100 * value:.3g}"


def _to_json(value: Any) -> Any:
    """Return an array as a list, and None in place of NaN."""
    if isinstance(value, np.ndarray):
        return [_to_json(v) for v in value.tolist()]
    return None if isinstance(value, float) and not np.isfinite(value) else value
