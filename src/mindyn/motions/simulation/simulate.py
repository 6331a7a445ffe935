"""`simulate`: simulate a motion of a robot under a controller or a torque function.

`FixedStepIntegrator` takes fixed Runge-Kutta steps, as `rollouts` does. The integrator with variable steps is in
`adaptive`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mindyn.foundation.algebra.requirements import make_read_only, require_positive
from mindyn.foundation.algebra.values import Array, frozen_array
from mindyn.foundation.errors import Code, InputError, require_choice
from mindyn.kernels.kernel import Kernel
from mindyn.motions.simulation.adaptive import AdaptiveIntegrator
from mindyn.motions.simulation.dormand_prince import Tolerance
from mindyn.motions.simulation.plant import Plant, create_plant
from mindyn.motions.simulation.results import Simulation, SimulationError
from mindyn.motions.simulation.runge_kutta import slope_function, step_function
from mindyn.motions.simulation.sensors import Sensors, measure
from mindyn.robots.robot import CACHED_ROBOTS, Robot

Controller = Callable[[float, Array, Array], ArrayLike]
"""Function of (t, q, qd) that returns tau (n,)."""
IntegrationMethod = Literal["adaptive", "fixed"]
_TICK_S = 1e-10
"""Difference below which two instants are equal."""


def simulate(
    robot: Robot,
    torque: Controller,
    *,
    seconds: float,
    q0: ArrayLike,
    qd0: ArrayLike | None = None,
    rate_hz: float = 1000.0,
    control_rate_hz: float | None = None,
    with_drives: bool = False,
    method: IntegrationMethod = "adaptive",
    longest_step_s: float | None = None,
    tolerance: Tolerance | None = None,
    sensors: Sensors | None = None,
) -> Simulation:
    """Simulate a motion of a robot under a controller.

    Parameters
    ----------
    robot : Robot
        Robot to simulate.
    torque : callable
        Controller (t, q, qd) -> tau (n,), which is called at control_rate_hz and held in between.
    seconds : float
        Duration of the motion, in s.
    q0 : array_like of shape (n,)
        Initial positions, in rad or m.
    qd0 : array_like of shape (n,), optional
        Initial velocities, in rad/s or m/s; by default zero.
    rate_hz : float
        Rate of the rows of the result, in Hz.
    control_rate_hz : float, optional
        Rate of the controller, in Hz; by default rate_hz.
    with_drives : bool
        Whether to include rotor inertia, friction (also Coulomb friction) and offsets of the drives.
    method : {"adaptive", "fixed"}
        "adaptive" integrates with Dormand-Prince 8(5,3) to `tolerance` and handles friction by events; "fixed" takes
        Runge-Kutta steps of at most longest_step_s.
    longest_step_s : float, optional
        Longest step of the fixed method, in s; by default 1 / rate_hz.
    tolerance : Tolerance, optional
        Local error of the adaptive method.
    sensors : Sensors, optional
        Sensors whose readings become `measured` of the result.

    Returns
    -------
    Simulation
        Times (N,), positions, velocities, accelerations and torques (N, n), and friction.

    Raises
    ------
    InputError
        If an argument has the wrong shape or value.
    SimulationError
        If the motion cannot be continued.

    Examples
    --------
    >>> import mindyn
    >>> robot = mindyn.load_robot("planar2")
    >>> motion = mindyn.simulate(robot, lambda t, q, qd: -qd, seconds=0.01, q0=[0.1, 0.2])
    >>> motion.q.shape
    (11, 2)
    """
    seconds, rate_hz = require_positive(seconds, "seconds", "such as 10.0"), require_positive(rate_hz, "rate_hz")
    require_choice(method, get_args(IntegrationMethod), "method")
    plant = create_plant(robot, with_drives=with_drives)
    n = plant.joint_count
    q = frozen_array(q0, (n,), "q0")
    qd = frozen_array(np.zeros(n) if qd0 is None else qd0, (n,), "qd0")
    longest = require_positive(1 / rate_hz if longest_step_s is None else longest_step_s, "longest_step_s")
    control_hz = require_positive(control_rate_hz or rate_hz, "control_rate_hz")
    if not callable(torque):
        message = f"torque must be a controller (t, q, qd) -> tau, got {type(torque).__name__}"  # type: ignore[unreachable]
        raise InputError(message, code=Code.WRONG_TYPE, subject="torque")
    motion = (
        AdaptiveIntegrator(plant, q, qd, tolerance or Tolerance()) if method == "adaptive"
        else FixedStepIntegrator(plant, q, qd, longest)
    )  # fmt: skip
    simulation = _run_simulation(motion, torque, control_hz, plant, seconds, rate_hz)
    return simulation if sensors is None else replace(simulation, measured=measure(robot, simulation, sensors))


def _run_simulation(
    motion: AdaptiveIntegrator | FixedStepIntegrator,
    torque: Controller,
    control_hz: float,
    plant: Plant,
    seconds: float,
    rate_hz: float,
) -> Simulation:
    times = np.arange(int(seconds * rate_hz + 1e-6) + 1) / rate_hz
    changes = np.arange(int(seconds * control_hz + 1e-6) + 1) / control_hz
    instants, is_row, is_change = _schedule_instants(times, changes[changes <= times[-1] + _TICK_S])
    tau, rows, primary = np.zeros(plant.joint_count), [], plant.primary
    for t, shown, changed in zip(instants, is_row, is_change, strict=True):
        motion.advance(t)
        if changed:
            tau = _require_torque(torque(motion.t, motion.positions[primary], motion.qd), motion.t, plant)
        qdd, lam = motion.hold(tau)
        if shown:
            rows.append((motion.positions, lam, motion.qd, qdd, tau.copy(), motion.stuck))
    positions, lams, qd, qdds, taus, stuck = (np.array(column) for column in zip(*rows, strict=True))
    q, friction = positions[:, primary], (lams[:, None] @ plant.rows_at(positions))[:, 0]
    for array in (times, q, qd, qdds, taus, friction, stuck):
        make_read_only(array)
    return Simulation(plant.joint_names, rate_hz, times, q, qd, qdds, taus, friction, stuck, motion.events)


def _schedule_instants(times: Array, changes: Array) -> tuple[list[float], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return all instants in order, and which of them are rows of the result and changes of the torque."""
    together = np.concatenate([times, changes])
    ticks, first = np.unique(np.round(together / _TICK_S), return_index=True)
    return together[first].tolist(), *(np.isin(ticks, np.round(part / _TICK_S)) for part in (times, changes))


