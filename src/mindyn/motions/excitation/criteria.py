"""Criteria of excitation as functions of the information matrix S, with exact derivatives.

S = Y^T W Y is the inverse of the covariance of the parameters, with the regressor Y stacked over samples and joints and
the inverse noise variances W. Every criterion is a logarithm that is minimised.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array

Name = Literal["D", "A", "E", "condition", "joints"]

EXTREME: Final = np.inf
"""Power that stands for infinity: the norm over eigenvalues is then the largest eigenvalue."""


def evaluate_criterion(name: Name, S: Array, owners: NDArray[np.intp], power: float = EXTREME) -> tuple[float, Array]:
    """Return f(S), infinite if S is singular, and its symmetric matrix of derivatives with respect to S.

    name    "D": - log det S / p; p / 2 times this is the logarithm of the volume of the confidence ellipsoid, up to a
            constant
            "A": log of the mean variance of the parameters, trace(S^-1) / p, in SI units
            "E": log of the largest variance of a combination of length 1, the largest eigenvalue of S^-1, in SI units
            "condition": logarithm of the condition number of the stack, with columns scaled to unit length
            "joints": log of the largest cond(A_i) of all joints; A_i are the columns of joint i in its own rows, as in
            identification from the last link to the first [Lin 1995, section IV]; S is then that of `Columns.own`
    owners  (p,) joint of each parameter, for "joints"
    power   of the norm that replaces the largest eigenvalue in condition numbers: (sum of l^power)^(1/power) is smooth
            where eigenvalues cross; EXTREME for the largest itself
    """
    if name == "D":
        return _determinant(S)
    if name in ("A", "E"):
        return _variance(S, 1.0 if name == "A" else power, len(S) if name == "A" else 1)
    if name == "condition":
        return _condition(S, power)
    gradient, blocks = np.zeros_like(S), [np.flatnonzero(owners == i) for i in np.unique(owners)]
    pairs = [_condition(S[np.ix_(block, block)], power) for block in blocks]
    if not np.isfinite([value for value, _ in pairs]).all():
        return np.inf, gradient
    conditions = np.exp([value for value, _ in pairs])
    value, slopes = log_norm(conditions, power)
    for block, (_, block_gradient), slope in zip(blocks, pairs, slopes * conditions, strict=True):
        gradient[np.ix_(block, block)] = slope * block_gradient
    return value, gradient


def _scale(S: Array) -> tuple[Array, Array]:
    """Return the lengths (p,) of the columns, and S of columns of unit length; zero for a column of zeros."""
    d = np.sqrt(np.diag(S))
    units = np.where(d > 0, d, np.inf)
    return d, S / units / units[:, None]


def _smallest_eigenvalue(p: int) -> float:
    """Return the bound below which an eigenvalue of a (p, p) matrix with a unit diagonal counts as zero."""
    return float(p**2 * np.finfo(float).eps)


def _determinant(S: Array) -> tuple[float, Array]:
    """Return - log det S / p by Cholesky's method, which takes a tenth of the time of computing eigenvalues."""
    from scipy.linalg.lapack import dpotrf, dpotri

    d, C = _scale(S)
    p = len(S)
    L, failed = dpotrf(C, lower=1, clean=1)
    pivots = np.diag(L)
    if failed or pivots.min() ** 2 <= _smallest_eigenvalue(p):
        return np.inf, np.zeros_like(S)
    lower = dpotri(L, lower=1)[0]
    inverse = lower + np.tril(lower, -1).T
    return -2 * float(np.log(pivots * d).sum()) / p, inverse / d / d[:, None] / -p


def _variance(S: Array, power: float, count: int) -> tuple[float, Array]:
    """Return the logarithm of a norm of the eigenvalues of the covariance S^-1, divided by `count`; power 1 gives the
    trace.
    """
    d, C = _scale(S)
    values, V = np.linalg.eigh(C)
    if values[0] <= _smallest_eigenvalue(len(S)):
        return np.inf, np.zeros_like(S)
    variances, W = np.linalg.eigh((V / values) @ V.T / d / d[:, None])
    norm, slopes = log_norm(variances, power)
    return norm - float(np.log(count)), -(W * (slopes * variances**2)) @ W.T


def _condition(S: Array, power: float) -> tuple[float, Array]:
    d, C = _scale(S)
    values, V = np.linalg.eigh(C)
    if values[0] <= _smallest_eigenvalue(len(S)):
        return np.inf, np.zeros_like(S)
    top, top_slopes = log_norm(values, power)
    bottom, bottom_slopes = log_norm(1 / values, power)
    G = (V * (top_slopes - bottom_slopes / values**2)) @ V.T / 2
    # C_ij = S_ij / sqrt(S_ii S_jj): the scales depend on S as well
    gradient = G / d / d[:, None]
    gradient[np.diag_indices_from(G)] -= (G * C).sum(axis=1) / np.diag(S)
    return (top + bottom) / 2, gradient


def log_norm(values: Array, power: float) -> tuple[float, Array]:
    """Return log((sum of values^power)^(1/power)) of positive values, and its derivatives; EXTREME gives the largest
    value.
    """
    largest = values.max()
    if power == EXTREME:
        slopes = np.zeros_like(values)
        slopes[int(values.argmax())] = 1 / largest
        return float(np.log(largest)), slopes
    parts = (values / largest) ** power
    total = parts.sum()
    return float(np.log(largest) + np.log(total) / power), parts / values / total


def parameter_deviations(S: Array) -> Array:
    """Return the standard deviations (p,) for an information matrix; infinite where the matrix is singular up to
    rounding.

    Columns are scaled, because entries in different units differ by many powers of ten.
    """
    d = np.sqrt(np.diag(S))
    variances = np.diag(np.linalg.inv(S / d / d[:, None])) / d**2
    return np.sqrt(np.where(variances > 0, variances, np.inf))
