"""R factors of logged rows on a GPU: rows by the CUDA kernel of the regressor, Gram matrices, then small factors.

The module needs only NumPy and CuPy: `device_job` writes this file, the kernel and the shapes to a folder, and a GPU
machine runs it there (`python device.py FOLDER SAMPLES.npz FACTORS.npz`).

The rows of joint i are A = [Y_i | tau_i] (N, k). A^T A squares the condition number, and some columns are dependent in
every row, so there is no Cholesky factor. Therefore a sample of all rows is factored first, and
T = V diag(1 / max(s, FLOOR s_1)) follows from its singular values s: the columns of A T are nearly orthonormal or zero,
and G = T^T A^T A T is as accurate as a QR of A. R is the triangle of sqrt(L) U^T T^-1, with G = U L U^T. Chunks whose
rows are far larger than the sample (diagonal of G above REACH) get a QR of their own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

CHUNK_ROWS: Final = 1 << 20
"""Rows on the device at once: for a 6-joint arm 0.2 GB of samples and 1.5 GB of columns, twice."""
SCALING_ROWS: Final = 1 << 13
"""Number of rows that determine the scale of the columns."""
SCALING_WINDOWS: Final = 8
"""Number of windows whose filtered rows determine the scale of the columns."""
FLOOR: Final = 1e-10
"""Smallest singular value relative to the largest; directions below it are not excited by any row."""
REACH: Final = 1e6
"""Mean square of scaled columns above which a chunk differs much from the rows that gave its scale."""
SLICES: Final = 256
"""Parts of a chunk whose Gram matrices are computed in parallel."""
THREADS: Final = 128
"""Threads in a block of the kernel."""

Arrays = Sequence[Any]
RowsOf = Callable[..., list[Any]]
"""(q, qd, qdd, tau, ...) on the device -> for each joint its rows [Y_i | tau_i] (N, k_i), contiguous."""
Smooth = Callable[[list[Any], Any], None]
"""Filters the rows (N, k_i) of every joint in place, each window [first, last) of an array (W, 2) by itself.
"""


class Window(NamedTuple):
    """Samples `first` to `last` - 1, which are filtered together, and the rows to keep."""

    first: int
    last: int
    kept_rows: range


def gather_on_device(
    xp: Any,
    rows_of: RowsOf,
    samples: Arrays,
    chunk_rows: int = CHUNK_ROWS,
    *,
    windows: Sequence[Window] | None = None,
    smooth: Smooth | None = None,
    usable: Any = None,
    spread_rows: int = SCALING_ROWS,
) -> list[Any]:
    """Return the R factor (k_i, k_i) of all rows for each joint, as NumPy arrays.

    xp       CuPy; NumPy computes the same on the host
    samples  q, qd, qdd, tau, and further inputs of the rows, each (N, .), in host memory (pinned memory is transferred
             at the speed of the bus) or on the device
    windows  in the order of the samples, with at least one row to keep; None: all rows
    smooth   filters the rows of a window; None: no filter
    usable   (N, n) booleans: other rows of a joint are excluded
    """
    count = len(samples[0])
    if windows is None:
        ends = [(start, min(start + chunk_rows, count)) for start in range(0, count, chunk_rows)]
        windows = [Window(start, stop, range(start, stop)) for start, stop in ends]
    job = _Job(xp, rows_of, smooth, [*samples, *([] if usable is None else [usable])], usable is not None)
    scalings = [_scaling(A) for A in job.spread(windows, spread_rows)]
    forward = [xp.asarray(T) for T, _ in scalings]
    chunks = list(_chunks(windows, chunk_rows))
    grams = [
        [_gram(xp, A, T) for A, T in zip(job.rows(chunk, arrays), forward, strict=True)]
        for chunk, arrays in zip(chunks, job.moved([_span(chunk) for chunk in chunks]), strict=True)
    ]
    host = [[_numpy(factor) for factor in joint] for joint in zip(*grams, strict=True)]
    return [_factor(job, joint, host[joint], scaling, chunks) for joint, scaling in enumerate(scalings)]


def _chunks(windows: Sequence[Window], chunk_rows: int) -> Iterator[list[Window]]:
    """Yield windows that are on the device together."""
    chunk: list[Window] = []
    for window in windows:
        if chunk and window.last - chunk[0].first > chunk_rows:
            yield chunk
            chunk = []
        chunk.append(window)
    if chunk:
        yield chunk


def _span(chunk: Sequence[Window]) -> tuple[int, int]:
    return chunk[0].first, max(window.last for window in chunk)


class _Job:
    """Converts windows of samples to rows on the device; if `masked`, the last array marks usable rows."""

    def __init__(self, xp: Any, rows_of: RowsOf, smooth: Smooth | None, arrays: Arrays, masked: bool) -> None:
        self.xp, self._rows_of, self._smooth, self._arrays, self._masked = xp, rows_of, smooth, arrays, masked

    def rows(self, chunk: Sequence[Window], arrays: Arrays) -> list[Any]:
        """Return the kept rows of a chunk, whose arrays begin with its first sample."""
        start, kept = chunk[0].first, [window.kept_rows for window in chunk]
        if self._smooth is None:
            return self._made(self._taken(arrays, kept, start))
        whole = [range(window.first, window.last) for window in chunk]
        values = self._unmasked(self._taken(arrays, whole, start))
        ends = np.cumsum([0, *map(len, whole)])
        self._smooth(values, np.stack([ends[:-1], ends[1:]], axis=1).astype(np.int64))
        shifts = [int(end) - window.first for end, window in zip(ends[:-1], chunk, strict=True)]
        moved = [range(span.start + by, span.stop + by, span.step) for span, by in zip(kept, shifts, strict=True)]
        mask = self._taken(arrays[-1:], kept, start)[0] if self._masked else None
        return self._with_mask(self._taken(values, moved, 0), mask)

    def spread(self, windows: Sequence[Window], count: int) -> list[Any]:
        """Return about `count` rows of every joint, spread over all rows."""
        if self._smooth is None:
            kept = [window.kept_rows for window in windows]
            total = sum(map(len, kept))
            places = np.unique(np.linspace(0, total - 1, min(total, count)).astype(np.int64))
            numbers = _numbers(np, kept, places)
            chosen = [a[numbers if isinstance(a, np.ndarray) else self.xp.asarray(numbers)] for a in self._arrays]
            return [_numpy(A) for A in self._made([self.xp.asarray(np.ascontiguousarray(_numpy(x))) for x in chosen])]
        taken = np.unique(np.linspace(0, len(windows) - 1, min(len(windows), SCALING_WINDOWS)).astype(int))
        pieces = []
        for window in (windows[k] for k in taken):
            A = self.rows([window], next(self.moved([window[:2]])))
            every = ceil(len(A[0]) * len(taken) / count)
            pieces.append([_numpy(columns[::every]) for columns in A])
        return [np.concatenate(parts) for parts in zip(*pieces, strict=True)]

    def moved(self, places: Sequence[tuple[int, int]]) -> Iterator[list[Any]]:
        """Return the samples at these places, on the device."""
        return _copy_to_device(self.xp, self._arrays, places)

    def _made(self, arrays: Arrays) -> list[Any]:
        return self._with_mask(self._unmasked(arrays), arrays[-1] if self._masked else None)

    def _unmasked(self, arrays: Arrays) -> list[Any]:
        return self._rows_of(*(arrays[:-1] if self._masked else arrays))

    def _with_mask(self, rows: list[Any], mask: Any) -> list[Any]:
        return rows if mask is None else [A * mask[:, k : k + 1] for k, A in enumerate(rows)]

    def _taken(self, arrays: Arrays, numbers: Sequence[range], start: int) -> list[Any]:
        """Return rows of arrays that begin with row `start`, without a copy if they are consecutive."""
        if all(number.step == 1 for number in numbers) and all(a.stop == b.start for a, b in pairwise(numbers)):
            return [array[numbers[0].start - start : numbers[-1].stop - start] for array in arrays]
        wanted = _numbers(self.xp, numbers, self.xp.arange(sum(map(len, numbers)))) - start
        return [array[wanted] for array in arrays]


def _numbers(xp: Any, ranges: Sequence[range], places: Any) -> Any:
    """Return the entries of the concatenated ranges at these places, computed on the device."""
    ends = np.cumsum([0, *map(len, ranges)])
    first, step = (np.array([getattr(interval, name) for interval in ranges]) for name in ("start", "step"))
    table = xp.asarray(np.stack([ends[:-1], first, step]))
    begins, first, step = table[:, xp.searchsorted(table[0], places, side="right") - 1]
    return first + (places - begins) * step


def _scaling(A: Any) -> tuple[Any, Any]:
    """Return T (k, k) and its inverse, from rows spread over all samples."""
    R: Any = np.linalg.qr(A, mode="r")
    shown = np.flatnonzero(np.abs(R).max(axis=0, initial=0.0) > 0)
    T, back = np.eye(A.shape[1]), np.eye(A.shape[1])
    if len(shown):
        _, s, Vt = np.linalg.svd(R[:, shown], full_matrices=True)
        s = np.concatenate([s, np.zeros(len(Vt) - len(s))])[: len(Vt)]
        s = np.maximum(s, FLOOR * s[0]) / np.sqrt(len(A))
        T[np.ix_(shown, shown)], back[np.ix_(shown, shown)] = Vt.T / s, s[:, None] * Vt
    return T, back


def _copy_to_device(xp: Any, samples: Arrays, places: Sequence[tuple[int, int]]) -> Iterator[list[Any]]:
    """Yield chunks on the device; the next chunk of host memory is transferred during the computation."""
    if xp is np or not isinstance(samples[0], np.ndarray):
        for start, stop in places:
            yield [sample[start:stop] for sample in samples]
        return
    rows = max(stop - start for start, stop in places)
    buffers = [[xp.empty((rows, sample.shape[1]), sample.dtype) for sample in samples] for _ in range(2)]
    mover, worker = xp.cuda.Stream(non_blocking=True), xp.cuda.get_current_stream()
    arrived, freed = [xp.cuda.Event(disable_timing=True) for _ in range(2)], [None, None]
    mover.wait_event(worker.record())  # the buffers' memory may have been another's until now

    def move(k: int) -> None:
        start, stop = places[k]
        if freed[k % 2] is not None:
            mover.wait_event(freed[k % 2])
        for source, buffer in zip(samples, buffers[k % 2], strict=True):
            buffer[: stop - start].set(np.ascontiguousarray(source[start:stop]), stream=mover)
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
    """Return T^T A^T A T (k, k)."""
    if xp is np:
        B = A @ T
        return B.T @ B
    count, k = A.shape
    inner = count // SLICES
    B = xp.empty_like(A)
    whole = xp.zeros((SLICES + 1, k, k))
    blas, handle = xp.cuda.cublas, xp.cuda.device.get_cublas_handle()
    scales = np.array([1.0, 0.0])
    a, b, c = scales.ctypes.data, scales[1:].ctypes.data, B.data.ptr
    plain, turned = blas.CUBLAS_OP_N, blas.CUBLAS_OP_T
    blas.setPointerMode(handle, blas.CUBLAS_POINTER_MODE_HOST)
    # Row-major (N, k) is column-major (k, N): B^T = T^T A^T, then sums of B^T B over slices of rows.
    blas.dgemm(handle, plain, plain, k, count, k, a, T.data.ptr, k, A.data.ptr, k, b, c, k)
    if inner:
        step = inner * k
        blas.dgemmStridedBatched(
            handle, plain, turned, k, k, inner, a, c, k, step, c, k, step, b, whole.data.ptr, k, k * k, SLICES
        )
    rest, at, last = count - inner * SLICES, c + inner * SLICES * k * 8, whole.data.ptr + SLICES * k * k * 8
    if rest:
        blas.dgemm(handle, plain, turned, k, k, rest, a, at, k, at, k, b, last, k)
    return whole.sum(axis=0)


def _factor(
    job: _Job, joint: int, grams: Sequence[Any], scaling: tuple[Any, Any], chunks: Sequence[Sequence[Window]]
) -> Any:
    """Return R of all chunks; chunks with much larger rows than the scaled ones get a QR of their own."""
    _, back = scaling
    total, kept = np.zeros_like(grams[0]), []
    for G, chunk in zip(grams, chunks, strict=True):
        count = sum(len(window.kept_rows) for window in chunk)
        if np.isfinite(G).all() and np.diag(G).max(initial=0.0) <= REACH * count:
            total += G
        else:
            A = job.rows(chunk, next(job.moved([_span(chunk)])))[joint]
            kept.append(_numpy(job.xp.linalg.qr(A, mode="r")))
    L, U = np.linalg.eigh((total + total.T) / 2)
    scaled = np.sqrt(np.maximum(L, 0.0))[:, None] * U.T
    stacked = np.vstack([scaled @ back, *kept])
    R = np.zeros_like(total)
    triangle = np.linalg.qr(stacked, mode="r")
    R[: len(triangle)] = triangle
    squares: Any = np.diag(total) + sum((block**2).sum(axis=0) for block in kept)
    R[:, squares == 0] = 0.0  # nothing but zeros stood there: no rounding in their place
    return R


def _numpy(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else np.asarray(array)


def kernel_rows(cupy: Any, source: str, widths: Sequence[int]) -> RowsOf:
    """Return the function that computes rows by the CUDA kernel `rows_f64`, with one output for each joint."""
    kernel = cupy.RawModule(code=source).get_function("rows_f64")

    def rows_of(*samples: Any) -> list[Any]:
        count = len(samples[0])
        outputs = [cupy.empty((count, width)) for width in widths]
        kernel(((count + THREADS - 1) // THREADS,), (THREADS,), (*samples, *outputs, np.int64(count)))
        return outputs

    return rows_of


_SMOOTH: Final = """
/* A Butterworth filter forward and backward, in place; one thread takes a column down a window and up again. All joints
   at once, blockIdx.y: columns of one are too few to keep the device busy. */
