"""`InstrumentalVariables`: model-based accelerations as instruments against noise of measured ones.

    beta = (sum_i w_i Omega_i^T Y_i)^-1 sum_i w_i Omega_i^T tau_i    [Yoshida 1996, eq. 3.22-3.35]

Y is the regressor at the measured motion; Omega is the regressor with the accelerations that a model predicts under the
measured torque. Noise of accelerations enters only Y, so that its product with Omega averages out. Noise of the torque
also enters Omega, through the acceleration M^-1 (tau - h): Omega = Omega(qdd) + J M^-1 e, J = dOmega/dqdd. Then
Omega_i^T e_i has the mean J_i M^-1 (column i) var(e_i), which is subtracted; var(e) is estimated from the torque alone.

Steps of instrumental variables: products of measured rows with rows that are free of their noise.

    dbeta = (sum_i w_i Omega_i^T Y_i)^-1 sum_i w_i Omega_i^T (tau_i - Y_i beta)

Y is the regressor at measured samples, Omega at those that a model predicts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.requirements import require_count
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, pluralise
from mindyn.identification.estimators.estimate import Estimate, Estimator, predict_unfiltered
from mindyn.identification.estimators.fit_summary import describe_status, infinite_variances, unexplained_fraction
from mindyn.identification.estimators.least_squares import (
    LeastSquares,
    Weights,
    coloured_covariance_of,
    colouring_of,
    sandwich,
)
from mindyn.logs.filters import lowpass
from mindyn.logs.samples import Samples
from mindyn.regression.information import Information, identifiable_directions
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import blocks
from mindyn.regression.rows import Rows

PASSES_END: Final = 0.01
"""Passes end when no parameter moves by more than this fraction of its standard deviation ..."""
PASSES_END_LEAST: Final = 1e-10
"""... or of the largest parameter."""
WEAKEST_INSTRUMENT: Final = 1e-12
"""Reciprocal condition number of the scaled Omega^T Y below which instruments do not determine the parameters."""
DEFINITE: Final = 1e-6
"""Least eigenvalue of M, with its diagonal scaled to 1, for which its solution is usable."""


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

    Accelerations are clipped at `largest` (n,), by default the largest measured one of each joint, because a nearly
    singular M makes them large.
    """
    M = inertia_matrices(regressor, beta, samples)
    definite = _definite(M)
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


def _definite(M: Array) -> NDArray[np.bool_]:
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
        """Return whether the step is large enough for another pass."""
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
    """Return the step from an estimate within the directions `basis` (p, r); rows unusable in `expected` are excluded.

    common   mean of Omega_i^T e_i (p,) for each joint due to noise that Omega and e share; None: zero
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
    inverse = _inverse(A, basis)
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
    """Return the estimate after passes with new instruments, and whether it settled before the last of them."""
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

    Using residuals instead of torques keeps the solution accurate near the start, although W^T W squares the condition.
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


MOST_INDEFINITE: Final = 0.5
"""Largest fraction of samples without a usable inertia matrix for a model that gives instruments."""
NORMAL_MEDIAN: Final = 0.6744897501960817
"""Median of the absolute value of a normal variable, in standard deviations."""
IMPULSE_ROWS: Final = 4096
AVERAGED_ROWS: Final = 5000
"""Evenly spread rows over which dOmega is averaged."""


@dataclass(frozen=True, slots=True)
class InstrumentalVariables(Estimator):
    """Instrumental-variables fit.

    Parameters
    ----------
    instrument_model : Estimate, optional
        Its accelerations are the first instruments. Default: the least-squares estimate. If that is indefinite, as
        after slow motion, `make_feasible` gives the nearest one that is positive definite.
    passes : int
        Largest number of passes; each later pass takes its instruments from the previous estimate.
    weights : "joint", "ordinary" or tuple of float
        Weights of the joints' rows, as in `LeastSquares`; "joint" uses those of a least-squares fit.
    """

    instrument_model: Estimate | None = None
    passes: int = 5
    weights: Weights | tuple[float, ...] = "joint"

    def __post_init__(self) -> None:
        require_count(self.passes, "passes")

    needs = "samples"

    @property
    def filters_alike(self) -> bool:
        """True: a controller feeds encoder noise back, so that torque and predicted accelerations contain the columns'
        noise.

        This noise has frequencies far above the motion. Filtering only the motion would leave it in the torque.
        """
        return True

    def fit(self, rows: Rows) -> Estimate:
        """Fit the rows; the status reports indefinite inertia matrices."""
        samples = rows.all_samples("instrumental variables")
        plain = LeastSquares(weights=self.weights).fit(rows)
        return self.passes_from(plain, rows.information, samples)

    def passes_from(self, plain: Estimate, information: Information, samples: Samples) -> Estimate:
        """Repeat passes until the estimate settles; the initial beta affects only rounding, not the first solution."""
        first, shares = self._first_model(plain), list[float]()

        def instruments(estimate: Estimate, number: int) -> tuple[Samples, list[Array]]:
            model = first if number == 1 else estimate
            instrument = model_acceleration(model.regressor, model.beta, samples)
            _require_definite(instrument, number)
            shares.append(instrument.indefinite_part)
            expected = _expected_columns(samples, instrument)
            return expected, noise_in_both(estimate, expected, instrument.M, plain.settings.filtering.equations_hz)

        estimate, settled = repeat_passes(plain, information, samples, self.passes, instruments)
        left = model_acceleration(estimate.regressor, estimate.beta, samples).indefinite_part
        notes = []
        if max(shares) > 0:
            notes.append(
                f"the inertia matrix of the instrument model was indefinite at up to {100 * max(shares):.3g} % of the "
                "samples, which were excluded"
            )
        if left > 0:
            notes.append(f"the inertia matrix of the estimate is indefinite at {100 * left:.3g} % of the samples")
        reported = report_passes(estimate, "instrumental variables", len(shares), notes, settled=settled)
        return reported.with_notes(indefinite_parts=shares, indefinite_part_of_estimate=left)

    def _first_model(self, plain: Estimate) -> Estimate:
        model = self.instrument_model
        if model is None:
            return plain
        if model.robot.joint_names != plain.robot.joint_names:
            raise InputError(
                f"the instrument model is of joints {', '.join(model.robot.joint_names)}; "
                f"the robot has {', '.join(plain.robot.joint_names)}",
                code=Code.DISAGREEMENT,
                subject="instrument_model",
            )
        return model


def _expected_columns(samples: Samples, instrument: ModelAcceleration) -> Samples:
    """Return the samples with the model's accelerations; unusable where the inertia matrix is indefinite."""
    usable = np.repeat(instrument.definite[:, None], samples.q.shape[1], axis=1)
    if samples.usable is not None:
        usable &= samples.usable
    return replace(samples, qdd=instrument.qdd, usable=usable)


