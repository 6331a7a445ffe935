"""Estimate the delay of the torque relative to the motion: the delay at which the motion explains the torque best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.logs.conditioning import Conditioning, condition_motion, require_resolved
from mindyn.logs.interpolation import SHIFT_REACH_ROWS, delay_selected_rows
from mindyn.logs.log import Log
from mindyn.logs.samples import Samples

MAX_DELAY_S: Final = 0.1
SCAN_STEPS: Final = 20
MAX_COMPARED_ROWS: Final = 2500
MIN_COMPARED_ROWS: Final = 100
BINOMIAL_WEIGHTS: Final = np.array([1, 4, 6, 4, 1]) / 16
"""Weights of neighbouring torque rows in the comparison; they are symmetric and add no delay."""
MAX_REMAINING_FRACTION: Final = 0.5
"""A delay is reported if it reduces the unexplained torque to less than this fraction. Without a model, a wrong delay
reduces it to 0.74 in slow motions that have no delay."""
ROUNDING_FRACTION: Final = 1e-9
"""Fraction of the torque that rounding and interpolation may leave; below it no delay is significant."""


@dataclass(frozen=True, slots=True, eq=False)
class ScannedDelay:
    """Best common delay in s, and the fraction of the torque of all joints that is not explained, with this delay and
    without.
    """

    seconds: float
    unexplained: float
    unexplained_without: float

    @property
    def is_noticeable(self) -> bool:
        """Whether the delay explains the torque significantly better."""
        return (
            self.unexplained_without > ROUNDING_FRACTION
            and self.unexplained < MAX_REMAINING_FRACTION * self.unexplained_without
        )


def joint_columns(q: Array, qd: Array, qdd: Array) -> Array:
    """Return columns for a fit without a model: 1, sin and cos of all q, the joint's velocity and its sign, and all
    qdd.
    """
    n = q.shape[1]
    speed = np.sqrt((qd**2).mean(axis=0))
    direction = np.tanh(qd / np.where(speed > 0, 0.05 * speed, 1.0))
    shared = np.concatenate([np.ones((len(q), 1)), np.sin(q), np.cos(q), qdd], axis=1)
    of_joint = np.stack([qd, direction], axis=2)
    return np.concatenate([np.broadcast_to(shared[:, None, :], (len(q), n, shared.shape[1])), of_joint], axis=2)


class DelayScan:
    """Unexplained torque of each joint after a fit of the columns, as a function of the delay of the torque.

    At most `MAX_COMPARED_ROWS` evenly spaced rows are compared, which is enough for a delay. Rows that are closer to
    the end of a segment than the longest delay are excluded. Rows that are closer to a reversal of the joint's
    friction are excluded as well, because the shape of the friction would look like a delay.

    columns    function of sample indices (r,) that returns the columns (r, p_j) of every joint
    direction  (N, n) speeds whose sign determines the friction; None uses all rows
    """

    def __init__(
        self,
        samples: Samples,
        columns: Callable[[NDArray[np.intp]], Sequence[Array]],
        longest_s: float = MAX_DELAY_S,
        direction: Array | None = None,
    ) -> None:
        self.samples, self.longest_s = samples, longest_s
        reach = int(np.ceil(longest_s * samples.rate_hz))
        self.rows = _select_compared_rows(samples.segments, reach + 2 * SHIFT_REACH_ROWS)
        # Interpolation between rows removes noise near half the rate, which would look like a better fit.
        self._torques = [np.convolve(tau, BINOMIAL_WEIGHTS, mode="same") for tau in samples.tau.T]
        self.is_enough = len(self.rows) >= MIN_COMPARED_ROWS
        self._parts: list[tuple[NDArray[np.intp], Array]] = []
        for joint, Y in enumerate(columns(self.rows) if self.is_enough else ()):
            kept = np.arange(len(self.rows))
            if direction is not None:
                steady = kept[keeps_sign(direction[:, joint], reach)[self.rows]]
                kept = steady if len(steady) >= max(MIN_COMPARED_ROWS, 2 * Y.shape[1]) else kept
            self._parts.append((self.rows[kept], _orthonormal_basis(Y[kept])))

    def unexplained(self, seconds: float) -> Array:
        """Return for every joint the unexplained fraction (n,), |tau - projection|^2 / |tau - mean|^2; 1 for joints
        without torque.
        """
        return np.array([self._share(joint, seconds) for joint in range(len(self._parts))])

    def best(self) -> ScannedDelay:
        """Return the best common delay, with equal weights of all joints: scan the range, then search near the best
        value.
        """
        from scipy.optimize import minimize_scalar

        if not self.is_enough:
            return ScannedDelay(0.0, 1.0, 1.0)

        def unexplained(seconds: float) -> float:
            return float(self.unexplained(seconds).mean())

        scan = np.linspace(-self.longest_s, self.longest_s, 2 * SCAN_STEPS + 1)
        best = int(np.argmin([unexplained(value) for value in scan]))
        bounds = (scan[max(0, best - 1)], scan[min(len(scan) - 1, best + 1)])
        xatol = 0.01 / self.samples.rate_hz
        result = minimize_scalar(unexplained, bounds=bounds, method="bounded", options={"xatol": xatol})
        return ScannedDelay(float(result.x), float(result.fun), unexplained(0.0))

    def _share(self, joint: int, seconds: float) -> float:
        rows, U = self._parts[joint]
        # A delayed torque must be moved to earlier times: a negative delay.
        torque = delay_selected_rows(self._torques[joint], -seconds * self.samples.rate_hz, rows)
        centred = float(((torque - torque.mean()) ** 2).sum())
        if not centred > 0:
            return 1.0
        return max(0.0, float(torque @ torque) - float(((U.T @ torque) ** 2).sum())) / centred


def keeps_sign(speed: Array, reach: int) -> NDArray[np.bool_]:
    """Return the rows (N,) around which a speed has one sign, from `reach` rows before to `reach` rows after."""
    turns = np.concatenate([[0], np.cumsum(np.diff(np.sign(speed)) != 0)])
    padded = np.pad(turns, reach, mode="edge")
    return np.asarray(padded[2 * reach :] == padded[: len(turns)])


def scan_delay(samples: Samples) -> ScannedDelay:
    """Return the common delay with the smallest residual of a least-squares fit of `joint_columns`."""

    def of_joints(rows: NDArray[np.intp]) -> list[Array]:
        return list(joint_columns(samples.q[rows], samples.qd[rows], samples.qdd[rows]).swapaxes(0, 1))

    return DelayScan(samples, of_joints).best()


def _select_compared_rows(segments: NDArray[np.int64], margin: int) -> NDArray[np.intp]:
    starts = np.flatnonzero(np.diff(segments, prepend=-1))
    stops = np.append(starts[1:], len(segments))
    inner = [np.arange(start + margin, stop - margin) for start, stop in zip(starts, stops, strict=True)]
    rows = np.concatenate(inner)
    return np.asarray(rows[:: 1 + len(rows) // MAX_COMPARED_ROWS])


def _orthonormal_basis(Y: Array) -> Array:
    """Return an orthonormal basis of columns (r, p)."""
    U, s, _ = np.linalg.svd(Y / np.maximum(np.linalg.norm(Y, axis=0), 1e-300), full_matrices=False)
    return np.asarray(U[:, s > 1e-10 * s[0]])


def estimate_delay_without_model(parts: Sequence[Log], c: Conditioning) -> float:
    """Estimate the delay (s) from uniform segments, without a model of the robot."""
    motions = [condition_motion(part, replace(c, delay_s=0.0)) for part in parts]
    q, qd, qdd, tau = (np.concatenate([getattr(m, name) for m in motions]) for name in ("q", "qd", "qdd", "tau"))
    segments = np.concatenate([np.full(len(part), k, dtype=np.int64) for k, part in enumerate(parts)])
    rate = require_resolved(c.rate_hz, "rate_hz")
    return scan_delay(Samples(parts[0].joint_names, q, qd, qdd, tau, rate, segments)).seconds
