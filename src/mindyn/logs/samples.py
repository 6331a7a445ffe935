"""`StridedSamples`: conditioned motion and torque at the joints, ready for regression."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.requirements import require_shape
from mindyn.foundation.algebra.values import Array, column_extremes, native_array
from mindyn.foundation.errors import Code, InputError, pluralise
from mindyn.logs.cleaning import MAX_MAGNITUDE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Samples:
    """Conditioned motion and torque at the joint side in SI units, in time order.

    Parameters
    ----------
    joint_names : tuple of str
        Names of the n joints, in the order of the columns and of the robot.
    q, qd, qdd : array of shape (N, n)
        Positions (rad or m), velocities (rad/s or m/s) and accelerations (rad/s^2 or m/s^2).
    tau : array of shape (N, n)
        Torques or forces, in N m or N.
    rate_hz : float
        Sampling rate, in Hz.
    segments : array of int of shape (N,)
        Number of the uninterrupted segment of each row.
    usable : array of bool of shape (N, n), optional
        Whether the row of each joint may be used in a fit or a score; None uses all rows.
    dependent_q : array of shape (N, m), optional
        Positions of the joints that depend on solved loops, followed along the log. If None, they are solved from the
        robot's home when they are needed.
    closure : array of shape (N, 2), optional
        Residual of these loops, and their distance from a singular configuration (see NOTATION.md).
    motor_q : array of shape (N, n), optional
        Positions of the motors divided by the gear ratios, in rad or m, filtered like q.

    Raises
    ------
    InputError
        If an array has the wrong shape, or a value is not finite or implausibly large.
    """

    joint_names: tuple[str, ...]
    q: Array
    qd: Array
    qdd: Array
    tau: Array
    rate_hz: float
    segments: NDArray[np.int64]
    usable: NDArray[np.bool_] | None = None
    dependent_q: Array | None = None
    closure: Array | None = None
    motor_q: Array | None = None

    def __repr__(self) -> str:
        return f"Samples({len(self.q)} of {pluralise(len(self.joint_names), 'joint')} at {self.rate_hz:g} Hz)"

    def __post_init__(self) -> None:
        shape = (len(self.q), len(self.joint_names))
        for name in ("q", "qd", "qdd", "tau"):
            array = native_array(getattr(self, name), name)
            object.__setattr__(self, name, array)
            require_shape(array.shape, shape, name)
            largest = np.maximum(*map(np.abs, column_extremes(array))) if len(array) else np.zeros(0)
            if not (largest < MAX_MAGNITUDE).all():
                row, column = np.argwhere(~(np.abs(array) < MAX_MAGNITUDE))[0]
                raise InputError(
                    f"{name} of joint {self.joint_names[column]!r} is {array[row, column]} at sample {row}",
                    hint=f"numbers must be below {MAX_MAGNITUDE:g}: is a value missing, or is its unit wrong?",
                    code=Code.NOT_FINITE,
                    subject=name,
                )
        if (
            tiny := np.flatnonzero((largest > 0) & (largest < 1 / MAX_MAGNITUDE))
        ).size:  # `largest` of tau, the last array
            raise InputError(
                f"no torque of joint {self.joint_names[tiny[0]]!r} is larger than {1 / MAX_MAGNITUDE:g}",
                hint="is its unit wrong? use exact zeros for a joint without torque",
                code=Code.OUT_OF_RANGE,
                subject="tau",
            )
        for name in ("segments", *self.optional):
            given = getattr(self, name)
            if name in ("dependent_q", "closure", "motor_q"):
                object.__setattr__(self, name, native_array(given, name))
            needed = {"segments": shape[:1], "usable": shape, "motor_q": shape}.get(
                name, (len(self.q), *given.shape[1:])
            )
            require_shape(given.shape, needed, name)

    def __len__(self) -> int:
        return len(self.q)

    def take(self, index: slice | NDArray[np.intp]) -> Samples:
        """Return the selected rows, in order."""
        names = ("q", "qd", "qdd", "tau", "segments", *self.optional)
        arrays: dict[str, Any] = {name: getattr(self, name)[index] for name in names}
        return replace(self, **arrays)

    @property
    def optional(self) -> tuple[str, ...]:
        """Names of the optional arrays that are present."""
        return tuple(
            name for name in ("usable", "dependent_q", "closure", "motor_q") if getattr(self, name) is not None
        )

    def replace_rows(self, **arrays: Any) -> Samples:
        """Return the samples with other rows and without optional arrays."""
        return replace(self, **arrays, usable=None, dependent_q=None, closure=None, motor_q=None)


def segment_ends(segments: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return for every segment its first row and the row after its last."""
    starts = np.flatnonzero(np.diff(segments, prepend=segments[:1] - 1))
    return [(int(a), int(b)) for a, b in zip(starts, [*starts[1:], len(segments)], strict=True)]
