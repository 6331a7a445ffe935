"""Passes that shorten a `Program`: factor sums of products, and share reciprocals.

`factor_products` replaces a s + b s by (a + b) s. Only sums and products with a single reader are rewritten, so that no
shared value is computed twice. The number of additions stays the same; each group of k products becomes one product.
The last bits of results change by rounding.

`share_reciprocals` replaces a / d by a r with r = 1 / d, because a division takes as long as ten multiplications or
more. The reciprocal is computed once, or at compile time if d is constant. A result changes by at most one rounding
error.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import Final

from mindyn.kernels.ordering import value_stages
from mindyn.kernels.program import Instruction, Op, Program
from mindyn.kernels.program_builder import ProgramBuilder

_ADDITIVE = (Op.ADD, Op.SUB, Op.NEG)
Term = tuple[int, int]
"""Sign and value."""
StagedTerm = tuple[float, int, int]
"""Stage, sign and new value."""
MIN_SAVED_FRACTION: Final = 1e-4
"""Fraction of the multiplications that a pass must save to be followed by another pass."""


def factor_products(program: Program) -> Program:
    """Return a program with the same results and fewer multiplications.

    Passes are repeated until one saves almost nothing.
    """
    while True:
        shorter, products = _Factoring(program).program(), _products(program)
        if _products(shorter) > products:
            return program
        if products - _products(shorter) <= MIN_SAVED_FRACTION * products:
            return shorter
        program = shorter


def _products(program: Program) -> int:
    return sum(instruction.op is Op.MUL for instruction in program.instructions)


class _Factoring:
    """Rebuild a program with factored sums. Values are numbers of the old program unless a name says new."""

    def __init__(self, program: Program) -> None:
        self._old = program
        self._builder = ProgramBuilder()
        self._new: dict[int, int] = {}
        self._uses = Counter(v for instruction in program.instructions for v in instruction.operands)
        self._uses.update(v for output in program.outputs for v in output.values)
        self._absorbed = self._find_absorbed()
        self._stage = value_stages(program)

    def _find_absorbed(self) -> set[int]:
        """Find sums and products that only a sum reads: they are rebuilt together with that sum."""
        instructions = self._old.instructions
        return {
            v
            for instruction in instructions
            if instruction.op in _ADDITIVE
            for v in instruction.operands
            if self._uses[v] == 1 and instructions[v].op in (*_ADDITIVE, Op.MUL)
        }

    def program(self) -> Program:
        for value, instruction in enumerate(self._old.instructions):
            if value not in self._absorbed:
                is_sum = instruction.op in _ADDITIVE
                self._new[value] = (
                    self._sum(self._terms(value)) if is_sum else self._builder.copy(self._old, value, self._new)
                )
        return self._builder.finish_copy(self._old, self._new)

    def _terms(self, value: int) -> list[Term]:
        """Return the signed terms of a sum; nested sums are replaced by their terms."""
        terms: list[Term] = []
        waiting: list[Term] = [(1, value)]
        while waiting:
            sign, v = waiting.pop()
            instruction = self._old.instructions[v]
            if instruction.op in _ADDITIVE and (v == value or v in self._absorbed):
                signs = {Op.ADD: (1, 1), Op.SUB: (1, -1), Op.NEG: (-1,)}[instruction.op]
                waiting.extend(
                    (sign * s, operand) for s, operand in reversed([*zip(signs, instruction.operands, strict=True)])
                )
            else:
                terms.append((sign, v))
        return terms

    def _factors(self, v: int) -> tuple[int, int] | None:
        instruction = self._old.instructions[v]
        return (
            (instruction.operands[0], instruction.operands[1])
            if instruction.op is Op.MUL and v in self._absorbed
            else None
        )

    def _sum(self, terms: list[Term]) -> int:
        """Return a sum with its products grouped by common factors, starting with the factor that most products
        share.
        """
        parts: list[StagedTerm] = []
        products = [(sign, pair) for sign, v in terms if (pair := self._factors(v))]
        parts += [(self._stage[v], sign, self._new[v]) for sign, v in terms if self._factors(v) is None]
        while products:
            shared = Counter(v for _, pair in products for v in set(pair))
            factor, count = shared.most_common(1)[0]
            if count == 1:
                parts += [(self._stage_of(pair), sign, self._product(*pair)) for sign, pair in products]
                break
            group = [(sign, pair) for sign, pair in products if factor in pair]
            products = [(sign, pair) for sign, pair in products if factor not in pair]
            others = [(sign, pair[1] if pair[0] == factor else pair[0]) for sign, pair in group]
            inner = self._add_up([(self._stage[v], sign, self._new[v]) for sign, v in others])
            stage = self._stage_of([factor, *(v for _, v in others)])
            parts.append((stage, 1, self._builder.apply(Op.MUL, inner, self._new[factor])))
        return self._add_up(parts)

    def _stage_of(self, values: Iterable[int]) -> float:
        return max(self._stage[v] for v in values)

    def _product(self, a: int, b: int) -> int:
        return self._builder.apply(Op.MUL, self._new[a], self._new[b])

    def _add_up(self, parts: list[StagedTerm]) -> int:
        """Add new values in the order in which they become known, so that only one value waits for a reader.

        If several values become known together, add positive values first.
        """
        (_, sign, total), *others = sorted(parts, key=lambda part: (part[0], -part[1]))
        for _, s, value in others:
            if s == sign:
                total = self._builder.apply(Op.ADD, total, value)
            else:
                first, second = (total, value) if sign > 0 else (value, total)
                sign, total = 1, self._builder.apply(Op.SUB, first, second)
        return total if sign > 0 else self._builder.apply(Op.NEG, total)


def share_reciprocals(program: Program) -> Program:
    """Return a program with the same results and one division for each divisor."""
    instructions = program.instructions
    divisors = Counter(instruction.operands[1] for instruction in instructions if instruction.op is Op.DIV)
    inverted = {v for v, count in divisors.items() if _is_inverted(instructions[v], count)}
    if not inverted:
        return program
    builder = ProgramBuilder()
    new: dict[int, int] = {}
    for value, instruction in enumerate(instructions):
        if instruction.op is Op.DIV and instruction.operands[1] in inverted:
            numerator, divisor = (new[v] for v in instruction.operands)
            reciprocal = builder.apply(Op.DIV, builder.constant(1.0), divisor)
            new[value] = builder.apply(Op.MUL, numerator, reciprocal)
        else:
            new[value] = builder.copy(program, value, new)
    return builder.finish_copy(program, new)


def _is_inverted(divisor: Instruction, count: int) -> bool:
    if divisor.op is not Op.CONST:
        return count > 1
    return sys.float_info.min < abs(divisor.constant) < 1 / sys.float_info.min
