"""`Template`: paths such as `s3://bucket/{robot_id}/{date}/*.parquet`, what they match, and what they say of a log.

`list_tasks` are the logs that one matches, with what their paths and sidecars say, by two listings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from mindyn.errors import InputError, MindynError
from mindyn.fleet.work import Excluded, Task, format_reason
from mindyn.logs.locations import FileListing, FileLocation, list_matching, parse_location
from mindyn.logs.metadata import SHARED_SIDECAR_NAME, parse_sidecar

_FIELD_PATTERN: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
DATE_FIELD: Final = "date"
"""The field that says when a log was made."""
_DATE_FORMATS: Final = (
    "%Y-%m-%d",
    "%Y%m%d",
    "%Y_%m_%d",
    "%Y-%m",
    "%Y-%m-%dT%H-%M-%S",
    "%Y-%m-%dT%H:%M:%S",
    "%Y%m%dT%H%M%S",
)
SECONDS_PER_DAY: Final = 86_400.0


@dataclass(frozen=True)
class Template:
    """A pattern of places with fields in braces; a field is one part of a path, or a piece of one.

    text  as it was given: `{name}` a field, `*` and `?` within a folder's name, `**` any folders
    """

    text: str

    def __post_init__(self) -> None:
        rest = _FIELD_PATTERN.sub("", self.text)
        if "{" in rest or "}" in rest:
            raise InputError(
                f"{self.text!r} has braces that hold no name of a field", hint="like 's3://bucket/{robot_id}/*.parquet'"
            )
        parse_location(self.text)

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields, in the order of the path."""
        return tuple(dict.fromkeys(_FIELD_PATTERN.findall(self.text)))

    @property
    def pattern(self) -> str:
        """The template as a pattern of names: every field is `*`."""
        return _FIELD_PATTERN.sub("*", self.text)

    @property
    def root(self) -> str:
        """What all matching places begin with: the folders before the first field or wildcard."""
        fixed = re.split(r"[{*?\[]", self.text, maxsplit=1)[0]
        return fixed[: fixed.rfind("/") + 1]

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        place, seen = parse_location(self.text), set[str]()
        made = ""
        for part in re.split(r"(\{\w+\}|\*\*/?|\*|\?)", str(place)):
            if field := _FIELD_PATTERN.fullmatch(part):
                name = field[1]
                made += f"(?P={name})" if name in seen else f"(?P<{name}>[^/]+?)"
                seen.add(name)
            else:
                made += {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part) or re.escape(part)
        return re.compile(made)

    def parse_fields(self, place: FileLocation) -> dict[str, str] | None:
        """The fields of a place; None where it does not match."""
        found = self._expression.fullmatch(str(place))
        return None if found is None else found.groupdict()

    def logs(self) -> list[tuple[FileListing, dict[str, str]]]:
        """What matches, by name, with what its path says."""
        listed = [(one, self.parse_fields(one.place)) for one in list_matching(self.pattern)]
        return [(one, said) for one, said in listed if said is not None]


def find_day(said: Mapping[str, str], listed: FileListing) -> float | None:
    """When a log was made, in days since 1970.

    By its field `date`, else by those that the calendar names: {day} or {month} that holds a whole date, as 2026-11, or
    {year}, {month} and {day} together; else when its file changed.
    """
    if (text := said.get(DATE_FIELD)) is not None:
        found = parse_day(text)
        if found is None:
            raise InputError(
                f"{text!r}, the date of {listed.place}, is none that can be read",
                hint="a date is like 2026-11-15 or 20261115; another name for the field makes it a mere group",
            )
        return found
    parts = [said.get(name, "") for name in ("year", "month", "day")]
    for text in (parts[2], parts[1], "-".join(filter(None, parts))):
        if (day := parse_day(text)) is not None:
            return day
    return None if listed.changed is None else listed.changed / SECONDS_PER_DAY


def parse_day(text: str) -> float | None:
    """Days since 1970 of a date as folders are called by; None where it is none."""
    for form in _DATE_FORMATS:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp() / SECONDS_PER_DAY
        except ValueError:
            continue
    return None


def calendar_fields(day: float) -> dict[str, str]:
    """Names of the year, month, week and day, which logs can be grouped by."""
    then: date = datetime.fromtimestamp(day * SECONDS_PER_DAY, UTC).date()
    year, week, _ = then.isocalendar()
    return {"year": f"{then:%Y}", "month": f"{then:%Y-%m}", "week": f"{year}-W{week:02d}", "day": f"{then:%Y-%m-%d}"}


CALENDAR_FIELDS: Final = ("year", "month", "week", "day")


def name_log(place: FileLocation) -> str:
    """What a log is called wherever it is told; the same from every folder."""
    return str(place.resolve()) if isinstance(place, Path) else str(place)


def list_tasks(template: Template, group_by: tuple[str, ...]) -> tuple[list[Task], list[Excluded]]:
    """Every log that matches, by name; and those that cannot be taken, with the reason."""
    found = template.logs()
    if not found:
        raise InputError(
            f"no log matches {template.text!r}", hint="{name} and * stand for one part of a path, ** for any folders"
        )
    constants = tuple(name for name in group_by if name not in (*template.fields, *CALENDAR_FIELDS))
    sidecars = _Sidecars(template)
    tasks: list[Task] = []
    excluded: list[Excluded] = []
    for listed, said in found:
        name = name_log(listed.place)
        try:
            day, sidecar = find_day(said, listed), sidecars.find_for(listed.place)
            tasks.append(Task(listed.place, name, listed.version, said, day, sidecar, constants))
        except MindynError as error:
            excluded.append(Excluded(name, format_reason(error)))
    return tasks, excluded


class _Sidecars:
    """All sidecar files from the template's root on, by one listing."""

    def __init__(self, template: Template) -> None:
        found = [one.place for one in list_matching(f"{template.root or './'}**/*.toml")]
        self._names = {str(place) for place in found}
        self._shared = {str(one.parent): parse_sidecar(one) for one in found if one.name == SHARED_SIDECAR_NAME}

    def find_for(self, place: FileLocation) -> Mapping[str, Any] | None:
        """What the nearest shared sidecar of the log's folder, or one above it, states; None where it has its own."""
        own = (place.with_name(f"{place.name}.toml"), place.with_name(f"{place.stem}.log.toml"))
        if any(str(one) in self._names for one in own):
            return None
        folder: FileLocation = place.parent
        while str(folder) not in self._shared and folder != folder.parent:
            folder = folder.parent
        return self._shared.get(str(folder), {})
