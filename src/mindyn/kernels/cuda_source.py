"""Write programs as a CUDA file.

The file has kernels `NAME_f32` and `NAME_f64` and, under nvcc, launchers `NAME_f32_launch` and `NAME_f64_launch`. Each
thread computes one sample, and reads the rows that it needs directly from memory, two numbers at a time if rows are
even and aligned. Reading through shared memory would take more instructions than it saves (forward dynamics in float32:
81 % of the copy bandwidth instead of 91 %). A warp writes the rows of its 32 samples together through a tile of shared
memory, because the hardware does not merge partial writes of a memory sector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mindyn.foundation.escaping import c_comment
from mindyn.kernels.device import THREADS_PER_BLOCK
from mindyn.kernels.ordering import Compute, ComputeSines, Store, order_steps
from mindyn.kernels.program import Op, Program
from mindyn.kernels.sincos import RANGE_LIMIT, SINCOS, TWO_OVER_PI
from mindyn.kernels.source_text import (
    SourceFunction,
    argument_names,
    describe_function,
    expression,
    identifiers,
    literal,
)

_TILE_COLUMNS = 32
_WARPS = THREADS_PER_BLOCK // 32
_MAX_WHOLE_ROW_COLUMNS = 94
"""Up to this many columns an output is written in whole rows: pieces of rows would start and end inside memory sectors.
"""
_MAX_FULL_TILE_COLUMNS = 47
"""Columns of 32 rows of float64 that fit into 48 KB of shared memory with four warps; wider outputs use 16 rows at a
time.
"""

_SINCOS_SOURCE = """\
__device__ __forceinline__ void sine_cosine(double x, double *s, double *c) { sincos(x, s, c); }

/* Within 2 ulp for |x| <= %(limit)s: x - k pi/2 in three fused steps, then polynomials of the remainder. */
__device__ __forceinline__ void sine_cosine(float x, float *s, float *c)
{
  const float rounded = fmaf(x, %(two_over_pi)sf, %(round_number)sf); /* k in its low bits */
  const float k = rounded - %(round_number)sf;
  const float r = fmaf(k, %(part3)sf, fmaf(k, %(part2)sf, fmaf(k, %(part1)sf, x)));
  const float z = r * r;
  const float sine = fmaf(fmaf(fmaf(%(sine3)sf, z, %(sine2)sf), z, %(sine1)sf), r * z, r);
  const float cosine = fmaf(fmaf(fmaf(%(cosine3)sf, z, %(cosine2)sf), z, %(cosine1)sf), z, 1.0f);
  const unsigned quadrant = __float_as_uint(rounded);
  const bool odd = quadrant & 1u;
  *s = __uint_as_float(__float_as_uint(odd ? cosine : sine) ^ (quadrant << 30 & 0x80000000u));
  *c = __uint_as_float(__float_as_uint(odd ? sine : cosine) ^ ((quadrant + 1u) << 30 & 0x80000000u));
}

/* Angles, by the largest of them, that `sine_cosine` leaves to `sine_cosine_beyond`. */
__device__ __forceinline__ bool beyond(float largest) { return largest > %(limit)sf; }
__device__ __forceinline__ bool beyond(double) { return false; }
__device__ __noinline__ float2 sine_and_cosine(float x)
{
  float2 both;
  sincosf(x, &both.x, &both.y);
  return both;
}
__device__ __forceinline__ void sine_cosine_beyond(float x, float *s, float *c)
{
  const float2 both = sine_and_cosine(x); /* not by address: s and c stay in registers */
  *s = both.x;
  *c = both.y;
}
__device__ __forceinline__ void sine_cosine_beyond(double, double *, double *) {}

"""

_QUOTIENT_SOURCE = """\
/* Within 2 ulp for divisors of 2^-126 to 2^126. */
__device__ __forceinline__ float quotient(float a, float b) { return __fdividef(a, b); }
__device__ __forceinline__ double quotient(double a, double b) { return a / b; }

