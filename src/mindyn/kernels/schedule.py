"""Schedule the steps of one block of samples, and divide long programs into parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mindyn.kernels.array_layout import Layout
from mindyn.kernels.column_shuffles import chunks
from mindyn.kernels.ordering import Compute, ComputeSines, Step, Store, order_steps, values_read
from mindyn.kernels.program import Op, Program
from mindyn.kernels.vector_code import Format

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
