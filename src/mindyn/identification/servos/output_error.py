"""Fit kp, kd, fc and Ia of a joint to the positions of its simulation.

    minimise  sum_k w_k rho((q_sim(x) - q) / s),   x = log(kp, kd, fc, Ia),   rho(z) = 2 (sqrt(1 + z^2) - 1)

Steps are those of Levenberg and Marquardt with central differences; a call of the compiled simulation gives all
differences, and another sums the losses of eight dampings of the step. A weak prior on the ratios to kp decides what
slow logs leave open. The difference is 0.02 in x: smaller ones fail, because stiction is not smooth.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.identification.servos.joint_tables import STEP_S
from mindyn.identification.servos.rollout import EXTRA_FIELDS, NO_EXTRAS, simulate_joint, sum_losses
from mindyn.logs.servos import TYPICAL_RATIOS

DIFFERENCE: Final = 0.02
DAMPINGS: Final = 10.0 ** np.arange(-4.0, 4.0)
"""Factors of the diagonal that are tried in each step."""
MAX_STEPS: Final = 30
TRIAL_STEPS: Final = 5
"""Steps from each start, before the best continues."""
CONVERGED: Final = 1e-5
"""Relative gain of a step below which the fit ends."""
LARGEST_CHANGE: Final = 1.0
"""Largest change of log values in a step."""
PRIOR_DEVIATIONS: Final = np.array([np.inf, 1.5, 3.0, 1.5])
"""Standard deviations of log(kp, kd/kp, fc/kp, Ia/kp) around `TYPICAL_RATIOS`: factors of 4.5 and 20."""
SCALE_PART: Final = 0.1
"""Scale of the robust loss, relative to the rms of target - q."""


@dataclass(frozen=True, slots=True, eq=False)
class JointFit:
    """Fitted values of a joint.

    x          (4,) log of kp, kd, fc and Ia; (5,) with an extra value
    cost       cost at x
    residuals  (N,) simulated minus measured position
    jacobian   (N, 4), (N, 5) derivative of the simulated position with respect to x; zero for values that are fixed
    weights    (N,) weights of the rows times weights of the robust loss, divided by the squared scale
    """

    x: Array
    cost: float
    residuals: Array
    jacobian: Array
    weights: Array


@dataclass(frozen=True, eq=False)
class OutputError:
    """Cost of a joint.

    table    (N, 10) rows for `simulate_joint`
    weights  (N,) weights of the rows
    free     (4,) values that are fitted
    prior    weight of the prior, as a number of rows: the time over which errors are correlated
    extras   (4,) values of `EXTRA_FIELDS`
    extra    name of the one that is fitted too, as x[4]; the logarithm of a limit. `free` is then (5,)
    """

    table: Array
    weights: Array
    free: NDArray[np.bool_]
    prior: float
    extras: tuple[float, ...] = NO_EXTRAS
    extra: str | None = None

    def values(self, candidates: Array) -> Array:
        """Return the values (k, 4) or (k, 8) of candidates for `simulate_joint`."""
        values: Array = np.exp(candidates[:, :4])
        if self.extra is None and self.extras == NO_EXTRAS:
            return values
        extras = np.tile(self.extras, (len(candidates), 1))
        if self.extra is not None:
            column = candidates[:, 4]
            extras[:, EXTRA_FIELDS.index(self.extra)] = np.exp(column) if self.extra == "limit" else column
        return np.asarray(np.column_stack([values, extras]))

    @cached_property
    def scale(self) -> float:
        """Error at which the loss turns from squares to absolute values."""
        late, early, switch = self.table[:, 0], self.table[:, 8], self.table[:, 9] / np.maximum(self.table[:, 4], 1.0)
        error = late + switch * (early - late) - self.table[:, 6]
        used = self.weights > 0
        return max(SCALE_PART * float(np.sqrt(np.mean(error[used] ** 2))) if used.any() else 0.0, 1e-6)

    def minimise(self, starts: list[Array]) -> JointFit:
        """Return the fit with the lowest cost from starts (4,) in x."""
        trials = [self.improve(start) for start in starts]
        x, _ = min(trials, key=lambda trial: trial[1])
        return self.refine(x)

    def _describe(self, x: Array, cost: float) -> JointFit:
        jacobian, residuals = self.differentiate(x)
        loss = 1 / np.sqrt(1 + (residuals / self.scale) ** 2)
        return JointFit(x, cost, residuals, jacobian, self.weights * loss / self.scale**2)

    def improve(self, x: Array) -> tuple[Array, float]:
        """Return x and its cost after a few steps."""
        return self._descend(self._bound_armature(x), TRIAL_STEPS)

    def refine(self, x: Array) -> JointFit:
        """Fit from initial values (4,) of x that are close to the minimum."""
        x, cost = self._descend(self._bound_armature(x), MAX_STEPS)
        return self._describe(x, cost)

    def differentiate(self, x: Array) -> tuple[Array, Array]:
        """Return the derivatives (N, 4) of the simulated position with respect to x, and the residuals (N,) at x."""
        which = np.flatnonzero(self.free)
        count, steps = len(which), DIFFERENCE * np.eye(len(x))[which]
        q = simulate_joint(self.table, self.values(np.vstack([x + steps, x - steps, x])))
        jacobian = np.zeros((len(self.table), len(x)))
        jacobian[:, which] = (q[:, :count] - q[:, count : 2 * count]) / (2 * DIFFERENCE)
        if not np.isfinite(jacobian).all():
            jacobian = np.nan_to_num(jacobian, posinf=0.0, neginf=0.0)
        return jacobian, q[:, 2 * count] - self.table[:, 6]

    def costs(self, candidates: Array) -> Array:
        """Return the costs (k,) of candidates (k, 4); infinity where the simulation diverges."""
        loss = sum_losses(self.table, self.values(candidates), self.weights, self.scale)
        prior = np.array([self._prior_terms(x) @ self._prior_terms(x) for x in candidates])
        return np.where(np.isfinite(loss), loss, np.inf) + self.prior * prior

    def _prior_terms(self, x: Array) -> Array:
        typical = np.array([x[0], *(x[0] + np.log(TYPICAL_RATIOS))])
        return np.asarray((x[:4] - typical) / PRIOR_DEVIATIONS)

    def _bound_armature(self, x: Array) -> Array:
        """Return x with an armature at which steps of `STEP_S` are stable, also without other inertia."""
        bounded = x.copy()
        bounded[..., 3] = np.maximum(x[..., 3], x[..., 0] + np.log(STEP_S**2))
        return bounded

    def _descend(self, x: Array, limit: int) -> tuple[Array, float]:
        cost = float(self.costs(x[None])[0])
        which = np.flatnonzero(self.free)
        information = prior_information(len(x))[np.ix_(which, which)]
        for _ in range(limit):
            jacobian, residuals = self.differentiate(x)
            if not np.isfinite(residuals).all():
                break
            z = residuals / self.scale
            weights = self.weights / np.sqrt(1 + z * z) / self.scale**2
            weighted = jacobian[:, which] * weights[:, None]
            normal = weighted.T @ jacobian[:, which] + self.prior * information
            gradient = weighted.T @ residuals + self.prior * (_prior_rows(len(x)).T @ self._prior_terms(x))[which]
            diagonal = np.diag(np.maximum(np.diag(normal), 1e-12))
            changes = np.array([-np.linalg.solve(normal + d * diagonal, gradient) for d in DAMPINGS])
            changes *= np.minimum(1, LARGEST_CHANGE / np.maximum(np.abs(changes).max(axis=1, keepdims=True), 1e-300))
            candidates = np.repeat(x[None], len(DAMPINGS), axis=0)
            candidates[:, which] += changes
            candidates = self._bound_armature(candidates)
            costs = self.costs(candidates)
            best = int(np.argmin(costs))
            gain = cost - float(costs[best])
            if gain <= 0:
                break
            x, cost = candidates[best], float(costs[best])
            if gain < CONVERGED * cost:
                break
        return x, cost


def prior_information(count: int = 4) -> Array:
    """Return the information (count, count) of the prior on x."""
    rows = _prior_rows(count)
    return np.asarray(rows.T @ rows)


def _prior_rows(count: int) -> Array:
    """Return the derivatives (4, count) with respect to x of the prior's terms: ratios to kp over their deviations."""
    rows = np.eye(4, count) / PRIOR_DEVIATIONS[:, None]
    rows[:, 0] -= 1 / PRIOR_DEVIATIONS
    return np.asarray(rows)
