"""Criteria of excitation as functions of the information matrix S, with exact derivatives.

S = Y^T W Y is the inverse of the covariance of the parameters, with the regressor Y stacked over samples and joints and
the inverse noise variances W. Every criterion is a logarithm that is minimised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import require_choice

Name = Literal["condition", "D", "A", "E", "joints"]

EXTREME: Final = np.inf
"""Power at which a norm over eigenvalues is the largest eigenvalue."""

CLEARLY_REGULAR: Final = 1e-5
"""Smallest pivot of a Cholesky factor, relative to the largest, above which S is not singular."""


@dataclass(frozen=True, slots=True, eq=False)
class Criterion:
    """f(S) and its gradient.

    name    "condition": logarithm of the condition number of the stack, with columns scaled to unit length
            "D": - log det S / p; p / 2 times this is the logarithm of the volume of the confidence ellipsoid, up to a
            constant
            "A": log of the mean variance of the parameters; "E": log of the largest variance of a combination
            "joints": log of the largest cond(A_i) of all joints; A_i are the columns of joint i in its own rows, as in
            identification from the last link to the first [Lin 1995, section IV]; S is then that of `Columns.own_rows`
    owners  (p,) joint of each parameter, for "joints"
    scales  (p,) of the parameters, in which A and E measure variances; the others do not depend on them
    power   of the norm that replaces the largest eigenvalue in "condition" and "E": (sum of l^power)^(1/power) is
            smooth where eigenvalues cross; EXTREME for the largest itself
    """

    name: Name
    scales: Array
    power: float = EXTREME
    owners: NDArray[np.intp] | None = None

    def __post_init__(self) -> None:
        require_choice(self.name, get_args(Name), "criterion")

    def value(self, S: Array) -> float:
        """Return f(S); infinite if S is singular."""
        return self.with_gradient(S)[0]

    def with_gradient(self, S: Array) -> tuple[float, Array]:
        """Return f(S) and the symmetric matrix of its derivatives by the entries of S."""
        if self.name == "condition":
            return self._condition(S)
        if self.name == "joints":
            return self._joints(S)
        scaled = S * self.scales * self.scales[:, None]
        if self.name == "D" and (determinant := _log_determinant(scaled)) is not None:
            value, inverse = determinant
            p, units = len(S), 2 * float(np.log(self.scales).mean())  # as if unscaled
            return units - value / p, inverse * (self.scales * self.scales[:, None] / -p)
        values, V = np.linalg.eigh(scaled)
        if values[0] <= values[-1] * len(values) * np.finfo(float).eps:
            return np.inf, np.zeros_like(S)
        value, slopes = self._of_eigenvalues(values)
        if self.name == "D":  # as if unscaled
            value += 2 * float(np.log(self.scales).mean())
        return value, (V * slopes) @ V.T * self.scales * self.scales[:, None]

    def _of_eigenvalues(self, values: Array) -> tuple[float, Array]:
        """Return the value and its derivatives by the eigenvalues."""
        p = len(values)
        if self.name == "D":
            return -float(np.log(values).mean()), -1 / values / p
        if self.name == "A":
            total = (1 / values).sum()
            return float(np.log(total / p)), -1 / values**2 / total
        value, slopes = log_norm(1 / values, self.power)
        return value, -slopes / values**2

    def _joints(self, S: Array) -> tuple[float, Array]:
        assert self.owners is not None
        gradient, blocks = np.zeros_like(S), [np.flatnonzero(self.owners == i) for i in np.unique(self.owners)]
        pairs = [self._condition(S[np.ix_(block, block)]) for block in blocks]
        if not np.isfinite([value for value, _ in pairs]).all():
            return np.inf, gradient
        conditions = np.exp([value for value, _ in pairs])
        value, slopes = log_norm(conditions, self.power)
        for block, (_, block_gradient), slope in zip(blocks, pairs, slopes * conditions, strict=True):
            gradient[np.ix_(block, block)] = slope * block_gradient
        return value, gradient

    def _condition(self, S: Array) -> tuple[float, Array]:
        d = np.sqrt(np.diag(S))
        if not (d > 0).all():
            return np.inf, np.zeros_like(S)
        C = S / d / d[:, None]
        values, V = np.linalg.eigh(C)
        if values[0] <= len(values) ** 2 * np.finfo(float).eps:
            return np.inf, np.zeros_like(S)
        top, top_slopes = log_norm(values, self.power)
        bottom, bottom_slopes = log_norm(1 / values, self.power)
        G = (V * (top_slopes - bottom_slopes / values**2)) @ V.T / 2
        # C_ij = S_ij / sqrt(S_ii S_jj): the scales depend on S as well
        gradient = G / d / d[:, None]
        gradient[np.diag_indices_from(G)] -= (G * C).sum(axis=1) / np.diag(S)
        return (top + bottom) / 2, gradient


def _log_determinant(S: Array) -> tuple[float, Array] | None:
    """Return log det S and the inverse by Cholesky; None if S is nearly singular."""
    from scipy.linalg.lapack import dpotrf, dpotri

    L, failed = dpotrf(S, lower=1, clean=1)
    pivots = np.diag(L)
    if failed or pivots.min() <= CLEARLY_REGULAR * pivots.max():
        return None
    lower = dpotri(L, lower=1)[0]
    return 2 * float(np.log(pivots).sum()), lower + np.tril(lower, -1).T


def log_norm(values: Array, power: float) -> tuple[float, Array]:
    """Return log((sum of values^power)^(1/power)) of positive values and its derivatives; EXTREME: of the largest."""
    largest = values.max()
    if power == EXTREME:
        slopes = np.zeros_like(values)
        slopes[int(values.argmax())] = 1 / largest
        return float(np.log(largest)), slopes
    parts = (values / largest) ** power
    total = parts.sum()
    return float(np.log(largest) + np.log(total) / power), parts / values / total
