"""Methods that map a robot and training logs to the torque of other logs, by name: `LOG_METHODS`.

A further method is a file with a `name` and a function `fit(robot, logs)`; `mindyn compare --logs` takes its path:

    name = "mean torque"

    def fit(robot, logs):
        mean = numpy.concatenate([log.tau for log in logs]).mean(axis=0)
        return lambda log: numpy.broadcast_to(mean, log.tau.shape)

It may use everything in the training logs. The log to predict comes without `tau`. The returned function may be an
object with two more members: `bands(log)` returns lower and upper torque (95 %), and `is_consistent` states whether
the parameters are physically consistent.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, require_choice
from mindyn.foundation.safe_reading import describe_exception
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimator import Estimator
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.feasibility.check_feasible import check_feasible
from mindyn.identification.feasibility.fits.physically_consistent import PhysicallyConsistent
from mindyn.identification.identify import identify
from mindyn.identification.method_names import METHODS
from mindyn.identification.prediction.prediction import TorquePrediction, predict_log
from mindyn.identification.prediction.torque_bands import torque_bands
from mindyn.logs.log import Log
from mindyn.robots.robot import Robot

Predictor = Callable[[Log], Array]
"""Function that returns the torque (N, n) of each row of a log, from its motion."""
FitFunction = Callable[[Robot, Sequence[Log]], Predictor]


class EstimatePredictor:
    """Torque and 95 % bands of a log by an estimate, at the logged time stamps."""

    def __init__(self, estimate: Estimate) -> None:
        self.estimate = estimate
        self.is_consistent = check_feasible(estimate).consistent.holds

    def __call__(self, log: Log) -> Array:
        """Return the torque (N, n) of each row."""
        return self._predict(log).predicted

    def bands(self, log: Log) -> tuple[Array, Array]:
        """Return lower and upper measured torque (N, n) of each row."""
        prediction = self._predict(log)
        lower, upper = torque_bands(self.estimate, self.estimate.samples_of(log), noise=True)
        half_width = (upper - lower) / 2
        if len(half_width) != len(log):  # uneven stamps
            time = self.estimate.condition_log(log).time
            half_width = np.column_stack([np.interp(log.time, time, column) for column in half_width.T])
        return prediction.predicted - half_width, prediction.predicted + half_width

    def _predict(self, log: Log) -> TorquePrediction:
        prediction = predict_log(self.estimate, log)
        if len(prediction.predicted) != len(log):
            raise InputError(
                "the log has segments that are too short to be conditioned, so some of its rows have no prediction",
                code=Code.UNSUPPORTED,
                subject="log",
            )
        return prediction


def _fit_with(estimator: Estimator | None) -> FitFunction:
    return lambda robot, logs: EstimatePredictor(identify(robot, list(logs), estimator))


LOG_METHODS: Final[Mapping[str, FitFunction]] = {
    "identify": _fit_with(None),
    "weighted": _fit_with(LeastSquares()),
    "consistent": _fit_with(PhysicallyConsistent()),
    **{name: _fit_with(estimator) for name, estimator in METHODS.items()},
}
"""`identify` selects an estimator; the other entries are single estimators."""


def require_methods(names: Sequence[str]) -> None:
    """Raise if a name is neither one of `LOG_METHODS` nor an existing Python file; run nothing."""
    for name in names:
        if name.endswith(".py"):
            if not Path(name).is_file():
                raise InputError(f"no file {name!r} with a method", code=Code.MISSING_FILE, subject=name)
        else:
            require_choice(name, LOG_METHODS, "a method that is not the path of a Python file")


def load_method(name: str) -> tuple[str, FitFunction]:
    """Return the name and the fit function of a method; a Python file is run."""
    require_methods([name])
    if name in LOG_METHODS:
        return name, LOG_METHODS[name]
    try:
        content: dict[str, Any] = runpy.run_path(name)
    except Exception as error:  # a third-party file may raise anything
        raise InputError(
            f"{name} cannot be run: {describe_exception(error)}", code=Code.UNREADABLE, subject=name
        ) from error
    title, fit = content.get("name"), content.get("fit")
    if not isinstance(title, str) or not callable(fit):
        raise InputError(
            f"{name} has no method",
            hint="the file must define a string `name` and a function `fit(robot, logs)`",
            code=Code.WRONG_FORMAT,
            subject=name,
        )
    return title, fit
