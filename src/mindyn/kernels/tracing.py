"""Convert a `casadi.Function` of SX expressions to a `Program`."""

from __future__ import annotations

from collections.abc import Collection

import casadi

from mindyn.foundation.errors import Code, InputError
from mindyn.kernels.program import Input, Op, Output, Program
from mindyn.kernels.program_builder import ProgramBuilder
from mindyn.kernels.program_passes import factor_products, share_reciprocals

_OPERATIONS: dict[int, Op] = {
    getattr(casadi, f"OP_{op.value.upper()}"): op for op in Op if op.value not in ("const", "input", "sincos")
} | {casadi.OP_CONSTPOW: Op.POW}
"""CasADi operations that are one instruction here; `_append_casadi_operation` expands the others."""

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
    """Execute the instructions of the function on values of the builder.

    Return for each output: number of the nonzero -> value.
    """
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
            register[write[0]] = _append_casadi_operation(builder, op, [register[r] for r in read])
    return results


def _append_casadi_operation(builder: ProgramBuilder, op: int, operands: list[int]) -> int:
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
