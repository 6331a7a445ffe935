"""`simulate`: one motion of a robot under a controller or a torque log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mindyn.algebra.values import Array, frozen_array
from mindyn.errors import InputError, require_choice
from mindyn.robots.robot import Robot
from mindyn.simulation.adaptive import AdaptiveMotion
from mindyn.simulation.dormand_prince import Tolerance
from mindyn.simulation.fixed import FixedMotion
from mindyn.simulation.inputs import read_only, require_positive
from mindyn.simulation.plant import Plant, plant_of
from mindyn.simulation.results import Simulation, TorqueLog
from mindyn.simulation.sensors import Sensors, measure

Controller = Callable[[float, Array, Array], ArrayLike]
"""tau (n,) of (t, q, qd)."""
Method = Literal["adaptive", "fixed"]

_TICK = 1e-10
"""Seconds within which two instants are one."""


class Integrator(Protocol):
    """A state that moves on in time under a held torque."""

    t: float
    events: int

    @property
    def q(self) -> Array: ...  # noqa: D102
    @property
    def positions(self) -> Array: ...  # noqa: D102
    @property
    def qd(self) -> Array: ...  # noqa: D102
    @property
    def stuck(self) -> NDArray[np.bool_]: ...  # noqa: D102
    def hold(self, tau: Array) -> tuple[Array, Array]: ...  # noqa: D102
    def advance(self, until: float) -> None: ...  # noqa: D102


def simulate(
    robot: Robot,
    torque: Controller | TorqueLog,
    *,
    seconds: float,
    q0: ArrayLike,
    qd0: ArrayLike | None = None,
    rate_hz: float = 1000.0,
    control_rate_hz: float | None = None,
    drives: bool = False,
    method: Method = "adaptive",
    longest_step_s: float | None = None,
    tolerance: Tolerance | None = None,
    sensors: Sensors | None = None,
) -> Simulation:
    """The motion from (q0, qd0); qd0 left out is rest.

    torque          a controller (t, q, qd) -> tau (n,), called at control_rate_hz (rate_hz if left out) and held in
                    between; or a torque log, whose first sample is at the motion's beginning
    rate_hz         of the rows of the result
    drives          rotor inertia, friction (Coulomb friction too) and offsets of the drives take part
    method          "adaptive": Dormand-Prince 8(5,3) to `tolerance`, friction by events (see `adaptive`);
                    "fixed": Runge-Kutta steps of at most longest_step_s (1 / rate_hz if left out; see `runge_kutta`)
    sensors         what they would read becomes `measured` of the result
    """
    seconds, rate_hz = require_positive(seconds, "seconds", "such as 10.0"), require_positive(rate_hz, "rate_hz")
    require_choice(method, get_args(Method), "method")
    plant = plant_of(robot, drives=drives)
    n = plant.joint_count
    q = frozen_array(q0, (n,), "q0")
    qd = frozen_array(np.zeros(n) if qd0 is None else qd0, (n,), "qd0")
    longest = require_positive(1 / rate_hz if longest_step_s is None else longest_step_s, "longest_step_s")
    source = _source(torque, seconds, n, require_positive(control_rate_hz or rate_hz, "control_rate_hz"))
    motion: Integrator = (
        AdaptiveMotion(plant, q, qd, tolerance or Tolerance()) if method == "adaptive"
        else FixedMotion(plant, q, qd, longest)
    )  # fmt: skip
    found = _run(motion, source, plant, seconds, rate_hz)
    return found if sensors is None else replace(found, measured=measure(robot, found, sensors))


@dataclass(frozen=True, slots=True)
class Source:
    """Torques that change at `instants` (s) only: torque(t, q, qd) from then on."""

    instants: Array
    torque: Controller


def _source(torque: Controller | TorqueLog, seconds: float, n: int, control_rate_hz: float) -> Source:
    if isinstance(torque, TorqueLog):
        return _log_source(torque, seconds, n)
    if not callable(torque):
        raise InputError(f"torque must be a controller (t, q, qd) -> tau or a TorqueLog, got {type(torque).__name__}")
    return Source(np.arange(int(seconds * control_rate_hz + 1e-6) + 1) / control_rate_hz, torque)


def _log_source(log: TorqueLog, seconds: float, n: int) -> Source:
    if log.tau.shape[1] != n:
        raise InputError(f"the torque log has {log.tau.shape[1]} columns, but the robot has {n} joints")
    lasts = log.end - float(log.t[0])
    if lasts < seconds - 1e-6 * seconds:
        raise InputError(
            f"the torque log lasts {lasts:.6g} s, but the motion is to last {seconds:.6g} s",
            hint="shorten the motion, or give torques for all of it",
        )
    instants = log.t - log.t[0]

    def torque(t: float, q: Array, qd: Array) -> Array:  # noqa: ARG001 - a log does not look at the state
        return np.asarray(log.tau[np.searchsorted(instants, t + _TICK, side="right") - 1])

    return Source(instants[instants <= seconds], torque)


def _run(motion: Integrator, source: Source, plant: Plant, seconds: float, rate_hz: float) -> Simulation:
    n, times = plant.joint_count, np.arange(int(seconds * rate_hz + 1e-6) + 1) / rate_hz
    instants, is_row, is_change = _schedule(times, source.instants[source.instants <= times[-1] + _TICK])
    rows = {name: np.empty((len(times), n)) for name in ("q", "qd", "qdd", "tau", "friction")}
    stuck = np.zeros((len(times), len(plant.levels)), dtype=np.bool_)
    tau, row = np.zeros(n), 0
    for t, shown, changes in zip(instants, is_row, is_change, strict=True):
        motion.advance(t)
        if changes:
            tau = _checked(source.torque(motion.t, motion.q, motion.qd), motion.t, plant)
        qdd, lam = motion.hold(tau)
        if shown:
            values = (motion.q, motion.qd, qdd, tau, plant.rows_at(motion.positions).T @ lam)
            for array, value in zip(rows.values(), values, strict=True):
                array[row] = value
            stuck[row] = motion.stuck
            row += 1
    q, qd, qdds, taus, friction = (read_only(array) for array in rows.values())
    names = plant.joint_names
    return Simulation(names, rate_hz, read_only(times), q, qd, qdds, taus, friction, read_only(stuck), motion.events)


def _schedule(times: Array, changes: Array) -> tuple[list[float], NDArray[np.bool_], NDArray[np.bool_]]:
    """All instants in order, and which of them are rows of the result, or changes of the torque."""
    together = np.concatenate([times, changes])
    ticks, first = np.unique(np.round(together / _TICK), return_index=True)
    return together[first].tolist(), *(np.isin(ticks, np.round(part / _TICK)) for part in (times, changes))


def _checked(value: ArrayLike, t: float, plant: Plant) -> Array:
    tau, names = np.asarray(value, dtype=np.float64), plant.joint_names
    if tau.shape != (len(names),):
        raise InputError(
            f"the controller gave torques of shape {tau.shape} at {t:.6g} s, but ({len(names)},) is needed"
        )
    if not np.isfinite(tau).all():
        joint = int(np.flatnonzero(~np.isfinite(tau))[0])
        raise InputError(f"the controller gave {tau[joint]} for joint {names[joint]!r} at {t:.6g} s")
    return tau
