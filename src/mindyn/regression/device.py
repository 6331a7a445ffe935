"""R factors of logged rows on a GPU: rows from the regressor's CUDA kernel, Gram matrices, small factors back.

Needs NumPy and CuPy alone, nothing of mindyn: `device_job` puts this file, the kernel and their shapes into a folder
that a GPU machine runs by itself (`python device.py FOLDER SAMPLES.npz FACTORS.npz`).

For joint i the rows are A = [Y_i | tau_i] (N, k). A^T A squares the condition number, and some columns depend on each
other in every row, so that no Cholesky factor exists. Therefore rows spread over all samples are factored first,
T = V diag(1 / max(s, FLOOR s_1)) of their singular values: the columns of A T are near orthonormal or vanish, and
G = T^T A^T A T loses nothing that a QR of A would keep. R is the triangle of sqrt(L) U^T T^-1, G = U L U^T. Blocks with
rows far outside of what was spread over (diagonal of G beyond REACH) are factored by a QR of their own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

CHUNK_ROWS: Final = 1 << 20
"""Rows on the device at once: of a 6-joint arm 0.2 GB of samples and 1.5 GB of columns, twice."""
SPREAD_ROWS: Final = 1 << 15
"""Rows that the columns are scaled by."""
FLOOR: Final = 1e-10
"""Singular values below this part of the largest count as this part: directions that no row shows."""
REACH: Final = 1e6
"""Of the mean square of scaled columns: beyond it a block is far from the rows that it was scaled by."""
SLICES: Final = 256
"""Parts of a chunk whose Gram matrices are formed side by side."""
THREADS: Final = 128
"""Threads of a block of the kernel."""

Arrays = Sequence[Any]
RowsOf = Callable[..., list[Any]]
"""(q, qd, qdd, tau) on the device -> for each joint its rows [Y_i | tau_i] (N, k_i), contiguous."""


def gather_on_device(xp: Any, rows_of: RowsOf, samples: Arrays, chunk_rows: int = CHUNK_ROWS) -> list[Any]:
    """For each joint the R factor (k_i, k_i) of all rows, as NumPy arrays.

    xp       CuPy; NumPy computes the same on the host
    samples  q, qd, qdd, tau, each (N, n): of the host (pinned memory moves at the speed of the bus) or of the device
    """
    count = len(samples[0])
    scalings = _scalings(xp, rows_of, samples)
    forward = [xp.asarray(T) for T, _ in scalings]
    grams: list[list[Any]] = []
    places = [(start, min(start + chunk_rows, count)) for start in range(0, count, chunk_rows)]
    for chunk in _moved(xp, samples, places):
        grams.append([_gram(xp, A, T) for A, T in zip(rows_of(*chunk), forward, strict=True)])
    host = [[_numpy(one) for one in joint] for joint in zip(*grams, strict=True)]
    return [
        _factor(xp, rows_of, samples, joint, host[joint], scaling, places) for joint, scaling in enumerate(scalings)
    ]


def _scalings(xp: Any, rows_of: RowsOf, samples: Arrays) -> list[tuple[Any, Any]]:
    """T (k, k) and its inverse for each joint, from rows spread over all samples."""
    count = len(samples[0])
    taken = np.unique(np.linspace(0, count - 1, min(count, SPREAD_ROWS)).astype(np.int64))
    spread = rows_of(*(xp.asarray(np.ascontiguousarray(_numpy(one[_as(one, xp, taken)]))) for one in samples))
    found = []
    for A in spread:
        R: Any = np.linalg.qr(_numpy(A), mode="r")
        shown = np.flatnonzero(np.abs(R).max(axis=0) > 0)
        T, back = np.eye(R.shape[1]), np.eye(R.shape[1])
        if len(shown):
            _, s, Vt = np.linalg.svd(R[:, shown], full_matrices=True)
            s = np.concatenate([s, np.zeros(len(Vt) - len(s))])[: len(Vt)]
            s = np.maximum(s, FLOOR * s[0]) / np.sqrt(len(taken))
            T[np.ix_(shown, shown)], back[np.ix_(shown, shown)] = Vt.T / s, s[:, None] * Vt
        found.append((T, back))
    return found


def _moved(xp: Any, samples: Arrays, places: Sequence[tuple[int, int]]) -> Iterator[list[Any]]:
    """Chunks on the device; of host memory the next one is under way while one is worked on."""
    if xp is np or not isinstance(samples[0], np.ndarray):
        for start, stop in places:
            yield [one[start:stop] for one in samples]
        return
    rows = max(stop - start for start, stop in places)
    buffers = [[xp.empty((rows, one.shape[1]), one.dtype) for one in samples] for _ in range(2)]
    mover, worker = xp.cuda.Stream(non_blocking=True), xp.cuda.get_current_stream()
    arrived, freed = [xp.cuda.Event(disable_timing=True) for _ in range(2)], [None, None]

    def move(k: int) -> None:
        start, stop = places[k]
        if freed[k % 2] is not None:
            mover.wait_event(freed[k % 2])
        for one, buffer in zip(samples, buffers[k % 2], strict=True):
            buffer[: stop - start].set(np.ascontiguousarray(one[start:stop]), stream=mover)
        arrived[k % 2].record(mover)

    move(0)
    for k, (start, stop) in enumerate(places):
        if k + 1 < len(places):
            move(k + 1)
        worker.wait_event(arrived[k % 2])
        yield [buffer[: stop - start] for buffer in buffers[k % 2]]
        event = xp.cuda.Event(disable_timing=True)
        event.record(worker)
        freed[k % 2] = event
    mover.synchronize()


def _gram(xp: Any, A: Any, T: Any) -> Any:
    """T^T A^T A T (k, k)."""
    if xp is np:
        B = A @ T
        return B.T @ B
    count, k = A.shape
    inner = count // SLICES
    B = xp.empty_like(A)
    whole = xp.empty((SLICES + 1, k, k))
    blas, handle = xp.cuda.cublas, xp.cuda.device.get_cublas_handle()
    one, zero = np.ones(1), np.zeros(1)
    a, b, c = one.ctypes.data, zero.ctypes.data, B.data.ptr
    plain, turned = blas.CUBLAS_OP_N, blas.CUBLAS_OP_T
    blas.setPointerMode(handle, blas.CUBLAS_POINTER_MODE_HOST)
    # Row-major (N, k) is column-major (k, N): B^T = T^T A^T, then sums of B^T B over slices of rows.
    blas.dgemm(handle, plain, plain, k, count, k, a, T.data.ptr, k, A.data.ptr, k, b, c, k)
    if inner:
        step = inner * k
        blas.dgemmStridedBatched(
            handle, plain, turned, k, k, inner, a, c, k, step, c, k, step, b, whole.data.ptr, k, k * k, SLICES
        )
    else:
        whole[:SLICES] = 0
    rest, at, last = count - inner * SLICES, c + inner * SLICES * k * 8, whole.data.ptr + SLICES * k * k * 8
    if rest:
        blas.dgemm(handle, plain, turned, k, k, rest, a, at, k, at, k, b, last, k)
    else:
        whole[SLICES] = 0
    return whole.sum(axis=0)


def _factor(
    xp: Any,
    rows_of: RowsOf,
    samples: Arrays,
    joint: int,
    grams: Sequence[Any],
    scaling: tuple[Any, Any],
    places: Sequence[tuple[int, int]],
) -> Any:
    """R of all chunks; of those far from what was scaled by, by a QR of their own rows."""
    _, back = scaling
    total, own = np.zeros_like(grams[0]), []
    for G, (start, stop) in zip(grams, places, strict=True):
        if np.isfinite(G).all() and np.diag(G).max(initial=0.0) <= REACH * (stop - start):
            total += G
        else:
            A = rows_of(*(xp.asarray(one[start:stop]) for one in samples))[joint]
            own.append(_numpy(xp.linalg.qr(A, mode="r")))
    L, U = np.linalg.eigh((total + total.T) / 2)
    scaled = np.sqrt(np.maximum(L, 0.0))[:, None] * U.T
    stacked = np.vstack([scaled @ back, *own])
    R = np.zeros_like(total)
    found = np.linalg.qr(stacked, mode="r")
    R[: len(found)] = found
    squares: Any = np.diag(total) + sum((one**2).sum(axis=0) for one in own)
    R[:, squares == 0] = 0.0  # nothing but zeros stood there: no rounding in their place
    return R


def _numpy(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else np.asarray(array)


def _as(array: Any, xp: Any, taken: Any) -> Any:
    return taken if isinstance(array, np.ndarray) else xp.asarray(taken)


def kernel_rows(cupy: Any, source: str, widths: Sequence[int]) -> RowsOf:
    """The rows by the CUDA kernel `rows_f64` of the source, one output for each joint."""
    kernel = cupy.RawModule(code=source).get_function("rows_f64")

    def rows_of(*samples: Any) -> list[Any]:
        count = len(samples[0])
        outputs = [cupy.empty((count, width)) for width in widths]
        kernel(((count + THREADS - 1) // THREADS,), (THREADS,), (*samples, *outputs, np.int64(count)))
        return outputs

    return rows_of


def run_job(folder: Path, samples: Arrays, chunk_rows: int = CHUNK_ROWS) -> list[Any]:
    """The R factors of samples with the kernel that `device_job` wrote into the folder."""
    import cupy

    widths = json.loads((folder / "rows.json").read_text())["widths"]
    rows_of = kernel_rows(cupy, (folder / "rows.cu").read_text(), widths)
    return gather_on_device(cupy, rows_of, samples, chunk_rows)


def main(folder: str, samples: str, factors: str) -> None:
    """`python device.py FOLDER SAMPLES.npz FACTORS.npz`: from q, qd, qdd, tau to R0, R1, ... and the number of rows."""
    with np.load(samples) as given:
        arrays = [np.ascontiguousarray(given[name], dtype=np.float64) for name in ("q", "qd", "qdd", "tau")]
    found = run_job(Path(folder), arrays)
    np.savez(factors, rows=len(arrays[0]), **{f"R{k}": R for k, R in enumerate(found)})


if __name__ == "__main__":
    main(*sys.argv[1:])
