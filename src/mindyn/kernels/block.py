"""LLVM IR of one part of a block: `width` samples, from loads through arithmetic to stores.

The lines refer to %i (the first sample of the block), %last (one past the last sample of the call), %table, %uniforms
and %scratch.
"""

from __future__ import annotations

from mindyn.kernels import sincos
from mindyn.kernels.layout import Layout
from mindyn.kernels.operations import emit_operation
from mindyn.kernels.ordering import Compute, ComputeSines, Store
from mindyn.kernels.program import Op, Program
from mindyn.kernels.schedule import Schedule, SchedulePart
from mindyn.kernels.transpose import chunks, load_columns, store_columns
from mindyn.kernels.vectors import CodeLines, Format

INVARIANT = "!invariant.load !0"
"""Marks memory that no kernel writes while it runs: LLVM may move loads from it freely."""


class PartWriter:
    """Writer of the lines of one part.

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
    ) -> None:
        self._program, self._layout, self._plan, self._watched = program, layout, plan, watched
        self._results_watched = results_watched
        self._body = CodeLines(layout.form)
        self._names: dict[int, str] = {}
        self._columns: dict[tuple[int, int], str] = {}
        self._rows: dict[int, list[str]] = {}
        self._tables: dict[int, str] = {}
        self._exports: frozenset[int] = frozenset()
        self._sum = layout.form.splat(0.0)
        self._stored: set[int] = set()
        self._row_numbers = self._number_rows()
        self.allocations: list[str] = []

    def write(self, part: SchedulePart) -> None:
        """Append the steps of the part."""
        self._exports = part.exports
        for step in part.steps:
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
        """Load the inputs that no step needs, so that NaN in them is reported too."""
        for number, first in sorted(self._watched):
            self._column(number, first)

    def report(self) -> str:
        """Append the last line of the part and return the name of the i64 with its status."""
        if not self._layout.check_finite:
            return "0"
        body, form = self._body, self._body.form
        size = body.intrinsic("fabs", self._sum)
        exceeds = body.any_lane(body.compare("ugt", size, form.splat(form.input_limit**2)))
        return body.let(f"zext i1 {exceeds} to i64")

    @property
    def lines(self) -> list[str]:
        """The IR so far."""
        return self._body.lines

    @property
    def last_label(self) -> str:
        """The basic block in which the lines end."""
        return self._body.block

    def _number_rows(self) -> list[str]:
        """Return the number of the sample in each lane; lanes past the end repeat the last sample."""
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
        if array not in self._rows:
            body = self._body
            base, stride = table_entry(body, 2 * array, "ptr"), table_entry(body, 2 * array + 1, "i64")
            offsets = [body.let(f"mul i64 {row}, {stride}") for row in self._row_numbers]
            self._rows[array] = [body.let(f"getelementptr i8, ptr {base}, i64 {offset}") for offset in offsets]
        return self._rows[array]

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
        columns = [self._body.form.splat(0.0) if v is None else self._name(v) for v in step.values]
        if self._results_watched:
            for value, column in zip(step.values, columns, strict=True):
                if value is not None and value not in self._stored:
                    self._stored.add(value)
                    self._sum = self._body.let(f"fadd {self._body.form.vector} {self._sum}, {column}")
        array = len(self._program.inputs) + step.output
        if self._plan.huge and len(columns) == self._body.form.width > 1:
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
    """Return whether inputs within `form.input_limit` can give a result that is not finite, by its operations.

    Sums and products of four such inputs and of constants within `form.constants` fit; quotients and roots may not.
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
