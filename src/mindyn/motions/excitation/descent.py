"""`Descent`: sequential quadratic programming that can be interrupted and continued.

The method minimises f(x) subject to c(x) <= 0, with derivatives of both. Every step solves a quadratic program, in
which the curvature of the Lagrangian comes from damped updates [Powell 1978]. A line search on f + weights . max(c, 0)
follows. Of hundreds of constraints, only a few are close to their limits: the quadratic program starts with these, and
adds constraints that its solution violates until no constraint is violated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.motions.excitation.problem import Derivatives

NEAR: Final = 0.1
"""A constraint is in the first quadratic program if its distance from the limit is below this."""
EASED: Final = (1.0, 0.5, 0.1, 0.0)
"""Fractions of the violation that a step removes; the next fraction is used if constraints contradict each other."""
SUFFICIENT: Final = 0.1
"""Smallest decrease that a step must achieve, relative to the predicted decrease."""
SHORTENINGS: Final = 10
SHORTEST: Final = 0.1
"""How often a step is shortened at most, and the smallest factor each time."""
ROUNDS: Final = 30
"""Largest number of quadratic programs in a step, each with more constraints than the previous one."""
KEPT_TO: Final = 1e-8
"""Tolerance of the constraints of a quadratic program."""
RIDGE: Final = 1e-12
"""Value, relative to the mean, that is added to the squares of constraints because some constraints are linearly
dependent.
"""
EXCHANGES: Final = 25
"""Largest number of exchanges from a guess of the active constraints."""
DAMPED: Final = 0.2
"""Smallest fraction of the previous curvature that an update keeps."""

Function = Callable[[Array], tuple[Any, Derivatives]]
"""Value at a point, and a function for the derivatives there."""


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """Unknowns of a descent, and the curvature (n, n) of the Lagrangian so far; None if it is unknown."""

    x: Array
    curvature: Array | None = None


class Descent:
    """State of a descent.

    objective    f and its gradient (n,)
    limits       c (m,) and its Jacobian (m, n)
    box          largest change of each unknown from its start
    ends         change of f, and sum of violations, at which the descent ends
    """

    def __init__(
        self, objective: Function, limits: Function, begun: Point, box: float = np.inf, ends: float = 1e-5
    ) -> None:
        self.objective, self.limits, self.begun, self.box, self.ends = objective, limits, begun, box, ends
        self.arrived, self.x = False, begun.x
        self._f, gradient = objective(self.x)
        self._c, jacobian = limits(self.x)
        self._gradient: Array = gradient()
        self._jacobian: Array = jacobian()
        self._curvature = np.eye(len(self.x)) if begun.curvature is None else begun.curvature
        self._weights = np.zeros(len(self._c))
        self._active: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)

    def go(self, steps: int, passed: Callable[[Array, float, Array], None] = lambda *_: None) -> Point:
        """Return the point after at most this many steps. `passed` is called with every x, f and c."""
        for _ in range(steps):
            if self.arrived:
                break
            self._step()
            passed(self.x, self._f, self._c)
        return Point(self.x, self._curvature)

    def _step(self) -> None:
        known = self._find_step()
        if known is None:
            self.arrived = True
            return
        d, multipliers, slope = known
        exceeded = np.maximum(self._c, 0.0)
        merit, length = self._f + self._weights @ exceeded, 1.0
        for _ in range(SHORTENINGS):
            x = self.x + length * d
            f, gradient = self.objective(x)
            c, jacobian = self.limits(x)
            change = f + self._weights @ np.maximum(c, 0.0) - merit
            if change <= SUFFICIENT * length * slope:
                break
            length *= max(length * slope / (2 * (length * slope - change)), SHORTEST)
        if not np.isfinite(change):
            self.arrived = True
            return
        moved, old = x - self.x, self._gradient + multipliers @ self._jacobian
        self.arrived = bool(
            (abs(f - self._f) < self.ends or np.linalg.norm(moved) < self.ends) and np.maximum(c, 0.0).sum() < self.ends
        )
        self.x, self._f, self._c = x, float(f), c
        self._gradient, self._jacobian = gradient(), jacobian()
        self._update(moved, self._gradient + multipliers @ self._jacobian - old)

    def _find_step(self) -> tuple[Array, Array, float] | None:
        """Return a step, the multipliers, and the slope of the merit function along it; None if there is no descent."""
        exceeded = np.maximum(self._c, 0.0)
        for fresh in (False, True):
            if fresh:
                self._curvature = np.eye(len(self.x))
            for part in EASED:
                solved = self._solve_program(part * exceeded + np.minimum(self._c, 0.0))
                if solved is not None:
                    break
            else:
                continue
            d, multipliers = solved
            self._weights = np.maximum(multipliers, (self._weights + multipliers) / 2)
            slope = float(self._gradient @ d - part * (self._weights @ exceeded))
            if slope < 0:
                return d, multipliers, slope
        return None

    def _solve_program(self, c: Array) -> tuple[Array, Array] | None:
        """Return d and multipliers (m,) that minimise gradient . d + d . curvature d / 2 with c + jacobian d <= 0 and x
        + d in the box.

        The result is None if the constraints contradict each other. With L L^T the curvature and y = L^T d + L^-1
        gradient, the solution is the shortest y that satisfies the constraints.
        """
        from scipy.linalg import solve_triangular

        count, n = self._jacobian.shape
        rows, limit = self._jacobian, -c
        if np.isfinite(self.box):
            gone = self.x - self.begun.x
            rows = np.vstack([rows, np.eye(n), -np.eye(n)])
            limit = np.concatenate([limit, self.box - gone, self.box + gone])
        try:
            L = np.linalg.cholesky(self._curvature)
        except np.linalg.LinAlgError:  # rounding; `_find_step` then begins anew
            return None
        w = solve_triangular(L, self._gradient, lower=True, check_finite=False)
        taken = limit < NEAR
        active = self._active if len(self._active) == len(limit) else np.zeros(len(limit), dtype=np.bool_)
        for _ in range(ROUNDS):
            chosen = np.flatnonzero(taken)
            G = -solve_triangular(L, rows[chosen].T, lower=True, check_finite=False)  # (n, k)
            forces = shortest(G, w @ G - limit[chosen], active[chosen])
            if forces is None:
                return None
            active = np.zeros(len(limit), dtype=np.bool_)
            active[chosen] = forces > 0
            d = solve_triangular(L, G @ forces - w, lower=True, trans=1, check_finite=False)
            broken = (rows @ d - limit > KEPT_TO) & ~taken
            if not broken.any():
                break
            taken |= broken
        multipliers = np.zeros(len(limit))
        multipliers[chosen], self._active = forces, active
        return d, multipliers[:count]

    def _update(self, s: Array, y: Array) -> None:
        """Update the curvature from a step and the change of the Lagrangian's gradient."""
        Bs = self._curvature @ s
        sBs, sy = float(s @ Bs), float(s @ y)
        if sBs <= 0:
            return
        if sy < DAMPED * sBs:
            part = (1 - DAMPED) * sBs / (sBs - sy)
            y = part * y + (1 - part) * Bs
            sy = float(s @ y)
        self._curvature = self._curvature - np.outer(Bs / sBs, Bs) + np.outer(y / sy, y)