struct Joint { double *rows, *room; long long width; };
const int SECTIONS = %d, AHEAD = 16;
struct Sections {
  double b0[SECTIONS], b1[SECTIONS], b2[SECTIONS], a1[SECTIONS], a2[SECTIONS], s0[SECTIONS], s1[SECTIONS];
  double z0[SECTIONS], z1[SECTIONS];
  __device__ __forceinline__ void rest(double x)
  {
    for (int k = 0; k < SECTIONS; ++k) { z0[k] = s0[k] * x; z1[k] = s1[k] * x; }
  }
  __device__ __forceinline__ double operator()(double x)
  {
    for (int k = 0; k < SECTIONS; ++k) {
      const double y = b0[k] * x + z0[k];
      z0[k] = b1[k] * x - a1[k] * y + z1[k];
      z1[k] = b2[k] * x - a2[k] * y;
      x = y;
    }
    return x;
  }
};
/* `count` numbers `step` apart; several are read before the first is needed. */
__device__ __forceinline__ void along(Sections &filter, double *at, long long count, long long step)
{
  long long n = 0;
  for (; n + AHEAD <= count; n += AHEAD, at += AHEAD * step) {
    double x[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) x[k] = at[k * step];
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) at[k * step] = filter(x[k]);
  }
  for (; n < count; ++n, at += step) *at = filter(*at);
}
extern "C" __global__ void smooth_f64(const Joint *joints, const long long *windows, const double *table,
                                      long long count, long long extension)
{
  double *rows = joints[blockIdx.y].rows, *room = joints[blockIdx.y].room;
  const long long width = joints[blockIdx.y].width;
  const long long number = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (number >= count * width) return;
  const long long window = number / width, column = number %% width;
  const long long length = windows[2 * window + 1] - windows[2 * window];
  if (length < 2) return;
  const long long beyond = extension < length - 1 ? extension : length - 1;
  double *x = rows + windows[2 * window] * width + column, *last = x + (length - 1) * width;
  double *after = room + window * extension * width + column;
  Sections filter;
  for (int k = 0; k < SECTIONS; ++k) {
    const double *own = table + 7 * k;
    filter.b0[k] = own[0]; filter.b1[k] = own[1]; filter.b2[k] = own[2]; filter.a1[k] = own[3]; filter.a2[k] = own[4];
    filter.s0[k] = own[5]; filter.s1[k] = own[6];
  }
  for (long long k = 0; k < beyond; ++k) after[k * width] = 2 * *last - *(last - (k + 1) * width);
  const double first = *x;
  filter.rest(2 * first - x[beyond * width]);
  for (long long k = beyond; k > 0; --k) filter(2 * first - x[k * width]);
  along(filter, x, length, width);
  along(filter, after, beyond, width);
  filter.rest(after[(beyond - 1) * width]);
  along(filter, after + (beyond - 1) * width, beyond, -width);
  along(filter, last, length, -width);
}
"""


def smoothing_source(sections: int) -> str:
    """Return the CUDA source of the kernel smooth_f64 for filters with this number of second-order sections."""
    return _SMOOTH % sections


def smoothing_table(sections: Any, settled: Any) -> Any:
    """Return (s, 7) for each section: b0 b1 b2 a1 a2, and the two states that rest at an input of 1."""
    return np.ascontiguousarray(np.hstack([np.asarray(sections)[:, [0, 1, 2, 4, 5]], settled]), dtype=np.float64)


def kernel_smooth(cupy: Any, table: Any, extension: int) -> Smooth:
    """Return the zero-phase filter of a table by the CUDA kernel; ends are mirrored over `extension` rows."""
    kernel = cupy.RawModule(code=smoothing_source(len(table))).get_function("smooth_f64")
    there = cupy.asarray(table)

    def smooth(rows: list[Any], windows: Any) -> None:
        ends, count = cupy.asarray(windows), len(windows)
        rooms = [cupy.empty((count, extension, A.shape[1])) for A in rows]
        joints = [(A.data.ptr, room.data.ptr, A.shape[1]) for A, room in zip(rows, rooms, strict=True)]
        blocks = ceil(count * max(A.shape[1] for A in rows) / THREADS)
        given = cupy.asarray(np.array(joints, np.int64)), ends, there, np.int64(count), np.int64(extension)
        kernel((blocks, len(rows)), (THREADS,), given)

    return smooth


def run_job(folder: Path, samples: Arrays, chunk_rows: int = CHUNK_ROWS) -> list[Any]:
    """Return the R factors of samples with the kernel that `device_job` wrote to the folder."""
    import cupy

    widths = json.loads((folder / "rows.json").read_text())["widths"]
    rows_of = kernel_rows(cupy, (folder / "rows.cu").read_text(), widths)
    return gather_on_device(cupy, rows_of, samples, chunk_rows)


def main(folder: str, samples: str, factors: str) -> None:
    """Run `python device.py FOLDER SAMPLES.npz FACTORS.npz`: from q, qd, qdd, tau to R0, R1, ... and the row count."""
    with np.load(samples) as given:
        arrays = [np.ascontiguousarray(given[name], dtype=np.float64) for name in ("q", "qd", "qdd", "tau")]
    results = run_job(Path(folder), arrays)
    np.savez(factors, rows=len(arrays[0]), **{f"R{k}": R for k, R in enumerate(results)})


if __name__ == "__main__":
    main(*sys.argv[1:])
