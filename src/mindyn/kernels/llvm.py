"""Generate the LLVM IR of a kernel from a program: a loop over blocks of `width` samples of row-major arrays.

The compiled function is

    int64 kernel(int64 first, int64 last, int64 *table)

and computes samples first .. last - 1. `table` holds, for every input and then every output, the address of sample 0
and the stride in bytes from one sample to the next (0: the same sample for all). The result is a status: it is nonzero
if the sum of a block's squared inputs and of its outputs is NaN or larger than the square of `Format.input_limit`. Then
an input or an output may not be finite, or an input is very large.

In the last block the lanes past the end repeat the last sample, both in loads and in stores: they write the same
numbers to the same place, so that tails need no separate code. Outputs must not overlap inputs.

The prologue computes once per call, as plain scalars, everything that depends only on shared inputs. Blocks read these
numbers as broadcast memory operands, which cost no register: hoisting them into vectors would spill.
"""

from __future__ import annotations

from dataclasses import replace

from mindyn.kernels import sincos_large_angles
from mindyn.kernels.block import PartWriter, may_leave_range, table_entry
from mindyn.kernels.layout import Layout
from mindyn.kernels.operations import emit_operation
from mindyn.kernels.program import Op, Program
from mindyn.kernels.schedule import Schedule, schedule
from mindyn.kernels.sincos import emit_checked_sincos
from mindyn.kernels.transpose import chunks, load_columns, store_routine
from mindyn.kernels.vectors import CodeLines

_DEFINITIONS = """
attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }
!0 = !{}
!1 = !{!"branch_weights", i32 1, i32 1000000}
"""
"""Attributes of block code (LLVM prefers 256-bit registers on some CPUs that have 512), and metadata: 0 marks loads
that may move, 1 marks the rare branch.
"""
_PARAMETERS = "ptr noalias readonly %table, ptr noalias readonly %uniforms, ptr noalias %scratches"
_ARGUMENTS = "ptr %table, ptr %uniforms, ptr %scratches"


def emit(program: Program, layout: Layout, part_size: int | None = None) -> str:
    """Return the IR module of `program` with one visible function, `kernel`."""
    plan = schedule(program, layout, part_size)
    writers = _write_parts(program, layout, plan)
    pieces = [_DEFINITIONS, sincos_large_angles.large_angle_routines(layout.form), prologue(program, layout, plan)]
    pieces += [store_routine(layout.form)] if plan.huge and layout.form.width > 1 else []
    pieces += [_part(number, writer, layout, plan) for number, writer in enumerate(writers)]
    pieces += [_groups(layout, plan), _entry(layout, plan)]
    return "\n".join(pieces)


def _write_parts(program: Program, layout: Layout, plan: Schedule) -> list[PartWriter]:
    watched = _chunks_to_watch(program, layout)
    results_watched = layout.check_finite and may_leave_range(program, layout.form)
    writers = []
    for part in plan.parts:
        writers.append(PartWriter(program, layout, plan, watched, results_watched=results_watched))
        writers[-1].write(part)
    writers[-1].watch_unused()
    return writers


def _chunks_to_watch(program: Program, layout: Layout) -> set[tuple[int, int]]:
    if not layout.check_finite:
        return set()
    return {
        (number, first)
        for number, argument in enumerate(program.inputs)
        if number not in layout.shared
        for first, _ in chunks(argument.size, layout.form)
    }


def _part(number: int, writer: PartWriter, layout: Layout, plan: Schedule) -> str:
    """Return `@part<number>`: one part of the blocks from sample `first` to sample `to`; each block has its own
    scratch.
    """
    status = writer.report()
    return "\n".join(
        [
            f"define internal i64 @part{number}(i64 %first, i64 %to, i64 %last, {_PARAMETERS}) noinline #0 {{",
            "entry:",
            *writer.allocations,
            "  br label %block",
            "block:",
            f"  %i = phi i64 [ %first, %entry ], [ %next, %{writer.last_label} ]",
            f"  %status = phi i64 [ 0, %entry ], [ %new_status, %{writer.last_label} ]",
            f"  %scratch = phi ptr [ %scratches, %entry ], [ %next_scratch, %{writer.last_label} ]",
            *writer.lines,
            f"  %new_status = or i64 %status, {status}",
            f"  %next = add i64 %i, {layout.form.width}",
            f"  %next_scratch = getelementptr i8, ptr %scratch, i64 {plan.scratch_bytes(layout.form)}",
            "  %more = icmp slt i64 %next, %to",
            "  br i1 %more, label %block, label %end",
            "end:",
            "  ret i64 %new_status",
            "}",
        ]
    )


