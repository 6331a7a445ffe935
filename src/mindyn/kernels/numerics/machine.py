"""The CPU that kernels are compiled for: its name, its features, and the number of samples per register."""

from __future__ import annotations

from dataclasses import dataclass

from mindyn.foundation.compute_once import compute_once


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


def _has_avx512(features: dict[str, bool]) -> bool:
    return all(features.get(name) for name in ("avx512f", "avx512dq", "avx512vl", "avx512bw"))


def _object_triple(triple: str) -> str:
    """Return the target triple for ELF objects.

    On Windows, objects in its own format need `_fltused` from the C runtime.
    """
    return f"{triple}-elf" if "windows" in triple and not triple.endswith("-elf") else triple
