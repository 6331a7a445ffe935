"""BoundKernel: arrays of one sample tied to machine code, called without arguments."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from mindyn.errors import unknown_name_error
from mindyn.numerics.arrays import Array
from mindyn.numerics.native import NativeCode, thunk

if TYPE_CHECKING:
    from mindyn.kernels.kernel import Kernel

_BOUND_FUNCTION_TYPE = ctypes.PYFUNCTYPE(ctypes.c_int64)
"""A call of a few hundred nanoseconds: releasing the interpreter lock would cost as much as it gains."""


class BoundKernel:
    """`inputs` and `outputs` are arrays to write and read in place; calling it computes outputs from inputs.

    No allocation, no checks: NaN in, NaN out; so does forward dynamics where the inertia matrix is singular. `run` is
    the bare compiled function of no arguments, for the tightest loops, and works as long as it is held, whatever
    becomes of this object; it returns nonzero when an input or a result may not be finite, or an input is beyond the
    range that `Kernel` promises. One object serves one thread.
    """

    __slots__ = ("input_names", "inputs", "output_names", "outputs", "run")

    def __init__(self, code: NativeCode, kernel: Kernel) -> None:
        self.input_names = tuple(one.name for one in kernel.program.inputs)
        self.output_names = tuple(one.name for one in kernel.program.outputs)
        self.inputs = tuple(np.zeros(shape, kernel.dtype) for shape in kernel.input_shapes)
        self.outputs = tuple(np.zeros(shape, kernel.dtype) for shape in kernel.output_shapes)
        table = _address_table(self.inputs + self.outputs)
        tied = thunk(code, ctypes.addressof(table))
        self.run = _BOUND_FUNCTION_TYPE(tied.address)
        # The thunk holds addresses of the table and of the kernel, and the table those of the arrays: all live as long
        # as the function that jumps there.
        self.run.needs = (code, tied, table, self.inputs, self.outputs)  # type: ignore[attr-defined]

    def __call__(self) -> None:
        """Computes `outputs` from `inputs`."""
        self.run()

    def __getitem__(self, name: str) -> Array:
        """The array of the input or output called `name`."""
        names = self.input_names + self.output_names
        if name not in names:
            raise unknown_name_error("input or output", name, names)
        return (self.inputs + self.outputs)[names.index(name)]


def _address_table(arrays: tuple[Array, ...]) -> ctypes.Array[ctypes.c_int64]:
    entries = [number for array in arrays for number in (array.ctypes.data, 0)]
    return (ctypes.c_int64 * len(entries))(*entries)
