"""Read a `casadi.Function` of SX expressions into a `Program`.

Passes over a program: group sums of products by common factors, and share reciprocals of repeated divisors.

a s + b s = (a + b) s: only sums and products with a single reader are taken apart, so no shared value is computed
twice. The number of additions stays the same; each group of k products becomes one. Rounding changes in the last bits.

A division takes as long as ten multiplications or more. a / d becomes a r with r = 1 / d, which is computed once, or at
compile time if d is constant. The result changes by one rounding at most.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

import casadi

from mindyn.foundation.errors import Code, InputError
from mindyn.kernels.building import ProgramBuilder
from mindyn.kernels.ordering import value_stages
from mindyn.kernels.program import Input, Instruction, Op, Output, Program

_ADDITIVE = (Op.ADD, Op.SUB, Op.NEG)
Term = tuple[int, int]
"""Sign and value."""
StagedTerm = tuple[float, int, int]
"""Stage, sign and new value."""


MIN_SAVED_FRACTION: Final = 1e-4
"""Fraction of the multiplications that a pass must save to be followed by another pass."""


def factor_products(program: Program) -> Program:
    """Return the same functions with fewer multiplications; repeat until a pass saves almost nothing."""
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
    """Rebuilt program; values are old numbers unless a name says new."""

    def __init__(self, program: Program) -> None:
        self._old = program
        self._builder = ProgramBuilder()
        self._new: dict[int, int] = {}
        self._uses = Counter(v for instruction in program.instructions for v in instruction.operands)
        self._uses.update(v for output in program.outputs for v in output.values)
        self._absorbed = self._find_absorbed()
        self._stage = value_stages(program)

    def _find_absorbed(self) -> set[int]:
        """Find sums and products whose only reader is a sum: they are rebuilt with it."""
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
        """Return the signed terms of a sum, with nested sums taken apart."""
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
        """Return a sum with its products grouped, starting with the factor that most products share."""
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
        """Add new values in the order in which they become known, so that only one value waits; then positive ones
        first.
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
    """Return the same functions with one division for each divisor."""
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


_OPERATIONS: dict[int, Op] = {
    getattr(casadi, f"OP_{op.value.upper()}"): op for op in Op if op.value not in ("const", "input", "sincos")
} | {casadi.OP_CONSTPOW: Op.POW}
"""CasADi operations that are one instruction here; `_apply` expands the others."""

_CASADI_NAMES = {getattr(casadi, name): name for name in dir(casadi) if name.startswith("OP_")}


def trace(function: casadi.Function, matrices: Collection[str] = ()) -> Program:
    """Return the program that computes the same as `function`.

    Vectors (n, 1) become shape (n,), other shapes stay (r, c); names in `matrices` stay (r, c) even with one column.
    """
    if not function.is_a("SXFunction"):
        raise InputError(
            f"function {function.name()!r} is a {function.class_name()}, not an SXFunction (scalar instructions)",
            hint="build it from SX symbols, or call .expand() on it",
            code=Code.WRONG_TYPE,
            subject=function.name(),
        )
    builder = ProgramBuilder()
    results = _run_symbolically(function, builder)
    inputs = tuple(
        Input(name, _shape(function.sparsity_in(k), name in matrices)) for k, name in enumerate(function.name_in())
    )
    outputs = tuple(
        _output(name, function.sparsity_out(k), results[k], name in matrices)
        for k, name in enumerate(function.name_out())
    )
    return factor_products(share_reciprocals(builder.finish(function.name(), inputs, outputs)))


def _run_symbolically(function: casadi.Function, builder: ProgramBuilder) -> list[dict[int, int]]:
    """Replay CasADi's register machine on builder values; return, per output, nonzero number -> value."""
    elements = [_row_major(function.sparsity_in(k)) for k in range(function.n_in())]
    results: list[dict[int, int]] = [{} for _ in range(function.n_out())]
    register: dict[int, int] = {}
    for k in range(function.n_instructions()):
        op, read, write = function.instruction_id(k), function.instruction_input(k), function.instruction_output(k)
        if op == casadi.OP_OUTPUT:
            results[write[0]][write[1]] = register[read[0]]
        elif op == casadi.OP_INPUT:
            register[write[0]] = builder.input(read[0], elements[read[0]][read[1]])
        elif op == casadi.OP_CONST:
            register[write[0]] = builder.constant(function.instruction_constant(k))
        else:
            register[write[0]] = _apply(builder, op, [register[r] for r in read])
    return results


def _apply(builder: ProgramBuilder, op: int, operands: list[int]) -> int:
    if op in _OPERATIONS:
        return builder.apply(_OPERATIONS[op], *operands)
    if op == casadi.OP_SQ:
        return builder.apply(Op.MUL, operands[0], operands[0])
    if op == casadi.OP_TWICE:
        return builder.apply(Op.ADD, operands[0], operands[0])
    if op == casadi.OP_INV:
        return builder.apply(Op.DIV, builder.constant(1.0), operands[0])
    if op == casadi.OP_ASSIGN:
        return operands[0]
    name = _CASADI_NAMES.get(op, op)
    raise InputError(f"no kernel instruction for the CasADi operation {name}", code=Code.UNSUPPORTED, subject=name)


def _shape(sparsity: casadi.Sparsity, matrix: bool) -> tuple[int, ...]:
    rows, columns = sparsity.size1(), sparsity.size2()
    return (rows,) if columns == 1 and not matrix else (rows, columns)


def _row_major(sparsity: casadi.Sparsity) -> list[int]:
    """Return the row-major element number of each nonzero, in CasADi's column-major order."""
    rows, columns = sparsity.get_triplet()
    return [row * sparsity.size2() + column for row, column in zip(rows, columns, strict=True)]


def _output(name: str, sparsity: casadi.Sparsity, values: dict[int, int], matrix: bool) -> Output:
    elements = _row_major(sparsity)
    pairs = sorted((elements[nonzero], value) for nonzero, value in values.items())
    return Output(name, _shape(sparsity, matrix), tuple(e for e, _ in pairs), tuple(v for _, v in pairs))
