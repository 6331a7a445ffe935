"""Methods of a comparison on simulated logs: one entry of `BENCH_METHODS` each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from mindyn.comparison.bench_setting import Trial, closing_ranges, make_encoders
from mindyn.estimators.closed_loop_instruments import ClosedLoopInstruments
from mindyn.estimators.energy_difference import EnergyDifference
from mindyn.estimators.estimate import Estimate, Estimator
from mindyn.estimators.instrumental_variables import InstrumentalVariables
from mindyn.estimators.last_link_first import LastLinkFirst
from mindyn.estimators.least_squares import LeastSquares
from mindyn.estimators.output_error import OutputError
from mindyn.estimators.total_least_squares import TotalLeastSquares
from mindyn.regression.rows import build_rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot
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
