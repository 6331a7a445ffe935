"""`AdaptiveIntegrator`: integrate the plant in continuous time to a tolerance; dry friction changes mode at events.

Between events, every friction keeps its mode: it slips in one direction with its full Coulomb torque, or it sticks, and
its torque keeps the speed at zero. The integrator therefore integrates only smooth equations. If the speed of a
slipping friction reaches zero, or the torque of a sticking friction reaches its Coulomb level, the step ends at that
instant, which is computed to rounding. `find_modes_at_rest` then decides which frictions stick. The method needs no
regularisation, and does not switch back and forth.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import casadi
import numpy as np
from numpy.typing import NDArray

from mindyn.equations.closed_motion import MAX_CLOSURE_ERROR, MIN_REGULARITY
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code
from mindyn.kernels.kernel import Kernel
from mindyn.motions.simulation.dormand_prince import (
    DormandPrinceStep,
    StepKernels,
    Tolerance,
    compile_step,
    next_step_size,
)
from mindyn.motions.simulation.friction_at_rest import Modes, find_modes_at_rest
from mindyn.motions.simulation.plant import REDUNDANCY_REGULARISATION, Plant, acceleration_function
from mindyn.motions.simulation.results import SimulationError
from mindyn.robots.robot import CACHED_ROBOTS

Indices = NDArray[np.intp]

_INITIAL_STEP_S = 1e-3
DEAD_POINT_REGULARITY = 20 * MIN_REGULARITY
"""If a step becomes too short while the regularity of loops is below this, the error names a dead point as the cause.
"""
_MIN_STEP_S = 1e-8
"""Shortest step, s: the motion of an arm needs no shorter step of order 8, unless it diverges."""
_STICTION_TOLERANCE = 1e-9
"""Relative excess over its level at which a sticking torque ends the mode. It is well above the rounding error with
which `find_modes_at_rest` computes the same torque, so that the two agree.
"""
_MAX_STUCK_SPEED = 1e-14
"""Speed (rad/s or m/s) that rounding may give to a sticking friction before it is set to zero again."""
_MAX_EVENTS_PER_CALL = 200
"""Largest number of mode changes within an interval of constant torque."""


REDUNDANT_SLACK = 1e-9
"""Largest speed (rad/s or m/s) of a friction that other frictions hold: it neither slips nor sticks itself."""


class AdaptiveIntegrator:
    """State (q, qd) at time t, integrated by `advance`; `events` counts changes of mode."""

    def __init__(self, plant: Plant, q0: Array, qd0: Array, tolerance: Tolerance) -> None:
        self._plant = plant
        self._n = plant.position_count
        kernel, self._inertia, step = _compile_kernels(plant)
        self._acceleration = kernel.bind()
        self._tau = self._acceleration["tau"]
        held = {name: self._acceleration[name] for name in self._acceleration.input_names[2:]}
        self._compute_step = DormandPrinceStep(step, held, tolerance).compute
        self._is_solved, self._has_friction = plant.is_solved, plant.has_friction
        self._size = _INITIAL_STEP_S
        self._y = np.concatenate([plant.start(q0), qd0])
        self._slack = REDUNDANT_SLACK if plant.redundant else 0.0
        self.t = 0.0
        self.events = 0
        self._set_modes(np.sign(plant.rows_at(self._y[: self._n]) @ qd0).astype(np.int64))

    @property
    def positions(self) -> Array:
        """Positions of the state."""
        return self._y[: self._n].copy()

    @property
    def qd(self) -> Array:
        """Velocities (n,)."""
        return self._y[self._n :].copy()

    @property
    def stuck(self) -> NDArray[np.bool_]:
        """Whether each friction sticks, (m,)."""
        return np.asarray(self._modes == 0)

    def hold(self, tau: Array) -> tuple[Array, Array]:
        """Apply tau from now on. Return qdd (n,), and the friction torques lam (m,)."""
        self._tau[:] = tau
        slope = self._slope(self._y)
        if self._has_friction and not self._keeps_modes():
            self._settle(np.flatnonzero(self._modes == 0))
            slope = self._slope(self._y)
        return slope[self._n :], self._torques().copy()

    def _keeps_modes(self) -> bool:
        """Return whether all sticking frictions still stick at the last slope, by the same rule as
        `find_modes_at_rest`.
        """
        stuck = self._modes == 0
        speeds = self._plant.rows_at(self._y[: self._n]) @ self._y[self._n :]
        slips = (np.abs(self._torques()) > self._plant.levels) | (np.abs(speeds) > _MAX_STUCK_SPEED)
        return not (slips & stuck).any()

    def advance(self, until: float) -> None:
        """Integrate to time `until` with the torque held."""
        events = self.events
        while self.t < until:
            if self.events > events + _MAX_EVENTS_PER_CALL:
                message = f"more than {_MAX_EVENTS_PER_CALL} stops and starts of friction at {self.t:.6g} s"
                raise SimulationError(message, code=Code.NOT_CONVERGED, subject="friction")
            self._step(until)

    def _step(self, until: float) -> None:
        """Try a step, at most to `until` and to the next event."""
        self._require_step()
        last = until - self.t <= self._size
        h = until - self.t if last else self._size
        first = self._slope(self._y).copy()
        y, ratio = self._compute_step(self._y, first, h)
        if not ratio <= 1.0:
            self._size = next_step_size(h, ratio if np.isfinite(ratio) else 1e9)
            return
        grown = next_step_size(h, ratio)
        self._size = max(grown, self._size) if last else grown
        if self._has_friction:
            violated = np.flatnonzero(self._margins(y) < 0)
            if len(violated):
                self._stop_at_event(first, h, violated)
                return
        self._y, self.t = y, until if last else self.t + h

    def _require_step(self) -> None:
        if self._size < _MIN_STEP_S:
            if self._plant.is_solved and not (
                np.isfinite(self._slope(self._y)).all() and self._acceleration.outputs[-1][1] > DEAD_POINT_REGULARITY
            ):
                message = f"the loops reach a singular configuration, or open, at {self.t:.6g} s"
                raise SimulationError(message, code=Code.NOT_CONVERGED, subject="loops")
            raise SimulationError(
                f"the motion cannot be continued at {self.t:.6g} s, where the largest speed is "
                f"{np.abs(self._y[self._n :]).max():.3g}",
                hint="gains or torques may be too large for the robot, or a moving link has no inertia",
                code=Code.NOT_CONVERGED,
                subject="motion",
            )

    def _slope(self, y: Array) -> Array:
        """Return (qd, qdd) in the current modes."""
        bound, n = self._acceleration, self._n
        bound.inputs[0][:], bound.inputs[1][:] = y[:n], y[n:]
        bound.run()
        if not self._is_solved:
            return np.concatenate([y[n:], bound.outputs[0]])
        rates, (residual, regular) = bound.outputs[-2:]
        # The comparison treats NaN as open; a step to an open loop is rejected.
        closed = residual < MAX_CLOSURE_ERROR and regular > MIN_REGULARITY
        return np.concatenate([rates, bound.outputs[0] if closed else np.full(len(y) - n, np.nan)])

    def _torques(self) -> Array:
        """Return the friction torques lam of the last evaluation of the slope."""
        return self._acceleration.outputs[1] if self._has_friction else self._plant.levels

    def _margins(self, y: Array) -> Array:
        """Return for each friction (m,) the remaining speed if it slips, or torque if it sticks; negative after its
        mode ends.
        """
        self._slope(y)
        speeds = self._plant.rows_at(y[: self._n]) @ y[self._n :] + self._modes * self._slack
        left = self._plant.levels * (1 + _STICTION_TOLERANCE) - np.abs(self._torques())
        return np.where(self._modes == 0, left, self._modes * speeds)

    def _stop_at_event(self, first: Array, h: float, violated: Indices) -> None:
        """Integrate to the first instant at which a mode ends, and decide the new modes."""
        start = self._y

        def margin(size: float) -> float:
            return float(self._margins(self._compute_step(start, first, size)[0])[violated].min())

        size = _find_sign_change(margin, h)
        self._y = self._compute_step(start, first, size)[0]
        self.t += size
        ended = np.flatnonzero(self._margins(self._y) <= 0)
        self.events += len(ended)
        self._settle(np.union1d(ended, np.flatnonzero(self._modes == 0)))

    def _settle(self, at_rest: Indices) -> None:
        """Decide the modes of frictions at zero speed, and set the speeds of sticking frictions exactly to zero."""
        plant, n = self._plant, self._n
        modes = self._modes.copy()
        if len(at_rest):
            rows = plant.rows_at(self._y[:n])[at_rest]
            W = np.linalg.solve(self._inertia(self._y[:n]), rows.T)
            A = rows @ W
            A += np.diag(REDUNDANCY_REGULARISATION * np.diag(A)) if plant.redundant else 0.0
            others = np.where(np.isin(np.arange(len(modes)), at_rest), 0, modes)
            self._set_modes(others, np.zeros(len(modes)))
            free = self._slope(self._y)[n:]
            modes[at_rest] = find_modes_at_rest(A, rows @ free + self._friction_rates()[at_rest], plant.levels[at_rest])
            keep = np.flatnonzero(modes[at_rest] == 0)
            if len(keep):
                impulse = np.linalg.solve(A[np.ix_(keep, keep)], rows[keep] @ self._y[n:])
                self._y = np.concatenate([self._y[:n], self._y[n:] - W[:, keep] @ impulse])
        self._set_modes(modes)

    def _friction_rates(self) -> Array:
        """Return (dF/dt) qd (m,) at the last slope."""
        return self._acceleration["turning"] if self._plant.turns is not None else np.zeros(len(self._plant.levels))

    def _set_modes(self, modes: Modes, stuck: Array | None = None) -> None:
        self._modes: Modes = modes
        if self._has_friction:
            self._acceleration["slip"][:] = modes * self._plant.levels
            self._acceleration["stuck"][:] = modes == 0 if stuck is None else stuck


@lru_cache(maxsize=CACHED_ROBOTS)
def _compile_kernels(plant: Plant) -> tuple[Kernel, Kernel, StepKernels]:
    """Return the kernels of the accelerations, of the inertia matrix and of a step."""
    acceleration, positions = acceleration_function(plant), plant.position_count
    given = {name: casadi.SX.sym(name, acceleration.size1_in(name)) for name in acceleration.name_in()[2:]}
    y = casadi.SX.sym("y", positions + plant.joint_count)
    q, qd = y[:positions], y[positions:]
    slope = casadi.vertcat(plant.rates(q, qd), acceleration.call([q, qd, *given.values()])[0])
    function = casadi.Function("slope", [y, *given.values()], [slope], ["y", *given], ["slope"])
    return Kernel(acceleration), plant.kernel("inertia_matrix", matrices=["M"]), compile_step(function)


def _find_sign_change(margin: Callable[[float], float], high: float) -> float:
    """Return the point between 0 and `high` at which `margin` becomes negative, to rounding, on the negative side."""
    low, at_low, at_high = 0.0, margin(0.0), margin(high)
    for k in range(80):
        width = high - low
        if width <= 1e-15 + 4e-16 * high:
            break
        # Secants converge fast; every third step bisects, which bounds the number of steps.
        share = at_low / (at_low - at_high) if k % 3 and at_low > 0 > at_high else 0.5
        middle = low + width * min(max(share, 1e-3), 1 - 1e-3)
        value = margin(middle)
        if value < 0:
            high, at_high = middle, value
        else:
            low, at_low = middle, value
    return high
