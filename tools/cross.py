"""Compile kernels for other machines, and run those for aarch64 with qemu-user.

Undefined symbols of an object must be symbols that the system provides. Results of aarch64 are compared with those of
this machine, relative to the largest number of each result.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from llvmlite import binding

import mindyn
from mindyn.kernels.array_layout import Layout
from mindyn.kernels.kernel import Kernel
from mindyn.kernels.llvm import emit
from mindyn.kernels.numerics import native
from mindyn.kernels.numerics.machine import Machine
from mindyn.kernels.vector_code import Format

NEON = Machine("aarch64-unknown-linux-gnu", "cortex-a72", "", 128)
MACHINES = {
    "Linux x86-64 with AVX-512": Machine("x86_64-unknown-linux-gnu", "skylake-avx512", "", 512),
    "Linux x86-64 with AVX2": Machine("x86_64-unknown-linux-gnu", "haswell", "", 256),
    "Linux x86-64 without FMA": Machine("x86_64-unknown-linux-gnu", "x86-64", "", 128, fused=False),
    "Linux aarch64": NEON,
    "macOS arm64": Machine("arm64-apple-macosx12.0.0", "apple-m1", "", 128),
    "macOS x86-64": Machine("x86_64-apple-macosx12.0.0", "haswell", "", 256),
    "Windows x86-64": Machine("x86_64-pc-windows-msvc-elf", "haswell", "", 256),
}
SYSTEM_SYMBOLS = {
    "fma",
    "fmaf",
    "_fma",
    "_fmaf",
    "__chkstk",
    "memcpy",
    "memset",
    "_memcpy",
    "_memset",
    "bzero",
    "_bzero",
}
"""Symbols that every process has. `__chkstk` of ntdll touches the pages of a large stack frame in order."""
EQUATIONS = ("inverse_dynamics", "inertia_matrix", "forward_dynamics", "regressor", "coriolis")
LARGEST_DIFFERENCE = 1e-14
SAMPLES = 37

DRIVER = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
int64_t kernel(int64_t first, int64_t last, int64_t *table);
int main(int count, char **text)
{
    int inputs = atoi(text[1]), arrays = count - 3, samples = atoi(text[2]);
    int64_t *table = malloc(16 * arrays);
    double *last = 0;
    long size = 0;
    for (int k = 0; k < arrays; k++) {
        size = atol(text[3 + k]);
        last = aligned_alloc(64, ((8 * size * samples + 63) / 64) * 64);
        if (k < inputs && fread(last, 8, size * samples, stdin) != (size_t)(size * samples)) return 2;
        table[2 * k] = (int64_t)(intptr_t)last;
        table[2 * k + 1] = 8 * size;
    }
    int64_t status = kernel(0, samples, table);
    fwrite(last, 8, size * samples, stdout);
    return status != 0;
}
"""


def compile_for(kernel: Kernel, machine: Machine) -> bytes:
    """Compile a kernel to an object for a machine."""
    layout = Layout(Format(64, machine.lanes(64), machine.fused), (), (), True)
    return native.assemble_code(emit(kernel.program, layout), machine)


def find_undefined_symbols(code: bytes) -> set[str]:
    """Return the undefined symbols of an object (ELF or Mach-O)."""
    tool = next(filter(None, map(shutil.which, ("llvm-nm", "llvm-nm-14", "nm"))), None)
    if tool is None:
        return set()
    with tempfile.NamedTemporaryFile(suffix=".o") as file:
        file.write(code)
        file.flush()
        listed = subprocess.run([tool, "-u", file.name], capture_output=True, text=True, check=False)
    if listed.returncode:  # a format that this nm does not know
        return {name for name in ("_fltused", "__chkstk", "fma") if name.encode() + b"\0" in code}
    return {line.split()[-1] for line in listed.stdout.splitlines() if line.split()}


def run_in_emulator(kernel: Kernel, inputs: list[np.ndarray], folder: Path) -> np.ndarray:
    """Run the aarch64 code with qemu-user; return its results."""
    (folder / "kernel.o").write_bytes(compile_for(kernel, NEON))
    (folder / "driver.c").write_text(DRIVER)
    program = folder / "program"
    command = ["aarch64-linux-gnu-gcc", "-static", "-O1", "driver.c", "kernel.o", "-lm", "-o", program]
    subprocess.run(command, cwd=folder, check=True)
    sizes = [item.size for item in (*kernel.program.inputs, *kernel.program.outputs)]
    given = b"".join(np.ascontiguousarray(array).tobytes() for array in inputs)
    call = ["qemu-aarch64", program, str(len(inputs)), str(SAMPLES), *map(str, sizes)]
    done = subprocess.run(call, input=given, capture_output=True, check=True)
    return np.frombuffer(done.stdout).reshape(SAMPLES, *kernel.output_shapes[0])


def main() -> int:
    """Compile for all machines, run aarch64; return 1 if something is wrong."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    rng, good = np.random.default_rng(0), True
    kernels = {
        f"{robot} {name}": mindyn.compile_model(mindyn.load_robot(robot)).kernel(name)
        for robot in ("puma560", "panda", "stanford")
        for name in EQUATIONS
    }
    for title, machine in MACHINES.items():
        needed = {name for kernel in kernels.values() for name in find_undefined_symbols(compile_for(kernel, machine))}
        unknown = needed - SYSTEM_SYMBOLS
        good &= not unknown
        print(f"{title:28s} {len(kernels)} kernels compiled; from the system: {', '.join(sorted(needed)) or 'nothing'}"
              + (f"; UNKNOWN: {', '.join(sorted(unknown))}" if unknown else ""), flush=True)  # fmt: skip
    if not (shutil.which("qemu-aarch64") and shutil.which("aarch64-linux-gnu-gcc")):
        print("nothing was run: qemu-aarch64 or aarch64-linux-gnu-gcc is missing (qemu-user, gcc-aarch64-linux-gnu)")
        return 1
    worst = 0.0
    for title, kernel in kernels.items():
        inputs = [rng.uniform(-3, 3, (SAMPLES, *shape)) for shape in kernel.input_shapes]
        inputs[0][0] *= 1e5  # large angles use the slow path of sine and cosine
        with tempfile.TemporaryDirectory() as folder:
            there = run_in_emulator(kernel, inputs, Path(folder))
        here = kernel(*inputs)
        difference = float(np.abs(there - here).max() / np.abs(here).max())
        worst = max(worst, difference)
        if not difference <= LARGEST_DIFFERENCE:
            print(f"aarch64 {title}: differs by {difference:.1e}")
            good = False
    print(f"aarch64 code of {len(kernels)} kernels, run by qemu-user, agrees with this machine's to {worst:.1e}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
