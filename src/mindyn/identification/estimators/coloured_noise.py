"""Model residuals that are correlated in time as autoregressive processes, and compute the resulting covariance.

The residuals are e = H w, where w is white noise of variance s2, and H = 1 / A(z) is the shaping filter. The covariance
of the estimate is then P (sum_i W_i^2 s2_i |H_i Y_i|^2) P: the columns are filtered with the spectrum of the residuals;
no lag windows are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.logs.samples import Samples, segment_ends
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import blocks, with_neighbours

LONGEST_MEMORY: Final = 24
"""Highest order of the autoregressive processes."""


@dataclass(frozen=True, slots=True, eq=False)
class Colouring:
    """Coefficients A = 1, a_1, ... of each joint's process, the variance of w, and the correlation at lag 1."""

    coefficients: tuple[Array, ...]
    variances: tuple[float, ...]
    neighbours: tuple[float, ...]


def colouring_of(
    regressor: Regressor, beta: Array, samples: Samples | Iterable[Samples], cutoff_hz: float | None, decimation: int
) -> Colouring:
    """Fit the processes of the residuals by the Yule-Walker equations, with the order that has the smallest AIC."""
    n = regressor.joint_count
    lags = np.zeros((n, LONGEST_MEMORY + 1))
    counts = np.zeros(n)
    history = [np.zeros(LONGEST_MEMORY) for _ in range(n)]
    for joint, rows, starts in joint_rows(regressor, samples, cutoff_hz, decimation):
        e = rows @ np.append(-beta[regressor.columns[joint]], 1.0)
        before = np.zeros(LONGEST_MEMORY) if starts else history[joint]
        longer = np.concatenate([before, e])
        lags[joint] += [e @ longer[LONGEST_MEMORY - k : len(longer) - k] for k in range(LONGEST_MEMORY + 1)]
        counts[joint] += len(e)
        history[joint] = longer[-LONGEST_MEMORY:]
    processes = [_fit_process(lag / count, count) for lag, count in zip(lags, counts, strict=True)]
    neighbours = tuple(float(lag[1] / lag[0]) if lag[0] > 0 else 0.0 for lag in lags)
    return Colouring(tuple(a for a, _ in processes), tuple(v for _, v in processes), neighbours)


def coloured_covariance_of(
    regressor: Regressor,
    samples: Samples | Iterable[Samples],
    colouring: Colouring,
    weights: Array,
    cutoff_hz: float | None,
    decimation: int,
) -> list[Array]:
    """Return the covariance (p, p) of W_i Y_i^T e_i for each joint."""
    n, p = regressor.joint_count, regressor.count
    grams = [np.zeros((regressor.width(i), regressor.width(i))) for i in range(n)]
    states: list[Array] = [np.zeros((len(a) - 1, regressor.width(i))) for i, a in enumerate(colouring.coefficients)]
    for joint, rows, starts in joint_rows(regressor, samples, cutoff_hz, decimation):
        a, Y = colouring.coefficients[joint], rows[:, :-1]
        if starts:
            states[joint][:] = 0.0
        shaped = Y
        if len(a) > 1:
            shaped = shape_noise(a, Y, states[joint])
            states[joint] = np.concatenate([states[joint], shaped])[1 - len(a) :]
        grams[joint] += shaped.T @ shaped
    covariances = []
    for i, gram in enumerate(grams):
        whole = np.zeros((p, p))
        whole[np.ix_(regressor.columns[i], regressor.columns[i])] = weights[i] ** 2 * colouring.variances[i] * gram
        covariances.append(whole)
    return covariances


def shape_noise(a: Array, x: Array, before: Array) -> Array:
    """Return y (N, k) with sum_j a[j] y[i - j] = x[i], a[0] = 1, after the rows `before` (len(a) - 1, k) of y."""
    from scipy.linalg.lapack import dtbtrs

    memory = len(a) - 1
    longer, past = np.array(x), np.concatenate([before, np.zeros_like(before)])
    for back in range(1, memory + 1):
        longer[:memory] -= a[back] * past[memory - back : 2 * memory - back][: len(x)]
    return np.asarray(dtbtrs(np.repeat(a[:, None], len(x), axis=1), longer, uplo="L", diag="U")[0])


def sandwich(bread: Array, meat: Array) -> Array:
    """Return bread meat bread^T for a symmetric meat, without the negative eigenvalues that rounding causes."""
    diagonal = np.diag(meat)
    scales = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh((meat + meat.T) / 2 / np.outer(scales, scales))
    half = (bread * scales) @ (vectors * np.sqrt(np.maximum(values, 0.0)))
    return np.asarray(half @ half.T)


def joint_rows(
    regressor: Regressor, samples: Samples | Iterable[Samples], cutoff_hz: float | None, decimation: int
) -> Iterator[tuple[int, Array, bool]]:
    """Yield each joint, its rows [Y | tau] with zeros for rows that cannot be used, and whether each row starts a
    segment.
    """
    last: int | None = None
    for extended in with_neighbours(regressor, samples, cutoff_hz, decimation):
        block = extended.samples
        for parts, numbers in blocks(regressor, extended, cutoff_hz, decimation):
            whole = [np.concatenate(arrays, axis=1) for arrays in parts]
            if block.usable is not None:
                whole = [rows * block.usable[numbers, joint][:, None] for joint, rows in enumerate(whole)]
            for start, stop in segment_ends(block.segments[numbers]):  # a block may run over the end of a segment
                segment = int(block.segments[numbers[start]])
                yield from ((joint, rows[start:stop], segment != last) for joint, rows in enumerate(whole))
                last = segment


def _fit_process(lags: Array, count: float) -> tuple[Array, float]:
    """Fit autoregressive processes; return coefficients and innovation variance of the order with the smallest AIC."""
    from scipy.linalg import solve_toeplitz

    if not np.isfinite(lags).all():
        raise InputError(
            "the residuals overflow", hint="check the units of the torque", code=Code.NOT_FINITE, subject="torque"
        )
    if not lags[0] > 0:
        return np.ones(1), 0.0
    best, chosen = np.inf, (np.ones(1), float(lags[0]))
    jittered = lags.copy()
    jittered[0] *= 1 + 1e-9  # a low-passed residual has almost no innovation: keeps the equations solvable
    for order in range(LONGEST_MEMORY + 1):
        try:
            a = np.append(1.0, -solve_toeplitz(jittered[:order], jittered[1 : order + 1])) if order else np.ones(1)
        except np.linalg.LinAlgError:  # the residual is predicted without error
            break
        variance = float(a @ jittered[: order + 1])
        if not variance > 0:  # due to rounding: higher orders are not better
            break
        criterion = count * np.log(max(variance, 1e-300)) + 2 * order
        if criterion < best:
            best, chosen = criterion, (a, variance)
    return chosen
