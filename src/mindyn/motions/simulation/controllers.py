"""Controllers that track a reference: proportional-derivative and computed torque.

`ControlLaw`: a controller as an expression that is compiled and differentiated as part of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

import casadi
import numpy as np
from numpy.typing import ArrayLike

from mindyn.equations.catalogue import Function
from mindyn.foundation.algebra.requirements import make_read_only, require_finite, require_positive
from mindyn.foundation.algebra.values import Array, frozen_array, real_array
from mindyn.foundation.errors import Code, InputError, pluralise
from mindyn.motions.simulation.plant import Plant, create_plant
from mindyn.robots.robot import Robot

Reference = Callable[[float], tuple[Array, Array, Array]]
"""Function of t (s) that returns q, qd, qdd, each (n,)."""


@dataclass(frozen=True, slots=True, eq=False)
class SineMotion:
    """Reference q(t) = centre + sum_k amplitude[k] (sin(2 pi frequency_hz[k] t + phase[k]) - sin(phase[k])).

    Parameters
    ----------
    centre : array of shape (n,)
        Position at t = 0, in rad or m.
    amplitude : array of shape (K, n)
        Amplitudes, in rad or m.
    frequency_hz : array of shape (K, n)
        Frequencies, in Hz.
    phase : array of shape (K, n)
        Phases, in rad.

    Raises
    ------
    InputError
        If the shapes do not match, or a value is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from mindyn import SineMotion
    >>> motion = SineMotion(np.zeros(1), np.array([[0.5]]), np.array([[1.0]]), np.array([[0.0]]))
    >>> q, qd, qdd = motion(0.25)
    >>> float(q[0])
    0.5
    """

    centre: Array
    amplitude: Array
    frequency_hz: Array
    phase: Array

    def __post_init__(self) -> None:
        centre = _read_numbers(self.centre, "centre")
        object.__setattr__(self, "centre", make_read_only(centre.copy()))
        for name in ("amplitude", "frequency_hz", "phase"):
            array = np.array(np.atleast_2d(_read_numbers(getattr(self, name), name)))
            if array.ndim != 2 or array.shape[1:] != centre.shape:
                message = f"{name} has shape {array.shape}, but (K, {len(centre)}) is needed"
                raise InputError(message, code=Code.WRONG_SHAPE, subject=name)
            object.__setattr__(self, name, make_read_only(array))

    def __call__(self, t: float) -> tuple[Array, Array, Array]:
        """Return q, qd, qdd at time t."""
        q, qd, qdd = self.rows(np.array([t]))
        return q[0], qd[0], qdd[0]

    def rows(self, times: Array) -> tuple[Array, Array, Array]:
        """Return q, qd, qdd (N, n) at times (N,)."""
        w = 2 * np.pi * self.frequency_hz
        angle, a = times[:, None, None] * w + self.phase, self.amplitude
        sin, cos = np.sin(angle), np.cos(angle)
        q = self.centre + (a * (sin - np.sin(self.phase))).sum(axis=1)
        return q, (a * w * cos).sum(axis=1), -(a * w**2 * sin).sum(axis=1)


def _read_numbers(value: object, what: str) -> Array:
    return require_finite(real_array(value, np.float64, what), what)


class ReferenceRows(Protocol):
    """Reference that can be evaluated at many times at once."""

    def rows(self, times: Array) -> tuple[Array, Array, Array]: ...  # noqa: D102


class TabulatedReference:
    """Reference whose values at 0, 1 / rate_hz ...

    `seconds` are computed in advance; values at other times are computed when needed.

    Computing each instant separately takes ten times as long.
    """

    def __init__(self, reference: ReferenceRows, seconds: float, rate_hz: float = 1000.0) -> None:
        self.reference, self.rate_hz = reference, rate_hz
        lasts = require_positive(seconds, "seconds", "such as 10.0")
        self.times = np.arange(int(lasts * rate_hz + 1e-6) + 1) / rate_hz
        self.table = reference.rows(self.times)

    def __call__(self, t: float) -> tuple[Array, Array, Array]:
        """Return q, qd, qdd at time t."""
        k = round(t * self.rate_hz)
        known = 0 <= k < len(self.times) and self.times[k] == t
        (q, qd, qdd), row = (self.table, k) if known else (self.reference.rows(np.array([t])), 0)
        return q[row], qd[row], qdd[row]


class ProportionalDerivative:
    """Controller tau = stiffness (q_r - q) + damping (qd_r - qd), called as (t, q, qd) -> tau.

    Parameters
    ----------
    reference : callable
        Function of t (s) that returns q_r, qd_r, qdd_r, each (n,).
    stiffness : float or array_like of shape (n,)
        Gains, in N m/rad or N/m.
    damping : float or array_like of shape (n,)
        Gains, in N m s/rad or N s/m.

    Raises
    ------
    InputError
        If a gain is negative or has the wrong shape.
    """

    def __init__(self, reference: Reference, stiffness: ArrayLike, damping: ArrayLike) -> None:
        self.reference = reference
        n = len(reference(0.0)[0])
        self.stiffness, self.damping = _require_gains(stiffness, n, "stiffness"), _require_gains(damping, n, "damping")

    def __call__(self, t: float, q: Array, qd: Array) -> Array:
        """Return the torque at time t."""
        q_r, qd_r, _ = self.reference(t)
        return np.asarray(self.stiffness * (q_r - q) + self.damping * (qd_r - qd))

    def _law(self) -> ControlLaw:
        """Return the controller as an expression."""
        names = ("q_r", "qd_r")
        return tracking_law(
            self.stiffness,
            self.damping,
            lambda times: dict(zip(names, sample_reference(self.reference, times)[:2], strict=True)),
        )


class ComputedTorque:
    """Controller tau = M(q) (qdd_r + stiffness (q_r - q) + damping (qd_r - qd)) + h(q, qd) + F^T c sign(F qd_r).

    The tracking error e then satisfies e'' + damping e' + stiffness e = 0, except that the torque is held between
    samples. Coulomb friction is compensated in the direction of the reference, which noise near zero speed cannot
    reverse.

    Parameters
    ----------
    robot : Robot
        Robot with the inertial parameters of the compensation.
    reference : callable
        Function of t (s) that returns q_r, qd_r, qdd_r, each (n,).
    stiffness : float or array_like of shape (n,)
        Gains, in 1/s^2.
    damping : float or array_like of shape (n,)
        Gains, in 1/s.
    with_drives : bool
        Whether to include rotor inertia, friction and offsets of the drives.

    Raises
    ------
    InputError
        If the reference has another number of joints than the robot, or a gain is negative.
    """

    def __init__(
        self, robot: Robot, reference: Reference, stiffness: ArrayLike, damping: ArrayLike, *, with_drives: bool = False
    ) -> None:
        self.reference, self.plant = reference, create_plant(robot, with_drives=with_drives)
        n, wanted = self.plant.joint_count, len(reference(0.0)[0])
        if wanted != n:
            message = f"the reference has {pluralise(wanted, 'joint')}, but robot {robot.name!r} has {n}"
            raise InputError(message, code=Code.WRONG_SHAPE, subject="reference")
        self.stiffness, self.damping = _require_gains(stiffness, n, "stiffness"), _require_gains(damping, n, "damping")
        self._torque = self.plant.kernel("inverse_dynamics")

    def __call__(self, t: float, q: Array, qd: Array) -> Array:
        """Return the torque at time t."""
        q_r, qd_r, qdd_r = self.reference(t)
        wanted = qdd_r + self.stiffness * (q_r - q) + self.damping * (qd_r - qd)
        return np.asarray(self._torque(q, qd, wanted) + self.dry_friction(q_r, qd_r))

    def _law(self) -> ControlLaw:
        """Return the controller as an expression; the compensation of Coulomb friction is a signal."""
        plant, names = self.plant, ["q", "qd", "q_r", "qd_r", "qdd_r", "friction"]
        sizes = [plant.position_count, *[plant.joint_count] * 5]
        q, qd, q_r, qd_r, qdd_r, friction = symbols = [
            casadi.SX.sym(name, size) for name, size in zip(names, sizes, strict=True)
        ]
        stiffness, damping = casadi.DM(self.stiffness), casadi.DM(self.damping)
        wanted = qdd_r + stiffness * (q_r - q[plant.primary]) + damping * (qd_r - qd)
        tau = plant.equation("inverse_dynamics")(q, qd, wanted) + friction

        def signals(times: Array) -> dict[str, Array]:
            reference = sample_reference(self.reference, times)
            return dict(zip(names[2:], (*reference, self.dry_friction(*reference[:2])), strict=True))

        return ControlLaw(casadi.Function("law", symbols, [tau], names, ["tau"]), signals)

    def dry_friction(self, q: Array, qd: Array) -> Array:
        """Return F^T c sign(F qd) (..., n) at positions and speeds (..., n)."""
        F = self.plant.rows_at(q)
        directions = np.sign((F @ qd[..., None])[..., 0])
        return np.asarray(np.einsum("m,...m,...mn->...n", self.plant.levels, directions, F))


def _require_gains(value: ArrayLike, n: int, name: str) -> Array:
    given = np.asarray(value, dtype=np.float64)
    gains = frozen_array(np.full(n, float(given)) if given.ndim == 0 else given, (n,), name)
    if (gains < 0).any():
        raise InputError(f"{name} must not be negative, got {gains.tolist()}", code=Code.OUT_OF_RANGE, subject=name)
    return gains


Signals = Callable[[Array], Mapping[str, Array]]
"""Times (N,) s -> values (N, size) of every signal."""


@dataclass(frozen=True, slots=True, eq=False)
class ControlLaw:
    """Controller tau = function(q, qd, signals(t)).

    Parameters
    ----------
    function : casadi.Function
        Function with inputs named q and qd (n, 1), an input for each signal, and the output tau (n, 1). With solved
        loops, n counts the primary joints, and q may contain the positions of all joints.
    signals : callable
        Function of times (N,) in s that returns a mapping of signal names to values (N, size). The signals q_r and
        qd_r are the reference of the motion.
    """

    function: Function
    signals: Signals


def convert_to_law(controller: ControlLaw | ProportionalDerivative | ComputedTorque) -> ControlLaw:
    """Return the control law of a controller."""
    if isinstance(controller, ControlLaw):
        return controller
    if isinstance(controller, (ProportionalDerivative, ComputedTorque)):
        return controller._law()
    raise InputError(
        f"a controller that is simulated with candidates must be an expression, got {type(controller).__name__}",
        hint="pass a ProportionalDerivative, a ComputedTorque, or a ControlLaw(function, signals)",
        code=Code.WRONG_TYPE,
        subject="controller",
    )


def require_law(law: Function, plant: Plant, reserved: Collection[str]) -> None:
    """Raise `InputError` if a function is not a control law for the plant, or if an input has a reserved name."""
    n = plant.joint_count
    if law.n_out() != 1 or law.size_out(0) != (n, 1):
        raise InputError(
            f"a control law must have one output of shape ({n}, 1), the torques of the robot's {n} joints; "
            f"{law.name()!r} has {law.n_out()} outputs, the first of shape {law.size_out(0)}",
            code=Code.WRONG_SHAPE,
            subject=law.name(),
        )
    for k, name in enumerate(law.name_in()):
        if name in reserved:
            message = f"the law's input {name!r} has a reserved name; rename it. Reserved: {', '.join(reserved)}"
            raise InputError(message, code=Code.DUPLICATE, subject=name)
        rows, columns = law.size_in(k)
        sizes = {"q": (n, plant.position_count), "qd": (n,)}.get(name, (rows,))
        if rows not in sizes or columns != 1:
            message = f"the law's input {name!r} has shape {(rows, columns)}, but ({sizes[0]}, 1) is needed"
            raise InputError(message, code=Code.WRONG_SHAPE, subject=name)


def sample_signals(law: ControlLaw, times: Array) -> dict[str, Array]:
    """Return every signal (N, size) that a law reads, and q_r and qd_r if they are given, at times (N,)."""
    given, function = law.signals(times), law.function
    sizes = {name: function.size_out(0)[0] for name in ("q_r", "qd_r") if name in given}
    sizes |= {name: function.size_in(k)[0] for k, name in enumerate(function.name_in()) if name not in ("q", "qd")}
    if missing := [name for name in sizes if name not in given]:
        message = f"the law reads {', '.join(missing)}, but its signals are: {', '.join(given) or 'none'}"
        raise InputError(message, code=Code.MISSING_VALUE, subject=missing[0])
    return {name: _require_signal(given[name], name, (len(times), size)) for name, size in sizes.items()}


def _require_signal(value: Array, name: str, shape: tuple[int, int]) -> Array:
    array = _read_numbers(value, f"signal {name!r}")
    if array.shape != shape:
        message = f"signal {name!r} has shape {array.shape}, but {shape} is needed: a row for each time"
        raise InputError(message, code=Code.WRONG_SHAPE, subject=name)
    return array


def sample_reference(reference: Reference, times: Array) -> tuple[Array, Array, Array]:
    """Return q, qd, qdd (N, n) of a reference at times (N,)."""
    if isinstance(reference, SineMotion):
        return reference.rows(times)
    rows = [reference(float(t)) for t in times]
    q, qd, qdd = (np.array([row[k] for row in rows]) for k in range(3))
    return q, qd, qdd


def tracking_law(stiffness: Array, damping: Array, signals: Signals, limit: Array | None = None) -> ControlLaw:
    """Return the law tau = stiffness (q_r - q) + damping (qd_r - qd), limited to +-limit if a limit is given."""
    names = ["q", "qd", "q_r", "qd_r"]
    q, qd, q_r, qd_r = symbols = [casadi.SX.sym(name, len(stiffness)) for name in names]
    tau = casadi.DM(stiffness) * (q_r - q) + casadi.DM(damping) * (qd_r - qd)
    if limit is not None:
        tau = casadi.fmin(casadi.fmax(tau, -limit), limit)
    return ControlLaw(casadi.Function("law", symbols, [tau], names, ["tau"]), signals)
