"""A minimum of a consistent fit to rounding, from where a conic solver ends: its duality gap is 1e-9 of the cost.

Where links are solid bodies (a prior's divergence keeps them so) what is minimised is smooth in x, and the conditions
that bind are rows G v + h = 0 of x = units * v. Newton's steps then are least squares,

    minimise |A (v + s) - b|^2 / 2 + w (g.s + s.H s / 2)   over s with G s = -(G v + h)

g, H derivatives of the prior; rows join those that bind when a step would pass them, and leave where their multiplier
asks for it. What ends above the solver's own cost is not taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space

from mindyn.algebra.values import Array

Binding = NDArray[np.bool_]

BINDING_SLACK: Final = 1e-6
"""A slack below this, in units of v, is taken to bind until its multiplier says otherwise."""
MAX_POLISHING_STEPS: Final = 40
STEP_TOLERANCE: Final = 1e-13
"""A step below this, relative to v, ends it."""
RELEASE_RATIO: Final = 1e-9
"""Of the largest multiplier: one below -PULLS times it sets its row free."""
MIN_CURVATURE_RATIO: Final = 1e-14
"""Curvature of the prior below this part of its largest counts as none."""


@dataclass(frozen=True, slots=True, eq=False)
class SmoothFit:
    """What is minimised over v, and where it may be.

    A, b        of the data, 1/2 |A v - b|^2
    prior       v -> value, gradient (size,) and second derivative (size, size) of the rest; infinite outside
    equal       (e, size), (e,): rows and offsets that are zero
    least       (i, size), (i,): rows and offsets that are not negative
    """

    A: Array
    b: Array
    prior: Callable[[Array], tuple[float, Array, Array]]
    equal: tuple[Array, Array]
    least: tuple[Array, Array]

    def cost(self, v: Array) -> float:
        """Of data and prior."""
        left = self.A @ v - self.b
        return float(left @ left / 2) + self.prior(v)[0]

    def polish(self, v: Array) -> Array:
        """The minimum next to v, or v itself where none is found that is no worse."""
        G, h = self.least
        binding: Binding = G @ v + h < BINDING_SLACK
        found, multipliers = v.copy(), np.zeros(0)
        for _ in range(MAX_POLISHING_STEPS):
            step, multipliers = self._newton_step(found, binding)
            if step is None:
                return v
            share = self._step_fraction(found, step, binding)
            passed = share < 1.0
            found = found + share * step
            if passed:
                binding = binding | (G @ found + h < STEP_TOLERANCE * (1 + np.abs(h)))
            elif np.abs(step).max() <= STEP_TOLERANCE * np.abs(found).max():
                freed = self._release_row(binding, multipliers)
                if freed is None:
                    break
                binding = freed
        slack = (G @ found + h).min(initial=0.0)
        good = np.isfinite(found).all() and slack > -STEP_TOLERANCE * (1 + np.abs(found).max())
        # A solver ends a little outside, where costs may be lower: by the multipliers' part of that at most.
        E, e = self.equal
        off = np.abs(np.concatenate([E @ v + e, (G @ v + h)[binding]]))
        below = float(np.abs(multipliers) @ off) if len(multipliers) == len(off) else 0.0
        before = self.cost(v)
        return found if good and self.cost(found) <= before + below + STEP_TOLERANCE * abs(before) else v

    def _newton_step(self, v: Array, binding: Binding) -> tuple[Array | None, Array]:
        (E, e), (G, h) = self.equal, self.least
        C, c = np.vstack([E, G[binding]]), np.concatenate([e, h[binding]])
        _, gradient, H = self.prior(v)
        if not (np.isfinite(gradient).all() and np.isfinite(H).all()):
            return None, np.zeros(0)
        values, vectors = np.linalg.eigh(H)
        kept = values > MIN_CURVATURE_RATIO * max(float(values[-1]), 1e-300)
        root = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
        pull = -(vectors[:, kept].T @ gradient) / np.sqrt(values[kept])
        within = -np.linalg.pinv(C) @ (C @ v + c)
        Z = null_space(C) if len(C) else np.eye(len(v))
        rows, right = np.vstack([self.A, root]), np.concatenate([self.b - self.A @ v, pull])
        scale = np.maximum(np.linalg.norm(rows @ Z, axis=0), 1e-300)
        y = np.linalg.lstsq(rows @ Z / scale, right - rows @ within, rcond=1e-15)[0] / scale
        step = within + Z @ y
        slope = self.A.T @ (self.A @ (v + step) - self.b) + gradient + H @ step
        return step, np.linalg.lstsq(C.T, slope, rcond=None)[0]

    def _step_fraction(self, v: Array, step: Array, binding: Binding) -> float:
        """The part of a step up to the first row that it would pass, or while the prior has a value."""
        G, h = self.least
        slack, change = G @ v + h, G @ step
        closing = ~binding & (slack + change < 0)
        share = float((-slack[closing] / change[closing]).min()) if closing.any() else 1.0
        share = max(share, 0.0)
        while share > 1e-6 and not np.isfinite(self.prior(v + share * step)[0]):
            share *= 0.5
        return share

    def _release_row(self, binding: Binding, multipliers: Array) -> Binding | None:
        """The binding rows less the one that pulls hardest; None where none does."""
        own = multipliers[len(self.equal[0]) :]
        if not len(own) or own.min() >= -RELEASE_RATIO * max(np.abs(own).max(), 1e-300):
            return None
        freed = binding.copy()
        freed[np.flatnonzero(binding)[int(np.argmin(own))]] = False
        return freed
