"""`LeastSquares`: weighted least squares, with weights from the residuals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.requirements import require_shape
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, pluralise, require_choice
from mindyn.identification.estimators.coloured_noise import Colouring, coloured_covariance_of, colouring_of, sandwich
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimator import Estimator, Needs
from mindyn.parameters.parameter import Parameter
from mindyn.regression.friction_limits import FrictionLimits, friction_limits, with_friction_priors
from mindyn.regression.information import Information, Solution, solve, triangle_of
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import gather
from mindyn.regression.rows import Rows, SampleBlocks

Weights = Literal["joint", "ordinary"]
FrictionRule = Literal["free", "regularised", "dissipative"]
REWEIGHTINGS: Final = 10
WEIGHTS_FINAL: Final = 1e-6
"""Relative change below which weights are final: values are then within 2e-11 of the limit."""
HUBER: Final = 1.345
"""The loss is linear for residuals beyond this multiple of their deviation, which gives 95 % efficiency for normal
noise [Huber 1981].
"""
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
    friction_rule : "free", "regularised" or "dissipative"
        "regularised": friction coefficients (offsets, viscous friction, shapes) get a prior around zero if the speeds
        of the data do not separate them from other friction of their joint (see `mindyn.regression.friction_limits`).
        "dissipative": in addition, friction must dissipate power, and rise with the speed up to the velocity limit.
    """

    weights: Weights | tuple[float, ...] = "joint"
    robust: bool = False
    covariance: Literal["white", "correlated"] = "white"
    dropped: tuple[str, ...] = ()
    friction_rule: FrictionRule = "free"

    def __post_init__(self) -> None:
        require_choice(self.friction_rule, get_args(FrictionRule), "friction_rule")
        if isinstance(self.weights, str) and self.weights not in ("joint", "ordinary"):
            raise InputError(
                f'weights must be "joint", "ordinary", or a number for each joint; got {self.weights!r}',
                code=Code.INVALID_VALUE,
                subject="weights",
            )
        require_choice(self.covariance, ("white", "correlated"), "covariance")

    @property
    def needs(self) -> Needs:
        """The data that the fit reads: "samples" if it is robust or has a "correlated" covariance, otherwise
        "information".
        """
        return "samples" if self.robust or self.covariance == "correlated" else "information"

    def fit(self, rows: Rows) -> Estimate:
        """Fit the rows. Robust fits and a "correlated" covariance read a stream several times (see `SampleStream`)."""
        names = rows.regressor.names
        unknown = [name for name in self.dropped if name not in names]
        if unknown:
            message = f"dropped: no parameter {', '.join(unknown)}; there are: {', '.join(names)}"
            raise InputError(message, code=Code.UNKNOWN_NAME, subject=unknown[0])
        samples = rows.repeatable_samples if self.needs == "samples" else None
        information = rows.information
        fitted = fit_weighted(self, information, rows.constant_torques, rows.regressor)
        if samples is not None and self.robust:
            information, fitted = self._fit_robust(rows, samples, information, fitted)
        if samples is not None and self.covariance == "correlated":
            settings = rows.settings
            colouring = colouring_of(rows.regressor, fitted.beta, samples, *settings.filtering.of_equations)
            covariance = _coloured_covariance(rows, samples, information, fitted, colouring)
            return _assemble_estimate(self, rows, information, fitted, covariance, colouring.neighbours)
        meat = noise_covariance(information, fitted.weights, fitted.variances)
        return _assemble_estimate(self, rows, information, fitted, sandwich(fitted.inverse, meat))

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
                regressor,
                samples,
                cutoff_hz=settings.filtering.equations_hz,
                decimation=settings.filtering.keep_every,
                row_weight=weight,
            )
            fitted = fit_weighted(self, information, rows.constant_torques, rows.regressor)
            if np.abs(fitted.beta - beta).max() <= WEIGHTS_FINAL * np.abs(beta).max():
                break
        return information, fitted


@dataclass(frozen=True, slots=True, eq=False)
class WeightedFit:
    """Result of a weighted fit: beta, the inverse of the weighted normal matrix, rank, and the variance and weight of
    each joint.
    """

    beta: Array
    inverse: Array
    rank: int
    variances: Array
    weights: Array


