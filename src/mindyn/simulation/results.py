"""What comes out: `Simulation` (one motion), `Rollouts` (many), and `TorqueLog`, which may go in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import InputError, MindynError
from mindyn.logs.samples import Samples
from mindyn.robots.parts import Side
from mindyn.simulation.inputs import make_read_only, require_real_numbers


class SimulationError(MindynError):
    """A motion cannot be continued: it is no longer finite, or no step is small enough for it."""


@dataclass(frozen=True, slots=True, eq=False)
class TorqueLog:
    """Joint torques over time: tau[k] (n,) acts from t[k] until the next sample, the last one for one more interval.

    t    (N,) s, increasing
    tau  (N, n) N m or N
    """

    t: Array
    tau: Array

    def __post_init__(self) -> None:
        t, tau = (
            require_real_numbers(self.t, "t of the torque log"),
            require_real_numbers(self.tau, "tau of the torque log"),
        )
        if t.ndim != 1 or tau.ndim != 2 or len(t) != len(tau) or len(t) < 2:
            raise InputError(f"a torque log has t (N,) and tau (N, n) with N >= 2; got {t.shape} and {tau.shape}")
        if (np.diff(t) <= 0).any():
            row = int(np.flatnonzero(np.diff(t) <= 0)[0])
            raise InputError(f"time of the torque log does not increase: {t[row]:g} s, then {t[row + 1]:g} s")
        object.__setattr__(self, "t", make_read_only(t.copy()))
        object.__setattr__(self, "tau", make_read_only(tau.copy()))

    @property
    def end(self) -> float:
        """Until when the log says the torque, s."""
        return float(2 * self.t[-1] - self.t[-2])


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """Readings of a robot's sensors, each at its side: of the joints, or of the motors that drive them.

    joint_names            n names, in the order of the columns; a motor's column is that of the joint it drives
    t                      (N,) s from the beginning
    position, torque       (N, n) rad or m; N m or N
    """

    joint_names: tuple[str, ...]
    rate_hz: float
    t: Array
    position: Array
    torque: Array
    position_side: Side
    torque_side: Side


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """A simulated motion, joint side, SI.

    t             (N,) s from the beginning
    q, qd, qdd    (N, n) the state and the acceleration right after t[k], under tau[k]
    tau           (N, n) torque that the drives are told to give, right after t[k]; held until t[k + 1] unless the
                  controller runs faster than rate_hz
    friction      (N, n) of that, what dry friction takes, at the joints
    stuck         (N, m) which of the drives with Coulomb friction stick
    events        how often a friction began to stick or to slip
    measured      what sensors read, where they were asked for
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
        """The torques of this motion, to replay them."""
        return TorqueLog(self.t, self.tau)

    def samples(self) -> Samples:
        """The motion and torques as samples of one segment."""
        segments = np.zeros(len(self.t), dtype=np.int64)
        return Samples(self.joint_names, self.q, self.qd, self.qdd, self.tau, self.rate_hz, segments)


@dataclass(frozen=True, slots=True, eq=False)
class Rollouts:
    """Many simulated motions, joint side, SI.

    t       (T + 1,) s
    q, qd   (B, T + 1, n)
    tau     (B, T, n) or (T, n) torque held from t[k] to t[k + 1]
    """

    t: Array
    q: NDArray[Any]
    qd: NDArray[Any]
    tau: NDArray[Any]
