"""How much later the torque was logged than the motion: the shift at which motion explains it best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from mindyn.algebra.values import Array
from mindyn.logs.conditioning import Conditioning, number
from mindyn.logs.interpolation import SHIFT_REACH, delayed_at
from mindyn.logs.log import Log
from mindyn.logs.motion import conditioned_motion
from mindyn.logs.samples import Samples

Columns = Callable[[Array, Array, Array], Array]
"""From q, qd, qdd (N, n) to regressor columns (N, n, p): a model's regressor, or its prediction with p = 1."""

LONGEST_DELAY_S: Final = 0.1
SCAN_STEPS: Final = 20
COMPARED_ROWS: Final = 2500
FEWEST_COMPARED: Final = 100
NOTICEABLE: Final = 0.5
"""A delay is reported when it lowers the unexplained torque to less than this part; without a model, slow motions in
step are explained to 0.74 by a wrong one."""


@dataclass(frozen=True, slots=True, eq=False)
class Delay:
    """Best common delay in s, the share of the torque left unexplained there and without delay, over all joints."""

    seconds: float
    unexplained: float
    unexplained_without: float


def joint_columns(q: Array, qd: Array, qdd: Array) -> Array:
    """Columns that need no model: 1, sin and cos of every position, own velocity, its direction, every acceleration."""
    n = q.shape[1]
    speed = np.sqrt((qd**2).mean(axis=0))
    direction = np.tanh(qd / np.where(speed > 0, 0.05 * speed, 1.0))
    shared = np.concatenate([np.ones((len(q), 1)), np.sin(q), np.cos(q), qdd], axis=1)
    own = np.stack([qd, direction], axis=2)
    return np.concatenate([np.broadcast_to(shared[:, None, :], (len(q), n, shared.shape[1])), own], axis=2)


def estimate_delay(samples: Samples, columns: Columns = joint_columns, longest_s: float = LONGEST_DELAY_S) -> Delay:
    """The delay at which a least-squares fit of the columns leaves the least torque; a scan, then a bounded search.

    Joints count alike. Rows nearer than the longest delay to a segment's ends are not compared, and of the others at
    most `COMPARED_ROWS`, evenly spread: a delay needs no more.
    """
    rows = _compared_rows(samples.segments, int(np.ceil(longest_s * samples.rate_hz)) + 2 * SHIFT_REACH)
    if len(rows) < FEWEST_COMPARED:
        return Delay(0.0, 1.0, 1.0)
    bases = _bases(columns(samples.q[rows], samples.qd[rows], samples.qdd[rows]))

    def unexplained(seconds: float) -> float:
        # A torque logged later is a torque to be moved earlier: a negative delay.
        return _unexplained(delayed_at(samples.tau, -seconds * samples.rate_hz, rows), bases)

    scan = np.linspace(-longest_s, longest_s, 2 * SCAN_STEPS + 1)
    best = int(np.argmin([unexplained(value) for value in scan]))
    bounds = (scan[max(0, best - 1)], scan[min(len(scan) - 1, best + 1)])
    found = minimize_scalar(unexplained, bounds=bounds, method="bounded", options={"xatol": 0.01 / samples.rate_hz})
    return Delay(float(found.x), float(found.fun), unexplained(0.0))


def _compared_rows(segments: NDArray[np.int64], margin: int) -> NDArray[np.intp]:
    starts = np.flatnonzero(np.diff(segments, prepend=-1))
    stops = np.append(starts[1:], len(segments))
    inner = [np.arange(start + margin, stop - margin) for start, stop in zip(starts, stops, strict=True)]
    rows = np.concatenate(inner)
    return np.asarray(rows[:: 1 + len(rows) // COMPARED_ROWS])


def _bases(Y: Array) -> list[Array]:
    """For each joint an orthonormal basis of its columns; Y (N, n, p) or (N, n)."""
    Y = Y if Y.ndim == 3 else Y[:, :, None]
    bases = []
    for j in range(Y.shape[1]):
        U, s, _ = np.linalg.svd(Y[:, j] / np.maximum(np.linalg.norm(Y[:, j], axis=0), 1e-300), full_matrices=False)
        bases.append(np.asarray(U[:, s > 1e-10 * s[0]]))
    return bases


def _unexplained(tau: Array, bases: Sequence[Array]) -> float:
    """Mean over joints of |tau - projection|^2 / |tau - mean|^2."""
    shares = []
    for torque, U in zip(tau.T, bases, strict=True):
        centred = float(((torque - torque.mean()) ** 2).sum())
        if centred > 0:
            shares.append(max(0.0, float(torque @ torque) - float(((U.T @ torque) ** 2).sum())) / centred)
    return float(np.mean(shares)) if shares else 1.0


def chosen_delay(parts: Sequence[Log], c: Conditioning) -> float:
    """The delay estimated from uniform stretches without a model."""
    made = [conditioned_motion(part, c.with_delay(0.0)) for part in parts]
    q, qd, qdd, tau = (np.concatenate(arrays) for arrays in zip(*made, strict=True))
    segments = np.concatenate([np.full(len(part), k, dtype=np.int64) for k, part in enumerate(parts)])
    rate = number(c.rate_hz, "rate_hz")
    return estimate_delay(Samples(parts[0].joint_names, q, qd, qdd, tau, rate, segments)).seconds


def step_notes(samples: Samples, c: Conditioning) -> list[str]:
    """A note when torque and motion look out of step by more than a row."""
    found = estimate_delay(samples)
    better = found.unexplained < NOTICEABLE * found.unexplained_without
    if not better or abs(found.seconds) * samples.rate_hz < 1:
        return []
    return [
        f"torque and motion look out of step: the torque comes {1e3 * found.seconds:.3g} ms after the motion; "
        f"unexplained torque {100 * found.unexplained_without:.2g} %, then {100 * found.unexplained:.2g} %; "
        f'delay_s = {number(c.delay_s, "delay_s") + found.seconds:.4g} (or "auto") would put them in step'
    ]
