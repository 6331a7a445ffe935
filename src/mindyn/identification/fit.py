"""Fit the rows of the logs; load-dependent friction takes its load from the fit itself, until that settles."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimator import Estimator
from mindyn.estimators.least_squares import LeastSquares
from mindyn.feasibility.conic import ConicError
from mindyn.feasibility.physically_consistent import PhysicallyConsistent
from mindyn.findings import Finding, Kind, warning
from mindyn.identification.diagnostics.torque import without_constant_torques
from mindyn.identification.selection.choose import Choice
from mindyn.logs.log import Log
from mindyn.logs.reading import LogScan
from mindyn.regression.rows import Logs, Rows, build_rows, list_logs
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot

MAX_REFITS: Final = 5
"""How often, at most, the fit gives load-dependent friction another reference."""
MAX_SETTLED_CHANGE: Final = 0.01
"""Rms change of the load relative to it, below which friction, a tenth or so of it, does not change."""
MIN_UNSETTLED_CHANGE: Final = 0.05
"""The same of one joint's load, from which on there is a finding."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How the logs of a robot become an estimate."""

    robot: Robot
    logs: Logs
    executor: Executor | None
    gpu: bool

    def run(self, choice: Choice, *, is_given: bool) -> tuple[Estimate, Rows]:
        """Fit; least squares take over where a consistent fit that was selected does not converge.

        is_given  whether the user gave the estimator
        """
        estimator = choice.estimator
        if self.executor is not None:
            estimator = without_samples(estimator, is_given=is_given)
        rows = self._rows(choice.settings)
        try:
            return self._settle(estimator, rows)
        except ConicError as error:
            if is_given:
                raise
            plain = LeastSquares(covariance="white" if self.executor else "correlated", dropped=choice.dropped)
            estimate, rows = self._settle(plain, rows)
            message = f"a physically consistent fit was selected, but {error}: the values are those of least squares"
            return replace(estimate, findings=(*estimate.findings, warning(Kind.SELECTED_ESTIMATOR, message))), rows

    def _rows(self, settings: EquationSettings) -> Rows:
        """Return the equations, without torques that never change."""
        rows = build_rows(self.robot, self.logs, settings, executor=self.executor, gpu=self.gpu)
        is_streamed = any(isinstance(log, LogScan) for log in list_logs(self.logs) or ())
        return rows.without_constant_torques() if is_streamed else rows

    def _settle(self, estimator: Estimator, rows: Rows) -> tuple[Estimate, Rows]:
        """Repeat the fit with its own values as the reference of load-dependent friction until the load settles.

        The estimate stores its own values as the reference, so that its torques are those of a robot made of it; the
        last change of the load, below `MAX_SETTLED_CHANGE`, is within the part of it that is friction.
        """
        estimate = estimator.fit(rows)
        for _ in range(MAX_REFITS):
            change, load = load_change(rows, estimate)
            if np.sqrt(change.sum() / max(load.sum(), 1e-300)) < MAX_SETTLED_CHANGE:
                break
            rows = self._rows(estimate.with_own_load().settings)
            estimate = estimator.fit(rows)
        findings = (*estimate.findings, *find_unsettled_loads(rows, estimate))
        return replace(estimate.with_own_load(), findings=findings), rows


def zero_constant_torques(logs: Logs) -> Logs:
    """Return the logs with zero for torques that never change, if all of their rows are in memory."""
    listed = list_logs(logs)
    in_memory = [log for log in listed or () if isinstance(log, Log)]
    return without_constant_torques(in_memory) if listed is not None and len(in_memory) == len(listed) else logs


def load_change(rows: Rows, estimate: Estimate) -> tuple[Array, Array]:
    """Return (n,) squares of the change of every joint's load, from the rows' reference to the estimate, and of it.

    Both are zero if no friction depends on the load.
    """
    squares = np.zeros((2, len(rows.regressor.columns)))
    if rows.regressor.friction.needs_load:
        count, rigid = rows.regressor.base.count, rows.regressor.rigid
        reference = np.zeros(len(estimate.beta))
        reference[:count] = rows.regressor.friction.reference
        information = rows.information
        for k, one in enumerate((estimate.beta - reference, reference)):
            values = np.where(rigid, one, 0.0)
            for joint, (columns, factor) in enumerate(zip(information.columns, information.factors, strict=True)):
                squares[k, joint] = float(((factor[:, :-1] @ values[columns]) ** 2).sum())
    return squares[0], squares[1]


def find_unsettled_loads(rows: Rows, estimate: Estimate) -> list[Finding]:
    """Find joints whose own load changed by much in the last fit: a small one next to others settles slowly."""
    changes = zip(rows.regressor.joint_names, *load_change(rows, estimate), strict=True)
    names = tuple(name for name, change, load in changes if change > MIN_UNSETTLED_CHANGE**2 * load > 0)
    if not names:
        return []
    message = (
        f"the load of {', '.join(names)} has not settled: friction that grows with it is less certain than its interval"
    )
    return [replace(warning(Kind.NARROW_INTERVALS, message), joints=names)]


def without_samples(estimator: Estimator, *, is_given: bool) -> Estimator:
    """Return the estimator as workers can use it, who keep the rows; raise if one that needs rows was given."""
    if estimator.needs == "information":
        return estimator
    if not is_given and isinstance(estimator, (LeastSquares, PhysicallyConsistent)):
        return replace(estimator, covariance="white")
    raise InputError(
        f"{type(estimator).__name__} as it is set needs the samples themselves, which stay with the executor's workers",
        hint='LeastSquares(covariance="white", robust=False) needs R factors alone; or leave executor= out',
    )
