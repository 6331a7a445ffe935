"""Rows of a log to R factors on one GPU: the CPU's answer, and 1e8 rows at the speed of the bus.

`python -m benchmarks.gpu.identification FOLDER [--rows 1e8] [--record]`, with the files that `prepare.py` wrote;
needs NumPy and CuPy alone.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import cupy
import numpy as np

from benchmarks.sections import Section, arguments, publish, spaced


def solved(factors, columns, count):
    """Least squares by the singular values of the column-scaled stack of R factors."""
    blocks = []
    for R, column in zip(factors, columns, strict=True):
        block = np.zeros((len(R), count + 1))
        block[:, [*column, -1]] = R
        blocks.append(block)
    whole = np.vstack(blocks)
    scales = np.linalg.norm(whole[:, :-1], axis=0)
    U, s, Vt = np.linalg.svd(whole[:, :-1] / scales, full_matrices=False)
    kept = s > 1e-9 * s[0]
    return (Vt[kept].T / s[kept] @ (U[:, kept].T @ whole[:, -1])) / scales


def pinned(shape):
    memory = cupy.cuda.alloc_pinned_memory(int(np.prod(shape)) * 8)
    return np.frombuffer(memory, np.float64, int(np.prod(shape))).reshape(shape)


def made(rows_of, columns, beta, noise, rows, chunk):
    """q, qd, qdd, tau of random motions in pinned memory of the host."""
    host = [pinned((rows, 6)) for _ in range(4)]
    rng = cupy.random.default_rng(11)
    for start in range(0, rows, chunk):
        count = min(chunk, rows - start)
        motion = [rng.random((count, 6)) * 4 - 2 for _ in range(3)]
        blocks = rows_of(*motion, cupy.zeros((count, 6)))
        tau = cupy.stack(
            [A[:, :-1] @ cupy.asarray(beta[column]) for A, column in zip(blocks, columns, strict=True)], axis=1
        )
        tau += noise * rng.standard_normal((count, 6))
        for item, part in zip(host, (*motion, tau), strict=True):
            part.get(out=item[start : start + count])
    return host


def filtered_check(folder: Path, device) -> str:
    """Rows filtered, decimated and masked on the device, friction with a memory and a load: beside the CPU's fit."""
    data = np.load(folder / "filtered.npz")
    columns = [data[f"columns{k}"] for k in range(6)]
    rows_of = device.kernel_rows(cupy, (folder / "filtered.cu").read_text(), [len(column) + 1 for column in columns])
    smooth = device.kernel_smooth(cupy, data["table"], int(data["mirrored"]))
    windows = [device.Window(first, last, range(*kept)) for first, last, *kept in data["windows"].tolist()]
    arrays = [np.ascontiguousarray(data[name]) for name in ("q", "qd", "qdd", "tau", "s")]
    given = {"windows": windows, "smooth": smooth, "usable": np.ascontiguousarray(data["usable"])}
    worst = []
    for chunk in (4096, device.CHUNK_ROWS):  # many pieces, and one
        factors = device.gather_on_device(cupy, rows_of, arrays, chunk, **given)
        result = solved(factors, columns, len(data["found"]))
        predicted = data["rows"] @ result
        error = np.abs(predicted - data["predicted"]).max() / np.abs(data["predicted"]).max()
        moved = (np.abs(result - data["found"]) / data["deviations"]).max()
        assert error < 1e-9, f"filtered: predictions differ from the CPU's by {error:.1e}"
        assert moved < 1e-6, f"filtered: values differ from the CPU's by {moved:.1e} of their deviation"
        worst.append((error, moved))
    return f"predictions by {max(worst)[0]:.0e}, values by {max(item for _, item in worst):.0e}"


def filtered_seconds(folder: Path, device, rows_of, host, rows: int) -> float:
    """The same rows behind a low pass and decimated, from pinned memory to R factors."""
    data = np.load(folder / "filtered.npz")
    reach, step, size = int(data["reach"]), int(data["windows"][0, 4]), max(1 << 14, 2 * int(data["reach"]))
    smooth = device.kernel_smooth(cupy, data["table"], int(data["mirrored"]))
    windows = [
        device.Window(max(0, k - reach), min(rows, k + size + reach), range(k, min(k + size, rows), step))
        for k in range(0, rows, size)
    ]
    run = lambda: device.gather_on_device(cupy, rows_of, host, windows=windows, smooth=smooth)  # noqa: E731
    return seconds(run, 2)[0]


