"""`SmoothRows`: motion, torque and columns of a log below a cut-off, in a few thousand rows.

Diagnostics, and the estimation of torque delays, use these rows, because above the cut-off, noise of differentiated
positions looks like motion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.significance import is_significantly_positive
from mindyn.foundation.algebra.values import Array
from mindyn.logs.delay_scan import keeps_sign
from mindyn.logs.filters import lowpass
from mindyn.logs.samples import Samples, segment_ends

if TYPE_CHECKING:
    from mindyn.regression.regressor import Regressor

SMOOTH_CUTOFF_HZ: Final = 5.0
"""Cut-off of the low pass on motion and torque before they are compared. Above it, noise of differentiated positions
looks like motion. Rates: those of every finding that uses smooth rows.
"""
MAX_ROWS: Final = 4000
"""Largest number of smooth rows; two for each period of the cut-off."""
REWEIGHTINGS: Final = 2
HELD_OUT_BLOCKS: Final = 10
"""Number of contiguous blocks of smooth rows; every second block is held out of a fit."""
LEAST_NOISE: Final = 1e-4
"""Lower bound of a residual relative to the joint's torque."""

Motion = tuple[Array, Array, Array, Array | None]
"""q, qd, qdd (N, n) and the directions of friction."""


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """Squared residuals (N, n) of a fit, and their means (n,)."""

    squares: Array
    means: Array

    def of_rows(self, rows: NDArray[np.bool_]) -> Residuals:
        """Return the residuals of some rows."""
        return Residuals(self.squares[rows], self.squares[rows].mean(axis=0))

    def are_significantly_below(self, other: Residuals) -> bool:
        """Return whether these squared residuals are significantly smaller than those of `other` in most parts of the
        log.
        """
        halves = 0.5 * (other.means + self.means) + 1e-300
        return is_significantly_positive(((other.squares - self.squares) / halves).sum(axis=1))

    def ratio_to(self, other: Residuals) -> float:
        """Return the geometric mean over the joints of the ratio of rms residuals."""
        ratios = self.means / np.maximum(other.means, 1e-300)
        return float(np.exp(0.5 * np.log(np.maximum(ratios, 1e-300)).mean()))


@dataclass(frozen=True, slots=True, eq=False)
class SmoothRows:
    """Rows of motion and torque below `SMOOTH_CUTOFF_HZ`.

    motion     q, qd, qdd and directions of friction
    Y          (N, n, p) columns
    tau        (N, n) torque
    residuals  (N, n)
    weights    (n,) 1 / mean squared residual
    owners     (N,) number of the log of each row; None if unknown
    """

    motion: Motion
    Y: Array
    tau: Array
    residuals: Array
    weights: Array
    _all: Samples
    _rows: NDArray[np.intp]
    owners: NDArray[np.int64] | None = None

    def fit(self, tau: Array | None = None) -> Residuals:
        """Return the residuals of a reweighted fit; `tau` replaces the measured torques."""
        tau = self.tau if tau is None else tau
        squares = (tau - self.Y @ self.fit_values(tau)) ** 2
        return Residuals(squares, squares.mean(axis=0))

    def fit_values(self, tau: Array | None = None) -> Array:
        """Return the values (p,) of a reweighted fit; `tau` replaces the measured torques."""
        tau = self.tau if tau is None else tau
        weights, Y = self.weights, self.Y.transpose(1, 0, 2)
        matrices, rights = Y.transpose(0, 2, 1) @ Y, np.einsum("jrp,rj->jp", Y, tau)  # of every joint
        for _ in range(REWEIGHTINGS):
            beta = invert_normal(np.tensordot(weights, matrices, 1)) @ (weights @ rights)
            means = ((tau - self.Y @ beta) ** 2).mean(axis=0)
            weights = 1 / np.maximum(means, LEAST_NOISE**2 * (tau**2).mean(axis=0) + 1e-300)
        return np.asarray(beta)

    def fit_held_out(self, tau: Array | None = None) -> Residuals:
        """Return the residuals of blocks of rows, each from a fit to the other blocks.

        `tau` replaces the measured torques.
        """
        tau = self.tau if tau is None else tau
        block = np.arange(len(tau)) * HELD_OUT_BLOCKS // max(1, len(tau))
        squares = np.zeros_like(tau)
        for half in (0, 1):
            fitted = block % 2 == half
            rows = (self.Y[fitted] * np.sqrt(self.weights)[:, None]).reshape(-1, self.Y.shape[2])
            right = (tau[fitted] * np.sqrt(self.weights)).ravel()
            beta = invert_normal(rows.T @ rows) @ (rows.T @ right)
            squares[~fitted] = (tau[~fitted] - self.Y[~fitted] @ beta) ** 2
        return Residuals(squares, squares.mean(axis=0))

    def delayed_torque(self, joint: int, seconds: float) -> Array:
        """Return the torque (N, n) where one joint's torque is taken `seconds` later; the ends of segments do not
        change.
        """
        tau, segments, rows, moved = self._all.tau, self._all.segments, self._rows, self.tau.copy()
        near = np.clip(rows + seconds * self._all.rate_hz, 0, len(tau) - 1)
        first = np.minimum(near.astype(np.intp), len(tau) - 2)
        part = near - first
        same = (segments[first] == segments[rows]) & (segments[first + 1] == segments[rows])
        between = (1 - part) * tau[first, joint] + part * tau[first + 1, joint]
        moved[:, joint] = np.where(same, between, tau[rows, joint])
        return moved

    def keeps_direction(self, joint: int, reach_s: float) -> NDArray[np.bool_]:
        """Return the rows (N,) around which the speed of a joint has one sign, from `reach_s` before to after them."""
        reach = ceil(reach_s * self._all.rate_hz)
        return keeps_sign(self._all.qd[:, joint], reach)[self._rows]

    @property
    def sample_step_s(self) -> float:
        """Time between two samples of the logs."""
        return 1 / self._all.rate_hz

    @property
    def normal(self) -> Array:
        """Weighted normal matrix (p, p)."""
        rows = (self.Y * np.sqrt(self.weights)[:, None]).reshape(-1, self.Y.shape[2])
        return np.asarray(rows.T @ rows)

    @property
    def degrees_of_freedom(self) -> float:
        """Number of rows of a joint minus its share of the parameters."""
        rows, joints = map(int, self.tau.shape)
        return max(1.0, rows - int(np.linalg.matrix_rank(self.normal)) / joints)


