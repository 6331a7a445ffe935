"""Steps of instrumental variables: products of measured rows with rows that are free of their noise.

    dbeta = (sum_i w_i Omega_i^T Y_i)^-1 sum_i w_i Omega_i^T (tau_i - Y_i beta)

Y is the regressor at measured samples, Omega at those that a model predicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.estimators.covariance import coloured_covariance_of, colouring_of, sandwich
from mindyn.estimators.estimate import Estimate
from mindyn.logs.samples import Samples
from mindyn.regression.row_blocks import blocks

PASSES_END: Final = 0.01
"""Passes end when no parameter moves by more than this fraction of its standard deviation ..."""
PASSES_END_LEAST: Final = 1e-10
"""... or of the largest parameter."""
WEAKEST_INSTRUMENT: Final = 1e-12
"""Reciprocal condition number of the scaled Omega^T Y below which instruments do not determine the parameters."""


@dataclass(frozen=True, slots=True, eq=False)
class InstrumentStep:
    """A change of beta (p,), the covariance after it, and the rms residuals (n,) of the joints after it.

    inverse   (p, p) of sum_i w_i Omega_i^T Y_i
    weights   (n,) w_i
    """

    change: Array
    covariance: Array
    rms: tuple[float, ...]
    inverse: Array
    weights: Array

    def matters(self, beta: Array) -> bool:
        """Return whether the step is large enough for another pass."""
        enough = PASSES_END * np.sqrt(np.diag(self.covariance)) + PASSES_END_LEAST * np.abs(beta).max()
        return bool((np.abs(self.change) > enough).any())

    def applied(self, estimate: Estimate) -> Estimate:
        """Return the estimate after the step."""
        residuals = tuple(replace(residual, rms=r) for residual, r in zip(estimate.residuals, self.rms, strict=True))
        return replace(estimate, beta=estimate.beta + self.change, covariance=self.covariance, residuals=residuals)


def instrument_step(
    estimate: Estimate,
    measured: Samples,
    expected: Samples,
    basis: Array,
    cutoff_hz: float | None,
    decimation: int,
    common: Sequence[Array] | None = None,
) -> InstrumentStep:
    """Return the step from an estimate within the directions `basis` (p, r); rows unusable in `expected` are excluded.

    common   mean of Omega_i^T e_i (p,) for each joint due to noise that Omega and e share; None: zero
    """
    assert estimate.joint_weights is not None
    weights = estimate.joint_weights / estimate.joint_weights.max()
    products = _products(estimate, measured, expected, cutoff_hz, decimation)
    A, r, meat = np.zeros((len(basis), len(basis))), np.zeros(len(basis)), np.zeros((len(basis), len(basis)))
    for joint, (weight, product) in enumerate(zip(weights, products, strict=True)):
        A[np.ix_(product.columns, product.columns)] += weight * product.omega_y
        r[product.columns] += weight * product.omega_e
        if common is not None:
            r -= weight * common[joint]
    inverse = _inverse(A, basis)
    change = inverse @ r
    variances = [product.variance(change[product.columns]) for product in products]
    for weight, variance, product in zip(weights, variances, products, strict=True):
        meat[np.ix_(product.columns, product.columns)] += weight**2 * variance * product.omega_omega
    rms = tuple(float(np.sqrt(v)) for v in variances)
    return InstrumentStep(change, sandwich(inverse, meat), rms, inverse, weights)


def coloured_instrument_covariance(
    step: InstrumentStep,
    estimate: Estimate,
    measured: Samples,
    expected: Samples,
    cutoff_hz: float | None,
    decimation: int,
) -> Array:
    """Return the covariance (p, p) after a step for residuals that are correlated in time (see `covariance`)."""
    colouring = colouring_of(estimate.regressor, estimate.beta, measured, cutoff_hz, decimation)
    spread = coloured_covariance_of(estimate.regressor, expected, colouring, step.weights, cutoff_hz, decimation)
    return sandwich(step.inverse, np.asarray(sum(spread)))


@dataclass(slots=True, eq=False)
class _Products:
    """W^T W of one joint, W = [Omega | Y | e] (rows, 2 k + 1), e = tau - Y beta, for the parameters `columns` (k,).

    Using residuals instead of torques keeps the solution accurate near the start, although W^T W squares the condition.
    """

    columns: NDArray[np.intp]
    matrix: Array
    rows: int = 0

    def add(self, Omega: Array, Y: Array, e: Array) -> None:
        W = np.column_stack([Omega, Y, e])
        self.matrix += W.T @ W
        self.rows += len(W)

    @property
    def omega_omega(self) -> Array:
        k = len(self.columns)
        return self.matrix[:k, :k]

    @property
    def omega_y(self) -> Array:
        k = len(self.columns)
        return self.matrix[:k, k:-1]

    @property
    def omega_e(self) -> Array:
        return self.matrix[: len(self.columns), -1]

    def variance(self, step: Array) -> float:
        """Return the mean squared residual e - Y step."""
        x = np.concatenate([np.zeros(len(step)), -step, [1.0]])
        return max(0.0, float(x @ self.matrix @ x)) / max(1, self.rows)


def _products(
    estimate: Estimate, measured: Samples, expected: Samples, cutoff_hz: float | None, decimation: int
) -> Sequence[_Products]:
    """Accumulate the products in one pass over measured and predicted rows."""
    regressor = estimate.regressor
    products = [_Products(c, np.zeros((2 * len(c) + 1, 2 * len(c) + 1))) for c in regressor.columns]
    both = zip(
        blocks(regressor, measured, cutoff_hz, decimation),
        blocks(regressor, expected, cutoff_hz, decimation),
        strict=True,
    )
    for (seen, rows), (instruments, _) in both:
        for joint, joint_products in enumerate(products):
            kept = slice(None) if expected.usable is None else expected.usable[rows, joint]
            Z = np.concatenate(seen[joint], axis=1)[kept]
            Omega = np.concatenate(instruments[joint], axis=1)[kept, :-1]
            joint_products.add(Omega, Z[:, :-1], Z[:, -1] - Z[:, :-1] @ estimate.beta[joint_products.columns])
    return products


def _inverse(A: Array, basis: Array) -> Array:
    """Return the inverse of Omega^T Y within the identifiable directions."""
    small = basis.T @ A @ basis
    sizes = np.linalg.svd(small, compute_uv=False)
    if not sizes[-1] > WEAKEST_INSTRUMENT * sizes[0]:
        raise InputError(
            "the instruments do not determine the parameters: predicted and measured motion are too different",
            hint="pass a better model as instrument_model=, or record a motion with larger accelerations",
            code=Code.NOT_IDENTIFIABLE,
            subject="instrument_model",
        )
    return np.asarray(basis @ np.linalg.inv(small) @ basis.T)
