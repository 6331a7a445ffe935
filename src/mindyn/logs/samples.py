"""`StridedSamples`: conditioned motion and torque at the joints, ready for regression."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array, column_extremes, native_array
from mindyn.errors import InputError
from mindyn.logs.cleaning import MAX_MAGNITUDE
from mindyn.pages.notebook import NotebookDisplay


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Samples(NotebookDisplay):
    """Motion and torque, joint side, SI; rows in time order, one block for each segment.

    joint_names  n names, in the order of the columns and of the robot
    q, qd, qdd   (N, n) rad or m, and per s, s^2
    tau          (N, n) N m or N, at the joints
    rate_hz      sampling rate of the rows
    segments     (N,) number of the uninterrupted stretch that each row belongs to
    usable       (N, n) whether the row of each joint may enter a fit or a score (slow rows may not); None: all
    dependent_q  (N, m) positions of the joints that solved loops make dependent, followed along the log; None: none
                 were, and each is solved for from the robot's home when it is needed
    closure      (N, 2) how well these loops close, and how far they are from singular (see NOTATION.md)
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

    def __repr__(self) -> str:
        return f"Samples({len(self.q)} of {len(self.joint_names)} joints at {self.rate_hz:g} Hz)"

    def __post_init__(self) -> None:
        shape = (len(self.q), len(self.joint_names))
        for name in ("q", "qd", "qdd", "tau"):
            array = native_array(getattr(self, name), name)
            object.__setattr__(self, name, array)
            if array.shape != shape:
                raise InputError(f"{name} has shape {array.shape}, but {shape} is needed: one column for each joint")
            largest = np.maximum(*map(np.abs, column_extremes(array))) if len(array) else np.zeros(0)
            if not (largest < MAX_MAGNITUDE).all():
                row, column = np.argwhere(~(np.abs(array) < MAX_MAGNITUDE))[0]
                raise InputError(
                    f"{name} of joint {self.joint_names[column]!r} is {array[row, column]} at sample {row}",
                    hint=f"numbers must be smaller than {MAX_MAGNITUDE:g}: is a value missing, or is its unit another?",
                )
        if (tiny := np.flatnonzero((largest > 0) & (largest < 1 / MAX_MAGNITUDE))).size:  # of tau, the last
            raise InputError(
                f"no torque of joint {self.joint_names[tiny[0]]!r} is larger than {1 / MAX_MAGNITUDE:g}",
                hint="is its unit another? exact zeros say that there is none",
            )
        if self.segments.shape != shape[:1]:
            raise InputError(f"segments has shape {self.segments.shape}, but {shape[:1]} is needed")
        if self.usable is not None and self.usable.shape != shape:
            raise InputError(f"usable has shape {self.usable.shape}, but {shape} is needed")
        for name in ("dependent_q", "closure"):
            if (given := getattr(self, name)) is None:
                continue
            object.__setattr__(self, name, native_array(given, name))
            if len(given) != len(self.q):
                raise InputError(f"{name} has {len(given)} rows, but {len(self.q)} are needed")

    def __len__(self) -> int:
        return len(self.q)

    def take(self, index: slice | NDArray[np.intp]) -> Samples:
        """Some of the rows, in their order."""
        names = ("q", "qd", "qdd", "tau", "segments", *self.optional)
        arrays: dict[str, Any] = {name: getattr(self, name)[index] for name in names}
        return replace(self, **arrays)

    @property
    def optional(self) -> tuple[str, ...]:
        """Names of the arrays that need not be there, and are."""
        return tuple(name for name in ("usable", "dependent_q", "closure") if getattr(self, name) is not None)

    def of_rows(self, **arrays: Any) -> Samples:
        """The samples with other rows, of which nothing else is known."""
        return replace(self, **arrays, usable=None, dependent_q=None, closure=None)