def fit_weighted(
    settings: LeastSquares,
    information: Information,
    constant: NDArray[np.bool_] | bool = False,
    regressor: Regressor | None = None,
) -> WeightedFit:
    """Fit with one weight for each joint; weights that come from the residuals are iterated.

    A joint whose torque never changes, for example because it has no sensor or no motor, gets the weight zero, because
    a small weight would diverge in the iteration. Its rows are used only for directions that the other joints do not
    determine.
    """
    kept = np.array([name not in settings.dropped for name in information.names])
    n = len(information.factors)
    weights = np.ones(n) if isinstance(settings.weights, str) else np.array(settings.weights, dtype=np.float64)
    require_shape(weights.shape, (n,), "weights")
    alive = information.measured() & np.logical_not(constant)
    limits = None if regressor is None or settings.friction_rule != "dissipative" else friction_limits(regressor)
    parameters = () if regressor is None or settings.friction_rule == "free" else regressor.parameters
    if settings.weights == "joint":  # start from the torques: next to 1e4 Nm, a joint of 1e-4 Nm is rounding
        weights = np.where(alive, np.array(information.counts) / information.torque_sizes(), 0.0)
    fitted = _solve_weighted(information, weights, kept, parameters, limits)
    for _ in range(REWEIGHTINGS if settings.weights == "joint" else 0):
        before, weights = weights, np.where(alive, 1 / fitted.variances, 0.0)
        fitted = _solve_weighted(information, weights, kept, parameters, limits)
        if (np.abs(weights - before) <= WEIGHTS_FINAL * before).all():
            break
    return fitted


def _solve_weighted(
    information: Information,
    weights: Array,
    kept: NDArray[np.bool_],
    parameters: Sequence[Parameter] = (),
    limits: FrictionLimits | None = None,
) -> WeightedFit:
    """Fit with given weights; the friction among `parameters` has priors."""
    R, z = with_friction_priors(information, weights, parameters)
    idle = information.unused_columns(weights)
    part: Solution = solve(R[:, kept], z, idle and (idle[0][:, kept], idle[1]))
    p = len(kept)
    beta, inverse = np.zeros(p), np.zeros((p, p))
    beta[kept] = part.beta
    inverse[np.ix_(kept, kept)] = part.inverse
    if limits is not None:
        beta = limits.apply(R[:, kept].T @ R[:, kept], beta, np.flatnonzero(kept))
    return WeightedFit(beta, inverse, part.rank, _residual_variances(information, beta, inverse, weights), weights)


def _coloured_covariance(
    rows: Rows, samples: SampleBlocks, information: Information, fitted: WeightedFit, colouring: Colouring
) -> Array:
    """Return the covariance (p, p) of beta for autoregressive residuals."""
    filtering = rows.settings.filtering.of_equations
    spread = coloured_covariance_of(rows.regressor, samples, colouring, fitted.weights, *filtering)
    residuals = information.residuals(fitted.beta)  # none at a joint without torque
    inflation = fitted.variances * np.array(information.counts) / np.where(residuals > 0, residuals, np.inf)
    total = sum(scale * meat for scale, meat in zip(inflation, spread, strict=True))
    return sandwich(fitted.inverse, np.asarray(total))


def noise_covariance(information: Information, weights: Array, variances: Array) -> Array:
    """Return the covariance (p, p) of sum_i W_i Y_i^T e_i for white residuals e_i of these variances (n,)."""
    total = np.zeros((len(information.names), len(information.names)))
    joints = zip(information.columns, information.factors, weights, variances, strict=True)
    for columns, factor, weight, variance in joints:
        total[np.ix_(columns, columns)] += weight**2 * variance * (factor[:, :-1].T @ factor[:, :-1])
    return total


def _residual_variances(information: Information, beta: Array, inverse: Array, weights: Array) -> Array:
    """Return the residual variance (n,) of each joint: its squared residuals divided by (rows - leverage)."""
    residuals, variances = information.residuals(beta), []
    floor = 1e-30 * information.torque_sizes()
    for i, (columns, factor) in enumerate(zip(information.columns, information.factors, strict=True)):
        Y = factor[:, :-1]
        leverage = weights[i] * float(((Y @ inverse[np.ix_(columns, columns)]) * Y).sum())
        freedom = max(1.0, information.counts[i] - leverage)
        variances.append(max(residuals[i], floor[i]) / freedom)
    return np.array(variances)


def _assemble_estimate(
    settings: LeastSquares,
    rows: Rows,
    information: Information,
    fit: WeightedFit,
    covariance: Array,
    correlations: tuple[float, ...] | None = None,
) -> Estimate:
    estimate = Estimate.from_fit(
        rows,
        fit.beta,
        covariance,
        "least squares",
        information=information,
        weights=fit.weights,
        dropped=settings.dropped,
        correlations=correlations,
        provenance={
            "weights": settings.weights if isinstance(settings.weights, str) else list(settings.weights),
            "robust": settings.robust,
            "covariance": settings.covariance,
        },
    )
    factor = triangle_of(np.column_stack(information.stacked(fit.weights)))
    estimate = estimate.with_data(factor=factor)
    if not estimate.values.unidentifiable:
        return estimate
    open_count = len(fit.beta) - len(settings.dropped) - fit.rank
    status = (
        f"{estimate.status.partition(';')[0]}; the data do not determine {pluralise(open_count, 'combination')} of: "
        f"{', '.join(estimate.values.unidentifiable)} (their values are the smallest that fit)."
    )
    return estimate.with_provenance(status=status)