"""

_PREAMBLE = """\
#ifndef NAN
#define NAN (__longlong_as_double(0x7ff8000000000000LL))
#define INFINITY (__longlong_as_double(0x7ff0000000000000LL))
#endif

namespace {

const int WARPS = %d; /* per block */

%s%stemplate <typename Real> struct Two { Real first, second; };
template <> struct __align__(8) Two<float> { float first, second; };
template <> struct __align__(16) Two<double> { double first, second; };

template <typename Real>
__device__ __forceinline__ bool in_pairs(const Real *rows)
{
  return (unsigned long long)rows %% sizeof(Two<Real>) == 0;
}

/* This lane's row of C numbers. The first read of a memory sector brings it to the cache, the next ones find it. */
template <typename Real, int C>
__device__ __forceinline__ void take(Real (&row)[C], const Real *rows, long long base, long long count)
{
  const Real *start = rows + min(base + (int)(threadIdx.x %% 32), count - 1) * C;
  if (C %% 2 == 0 && in_pairs(rows)) {
#pragma unroll
    for (int k = 0; k < C / 2; ++k) {
      const Two<Real> two = reinterpret_cast<const Two<Real> *>(start)[k];
      row[2 * k] = two.first;
      row[2 * k + 1] = two.second;
    }
  } else {
#pragma unroll
    for (int k = 0; k < C; ++k) row[k] = start[k];
  }
}

/* Where number or pair `at` (row by row) of rows of W stands in a tile. Rows of 4, 8, ... numbers are PADDED by one: a
   column of them would fall into few memory banks; other lengths cost two accesses at most, less than the index. */
template <int W, bool PADDED>
__device__ __forceinline__ int place(int at)
{
  return PADDED ? at / W * (W + 1) + at %% W : at;
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
  for (int k = 0; k < C; ++k) tile[place<C, C %% 4 == 0>(lane * C + k)] = piece[k];
  __syncwarp();
#pragma unroll
  for (int k = 0; k < C; ++k) {
    const int row = (k * 32 + lane) / C;
    if (row <= last) start[row * N + (k * 32 + lane) %% C] = tile[place<C, C %% 4 == 0>(k * 32 + lane)];
  }
}

/* One row of C numbers per lane to 32 rows that follow each other, R of them at a time. */
template <typename Real, int C, int R>
__device__ __forceinline__ void put_rows(const Real (&piece)[C], Real *tile, Real *rows, long long base,
                                         long long count)
{
  const int lane = threadIdx.x %% 32;
  const int numbers = (int)min(count - base, 32LL) * C;
  const bool paired = C %% 2 == 0 && in_pairs(rows);
  Two<Real> *pairs = reinterpret_cast<Two<Real> *>(tile);
#pragma unroll
  for (int first = 0; first < 32; first += R) {
    Real *start = rows + base * C + first * C;
    const bool ours = R == 32 || lane / R == first / R;
    __syncwarp();
    if (ours && paired) {
#pragma unroll
      for (int k = 0; k < C / 2; ++k)
        pairs[place<C / 2 + (C < 2), C %% 4 == 0>(lane %% R * (C / 2) + k)] = {piece[2 * k], piece[2 * k + 1]};
    } else if (ours) {
#pragma unroll
      for (int k = 0; k < C; ++k) tile[place<C, C %% 4 == 0>(lane %% R * C + k)] = piece[k];
    }
    __syncwarp();
    if (paired) {
#pragma unroll
      for (int at = lane; at < R * C / 2; at += 32)
        if (first * C + 2 * at < numbers)
          reinterpret_cast<Two<Real> *>(start)[at] = pairs[place<C / 2 + (C < 2), C %% 4 == 0>(at)];
    } else {
#pragma unroll
      for (int at = lane; at < R * C; at += 32)
        if (first * C + at < numbers) start[at] = tile[place<C, C %% 4 == 0>(at)];
    }
  }
}

}  // namespace
"""


def cuda_source(functions: Sequence[SourceFunction], title: str, shared: Sequence[str] = ()) -> str:
    """Return the contents of the file; inputs named in `shared` are one sample for the whole batch."""
    names = identifiers([function.name for function in functions])
    ops = {step.op for function in functions for step in function.program.instructions}
    sines, quotient = (
        _SINCOS_SOURCE % _sincos_constants() if Op.SINCOS in ops else "",
        _QUOTIENT_SOURCE if Op.DIV in ops else "",
    )
    pieces = [_heading(title), _PREAMBLE % (_WARPS, sines, quotient)]
    pieces += [
        _Writer(function, name, frozenset(shared)).cuda_text() for function, name in zip(functions, names, strict=True)
    ]
    return "\n".join(pieces)


def _heading(title: str) -> str:
    return (
        f"/* {c_comment(title)}\n"
        " * Generated by mindyn. Arrays are row-major, one row per sample, on the device.\n"
        " * nvcc: call NAME_f32_launch or NAME_f64_launch. CuPy:\n"
        " *   run = cupy.RawModule(code=open(path).read()).get_function('NAME_f32')\n"
        f" *   grid = ((count + {THREADS_PER_BLOCK - 1}) // {THREADS_PER_BLOCK},)\n"
        f" *   run(grid, ({THREADS_PER_BLOCK},), (inputs..., outputs..., numpy.int64(count))) */"
    )


def _pieces(size: int) -> list[tuple[int, int]]:
    """Return (first column, number of columns) of the pieces of a row that pass through the tile one after the
    other.
    """
    return [(first, min(_TILE_COLUMNS, size - first)) for first in range(0, size, _TILE_COLUMNS)]


def _store_pieces(size: int) -> list[tuple[int, int]]:
    """Return (first column, number of columns) of the pieces of an output's rows."""
    return [(0, size)] if size <= _MAX_WHOLE_ROW_COLUMNS else _pieces(size)


