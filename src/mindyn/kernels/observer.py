"""`MomentumObserver`: the torque that the environment exerts on the joints, from positions, velocities and drives."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.values import Array, frozen_array
from mindyn.errors import InputError
from mindyn.kernels.model import Model


class MomentumObserver:
    """Generalised-momentum observer on a bound kernel: `update(q, qd, tau)` once for each sample.

    The result follows the external torque with time constant 1 / gain; no acceleration is needed.

    gain  (n,) or one number, 1/s
    dt    sampling time, s
    """

    def __init__(self, model: Model, gain: ArrayLike, dt: float) -> None:
        n = model.robot.joint_count
        self._bound = model.bind("momentum_observer")
        self._bound["gain"][:] = frozen_array(np.broadcast_to(gain, (n,)), (n,), "gain")
        if not dt > 0:
            raise InputError(f"dt must be a positive time in s, got {dt!r}")
        self._bound["dt"][:] = dt
        self._momentum = model.bind("inertia_matrix")
        self._joints = n
        self._started = False

    def update(self, q: Array, qd: Array, tau: Array) -> Array:
        """The external torque (n,) at this sample."""
        bound = self._bound
        bound["q"][:], bound["qd"][:], bound["tau"][:] = q, qd, tau
        if not self._started:
            self._momentum["q"][:] = q
            self._momentum()
            bound["state"][:] = self._momentum["M"] @ qd
            self._started = True
        bound()
        step = bound["step"]
        bound["state"][:] = step[self._joints :]
        return np.array(step[: self._joints])
