"""Check the exported CUDA file on one GPU, and compare its memory traffic with the copy bandwidth of the device.

`python -m benchmarks.gpu.kernels FOLDER [--record]`, with the files that `prepare.py` wrote; needs only CuPy.
`--blocks` tries several numbers of resident blocks for forward dynamics.
"""

from __future__ import annotations

from pathlib import Path

import cupy
import numpy as np

from benchmarks.sections import Section, arguments, publish, spaced

SAMPLES = 1 << 25
INPUTS = {
    "inverse_dynamics": ("q", "qd", "qdd"),
    "inertia_matrix": ("q",),
    "forward_dynamics": ("q", "qd", "tau"),
    "regressor": ("q", "qd", "qdd"),
}
REQUIRED = {
    ("f32", "inverse_dynamics"): 0.8,
    ("f64", "inverse_dynamics"): 0.6,
    ("f32", "inertia_matrix"): 0.8,
    ("f32", "forward_dynamics"): 0.8,
}
THREADS = 128


def measure_seconds(run, repetitions: int = 20) -> float:
    """Return the best time of one launch, by CUDA events."""
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


def measure_copy_bandwidth() -> float:
    """Return the bytes read and written per second by a copy on the device."""
    source = cupy.ones(1 << 29, dtype=cupy.float64)
    target = cupy.empty_like(source)
    return 2 * source.nbytes / measure_seconds(lambda: cupy.copyto(target, source))


def measure_errors(module, data) -> dict[str, float]:
    """Return the largest error of every exported function, relative to the largest number of the CPU."""
    worst = {}
    for name, inputs in INPUTS.items():
        for suffix, dtype, tolerance in (("f64", np.float64, 1e-12), ("f32", np.float32, 1e-4)):
            expected = data[f"out_{name}"]
            arrays = [cupy.asarray(data[k], dtype=dtype) for k in inputs]
            out = cupy.full(expected.shape, np.nan, dtype=dtype)
            launch(module.get_function(f"{name}_{suffix}"), [*arrays, out], len(expected))()
            error = np.abs(out.get() - expected).max() / np.abs(expected).max()
            scale = 1e3 if name == "forward_dynamics" else 1.0  # times the condition number of M
            assert error < tolerance * scale, f"{name}_{suffix}: relative error {error:.1e}"
            worst[f"{name}_{suffix}"] = float(error)
    return worst


def measure(module, peak: float, worst: dict[str, float]) -> list[tuple[str, ...]]:
    """Return the rows of the table: samples and bytes per second of a batch larger than all caches."""
    lines = [
        ("function", "numbers", "per second", "memory traffic", "relative to copy", "required", "error against the CPU")
    ]
    for name, inputs in INPUTS.items():
        count = SAMPLES if name != "regressor" else SAMPLES // 8
        width = {"inverse_dynamics": 6, "inertia_matrix": 36, "forward_dynamics": 6, "regressor": 216}[name]
        for suffix, dtype in (("f32", cupy.float32), ("f64", cupy.float64)):
            cupy.get_default_memory_pool().free_all_blocks()
            arrays = [cupy.random.uniform(-2, 2, (count, 6)).astype(dtype) for _ in inputs]
            out = cupy.empty((count, width), dtype)
            time = measure_seconds(launch(module.get_function(f"{name}_{suffix}"), [*arrays, out], count))
            moved = sum(a.nbytes for a in arrays) + out.nbytes
            required = f">= {REQUIRED[suffix, name]:.0%}" if (suffix, name) in REQUIRED else ""
            speeds = (f"{count / time / 1e9:.1f}e9", f"{moved / time / 1e12:.2f} TB/s", f"{moved / time / peak:.0%}")
            error = f"{worst[f'{name}_{suffix}']:.0e}"
            lines.append((name.replace("_", " "), f"float{suffix[1:]}", *speeds, required, error))
    return lines


def try_block_counts(source: str, peak: float) -> None:
    """Print the speed of forward dynamics relative to the copy, for several numbers of resident blocks."""
    plain = f"__launch_bounds__({THREADS})"
    assert plain in source
    for suffix, dtype in (("f32", cupy.float32), ("f64", cupy.float64)):
        cupy.get_default_memory_pool().free_all_blocks()
        arrays = [cupy.random.uniform(-2, 2, (SAMPLES, 6)).astype(dtype) for _ in range(3)]
        out = cupy.empty_like(arrays[0])
        for blocks in (1, 3, 4, 5, 6, 7, 8, 10, 12):
            code = source.replace(plain, f"__launch_bounds__({THREADS}, {blocks})")
            kernel = cupy.RawModule(code=code, options=("-std=c++17",)).get_function(f"forward_dynamics_{suffix}")
            share = 4 * out.nbytes / measure_seconds(launch(kernel, [*arrays, out], SAMPLES), 8) / peak
            about = f"{kernel.num_regs} registers, {kernel.local_size_bytes} B spilled"
            print(f"forward dynamics {suffix}, {blocks:2} blocks: {share:.1%} of the copy, {about}")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--blocks", action="store_true", help="try several numbers of resident blocks instead")
    options = parser.parse_args()
    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    if options.blocks:
        try_block_counts((options.folder / "forward_dynamics.cu").read_text(), measure_copy_bandwidth())
        return
    code, data = (options.folder / "puma560.cu").read_text(), np.load(options.folder / "puma560.npz")
    module = cupy.RawModule(code=code, options=("-std=c++17",))
    worst, peak = measure_errors(module, data), measure_copy_bandwidth()
    lines = measure(module, peak, worst)
    publish(
        Section(
            "gpu",
            "One GPU",
            "python -m benchmarks.gpu.prepare FOLDER` and `python -m benchmarks.gpu.kernels FOLDER",
            f"{device}, CuPy {cupy.__version__}",
            [
                f"The exported CUDA file of the PUMA 560 on {spaced(SAMPLES)} samples (base regressor: "
                f"{spaced(SAMPLES // 8)}). A copy on the device moves {peak / 1e12:.2f} TB/s. "
                "Errors are relative to the largest number.",
            ],
            lines,
        ),
        record=options.record,
    )


if __name__ == "__main__":
    main()
