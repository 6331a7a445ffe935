"""`compare_methods`: estimators side by side on one arm, by Monte Carlo: bias, spread, time and human effort.

Every repetition is the same motion with other sensor noise. What a method finds is judged on another, clean motion:

    bias    rms over the motion of (mean over repetitions of Y beta) - tau, as part of the rms torque of the joint
    spread  rms over motion and repetitions of Y beta - (mean of Y beta), likewise
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from time import perf_counter, process_time
from typing import Any

import numpy as np

from mindyn.algebra.values import Array
from mindyn.comparison.bench_methods import BENCH_METHODS
from mindyn.comparison.bench_setting import Bench, BenchSetting, make_bench
from mindyn.errors import MindynError, unknown_name_error
from mindyn.executors import process_pool, run_tasks
from mindyn.regression.regressor import Regressor
from mindyn.robots.robot import Robot
from mindyn.robots.table import format_table
from mindyn.simulation.inputs import require_count

Progress = Callable[[int, int], None]
"""Called with repetitions done, and all of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Repetition:
    """What a method made of one repetition: values of the structural base set, or the reason why there are none."""

    beta: Array | None
    seconds: float
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class MethodResult:
    """One line of the comparison; parts of 1.

    bias, spread      (n,) for each joint (see the module); NaN where no repetition succeeded; one has no spread
    parameter_bias    |mean beta - beta| / |beta| with parameters in units of the torque that they cause
    seconds           of processor time for one fit, the median
    tests             that a person makes: one recording, or those of a plan, each of one or more motions
    failed, reason    repetitions without a result, and why the first of them has none
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
        """Root mean square of the joints' biases."""
        return float(np.sqrt(np.mean(self.bias**2)))

    @property
    def total_spread(self) -> float:
        """Root mean square of the joints' spreads."""
        return float(np.sqrt(np.mean(self.spread**2)))


@dataclass(frozen=True, slots=True, eq=False)
class MethodComparison:
    """All methods on one arm."""

    robot: str
    joint_names: tuple[str, ...]
    setting: BenchSetting
    results: tuple[MethodResult, ...]
    seconds: float

    def __getitem__(self, method: str) -> MethodResult:
        for one in self.results:
            if one.method == method:
                return one
        raise unknown_name_error("method", method, (one.method for one in self.results), "there are")

    def table(self) -> str:
        """A line for each method, then the biases joint by joint."""
        head = ("method", "bias %", "spread %", "param. bias %", "time s", "tests", "failed")
        lines = [head, *(_format_line(one, self.setting.repetitions) for one in self.results)]
        joints = [("bias of the torque, %", *self.joint_names)]
        joints += [(one.method, *(_format_percent(value) for value in one.bias)) for one in self.results]
        notes = [f"{one.method}: {one.reason}" for one in self.results if one.reason]
        return "\n".join([format_table(lines), "", format_table(joints), *(["", *notes] if notes else [])])

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it; null in place of NaN."""
        return {
            "robot": self.robot,
            "joints": list(self.joint_names),
            "setting": asdict(self.setting),
            "seconds": self.seconds,
            "methods": [
                {
                    "method": one.method,
                    "bias": _format_numbers(one.bias),
                    "spread": _format_numbers(one.spread),
                    "total_bias": _format_numbers([one.total_bias])[0],
                    "total_spread": _format_numbers([one.total_spread])[0],
                    "parameter_bias": _format_numbers([one.parameter_bias])[0],
                    "seconds": one.seconds,
                    "tests": one.tests,
                    "failed": one.failed,
                    "reason": one.reason,
                }
                for one in self.results
            ],
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
    """The comparison of methods (names of `BENCH_METHODS`; all if left out) on a robot whose values are known.

    workers   processes that share the repetitions; the numbers do not depend on how many
    executor  any `concurrent.futures.Executor` in their place
    """
    setting, names = setting or BenchSetting(), tuple(BENCH_METHODS if methods is None else methods)
    for name in names:
        if name not in BENCH_METHODS:
            raise unknown_name_error("method", name, BENCH_METHODS, "there are")
    require_count(workers, "workers")
    start = perf_counter()
    bench = make_bench(robot, setting)
    found: dict[str, list[Repetition]] = {name: [] for name in names}
    for done, one in enumerate(_run_repetitions(bench, names, workers, executor), start=1):
        for name, fitted in one.items():
            found[name].append(fitted)
        if progress is not None:
            progress(done, setting.repetitions)
    regressor = Regressor(robot)
    results = tuple(_summarise_method(name, fits, bench, regressor) for name, fits in found.items())
    return MethodComparison(robot.name, robot.primary_names, setting, results, perf_counter() - start)


def _run_repetitions(
    bench: Bench, names: tuple[str, ...], workers: int, executor: Executor | None
) -> Iterator[dict[str, Repetition]]:
    """The fits of every repetition, in order."""
    numbers = range(bench.setting.repetitions)
    if workers == 1 or executor is not None:
        yield from run_tasks(executor, fit_methods, ((bench, number, names) for number in numbers))
        return
    with process_pool(workers, _store_bench, (bench, names)) as pool:
        yield from pool.map(_fit_stored, numbers)


_WORKER_BENCH: list[tuple[Bench, tuple[str, ...]]] = []
"""What a worker process works on."""


def _store_bench(bench: Bench, names: tuple[str, ...]) -> None:
    _WORKER_BENCH.append((bench, names))


def _fit_stored(number: int) -> dict[str, Repetition]:
    bench, names = _WORKER_BENCH[-1]
    return fit_methods(bench, number, names)


def fit_methods(bench: Bench, number: int, names: Iterable[str]) -> dict[str, Repetition]:
    """Every method on one recording."""
    trial = bench.trial(number)
    base = Regressor(bench.robot).base
    found = {}
    for name in names:
        start = process_time()
        try:
            estimate = BENCH_METHODS[name].fit(trial)
            beta = estimate.base.transform_to(base) @ estimate.base_values
            found[name] = Repetition(beta, process_time() - start)
        except MindynError as error:
            found[name] = Repetition(None, process_time() - start, error.message)
    return found


def _summarise_method(name: str, fits: list[Repetition], bench: Bench, regressor: Regressor) -> MethodResult:
    betas = np.array([one.beta for one in fits if one.beta is not None])
    reason = next((one.reason for one in fits if one.beta is None), "")
    seconds = float(np.median([one.seconds for one in fits]))
    n, failed, tests = len(bench.robot.primary_names), len(fits) - len(betas), BENCH_METHODS[name].tests(bench.robot)
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


def _format_line(one: MethodResult, repetitions: int) -> tuple[str, ...]:
    shown = (_format_percent(one.total_bias), _format_percent(one.total_spread), _format_percent(one.parameter_bias))
    return (one.method, *shown, f"{one.seconds:.3f}", str(one.tests), f"{one.failed} of {repetitions}")


def _format_percent(value: float) -> str:
    return "-" if np.isnan(value) else f"{100 * value:.3g}"


def _format_numbers(values: Iterable[float]) -> list[float | None]:
    return [float(v) if np.isfinite(v) else None for v in values]
