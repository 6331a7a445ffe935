"""Order the steps of a block so that few computed values wait for the steps that read them.

The CPU has 32 vector registers. Further waiting values are stored in memory and loaded again, and in the code of a long
arm, more values wait than the first-level cache can hold. Sines and cosines come first, with all angles of the same
stage in one step, so that one test detects angles that are out of range. The other steps are in depth-first order from
the outputs, chunk by chunk in memory order. If fewer values then wait outside registers and results are few, another
order is used: along the arm, by the last joint that a value depends on, or greedily, by the step that frees most
values.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from mindyn.kernels.program import Op, Program

VECTOR_REGISTERS = 32
MAX_STORED_FRACTION = 1 / 7
"""If there are many results compared with the arithmetic, stores in memory order are more important than few waiting
values: a Panda's regressor (301 numbers, 1195 operations) takes 8 % longer out of order, its inertia matrix (49, 374) 6
% less, torques of 40 joints 24 % less.
"""


@dataclass(frozen=True, slots=True)
class Compute:
    """One arithmetic instruction."""

    value: int


@dataclass(frozen=True, slots=True)
class ComputeSines:
    """Sines and cosines of several angles; `pairs` are SINCOS values."""

    pairs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Store:
    """Columns `first`, ... of output number `output`; None is a structural zero."""

    output: int
    first: int
    values: tuple[int | None, ...]


Step = Compute | ComputeSines | Store


def order_steps(program: Program, uniform: Sequence[bool], stores: Iterable[Store]) -> list[Step]:
    """Return the steps: sines first, then the other steps in the best order.

    Values marked `uniform` are already known.
    """
    ordering = _Ordering(program, uniform, list(stores))
    best = ordering.order_depth_first()
    least = _count_waiting(best, program)
    stored = sum(len(step.values) for step in best if isinstance(step, Store))
    if least and stored < MAX_STORED_FRACTION * len(best):
        for steps in (ordering.order_along_arm(), ordering.order_greedily()):
            beyond = _count_waiting(steps, program)
            if beyond < least:
                best, least = steps, beyond
    return ordering.beginning + best


class _Ordering:
    """Possible orders of the steps of a sample, after the sines and the steps that their angles need (`beginning`)."""

    def __init__(self, program: Program, uniform: Sequence[bool], stores: list[Store]) -> None:
        self._program = program
        self._stores = stores
        elsewhere = (Op.CONST, Op.INPUT, Op.SINCOS, Op.SIN, Op.COS)
        self._done = [uniform[v] or instruction.op in elsewhere for v, instruction in enumerate(program.instructions)]
        self.beginning: list[Step] = []
        for pairs in _sines_by_stage(program, uniform):
            self.beginning += self._closure((program.instructions[v].operands[0] for v in pairs), self._done)
            self.beginning.append(ComputeSines(pairs))

    def order_depth_first(self) -> list[Step]:
        """Put each store right after the steps that it still needs."""
        done, steps = list(self._done), list[Step]()
        for store in self._stores:
            steps += self._closure((v for v in store.values if v is not None), done)
            steps.append(store)
        return steps

    def order_along_arm(self) -> list[Step]:
        """Put values of the first joints first, and each store as early as possible."""
        stages = value_stages(self._program)
        return self._order_by(lambda value, _: stages[value])

    def order_greedily(self) -> list[Step]:
        """Repeatedly take the step that frees most waiting values, and put each store as early as possible."""
        instructions = self._program.instructions
        return self._order_by(lambda value, left: -sum(left[v] == 1 for v in set(instructions[value].operands)))

    def _order_by(self, cost: Callable[[int, Sequence[int]], float]) -> list[Step]:
        """Repeatedly take the step whose value has the least cost, given for every value the number of readers that
        remain.
        """
        instructions, known = self._program.instructions, self._done
        wanted, missing = self._count_readers()
        readers: dict[int, list[int]] = {}
        needs = [0] * len(instructions)
        for value, instruction in enumerate(instructions):
            if not known[value]:
                for operand in set(instruction.operands):
                    readers.setdefault(operand, []).append(value)
                    needs[value] += not known[operand]
        left = [len(readers.get(v, ())) + len(wanted.get(v, ())) for v in range(len(instructions))]
        taken, entry = list(known), [0] * len(instructions)
        waiting: list[tuple[float, int, int]] = []
        steps: list[Step] = [self._stores[k] for k, count in enumerate(missing) if count == 0]

        def offer(value: int) -> None:
            if not taken[value] and needs[value] == 0:
                entry[value] += 1
                heapq.heappush(waiting, (cost(value, left), value, entry[value]))

        for value in range(len(instructions)):
            offer(value)
        while waiting:
            _, value, number = heapq.heappop(waiting)
            if taken[value] or number != entry[value]:
                continue
            taken[value] = True
            steps.append(Compute(value))
            for operand in set(instructions[value].operands):
                left[operand] -= 1
                if left[operand] == 1:
                    for reader in readers.get(operand, ()):
                        offer(reader)
            for reader in readers.get(value, ()):
                needs[reader] -= 1
                offer(reader)
            for k in wanted.get(value, ()):
                missing[k] -= 1
                if missing[k] == 0:
                    steps.append(self._stores[k])
        return steps

    def _count_readers(self) -> tuple[dict[int, list[int]], list[int]]:
        """Return the stores that read a value, and the number of values that each store still needs."""
        wanted: dict[int, list[int]] = {}
        missing = []
        for k, store in enumerate(self._stores):
            values = {v for v in store.values if v is not None and not self._done[v]}
            missing.append(len(values))
            for v in values:
                wanted.setdefault(v, []).append(k)
        return wanted, missing

    def _closure(self, values: Iterable[int], done: list[bool]) -> Iterator[Compute]:
        """Return all values that the given values depend on and that are not computed yet, operands first."""
        instructions = self._program.instructions
        for value in values:
            stack = [(value, False)]
            while stack:
                current, ready = stack.pop()
                if done[current]:
                    continue
                if ready:
                    done[current] = True
                    yield Compute(current)
                else:
                    stack.append((current, True))
                    stack.extend((v, False) for v in reversed(instructions[current].operands))


def value_stages(program: Program) -> list[float]:
    """Return for each value how far along the arm it becomes known: its last input element, scaled to 0 .. 1."""
    sizes = [argument.size for argument in program.inputs]
    stages: list[float] = []
    for instruction in program.instructions:
        if instruction.op is Op.INPUT:
            number, element = instruction.source
            stages.append((element + 1) / sizes[number])
        else:
            stages.append(max([stages[v] for v in instruction.operands], default=0.0))
    return stages


def _count_waiting(steps: list[Step], program: Program) -> int:
    """Return the number of values that wait outside the registers, summed over the steps."""
    last: dict[int, int] = {}
    for at, step in enumerate(steps):
        for v in values_read(step, program):
            last[v] = at
    ends = [0] * len(steps)
    alive = 0
    for step in steps:
        if isinstance(step, Compute) and step.value in last:
            ends[last.pop(step.value)] += 1
    beyond = 0
    for at, step in enumerate(steps):
        alive += isinstance(step, Compute)
        alive -= ends[at]
        beyond += max(0, alive - VECTOR_REGISTERS)
    return beyond


def values_read(step: Step, program: Program) -> Iterable[int]:
    """Return the values that a step reads."""
    match step:
        case Compute(value):
            return program.instructions[value].operands
        case ComputeSines(pairs):
            return [program.instructions[v].operands[0] for v in pairs]
        case Store(_, _, values):
            return [v for v in values if v is not None]


def _sines_by_stage(program: Program, uniform: Sequence[bool]) -> list[tuple[int, ...]]:
    """Group SINCOS values by the number of sines and cosines that their angle depends on in sequence."""
    depth: list[int] = []
    stages: dict[int, list[int]] = {}
    for v, instruction in enumerate(program.instructions):
        here = max((depth[operand] for operand in instruction.operands), default=0)
        depth.append(here + (instruction.op in (Op.SIN, Op.COS)))
        if instruction.op is Op.SINCOS and not uniform[v]:
            stages.setdefault(here, []).append(v)
    return [tuple(stages[stage]) for stage in sorted(stages)]
