"""Steps of instrumental variables: products of measured rows with rows that are free of their noise.

    dbeta = (sum_i w_i Omega_i^T Y_i)^-1 sum_i w_i Omega_i^T (tau_i - Y_i beta)

Y is the regressor at measured samples, Omega the regressor at samples that a model predicts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, pluralise
from mindyn.identification.estimators.coloured_noise import (
    coloured_covariance_of,
    colouring_of,
    sandwich,
)
from mindyn.identification.estimators.estimate import Estimate, predict_unfiltered
from mindyn.identification.estimators.fit_summary import describe_status, infinite_variances, unexplained_fraction
from mindyn.logs.samples import Samples
from mindyn.regression.information import Information, identifiable_directions
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import blocks

PASSES_END: Final = 0.01
"""Passes end if the change of every parameter is below this fraction of its standard deviation."""
PASSES_END_LEAST: Final = 1e-10
"""A change below this fraction of the largest parameter also ends the passes."""
WEAKEST_INSTRUMENT: Final = 1e-12
"""Reciprocal condition number of the scaled Omega^T Y below which instruments do not determine the parameters."""
DEFINITE: Final = 1e-6
"""Smallest eigenvalue of M, with its diagonal scaled to 1, for which M can be inverted accurately enough."""


@dataclass(frozen=True, slots=True, eq=False)
class ModelAcceleration:
    """qdd (N, n) and where (N,) the model's inertia matrix M (N, n, n) is positive definite; qdd is zero elsewhere."""

    qdd: Array
    definite: NDArray[np.bool_]
    M: Array

    @property
    def indefinite_part(self) -> float:
        """Fraction of the samples at which the inertia matrix is not positive definite."""
        return 1.0 - float(self.definite.mean())


def model_acceleration(
    regressor: Regressor, beta: Array, samples: Samples, largest: Array | None = None
) -> ModelAcceleration:
    """Solve M(q) qdd = tau - tau(q, qd, 0), including the friction of the motors' motion [Yoshida 1996, eq. 3.35].

    Accelerations are limited to `largest` (n,), because a nearly singular M makes them large; by default, the limit is
    the largest measured acceleration of each joint.
    """
    M = inertia_matrices(regressor, beta, samples)
    definite = _are_definite(M)
    rest = np.zeros_like(samples.q)
    left = samples.tau - predict_unfiltered(regressor, beta, replace(samples, qdd=rest))
    qdd = np.zeros_like(samples.q)
    qdd[definite] = np.linalg.solve(M[definite], left[definite, :, None])[..., 0]
    largest = np.abs(samples.qdd).max(axis=0) if largest is None else largest
    return ModelAcceleration(np.clip(qdd, -largest, largest), definite, M)


def inertia_matrices(regressor: Regressor, beta: Array, samples: Samples) -> Array:
    """Return M (N, n, n): column j is the torque of a unit acceleration of joint j, without load-dependent friction."""
    beta = np.where(np.arange(len(beta)) < regressor.base.count, beta, 0.0)
    rest = np.zeros_like(samples.q)
    held = predict_unfiltered(regressor, beta, replace(samples, qdd=rest))
    units = np.eye(regressor.joint_count)
    columns = [predict_unfiltered(regressor, beta, replace(samples, qdd=rest + unit)) - held for unit in units]
    M = np.stack(columns, axis=2)
    return np.asarray((M + M.transpose(0, 2, 1)) / 2)


def _are_definite(M: Array) -> NDArray[np.bool_]:
    diagonal = np.einsum("kii->ki", M)
    positive = (diagonal > 0).all(axis=1)
    root = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    least = np.linalg.eigvalsh(M / root[:, :, None] / root[:, None, :])[:, 0]
    return np.asarray(positive & (least > DEFINITE))


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
        """Return whether the step is so large that another pass is needed."""
        enough = PASSES_END * np.sqrt(np.diag(self.covariance)) + PASSES_END_LEAST * np.abs(beta).max()
        return bool((np.abs(self.change) > enough).any())

    def applied(self, estimate: Estimate) -> Estimate:
        """Return the estimate after the step."""
        residuals = tuple(
            replace(residual, rms=r) for residual, r in zip(estimate.data.residuals, self.rms, strict=True)
        )
        return (
            estimate.with_values(beta=estimate.beta + self.change)
            .with_uncertainty(covariance=self.covariance)
            .with_data(residuals=residuals, factor=None)
        )


