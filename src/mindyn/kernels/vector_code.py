"""LLVM IR as text for values of `width` samples: types, constants, and the body of a function."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

FLAGS = "contract nsz"
"""Fast-math flags of ordinary arithmetic. `contract` fuses a*b+c (one rounding instead of two: never worse); `nsz`
ignores the sign of zero. `reassoc` and `arcp` are left out because they change results beyond 1e-13 if terms cancel,
`nnan` and `ninf` because a NaN or an infinite input must lead to a NaN or infinite output.
"""


@dataclass(frozen=True, slots=True)
class Format:
    """Floating point numbers of `bits` (64 or 32) bits, `width` samples per value; width 1 is plain scalar code.

    `fused` says that the CPU has a fused multiply-add.
    """

    bits: int
    width: int
    fused: bool = True

    @property
    def bytes(self) -> int:
        """Size of one number."""
        return self.bits // 8

    @property
    def input_limit(self) -> float:
        """Magnitude of inputs up to which products of four inputs (positions, and squares of velocities) cannot
        overflow.
        """
        return 1e60 if self.bits == 64 else 1e7

    @property
    def constants(self) -> float:
        """Magnitude of constants up to which products of four inputs and several constants cannot overflow."""
        return 1e15 if self.bits == 64 else 1e3

    @property
    def numbers_per_128_bits(self) -> int:
        """Count of numbers in 128 bits: shuffles that stay within 128 bits are the cheapest."""
        return 128 // self.bits

    @property
    def scalar(self) -> str:
        """Type of one number."""
        return "double" if self.bits == 64 else "float"

    @property
    def vector(self) -> str:
        """Type of `width` numbers."""
        return self.wide(self.scalar)

    @property
    def integers(self) -> str:
        """Type of `width` integers as large as the numbers."""
        return self.wide(f"i{self.bits}")

    @property
    def truths(self) -> str:
        """Type of `width` truth values."""
        return self.wide("i1")

    @property
    def suffix(self) -> str:
        """Suffix of an overloaded intrinsic for `vector`: llvm.sqrt.v8f64."""
        return f"f{self.bits}" if self.width == 1 else f"v{self.width}f{self.bits}"

    def wide(self, scalar: str) -> str:
        """Return the type of `width` elements of type `scalar`."""
        return scalar if self.width == 1 else f"<{self.width} x {scalar}>"

    def literal(self, value: float) -> str:
        """Return `value`, rounded to this format, as one number in hexadecimal, which is exact."""
        if self.bits == 32:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"

    def splat(self, value: float) -> str:
        """Return `value` in every lane."""
        literal = self.literal(value)
        return literal if self.width == 1 else f"splat ({self.scalar} {literal})"

    def splat_integer(self, value: int) -> str:
        """Return the integer `value` in every lane."""
        return str(value) if self.width == 1 else f"splat (i{self.bits} {value})"


class CodeLines:
    """The lines of one function. Every method that computes appends a line, and returns the name of the result."""

    def __init__(self, form: Format) -> None:
        self.form = form
        self.lines: list[str] = []
        self._count = 0
        self.block = "block"

    def line(self, text: str) -> None:
        """Append a line without a result."""
        self.lines.append(f"  {text}")

    def let(self, expression: str) -> str:
        """Assign `expression` to a new name."""
        self._count += 1
        name = f"%t{self._count}"
        self.lines.append(f"  {name} = {expression}")
        return name

    def start_block(self, label: str) -> None:
        """Begin the basic block `label`."""
        self.lines.append(f"{label}:")
        self.block = label

    def arithmetic(self, operation: str, a: str, b: str) -> str:
        """Emit fadd, fsub, fmul or fdiv of two vectors."""
        return self.let(f"{operation} {FLAGS} {self.form.vector} {a}, {b}")

    def fma(self, a: str, b: str, c: str) -> str:
        """Emit a * b + c with one rounding on every CPU; slow on a CPU without this instruction."""
        return self.intrinsic("fma", a, b, c)

    def multiply_add(self, a: str, b: str, c: str) -> str:
        """Emit a * b + c with one rounding if the CPU supports it, otherwise with two."""
        return self.intrinsic("fmuladd", a, b, c)

    def intrinsic(self, name: str, *operands: str) -> str:
        """Emit the intrinsic llvm.`name` of vectors."""
        kind = self.form.vector
        arguments = ", ".join(f"{kind} {operand}" for operand in operands)
        return self.let(f"call {kind} @llvm.{name}.{self.form.suffix}({arguments})")

    def integer(self, operation: str, a: str, b: str) -> str:
        """Emit and, or, xor, add, shl, ... of two integer vectors."""
        return self.let(f"{operation} {self.form.integers} {a}, {b}")

    def as_integers(self, a: str) -> str:
        """Emit the bits of `a` as integers."""
        return self.let(f"bitcast {self.form.vector} {a} to {self.form.integers}")

    def as_numbers(self, a: str) -> str:
        """Emit the numbers whose bits are the given integers."""
        return self.let(f"bitcast {self.form.integers} {a} to {self.form.vector}")

    def compare(self, predicate: str, a: str, b: str) -> str:
        """Emit fcmp, which gives truth values."""
        return self.let(f"fcmp {predicate} {self.form.vector} {a}, {b}")

    def select(self, condition: str, a: str, b: str) -> str:
        """Emit `a` where `condition` holds, else `b`."""
        form = self.form
        return self.let(f"select {form.truths} {condition}, {form.vector} {a}, {form.vector} {b}")

    def any_lane(self, truths: str) -> str:
        """Emit one truth value: whether the condition is true in any lane."""
        form = self.form
        if form.width == 1:
            return truths
        return self.let(f"call i1 @llvm.vector.reduce.or.v{form.width}i1({form.truths} {truths})")

    def offset(self, pointer: str, count: int) -> str:
        """Emit the address `count` bytes past `pointer`."""
        return self.let(f"getelementptr i8, ptr {pointer}, i64 {count}") if count else pointer

    def shuffle(self, a: str, b: str, mask: Sequence[int], lanes: int) -> str:
        """Emit lanes of `a` and `b` (each `lanes` wide) in the order of `mask`; entry `lanes + k` is lane k of `b`."""
        kind = f"<{lanes} x {self.form.scalar}>"
        picks = ", ".join(f"i32 {m}" for m in mask)
        return self.let(f"shufflevector {kind} {a}, {kind} {b}, <{len(mask)} x i32> <{picks}>")