def _require_definite(instrument: ModelAcceleration, number: int) -> None:
    part = instrument.indefinite_part
    if part > MOST_INDEFINITE:
        raise InputError(
            f"the inertia matrix of the instrument model of pass {number} is indefinite at {100 * part:.3g} % of the "
            f"samples, so that its accelerations are not usable; at most {100 * MOST_INDEFINITE:g} % are allowed",
            hint="pass make_feasible(estimate) of the least-squares estimate, or another model with a "
            "positive definite inertia matrix, as instrument_model=; or record a motion with larger accelerations",
            code=Code.NOT_FEASIBLE,
            subject="instrument_model",
        )


def torque_noise(samples: Samples) -> Array:
    """Return (n,) standard deviations of white noise from the median second difference, which is robust to friction
    jumps.

    The torque itself has second differences too; they are small if the sample rate is high.
    """
    within = samples.segments[2:] == samples.segments[:-2]
    if not within.any():
        return np.zeros(samples.tau.shape[1])
    bends = np.abs(np.diff(samples.tau, n=2, axis=0)[within])
    return np.asarray(np.median(bends, axis=0) / (NORMAL_MEDIAN * np.sqrt(6.0)))


def noise_in_both(estimate: Estimate, expected: Samples, M: Array, cutoff_hz: float | None) -> list[Array]:
    """Return, for each joint i, the mean (p,) of Omega_i^T e_i over the rows of the fit due to torque noise.

    expected   samples with the accelerations of the instrument model, `usable` where it has some
    M          (N, n, n) inertia matrices of that model
    """
    variances = torque_noise(expected) ** 2 * _filter_columns(cutoff_hz, expected.rate_hz)
    every = slice(None, None, 1 + len(expected) // AVERAGED_ROWS)
    some, M = expected.take(every), M[every]
    assert some.usable is not None
    joints = []
    for joint, (variance, residual) in enumerate(zip(variances, estimate.data.residuals, strict=True)):
        usable = some.usable[:, joint]
        push = np.asarray(np.linalg.inv(M[usable])[:, :, joint], dtype=np.float64)
        mean = _mean_change(estimate.regressor, some.q[usable], some.qd[usable], push, joint)
        rows = residual.rows * float(usable.mean())
        # Bounded by the residual: second differences of coarsely sampled rows would overestimate the noise.
        joints.append(rows * min(variance, residual.rms**2) * mean)
    return joints


def _mean_change(regressor: Regressor, q: Array, qd: Array, push: Array, joint: int) -> Array:
    """Return (p,) the mean change of a joint's columns by accelerations `push` (N, n)."""
    if not len(push):
        return np.zeros(regressor.count)
    directions = regressor.directions(q, qd, np.zeros(len(push), dtype=np.int64), 1.0)
    pushed, coasting = (regressor.dense(regressor.parts(q, qd, qdd, directions)) for qdd in (push, np.zeros_like(push)))
    return np.asarray((pushed - coasting)[:, joint].mean(axis=0))


def _filter_columns(cutoff_hz: float | None, rate_hz: float) -> float:
    """Return the fraction of the variance of white noise that passes the low pass."""
    if cutoff_hz is None:
        return 1.0
    impulse = np.zeros(IMPULSE_ROWS)
    impulse[IMPULSE_ROWS // 2] = 1.0
    return float((lowpass(impulse, cutoff_hz, rate_hz) ** 2).sum())
