"""`Tally`: which logs count, by robot and group, and their R factors summed in the order of their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.fleet.factors import Factor, FactorStore
from mindyn.fleet.template import CALENDAR_FIELDS, calendar_fields
from mindyn.fleet.work import Excluded
from mindyn.regression.information import Information, add_information
from mindyn.regression.triangles import triangle_of

STACKED_FACTORS: Final = 64
"""Factors that are stacked at once; sums of more are trees of such stacks, by order alone."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A log that counts: its file, and what it belongs to."""

    name: str
    path: Path
    robot: str
    group: tuple[str, ...]
    day: float | None
    rows: int


class Tally:
    """Logs that count, in the order of robots, groups and names.

    entries   one for each log
    excluded  logs that have a factor but do not count, and why
    """

    def __init__(self, store: FactorStore, entries: Sequence[Entry], excluded: Sequence[Excluded]) -> None:
        self.store, self.regressor = store, store.regressor
        self.entries = sorted(entries, key=lambda one: (one.robot, one.name))
        self.excluded = tuple(excluded)

    @cached_property
    def robots(self) -> tuple[str, ...]:
        """Names of the robots."""
        return tuple(dict.fromkeys(one.robot for one in self.entries))

    @cached_property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The groups, the robot's name first."""
        return tuple(sorted({one.group for one in self.entries}))

    def logs_of_robot(self, robot: str) -> list[Entry]:
        """The logs of one robot."""
        return self._by_robot[robot]

    def logs_of_group(self, group: tuple[str, ...]) -> list[Entry]:
        """The logs of one group."""
        return [one for one in self._by_robot[group[0]] if one.group == group]

    @cached_property
    def _by_robot(self) -> dict[str, list[Entry]]:
        found: dict[str, list[Entry]] = {}
        for one in self.entries:
            found.setdefault(one.robot, []).append(one)
        return found

    def information(self, entry: Entry) -> Information:
        """What one log says."""
        return self.store.read(entry.path).information(self.regressor)

    def total(self, entries: Iterable[Entry]) -> Information:
        """What several logs say, with the same bits for the same logs."""
        return sum_information(self.information(one) for one in entries)

    def totals(self) -> dict[str, Information]:
        """What every robot's logs say."""
        return {robot: self.total(self.logs_of_robot(robot)) for robot in self.robots}

    def exclude_logs(self, dropped: Callable[[Entry], str]) -> Tally:
        """Without the logs that are given a reason to be left out."""
        reasons = {one.name: dropped(one) for one in self.entries}
        gone = [Excluded(name, reason) for name, reason in reasons.items() if reason]
        kept = [one for one in self.entries if not reasons[one.name]]
        return Tally(self.store, kept, (*self.excluded, *gone))


def sum_information(parts: Iterable[Information]) -> Information:
    """The sum of many, by a tree that depends on their order alone."""
    level = list(_stack_factors(parts))
    while len(level) > 1:
        level = list(_stack_factors(level))
    if not level:
        raise InputError("no log counts: nothing can be estimated", hint="the excluded logs say why")
    return level[0]


def _stack_factors(parts: Iterable[Information]) -> Iterator[Information]:
    held: list[Information] = []
    for part in parts:
        held.append(part)
        if len(held) == STACKED_FACTORS:
            yield add_information(held)
            held = []
    if held:
        yield add_information(held)


def build_tally(store: FactorStore, group_by: Sequence[str], exclude_logs: Callable[[str], bool]) -> Tally:
    """All logs that have factors, by what they say of themselves; copies of a log count once.

    group_by  names of fields, the robot's first
    without   whether a log, by its name, is left out
    """
    entries: list[Entry] = []
    excluded: list[Excluded] = []
    seen: dict[str, str] = {}
    found = ((path, _drop_numbers(factor)) for path, factor in store.factors())
    for path, factor in sorted(found, key=lambda pair: pair[1].name):
        if exclude_logs(factor.name):
            excluded.append(Excluded(factor.name, "left out as asked"))
        elif factor.content in seen:
            excluded.append(Excluded(factor.name, f"has the same bytes as {seen[factor.content]}"))
        elif isinstance(keys := _group_key(factor, group_by), str):
            excluded.append(Excluded(factor.name, keys))
        else:
            seen[factor.content] = factor.name
            entries.append(Entry(factor.name, path, keys[0], keys, factor.day, factor.rows))
    return Tally(store, entries, excluded)


def _drop_numbers(factor: Factor) -> Factor:
    """Without its numbers: a million of them fit into memory."""
    return replace(factor, factors=(), notes=())


def _group_key(factor: Factor, group_by: Sequence[str]) -> tuple[str, ...] | str:
    """The factor's group, or why it has none."""
    known = {**({} if factor.day is None else calendar_fields(factor.day)), **factor.said}
    missing = [name for name in group_by if name not in known]
    if missing:
        dated = any(name in CALENDAR_FIELDS for name in missing)
        why = "nothing says when it was made" if dated else "neither its path nor a constant column says it"
        return f"belongs to no {', '.join(missing)}: {why}"
    return tuple(known[name] for name in group_by)


def drop_zeros(information: Information, count: int) -> Information:
    """The information of the first `count` parameters alone: zeros taken as they are logged."""
    columns, factors = [], []
    for own, factor in zip(information.columns, information.factors, strict=True):
        kept = own < count
        columns.append(own[kept])
        factors.append(triangle_of(factor[:, np.append(kept, True)]))
    names = information.names[:count]
    return Information(information.joint_names, names, tuple(columns), tuple(factors), information.counts)


def unexplained_fraction(information: Information, beta: Array, weights: Array) -> float:
    """Part of the weighted squared torque that values leave: above 1 they are worse than none."""
    power = float(weights @ information.torques())
    return float(weights @ information.residuals(beta)) / power if power > 0 else 0.0
