"""BoundKernel: arrays of one sample tied to machine code, called without arguments."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from mindyn.errors import unknown_name
from mindyn.kernels.arrays import Array
from mindyn.kernels.native import NativeCode, thunk

if TYPE_CHECKING:
    from mindyn.kernels.kernel import Kernel

_CALL = ctypes.PYFUNCTYPE(ctypes.c_int64)
"""A call of a few hundred nanoseconds: releasing the interpreter lock would cost as much as it gains."""


class BoundKernel:
    """`inputs` and `outputs` are arrays to write and read in place; calling it computes outputs from inputs.

    No allocation, no checks: NaN in, NaN out. `run` is the bare compiled function of no arguments, for the tightest
    loops; it returns nonzero when an input may not be finite. One object serves one thread.
    """

    __slots__ = ("_code", "_table", "input_names", "inputs", "output_names", "outputs", "run")

    def __init__(self, code: NativeCode, kernel: Kernel) -> None:
        self.input_names = tuple(one.name for one in kernel.program.inputs)
        self.output_names = tuple(one.name for one in kernel.program.outputs)
        self.inputs = tuple(np.zeros(shape, kernel.dtype) for shape in kernel.input_shapes)
        self.outputs = tuple(np.zeros(shape, kernel.dtype) for shape in kernel.output_shapes)
        self._table = _table(self.inputs + self.outputs)
        # The thunk holds the addresses of the table and of the kernel: both must outlive it.
        tied = thunk(code, ctypes.addressof(self._table))
        self._code = (code, tied)
        self.run = _CALL(tied.address)

    def __call__(self) -> None:
        """Computes `outputs` from `inputs`."""
        self.run()

    def __getitem__(self, name: str) -> Array:
        """The array of the input or output called `name`."""
        names = self.input_names + self.output_names
        if name not in names:
            raise unknown_name("input or output", name, names)
        return (self.inputs + self.outputs)[names.index(name)]


def _table(arrays: tuple[Array, ...]) -> ctypes.Array[ctypes.c_int64]:
    entries = [number for array in arrays for number in (array.ctypes.data, 0)]
    return (ctypes.c_int64 * len(entries))(*entries)