def build_smooth_rows(
    regressor: Regressor,
    samples: Samples,
    beta: Array | None = None,
    excluded: Sequence[bool] | None = None,
    owners: NDArray[np.int64] | None = None,
) -> SmoothRows | None:
    """Return the rows of samples below the cut-off; None if there are too few rows.

    beta      (p,) values; their residuals give the weights of the joints. None: values of a fit to these rows
    excluded  (p,) whether the column of a parameter is zero
    owners    (N,) number of the log of each sample
    """
    rate, cutoff, ends = samples.rate_hz, _cutoff(samples), _long_segments(samples)
    if not ends:
        return None
    arrays: dict[str, Any] = {
        name: np.concatenate([lowpass(getattr(samples, name)[a:b], cutoff, rate) for a, b in ends])
        for name in ("q", "qd", "qdd", "tau")
    }
    segments = np.concatenate([np.full(b - a, k, dtype=np.int64) for k, (a, b) in enumerate(ends)])
    every = samples.replace_rows(**arrays, segments=segments)
    rows = np.arange(0, len(segments), _step(rate, cutoff, len(segments)))
    directions = regressor.directions(every.q, every.qd, segments, rate)
    motion = (every.q[rows], every.qd[rows], every.qdd[rows], None if directions is None else directions[rows])
    Y = np.asarray(regressor.dense(regressor.parts(*motion)))
    if excluded is not None:
        Y[:, :, list(excluded)] = 0.0
    if Y.shape[0] * Y.shape[1] < 2 * Y.shape[2]:
        return None
    tau = every.tau[rows]
    sizes = np.sqrt((tau**2).mean(axis=0))
    least = LEAST_NOISE * np.maximum(sizes, 1e-6 * sizes.max())
    weights = 1 / np.maximum(sizes, max(1e-300, 1e-6 * float(sizes.max()))) ** 2
    owned = None if owners is None else np.concatenate([owners[a:b] for a, b in ends])[rows]
    if beta is None:
        beta = SmoothRows(motion, Y, tau, tau, weights, every, rows, owned).fit_values()
    residuals = tau - Y @ beta
    noise = np.maximum(np.sqrt((residuals**2).mean(axis=0)), least)
    return SmoothRows(motion, Y, tau, residuals, 1 / np.maximum(noise, 1e-300) ** 2, every, rows, owned)


def lowpass_rows(samples: Samples, values: Array) -> Array:
    """Return values (N, k) below the cut-off, at the same rows as smooth rows."""
    rate, cutoff, ends = samples.rate_hz, _cutoff(samples), _long_segments(samples)
    smooth = np.concatenate([lowpass(values[a:b], cutoff, rate) for a, b in ends])
    return np.asarray(smooth[:: _step(rate, cutoff, len(smooth))])


def _cutoff(samples: Samples) -> float:
    return min(SMOOTH_CUTOFF_HZ, 0.2 * samples.rate_hz)


def _long_segments(samples: Samples) -> list[tuple[int, int]]:
    """Return the ends of the segments that are longer than a period of the cut-off."""
    return [(a, b) for a, b in segment_ends(samples.segments) if b - a > samples.rate_hz / _cutoff(samples)]


def _step(rate: float, cutoff: float, count: int) -> int:
    """Return the distance between smooth rows, in samples."""
    return max(1, int(rate / (2 * cutoff)), count // MAX_ROWS)


def invert_normal(normal: Array) -> Array:
    """Invert a normal matrix. Directions without data get 1e12 times the variance of the best determined direction."""
    scales = np.sqrt(np.diag(normal))
    scales = np.where(scales > 0, scales, np.inf)
    values, vectors = np.linalg.eigh(normal / np.outer(scales, scales))
    return np.asarray(
        (vectors / np.maximum(values, 1e-12 * max(values[-1], 1e-300))) @ vectors.T / np.outer(scales, scales)
    )
