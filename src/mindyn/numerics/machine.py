"""The CPU that kernels are compiled for: its name, features, and how many samples one register holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from llvmlite import binding


@dataclass(frozen=True, slots=True)
class Machine:
    """A target for LLVM; `register_bits` is the width of its widest useful vector register, `fused` whether it has
    fused multiply-add (x86 before 2013 and small ones since have not).
    """

    triple: str
    cpu: str
    features: str
    register_bits: int
    fused: bool = True

    def lanes(self, bits: int) -> int:
        """Samples of `bits`-bit numbers per register."""
        return self.register_bits // bits


@cache
def host() -> Machine:
    """The CPU this process runs on."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    features = binding.get_host_cpu_features()
    register_bits = 512 if _has_avx512(features) else 256 if features.get("avx2") else 128
    triple, cpu = _object_triple(binding.get_process_triple()), binding.get_host_cpu_name()
    return Machine(triple, cpu, features.flatten(), register_bits, features.get("fma", True))


def _object_triple(triple: str) -> str:
    """Windows' own object format wants the C runtime's `_fltused` where numbers are used; ELF objects link as well."""
    return f"{triple}-elf" if "windows" in triple and not triple.endswith("-elf") else triple


def _has_avx512(features: dict[str, bool]) -> bool:
    return all(features.get(name) for name in ("avx512f", "avx512dq", "avx512vl", "avx512bw"))
