"""Program -> LLVM IR of a kernel: a loop over blocks of `width` samples of row-major arrays.

The compiled function is

    int64 kernel(int64 first, int64 last, int64 *table)

computing samples first .. last - 1. `table` holds, for every input and then every output, the address of sample 0 and
the distance in bytes from one sample to the next (0: the same sample for all). The result, the status, is
nonzero when the sum of some block's squared inputs and of its outputs is NaN or beyond the square of what is promised
(`Format.promised`): then an input or an output may not be finite, or an input is very large.

In the last block the lanes past the end repeat the last sample, loads and stores alike: they write the same numbers to
the same place, so tails need no code of their own. Outputs must not overlap inputs.
"""

from __future__ import annotations

from mindyn.kernels import sincos_beyond
from mindyn.kernels.block import PartWriter
from mindyn.kernels.layout import Layout
from mindyn.kernels.program import Program
from mindyn.kernels.schedule import Schedule, schedule
from mindyn.kernels.transpose import chunks
from mindyn.kernels.uniforms import prologue

_DEFINITIONS = """
attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }
!0 = !{}
!1 = !{!"branch_weights", i32 1, i32 1000000}
"""
"""Attributes of block code (LLVM prefers 256-bit registers on some CPUs that have 512), and metadata: 0 marks loads
that may move, 1 the branch that is hardly ever taken.
"""

_PARAMETERS = "ptr noalias readonly %table, ptr noalias readonly %uniforms, ptr noalias %scratch"
_ARGUMENTS = "ptr %table, ptr %uniforms, ptr %scratch"


def emit(program: Program, layout: Layout, part_size: int | None = None) -> str:
    """The IR module of `program`, with one visible function, `kernel`."""
    plan = schedule(program, layout, part_size)
    writers = _write_parts(program, layout, plan)
    pieces = [_DEFINITIONS, sincos_beyond.routines(layout.form), prologue(program, layout, plan)]
    if len(writers) == 1:
        (only,) = writers
        pieces.append(_loop(layout, only.allocations, only.lines, only.report(), only.last_label))
    else:
        pieces += [_part_function(number, writer) for number, writer in enumerate(writers)]
        calls, status = _calls(len(writers))
        pieces.append(_loop(layout, [], calls, status, "block"))
    pieces.append(_entry(layout, plan))
    return "\n".join(pieces)


def _write_parts(program: Program, layout: Layout, plan: Schedule) -> list[PartWriter]:
    watched = _chunks_to_watch(program, layout)
    writers = []
    for part in plan.parts:
        writers.append(PartWriter(program, layout, plan, watched))
        writers[-1].write(part)
    writers[-1].watch_unused()
    return writers


def _chunks_to_watch(program: Program, layout: Layout) -> set[tuple[int, int]]:
    if not layout.check_finite:
        return set()
    return {
        (number, first)
        for number, one in enumerate(program.inputs)
        if number not in layout.shared
        for first, _ in chunks(one.size, layout.form)
    }


def _loop(layout: Layout, allocations: list[str], lines: list[str], status: str, last_label: str) -> str:
    """`@blocks`: the lines of a block, repeated from sample `first` to sample `last`."""
    return "\n".join(
        [
            f"define internal i64 @blocks(i64 %first, i64 %last, {_PARAMETERS}) noinline #0 {{",
            "entry:",
            *allocations,
            "  br label %block",
            "block:",
            f"  %i = phi i64 [ %first, %entry ], [ %next, %{last_label} ]",
            f"  %status = phi i64 [ 0, %entry ], [ %new_status, %{last_label} ]",
            *lines,
            f"  %new_status = or i64 %status, {status}",
            f"  %next = add i64 %i, {layout.form.width}",
            "  %more = icmp slt i64 %next, %last",
            "  br i1 %more, label %block, label %end",
            "end:",
            "  ret i64 %new_status",
            "}",
        ]
    )


def _part_function(number: int, writer: PartWriter) -> str:
    status = writer.report()
    return "\n".join(
        [
            f"define internal i64 @part{number}(i64 %i, i64 %last, {_PARAMETERS}) noinline #0 {{",
            "entry:",
            *writer.allocations,
            "  br label %block",
            "block:",
            *writer.lines,
            f"  ret i64 {status}",
            "}",
        ]
    )


def _calls(count: int) -> tuple[list[str], str]:
    """Lines that call the parts in order, and the name of their joint status."""
    lines = [f"  %report{k} = call i64 @part{k}(i64 %i, i64 %last, {_ARGUMENTS})" for k in range(count)]
    total = "0"
    for k in range(count):
        lines.append(f"  %total{k} = or i64 {total}, %report{k}")
        total = f"%total{k}"
    return lines, total


def _entry(layout: Layout, plan: Schedule) -> str:
    """`@kernel`: prologue, then blocks if there are any samples."""
    form = layout.form
    uniform_count = max(1, len(plan.uniform_slots))
    scratch_count = max(1, 1 + max(plan.slots.values(), default=0))
    return f"""
define i64 @kernel(i64 %first, i64 %last, ptr %table) nounwind {{
entry:
  %uniforms = alloca [{uniform_count} x {form.scalar}], align 64
  %scratch = alloca [{scratch_count} x {form.vector}], align 64
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
