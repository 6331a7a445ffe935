"""`ListedColumns`: the columns of a regressor along samples, written by calls of machine code that are listed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mindyn.algebra.values import Array, native_array
from mindyn.kernels.kernel import Kernel
from mindyn.numerics.call_list import CallList, RowBlock
from mindyn.regression.regressor import Regressor

Write = Callable[[CallList, range], None]


class ListedColumns:
    """Columns of samples (N, n); `directions` as `Regressor.directions` returns them.

    Terms that a regressor adds to the output of the kernel, other than constant multiples of directions (friction of solved loops,
    of a load, columns of its own) cannot be listed: see `create`.
    """

    def __init__(self, regressor: Regressor, motion: tuple[Array, ...], directions: Array | None) -> None:
        self._code = regressor.kernel.batch_code()
        self._motion = [native_array(one, "motion") for one in motion]
        self._directions = None if directions is None else native_array(directions, "directions")
        coulomb = () if directions is None else regressor.friction_columns[0]
        self._weights = np.array([weight for _, _, weight in coulomb])
        self._coulomb = [(8 * place, 8 * source) for place, source, _ in coulomb]

    @staticmethod
    def create(regressor: Regressor, motion: tuple[Array, ...], directions: Array | None) -> ListedColumns | None:
        """None where the columns cannot be listed."""
        kernel = regressor.kernel
        fits = type(kernel) is Kernel and [(one.shape[1],) for one in motion] == [*kernel.input_shapes]
        return ListedColumns(regressor, motion, directions) if fits and regressor.is_plain else None

    def onto(self, room: Array, first: int) -> Write:
        """List the calls that write columns of consecutive samples, from a first one, to the rows of `room`.

        The buffer must exist until the calls have run.
        """
        place, taken = RowBlock.from_array(room), [RowBlock.from_array(one) for one in self._motion]
        of_first = RowBlock(place.row(-first), place.step, place.width)
        table = np.array([word for one in (*taken, of_first) for word in (one.address, 8 * one.step)], dtype=np.int64)
        at, code, weights = table.ctypes.data, self._code, self._weights.ctypes.data
        sources = None if self._directions is None else RowBlock.from_array(self._directions)

        def write(calls: CallList, rows: range) -> None:
            calls.keep_alive(self, table)
            calls.add("kernel", code, rows.start, rows.stop, at)
            if sources is None:
                return
            begun, given, count = of_first.row(rows.start), sources.row(rows.start), len(rows)
            for k, (column, source) in enumerate(self._coulomb):
                made = begun + column, of_first.step
                calls.scale(count, 1, (given + source, sources.step), (weights + 8 * k, 0), made)

        return write
