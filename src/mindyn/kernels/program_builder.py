"""`ProgramBuilder`: append instructions, fold constants, share equal expressions, and move signs to the outside of
expressions.

A sign is cheapest on the outside: `a + (-b)` is a subtraction, and `(-a) b = -(a b)` lets the next addition absorb it.
Every rule is exact in floating point (division by a constant that is not a power of two stays a division).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from mindyn.kernels.program import Input, Instruction, Op, Output, Program

_COMMUTATIVE = frozenset({Op.ADD, Op.MUL, Op.MIN, Op.MAX, Op.EQ, Op.NE, Op.AND, Op.OR})


_FOLD: dict[Op, Callable[..., float]] = {
    Op.ADD: operator.add,
    Op.SUB: operator.sub,
    Op.MUL: operator.mul,
    Op.DIV: np.divide,  # by zero as in IEEE arithmetic
    Op.NEG: operator.neg,
}
"""Operations that are computed at once if all operands are constants; CasADi has done this for the other operations."""


class ProgramBuilder:
    """Growing list of instructions. Every method that adds an instruction returns the number of its value."""

    def __init__(self) -> None:
        self._instructions: list[Instruction] = []
        self._known: dict[tuple[object, ...], int] = {}
        self._constants: dict[int, float] = {}
        self._negations: dict[int, int] = {}  # -x: x

    def constant(self, value: float) -> int:
        """Add the constant `value`; +0 and -0 are different constants."""
        number = self._append((Op.CONST, value.hex()), Op.CONST, constant=value)
        self._constants[number] = value
        return number

    def input(self, number: int, element: int) -> int:
        """Add element `element` (row-major) of input `number`."""
        return self._append((Op.INPUT, number, element), Op.INPUT, source=(number, element))

    def apply(self, op: Op, *operands: int) -> int:
        """Apply `op` to the operands and simplify the result."""
        folded = self._fold_constants(op, operands)
        if folded is not None:
            return folded
        match op:
            case Op.ADD:
                return self._add(*operands)
            case Op.SUB:
                return self._sub(*operands)
            case Op.MUL:
                return self._mul(*operands)
            case Op.DIV:
                return self._div(*operands)
            case Op.NEG:
                return self._neg(*operands)
            case Op.SIN | Op.COS:
                return self._emit(op, self._emit(Op.SINCOS, *operands))
            case _:
                return self._emit(op, *operands)

    def copy(self, program: Program, value: int, new: Mapping[int, int]) -> int:
        """Add an instruction of another program; `new` gives the numbers here of that program's earlier values."""
        instruction = program.instructions[value]
        match instruction.op:
            case Op.CONST:
                return self.constant(instruction.constant)
            case Op.INPUT:
                return self.input(*instruction.source)
            case Op.SINCOS:
                return -1  # the copies of SIN and COS add it
            case Op.SIN | Op.COS:
                return self.apply(instruction.op, new[program.instructions[instruction.operands[0]].operands[0]])
            case _:
                return self.apply(instruction.op, *(new[v] for v in instruction.operands))

    def finish_copy(self, program: Program, new: Mapping[int, int]) -> Program:
        """Return the program with the outputs of another program; `new` gives the numbers here of that program's
        values.
        """
        return self.finish(program.name, program.inputs, tuple(output.renumber(new) for output in program.outputs))

    def finish(self, name: str, inputs: tuple[Input, ...], outputs: tuple[Output, ...]) -> Program:
        """Return the program of these outputs, without dead code. Outputs that are always 0 become structural zeros."""
        outputs = tuple(self._drop_zeros(output) for output in outputs)
        needed = self._find_needed(value for output in outputs for value in output.values)
        renumbered = {old: new for new, old in enumerate(needed)}
        instructions = tuple([_renumber(self._instructions[old], renumbered) for old in needed])
        return Program(name, inputs, tuple(output.renumber(renumbered) for output in outputs), instructions)

    def _append(
        self,
        key: tuple[object, ...],
        op: Op,
        operands: tuple[int, ...] = (),
        constant: float = 0.0,
        source: tuple[int, int] = (-1, -1),
    ) -> int:
        value = self._known.get(key)
        if value is None:
            value = self._known[key] = len(self._instructions)
            self._instructions.append(Instruction(op, operands, constant, source))
        return value

    def _emit(self, op: Op, *operands: int) -> int:
        if op in _COMMUTATIVE and operands[0] > operands[1]:
            operands = operands[::-1]
        return self._append((op, operands), op, operands)

    def _fold_constants(self, op: Op, operands: tuple[int, ...]) -> int | None:
        if op not in _FOLD or any(value not in self._constants for value in operands):
            return None
        with np.errstate(all="ignore"):
            return self.constant(float(_FOLD[op](*(self._constants[value] for value in operands))))

    def _add(self, a: int, b: int) -> int:
        if self._constants.get(a) == 0.0:
            return b
        if self._constants.get(b) == 0.0:
            return a
        minus_a, minus_b = self._negations.get(a), self._negations.get(b)
        if minus_b is not None:
            return self._sub(a, minus_b)
        if minus_a is not None:
            return self._sub(b, minus_a)
        return self._emit(Op.ADD, a, b)

    def _sub(self, a: int, b: int) -> int:
        if self._constants.get(b) == 0.0:
            return a
        if self._constants.get(a) == 0.0:
            return self._neg(b)
        minus_a, minus_b = self._negations.get(a), self._negations.get(b)
        if minus_b is not None:
            return self._add(a, minus_b)
        if minus_a is not None:
            return self._neg(self._add(minus_a, b))
        return self._emit(Op.SUB, a, b)

    def _mul(self, a: int, b: int) -> int:
        if self._constants.get(a) is not None:
            a, b = b, a
        factor = self._constants.get(b)
        minus_a, minus_b = self._negations.get(a), self._negations.get(b)
        if minus_a is not None and factor is not None:
            return self._mul(minus_a, self.constant(-factor))
        if minus_a is not None:
            return self._neg(self._mul(minus_a, b))
        if minus_b is not None:
            return self._neg(self._mul(a, minus_b))
        match factor:
            case 0.0:
                return self.constant(0.0)
            case 1.0:
                return a
            case -1.0:
                return self._neg(a)
            case 2.0:
                return self._emit(Op.ADD, a, a)
            case -2.0:
                return self._neg(self._emit(Op.ADD, a, a))
            case _:
                return self._emit(Op.MUL, a, b)

    def _div(self, a: int, b: int) -> int:
        divisor = self._constants.get(b)
        if divisor is not None and math.isfinite(divisor) and abs(math.frexp(divisor)[0]) == 0.5:
            return self._mul(a, self.constant(1.0 / divisor))
        return self._emit(Op.DIV, a, b)

    def _neg(self, a: int) -> int:
        constant, minus_a = self._constants.get(a), self._negations.get(a)
        if constant is not None:
            return self.constant(-constant)
        if minus_a is not None:
            return minus_a
        number = self._emit(Op.NEG, a)
        self._negations[number] = a
        return number

    def _drop_zeros(self, output: Output) -> Output:
        kept = [
            (element, value)
            for element, value in zip(output.nonzeros, output.values, strict=True)
            if self._constants.get(value) != 0.0
        ]
        return Output(output.name, output.shape, tuple(e for e, _ in kept), tuple(v for _, v in kept))

    def _find_needed(self, results: Iterable[int]) -> list[int]:
        marked = [False] * len(self._instructions)
        for value in results:
            marked[value] = True
        for value in range(len(marked) - 1, -1, -1):
            if marked[value]:
                for operand in self._instructions[value].operands:
                    marked[operand] = True
        return [value for value, live in enumerate(marked) if live]


def _renumber(instruction: Instruction, renumbered: dict[int, int]) -> Instruction:
    return Instruction(
        instruction.op, tuple([renumbered[v] for v in instruction.operands]), instruction.constant, instruction.source
    )