def _require_torque(value: ArrayLike, t: float, plant: Plant) -> Array:
    tau, names = np.asarray(value, dtype=np.float64), plant.joint_names
    if tau.shape != (len(names),):
        raise InputError(
            f"the controller returned torques of shape {tau.shape} at {t:.6g} s, but ({len(names)},) is needed",
            code=Code.WRONG_SHAPE,
            subject="torque",
        )
    if not np.isfinite(tau).all():
        joint = int(np.flatnonzero(~np.isfinite(tau))[0])
        message = f"the controller returned {tau[joint]} for joint {names[joint]!r} at {t:.6g} s"
        raise InputError(message, code=Code.NOT_FINITE, subject=names[joint])
    return tau


class FixedStepIntegrator:
    """State (q, qd) at time t, integrated by `advance` in equal steps of at most `longest` seconds."""

    events = 0
    """Fixed steps have no events."""

    def __init__(self, plant: Plant, q0: Array, qd0: Array, longest: float) -> None:
        self._plant, self._longest = plant, longest
        kernel, look = _compile_kernels(plant)
        self._step, self._look = kernel.bind(), look.bind()
        self._step["q"][:], self._step["qd"][:] = plant.start(q0), qd0
        self._lam = np.zeros(len(plant.levels))
        self.t = 0.0

    @property
    def positions(self) -> Array:
        """Positions of the state."""
        return np.array(self._step["q"])

    @property
    def qd(self) -> Array:
        """Velocities (n,)."""
        return np.array(self._step["qd"])

    @property
    def stuck(self) -> NDArray[np.bool_]:
        """Whether each friction is below its Coulomb torque, (m,)."""
        return np.abs(self._lam) < self._plant.levels

    def hold(self, tau: Array) -> tuple[Array, Array]:
        """Apply tau from now on; return qdd (n,), and lam (m,) of the frictions."""
        self._step["tau"][:] = tau
        look = self._look
        for name, array in zip(look.input_names, look.inputs, strict=True):
            array[:] = self._longest if name == "dt" else self._step[name]
        look.run()
        if self._plant.has_friction:
            self._lam = look["lam_next"].copy()
        return look["qdd"].copy(), self._lam

    def advance(self, until: float) -> None:
        """Integrate to time `until` with the torque held."""
        run, count = self._step, max(1, int(np.ceil((until - self.t) / self._longest - 1e-6)))
        run["dt"][:] = (until - self.t) / count
        for _ in range(count):
            run.run()
            for name in ("q", "qd", "lam")[: 3 if self._plant.has_friction else 2]:
                run[name][:] = run[f"{name}_next"]
        self.t = until
        if not (np.isfinite(run["q"]).all() and np.isfinite(run["qd"]).all()):
            raise SimulationError(
                f"the motion is no longer finite at {until:.6g} s",
                hint='use a smaller step, or method="adaptive"; gains or torques may be too large for the robot'
                + (", or its loops reach a singular configuration" if self._plant.is_solved else ""),
                code=Code.NOT_FINITE,
                subject="q",
            )


@lru_cache(maxsize=CACHED_ROBOTS)
def _compile_kernels(plant: Plant) -> tuple[Kernel, Kernel]:
    """Return the kernels of the step and of its first stage."""
    look = slope_function(plant) if plant.has_friction else plant.function("forward_dynamics")
    return Kernel(step_function(plant)), Kernel(look)
