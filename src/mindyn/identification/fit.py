"""Fit the rows of the logs, and iterate until the load of load-dependent friction settles."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
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
"""Largest number of fits that update the reference of load-dependent friction."""
MAX_SETTLED_CHANGE: Final = 0.01
"""Rms change of the load, relative to it, below which the friction, about a tenth of it, does not change."""
MIN_UNSETTLED_CHANGE: Final = 0.05
"""The same for the load of a single joint; a larger change causes a finding."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Robot, logs and workers of a fit."""

    robot: Robot
    logs: Logs
    executor: Executor | None
    gpu: bool

    def run(self, choice: Choice, *, is_given: bool) -> tuple[Estimate, Rows]:
        """Fit by the selected estimator; use least squares if a selected consistent fit does not converge.

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
            dropped = tuple(name for name in choice.dropped if name in rows.regressor.names)
            covariance: Literal["white", "correlated"] = "white" if self.executor else "correlated"
            plain = LeastSquares(covariance=covariance, dropped=dropped, friction="dissipative")
            estimate, rows = self._settle(plain, rows)
            message = f"a physically consistent fit was selected, but {error}: the values are those of least squares"
            return replace(estimate, findings=(*estimate.findings, warning(Kind.SELECTED_ESTIMATOR, message))), rows

    def _rows(self, settings: EquationSettings) -> Rows:
        """Build the equations, without torques that never change."""
        rows = build_rows(self.robot, self.logs, settings, executor=self.executor, gpu=self.gpu)
        is_streamed = any(isinstance(log, LogScan) for log in list_logs(self.logs) or ())
        return rows.without_constant_torques() if is_streamed else rows

    def _settle(self, estimator: Estimator, rows: Rows) -> tuple[Estimate, Rows]:
        """Repeat the fit with its own values as the reference of load-dependent friction until the load settles.

        The estimate stores its own values as the reference, so that a robot built from it has the same torques. The
        last change of the load is below `MAX_SETTLED_CHANGE`, and friction is only a part of the load.
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
    """Return the logs with zeros for torques that never change, if all rows are in memory."""
    listed = list_logs(logs)
    in_memory = [log for log in listed or () if isinstance(log, Log)]
    return without_constant_torques(in_memory) if listed is not None and len(in_memory) == len(listed) else logs


def load_change(rows: Rows, estimate: Estimate) -> tuple[Array, Array]:
    """Return (n,) squares of the change of each joint's load, from the rows' reference to the estimate, and of the
    load.

    Both are zero if no friction depends on the load.
    """
    squares = np.zeros((2, len(rows.regressor.columns)))
    if rows.regressor.friction.needs_load:
        count, rigid = rows.regressor.base.count, rows.regressor.rigid
        reference = np.zeros(len(estimate.beta))
        reference[:count] = rows.regressor.friction.reference
        information = rows.information
        for k, difference in enumerate((estimate.beta - reference, reference)):
            values = np.where(rigid, difference, 0.0)
            for joint, (columns, factor) in enumerate(zip(information.columns, information.factors, strict=True)):
                squares[k, joint] = float(((factor[:, :-1] @ values[columns]) ** 2).sum())
    return squares[0], squares[1]


def find_unsettled_loads(rows: Rows, estimate: Estimate) -> list[Finding]:
    """Find joints whose load changed noticeably in the last fit: a small load next to large ones settles slowly."""
    changes = zip(rows.regressor.joint_names, *load_change(rows, estimate), strict=True)
    names = tuple(name for name, change, load in changes if change > MIN_UNSETTLED_CHANGE**2 * load > 0)
    if not names:
        return []
    message = (
        f"the load of {', '.join(names)} has not settled: its load-dependent friction is less certain than its interval"
    )
    return [replace(warning(Kind.NARROW_INTERVALS, message), joints=names)]


def without_samples(estimator: Estimator, *, is_given: bool) -> Estimator:
    """Return the estimator without its need for samples, which stay with the workers; raise if the user gave one."""
    if estimator.needs == "information":
        return estimator
    if not is_given and isinstance(estimator, (LeastSquares, PhysicallyConsistent)):
        return replace(estimator, covariance="white")
    raise InputError(
        f"{type(estimator).__name__} with these settings needs the samples, which stay with the executor's workers",
        hint='use LeastSquares(covariance="white", robust=False), which needs only R factors; or omit executor=',
        code=Code.UNSUPPORTED,
        subject="executor",
    )
