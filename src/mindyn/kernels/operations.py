"""LLVM IR of one arithmetic instruction."""

from __future__ import annotations

from mindyn.kernels.program import LIBM, Op
from mindyn.kernels.vectors import CodeLines

_ARITHMETIC = {Op.ADD: "fadd", Op.SUB: "fsub", Op.MUL: "fmul", Op.DIV: "fdiv"}
_COMPARISON = {Op.LT: "olt", Op.LE: "ole", Op.EQ: "oeq", Op.NE: "une"}
_INTRINSIC = LIBM | {Op.MIN: "minnum", Op.MAX: "maxnum", Op.ABS: "fabs"}


def emit_operation(body: CodeLines, op: Op, operands: list[str]) -> str:
    """Emit `op` on vectors; truth values are the numbers 0 and 1, and NaN is true, as in C."""
    form = body.form
    zero, one = form.splat(0.0), form.splat(1.0)
    if op in _ARITHMETIC:
        return body.arithmetic(_ARITHMETIC[op], *operands)
    if op in _INTRINSIC:
        return body.intrinsic(_INTRINSIC[op], *operands)
    if op in _COMPARISON:
        return body.select(body.compare(_COMPARISON[op], *operands), one, zero)
    match op:
        case Op.NEG:
            return body.let(f"fneg {form.vector} {operands[0]}")
        case Op.SIGN:
            positive = body.select(body.compare("ogt", operands[0], zero), one, operands[0])
            return body.select(body.compare("olt", operands[0], zero), form.splat(-1.0), positive)
        case Op.NOT:
            return body.select(body.compare("oeq", operands[0], zero), one, zero)
        case Op.AND | Op.OR:
            a, b = (body.compare("une", operand, zero) for operand in operands)
            return body.select(body.let(f"{op.value} {form.truths} {a}, {b}"), one, zero)
        case Op.IF_ELSE_ZERO:
            return body.select(body.compare("une", operands[0], zero), operands[1], zero)
        case _:
            raise AssertionError(f"no machine code for {op}")