def _rows_at_once(columns: int) -> int:
    """Return how many rows of a whole-row output pass through the tile together."""
    return 32 if _row_pitch(columns) <= _MAX_FULL_TILE_COLUMNS else 16


def _tile_numbers(columns: int) -> int:
    return _rows_at_once(columns) * _row_pitch(columns)


def _row_pitch(columns: int) -> int:
    """Return the stride between two rows of a tile, counted in array elements."""
    return columns + 2 * (columns % 4 == 0)


def _expression(op: Op, operands: Sequence[str]) -> str:
    if op is Op.DIV:
        return f"quotient({operands[0]}, {operands[1]})"
    return expression(op, operands, "Real(0)", "Real(1)")


def _sincos_constants() -> dict[str, str]:
    table = SINCOS[32]
    numbers = {"limit": RANGE_LIMIT, "two_over_pi": TWO_OVER_PI, "round_number": table.round_number}
    numbers |= {f"part{k}": -part for k, part in enumerate(table.half_pi, 1)}
    numbers |= {f"sine{k}": coefficient for k, coefficient in enumerate(table.sine, 1)}
    numbers |= {f"cosine{k}": coefficient for k, coefficient in enumerate(table.cosine, 1)}
    return {name: literal(value) for name, value in numbers.items()}


class _Writer:
    """Write the text of one function."""

    def __init__(self, function: SourceFunction, name: str, shared: frozenset[str]) -> None:
        self._name = name
        self._description = describe_function(function, "count x {}", shared, "Cost per sample: {}.")
        self._program: Program = function.program
        self._inputs, self._outputs = argument_names(self._program)
        self._shared = {k for k, argument in enumerate(self._program.inputs) if argument.name in shared}

    def cuda_text(self) -> str:
        return "\n".join([self._description, self._template(), *(self._kernel(t) for t in ("float", "double"))])

    def _parameters(self, real: str) -> str:
        inputs = [f"const {real} *__restrict__ {name}" for name in self._inputs]
        outputs = [f"{real} *__restrict__ {name}" for name in self._outputs]
        return ", ".join([*inputs, *outputs, "long long count"])

    def _template(self) -> str:
        lines = [*self._loads(), *self._steps()]
        sizes = [c for output in self._program.outputs for _, c in _store_pieces(output.size)]
        numbers = max((_tile_numbers(size) for size in sizes), default=1)
        return "\n".join(
            [
                "template <typename Real>",
                f"__device__ __forceinline__ void {self._name}_warp({self._parameters('Real')})",
                "{",
                f"  __shared__ __align__(16) Real tiles[WARPS][{numbers}];",
                "  Real *tile = tiles[threadIdx.x / 32];",
                "  const long long base = ((long long)blockIdx.x * WARPS + threadIdx.x / 32) * 32;",
                "  if (base >= count) return;",
                *lines,
                "}",
            ]
        )

    def _kernel(self, real: str) -> str:
        suffix = "f32" if real == "float" else "f64"
        passed = ", ".join([*self._inputs, *self._outputs, "count"])
        threads = THREADS_PER_BLOCK
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
        """Return all reads from memory; they come first, so that they overlap."""
        read = {instruction.source[0] for instruction in self._program.instructions if instruction.op is Op.INPUT}
        for number in sorted(read - self._shared):
            yield f"  Real in{number}[{self._program.inputs[number].size}];"
            yield f"  take(in{number}, {self._inputs[number]}, base, count);"

    def _steps(self) -> Iterator[str]:
        instructions = self._program.instructions
        for step in order_steps(self._program, [False] * len(instructions), self._stores()):
            match step:
                case Compute(value):
                    instruction = instructions[value]
                    operands = [self._operand(v) for v in instruction.operands]
                    yield f"  const Real v{value} = {_expression(instruction.op, operands)};"
                case ComputeSines(pairs):
                    yield from self._sines(pairs)
                case Store():
                    yield from self._write_store(step)

    def _sines(self, pairs: Sequence[int]) -> Iterator[str]:
        """Return the fast path for all angles, and one test for angles out of its range."""
        angles = [self._operand(self._program.instructions[pair].operands[0]) for pair in pairs]
        arguments = [f"{angle}, &s{pair}, &c{pair}" for angle, pair in zip(angles, pairs, strict=True)]
        yield f"  Real {', '.join(f's{pair}, c{pair}' for pair in pairs)};"
        yield from (f"  sine_cosine({call});" for call in arguments)
        largest = f"fabs({angles[0]})"
        for angle in angles[1:]:
            largest = f"fmax({largest}, fabs({angle}))"
        yield f"  if (beyond({largest})) {{"
        yield from (f"    sine_cosine_beyond({call});" for call in arguments)
        yield "  }"

    def _stores(self) -> Iterator[Store]:
        for number, output in enumerate(self._program.outputs):
            for first, size in _store_pieces(output.size):
                yield Store(number, first, tuple(output.columns[first : first + size]))

    def _write_store(self, store: Store) -> Iterator[str]:
        size, columns = len(store.values), self._program.outputs[store.output].size
        texts = ["Real(0)" if v is None else self._operand(v) for v in store.values]
        piece = f"out{store.output}_{store.first}"
        yield f"  const Real {piece}[{size}] = {{{', '.join(texts)}}};"
        target = self._outputs[store.output]
        if size == columns:
            yield f"  put_rows<Real, {size}, {_rows_at_once(size)}>({piece}, tile, {target}, base, count);"
            return
        yield f"  put<Real, {size}, {columns}>({piece}, tile, {target}, {store.first}, base, count);"

    def _element(self, number: int, element: int) -> str:
        if number in self._shared:
            return f"{self._inputs[number]}[{element}]"
        return f"in{number}[{element}]"

    def _operand(self, value: int) -> str:
        instruction = self._program.instructions[value]
        match instruction.op:
            case Op.CONST:
                return f"Real({literal(instruction.constant)})"
            case Op.INPUT:
                return self._element(*instruction.source)
            case Op.SIN | Op.COS:
                return f"{instruction.op.value[0]}{instruction.operands[0]}"
            case _:
                return f"v{value}"
