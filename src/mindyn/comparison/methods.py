"""Methods that map a robot and training logs to the torque of other logs, by name: `LOG_METHODS`.

A further method is a file with a `name` and a function `fit(robot, logs)`; `mindyn compare --logs` takes its path:

    name = "mean torque"

    def fit(robot, logs):
        mean = numpy.concatenate([log.tau for log in logs]).mean(axis=0)
        return lambda log: numpy.broadcast_to(mean, log.tau.shape)

It may use everything in the training logs. The log to predict comes without `tau`.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from mindyn.algebra.values import Array
from mindyn.comparison.pinocchio_pipeline import fit_with_pinocchio
from mindyn.errors import Code, InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimator import Estimator
from mindyn.estimators.least_squares import LeastSquares
from mindyn.feasibility.physically_consistent import PhysicallyConsistent
from mindyn.identification.identify import identify
from mindyn.identification.methods import METHODS
from mindyn.logs.log import Log
from mindyn.reading import describe_exception
from mindyn.robots.robot import Robot
from mindyn.validation.prediction import predict_log

Predictor = Callable[[Log], Array]
"""Function that returns the torque (N, n) of each row of a log, from its motion."""
FitFunction = Callable[[Robot, Sequence[Log]], Predictor]


def _fit_with(estimator: Estimator | None) -> FitFunction:
    return lambda robot, logs: partial(_predict_rows, identify(robot, list(logs), estimator))


def _predict_rows(estimate: Estimate, log: Log) -> Array:
    predicted = predict_log(estimate, log).predicted
    if len(predicted) != len(log):
        raise InputError(
            "the log has segments that are too short to be conditioned, so some of its rows have no prediction",
            code=Code.UNSUPPORTED,
            subject="log",
        )
    return predicted


LOG_METHODS: Final[Mapping[str, FitFunction]] = {
    "identify": _fit_with(None),
    "weighted": _fit_with(LeastSquares()),
    "consistent": _fit_with(PhysicallyConsistent()),
    **{name: _fit_with(estimator) for name, estimator in METHODS.items()},
    "pinocchio": fit_with_pinocchio,
}
"""`identify` selects an estimator; the next entries are single estimators; the last is a pipeline with Pinocchio."""


def select_methods(names: Sequence[str] | None) -> dict[str, FitFunction]:
    """Return the named methods, by default all `LOG_METHODS`; a path to a Python file adds its method."""
    methods: dict[str, FitFunction] = {}
    for name in names or LOG_METHODS:
        if name.endswith(".py"):
            methods.update([_load_method(Path(name))])
        elif name in LOG_METHODS:
            methods[name] = LOG_METHODS[name]
        else:
            raise InputError(
                f"no method {name!r}",
                hint=f"use one of {', '.join(LOG_METHODS)}, or the path of a Python file with a method",
                code=Code.UNKNOWN_NAME,
                subject=name,
            )
    return methods


def _load_method(path: Path) -> tuple[str, FitFunction]:
    if not path.is_file():
        raise InputError(f"no file {str(path)!r} with a method", code=Code.MISSING_FILE, subject=path)
    try:
        content: dict[str, Any] = runpy.run_path(str(path))
    except Exception as error:  # a third-party file may raise anything
        raise InputError(
            f"{path} cannot be run: {describe_exception(error)}", code=Code.UNREADABLE, subject=path
        ) from error
    name, fit = content.get("name"), content.get("fit")
    if not isinstance(name, str) or not callable(fit):
        raise InputError(
            f"{path} has no method",
            hint="the file must define a string `name` and a function `fit(robot, logs)`",
            code=Code.WRONG_FORMAT,
            subject=path,
        )
    return name, fit
