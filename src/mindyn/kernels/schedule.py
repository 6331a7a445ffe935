"""In which order a kernel computes: the steps of one block of samples, cut into parts if there are many.

Every sine and cosine whose angle is known at the same stage is one step, so that one test finds angles out of range.
The rest is depth-first from the outputs, chunk by chunk, which keeps few values alive (a 6R arm's regressor runs 6 %
faster than in CasADi's order, and inverse dynamics the same).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mindyn.kernels.layout import Layout
from mindyn.kernels.program import Instruction, Op, Program
from mindyn.kernels.transpose import chunks

WHOLE_LIMIT = 10_000
PART_SIZE = 2_000
"""Up to WHOLE_LIMIT steps are one piece of code; more are cut into parts of PART_SIZE. LLVM's time grows faster than
the code (56 000 instructions: 9.0 s whole, 3.0 s in parts, which also run 8 % faster); below the limit whole code
runs 5 % faster.
"""


@dataclass(frozen=True, slots=True)
class Compute:
    """One arithmetic instruction."""

    value: int


@dataclass(frozen=True, slots=True)
class Sines:
    """Sines and cosines of several angles; `pairs` are SINCOS values."""

    pairs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Store:
    """Columns `first`, ... of output number `output`; None is a structural zero."""

    output: int
    first: int
    values: tuple[int | None, ...]


Step = Compute | Sines | Store


@dataclass(frozen=True, slots=True)
class Part:
    """Steps in order; `imports` come from earlier parts and `exports` go to later ones, through scratch slots."""

    steps: tuple[Step, ...]
    imports: frozenset[int]
    exports: frozenset[int]


@dataclass(frozen=True, slots=True)
class Schedule:
    """`uniform[v]`: value v is the same for all samples, and `uniform_slots[v]` where the steps that read it find it.
    `slots[v]`: where value v waits between two parts.
    """

    uniform: tuple[bool, ...]
    uniform_slots: dict[int, int]
    parts: tuple[Part, ...]
    slots: dict[int, int]


def schedule(program: Program, layout: Layout, part_size: int | None = None) -> Schedule:
    """Steps of `program` for one block of samples, in parts of `part_size` steps (None: as is best)."""
    uniform = uniform_values(program, layout.shared)
    steps = ordered_steps(program, uniform, _stores(program, layout))
    if part_size is None:
        part_size = len(steps) if len(steps) <= WHOLE_LIMIT else PART_SIZE
    pieces = [tuple(steps[first : first + part_size]) for first in range(0, len(steps), part_size or 1)] or [()]
    parts = _with_traffic(program, uniform, pieces)
    read = sorted({v for step in steps for v in _read(step, program.instructions) if uniform[v]})
    return Schedule(uniform, {v: slot for slot, v in enumerate(read)}, parts, _assign_slots(parts))


def ordered_steps(program: Program, uniform: Sequence[bool], stores: Iterable[Store]) -> list[Step]:
    """Sines first, then each store right after what it still needs; values marked uniform are known already."""
    return list(_Ordering(program, uniform).steps(stores))


def uniform_values(program: Program, shared: tuple[int, ...]) -> tuple[bool, ...]:
    """Which values are computed from shared inputs and constants alone; constants themselves are not counted."""
    uniform: list[bool] = []
    constant = [one.op is Op.CONST for one in program.instructions]
    for one in program.instructions:
        if one.op is Op.INPUT:
            uniform.append(one.source[0] in shared)
        else:
            same = all(uniform[v] or constant[v] for v in one.operands)
            uniform.append(same and any(uniform[v] for v in one.operands))
    return tuple(uniform)


class _Ordering:
    """Depth-first walk over what must be computed per sample."""

    def __init__(self, program: Program, uniform: Sequence[bool]) -> None:
        self._instructions = program.instructions
        elsewhere = (Op.CONST, Op.INPUT, Op.SINCOS, Op.SIN, Op.COS)
        self._done = [uniform[v] or one.op in elsewhere for v, one in enumerate(program.instructions)]
        self._groups = _sines_by_stage(program, uniform)

    def steps(self, stores: Iterable[Store]) -> Iterator[Step]:
        for pairs in self._groups:
            yield from self._closure(self._instructions[v].operands[0] for v in pairs)
            yield Sines(pairs)
        for store in stores:
            yield from self._closure(v for v in store.values if v is not None)
            yield store

    def _closure(self, values: Iterable[int]) -> Iterator[Compute]:
        """Whatever these values need that is not done yet, operands first."""
        for value in values:
            stack = [(value, False)]
            while stack:
                current, ready = stack.pop()
                if self._done[current]:
                    continue
                if ready:
                    self._done[current] = True
                    yield Compute(current)
                else:
                    stack.append((current, True))
                    stack.extend((v, False) for v in reversed(self._instructions[current].operands))


def _sines_by_stage(program: Program, uniform: Sequence[bool]) -> list[tuple[int, ...]]:
    """SINCOS values by the number of sines and cosines that their angle is nested in."""
    depth: list[int] = []
    stages: dict[int, list[int]] = {}
    for v, one in enumerate(program.instructions):
        here = max((depth[operand] for operand in one.operands), default=0)
        depth.append(here + (one.op in (Op.SIN, Op.COS)))
        if one.op is Op.SINCOS and not uniform[v]:
            stages.setdefault(here, []).append(v)
    return [tuple(stages[stage]) for stage in sorted(stages)]


def stored_columns(program: Program, layout: Layout, output: int) -> list[int | None]:
    """Values of the columns that output number `output` stores, None for a structural zero."""
    one = program.outputs[output]
    if output in layout.compact:
        return list(one.values)
    columns: list[int | None] = [None] * one.size
    for element, value in zip(one.nonzeros, one.values, strict=True):
        columns[element] = value
    return columns


def _stores(program: Program, layout: Layout) -> Iterator[Store]:
    for output in range(len(program.outputs)):
        columns = stored_columns(program, layout, output)
        for first, size in chunks(len(columns), layout.form):
            yield Store(output, first, tuple(columns[first : first + size]))


def _with_traffic(program: Program, uniform: tuple[bool, ...], pieces: list[tuple[Step, ...]]) -> tuple[Part, ...]:
    instructions = program.instructions
    partners = _parts_of_pairs(program)
    imports, exports = [], []
    for steps in pieces:
        written = {v for step in steps for v in _written(step, partners)}
        read = {v for step in steps for v in _read(step, instructions)}
        kept = (v for v in read - written if not uniform[v] and instructions[v].op not in (Op.CONST, Op.INPUT))
        imports.append(frozenset(kept))
        exports.append(written)
    later: frozenset[int] = frozenset()
    parts: list[Part] = []
    for steps, needed, written in zip(reversed(pieces), reversed(imports), reversed(exports), strict=True):
        parts.append(Part(steps, needed, frozenset(written & later)))
        later |= needed
    return tuple(reversed(parts))


def _parts_of_pairs(program: Program) -> dict[int, list[int]]:
    """SIN and COS values of each SINCOS value."""
    partners: dict[int, list[int]] = {}
    for v, one in enumerate(program.instructions):
        if one.op in (Op.SIN, Op.COS):
            partners.setdefault(one.operands[0], []).append(v)
    return partners


def _read(step: Step, instructions: tuple[Instruction, ...]) -> Iterable[int]:
    match step:
        case Compute(value):
            return instructions[value].operands
        case Sines(pairs):
            return [instructions[v].operands[0] for v in pairs]
        case Store(_, _, values):
            return [v for v in values if v is not None]


def _written(step: Step, partners: dict[int, list[int]]) -> Iterable[int]:
    match step:
        case Compute(value):
            return (value,)
        case Sines(pairs):
            return [v for pair in pairs for v in partners[pair]]
        case Store():
            return ()


def _assign_slots(parts: tuple[Part, ...]) -> dict[int, int]:
    """A slot for every exported value, used again once its last reader is past, so that scratch memory stays in
    cache.
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
