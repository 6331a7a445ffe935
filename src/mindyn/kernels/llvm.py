"""Generate the LLVM IR of a kernel from a program: a loop over blocks of `width` samples of row-major arrays.

The compiled function is

    int64 kernel(int64 first, int64 last, int64 *table)

and computes samples first .. last - 1. `table` holds, for every input and then every output, the address of sample 0
and the stride in bytes from one sample to the next (0: the same sample for all). The result is a status: it is nonzero
if the sum of a block's squared inputs and of its outputs is NaN or larger than the square of `Format.input_limit`. Then
an input or an output may not be finite, or an input is very large.

In the last block, lanes after the last sample repeat the last sample, in loads and in stores. These lanes write equal
numbers to the same address, so that an incomplete block needs no separate code. Outputs must not overlap inputs.

The prologue computes everything that depends only on shared inputs, once per call and as plain scalars. Blocks read
these numbers as broadcast memory operands, which need no register; vectors of them would need more registers than the
CPU has.

If a kernel has streamed outputs (see `cache_lines`), the table also holds, after the arrays, the address of the stage
of each streamed output, and `first`. Such a call has a whole number of blocks, and its outputs are contiguous.

The lines of a block refer to %i (its first sample), %last (one past the last sample of the call), %table, %uniforms and
%scratch.
"""

from __future__ import annotations

from dataclasses import replace

from mindyn.kernels import sincos
from mindyn.kernels.array_layout import Layout
from mindyn.kernels.cache_lines import PREFETCHED_BLOCKS, Line, list_traffic, overwritten_lines
from mindyn.kernels.column_shuffles import chunks, load_columns, store_columns, store_routine
from mindyn.kernels.large_angles import large_angle_routine
from mindyn.kernels.ordering import Compute, ComputeSines, Store
from mindyn.kernels.program import LIBM, Op, Program
from mindyn.kernels.schedule import Schedule, SchedulePart, schedule
from mindyn.kernels.vector_code import CodeLines, Format

_DEFINITIONS = """
attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }
!0 = !{}
!1 = !{!"branch_weights", i32 1, i32 1000000}
!2 = !{i32 1}
"""
"""Attributes of block code (some CPUs have 512-bit registers, but LLVM prefers 256-bit ones), and metadata: 0 marks
loads that LLVM may move, 1 marks a rare branch, 2 marks stores that bypass the caches.
"""
_PARAMETERS = "ptr noalias readonly %table, ptr noalias readonly %uniforms, ptr noalias %scratch"
_ARGUMENTS = "ptr %table, ptr %uniforms, ptr %scratch"


def emit(program: Program, layout: Layout) -> str:
    """Return the IR module of `program` with one visible function, `kernel`."""
    plan = schedule(program, layout)
    writers = _write_parts(program, layout, plan)
    pieces = [_DEFINITIONS, large_angle_routine(layout.form), _prologue(program, layout, plan)]
    pieces += [store_routine(layout.form)] if plan.is_long and layout.form.width > 1 else []
    pieces += [_part(number, writer, layout) for number, writer in enumerate(writers)]
    pieces += [_blocks(layout, plan), _entry(program, layout, plan)]
    return "\n".join(pieces)


def _write_parts(program: Program, layout: Layout, plan: Schedule) -> list[PartWriter]:
    watched = _chunks_to_watch(program, layout)
    results_watched = layout.check_finite and may_leave_range(program, layout.form)
    writers = []
    waiting = dict.fromkeys(reversed(list_traffic(program, layout, plan)))
    lines, steps = len(waiting), sum(len(part.steps) for part in plan.parts)
    later = steps
    for part in plan.parts:
        writers.append(PartWriter(program, layout, plan, watched, results_watched=results_watched))
        later -= len(part.steps)
        writers[-1].write(part, waiting, lines * later // max(1, steps))
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


def _part(number: int, writer: PartWriter, layout: Layout) -> str:
    """Return `@part<number>`: one part of the blocks from sample `first` to sample `to`."""
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
            *writer.lines,
            f"  %new_status = or i64 %status, {status}",
            f"  %next = add i64 %i, {layout.form.width}",
            "  %more = icmp slt i64 %next, %to",
            "  br i1 %more, label %block, label %end",
            "end:",
            "  ret i64 %new_status",
            "}",
        ]
    )


