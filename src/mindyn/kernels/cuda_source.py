"""Programs -> one CUDA file: kernels `NAME_f32`, `NAME_f64` and, under nvcc, launchers `NAME_f32_launch`,
`NAME_f64_launch`.

One thread per sample; a warp moves the rows of its 32 samples between memory and registers together, through a tile of
shared memory, so that every access is coalesced whatever the number of columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mindyn.escaping import c_comment
from mindyn.kernels.counts import operation_counts
from mindyn.kernels.device import THREADS
from mindyn.kernels.ordering import Compute, Sines, Store, ordered_steps
from mindyn.kernels.program import Op, Program
from mindyn.kernels.source_text import Described, expression, identifiers, literal, shape_text

_TILE_COLUMNS = 32
_WARPS = THREADS // 32
_WHOLE_ROWS = 94
"""Columns of an output up to which whole rows are written: pieces of rows would begin and end amid memory sectors."""
_FULL_TILE = 47
"""Columns of 32 rows of float64 that four warps have room for in 48 KB of shared memory; of more, 16 rows at a time."""

_PREAMBLE = """\
#ifndef NAN
#define NAN (__longlong_as_double(0x7ff8000000000000LL))
#define INFINITY (__longlong_as_double(0x7ff0000000000000LL))
#endif

namespace {

const int WARPS = %(warps)d; /* per block */

__device__ __forceinline__ void sine_cosine(float x, float *s, float *c) { sincosf(x, s, c); }
__device__ __forceinline__ void sine_cosine(double x, double *s, double *c) { sincos(x, s, c); }

/* Where number `at` (row by row) of 32 rows of C numbers stands in a tile. Rows of 4, 8, ... numbers are padded: a
   column of them would fall into few memory banks; other lengths cost two accesses at most, less than the index. */
template <int C>
__device__ __forceinline__ int place(int at)
{
  return C %% 4 ? at : at / C * (C + 1) + at %% C;
}

/* Columns first .. first + C - 1 of 32 rows of N numbers, in the order in which the warp reads them. */
template <typename Real, int C, int N>
__device__ __forceinline__ void fetch(Real (&piece)[C], const Real *rows, int first, long long base, long long count)
{
  const int lane = threadIdx.x %% 32;
  const int last = (int)min(count - base, 32LL) - 1;
  const Real *start = rows + base * N + first;
  if (C == N && last == 31) {
#pragma unroll
    for (int k = 0; k < C; ++k) piece[k] = start[k * 32 + lane];
  } else {
#pragma unroll
    for (int k = 0; k < C; ++k) piece[k] = start[min((k * 32 + lane) / C, last) * N + (k * 32 + lane) %% C];
  }
}

/* From reading order to one row per lane. */
template <typename Real, int C>
__device__ __forceinline__ void spread(Real (&piece)[C], Real *tile)
{
  const int lane = threadIdx.x %% 32;
  __syncwarp();
#pragma unroll
  for (int k = 0; k < C; ++k) tile[place<C>(k * 32 + lane)] = piece[k];
  __syncwarp();
#pragma unroll
  for (int k = 0; k < C; ++k) piece[k] = tile[place<C>(lane * C + k)];
}

/* One row per lane to columns first .. first + C - 1 of 32 rows of N numbers. */
template <typename Real, int C, int N>
__device__ __forceinline__ void put(const Real (&piece)[C], Real *tile, Real *rows, int first, long long base,
                                    long long count)
{
  const int lane = threadIdx.x %% 32;
  const int last = (int)min(count - base, 32LL) - 1;
  Real *start = rows + base * N + first;
  __syncwarp();
#pragma unroll
  for (int k = 0; k < C; ++k) tile[place<C>(lane * C + k)] = piece[k];
  __syncwarp();
  if (C == N && last == 31) {
#pragma unroll
    for (int k = 0; k < C; ++k) start[k * 32 + lane] = tile[place<C>(k * 32 + lane)];
  } else {
#pragma unroll
    for (int k = 0; k < C; ++k) {
      const int row = (k * 32 + lane) / C;
      if (row <= last) start[row * N + (k * 32 + lane) %% C] = tile[place<C>(k * 32 + lane)];
    }
  }
}

/* One row of C numbers per lane to 32 rows that follow each other, R of them at a time. */
template <typename Real, int C, int R>
__device__ __forceinline__ void put_rows(const Real (&piece)[C], Real *tile, Real *rows, long long base,
                                         long long count)
{
  const int lane = threadIdx.x %% 32;
  const int numbers = (int)min(count - base, 32LL) * C;
  Real *start = rows + base * C;
#pragma unroll
  for (int first = 0; first < 32; first += R) {
    __syncwarp();
    if (R == 32 || lane / R == first / R) {
#pragma unroll
      for (int k = 0; k < C; ++k) tile[place<C>(lane %% R * C + k)] = piece[k];
    }
    __syncwarp();
#pragma unroll
    for (int at = lane; at < R * C; at += 32)
      if (first * C + at < numbers) start[first * C + at] = tile[place<C>(at)];
  }
}

}  // namespace
"""


def cuda_source(functions: Sequence[Described], title: str, shared: Sequence[str] = ()) -> str:
    """The file; inputs named in `shared` are one sample for the whole batch."""
    names = identifiers([one.name for one in functions])
    pieces = [_heading(title), _PREAMBLE % {"warps": _WARPS}]
    pieces += [_Writer(one, name, frozenset(shared)).text() for one, name in zip(functions, names, strict=True)]
    return "\n".join(pieces)


def _heading(title: str) -> str:
    return (
        f"/* {c_comment(title)}\n"
        " * Generated by mindyn. Arrays are row-major, one row per sample, on the device.\n"
        " * nvcc: call NAME_f32_launch or NAME_f64_launch. CuPy:\n"
        " *   run = cupy.RawModule(code=open(path).read()).get_function('NAME_f32')\n"
        f" *   grid = ((count + {THREADS - 1}) // {THREADS},)\n"
        f" *   run(grid, ({THREADS},), (inputs..., outputs..., numpy.int64(count))) */"
    )


def _pieces(size: int) -> list[tuple[int, int]]:
    """(first column, number of columns) of the pieces that pass through the tile at once."""
    return [(first, min(_TILE_COLUMNS, size - first)) for first in range(0, size, _TILE_COLUMNS)]


def _stored(size: int) -> list[tuple[int, int]]:
    """(first column, number of columns) of the pieces of an output's rows."""
    return [(0, size)] if size <= _WHOLE_ROWS else _pieces(size)


