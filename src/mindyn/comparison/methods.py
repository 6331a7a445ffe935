"""Ways from a robot and training logs to the torque of other logs, by name: `LOG_METHODS`.

Another method is one file with a `name` and a function `fit(robot, logs)`; `mindyn compare --logs` takes its path:

    name = "mean torque"

    def fit(robot, logs):
        mean = numpy.concatenate([log.tau for log in logs]).mean(axis=0)
        return lambda log: numpy.broadcast_to(mean, log.tau.shape)

It may look at everything in the training logs, and of the log that it predicts at all but `tau`, which it does not get.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from mindyn.algebra.values import Array
from mindyn.comparison.pinocchio_pipeline import fit_with_pinocchio
from mindyn.errors import InputError
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
"""The torque (N, n) of each row of a log, from its motion."""
FitFunction = Callable[[Robot, Sequence[Log]], Predictor]


def _fit_with(estimator: Estimator | None) -> FitFunction:
    return lambda robot, logs: partial(_predict_rows, identify(robot, list(logs), estimator))


def _predict_rows(estimate: Estimate, log: Log) -> Array:
    predicted = predict_log(estimate, log).predicted
    if len(predicted) != len(log):
        raise InputError("the log has gaps or uneven stamps: its samples are not its rows")
    return predicted


LOG_METHODS: Final[Mapping[str, FitFunction]] = {
    "identify": _fit_with(None),
    "weighted": _fit_with(LeastSquares()),
    "consistent": _fit_with(PhysicallyConsistent()),
    **{name: _fit_with(estimator) for name, estimator in METHODS.items()},
    "pinocchio": fit_with_pinocchio,
}
"""`identify` chooses by itself; the rest of ours are its estimators by name; the last is a plain pipeline of others."""


def select_methods(names: Sequence[str] | None) -> dict[str, FitFunction]:
    """Those of `LOG_METHODS`, all where none is named; a path to a Python file adds the method in it."""
    found: dict[str, FitFunction] = {}
    for name in names or LOG_METHODS:
        if name.endswith(".py"):
            found.update([_load_method(Path(name))])
        elif name in LOG_METHODS:
            found[name] = LOG_METHODS[name]
        else:
            raise InputError(
                f"there is no method {name!r}", hint=f"one of {', '.join(LOG_METHODS)}, or a Python file with one"
            )
    return found


def _load_method(path: Path) -> tuple[str, FitFunction]:
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r} with a method")
    try:
        content: dict[str, Any] = runpy.run_path(str(path))
    except Exception as error:  # whatever a stranger's file raises
        raise InputError(f"{path} cannot be run: {describe_exception(error)}") from error
    name, fit = content.get("name"), content.get("fit")
    if not isinstance(name, str) or not callable(fit):
        raise InputError(f"{path} has no method", hint="it needs a text `name` and a function `fit(robot, logs)`")
    return name, fit
