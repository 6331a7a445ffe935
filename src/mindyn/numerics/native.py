"""LLVM IR -> object code -> callable machine code in this process."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from functools import lru_cache

from llvmlite import binding

from mindyn.numerics.machine import Machine, host

_OPTIMIZATION_LEVEL = 2
"""Of the code generator. The IR arrives without common subexpressions or dead code, so no IR pass is run: on a 6R
arm, the O1 to O3 pipelines add 30 ms of compile time and change the run time by less than 1 %.
"""
_LONG_CODE_OPTIMIZATION_LEVEL = 1
_LONG_CODE_CHARACTERS = 2**20
"""Characters of IR above which code is generated on a lower level, in half to two thirds of the time: of arms of 30 to
60 joints it is as long and as fast.
"""

_LIBRARIES_PER_LINKER = 32
"""Libraries of one linker: of each it keeps 9 kB after its code has gone, until it goes itself with the last."""
_library_numbers = itertools.count()
_links = itertools.count()
_link_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class NativeCode:
    """A function in memory; the code lives as long as this object."""

    address: int
    _owner: tuple[binding.ResourceTracker, binding.LLJIT]


def assemble(ir: str, machine: Machine | None = None) -> bytes:
    """Object code of an IR module, for this CPU unless another is given."""
    target = machine or host()
    # A context of its own: constants and types in the global one would stay for ever, tens of kilobytes a kernel.
    module = binding.parse_assembly(ir, context=binding.create_context())
    module.triple = target.triple
    module.verify()
    level = _LONG_CODE_OPTIMIZATION_LEVEL if len(ir) > _LONG_CODE_CHARACTERS else _OPTIMIZATION_LEVEL
    code: bytes = _target_machine(target, level).emit_object(module)
    return code


def load(code: bytes, symbol: str) -> NativeCode:
    """Links object code into this process and finds `symbol` in it."""
    library = f"mindyn{next(_library_numbers)}"
    builder = binding.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(symbol)
    with _link_lock:
        linker = _linker(next(_links) // _LIBRARIES_PER_LINKER)
        tracker = builder.link(linker, library)
    return NativeCode(tracker[symbol], (tracker, linker))


def thunk(kernel: NativeCode, table_address: int) -> NativeCode:
    """A function of no arguments: `kernel` for one sample of the arrays in the table at this address."""
    ir = f"""
define i64 @thunk() nounwind {{
  %kernel = inttoptr i64 {kernel.address} to ptr
  %table = inttoptr i64 {table_address} to ptr
  %status = tail call i64 %kernel(i64 0, i64 1, ptr %table)
  ret i64 %status
}}
"""
    return load(assemble(ir), "thunk")


def _target_machine(machine: Machine, level: int = _OPTIMIZATION_LEVEL) -> binding.TargetMachine:
    # Position-independent small-model code reads its constants in one instruction; the default JIT model needs two.
    target = binding.Target.from_triple(machine.triple)
    return target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=level, reloc="pic", codemodel="small"
    )


@lru_cache(maxsize=1)
def _linker(number: int) -> binding.LLJIT:  # noqa: ARG001 - a new one for every number
    # JITLink lays a library out in one piece. The older linker maps its sections one by one, and where another mapping
    # lies between them code can be further than 2 GB from its constants, which ends the process.
    return binding.create_lljit_compiler(_target_machine(host()), use_jit_link=True)
