"""Results `Simulation` (one motion) and `Rollouts` (many motions)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array, ShortRepr
from mindyn.foundation.errors import MindynError
from mindyn.logs.samples import Samples
from mindyn.robots.parts import Side


class SimulationError(MindynError):
    """A motion cannot be continued: its state is not finite any more, or the step size becomes too small."""


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
