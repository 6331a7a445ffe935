"""Newton steps from the result of a conic solver (duality gap 1e-9 of the cost) to a minimum at rounding error.

If links are solid bodies (the divergence from a prior keeps them so), the cost is smooth in x, and active conditions
are rows G v + h = 0 of x = units * v. A Newton step is a least-squares problem,

    minimise |A (v + s) - b|^2 / 2 + w (g.s + s.H s / 2)   over s with G s = -(G v + h)

with g, H the derivatives of the prior. A row becomes active if a step would cross it, and inactive by the sign of its
multiplier. A result that costs more than that of the solver is rejected.
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
"""Slack, in units of v, below which a row is active until its multiplier releases it."""
MAX_POLISHING_STEPS: Final = 40
STEP_TOLERANCE: Final = 1e-13
"""Step relative to v at which the iteration stops."""
RELEASE_RATIO: Final = 1e-9
"""A multiplier below this negative fraction of the largest releases its row."""
MIN_CURVATURE_RATIO: Final = 1e-14
"""Curvature of the prior relative to its largest below which it counts as zero."""


@dataclass(frozen=True, slots=True, eq=False)
class SmoothFit:
    """Cost that is minimised over v, and its constraints.

    A, b        data term, 1/2 |A v - b|^2
    prior       v -> value, gradient (size,) and second derivative (size, size) of the other term; infinite outside
    equal       (e, size), (e,): rows and offsets that must be zero
    least       (i, size), (i,): rows and offsets that must be nonnegative
    """

    A: Array
    b: Array
    prior: Callable[[Array], tuple[float, Array, Array]]
    equal: tuple[Array, Array]
    least: tuple[Array, Array]

    def cost(self, v: Array) -> float:
        """Return the cost of data and prior."""
        left = self.A @ v - self.b
        return float(left @ left / 2) + self.prior(v)[0]

    def polish(self, v: Array) -> Array:
        """Return the minimum near v, or v itself if no better point is found."""
        G, h = self.least
        binding: Binding = G @ v + h < BINDING_SLACK
        point, multipliers = v.copy(), np.zeros(0)
        for _ in range(MAX_POLISHING_STEPS):
            step, multipliers = self._newton_step(point, binding)
            if step is None:
                return v
            fraction = self._step_fraction(point, step, binding)
            is_blocked = fraction < 1.0
            point = point + fraction * step
            if is_blocked:
                binding = binding | (G @ point + h < STEP_TOLERANCE * (1 + np.abs(h)))
            elif np.abs(step).max() <= STEP_TOLERANCE * np.abs(point).max():
                released = self._release_row(binding, multipliers)
                if released is None:
                    break
                binding = released
        slack = (G @ point + h).min(initial=0.0)
        is_valid = np.isfinite(point).all() and slack > -STEP_TOLERANCE * (1 + np.abs(point).max())
        # The solver ends slightly outside, where the cost may be lower by at most multipliers times violations.
        E, e = self.equal
        violations = np.abs(np.concatenate([E @ v + e, (G @ v + h)[binding]]))
        allowance = float(np.abs(multipliers) @ violations) if len(multipliers) == len(violations) else 0.0
        before = self.cost(v)
        return point if is_valid and self.cost(point) <= before + allowance + STEP_TOLERANCE * abs(before) else v

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
        """Return the fraction of a step up to the first row that it would cross, and with a finite prior."""
        G, h = self.least
        slack, change = G @ v + h, G @ step
        closing = ~binding & (slack + change < 0)
        fraction = float((-slack[closing] / change[closing]).min()) if closing.any() else 1.0
        fraction = max(fraction, 0.0)
        while fraction > 1e-6 and not np.isfinite(self.prior(v + fraction * step)[0]):
            fraction *= 0.5
        return fraction

    def _release_row(self, binding: Binding, multipliers: Array) -> Binding | None:
        """Return the active rows without the one of the most negative multiplier; None if there is none."""
        of_rows = multipliers[len(self.equal[0]) :]
        if not len(of_rows) or of_rows.min() >= -RELEASE_RATIO * max(np.abs(of_rows).max(), 1e-300):
            return None
        released = binding.copy()
        released[np.flatnonzero(binding)[int(np.argmin(of_rows))]] = False
        return released