def seconds(run, repetitions=3):
    best = float("inf")
    for _ in range(repetitions):
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        process = run()
        best = min(best, time.perf_counter() - start)
    return best, process


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=float, default=1e8)
    options = parser.parse_args()
    job = options.folder / "rows"
    sys.path.insert(0, str(job))
    import device

    data = np.load(options.folder / "rows.npz")
    columns = [data[f"columns{k}"] for k in range(6)]
    source, widths = (job / "rows.cu").read_text(), [len(column) + 1 for column in columns]
    rows_of = device.kernel_rows(cupy, source, widths)
    small = [np.ascontiguousarray(data[name]) for name in ("q", "qd", "qdd", "tau")]
    result = solved(device.run_job(job, small), columns, len(data["beta"]))
    blocks = [block.get() for block in rows_of(*map(cupy.asarray, small))]
    predicted = np.stack([A[:, :-1] @ result[column] for A, column in zip(blocks, columns, strict=True)], axis=1)
    error = np.abs(predicted - data["predicted"]).max() / np.abs(data["predicted"]).max()
    moved = (np.abs(result - data["found"]) / data["deviations"]).max()
    print(f"beside the CPU: predictions {error:.1e} of the largest, values {moved:.1e} of their deviation")
    assert error < 1e-9, "predictions differ from the CPU's"
    assert moved < 1e-6, "values differ from the CPU's"
    filtered = filtered_check(options.folder, device)
    print(f"filtered, decimated, masked, stop operator and load: {filtered}")
    rows = int(options.rows)
    host = made(rows_of, columns, data["beta"], float(data["noise"]), rows, device.CHUNK_ROWS)
    size = sum(item.nbytes for item in host)
    buffer = cupy.empty(min(rows * 6, 1 << 27))
    bus, _ = seconds(lambda: (buffer.set(host[0].ravel()[: len(buffer)]), cupy.cuda.Device().synchronize()))
    bus = size / (buffer.nbytes / bus)
    streamed, factors = seconds(lambda: device.gather_on_device(cupy, rows_of, host))
    values = solved(factors, columns, len(data["beta"]))
    off = np.abs(values - data["beta"]) / (data["deviations"] * np.sqrt(len(small[0]) / rows))
    smoothed = filtered_seconds(options.folder, device, rows_of, host, rows)
    resident = [cupy.asarray(item) for item in host]
    kept, _ = seconds(lambda: device.gather_on_device(cupy, rows_of, resident))
    kernel, _ = seconds(lambda: [rows_of(*(item[:1048576] for item in resident)), cupy.cuda.Device().synchronize()])
    print(f"rows kernel alone: {kernel / 1048576 * 1e9:.2f} ns a row; values {off.max():.1f} deviations from the true")
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    publish(
        Section(
            "gpu_identification",
            "Identification on one GPU",
            "python -m benchmarks.gpu.prepare FOLDER` and `python -m benchmarks.gpu.identification FOLDER",
            f"{name}, CuPy {cupy.__version__}",
            [
                f"{spaced(rows)} rows of a PUMA 560 with estimated drives ({len(data['beta'])} parameters), float64, "
                f"to R factors; {size / 1e9:.1f} GB of q, qd, qdd, tau. On {spaced(len(small[0]))} rows, compared "
                f"with the QR of the CPU, predictions differ by {error:.0e} of the largest, values by {moved:.0e} of "
                "their deviation; for filtered, decimated and masked rows, with friction that has a memory and "
                f"depends on the load: {filtered}."
            ],
            [
                ("rows from", "seconds", "of the bus alone", "asked"),
                ("the bus alone (copy)", f"{bus:.2f}", "1.00", ""),
                ("pinned memory of the host", f"{streamed:.2f}", f"{streamed / bus:.2f}", "<= 2"),
                ("the same, low-passed on the device", f"{smoothed:.2f}", f"{smoothed / bus:.2f}", ""),
                ("memory of the device", f"{kept:.2f}", f"{kept / bus:.2f}", ""),
            ],
        ),
        record=options.record,
    )


if __name__ == "__main__":
    main()
