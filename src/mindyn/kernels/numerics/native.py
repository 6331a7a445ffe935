"""Compile LLVM IR to object code, and load the object code into this process as callable machine code."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from mindyn.kernels.numerics.machine import Machine, host

if TYPE_CHECKING:
    from llvmlite import binding


_OPTIMIZATION_LEVEL = 2
"""Level of the code generator. The IR has no common subexpressions or dead code, so no IR pass is run: on a 6R arm, the
O1 to O3 pipelines add 30 ms of compile time and change the run time by less than 1 %.
"""
_LONG_CODE_OPTIMIZATION_LEVEL = 1
_LONG_CODE_CHARACTERS = 2**20
"""Above this many characters of IR the code generator uses the lower level, which takes half to two thirds of the time:
for arms of 30 to 60 joints the code is as long and as fast.
"""

_LIBRARIES_PER_LINKER = 32
"""A linker keeps 9 kB per library after the code was freed, until the linker itself is freed with its last library."""
_library_numbers = itertools.count()
_links = itertools.count()
_link_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class NativeCode:
    """A function in memory. The machine code exists as long as this object."""

    address: int
    _owner: tuple[binding.ResourceTracker, binding.LLJIT]


def assemble_code(ir: str, machine: Machine | None = None) -> bytes:
    """Return the object code of an IR module, for this CPU unless another is given."""
    from llvmlite import binding

    target = machine or host()
    # Use a separate context: the global one would keep constants and types forever, tens of kilobytes per kernel.
    module = binding.parse_assembly(ir, context=binding.create_context())
    module.triple = target.triple
    module.verify()
    level = _LONG_CODE_OPTIMIZATION_LEVEL if len(ir) > _LONG_CODE_CHARACTERS else _OPTIMIZATION_LEVEL
    code: bytes = _target_machine(target, level).emit_object(module)
    return code


def load(code: bytes, symbol: str) -> NativeCode:
    """Link object code into this process and find `symbol` in it."""
    from llvmlite import binding

    library = f"mindyn{next(_library_numbers)}"
    builder = binding.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(symbol)
    with _link_lock:
        linker = _linker(next(_links) // _LIBRARIES_PER_LINKER)
        tracker = builder.link(linker, library)
    return NativeCode(tracker[symbol], (tracker, linker))


def thunk(kernel: NativeCode, table_address: int) -> NativeCode:
    """Return a function without arguments that runs `kernel` for one sample of the arrays in this table."""
    ir = f"""
define i64 @thunk() nounwind {{
  %kernel = inttoptr i64 {kernel.address} to ptr
  %table = inttoptr i64 {table_address} to ptr
  %status = tail call i64 %kernel(i64 0, i64 1, ptr %table)
  ret i64 %status
}}
"""
    return load(assemble_code(ir), "thunk")


def _target_machine(machine: Machine, level: int = _OPTIMIZATION_LEVEL) -> binding.TargetMachine:
    # Position-independent small-model code reads its constants in one instruction; the default JIT model needs two.
    from llvmlite import binding

    target = binding.Target.from_triple(machine.triple)
    return target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=level, reloc="pic", codemodel="small"
    )


@lru_cache(maxsize=1)
def _linker(number: int) -> binding.LLJIT:  # noqa: ARG001 - a new one for every number
    # JITLink lays a library out in one piece. The older linker maps its sections one by one; if another mapping lies
    # between them, code can be more than 2 GB from its constants, which crashes the process.
    from llvmlite import binding

    return binding.create_lljit_compiler(_target_machine(host()), use_jit_link=True)
