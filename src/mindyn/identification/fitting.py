"""Fit the equations of an experiment, and repeat the fit until the load of load-dependent friction converges."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.findings import Finding, Kind, warning
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimator import Estimator
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.feasibility.fits.physically_consistent import PhysicallyConsistent
from mindyn.identification.feasibility.optimisation.conic_program import ConicError
from mindyn.identification.selection.candidates import limits_of
from mindyn.identification.selection.choose import Choice
from mindyn.regression.experiment import Experiment
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings

MAX_REFITS: Final = 5
"""Largest number of fits that update the reference of load-dependent friction."""
MAX_SETTLED_CHANGE: Final = 0.01
"""Relative rms change of the load below which the fits have converged; friction is about a tenth of the load."""
MIN_UNSETTLED_CHANGE: Final = 0.05
"""Relative change of the load of a single joint above which there is a finding."""


def fit(experiment: Experiment, choice: Choice, *, estimator_is_given: bool) -> tuple[Estimate, Rows]:
    """Fit with the selected estimator, or with least squares if a selected consistent fit does not converge.

    estimator_is_given  whether the user gave the estimator
    """
    estimator = choice.estimator
    if experiment.executor is not None:
        estimator = without_samples(estimator, estimator_is_given=estimator_is_given)
    rows = build_equations(experiment, choice.settings)
    try:
        return _fit_until_load_converges(experiment, estimator, rows)
    except ConicError as error:
        if estimator_is_given:
            raise
        dropped = tuple(name for name in choice.dropped if name in rows.regressor.names)
        covariance: Literal["white", "correlated"] = "white" if experiment.executor else "correlated"
        plain = LeastSquares(covariance=covariance, dropped=dropped, friction_rule=limits_of(choice.settings))
        estimate, rows = _fit_until_load_converges(experiment, plain, rows)
        message = f"a physically consistent fit was selected, but {error}: the values are those of least squares"
        finding = warning(Kind.SELECTED_ESTIMATOR, message, "Export them with --feasible, which makes them consistent")
        return estimate.with_provenance(findings=(*estimate.findings, finding)), rows


def build_equations(experiment: Experiment, settings: EquationSettings) -> Rows:
    """Build the equations, without torques that never change."""
    rows = experiment.equations(settings)
    return rows.without_constant_torques() if experiment.is_streamed else rows


def _fit_until_load_converges(experiment: Experiment, estimator: Estimator, rows: Rows) -> tuple[Estimate, Rows]:
    """Repeat the fit until the load converges; each fit takes the values of the previous fit as reference of
    load-dependent friction.

    The estimate stores its values as the reference of the load, so that a robot built from it has the same torques.
    """
    estimate = estimator.fit(rows)
    for _ in range(MAX_REFITS):
        change, load = load_change(rows, estimate)
        if np.sqrt(change.sum() / max(load.sum(), 1e-300)) < MAX_SETTLED_CHANGE:
            break
        rows = build_equations(experiment, estimate.with_own_load().settings)
        estimate = estimator.fit(rows)
    findings = (*estimate.findings, *find_unsettled_loads(rows, estimate))
    return estimate.with_own_load().with_provenance(findings=findings), rows


def load_change(rows: Rows, estimate: Estimate) -> tuple[Array, Array]:
    """Return the squares (n,) of the change of each joint's load, and of the load itself.

    The load is computed with the reference values of the rows, and with the values of the estimate. Both squares are
    zero if no friction depends on the load.
    """
    squares = np.zeros((2, len(rows.regressor.columns)))
    if rows.regressor.friction.needs_load:
        reference = np.zeros(len(estimate.beta))
        reference[: rows.regressor.base.count] = rows.regressor.friction.reference
        values = np.where(rows.regressor.rigid, [estimate.beta - reference, reference], 0.0)
        squares = rows.information.without_torques([True] * squares.shape[1]).residuals(values)
    return squares[0], squares[1]


def find_unsettled_loads(rows: Rows, estimate: Estimate) -> list[Finding]:
    """Find joints whose load changed noticeably in the last fit.

    (A small load converges slowly if other loads are large.)
    """
    changes = zip(rows.regressor.joint_names, *load_change(rows, estimate), strict=True)
    names = tuple(name for name, change, load in changes if change > MIN_UNSETTLED_CHANGE**2 * load > 0)
    if not names:
        return []
    message = (
        f"the load of {', '.join(names)} has not settled: its load-dependent friction is less certain than its interval"
    )
    remedy = "Move these joints against gravity or with a payload, where their load is large, and identify again"
    return [warning(Kind.NARROW_INTERVALS, message, remedy, names)]


def without_samples(estimator: Estimator, *, estimator_is_given: bool) -> Estimator:
    """Return the estimator in a form that needs no samples, which stay in the workers.

    Raise an error if the user gave the estimator.
    """
    if estimator.needs == "information":
        return estimator
    if not estimator_is_given and isinstance(estimator, (LeastSquares, PhysicallyConsistent)):
        return replace(estimator, covariance="white")
    raise InputError(
        f"{type(estimator).__name__} with these settings needs the samples, which stay with the executor's workers",
        hint='use LeastSquares(covariance="white", robust=False), which needs only R factors; or omit executor=',
        code=Code.UNSUPPORTED,
        subject="executor",
    )
