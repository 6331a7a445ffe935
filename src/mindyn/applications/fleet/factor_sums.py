"""`Tally`: the logs that count, by robot and group, and the sums of their R factors, in the order of log names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import groupby
from operator import add
from pathlib import Path

import numpy as np

from mindyn.applications.fleet.factor_files import Factor, FactorStore
from mindyn.applications.fleet.gather_one_log import Excluded
from mindyn.applications.fleet.path_template import CALENDAR_FIELDS, calendar_fields
from mindyn.foundation.errors import Code, InputError
from mindyn.regression.information import Information, triangle_of


@dataclass(frozen=True, slots=True)
class Entry:
    """Log that counts: its file, robot and group."""

    name: str
    path: Path
    robot: str
    group: tuple[str, ...]
    day: float | None
    rows: int


class Tally:
    """Logs that count, in the order of robots, groups and names.

    entries   one for each log
    excluded  logs that have a factor but do not count, with reasons
    """

    def __init__(self, store: FactorStore, entries: Sequence[Entry], excluded: Sequence[Excluded]) -> None:
        self.store, self.regressor = store, store.regressor
        self.entries = sorted(entries, key=lambda entry: (entry.robot, entry.name))
        self.excluded = tuple(excluded)

    @cached_property
    def by_robot(self) -> dict[str, list[Entry]]:
        """Return the logs of every robot."""
        return {robot: list(entries) for robot, entries in groupby(self.entries, key=lambda entry: entry.robot)}

    @property
    def robots(self) -> tuple[str, ...]:
        """Return the names of the robots."""
        return tuple(self.by_robot)

    @property
    def by_group(self) -> dict[tuple[str, ...], list[Entry]]:
        """Return the logs of every group, with the name of the robot first in its key."""
        entries = sorted(self.entries, key=lambda entry: entry.group)
        return {group: list(logs) for group, logs in groupby(entries, key=lambda entry: entry.group)}

    def information(self, entry: Entry) -> Information:
        """Return the information of one log."""
        return self.store.read(entry.path).information(self.regressor)

    def total(self, entries: Iterable[Entry]) -> Information:
        """Return the sum of several logs, bit-identical for the same logs."""
        return sum_information(self.information(entry) for entry in entries)


def sum_information(parts: Iterable[Information]) -> Information:
    """Return the sum of many parts, added in their order."""
    others = iter(parts)
    first = next(others, None)
    if first is None:
        raise InputError(
            "all logs are excluded, so nothing can be estimated",
            hint="see the reasons of the excluded logs",
            code=Code.TOO_LITTLE_DATA,
            subject="logs",
        )
    return reduce(add, others, first)


def build_tally(store: FactorStore, group_by: Sequence[str], exclude_logs: Callable[[str], bool]) -> Tally:
    """Return all logs that have factors by robot and group; copies of a log count once.

    `group_by` are names of fields, that of the robot first. `without` returns whether a log is excluded, by its name.
    """
    entries: list[Entry] = []
    excluded: list[Excluded] = []
    seen: dict[str, str] = {}
    # Without their numbers, a million factors fit into memory.
    light_factors = ((path, replace(store.read(path), factors=())) for path in store.paths())
    for path, factor in sorted(light_factors, key=lambda pair: pair[1].name):
        if exclude_logs(factor.name):
            excluded.append(Excluded(factor.name, "excluded by the user"))
        elif factor.content in seen:
            excluded.append(Excluded(factor.name, f"has the same bytes as {seen[factor.content]}"))
        elif isinstance(keys := _group_key(factor, group_by), str):
            excluded.append(Excluded(factor.name, keys))
        else:
            seen[factor.content] = factor.name
            entries.append(Entry(factor.name, path, keys[0], keys, factor.day, factor.rows))
    return Tally(store, entries, excluded)


def _group_key(factor: Factor, group_by: Sequence[str]) -> tuple[str, ...] | str:
    """Return the group of the factor, or the reason why it has none."""
    known = {**({} if factor.day is None else calendar_fields(factor.day)), **factor.fields}
    missing = [name for name in group_by if name not in known]
    if missing:
        dated = any(name in CALENDAR_FIELDS for name in missing)
        why = "its date is unknown" if dated else "neither its path nor a constant column has it"
        return f"it has no {', '.join(missing)}: {why}"
    return tuple(known[name] for name in group_by)


def drop_zeros(information: Information, count: int) -> Information:
    """Return the information of the first `count` parameters alone, with joint zeros as logged."""
    columns, factors = [], []
    for numbers, factor in zip(information.columns, information.factors, strict=True):
        kept = numbers < count
        columns.append(numbers[kept])
        factors.append(triangle_of(factor[:, np.append(kept, True)]))
    names = information.names[:count]
    return Information(information.joint_names, names, tuple(columns), tuple(factors), information.counts)
