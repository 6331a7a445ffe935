"""`Program`: a straight-line list of scalar instructions in static single assignment form.

Value `k` is the result of instruction `k`; operands are values of earlier instructions. Every backend (machine code, C,
CUDA, operation counts) reads this form.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import NamedTuple


class Op(Enum):
    """Operation of an instruction. The value of a member is its name in messages and digests.

    Truth values are the numbers 0 and 1, as in CasADi. `SINCOS` yields a pair with the parts `SIN` and `COS`, so that
    both functions of an angle are computed and counted once.
    """

    CONST = "const"
    INPUT = "input"
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    NEG = "neg"
    SQRT = "sqrt"
    SINCOS = "sincos"
    SIN = "sin"
    COS = "cos"
    ABS = "fabs"
    SIGN = "sign"
    MIN = "fmin"
    MAX = "fmax"
    FLOOR = "floor"
    CEIL = "ceil"
    COPYSIGN = "copysign"
    TAN = "tan"
    ASIN = "asin"
    ACOS = "acos"
    ATAN = "atan"
    ATAN2 = "atan2"
    SINH = "sinh"
    COSH = "cosh"
    TANH = "tanh"
    EXP = "exp"
    LOG = "log"
    POW = "pow"
    LT = "lt"
    LE = "le"
    EQ = "eq"
    NE = "ne"
    NOT = "not"
    AND = "and"
    OR = "or"
    IF_ELSE_ZERO = "if_else_zero"

    __hash__ = object.__hash__
    """Members are equal only to themselves; Enum's own hash, of the name, takes a third of the building time."""


LIBM: dict[Op, str] = {
    op: op.value
    for op in (
        *(Op.TAN, Op.ASIN, Op.ACOS, Op.ATAN, Op.ATAN2, Op.SINH, Op.COSH, Op.TANH, Op.EXP, Op.LOG, Op.POW),
        *(Op.SQRT, Op.ABS, Op.FLOOR, Op.CEIL, Op.COPYSIGN, Op.MIN, Op.MAX),
    )
}
"""Operations that are a single function of the C library, with its name."""


class Instruction(NamedTuple):
    """`op` applied to `operands`; `constant` for CONST, `source` = (input number, row-major element) for INPUT."""

    op: Op
    operands: tuple[int, ...] = ()
    constant: float = 0.0
    source: tuple[int, int] = (-1, -1)


@dataclass(frozen=True, slots=True)
class Input:
    """A named argument: shape (n,) for a column, (r, c) for a matrix, elements in row-major order."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements of one sample."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Output:
    """A named result: element `nonzeros[k]` (row-major) is value `values[k]`; all other elements are always zero."""

    name: str
    shape: tuple[int, ...]
    nonzeros: tuple[int, ...]
    values: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements of one sample, zeros included."""
        return math.prod(self.shape)

    @property
    def columns(self) -> list[int | None]:
        """The value of each element; None if the element is always zero."""
        values = dict(zip(self.nonzeros, self.values, strict=True))
        return [values.get(element) for element in range(self.size)]

    def renumber(self, new: Mapping[int, int]) -> Output:
        """Return the output with its values renumbered by `new`."""
        return replace(self, values=tuple(new[v] for v in self.values))


@dataclass(frozen=True)
class Program:
    """Instructions with named inputs and outputs, without dead code or common subexpressions."""

    name: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    instructions: tuple[Instruction, ...]

    @cached_property
    def digest(self) -> str:
        """Hash of everything that the generated code depends on, with exact constants."""
        content = hashlib.sha256()
        content.update(repr((self.name, self.inputs, self.outputs)).encode())
        for instruction in self.instructions:
            line = f"{instruction.op.value}{instruction.operands}{instruction.constant.hex()}{instruction.source}\n"
            content.update(line.encode())
        return content.hexdigest()

    @property
    def arguments(self) -> tuple[Input | Output, ...]:
        """Inputs, then outputs, in the order of the parameters of a generated function."""
        return (*self.inputs, *self.outputs)
