"""Results `Simulation` (one motion) and `Rollouts` (many motions), and the input `TorqueLog`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array, ShortRepr
from mindyn.errors import Code, InputError, MindynError
from mindyn.logs.samples import Samples
from mindyn.robots.parts import Side
from mindyn.simulation.inputs import make_read_only, require_real_numbers


class SimulationError(MindynError):
    """A motion cannot be continued: it is not finite any more, or the step size becomes too small."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TorqueLog(ShortRepr):
    """Joint torques over time: tau[k] acts from t[k] until the next sample; the last one acts for an equal interval.

    Parameters
    ----------
    t : array of shape (N,)
        Increasing times, in s.
    tau : array of shape (N, n)
        Torques or forces, in N m or N.

    Raises
    ------
    InputError
        If the shapes do not match, the time does not increase, or a value is not finite.
    """

    t: Array
    tau: Array

    def __post_init__(self) -> None:
        t, tau = (
            require_real_numbers(self.t, "t of the torque log"),
            require_real_numbers(self.tau, "tau of the torque log"),
        )
        if t.ndim != 1 or tau.ndim != 2 or len(t) != len(tau) or len(t) < 2:
            message = f"a torque log needs t (N,) and tau (N, n) with N >= 2, got {t.shape} and {tau.shape}"
            raise InputError(message, code=Code.WRONG_SHAPE, subject="tau")
        if (np.diff(t) <= 0).any():
            row = int(np.flatnonzero(np.diff(t) <= 0)[0])
            message = f"the time of the torque log does not increase: {t[row]:g} s, then {t[row + 1]:g} s"
            raise InputError(message, code=Code.INVALID_VALUE, subject="t")
        object.__setattr__(self, "t", make_read_only(t.copy()))
        object.__setattr__(self, "tau", make_read_only(tau.copy()))

    @property
    def end(self) -> float:
        """Time until which the last torque acts, in s."""
        return float(2 * self.t[-1] - self.t[-2])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Measurement(ShortRepr):
    """Readings of a robot's sensors at the joint side or at the motor side.

    joint_names       n names, in the order of the columns; the column of a motor is that of its joint
    t                 (N,) s from the start
    position, torque  (N, n) rad or m; N m or N
    """

    joint_names: tuple[str, ...]
    rate_hz: float
    t: Array
    position: Array
    torque: Array
    position_side: Side
    torque_side: Side


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Simulation(ShortRepr):
    """Simulated motion at the joint side in SI units.

    t             (N,) s from the start
    q, qd, qdd    (N, n) state and acceleration right after t[k], under tau[k]
    tau           (N, n) commanded torque right after t[k]; held until t[k + 1] unless the controller runs faster than
                  rate_hz
    friction      (N, n) dry friction torque at the joints
    stuck         (N, m) whether each drive with Coulomb friction sticks
    events        number of times that a friction began to stick or to slip
    measured      readings of the sensors, if sensors were given
    """

    joint_names: tuple[str, ...]
    rate_hz: float
    t: Array
    q: Array
    qd: Array
    qdd: Array
    tau: Array
    friction: Array
    stuck: NDArray[np.bool_]
    events: int
    measured: Measurement | None = None

    @property
    def torque_log(self) -> TorqueLog:
        """Torques of this motion, to replay them."""
        return TorqueLog(self.t, self.tau)

    def samples(self) -> Samples:
        """Return the motion and torques as samples of one segment."""
        segments = np.zeros(len(self.t), dtype=np.int64)
        return Samples(self.joint_names, self.q, self.qd, self.qdd, self.tau, self.rate_hz, segments)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rollouts(ShortRepr):
    """Many simulated motions at the joint side in SI units.

    t       (T + 1,) s
    q, qd   (B, T + 1, n)
    tau     (B, T, n) or (T, n) torque held from t[k] to t[k + 1]
    """

    t: Array
    q: NDArray[Any]
    qd: NDArray[Any]
    tau: NDArray[Any]
