"""`LeastSquares`: the minimiser of the weighted squared residuals; weights from the residuals themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.covariance import Colouring, coloured_spread, colouring_of
from mindyn.estimators.estimate import Estimate, JointResidual
from mindyn.logs.samples import Samples
from mindyn.parameters.base import BaseParameters
from mindyn.regression.friction import Friction
from mindyn.regression.gathering import gather
from mindyn.regression.information import Information, Solution, null_space, solve
from mindyn.regression.regressor import Regressor
from mindyn.robots.robot import Robot

Weights = Literal["joint", "ordinary"]
Data = Samples | Iterable[Samples]
PLAIN: Final = Friction()
REWEIGHTINGS: Final = 10
SETTLED: Final = 1e-6
"""Weights that change by less, relative, are final."""
HUBER: Final = 1.345
"""Residuals beyond this multiple of the spread count linearly: 95 % efficiency for normal noise [Huber 1981]."""
ROBUST_PASSES: Final = 8


@dataclass(frozen=True, slots=True)
class LeastSquares:
    """Settings of a least-squares fit.

    weights     "joint": 1 / residual variance of each joint, iterated; "ordinary": all rows alike; or n numbers
    robust      Huber's weights on rows, iterated (several passes over the samples)
    covariance  "white", or "correlated": residuals as an autoregressive process for each joint
    friction    shape of the friction columns
    filter_hz   low pass on columns and torque alike
    decimation  of the filtered rows
    left_out    names of parameters that are set to zero
    base        the base set; the structural one if left out
    """

    weights: Weights | tuple[float, ...] = "joint"
    robust: bool = False
    covariance: Literal["white", "correlated"] = "white"
    friction: Friction = PLAIN
    filter_hz: float | None = None
    decimation: int = 1
    left_out: tuple[str, ...] = ()
    base: BaseParameters | None = None

    def __post_init__(self) -> None:
        if isinstance(self.weights, str) and self.weights not in ("joint", "ordinary"):
            raise InputError(
                f'weights = {self.weights!r}; they may be: "joint", "ordinary", or a number for each joint'
            )
        if self.covariance not in ("white", "correlated"):
            raise InputError(f'covariance = {self.covariance!r}; it may be: "white", "correlated"')

    def regressor(self, robot: Robot) -> Regressor:
        """The columns of this fit."""
        made = Regressor(robot, self.friction, self.base)
        unknown = [name for name in self.left_out if name not in made.names]
        if unknown:
            raise InputError(f"no parameter {', '.join(unknown)} to leave out; there are: {', '.join(made.names)}")
        return made

    def gather(self, regressor: Regressor, samples: Data) -> Information:
        """The information of samples, filtered as this fit asks."""
        return gather(regressor, samples, cutoff_hz=self.filter_hz, decimation=self.decimation)

    def fit(self, robot: Robot, data: Data | Information) -> Estimate:
        """The estimate; robust fits and "correlated" covariance read a stream several times (see `SampleStream`)."""
        regressor = self.regressor(robot)
        if self.robust or self.covariance == "correlated":
            _require_again(data)
        information = data if isinstance(data, Information) else self.gather(regressor, data)
        if information.names != regressor.names:
            raise InputError("the information is of other parameters than this fit's: robot or friction differ")
        fitted = self._weighted(information)
        if self.robust:
            assert not isinstance(data, Information)
            information, fitted = self._robust(regressor, data, information, fitted)
        if self.covariance == "correlated":
            assert not isinstance(data, Information)
            colouring = colouring_of(regressor, fitted.beta, data, self.filter_hz, self.decimation)
            fitted = self._coloured(regressor, data, information, fitted, colouring)
        return _estimate(self, regressor, information, fitted)

    def _weighted(self, information: Information) -> Fitted:
        """The fit with one weight for each joint, by iteration where the weights come from the residuals."""
        kept = np.array([name not in self.left_out for name in information.names])
        n = len(information.factors)
        weights = np.ones(n) if isinstance(self.weights, str) else np.array(self.weights, dtype=np.float64)
        if weights.shape != (n,):
            raise InputError(f"{len(weights)} weights given for {n} joints")
        fitted = _solved(information, weights, kept)
        for _ in range(REWEIGHTINGS if self.weights == "joint" else 0):
            before, weights = weights, 1 / fitted.variances
            fitted = _solved(information, weights, kept)
            if np.abs(weights / before - 1).max() < SETTLED:
                break
        return fitted

    def _robust(
        self, regressor: Regressor, samples: Data, information: Information, fitted: Fitted
    ) -> tuple[Information, Fitted]:
        for _ in range(ROBUST_PASSES):
            beta, sigma = fitted.beta, np.sqrt(fitted.variances)

            def weight(joint: int, rows: Array, beta: Array = beta, sigma: Array = sigma) -> Array:
                residual = np.abs(rows @ np.append(beta[regressor.columns[joint]], -1.0))
                return np.asarray(np.minimum(1.0, HUBER * sigma[joint] / np.maximum(residual, 1e-300)))

            information = gather(
                regressor, samples, cutoff_hz=self.filter_hz, decimation=self.decimation, row_weight=weight
            )
            fitted = self._weighted(information)
            if np.abs(fitted.beta - beta).max() <= SETTLED * np.abs(beta).max():
                break
        return information, fitted

    def _coloured(
        self, regressor: Regressor, samples: Data, information: Information, fitted: Fitted, colouring: Colouring
    ) -> Fitted:
        spread = coloured_spread(regressor, samples, colouring, fitted.weights, self.filter_hz, self.decimation)
        inflation = fitted.variances * np.array(information.counts) / information.residuals(fitted.beta)
        total = sum(scale * meat for scale, meat in zip(inflation, spread, strict=True))
        covariance = fitted.inverse @ total @ fitted.inverse
        return replace(fitted, covariance=covariance, correlations=colouring.neighbours)


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """beta, its covariance, the inverse of the weighted normal matrix, rank, and for each joint variance and weight."""

    beta: Array
    covariance: Array
    inverse: Array
    rank: int
    variances: Array
    weights: Array
    kept: NDArray[np.bool_]
    correlations: tuple[float, ...] | None = None


def _solved(information: Information, weights: Array, kept: NDArray[np.bool_]) -> Fitted:
    R, z = information.stacked(weights)
    part: Solution = solve(R[:, kept], z)
    p = len(kept)
    beta, inverse = np.zeros(p), np.zeros((p, p))
    beta[kept] = part.beta
    inverse[np.ix_(kept, kept)] = part.inverse
    variances = _variances(information, beta, inverse, weights)
    meat = np.zeros((p, p))
    for columns, factor, weight, variance in zip(
        information.columns, information.factors, weights, variances, strict=True
    ):
        meat[np.ix_(columns, columns)] += weight**2 * variance * (factor[:, :-1].T @ factor[:, :-1])
    return Fitted(beta, inverse @ meat @ inverse, inverse, part.rank, variances, weights, kept)


def _variances(information: Information, beta: Array, inverse: Array, weights: Array) -> Array:
    """(n,) residual variance of each joint over its rows less the parameters that it pays for (its leverage)."""
    residuals, found = information.residuals(beta), []
    floor = 1e-30 * np.maximum(information.torques(), 1e-300)
    for i, (columns, factor) in enumerate(zip(information.columns, information.factors, strict=True)):
        Y = factor[:, :-1]
        leverage = weights[i] * float(np.einsum("ij,jk,ik->", Y, inverse[np.ix_(columns, columns)], Y))
        freedom = max(1.0, information.counts[i] - leverage)
        found.append(max(residuals[i], floor[i]) / freedom)
    return np.array(found)


def _estimate(settings: LeastSquares, regressor: Regressor, information: Information, fitted: Fitted) -> Estimate:
    R, _ = information.stacked(fitted.weights)
    untold = _untold(R, fitted.kept, information.names)
    covariance = fitted.covariance.copy()
    for name in untold:
        covariance[information.names.index(name), information.names.index(name)] = np.inf
    rms = np.sqrt(information.residuals(fitted.beta) / information.counts)
    torque = np.sqrt(information.torques() / information.counts)
    correlations = fitted.correlations or (None,) * len(rms)
    residuals = tuple(
        JointResidual(name, count, float(r), float(t), c)
        for name, count, r, t, c in zip(
            information.joint_names, information.counts, rms, torque, correlations, strict=True
        )
    )
    provenance = {
        "estimator": "least squares",
        "weights": settings.weights if isinstance(settings.weights, str) else list(settings.weights),
        "joint_weights": fitted.weights.tolist(),
        "robust": settings.robust,
        "covariance": settings.covariance,
        "condition_number": _number(information.condition_number(fitted.weights)),
    }
    return Estimate(
        regressor,
        fitted.beta,
        covariance,
        _status(settings, information, fitted, untold),
        residuals,
        settings.filter_hz,
        settings.left_out,
        untold,
        None,
        {**provenance, "decimation": settings.decimation},
    )


def _require_again(data: Data | Information) -> None:
    """Refuses what can be read once, or not at all."""
    if isinstance(data, Information) or (not isinstance(data, Samples) and iter(data) is data):
        raise InputError(
            'robust fits and "correlated" covariance go over the samples several times; this input can be read once',
            hint="give Samples, or the stream that condition_stream makes",
        )


def _number(value: float) -> float | None:
    """JSON has no infinity."""
    return value if np.isfinite(value) else None


def _untold(R: Array, kept: NDArray[np.bool_], names: tuple[str, ...]) -> tuple[str, ...]:
    V = null_space(R[:, kept])
    open_ones = np.flatnonzero((np.abs(V) > 1e-6).any(axis=1))
    return tuple(names[k] for k in np.flatnonzero(kept)[open_ones])


def told_from(information: Information, filter_hz: float | None, decimation: int) -> str:
    """`1200 equations (600 samples of 2 joints, low-passed at 5 Hz, one of 4 kept)`."""
    joints = f"{len(information.counts)} joints" if len(information.counts) > 1 else "1 joint"
    samples = f"{max(information.counts)} samples of {joints}"
    filtered = [] if filter_hz is None else [f"low-passed at {filter_hz:.3g} Hz"]
    thinned = [f"one of {decimation} kept"] if decimation > 1 else []
    return f"{sum(information.counts)} equations ({', '.join([samples, *filtered, *thinned])})"


def _status(settings: LeastSquares, information: Information, fitted: Fitted, untold: tuple[str, ...]) -> str:
    source = told_from(information, settings.filter_hz, settings.decimation)
    error = 100 * np.sqrt(information.residuals(fitted.beta).sum() / information.torques().sum())
    told = f"{int(fitted.kept.sum())} parameters from {source} leave {error:.3g} % of the torque unexplained"
    if not untold:
        return f"{told}."
    open_count = int(fitted.kept.sum()) - fitted.rank
    return (
        f"{told}; the data leave {open_count} combinations open, among: {', '.join(untold)} "
        "(their values are the smallest that fit)."
    )
