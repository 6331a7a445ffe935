"""A pass over a Program: what is divided by one number several times is multiplied by its reciprocal.

A division takes as long as ten multiplications and more. a / d becomes a r with r = 1 / d, which is computed once; of a
constant d, at compile time. The result moves by one rounding at most.
"""

from __future__ import annotations

import sys
from collections import Counter

from mindyn.kernels.building import ProgramBuilder
from mindyn.kernels.program import Instruction, Op, Output, Program


def with_reciprocals(program: Program) -> Program:
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
