"""IR of a kernel's prologue: what depends on shared inputs alone is computed once per call, as plain scalars.

Blocks read these numbers as broadcast memory operands, which cost no register: hoisting them into vectors would spill.
"""

from __future__ import annotations

from dataclasses import replace

from mindyn.kernels.block import table_entry
from mindyn.kernels.layout import Layout
from mindyn.kernels.operations import emit_operation
from mindyn.kernels.program import Op, Program
from mindyn.kernels.schedule import Schedule
from mindyn.kernels.sincos import emit_checked
from mindyn.kernels.transpose import load_columns
from mindyn.kernels.vectors import Body


def prologue(program: Program, layout: Layout, plan: Schedule) -> str:
    """`@prologue(table, uniforms)`: fills the uniform slots and reports the status of the shared inputs."""
    body = Body(replace(layout.form, width=1))
    allocations: list[str] = []
    inputs = {
        number: _load_all(body, table_entry(body, 2 * number, "ptr"), program.inputs[number].size)
        for number in layout.shared
    }
    names = _compute(body, program, plan, inputs, allocations)
    for value, slot in plan.uniform_slots.items():
        body.line(f"store {body.form.scalar} {names[value]}, ptr {body.offset('%uniforms', slot * body.form.bytes)}")
    body.line(f"ret i64 {_status(body, inputs) if layout.check_finite else 0}")
    text = "\n".join(["entry:", *allocations, "  br label %block", "block:", *body.lines])
    return f"define internal i64 @prologue(ptr %table, ptr %uniforms) noinline nounwind {{\n{text}\n}}"


def _load_all(body: Body, base: str, size: int) -> list[str]:
    return [load_columns(body, [base], element, 1)[0] for element in range(size)]


def _compute(
    body: Body, program: Program, plan: Schedule, inputs: dict[int, list[str]], allocations: list[str]
) -> dict[int, str]:
    names: dict[int, str] = {}
    pairs: dict[int, tuple[str, str]] = {}
    for value, one in enumerate(program.instructions):
        if one.op is Op.CONST:
            names[value] = body.form.literal(one.constant)
        elif not plan.uniform[value]:
            continue
        elif one.op is Op.INPUT:
            number, element = one.source
            names[value] = inputs[number][element]
        elif one.op is Op.SINCOS:
            (pairs[value],) = emit_checked(body, [names[one.operands[0]]], allocations, f"{value}")
        elif one.op in (Op.SIN, Op.COS):
            names[value] = pairs[one.operands[0]][one.op is Op.COS]
        else:
            names[value] = emit_operation(body, one.op, [names[v] for v in one.operands])
    return names


def _status(body: Body, inputs: dict[int, list[str]]) -> str:
    total = body.form.literal(0.0)
    for numbers in inputs.values():
        for number in numbers:
            total = body.intrinsic("fmuladd", number, number, total)
    size = body.intrinsic("fabs", total)
    return body.let(f"zext i1 {body.compare('ugt', size, body.form.literal(body.form.promised**2))} to i64")