def _blocks(layout: Layout, plan: Schedule) -> str:
    """Return `@blocks`: all blocks of the only part, or all parts in order for one block after the other."""
    calls, total = [], "%status"
    for k in range(len(plan.parts)):
        calls.append(f"  %report{k} = call i64 @part{k}(i64 %i, i64 %to, i64 %last, {_ARGUMENTS})")
        calls.append(f"  %total{k} = or i64 {total}, %report{k}")
        total = f"%total{k}"
    to = f"add i64 %i, {layout.form.width}" if len(plan.parts) > 1 else "add i64 %last, 0"
    return "\n".join(
        [
            f"define internal i64 @blocks(i64 %first, i64 %last, {_PARAMETERS}) noinline nounwind {{",
            "entry:",
            "  br label %block",
            "block:",
            "  %i = phi i64 [ %first, %entry ], [ %to, %block ]",
            f"  %status = phi i64 [ 0, %entry ], [ {total}, %block ]",
            f"  %to = {to}",
            *calls,
            "  %more = icmp slt i64 %to, %last",
            "  br i1 %more, label %block, label %end",
            "end:",
            f"  ret i64 {total}",
            "}",
        ]
    )


def _entry(program: Program, layout: Layout, plan: Schedule) -> str:
    """Return `@kernel`: the prologue, then the blocks if there are any samples, and the last block of the stages."""
    form = layout.form
    body = CodeLines(form)
    body.line(f"%i = sub i64 %last, {form.width}")
    writer = PartWriter(program, layout, plan, set(), results_watched=False, body=body)
    for output in layout.streamed:
        writer.flush(len(program.inputs) + output)
    flush = "\n".join([*body.lines, "  fence seq_cst"]) if layout.streamed else ""
    uniform_count = max(1, len(plan.uniform_slots))
    scratch_bytes = max(1, plan.scratch_bytes(form))
    return f"""
define i64 @kernel(i64 %first, i64 %last, ptr %table) nounwind {{
entry:
  %uniforms = alloca [{uniform_count} x {form.scalar}], align 64
  %scratch = alloca [{scratch_bytes} x i8], align 64
  %shared_status = call i64 @prologue(ptr %table, ptr %uniforms)
  %any = icmp slt i64 %first, %last
  br i1 %any, label %work, label %done
work:
  %status = call i64 @blocks(i64 %first, i64 %last, {_ARGUMENTS})
  %all = or i64 %status, %shared_status
{flush}
  ret i64 %all
done:
  ret i64 %shared_status
}}
"""


def _prologue(program: Program, layout: Layout, plan: Schedule) -> str:
    """Return `@prologue(table, uniforms)`: fill the uniform slots and report the status of the shared inputs.

    The prologue is a block of one sample that reads only shared inputs.
    """
    alone = replace(layout, form=replace(layout.form, width=1))
    watched = {(number, k) for number in layout.shared for k in range(program.inputs[number].size)}
    nothing_known = replace(plan, uniform=(False,) * len(plan.uniform))
    writer = PartWriter(program, alone, nothing_known, watched if layout.check_finite else set(), results_watched=False)
    operations = [(value, program.instructions[value].op) for value, uniform in enumerate(plan.uniform) if uniform]
    elsewhere = (Op.INPUT, Op.SIN, Op.COS)
    steps = [ComputeSines((v,)) if op is Op.SINCOS else Compute(v) for v, op in operations if op not in elsewhere]
    writer.write(SchedulePart(tuple(steps), frozenset(), frozenset()))
    writer.watch_unused()
    writer.store_uniforms(plan.uniform_slots)
    status = writer.report()
    begin = ["entry:", "  %i = add i64 0, 0", "  %last = add i64 0, 1"]
    lines = [*begin, *writer.allocations, "  br label %block", "block:", *writer.lines, f"  ret i64 {status}"]
    return "\n".join(["define internal i64 @prologue(ptr %table, ptr %uniforms) noinline nounwind {", *lines, "}"])


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


INVARIANT = "!invariant.load !0"
"""Marks memory that no kernel writes while it runs: LLVM may move loads from it freely."""


