"""The CPU that kernels are compiled for: its name, features, and the number of samples per register."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from llvmlite import binding


@dataclass(frozen=True, slots=True)
class Machine:
    """A target for LLVM.

    `register_bits` is the width of its widest useful vector register; `fused` says whether it has fused multiply-add
    (x86 CPUs before 2013, and small ones since, do not).
    """

    triple: str
    cpu: str
    features: str
    register_bits: int
    fused: bool = True

    def lanes(self, bits: int) -> int:
        """Return the number of `bits`-bit numbers per register."""
        return self.register_bits // bits


@cache
def host() -> Machine:
    """Return the CPU that this process runs on."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    features = binding.get_host_cpu_features()
    register_bits = 512 if _has_avx512(features) else 256 if features.get("avx2") else 128
    triple, cpu = _object_triple(binding.get_process_triple()), binding.get_host_cpu_name()
    return Machine(triple, cpu, features.flatten(), register_bits, features.get("fma", True))


def _object_triple(triple: str) -> str:
    """Return the triple for ELF objects: on Windows, its own format requires `_fltused` of the C runtime."""
    return f"{triple}-elf" if "windows" in triple and not triple.endswith("-elf") else triple


def _has_avx512(features: dict[str, bool]) -> bool:
    return all(features.get(name) for name in ("avx512f", "avx512dq", "avx512vl", "avx512bw"))
