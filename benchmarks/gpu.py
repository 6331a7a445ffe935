"""The exported CUDA file on one GPU: correct, and how near to the device's own copy bandwidth.

`python benchmarks/gpu.py FOLDER`, with the files that `gpu_prepare.py` wrote; needs CuPy alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

import cupy
import numpy as np

SAMPLES = 1 << 25
INPUTS = {
    "inverse_dynamics": ("q", "qd", "qdd"),
    "inertia_matrix": ("q",),
    "forward_dynamics": ("q", "qd", "tau"),
    "regressor": ("q", "qd", "qdd"),
}
ASKED = {"f32": 0.8, "f64": 0.6}
THREADS = 128


def seconds(run, repetitions: int = 20) -> float:
    """Best time of one launch, by CUDA events."""
    best = float("inf")
    for _ in range(repetitions):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        run()
        end.record()
        end.synchronize()
        best = min(best, cupy.cuda.get_elapsed_time(start, end) / 1e3)
    return best


def launch(kernel, arrays, count):
    return lambda: kernel(((count + THREADS - 1) // THREADS,), (THREADS,), (*arrays, np.int64(count)))


def copy_bandwidth() -> float:
    """Bytes read and written per second of a copy on the device."""
    source = cupy.ones(1 << 29, dtype=cupy.float64)
    target = cupy.empty_like(source)
    return 2 * source.nbytes / seconds(lambda: cupy.copyto(target, source))


def check(module, data) -> None:
    """Every exported function equals the CPU's numbers."""
    for name, inputs in INPUTS.items():
        for suffix, dtype, tolerance in (("f64", np.float64, 1e-12), ("f32", np.float32, 1e-4)):
            expected = data[f"out_{name}"]
            arrays = [cupy.asarray(data[k], dtype=dtype) for k in inputs]
            out = cupy.full(expected.shape, np.nan, dtype=dtype)
            launch(module.get_function(f"{name}_{suffix}"), [*arrays, out], len(expected))()
            error = np.abs(out.get() - expected).max() / np.abs(expected).max()
            scale = 1e3 if name == "forward_dynamics" else 1.0  # times the condition number of M
            print(f"{name}_{suffix}: relative error {error:.1e}")
            assert error < tolerance * scale, name


def measure(module, peak: float) -> None:
    """Samples and bytes per second at a batch that no cache holds."""
    for name, inputs in INPUTS.items():
        count = SAMPLES if name != "regressor" else SAMPLES // 8
        width = {"inverse_dynamics": 6, "inertia_matrix": 36, "forward_dynamics": 6, "regressor": 216}[name]
        for suffix, dtype in (("f32", cupy.float32), ("f64", cupy.float64)):
            cupy.get_default_memory_pool().free_all_blocks()
            arrays = [cupy.random.uniform(-2, 2, (count, 6)).astype(dtype) for _ in inputs]
            out = cupy.empty((count, width), dtype)
            time = seconds(launch(module.get_function(f"{name}_{suffix}"), [*arrays, out], count))
            moved = sum(a.nbytes for a in arrays) + out.nbytes
            share = moved / time / peak
            asked = f"(asked >= {ASKED[suffix]:.0%})" if name == "inverse_dynamics" else ""
            rate = count / time / 1e9
            print(f"{name}_{suffix}: {rate:.2f}e9 per s, {moved / time / 1e12:.2f} TB/s, {share:.0%} of copy {asked}")


def main(folder: Path) -> None:
    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    module = cupy.RawModule(code=(folder / "puma560.cu").read_text(), options=("-std=c++17",))
    data = np.load(folder / "puma560.npz")
    check(module, data)
    peak = copy_bandwidth()
    print(f"{device}: copy {peak / 1e12:.2f} TB/s")
    measure(module, peak)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
