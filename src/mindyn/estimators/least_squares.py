"""`LeastSquares`: weighted least squares, with weights from the residuals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError, require_choice
from mindyn.estimators.covariance import Colouring, coloured_covariance_of, colouring_of, sandwich
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimator import Estimator, Needs
from mindyn.regression.friction_limits import friction_limits, with_shape_priors
from mindyn.regression.information import Information, Solution, solve
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import gather
from mindyn.regression.rows import Rows, SampleBlocks

Weights = Literal["joint", "ordinary"]
REWEIGHTINGS: Final = 10
WEIGHTS_FINAL: Final = 1e-6
"""Relative change below which weights are final: values are then within 2e-11 of the limit."""
HUBER: Final = 1.345
"""Residuals beyond this multiple of their deviation count linearly: 95 % efficiency for normal noise [Huber 1981]."""
ROBUST_PASSES: Final = 8


@dataclass(frozen=True, slots=True)
class LeastSquares(Estimator):
    """Least-squares fit.

    Parameters
    ----------
    weights : "joint", "ordinary" or tuple of n float
        "joint": 1 / residual variance of each joint, iterated; "ordinary": equal weights.
    robust : bool
        Whether to use Huber's weights on rows, iterated in several passes over the samples.
    covariance : "white" or "correlated"
        "correlated" models the residuals of each joint as an autoregressive process.
    dropped : tuple of str
        Names of parameters that are set to zero.
    friction : "free" or "dissipative"
        "dissipative": friction takes power and rises with the speed up to the velocity limit, and shapes that the data
        do not determine are small (see `mindyn.regression.friction_limits`).
    """

    weights: Weights | tuple[float, ...] = "joint"
    robust: bool = False
    covariance: Literal["white", "correlated"] = "white"
    dropped: tuple[str, ...] = ()
    friction: Literal["free", "dissipative"] = "free"

    def __post_init__(self) -> None:
        require_choice(self.friction, ("free", "dissipative"), "friction")
        if isinstance(self.weights, str) and self.weights not in ("joint", "ordinary"):
            raise InputError(
                f'weights must be "joint", "ordinary", or a number for each joint; got {self.weights!r}',
                code=Code.INVALID_VALUE,
                subject="weights",
            )
        if self.covariance not in ("white", "correlated"):
            message = f'covariance must be "white" or "correlated"; got {self.covariance!r}'
            raise InputError(message, code=Code.INVALID_VALUE, subject="covariance")

    @property
    def needs(self) -> Needs:
        """Either "samples", for a robust fit or "correlated" covariance, or "information"."""
        return "samples" if self.robust or self.covariance == "correlated" else "information"

    def fit(self, rows: Rows) -> Estimate:
        """Fit the rows; robust fits and "correlated" covariance read a stream several times (see `SampleStream`)."""
        names = rows.regressor.names
        unknown = [name for name in self.dropped if name not in names]
        if unknown:
            message = f"dropped: no parameter {', '.join(unknown)}; there are: {', '.join(names)}"
            raise InputError(message, code=Code.UNKNOWN_NAME, subject=unknown[0])
        samples = rows.repeatable_samples if self.needs == "samples" else None
        information = rows.information
        fitted = self._fit_weighted(information, rows.constant_torques, rows.regressor)
        if samples is not None and self.robust:
            information, fitted = self._fit_robust(rows, samples, information, fitted)
        if samples is not None and self.covariance == "correlated":
            settings = rows.settings
            colouring = colouring_of(rows.regressor, fitted.beta, samples, settings.cutoff_hz, settings.step)
            fitted = self._fit_coloured(rows, samples, information, fitted, colouring)
        return _estimate(self, rows, information, fitted)

    def _fit_weighted(
        self,
        information: Information,
        constant: NDArray[np.bool_] | bool = False,
        regressor: Regressor | None = None,
    ) -> WeightedFit:
        """Fit with one weight per joint, iterated if the weights come from the residuals.

        A joint whose torque never changes, for example without a sensor or a motor, has no weight: a small weight would
        diverge in the iteration. Its rows only determine directions that the other joints leave open.
        """
        kept = np.array([name not in self.dropped for name in information.names])
        n = len(information.factors)
        weights = np.ones(n) if isinstance(self.weights, str) else np.array(self.weights, dtype=np.float64)
        if weights.shape != (n,):
            message = f"weights must have one number for each of {n} joints; got {len(weights)}"
            raise InputError(message, code=Code.WRONG_SHAPE, subject="weights")
        alive = information.measured() & np.logical_not(constant)
        limited = regressor if self.friction == "dissipative" else None
        if self.weights == "joint":  # start from the torques: next to 1e4 Nm, a joint of 1e-4 Nm is rounding
            weights = np.where(alive, np.array(information.counts) / information.torque_sizes(), 0.0)
        fitted = _solve_weighted(information, weights, kept, limited)
        for _ in range(REWEIGHTINGS if self.weights == "joint" else 0):
            before, weights = weights, np.where(alive, 1 / fitted.variances, 0.0)
            fitted = _solve_weighted(information, weights, kept, limited)
            if (np.abs(weights - before) <= WEIGHTS_FINAL * before).all():
                break
        return fitted

    def _fit_robust(
        self, rows: Rows, samples: SampleBlocks, information: Information, fitted: WeightedFit
    ) -> tuple[Information, WeightedFit]:
        regressor, settings = rows.regressor, rows.settings
        for _ in range(ROBUST_PASSES):
            beta, sigma = fitted.beta, np.sqrt(fitted.variances)

            def weight(joint: int, rows: Array, beta: Array = beta, sigma: Array = sigma) -> Array:
                residual = np.abs(rows @ np.append(beta[regressor.columns[joint]], -1.0))
                return np.asarray(np.minimum(1.0, HUBER * sigma[joint] / np.maximum(residual, 1e-300)))

            information = gather(
                regressor, samples, cutoff_hz=settings.cutoff_hz, decimation=settings.step, row_weight=weight
            )
            fitted = self._fit_weighted(information, rows.constant_torques, rows.regressor)
            if np.abs(fitted.beta - beta).max() <= WEIGHTS_FINAL * np.abs(beta).max():
                break
        return information, fitted

    def _fit_coloured(
        self, rows: Rows, samples: SampleBlocks, information: Information, fitted: WeightedFit, colouring: Colouring
    ) -> WeightedFit:
        cutoff, step = rows.settings.cutoff_hz, rows.settings.step
        spread = coloured_covariance_of(rows.regressor, samples, colouring, fitted.weights, cutoff, step)
        residuals = information.residuals(fitted.beta)  # none at a joint without torque
        inflation = fitted.variances * np.array(information.counts) / np.where(residuals > 0, residuals, np.inf)
        total = sum(scale * meat for scale, meat in zip(inflation, spread, strict=True))
        covariance = sandwich(fitted.inverse, np.asarray(total))
        return replace(fitted, covariance=covariance, correlations=colouring.neighbours)


@dataclass(frozen=True, slots=True, eq=False)
class WeightedFit:
    """beta, its covariance, the inverse of the weighted normal matrix, rank, and each joint's variance and weight."""

    beta: Array
    covariance: Array
    inverse: Array
    rank: int
    variances: Array
    weights: Array
    kept: NDArray[np.bool_]
    correlations: tuple[float, ...] | None = None


