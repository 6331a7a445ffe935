"""Accumulate the rows of a stream: as R factors, or as Gram matrices.

Every value, covariance and interval that is returned comes from R factors, which keep all digits. Gram matrices lose
half of them and only compare settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.numerics.products import SquareSums, mirror_upper_triangle
from mindyn.regression.triangles import Triangle

FACTORED_ROWS: Final = 1024
"""Rows of a block: the columns of a 6-joint arm (1.3 MB) stay in the cache. 512 to 4096 differ by 10 %."""

Group = tuple[int, slice | NDArray[np.bool_]]
"""The number of a group, and which rows of a block belong to it."""
RowStream = Iterable[tuple[list[list[Array]], NDArray[np.intp]]]
"""Blocks of [columns | torque], as arrays side by side for each joint, with the sample numbers of their rows."""


class Accumulator(Protocol):
    """Sums over the rows of a joint, for each of several groups of rows."""

    def append(self, parts: Sequence[Array], groups: Iterable[Group]) -> None:
        """Add rows (N, k), given as arrays side by side, to the groups that they belong to."""


class Factors:
    """R factors (k, k) with R^T R = A^T A for the rows A of each group."""

    def __init__(self, width: int, count: int = 1) -> None:
        self.groups = [Triangle(width) for _ in range(count)]

    def append(self, parts: Sequence[Array], groups: Iterable[Group]) -> None:
        """Add rows to the groups that they belong to."""
        for number, taken in groups:
            self.groups[number].append([part[taken] for part in parts])


class GramMatrices:
    """A^T A (k, k) for the rows A of each group."""

    def __init__(self, width: int, count: int = 1) -> None:
        self._totals, self._rows = np.zeros((count, width, width)), np.empty((FACTORED_ROWS, width))
        self._products = SquareSums(self._totals, self._rows)

    def append(self, parts: Sequence[Array], groups: Iterable[Group]) -> None:
        """Add at most `FACTORED_ROWS` rows to the groups that they belong to."""
        rows = np.concatenate(parts, axis=1, out=self._rows[: len(parts[0])])
        for number, taken in groups:
            if isinstance(taken, slice):
                self._products.add(slice(*taken.indices(len(rows))), number)
            else:
                chosen = rows[taken]
                self._totals[number] += chosen.T @ chosen

    @property
    def matrices(self) -> list[Array]:
        """The matrix of each group."""
        return [mirror_upper_triangle(total) for total in self._totals]


def accumulate(
    stream: RowStream,
    joints: Sequence[Accumulator],
    groups_of: Callable[[NDArray[np.intp], int], Iterable[Group]],
) -> None:
    """Add the rows of a stream to the accumulator of each joint.

    groups_of  returns the groups of rows with given sample numbers, for the number of a joint
    """
    for parts, numbers in stream:
        for joint, (accumulator, arrays) in enumerate(zip(joints, parts, strict=True)):
            accumulator.append(arrays, groups_of(numbers, joint))
