"""Simplification changes no value: random expressions, simplified and not, give the same numbers."""

from __future__ import annotations

import operator

import numpy as np
import pytest

from mindyn.kernels.program import Input, Op, Output, Program
from mindyn.kernels.program_builder import ProgramBuilder

ARITHMETIC = {
    Op.ADD: operator.add,
    Op.SUB: operator.sub,
    Op.MUL: operator.mul,
    Op.DIV: np.divide,
    Op.NEG: operator.neg,
    Op.IF_ELSE_ZERO: lambda a, b: b if a != 0 else 0.0,
    Op.LT: lambda a, b: float(a < b),
}
CONSTANTS = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -4.0, 0.3]


def interpret(program: Program, inputs: np.ndarray) -> list[float]:
    """Values of the outputs, zeros included."""
    values: list[float] = []
    for instruction in program.instructions:
        if instruction.op is Op.CONST:
            values.append(instruction.constant)
        elif instruction.op is Op.INPUT:
            values.append(inputs[instruction.source[1]])
        else:
            values.append(ARITHMETIC[instruction.op](*(values[v] for v in instruction.operands)))
    (output,) = program.outputs
    dense = [0.0] * output.size
    for element, value in zip(output.nonzeros, output.values, strict=True):
        dense[element] = values[value]
    return dense


@pytest.mark.parametrize("seed", range(30))
def test_simplified_expressions_have_the_same_values(seed):
    random = np.random.default_rng(seed)
    inputs = random.uniform(-2, 2, 4)
    builder = ProgramBuilder()
    grown = [(builder.input(0, k), inputs[k]) for k in range(4)]
    grown += [(builder.constant(c), np.float64(c)) for c in CONSTANTS]
    with np.errstate(all="ignore"):
        for _ in range(150):
            op = random.choice(list(ARITHMETIC))
            picked = [grown[random.integers(len(grown))] for _ in range(1 if op is Op.NEG else 2)]
            plain = np.float64(ARITHMETIC[op](*(value for _, value in picked)))
            if np.isfinite(plain) and abs(plain) < 1e6:
                grown.append((builder.apply(op, *(number for number, _ in picked)), plain))
        output = Output("y", (len(grown),), tuple(range(len(grown))), tuple(number for number, _ in grown))
        program = builder.finish("random", (Input("x", (4,)),), (output,))
        assert interpret(program, inputs) == [value for _, value in grown]


def test_division_by_zero_constants_follows_ieee():
    builder = ProgramBuilder()
    unit, zero, minus_zero = builder.constant(1.0), builder.constant(0.0), builder.constant(-0.0)
    quotients = [
        builder.apply(Op.DIV, unit, zero),
        builder.apply(Op.DIV, unit, minus_zero),
        builder.apply(Op.DIV, zero, zero),
    ]
    program = builder.finish("f", (), (Output("y", (3,), (0, 1, 2), tuple(quotients)),))
    assert np.array_equal(interpret(program, np.zeros(0)), [np.inf, -np.inf, np.nan], equal_nan=True)