def _solve_weighted(
    information: Information, weights: Array, kept: NDArray[np.bool_], limited: Regressor | None
) -> WeightedFit:
    """Fit with given weights; `limited` is the regressor if friction is limited."""
    R, z = information.stacked(weights)
    if limited is not None:
        R, z = with_shape_priors(information, weights, limited.parameters)
    idle = information.unused_columns(weights)
    part: Solution = solve(R[:, kept], z, idle and (idle[0][:, kept], idle[1]))
    p = len(kept)
    beta, inverse = np.zeros(p), np.zeros((p, p))
    beta[kept] = part.beta
    inverse[np.ix_(kept, kept)] = part.inverse
    if limited is not None:
        beta = friction_limits(limited).apply(R[:, kept].T @ R[:, kept], beta, np.flatnonzero(kept))
    variances = _variances(information, beta, inverse, weights)
    meat = np.zeros((p, p))
    for columns, factor, weight, variance in zip(
        information.columns, information.factors, weights, variances, strict=True
    ):
        meat[np.ix_(columns, columns)] += weight**2 * variance * (factor[:, :-1].T @ factor[:, :-1])
    return WeightedFit(beta, sandwich(inverse, meat), inverse, part.rank, variances, weights, kept)


def _variances(information: Information, beta: Array, inverse: Array, weights: Array) -> Array:
    """Return (n,) the residual variance of each joint over its rows minus its leverage."""
    residuals, variances = information.residuals(beta), []
    floor = 1e-30 * information.torque_sizes()
    for i, (columns, factor) in enumerate(zip(information.columns, information.factors, strict=True)):
        Y = factor[:, :-1]
        leverage = weights[i] * float(np.einsum("ij,jk,ik->", Y, inverse[np.ix_(columns, columns)], Y))
        freedom = max(1.0, information.counts[i] - leverage)
        variances.append(max(residuals[i], floor[i]) / freedom)
    return np.array(variances)


def _estimate(settings: LeastSquares, rows: Rows, information: Information, fit: WeightedFit) -> Estimate:
    estimate = Estimate.from_fit(
        rows,
        fit.beta,
        fit.covariance,
        "least squares",
        information=information,
        weights=fit.weights,
        dropped=settings.dropped,
        correlations=fit.correlations,
        provenance={
            "weights": settings.weights if isinstance(settings.weights, str) else list(settings.weights),
            "robust": settings.robust,
            "covariance": settings.covariance,
        },
    )
    if not estimate.unidentifiable:
        return estimate
    status = (
        f"{estimate.status.partition(';')[0]}; the data leave {int(fit.kept.sum()) - fit.rank} combinations open, "
        f"among: {', '.join(estimate.unidentifiable)} (their values are the smallest that fit)."
    )
    return replace(estimate, status=status)
