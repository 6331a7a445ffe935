"""`ColumnSums`: columns and torque behind the parallel filter, and the normal matrices of parts of their rows.

Settings are tried one after another, and most differ in friction alone: the columns of links and rotors, behind the
filter, and their sums stay; those of friction come new. Segments and parts are worked on by threads, each on its own;
what they give is put together in order, so that it does not depend on their number.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.kernels.threads import of_each
from mindyn.logs.filters import lowpass
from mindyn.logs.samples import Samples
from mindyn.regression.friction import Friction
from mindyn.regression.gathering import segment_ends
from mindyn.regression.regressor import Regressor

ROWS_AT_ONCE: Final = 1024
"""Rows of the kernel's columns that stay in the cache."""


class Part(NamedTuple):
    """Rows of which a normal matrix is made: first, after the last, every how many; and joints that are not too slow.

    slowest  speeds of the joints, rad/s, that a row must exceed to count for the joint; None: all rows count
    """

    first: int
    last: int
    step: int = 1
    slowest: float | tuple[float, ...] | None = None


class _Friction(NamedTuple):
    """For each joint the numbers of friction's columns among its own; values, smooth torque, torque."""

    numbers: list[NDArray[np.intp]]
    values: list[Array]


class ColumnSums:
    """Of the samples of one conditioning and one cut-off.

    room  (rows, columns of the kernel) to be overwritten; a new one where it is too small
    """

    def __init__(self, regressor: Regressor, samples: Samples, cutoff_hz: float | None, room: Array | None) -> None:
        self.samples, self.cutoff_hz = samples, cutoff_hz
        self.segments = segment_ends(samples.segments)
        width = regressor.kernel.output_shapes[0][0]
        fits = room is not None and room.shape[0] >= len(samples) and room.shape[1] == width
        self.room = room if room is not None and fits else np.empty((len(samples), width))
        self._widths = [len(columns[columns < regressor.base.count]) for columns in regressor.columns]
        self._ends = np.cumsum([0, *self._widths])
        self._torque = np.empty(samples.tau.shape)
        self._sums: dict[tuple[int, Part], Array] = {}
        self._matrices: dict[Part, list[Array]] = {}
        self._friction: tuple[Friction, _Friction] = regressor.friction, self._filtered(regressor, self.room)

    def normal_matrices(self, regressor: Regressor, parts: list[Part]) -> list[list[Array]]:
        """For each part and joint [Y | smooth tau | tau]^T [Y | smooth tau | tau], and what belongs to it."""
        friction = self._of_friction(regressor)
        new = [part for part in parts if part not in self._matrices]
        joints = range(len(self._widths))
        made = of_each(lambda part: [self._matrix(part, joint, friction) for joint in joints], new)
        self._matrices.update(zip(new, made, strict=True))
        return [self._matrices[part] for part in parts]

    def has(self, part: Part) -> bool:
        """Whether the normal matrices of a part are there already."""
        return part in self._matrices

    def squared_errors(self, regressor: Regressor, parts: list[tuple[Part, Array]]) -> list[Array]:
        """For each part with its beta (p,): (n, 2) squares of tau - Y beta, and of tau, of every joint.

        Of one beta that takes a fifth of the time of the normal matrices.
        """
        friction = self._of_friction(regressor)
        joints = range(len(self._widths))
        return of_each(
            lambda one: np.array([self._errors(*one, joint, regressor, friction) for joint in joints]), parts
        )

    def _of_friction(self, regressor: Regressor) -> _Friction:
        if self._friction[0] != regressor.friction:
            self._friction = regressor.friction, self._filtered(regressor)
            self._matrices.clear()
        return self._friction[1]

    def _errors(
        self, part: Part, beta: Array, joint: int, regressor: Regressor, friction: _Friction
    ) -> tuple[float, float]:
        rows, numbers = self._rows(part, joint), friction.numbers[joint]
        own = beta[regressor.columns[joint]]
        E = friction.values[joint][rows]
        tau = E[:, -1]
        left = tau - E[:, :-2] @ own[numbers]
        own[numbers] = 0.0  # friction's columns among the kernel's are of another setting
        left -= self.room[rows, self._ends[joint] : self._ends[joint + 1]] @ own[: self._widths[joint]]
        return float(left @ left), float(tau @ tau)

    def count(self, part: Part, joint: int) -> int:
        """Rows of the part that count for a joint."""
        rows = self._rows(part, joint)
        return len(range(*rows.indices(len(self.samples)))) if isinstance(rows, slice) else len(rows)

    def _rows(self, part: Part, joint: int) -> slice | NDArray[np.intp]:
        if part.slowest is None:
            return slice(part.first, part.last, part.step)
        speed = np.abs(self.samples.qd[part.first : part.last : part.step, joint])
        slowest = np.broadcast_to(np.asarray(part.slowest), (len(self._widths),))[joint]
        return part.first + part.step * np.flatnonzero(speed > slowest)

    def _matrix(self, part: Part, joint: int, friction: _Friction) -> Array:
        rows, width = self._rows(part, joint), self._widths[joint]
        A, E = self.room[rows, self._ends[joint] : self._ends[joint + 1]], friction.values[joint][rows]
        if (joint, part) not in self._sums:
            self._sums[joint, part] = A.T @ A
        numbers = friction.numbers[joint]
        size = width + int((numbers >= width).sum()) + 2
        where = [*numbers, size - 2, size - 1]
        whole, beside = np.empty((size, size)), _products(A, E)
        whole[:width, :width] = self._sums[joint, part]
        # Friction's columns among the kernel's are of the setting that the columns were made for: they are replaced.
        whole[:width, where] = beside
        whole[where, :width] = beside.T
        whole[np.ix_(where, where)] = E.T @ E
        return whole

    def _filtered(self, regressor: Regressor, room: Array | None = None) -> _Friction:
        """Friction's columns and torque behind the filter; where there is room for them, all others as well."""
        samples, rate, cutoff = self.samples, self.samples.rate_hz, self.cutoff_hz
        q = regressor.positions(samples)
        directions = regressor.directions(q, samples.qd, samples.segments, rate)
        numbers = [regressor.friction_numbers(joint) for joint in range(len(self._widths))]
        values = [np.empty((len(samples), len(own) + 2)) for own in numbers]

        def fill(segment: tuple[int, int]) -> None:
            out = np.empty((ROWS_AT_ONCE, self.room.shape[1])) if room is None else room
            for start in range(*segment, ROWS_AT_ONCE):
                taken = slice(start, min(start + ROWS_AT_ONCE, segment[1]))
                given = None if directions is None else directions[taken]
                columns = out[: taken.stop - start] if room is None else out[taken]
                found = regressor.parts(q[taken], samples.qd[taken], samples.qdd[taken], given, columns)
                for joint, (own, (first, *shapes)) in enumerate(zip(numbers, found, strict=True)):
                    inside = own[own < self._widths[joint]]
                    np.concatenate([first[:, inside], *shapes], axis=1, out=values[joint][taken, :-2])
            whole = slice(*segment)
            if room is not None:
                self._torque[whole] = lowpass(samples.tau[whole], cutoff, rate)
                _smooth(room[whole], cutoff, rate)
            for joint, own_values in enumerate(values):
                _smooth(own_values[whole, :-2], cutoff, rate)
                own_values[whole, -2:] = np.stack([self._torque[whole, joint], samples.tau[whole, joint]], axis=1)

        of_each(fill, self.segments)
        return _Friction(numbers, values)


def _products(A: Array, E: Array) -> Array:
    """A^T E of few columns E: BLAS multiplies short stretches without packing them, in half the time."""
    total = np.zeros((A.shape[1], E.shape[1]))
    for start in range(0, len(A), ROWS_AT_ONCE):
        total += (E[start : start + ROWS_AT_ONCE].T @ A[start : start + ROWS_AT_ONCE]).T
    return total


def _smooth(x: Array, cutoff_hz: float | None, rate_hz: float) -> None:
    """The low pass, in place."""
    if cutoff_hz is not None and len(x) > 1:
        lowpass(x, cutoff_hz, rate_hz, out=x)
