"""Passes over a Program: sums of products grouped by common factors; one division by what divides several times.

a s + b s = (a + b) s: only sums and products that nothing else reads are taken apart, so no shared value is computed
twice. Additions stay as many; each group of k products becomes one. Rounding changes in the last bits.

A division takes as long as ten multiplications and more. a / d becomes a r with r = 1 / d, which is computed once; of a
constant d, at compile time. The result moves by one rounding at most.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import Final

from mindyn.kernels.building import ProgramBuilder
from mindyn.kernels.ordering import value_stages
from mindyn.kernels.program import Instruction, Op, Output, Program

_ADDITIVE = (Op.ADD, Op.SUB, Op.NEG)
Term = tuple[int, int]
"""Sign and value."""
StagedTerm = tuple[float, int, int]
"""Stage, sign and new value."""


MIN_SAVED_FRACTION: Final = 1e-4
"""Part of the multiplications that a pass must have saved for another one to be made."""


def factor_products(program: Program) -> Program:
    """The same functions with fewer multiplications; repeated until next to nothing more is found."""
    while True:
        shorter, products = _Factoring(program).program(), _products(program)
        if _products(shorter) > products:
            return program
        if products - _products(shorter) <= MIN_SAVED_FRACTION * products:
            return shorter
        program = shorter


def _products(program: Program) -> int:
    return sum(one.op is Op.MUL for one in program.instructions)


class _Factoring:
    """Rebuilds a program; values are old numbers unless a name says new."""

    def __init__(self, program: Program) -> None:
        self._old = program
        self._builder = ProgramBuilder()
        self._new: dict[int, int] = {}
        self._uses = Counter(v for one in program.instructions for v in one.operands)
        self._uses.update(v for output in program.outputs for v in output.values)
        self._absorbed = self._find_absorbed()
        self._stage = value_stages(program)

    def _find_absorbed(self) -> set[int]:
        """Sums and products whose only reader is a sum: they are rebuilt with it."""
        instructions = self._old.instructions
        return {
            v
            for one in instructions
            if one.op in _ADDITIVE
            for v in one.operands
            if self._uses[v] == 1 and instructions[v].op in (*_ADDITIVE, Op.MUL)
        }

    def program(self) -> Program:
        for value, one in enumerate(self._old.instructions):
            if value not in self._absorbed:
                self._new[value] = self._rebuild(value, one)
        outputs = tuple(
            Output(o.name, o.shape, o.nonzeros, tuple(self._new[v] for v in o.values)) for o in self._old.outputs
        )
        return self._builder.finish(self._old.name, self._old.inputs, outputs)

    def _rebuild(self, value: int, one: Instruction) -> int:
        if one.op is Op.CONST:
            return self._builder.constant(one.constant)
        if one.op is Op.INPUT:
            return self._builder.input(*one.source)
        if one.op in _ADDITIVE:
            return self._sum(self._terms(value))
        if one.op is Op.SINCOS:
            return self._new.get(value, value)  # SIN and COS below make it again
        if one.op in (Op.SIN, Op.COS):
            angle = self._old.instructions[one.operands[0]].operands[0]
            return self._builder.apply(one.op, self._new[angle])
        return self._builder.apply(one.op, *(self._new[v] for v in one.operands))

    def _terms(self, value: int) -> list[Term]:
        """The signed terms of a sum, sums within it taken apart."""
        terms: list[Term] = []
        waiting: list[Term] = [(1, value)]
        while waiting:
            sign, v = waiting.pop()
            one = self._old.instructions[v]
            if one.op in _ADDITIVE and (v == value or v in self._absorbed):
                signs = {Op.ADD: (1, 1), Op.SUB: (1, -1), Op.NEG: (-1,)}[one.op]
                waiting.extend((sign * s, operand) for s, operand in reversed([*zip(signs, one.operands, strict=True)]))
            else:
                terms.append((sign, v))
        return terms

    def _factors(self, v: int) -> tuple[int, int] | None:
        one = self._old.instructions[v]
        return (one.operands[0], one.operands[1]) if one.op is Op.MUL and v in self._absorbed else None

    def _sum(self, terms: list[Term]) -> int:
        """A sum with its products grouped: the factor that most products share first."""
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
        """A sum of new values: what is known first is added first, so that one number waits for the rest and not
        many; otherwise positive ones first.
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
    """The same functions with one division for each divisor."""
    instructions = program.instructions
    divisors = Counter(one.operands[1] for one in instructions if one.op is Op.DIV)
    inverted = {v for v, count in divisors.items() if _is_inverted(instructions[v], count)}
    if not inverted:
        return program
    builder = ProgramBuilder()
    new: dict[int, int] = {}
    for value, one in enumerate(instructions):
        if one.op is Op.CONST:
            new[value] = builder.constant(one.constant)
        elif one.op is Op.INPUT:
            new[value] = builder.input(*one.source)
        elif one.op in (Op.SIN, Op.COS):
            new[value] = builder.apply(one.op, new[instructions[one.operands[0]].operands[0]])
        elif one.op is Op.DIV and one.operands[1] in inverted:
            numerator, divisor = (new[v] for v in one.operands)
            reciprocal = builder.apply(Op.DIV, builder.constant(1.0), divisor)
            new[value] = builder.apply(Op.MUL, numerator, reciprocal)
        elif one.op is not Op.SINCOS:  # which SIN and COS make again
            new[value] = builder.apply(one.op, *(new[v] for v in one.operands))
    outputs = tuple(Output(o.name, o.shape, o.nonzeros, tuple(new[v] for v in o.values)) for o in program.outputs)
    return builder.finish(program.name, program.inputs, outputs)


def _is_inverted(divisor: Instruction, count: int) -> bool:
    if divisor.op is not Op.CONST:
        return count > 1
    return sys.float_info.min < abs(divisor.constant) < 1 / sys.float_info.min
