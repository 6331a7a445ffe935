"""`MomentumObserver`: the torque that the environment exerts on the joints, from positions, velocities and drives."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.values import Array, frozen_array
from mindyn.equations.closed_motion import is_affine
from mindyn.equations.loop_closure import home_closure
from mindyn.errors import InputError
from mindyn.kernels.model import Model


class MomentumObserver:
    """Generalised-momentum observer on a bound kernel: `update(q, qd, tau)` once for each sample.

    The result follows the external torque with time constant 1 / gain; no acceleration is needed. Arrays are of the
    primary joints of a robot with dependent ones.

    gain  (n,) or one number, 1/s
    dt    sampling time, s
    """

    def __init__(self, model: Model, gain: ArrayLike, dt: float) -> None:
        if model.parameters not in ("constant", "standard"):
            raise InputError(f"an observer needs a model with its own parameters, not parameters={model.parameters!r}")
        n = len(model.robot.primary_names)
        gains = np.ravel(np.asarray(gain, dtype=np.float64))
        gains = frozen_array(gains if gains.size != 1 else np.repeat(gains, n), (n,), "gain")
        step = float(frozen_array(dt, (), "dt"))
        if not step > 0:
            raise InputError(f"dt must be a positive time in s, got {dt!r}")
        if not (gains > 0).all() or gains.max() * step >= 1:
            raise InputError(f"gains must lie between 0 and 1/dt = {1 / step:g} 1/s to be stable, got {gains.tolist()}")
        self._bound = model.bind("momentum_observer")
        self._bound["gain"][:] = gains
        self._bound["dt"][:] = step
        self._momentum = model.bind("inertia_matrix")
        self._joints = n
        self._started = False
        solved = model.robot.has_dependents and not is_affine(model.robot)
        self._closure = home_closure(model.robot) if solved else None

    def update(self, q: Array, qd: Array, tau: Array) -> Array:
        """The external torque (n,) at this sample."""
        bound = self._bound
        given = {
            name: frozen_array(value, (self._joints,), name) for name, value in (("q", q), ("qd", qd), ("tau", tau))
        }
        bound["q"][:] = self._kernel_positions(given["q"])
        bound["qd"][:], bound["tau"][:] = given["qd"], given["tau"]
        if not self._started:
            self._momentum["q"][:] = bound["q"]
            self._momentum()
            bound["state"][:] = self._momentum["M"] @ given["qd"]
            self._started = True
        bound()
        step = bound["step"]
        bound["state"][:] = step[self._joints :]
        return np.array(step[: self._joints])

    def _kernel_positions(self, q: Array) -> Array:
        """What the kernel takes: of all joints where loops are solved for, on the way from the sample before."""
        if self._closure is None:
            return q
        return (
            self._closure.continue_from(self._bound["q"], q) if self._started else self._closure.positions(q[None])[0]
        )
