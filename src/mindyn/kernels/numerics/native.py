"""Compile LLVM IR to object code, and load the object code into this process as callable machine code.

`host` describes the CPU that kernels are compiled for: its name, its features, and the number of samples per register.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from mindyn.foundation.compute_once import compute_once

if TYPE_CHECKING:
    from llvmlite import binding


@dataclass(frozen=True, slots=True)
class Machine:
    """A CPU for which LLVM compiles.

    `register_bits` is the width of its widest useful vector register. `fused` says whether the CPU has fused
    multiply-add (x86 CPUs before 2013, and small x86 CPUs since then, do not have it).
    """

    triple: str
    cpu: str
    features: str
    register_bits: int
    fused: bool = True

    def lanes(self, bits: int) -> int:
        """Return the number of `bits`-bit numbers per register."""
        return self.register_bits // bits


@compute_once
def host() -> Machine:
    """Return the CPU that this process runs on."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    features = binding.get_host_cpu_features()
    register_bits = 512 if _has_avx512(features) else 256 if features.get("avx2") else 128
    triple, cpu = _object_triple(binding.get_process_triple()), binding.get_host_cpu_name()
    return Machine(triple, cpu, features.flatten(), register_bits, features.get("fma", True))


def _object_triple(triple: str) -> str:
    """Return the target triple for ELF objects.

    On Windows, objects in its own format need `_fltused` from the C runtime.
    """
    return f"{triple}-elf" if "windows" in triple and not triple.endswith("-elf") else triple


def _has_avx512(features: dict[str, bool]) -> bool:
    return all(features.get(name) for name in ("avx512f", "avx512dq", "avx512vl", "avx512bw"))


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