def _groups(layout: Layout, plan: Schedule) -> str:
    """Return `@blocks`: the parts in order, for one group of blocks after the other."""
    calls, total = [], "%status"
    for k in range(len(plan.parts)):
        calls.append(f"  %report{k} = call i64 @part{k}(i64 %i, i64 %to, i64 %last, {_ARGUMENTS})")
        calls.append(f"  %total{k} = or i64 {total}, %report{k}")
        total = f"%total{k}"
    if len(plan.parts) == 1:
        bound = ["  %to = add i64 %last, 0"]
    else:
        size = plan.group(layout.form) * layout.form.width
        bound = [f"  %full = add i64 %i, {size}", "  %to = call i64 @llvm.smin.i64(i64 %full, i64 %last)"]
    return "\n".join(
        [
            f"define internal i64 @blocks(i64 %first, i64 %last, {_PARAMETERS}) noinline nounwind {{",
            "entry:",
            "  br label %group",
            "group:",
            "  %i = phi i64 [ %first, %entry ], [ %to, %group ]",
            f"  %status = phi i64 [ 0, %entry ], [ {total}, %group ]",
            *bound,
            *calls,
            "  %more = icmp slt i64 %to, %last",
            "  br i1 %more, label %group, label %end",
            "end:",
            f"  ret i64 {total}",
            "}",
        ]
    )


def _entry(layout: Layout, plan: Schedule) -> str:
    """Return `@kernel`: the prologue, then the blocks if there are any samples."""
    form = layout.form
    uniform_count = max(1, len(plan.uniform_slots))
    scratch_bytes = max(1, plan.group(form) * plan.scratch_bytes(form))
    return f"""
define i64 @kernel(i64 %first, i64 %last, ptr %table) nounwind {{
entry:
  %uniforms = alloca [{uniform_count} x {form.scalar}], align 64
  %scratches = alloca [{scratch_bytes} x i8], align 64
  %shared_status = call i64 @prologue(ptr %table, ptr %uniforms)
  %any = icmp slt i64 %first, %last
  br i1 %any, label %work, label %done
work:
  %status = call i64 @blocks(i64 %first, i64 %last, {_ARGUMENTS})
  %all = or i64 %status, %shared_status
  ret i64 %all
done:
  ret i64 %shared_status
}}
"""


def prologue(program: Program, layout: Layout, plan: Schedule) -> str:
    """Return `@prologue(table, uniforms)`: fill the uniform slots and report the status of the shared inputs."""
    body = CodeLines(replace(layout.form, width=1))
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


def _load_all(body: CodeLines, base: str, size: int) -> list[str]:
    return [load_columns(body, [base], element, 1)[0] for element in range(size)]


def _compute(
    body: CodeLines, program: Program, plan: Schedule, inputs: dict[int, list[str]], allocations: list[str]
) -> dict[int, str]:
    names: dict[int, str] = {}
    pairs: dict[int, tuple[str, str]] = {}
    for value, instruction in enumerate(program.instructions):
        if instruction.op is Op.CONST:
            names[value] = body.form.literal(instruction.constant)
        elif not plan.uniform[value]:
            continue
        elif instruction.op is Op.INPUT:
            number, element = instruction.source
            names[value] = inputs[number][element]
        elif instruction.op is Op.SINCOS:
            (pairs[value],) = emit_checked_sincos(body, [names[instruction.operands[0]]], allocations, f"{value}")
        elif instruction.op in (Op.SIN, Op.COS):
            names[value] = pairs[instruction.operands[0]][instruction.op is Op.COS]
        else:
            names[value] = emit_operation(body, instruction.op, [names[v] for v in instruction.operands])
    return names


def _status(body: CodeLines, inputs: dict[int, list[str]]) -> str:
    total = body.form.literal(0.0)
    for numbers in inputs.values():
        for number in numbers:
            total = body.intrinsic("fmuladd", number, number, total)
    size = body.intrinsic("fabs", total)
    return body.let(f"zext i1 {body.compare('ugt', size, body.form.literal(body.form.input_limit**2))} to i64")