def _rows_at_once(columns: int) -> int:
    """Rows of whole-row outputs that pass through the tile together."""
    return 32 if columns <= _TILE_COLUMNS or columns + (columns % 4 == 0) <= _FULL_TILE else 16


def _tile_numbers(columns: int) -> int:
    return _rows_at_once(columns) * (columns + (columns % 4 == 0))


class _Writer:
    """Text of one function."""

    def __init__(self, function: Described, name: str, shared: frozenset[str]) -> None:
        self._function, self._name = function, name
        self._program: Program = function.program
        self._arguments = identifiers([one.name for one in self._program.arguments])
        self._inputs = self._arguments[: len(self._program.inputs)]
        self._outputs = self._arguments[len(self._program.inputs) :]
        self._shared = {k for k, one in enumerate(self._program.inputs) if one.name in shared}

    def text(self) -> str:
        return "\n".join([self._description(), self._template(), *(self._kernel(t) for t in ("float", "double"))])

    def _description(self) -> str:
        lines = [f"/* {c_comment(self._function.summary)}", " *"]
        for number, (name, one) in enumerate(zip(self._arguments, self._program.arguments, strict=True)):
            meaning = c_comment(self._function.meanings.get(one.name, ""))
            each = (
                f"{shape_text(one.shape)}; one for all"
                if number in self._shared
                else f"count x {shape_text(one.shape)}"
            )
            lines.append(f" *   {name} [{each}] {meaning}".rstrip())
        lines += [" *", f" * Cost per sample: {operation_counts(self._program)}. */"]
        return "\n".join(lines)

    def _parameters(self, real: str) -> str:
        inputs = [f"const {real} *__restrict__ {name}" for name in self._inputs]
        outputs = [f"{real} *__restrict__ {name}" for name in self._outputs]
        return ", ".join([*inputs, *outputs, "long long count"])

    def _template(self) -> str:
        lines = [*self._loads(), *self._steps()]
        sizes = [c for one in self._program.inputs for _, c in _pieces(one.size)]
        sizes += [c for one in self._program.outputs for _, c in _stored(one.size)]
        numbers = max((_tile_numbers(size) for size in sizes), default=1)
        return "\n".join(
            [
                "template <typename Real>",
                f"__device__ __forceinline__ void {self._name}_warp({self._parameters('Real')})",
                "{",
                f"  __shared__ Real tiles[WARPS][{numbers}];",
                "  Real *tile = tiles[threadIdx.x / 32];",
                "  const long long base = ((long long)blockIdx.x * WARPS + threadIdx.x / 32) * 32;",
                "  if (base >= count) return;",
                *lines,
                "}",
            ]
        )

    def _kernel(self, real: str) -> str:
        suffix = "f32" if real == "float" else "f64"
        passed = ", ".join([*self._arguments, "count"])
        threads = THREADS
        return (
            f'extern "C" __global__ void __launch_bounds__({threads}) {self._name}_{suffix}({self._parameters(real)})\n'
            f"{{\n  {self._name}_warp<{real}>({passed});\n}}\n"
            "#ifndef __CUDACC_RTC__\n"
            f'extern "C" int {self._name}_{suffix}_launch({self._parameters(real)}, cudaStream_t stream)\n'
            f"{{\n  if (count <= 0) return 0;\n"
            f"  const unsigned blocks = (unsigned)((count + {threads - 1}) / {threads});\n"
            f"  {self._name}_{suffix}<<<blocks, {threads}, 0, stream>>>({passed});\n"
            f"  return (int)cudaGetLastError();\n}}\n#endif\n"
        )

    def _loads(self) -> Iterator[str]:
        """All reads from memory first, so that they overlap; then the shuffles through the tile."""
        read = {one.source for one in self._program.instructions if one.op is Op.INPUT}
        spreads = []
        for number, (name, one) in enumerate(zip(self._inputs, self._program.inputs, strict=True)):
            for first, size in _pieces(one.size):
                used = any((number, element) in read for element in range(first, first + size))
                if number in self._shared or not used:
                    continue
                piece = f"in{number}_{first}"
                yield f"  Real {piece}[{size}];"
                yield f"  fetch<Real, {size}, {one.size}>({piece}, {name}, {first}, base, count);"
                spreads.append(f"  spread<Real, {size}>({piece}, tile);")
        yield from spreads

    def _steps(self) -> Iterator[str]:
        instructions = self._program.instructions
        for step in ordered_steps(self._program, [False] * len(instructions), self._stores()):
            match step:
                case Compute(value):
                    one = instructions[value]
                    operands = [self._operand(v) for v in one.operands]
                    yield f"  const Real v{value} = {expression(one.op, operands, 'Real(0)', 'Real(1)')};"
                case Sines(pairs):
                    for pair in pairs:
                        angle = self._operand(instructions[pair].operands[0])
                        yield f"  Real s{pair}, c{pair};\n  sine_cosine({angle}, &s{pair}, &c{pair});"
                case Store():
                    yield from self._put(step)

    def _stores(self) -> Iterator[Store]:
        for number, one in enumerate(self._program.outputs):
            values = dict(zip(one.nonzeros, one.values, strict=True))
            for first, size in _stored(one.size):
                yield Store(number, first, tuple(values.get(element) for element in range(first, first + size)))

    def _put(self, store: Store) -> Iterator[str]:
        size, columns = len(store.values), self._program.outputs[store.output].size
        texts = ["Real(0)" if v is None else self._operand(v) for v in store.values]
        piece = f"out{store.output}_{store.first}"
        yield f"  const Real {piece}[{size}] = {{{', '.join(texts)}}};"
        target = self._outputs[store.output]
        if _TILE_COLUMNS < size == columns:
            yield f"  put_rows<Real, {size}, {_rows_at_once(size)}>({piece}, tile, {target}, base, count);"
            return
        yield f"  put<Real, {size}, {columns}>({piece}, tile, {target}, {store.first}, base, count);"

    def _element(self, number: int, element: int) -> str:
        if number in self._shared:
            return f"{self._inputs[number]}[{element}]"
        first = element - element % _TILE_COLUMNS
        return f"in{number}_{first}[{element - first}]"

    def _operand(self, value: int) -> str:
        one = self._program.instructions[value]
        match one.op:
            case Op.CONST:
                return f"Real({literal(one.constant)})"
            case Op.INPUT:
                return self._element(*one.source)
            case Op.SIN | Op.COS:
                return f"{one.op.value[0]}{one.operands[0]}"
            case _:
                return f"v{value}"
