"""`BoundKernel`: machine code with fixed arrays for one sample, called without arguments."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from mindyn.foundation.errors import unknown_name_error
from mindyn.kernels.numerics.arrays import (
    Array,
)
from mindyn.kernels.numerics.native import NativeCode, thunk

if TYPE_CHECKING:
    from mindyn.kernels.kernel import Kernel

_BOUND_FUNCTION_TYPE = ctypes.PYFUNCTYPE(ctypes.c_int64)
"""The interpreter lock is not released, because a call takes only a few hundred nanoseconds, about as long as releasing
the lock.
"""


class BoundKernel:
    """A kernel bound to its arrays: write `inputs`, call it, and read `outputs`.

    A call allocates nothing and checks nothing: if an input is NaN, outputs are NaN, and forward dynamics is NaN if the
    inertia matrix is singular. `run` is the compiled function without arguments, for the fastest loops. `run` stays
    valid as long as your program keeps a reference to it, even after this object is deleted. `run` returns nonzero if
    an input or a result may not be finite, or if an input is beyond the range for which `Kernel` guarantees results.
    Use one object per thread.
    """

    __slots__ = ("input_names", "inputs", "output_names", "outputs", "run")

    def __init__(self, code: NativeCode, kernel: Kernel) -> None:
        self.input_names = tuple(argument.name for argument in kernel.program.inputs)
        self.output_names = tuple(argument.name for argument in kernel.program.outputs)
        self.inputs = tuple(np.zeros(shape, kernel.dtype) for shape in kernel.input_shapes)
        self.outputs = tuple(np.zeros(shape, kernel.dtype) for shape in kernel.output_shapes)
        table = _address_table(self.inputs + self.outputs)
        tied = thunk(code, ctypes.addressof(table))
        self.run = _BOUND_FUNCTION_TYPE(tied.address)
        # The thunk holds the addresses of the table and of the kernel, and the table those of the arrays: all must live
        # as long as the function.
        self.run.needs = (code, tied, table, self.inputs, self.outputs)  # type: ignore[attr-defined]

    def __call__(self) -> None:
        """Compute `outputs` from `inputs`."""
        self.run()

    def __getitem__(self, name: str) -> Array:
        """Return the array of the input or output called `name`."""
        names = self.input_names + self.output_names
        if name not in names:
            raise unknown_name_error("input or output", name, names)
        return (self.inputs + self.outputs)[names.index(name)]


def _address_table(arrays: tuple[Array, ...]) -> ctypes.Array[ctypes.c_int64]:
    entries = [number for array in arrays for number in (array.ctypes.data, 0)]
    return (ctypes.c_int64 * len(entries))(*entries)
