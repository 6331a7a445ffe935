"""`TimeLoop`: repeat a step kernel in machine code; each step writes its result where the next step reads its input.

A few motions at a time are simulated through all steps, so that their states stay in the first-level cache. Arrays keep
NumPy's order (motion, time, element).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from numpy.typing import NDArray

from mindyn.foundation.processes.cores import split_range
from mindyn.kernels.kernel import Kernel
from mindyn.kernels.numerics.arrays import address_of_rows
from mindyn.kernels.numerics.machine import host
from mindyn.kernels.numerics.native import assemble_code, load

_MARCH_TYPE = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3, ctypes.c_void_p, ctypes.c_void_p)
"""Function type whose calls release the interpreter lock."""


class TimeLoop:
    """Step kernel that runs over motions and steps, `lanes` motions at a time.

    `sizes` are those of its inputs and outputs.
    """

    def __init__(self, kernel: Kernel, lanes: int | None = None) -> None:
        self.inputs = [argument.name for argument in kernel.program.inputs]
        self.outputs = [argument.name for argument in kernel.program.outputs]
        self.sizes = {argument.name: argument.size for argument in kernel.program.arguments}
        self._lanes = lanes or host().lanes(kernel.dtype.itemsize * 8)
        self._entries, self._dtype = len(kernel.program.arguments), kernel.dtype
        self._step = kernel.code(self._lanes)
        self._code = load(assemble_code(_march_ir(self._step.address, self._entries, self._lanes)), "march")
        self._march = _MARCH_TYPE(self._code.address)

    def run(self, arrays: Mapping[str, NDArray[Any]], rollouts: int, steps: int, threads: int) -> int:
        """Run the steps on arrays (rollouts or 1, steps or 1, size) by name; `x_next` is written to the next step of x.

        Return nonzero if an input of a step was not finite. Results do not depend on `threads`.
        """
        table, moves = self._locate_all(arrays, rollouts)
        return split_range(
            lambda first, last: self._run(first, last, steps, table, moves),
            rollouts,
            threads,
            self._lanes,
            least=1,
        )

    def bind(self, arrays: Mapping[str, NDArray[Any]], steps: int) -> Callable[[], int]:
        """Return `run` of one rollout on these arrays, which must live as long as the function."""
        return partial(self._run, 0, 1, steps, *self._locate_all(arrays, 1))

    def _run(self, first: int, last: int, steps: int, table: Any, moves: Any) -> int:
        return int(self._march(first, last, steps, table, moves))

    def _locate_all(self, arrays: Mapping[str, NDArray[Any]], rollouts: int) -> tuple[Any, Any]:
        """Return the addresses and strides of all arguments, and how far each moves in a step."""
        located = [self._locate(arrays[name], rollouts) for name in self.inputs]
        for name in self.outputs:
            located.append(self._locate(arrays[name.removesuffix("_next")], rollouts, later=name.endswith("_next")))
        table = (ctypes.c_int64 * (2 * self._entries))(*[number for place in located for number in place[:2]])
        return table, (ctypes.c_int64 * self._entries)(*[along for _, _, along in located])

    def _locate(self, array: NDArray[Any], rollouts: int, *, later: bool = False) -> tuple[int, int, int]:
        """Return an array's address and its strides in bytes to the next rollout and step; `later` skips a step."""
        count, steps, _ = array.shape
        between, along = array.strides[0] if count == rollouts else 0, array.strides[1] if steps > 1 else 0
        return address_of_rows(array, self._dtype) + later * along, between, along


def _march_ir(step_address: int, entries: int, block: int) -> str:
    """Return the IR of march(first, last, steps, table, moves), which runs all steps for each block of rollouts."""
    pointers = [f"  %a{e} = getelementptr i64, ptr %own, i64 {2 * e}" for e in range(entries)]
    copy = [
        f"  %f{w} = getelementptr i64, ptr %table, i64 {w}\n  %v{w} = load i64, ptr %f{w}\n"
        f"  %o{w} = getelementptr i64, ptr %own, i64 {w}\n  store i64 %v{w}, ptr %o{w}"
        for w in range(2 * entries)
    ]
    move = [
        f"  %m{e} = getelementptr i64, ptr %moves, i64 {e}\n  %d{e} = load i64, ptr %m{e}\n"
        f"  %b{e} = load i64, ptr %a{e}\n  %n{e} = add i64 %b{e}, %d{e}\n  store i64 %n{e}, ptr %a{e}"
        for e in range(entries)
    ]
    lines = "\n".join
    return f"""
define i64 @march(i64 %first, i64 %last, i64 %steps, ptr %table, ptr %moves) nounwind {{
entry:
  %step = inttoptr i64 {step_address} to ptr
  %own = alloca [{2 * entries} x i64], align 16
{lines(pointers)}
  br label %block
block:
  %i = phi i64 [ %first, %entry ], [ %end, %done ]
  %status = phi i64 [ 0, %entry ], [ %new_status, %done ]
  %next = add i64 %i, {block}
  %end = call i64 @llvm.smin.i64(i64 %next, i64 %last)
{lines(copy)}
  br label %time
time:
  %k = phi i64 [ 0, %block ], [ %k_next, %time ]
  %so_far = phi i64 [ %status, %block ], [ %new_status, %time ]
  %report = call i64 %step(i64 %i, i64 %end, ptr %own)
  %new_status = or i64 %so_far, %report
{lines(move)}
  %k_next = add i64 %k, 1
  %more = icmp slt i64 %k_next, %steps
  br i1 %more, label %time, label %done
done:
  %again = icmp slt i64 %end, %last
  br i1 %again, label %block, label %finish
finish:
  ret i64 %new_status
}}
declare i64 @llvm.smin.i64(i64, i64)
"""
