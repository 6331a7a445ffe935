"""`FixedMotion`: one motion by the fixed Runge-Kutta step that rollouts use."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.kernels.kernel import Kernel
from mindyn.simulation.plant import KEPT, Plant
from mindyn.simulation.results import SimulationError
from mindyn.simulation.runge_kutta import slope_function, step_function


class FixedMotion:
    """The state (q, qd) at time t, moved on by `advance` in equal steps of at most `longest` seconds."""

    events = 0
    """Fixed steps know no events."""

    def __init__(self, plant: Plant, q0: Array, qd0: Array, longest: float) -> None:
        self._plant, self._longest = plant, longest
        kernel, look = _kernels(plant)
        self._step, self._look = kernel.bind(), look.bind()
        self._step["q"][:], self._step["qd"][:] = plant.start(q0), qd0
        self._lam = np.zeros(len(plant.levels))
        self.t = 0.0

    @property
    def q(self) -> Array:
        """Positions (n,)."""
        return np.array(self._step["q"])[self._plant.primary]

    @property
    def positions(self) -> Array:
        """Of the state."""
        return np.array(self._step["q"])

    @property
    def qd(self) -> Array:
        """Velocities (n,)."""
        return np.array(self._step["qd"])

    @property
    def stuck(self) -> NDArray[np.bool_]:
        """(m,) which frictions take less than their Coulomb torque."""
        return np.abs(self._lam) < self._plant.levels

    def hold(self, tau: Array) -> tuple[Array, Array]:
        """From now on tau acts; gives qdd (n,), and lam (m,) at the frictions."""
        self._step["tau"][:] = tau
        look = self._look
        for name, array in zip(look.input_names, look.inputs, strict=True):
            array[:] = self._longest if name == "dt" else self._step[name]
        look.run()
        if self._plant.has_friction:
            self._lam = look["lam_next"].copy()
        return look["qdd"].copy(), self._lam

    def advance(self, until: float) -> None:
        """Moves on to time `until` under the torque held."""
        run, count = self._step, max(1, int(np.ceil((until - self.t) / self._longest - 1e-6)))
        run["dt"][:] = (until - self.t) / count
        for _ in range(count):
            run.run()
            for name in ("q", "qd", "lam")[: 3 if self._plant.has_friction else 2]:
                run[name][:] = run[f"{name}_next"]
        self.t = until
        if not (np.isfinite(run["q"]).all() and np.isfinite(run["qd"]).all()):
            raise SimulationError(
                f"the motion is not finite any more at {until:.6g} s",
                hint='take a smaller step, or method="adaptive"; gains or torques may be too large for the robot'
                + (", or its loops come to a singular configuration" if self._plant.is_solved else ""),
            )


@lru_cache(maxsize=KEPT)
def _kernels(plant: Plant) -> tuple[Kernel, Kernel]:
    """The step, and what its first stage sees."""
    look = slope_function(plant) if plant.has_friction else plant.function("forward_dynamics")
    return Kernel(step_function(plant)), Kernel(look)
