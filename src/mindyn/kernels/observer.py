"""`MomentumObserver`: compute the external torque on the joints from positions, velocities and drive torques."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mindyn.equations.closed_motion import is_affine
from mindyn.equations.loop_closure import home_closure
from mindyn.foundation.algebra.values import Array, frozen_array
from mindyn.foundation.errors import Code, InputError
from mindyn.kernels.model import Model


class MomentumObserver:
    """Generalised-momentum observer of external torque: call `update(q, qd, tau)` once per sample.

    The result follows the external torque with time constant 1 / gain and needs no accelerations. For a robot with
    dependent joints all arrays refer to the primary joints.

    Parameters
    ----------
    model : Model
        A model with its own parameters ("constant" or "standard").
    gain : float or array_like, shape (n,)
        Observer gains in 1/s, between 0 and 1 / dt.
    dt : float
        Sampling time in s.

    Raises
    ------
    InputError
        If the model takes its parameters at run time, or `gain` or `dt` is out of range.
    """

    def __init__(self, model: Model, gain: ArrayLike, dt: float) -> None:
        if model.parameters not in ("constant", "standard"):
            raise InputError(
                f"an observer needs a model with constant parameters, got parameters={model.parameters!r}",
                code=Code.UNSUPPORTED,
                subject="parameters",
            )
        n = model.robot.joint_count
        gains = np.ravel(np.asarray(gain, dtype=np.float64))
        gains = frozen_array(gains if gains.size != 1 else np.repeat(gains, n), (n,), "gain")
        step = float(frozen_array(dt, (), "dt"))
        if not step > 0:
            raise InputError(f"dt must be a positive time in s, got {dt!r}", code=Code.OUT_OF_RANGE, subject="dt")
        if not (gains > 0).all() or gains.max() * step >= 1:
            raise InputError(
                f"gains must be between 0 and 1/dt = {1 / step:g} 1/s for stability, got {gains.tolist()}",
                code=Code.OUT_OF_RANGE,
                subject="gain",
            )
        self._bound = model.bind("momentum_observer")
        self._bound["gain"][:] = gains
        self._bound["dt"][:] = step
        self._momentum = model.bind("inertia_matrix")
        self._joints = n
        self._started = False
        solved = model.robot.has_dependents and not is_affine(model.robot)
        self._closure = home_closure(model.robot) if solved else None

    def update(self, q: Array, qd: Array, tau: Array) -> Array:
        """Process one sample.

        Parameters
        ----------
        q, qd, tau : array_like, shape (n,)
            Positions, velocities and drive torques (rad or m, N m or N).

        Returns
        -------
        ndarray, shape (n,)
            External torque, N m or N.
        """
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
        """Return the positions that the kernel needs: for numerically solved loops those of all joints, solved from the
        last sample.
        """
        if self._closure is None:
            return q
        return (
            self._closure.continue_from(self._bound["q"], q) if self._started else self._closure.positions(q[None])[0]
        )