class PartWriter:
    """Write the lines of one part.

    `watched` holds (input, first column) of the chunks that are not yet watched for NaN and infinity; a chunk leaves
    the set when it is loaded. `results_watched` says whether stored values are watched too.
    """

    def __init__(
        self,
        program: Program,
        layout: Layout,
        plan: Schedule,
        watched: set[tuple[int, int]],
        *,
        results_watched: bool,
        body: CodeLines | None = None,
    ) -> None:
        self._program, self._layout, self._plan, self._watched = program, layout, plan, watched
        self._results_watched = results_watched
        self._body = body or CodeLines(layout.form)
        self._names: dict[int, str] = {}
        self._columns: dict[tuple[int, int], str] = {}
        self._rows: dict[int, list[str]] = {}
        self._tables: dict[int, str] = {}
        self._others: dict[int, tuple[str, ...]] = {}
        self._line = layout.form.bytes * layout.form.width
        arrays = len(program.arguments)
        self._stages = {len(program.inputs) + k: 2 * arrays + n for n, k in enumerate(layout.streamed)}
        self._exports: frozenset[int] = frozenset()
        self._sum = layout.form.splat(0.0)
        self._stored: set[int] = set()
        self._row_numbers = self._number_rows()
        self.allocations: list[str] = []

    def write(self, part: SchedulePart, traffic: dict[Line, None] | None = None, left: int = 0) -> None:
        """Append the steps of the part.

        Between steps, append traffic of other blocks from the end of `traffic`, until `left` lines remain.
        """
        self._exports = part.exports
        traffic = {} if traffic is None else traffic
        total = max(0, len(traffic) - left)
        for number, step in enumerate(part.steps, 1):
            needed = set[Line]()
            if isinstance(step, Store) and step.output in self._layout.streamed:
                needed = traffic.keys() & overwritten_lines(self._program, self._layout, step)
            while needed or len(traffic) > left + total * (len(part.steps) - number) // len(part.steps):
                line, _ = traffic.popitem()
                needed.discard(line)
                (self._copy_line if line[0] in self._stages else self._prefetch)(*line)
            match step:
                case Compute(value):
                    instruction = self._program.instructions[value]
                    self._define(
                        value, emit_operation(self._body, instruction.op, [self._name(v) for v in instruction.operands])
                    )
                case ComputeSines(pairs):
                    self._write_sines(pairs)
                case Store():
                    self._write_store(step)

    def watch_unused(self) -> None:
        """Load the inputs that no step needs, so that a NaN in these inputs is reported too."""
        for number, first in sorted(self._watched):
            self._column(number, first)

    def flush(self, array: int) -> None:
        """Copy the blocks that remain in the stage, and the line before them, to the output."""
        body, line = self._body, self._line
        row = self._layout.sample_size(self._program, array) * body.form.bytes
        begin = table_entry(body, max(self._stages.values()) + 1, "i64")
        for number in reversed(range(self._layout.stage_blocks(self._program, array))):
            sample = body.let(f"sub i64 %i, {number * body.form.width}")
            is_inside, is_later = (body.let(f"icmp {order} i64 {sample}, {begin}") for order in ("sge", "sgt"))
            more = body.let(f"select i1 {is_later}, i64 {line}, i64 0")
            distance = body.let(f"sub i64 {body.let(f'mul i64 {sample}, {row}')}, {more}")
            target = body.let(f"getelementptr i8, ptr {table_entry(body, 2 * array, 'ptr')}, i64 {distance}")
            back = body.let(f"sub i64 0, {more}")
            source = body.let(f"getelementptr i8, ptr {self._stage(array, sample)}, i64 {back}")
            size = body.let(f"add i64 {row * body.form.width}, {more}")
            size = body.let(f"select i1 {is_inside}, i64 {size}, i64 0")
            body.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")

    def store_uniforms(self, slots: dict[int, int]) -> None:
        """Store values in slots of %uniforms."""
        body, form = self._body, self._body.form
        for value, slot in slots.items():
            body.line(f"store {form.scalar} {self._name(value)}, ptr {body.offset('%uniforms', slot * form.bytes)}")

    def report(self) -> str:
        """Append the last line of the part. Return the name of the i64 that holds its status."""
        if not self._layout.check_finite:
            return "0"
        body, form = self._body, self._body.form
        size = body.intrinsic("fabs", self._sum)
        exceeds = body.any_lane(body.compare("ugt", size, form.splat(form.input_limit**2)))
        return body.let(f"zext i1 {exceeds} to i64")

    @property
    def lines(self) -> list[str]:
        """The lines of IR that are written so far."""
        return self._body.lines

    @property
    def last_label(self) -> str:
        """The basic block to which the last line belongs."""
        return self._body.block

    def _number_rows(self) -> list[str]:
        """Return the number of the sample in each lane; lanes after the last sample repeat it."""
        body = self._body
        most = body.let(f"sub i64 {body.let('sub i64 %last, %i')}, 1")
        steps = [body.let(f"call i64 @llvm.umin.i64(i64 {lane}, i64 {most})") for lane in range(1, body.form.width)]
        return ["%i"] + [body.let(f"add i64 %i, {step}") for step in steps]

    def _name(self, value: int) -> str:
        instruction = self._program.instructions[value]
        if instruction.op is Op.CONST:
            return self._body.form.splat(instruction.constant)
        if self._plan.uniform[value]:
            return self._broadcast(self._plan.uniform_slots[value])
        if instruction.op is Op.INPUT:
            return self._column(*instruction.source)
        # A value of an earlier part is loaded at each use, which costs no register.
        return self._names.get(value) or self._body.let(f"load {self._body.form.vector}, ptr {self._slot(value)}")

    def _define(self, value: int, name: str) -> None:
        self._names[value] = name
        if value in self._exports:
            self._body.line(f"store {self._body.form.vector} {name}, ptr {self._slot(value)}")

    def _broadcast(self, slot: int) -> str:
        body, form = self._body, self._body.form
        at = body.offset("%uniforms", slot * form.bytes)
        number = body.let(f"load {form.scalar}, ptr {at}, align {form.bytes}, {INVARIANT}")
        if form.width == 1:
            return number
        first = body.let(f"insertelement {form.vector} poison, {form.scalar} {number}, i64 0")
        return body.shuffle(first, "poison", [0] * form.width, form.width)

    def _column(self, number: int, element: int) -> str:
        """Return element `element` of input `number`; its first use loads a whole chunk of columns."""
        if (number, element) not in self._columns:
            covering = chunks(self._program.inputs[number].size, self._body.form)
            first, size = next((f, s) for f, s in covering if f <= element < f + s)
            columns = load_columns(self._body, self._row_pointers(number), first, size)
            self._columns.update({(number, first + j): column for j, column in enumerate(columns)})
            if (number, first) in self._watched:
                self._watched.remove((number, first))
                self._add_up(columns)
        return self._columns[number, element]

    def _add_up(self, columns: list[str]) -> None:
        # One operation per column watches for NaN, infinity and size on otherwise idle pipes (0.5 ns per 6R sample).
        for column in columns:
            self._sum = self._body.intrinsic("fmuladd", column, column, self._sum)

    def _row_pointers(self, array: int) -> list[str]:
        """Return the address of each lane's sample in input or output `array`."""
        body = self._body
        if array in self._stages and array not in self._rows:
            row, stage = self._layout.sample_size(self._program, array) * body.form.bytes, self._stage(array)
            self._rows[array] = [body.offset(stage, lane * row) for lane in range(body.form.width)]
        if array not in self._rows:
            base, stride = table_entry(body, 2 * array, "ptr"), table_entry(body, 2 * array + 1, "i64")
            offsets = [body.let(f"mul i64 {row}, {stride}") for row in self._row_numbers]
            self._rows[array] = [body.let(f"getelementptr i8, ptr {base}, i64 {offset}") for offset in offsets]
        return self._rows[array]

    def _prefetch(self, array: int, offset: int) -> None:
        """Prefetch a line of the array for a later block."""
        body = self._body
        if array not in self._others:
            samples = PREFETCHED_BLOCKS * body.form.width
            ahead = body.let(f"mul i64 {table_entry(body, 2 * array + 1, 'i64')}, {samples}")
            self._others[array] = (body.let(f"getelementptr i8, ptr {self._row_pointers(array)[0]}, i64 {ahead}"),)
        at = body.offset(self._others[array][0], offset)
        body.line(f"call void @llvm.prefetch.p0(ptr {at}, i32 {int(array >= len(self._program.inputs))}, i32 2, i32 1)")

    def _stage(self, array: int, sample: str = "%i") -> str:
        """Return the address in the stage of the block that begins with `sample`; one line of memory precedes it."""
        body, form = self._body, self._body.form
        blocks = self._layout.stage_blocks(self._program, array)
        number = body.let(f"and i64 {body.let(f'udiv i64 {sample}, {form.width}')}, {blocks - 1}")
        offset = body.let(f"mul i64 {number}, {(self._layout.sample_size(self._program, array) + 1) * self._line}")
        start = body.let(f"getelementptr i8, ptr {table_entry(body, self._stages[array], 'ptr')}, i64 {offset}")
        return body.offset(start, self._line)

    def _copy_line(self, array: int, offset: int) -> None:
        """Copy a line of the block that this one replaces from the stage to the output, past the caches.

        Lines of the output begin at multiples of the line size. The first line of a block therefore also contains the
        end of the previous block, which offset -1 keeps. The line before the first block is copied to unused memory
        behind the stage.
        """
        body, form, line = self._body, self._body.form, self._line
        size, blocks = (get(self._program, array) for get in (self._layout.sample_size, self._layout.stage_blocks))
        if array not in self._others:
            begin = table_entry(body, max(self._stages.values()) + 1, "i64")
            sample, stage = body.let(f"sub i64 %i, {form.width * blocks}"), self._stage(array)
            distance = body.let(f"mul i64 {sample}, {size * form.bytes}")
            target = body.let(f"getelementptr i8, ptr {table_entry(body, 2 * array, 'ptr')}, i64 {distance}")
            negative = body.let(f"sub i64 0, {body.let(f'ptrtoint ptr {target} to i64')}")
            shift = body.let(f"sub i64 {body.let(f'and i64 {negative}, {line - 1}')}, {line}")
            source, target = (body.let(f"getelementptr i8, ptr {start}, i64 {shift}") for start in (stage, target))
            unused = body.offset(table_entry(body, self._stages[array], "ptr"), line * (size + 1) * blocks)
            known = [body.let(f"icmp {order} i64 {sample}, {begin}") for order in ("sgt", "sge")]
            targets = [body.let(f"select i1 {is_known}, ptr {target}, ptr {unused}") for is_known in known]
            self._others[array] = (source, *targets)
        source, first, target = self._others[array]
        target, how = target if offset else first, ", !nontemporal !2"
        if offset < 0:
            source = self._stage(array, body.let(f"add i64 %i, {form.width * (blocks - 1)}"))
            offset, target, how = line * (size - 1), body.offset(self._stage(array), -line * size), ""
        number = body.let(f"load {form.vector}, ptr {body.offset(source, offset)}, align {form.bytes}")
        body.line(f"store {form.vector} {number}, ptr {body.offset(target, offset)}, align {line}{how}")

    def _row_table(self, array: int) -> str:
        """Return the address of the table with each lane's sample address in output `array`."""
        if array not in self._tables:
            name = self._tables[array] = f"%rows{array}"
            self.allocations.append(f"  {name} = alloca [{self._body.form.width} x ptr], align 64")
            for lane, row in enumerate(self._row_pointers(array)):
                self._body.line(f"store ptr {row}, ptr {self._body.offset(name, 8 * lane)}")
        return self._tables[array]

    def _slot(self, value: int) -> str:
        form = self._body.form
        return self._body.offset("%scratch", self._plan.slots[value] * form.bytes * form.width)

    def _write_store(self, step: Store) -> None:
        if step.output in self._layout.streamed and not any(v is not None for v in step.values):
            return  # the stage stays zero there
        columns = [self._body.form.splat(0.0) if v is None else self._name(v) for v in step.values]
        if self._results_watched:
            for value, column in zip(step.values, columns, strict=True):
                if value is not None and value not in self._stored:
                    self._stored.add(value)
                    self._sum = self._body.let(f"fadd {self._body.form.vector} {self._sum}, {column}")
        array = len(self._program.inputs) + step.output
        if self._plan.is_long and len(columns) == self._body.form.width > 1:
            given = ", ".join(f"{self._body.form.vector} {column}" for column in columns)
            offset = step.first * self._body.form.bytes
            self._body.line(f"call void @store_chunk(ptr {self._row_table(array)}, i64 {offset}, {given})")
        else:
            store_columns(self._body, self._row_pointers(array), step.first, columns)

    def _write_sines(self, pairs: tuple[int, ...]) -> None:
        angles = [self._name(self._program.instructions[v].operands[0]) for v in pairs]
        results = sincos.emit_checked_sincos(self._body, angles, self.allocations, f"{pairs[0]}")
        by_pair = dict(zip(pairs, results, strict=True))
        for value, instruction in enumerate(self._program.instructions):
            if instruction.op in (Op.SIN, Op.COS) and instruction.operands[0] in by_pair:
                self._define(value, by_pair[instruction.operands[0]][instruction.op is Op.COS])


def may_leave_range(program: Program, form: Format) -> bool:
    """Return whether inputs within `form.input_limit` can give a result that is not finite.

    Sums and products of four such inputs and of constants within `form.constants` stay finite; quotients and roots may
    not.
    """
    return any(
        instruction.op in (Op.SQRT,)
        or (instruction.op is Op.DIV and program.instructions[instruction.operands[1]].op is not Op.CONST)
        or (instruction.op is Op.CONST and not abs(instruction.constant) <= form.constants)
        for instruction in program.instructions
    )


def table_entry(body: CodeLines, index: int, kind: str) -> str:
    """Load entry `index` of the table of addresses and strides."""
    at = body.let(f"getelementptr i64, ptr %table, i64 {index}")
    return body.let(f"load {kind}, ptr {at}, align 8, {INVARIANT}")