def shortest(G: Array, h: Array, active: NDArray[np.bool_] | None = None) -> Array | None:
    """Return multipliers u (k,) >= 0 for which G u is the shortest y with G^T y >= h; None if no y satisfies this.

    The multipliers minimise u^T Q u / 2 - h^T u with Q = G^T G = L L^T [Lawson & Hanson 1974, chapter 23].

    active  (k,) constraints that are probably active, from which exchanges start; without them, or if the exchanges do
    not end, the method of Lawson and Hanson starts from none
    """
    from scipy.linalg import solve_triangular
    from scipy.optimize import nnls

    if not len(h):
        return h
    Q = G.T @ G
    Q[np.diag_indices_from(Q)] += RIDGE * max(float(np.trace(Q)) / len(h), np.finfo(float).tiny)
    if active is not None:
        exchanged = _exchange(Q, h, active, len(G))
        if exchanged is not None and (h - G.T @ (G @ exchanged)).max() <= KEPT_TO:
            return exchanged
    try:
        L = np.linalg.cholesky(Q)
        u = nnls(L.T, solve_triangular(L, h, lower=True, check_finite=False))[0]
    except (np.linalg.LinAlgError, RuntimeError):  # nearly dependent constraints; too many exchanges
        return None
    return None if (h - G.T @ (G @ u)).max() > KEPT_TO else u


def _exchange(Q: Array, h: Array, active: NDArray[np.bool_], most: int) -> Array | None:
    """Return the multipliers by exchanges of all constraints with a wrong sign at once; None if they do not end.

    most  largest number of active constraints
    """
    from scipy.linalg.lapack import dposv

    active = active.copy()
    for _ in range(EXCHANGES):
        chosen, u = np.flatnonzero(active), np.zeros(len(h))
        if len(chosen) > most:
            return None
        if len(chosen):
            _, forces, failed = dposv(Q[np.ix_(chosen, chosen)], h[chosen])
            if failed:
                return None
            if forces.min() < 0:
                active[chosen[forces < 0]] = False
                continue
            u[chosen] = forces
        broken = (h - Q @ u > KEPT_TO) & ~active
        if not broken.any():
            return u
        active |= broken
    return None
