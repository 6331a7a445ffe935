"""Schedule the steps of one block of samples, divide long programs into parts, and move columns between rows and
vectors.

A block holds one sample per lane, and its arrays are row-major. Shuffles in registers convert rows to vectors of one
column, and back. A chunk of c columns (a power of two) of W rows fills c vectors, each with W/c pieces of rows of c
numbers. Each step then takes two vectors and separates their even from their odd members, first within groups of 128
bits (one cheap shuffle on every CPU), then by whole groups. After log2(c) steps, each vector is one column. The initial
order of rows is computed by running the same steps on labels, so that the lanes end in the order of samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from mindyn.kernels.array_layout import Layout
from mindyn.kernels.ordering import Compute, ComputeSines, Step, Store, order_steps, values_read
from mindyn.kernels.program import Op, Program
from mindyn.kernels.vector_code import CodeLines, Format


def chunks(count: int, form: Format) -> list[tuple[int, int]]:
    """Return (first column, number of columns) of chunks that cover `count` columns; each number is a power of two."""
    covered, first = [], 0
    while first < count:
        size = min(form.width, 1 << ((count - first).bit_length() - 1))
        covered.append((first, size))
        first += size
    return covered


def load_columns(body: CodeLines, rows: Sequence[str], offset: int, size: int) -> list[str]:
    """Load columns `offset` .. `offset + size` of the rows at these pointers, one vector for each column."""
    form = body.form
    if form.width == 1:
        return [body.let(f"load {form.scalar}, ptr {body.offset(rows[0], offset * form.bytes)}, align {form.bytes}")]
    order = _row_order(form, size)
    vectors = []
    for j in range(size):
        pieces = [_load_piece(body, rows[row], offset, size) for row in order[j]]
        vectors.append(_join(body, pieces, size))
    for step in range(size.bit_length() - 1):
        even, odd = _split_masks(form, step)
        vectors = [
            body.shuffle(vectors[2 * k], vectors[2 * k + 1], mask, form.width)
            for mask in (even, odd)
            for k in range(size // 2)
        ]
    return vectors


def store_columns(body: CodeLines, rows: Sequence[str], offset: int, columns: Sequence[str]) -> None:
    """Write these columns into the rows at these pointers, by the inverse steps of `load_columns` in reverse order."""
    form, size = body.form, len(columns)
    if form.width == 1:
        body.line(
            f"store {form.scalar} {columns[0]}, ptr {body.offset(rows[0], offset * form.bytes)}, align {form.bytes}"
        )
        return
    vectors = list(columns)
    for step in reversed(range(size.bit_length() - 1)):
        first, second = _merge_masks(form, step)
        half = size // 2
        vectors = [
            body.shuffle(vectors[k], vectors[k + half], mask, form.width)
            for k in range(half)
            for mask in (first, second)
        ]
    order = _row_order(form, size)
    for j, vector in enumerate(vectors):
        for piece, row in enumerate(order[j]):
            _store_piece(body, rows[row], offset, vector, piece, size)


def store_routine(form: Format) -> str:
    """Return `@store_chunk(rows, offset, columns ...)`: `store_columns` for as many columns as there are lanes.

    `rows` is the address of a table with the addresses of the rows.
    """
    body = CodeLines(form)
    lanes = range(form.width)
    places = [body.let(f"getelementptr ptr, ptr %rows, i64 {lane}") for lane in lanes]
    rows = [body.let(f"load ptr, ptr {place}, align 8") for place in places]
    moved = [body.let(f"getelementptr i8, ptr {row}, i64 %offset") for row in rows]
    store_columns(body, moved, 0, [f"%c{lane}" for lane in lanes])
    columns = ", ".join(f"{form.vector} %c{lane}" for lane in lanes)
    lines = [f"define internal void @store_chunk(ptr %rows, i64 %offset, {columns}) noinline #0 {{", "entry:"]
    return "\n".join([*lines, *body.lines, "  ret void", "}"])


def _load_piece(body: CodeLines, row: str, offset: int, size: int) -> str:
    kind = f"<{size} x {body.form.scalar}>"
    return body.let(f"load {kind}, ptr {body.offset(row, offset * body.form.bytes)}, align {body.form.bytes}")


def _store_piece(body: CodeLines, row: str, offset: int, vector: str, piece: int, size: int) -> None:
    form = body.form
    part = vector
    if size < form.width:
        part = body.shuffle(vector, "poison", range(piece * size, piece * size + size), form.width)
    body.line(
        f"store <{size} x {form.scalar}> {part}, ptr {body.offset(row, offset * body.form.bytes)}, align {form.bytes}"
    )


def _join(body: CodeLines, pieces: list[str], size: int) -> str:
    """Join the pieces to one vector, in order."""
    while len(pieces) > 1:
        both = range(2 * size)
        pieces = [body.shuffle(pieces[k], pieces[k + 1], both, size) for k in range(0, len(pieces), 2)]
        size *= 2
    return pieces[0]


def _split_masks(form: Format, step: int) -> tuple[list[int], list[int]]:
    """Return masks for the even and the odd members of two vectors.

    Small steps move numbers within groups of 128 bits; larger steps move whole groups.
    """
    width, group = form.width, form.numbers_per_128_bits
    if step < group.bit_length() - 1:
        even = [
            source * width + base + k
            for base in range(0, width, group)
            for source in (0, 1)
            for k in range(0, group, 2)
        ]
        return even, [m + 1 for m in even]
    even = [base + k for base in range(0, 2 * width, 2 * group) for k in range(group)]
    return even, [m + group for m in even]


def _merge_masks(form: Format, step: int) -> tuple[list[int], list[int]]:
    """Return masks that undo `_split_masks`: from (even, odd) back to the first and the second vector."""
    both = [m for mask in _split_masks(form, step) for m in mask]
    inverse = [both.index(k) for k in range(2 * form.width)]
    return inverse[: form.width], inverse[form.width :]


@cache
def _row_order(form: Format, size: int) -> tuple[tuple[int, ...], ...]:
    """Return the rows whose pieces form each initial vector, so that every column ends in sample order."""
    vectors = [[(j, lane // size) for lane in range(form.width)] for j in range(size)]
    for step in range(size.bit_length() - 1):
        vectors = [
            [(vectors[2 * k] + vectors[2 * k + 1])[m] for m in mask]
            for mask in _split_masks(form, step)
            for k in range(size // 2)
        ]
    sample = {label: lane for lane, label in enumerate(vectors[0])}
    return tuple(tuple(sample[j, piece] for piece in range(form.width // size)) for j in range(size))


MAX_UNDIVIDED_STEPS = 20_000
STEPS_PER_PART = 600
"""Up to MAX_UNDIVIDED_STEPS steps are one piece of code. Longer programs (matrices of 30 joints or more) are divided
into parts of about STEPS_PER_PART, because the time of LLVM grows faster than the length of a piece. Values between
parts wait in scratch memory, which costs more than code that does not fit the first-level instruction cache (32 KB): in
parts of 1700 steps the derivatives of a Panda's forward dynamics take 1.2 times and the regressor of 24 joints 2 times
as long, inverse dynamics of 40 joints 0.94 times.
"""


@dataclass(frozen=True, slots=True)
class SchedulePart:
    """Steps of a part, in order.

    `imports` are values from earlier parts, `exports` values for later parts, both through scratch slots.
    """

    steps: tuple[Step, ...]
    imports: frozenset[int]
    exports: frozenset[int]


@dataclass(frozen=True, slots=True)
class Schedule:
    """Parts of a program, and where values are kept between them.

    `uniform[v]`: value v is the same for all samples; steps read it from slot `uniform_slots[v]`. `slots[v]` is the
    slot where value v waits between two parts. `is_long`: the program has so many steps that compile time is more
    important than speed; each chunk is therefore stored by a function call.
    """

    uniform: tuple[bool, ...]
    uniform_slots: dict[int, int]
    parts: tuple[SchedulePart, ...]
    slots: dict[int, int]
    is_long: bool = False

    def scratch_bytes(self, form: Format) -> int:
        """Return the scratch memory of a block."""
        return (1 + max(self.slots.values(), default=-1)) * form.bytes * form.width


def schedule(program: Program, layout: Layout, part_size: int | None = None) -> Schedule:
    """Return the steps of `program` for one block of samples, in parts of `part_size` steps; None: the fastest size."""
    uniform = uniform_values(program, layout.shared)
    steps = order_steps(program, uniform, _stores(program, layout))
    is_long = len(steps) > MAX_UNDIVIDED_STEPS
    if part_size is None:
        part_size = STEPS_PER_PART if is_long else len(steps)
    pieces = [tuple(steps[first : first + part_size]) for first in range(0, len(steps), part_size or 1)] or [()]
    parts = _add_traffic(program, uniform, pieces)
    read = sorted({v for step in steps for v in values_read(step, program) if uniform[v]})
    slots = {v: slot for slot, v in enumerate(read)}
    return Schedule(uniform, slots, parts, _assign_slots(parts), is_long)


def uniform_values(program: Program, shared: tuple[int, ...]) -> tuple[bool, ...]:
    """Return for each value whether it depends only on shared inputs and constants.

    Constants themselves are not marked.
    """
    uniform: list[bool] = []
    constant = [instruction.op is Op.CONST for instruction in program.instructions]
    for instruction in program.instructions:
        if instruction.op is Op.INPUT:
            uniform.append(instruction.source[0] in shared)
        else:
            same = all(uniform[v] or constant[v] for v in instruction.operands)
            uniform.append(same and any(uniform[v] for v in instruction.operands))
    return tuple(uniform)


def _stores(program: Program, layout: Layout) -> Iterator[Store]:
    for number, output in enumerate(program.outputs):
        columns = output.values if number in layout.compact else tuple(output.columns)
        for first, size in chunks(len(columns), layout.form):
            yield Store(number, first, columns[first : first + size])


def _add_traffic(
    program: Program, uniform: tuple[bool, ...], pieces: list[tuple[Step, ...]]
) -> tuple[SchedulePart, ...]:
    instructions = program.instructions
    partners = _members_of_pairs(program)
    imports, exports = [], []
    for steps in pieces:
        written = {v for step in steps for v in _values_written(step, partners)}
        read = {v for step in steps for v in values_read(step, program)}
        kept = (v for v in read - written if not uniform[v] and instructions[v].op not in (Op.CONST, Op.INPUT))
        imports.append(frozenset(kept))
        exports.append(written)
    later: frozenset[int] = frozenset()
    parts: list[SchedulePart] = []
    for steps, needed, written in zip(reversed(pieces), reversed(imports), reversed(exports), strict=True):
        parts.append(SchedulePart(steps, needed, frozenset(written & later)))
        later |= needed
    return tuple(reversed(parts))


def _members_of_pairs(program: Program) -> dict[int, list[int]]:
    """Return the SIN and COS values of each SINCOS value."""
    partners: dict[int, list[int]] = {}
    for v, instruction in enumerate(program.instructions):
        if instruction.op in (Op.SIN, Op.COS):
            partners.setdefault(instruction.operands[0], []).append(v)
    return partners


def _values_written(step: Step, partners: dict[int, list[int]]) -> Iterable[int]:
    match step:
        case Compute(value):
            return (value,)
        case ComputeSines(pairs):
            return [v for pair in pairs for v in partners[pair]]
        case Store():
            return ()


def _assign_slots(parts: tuple[SchedulePart, ...]) -> dict[int, int]:
    """Assign a slot to every exported value.

    A slot is reused after the last reader, so that the scratch memory stays in the cache.
    """
    last_reader = {v: number for number, part in enumerate(parts) for v in part.imports}
    slots: dict[int, int] = {}
    free: list[int] = []
    count = 0
    for number, part in enumerate(parts):
        for v in sorted(part.exports):
            if not free:
                free.append(count)
                count += 1
            slots[v] = free.pop()
        free.extend(sorted((slots[v] for v in part.imports if last_reader[v] == number), reverse=True))
    return slots
