"""Dry friction at rest: decide which frictions stick, and compute their torques.

At zero speed, the friction torques lam and the accelerations sdot = b - A lam of the friction speeds satisfy

    |lam| <= c;   sdot = 0 where |lam| < c;   sdot >= 0 where lam = c;   sdot <= 0 where lam = -c

These are the optimality conditions of: minimise lam^T A lam / 2 - b^T lam over the box |lam| <= c. A is positive
definite, so that the solution is unique without regularisation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array

Modes = NDArray[np.int64]
"""For each friction: +1 or -1 while it slips in that direction, 0 while it sticks."""
_VIOLATION_TOLERANCE = 1e-11
"""Smallest violation of a condition, relative to the torques and accelerations."""


def find_modes_at_rest(A: Array, b: Array, c: Array) -> Modes:
    """Return the mode of each friction at zero speed, by Murty's least-index pivoting.

    Each pivot corrects the first violated condition, which ends after finitely many pivots for positive definite A
    [Judice, Pires 1994]. All frictions stick at the start, as they usually do in an arm at rest.
    """
    modes = np.zeros(len(c), dtype=np.int64)
    for _ in range(3 ** min(len(c), 12)):
        wanted = _next_modes(A, b, c, modes, _friction_torques(A, b, c, modes))
        violated = np.flatnonzero(wanted != modes)
        if not len(violated):
            break
        modes[violated[0]] = wanted[violated[0]]
    return modes


def _friction_torques(A: Array, b: Array, c: Array, modes: Modes) -> Array:
    lam = c * modes
    free = np.flatnonzero(modes == 0)
    lam[free] = np.linalg.solve(A[np.ix_(free, free)], b[free] - A[free] @ lam)
    return lam


def _next_modes(A: Array, b: Array, c: Array, modes: Modes, lam: Array) -> Modes:
    """Return the next mode of each friction (stuck, or slipping in one direction), regardless of the others.

    A stuck friction beyond its level slips; a slipping friction that is pulled back sticks.
    """
    speeding = modes * (b - A @ lam)
    scale = _VIOLATION_TOLERANCE * (np.abs(b) + np.abs(A) @ c)
    slipping = np.where(np.abs(lam) > c * (1 + _VIOLATION_TOLERANCE), np.sign(lam), 0).astype(np.int64)
    return np.where(modes == 0, slipping, np.where(speeding < -scale, 0, modes))
