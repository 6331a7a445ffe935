"""Parameters that cannot be negative: rotor inertia, viscous and Coulomb friction that stand alone in the base set."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array

_ALWAYS: Final = re.compile(r"Im\d+")
_FRICTION: Final = re.compile(r"f[vc]j?\d+")
_SHAPE: Final = re.compile(r"f_")
ROUNDS: Final = 200


def never_negative(names: Sequence[str]) -> NDArray[np.bool_]:
    """(p,) whether physics forbids negative values.

    A regrouped parameter (`Im1R`) may have any sign, and so may one of several terms of a shaped friction curve.
    """
    shaped = any(_SHAPE.match(name) for name in names)
    return np.array(
        [bool(_ALWAYS.fullmatch(name) or (not shaped and _FRICTION.fullmatch(name))) for name in names], dtype=bool
    )


def held_at_zero(matrix: Array, right: Array, bounded: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(p,) parameters that are zero in the minimiser of b^T matrix b - 2 right^T b with b >= 0 where bounded.

    An active-set search: the most negative is held, then one whose gradient asks for positive values is let go.
    """
    scales = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    A, c = matrix / scales / scales[:, None], right / scales
    held = np.zeros(len(c), dtype=bool)
    for _ in range(ROUNDS):
        b = np.zeros(len(c))
        b[~held] = np.linalg.lstsq(A[np.ix_(~held, ~held)], c[~held], rcond=1e-12)[0]
        low = np.where(bounded & ~held, b, 0.0)
        if low.min() < 0:
            held[int(np.argmin(low))] = True
            continue
        pull = np.where(held, c - A @ b, 0.0)
        if pull.max() <= 1e-9 * np.abs(c).max():
            break
        held[int(np.argmax(pull))] = False
    return held