def instrument_step(
    estimate: Estimate,
    measured: Samples,
    expected: Samples,
    basis: Array,
    common: Sequence[Array] | None = None,
) -> InstrumentStep:
    """Return the step from an estimate within the directions `basis` (p, r).

    Rows that are not usable in `expected` are excluded.

    common   mean of Omega_i^T e_i (p,) for each joint, due to noise that both Omega and e contain; None: zero
    """
    assert estimate.data.joint_weights is not None
    weights = estimate.data.joint_weights / estimate.data.joint_weights.max()
    products, counts = _multiply_rows(estimate, measured, expected)
    A, r, meat = np.zeros((len(basis), len(basis))), np.zeros(len(basis)), np.zeros((len(basis), len(basis)))
    for joint, (columns, weight, product) in enumerate(zip(estimate.regressor.columns, weights, products, strict=True)):
        k = len(columns)
        A[np.ix_(columns, columns)] += weight * product[:k, k:-1]
        r[columns] += weight * product[:k, -1]
        if common is not None:
            r -= weight * common[joint]
    inverse = _invert_identifiable(A, basis)
    change = inverse @ r
    variances = []
    for columns, weight, product, count in zip(estimate.regressor.columns, weights, products, counts, strict=True):
        k = len(columns)
        x = np.concatenate([np.zeros(k), -change[columns], [1.0]])  # W x = e - Y change
        variances.append(max(0.0, float(x @ product @ x)) / max(1, count))
        meat[np.ix_(columns, columns)] += weight**2 * variances[-1] * product[:k, :k]
    rms = tuple(float(np.sqrt(v)) for v in variances)
    return InstrumentStep(change, sandwich(inverse, meat), rms, inverse, weights)


Instruments = Callable[[Estimate, int], tuple[Samples, Sequence[Array] | None]]
"""Returns the samples with instruments, and the products of their noise with the residuals (`common` of
`instrument_step`), from the estimate so far and the number of the pass."""


def repeat_passes(
    plain: Estimate, information: Information, samples: Samples, passes: int, instruments: Instruments
) -> tuple[Estimate, bool]:
    """Return the estimate after passes with new instruments, and whether the passes converged."""
    basis = identifiable_directions(information.stacked(plain.data.joint_weights)[0])
    estimate, moved, count = plain, True, 0
    while moved and count < passes:
        count += 1
        expected, common = instruments(estimate, count)
        step = instrument_step(estimate, samples, expected, basis, common)
        moved = step.matters(estimate.beta)
        estimate = step.applied(estimate)
    regressor, filtering = estimate.regressor, estimate.settings.filtering.of_equations
    colouring = colouring_of(regressor, estimate.beta, samples, *filtering)
    spread = coloured_covariance_of(regressor, expected, colouring, step.weights, *filtering)
    covariance = sandwich(step.inverse, np.asarray(sum(spread)))
    covariance = infinite_variances(covariance, plain.names, plain.values.unidentifiable)
    return estimate.with_uncertainty(covariance=covariance), not moved


def report_passes(estimate: Estimate, method: str, passes: int, notes: Sequence[str], *, settled: bool) -> Estimate:
    """Return the estimate with method, status and provenance."""
    summary = (
        f"{pluralise(len(estimate.names), 'parameter')}, {passes} passes{'' if settled else ', not settled'}, leave "
        f"{100 * unexplained_fraction(estimate.data.residuals):.3g} % of the torque unexplained"
    )
    status = describe_status([summary, *notes], estimate.values.unidentifiable)
    return estimate.with_provenance(status=status, method=method).with_notes(passes=passes, settled=settled)


def _multiply_rows(estimate: Estimate, measured: Samples, expected: Samples) -> tuple[list[Array], list[int]]:
    """Return W^T W (2 k + 1, 2 k + 1) and the number of rows of each joint, W = [Omega | Y | e], e = tau - Y beta.

    With residuals instead of torques, the solution is accurate near the start, although W^T W has the squared condition
    number.
    """
    regressor, settings = estimate.regressor, estimate.settings
    products = [np.zeros((2 * len(columns) + 1, 2 * len(columns) + 1)) for columns in regressor.columns]
    counts = [0] * len(products)
    both = (blocks(regressor, samples, *settings.filtering.of_equations) for samples in (measured, expected))
    for (seen, rows), (instruments, _) in zip(*both, strict=True):
        for joint, columns in enumerate(regressor.columns):
            kept = slice(None) if expected.usable is None else expected.usable[rows, joint]
            Z = np.concatenate(seen[joint], axis=1)[kept]
            Omega = np.concatenate(instruments[joint], axis=1)[kept, :-1]
            W = np.column_stack([Omega, Z[:, :-1], Z[:, -1] - Z[:, :-1] @ estimate.beta[columns]])
            products[joint] += W.T @ W
            counts[joint] += len(W)
    return products, counts


def _invert_identifiable(A: Array, basis: Array) -> Array:
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
