"""Dry friction at rest: which frictions stick, and with what torque.

At zero speed the friction torques lam and the accelerations sdot = b - A lam of the friction speeds satisfy

    |lam| <= c;   sdot = 0 where |lam| < c;   sdot >= 0 where lam = c;   sdot <= 0 where lam = -c

which are the optimality conditions of: minimise lam^T A lam / 2 - b^T lam over the box |lam| <= c. A is positive
definite, so there is one solution, and no regularisation is needed.
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
"""Of the torques and accelerations beside which a violation counts."""


def find_modes_at_rest(A: Array, b: Array, c: Array) -> Modes:
    """The mode that each friction at zero speed takes, by Murty's least-index pivoting.

    One pivot at a time, always the first violated condition: ends after finitely many pivots for positive definite A
    [Judice, Pires 1994]. Starts from everything stuck, where arms at rest usually are.
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
    """Where each friction would go by its own condition: a stuck one beyond its level slips, one that is pulled back
    sticks.
    """
    speeding = modes * (b - A @ lam)
    scale = _VIOLATION_TOLERANCE * (np.abs(b) + np.abs(A) @ c)
    slipping = np.where(np.abs(lam) > c * (1 + _VIOLATION_TOLERANCE), np.sign(lam), 0).astype(np.int64)
    return np.where(modes == 0, slipping, np.where(speeding < -scale, 0, modes))


def sweep_gauss_seidel(A: SX, target: SX, c: Array | SX, lam: SX) -> SX:
    """One sweep of projected Gauss-Seidel on: minimise lam^T A lam / 2 - target^T lam over |lam| <= c."""
    lam = casadi.SX(lam)
    for k in range(c.shape[0]):
        rest = target[k] - casadi.dot(A[k, :].T, lam)
        lam[k] = casadi.fmin(casadi.fmax(lam[k] + rest / A[k, k], -c[k]), c[k])
    return lam
