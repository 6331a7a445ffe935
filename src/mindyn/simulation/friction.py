"""Dry friction at rest: decide which frictions stick, and compute their torques.

At zero speed the friction torques lam and the accelerations sdot = b - A lam of the friction speeds satisfy

    |lam| <= c;   sdot = 0 where |lam| < c;   sdot >= 0 where lam = c;   sdot <= 0 where lam = -c

which are the optimality conditions of: minimise lam^T A lam / 2 - b^T lam over the box |lam| <= c. A is positive
definite, so the solution is unique without regularisation.
"""

from __future__ import annotations

import casadi
import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.equations.chain import SX

Modes = NDArray[np.int64]
"""For each friction: +1 or -1 while it slips in that direction, 0 while it sticks."""

_VIOLATION_TOLERANCE = 1e-11
"""Smallest violation of a condition, relative to the torques and accelerations."""


def find_modes_at_rest(A: Array, b: Array, c: Array) -> Modes:
    """Return the mode of each friction at zero speed by Murty's least-index pivoting.

    Each pivot corrects the first violated condition, which ends after finitely many pivots for positive definite A
    [Judice, Pires 1994]. All frictions stick at the start, as they usually do in an arm at rest.
    """
    modes = np.zeros(len(c), dtype=np.int64)
    for _ in range(3 ** min(len(c), 12)):
        lam = _friction_torques(A, b, c, modes)
        violated = np.flatnonzero(_next_modes(A, b, c, modes, lam) != modes)
        if not len(violated):
            break
        first = violated[0]
        modes[first] = _next_modes(A, b, c, modes, lam)[first]
    return modes


def _friction_torques(A: Array, b: Array, c: Array, modes: Modes) -> Array:
    lam = c * modes
    free = np.flatnonzero(modes == 0)
    if len(free):
        lam[free] = np.linalg.solve(A[np.ix_(free, free)], b[free] - A[free] @ lam)
    return lam


def _next_modes(A: Array, b: Array, c: Array, modes: Modes, lam: Array) -> Modes:
    """Return the mode that each friction's own condition asks for.

    A stuck friction beyond its level slips; a slipping friction that is pulled back sticks.
    """
    speeding = modes * (b - A @ lam)
    scale = _VIOLATION_TOLERANCE * (np.abs(b) + np.abs(A) @ c)
    slipping = np.where(np.abs(lam) > c * (1 + _VIOLATION_TOLERANCE), np.sign(lam), 0).astype(np.int64)
    return np.where(modes == 0, slipping, np.where(speeding < -scale, 0, modes))


def sweep_gauss_seidel(A: SX, target: SX, c: Array | SX, lam: SX) -> SX:
    """Perform a sweep of projected Gauss-Seidel on: minimise lam^T A lam / 2 - target^T lam over |lam| <= c."""
    lam = casadi.SX(lam)
    for k in range(c.shape[0]):
        rest = target[k] - casadi.dot(A[k, :].T, lam)
        lam[k] = casadi.fmin(casadi.fmax(lam[k] + rest / A[k, k], -c[k]), c[k])
    return lam
