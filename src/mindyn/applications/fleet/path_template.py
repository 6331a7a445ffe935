"""`Template`: path patterns such as `s3://bucket/{robot_id}/{date}/*.parquet`, their matches and fields.

`list_tasks` returns the matching logs with the fields of their paths and their sidecars, by two listings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from mindyn.applications.fleet.gather_one_log import Excluded, Task, format_reason
from mindyn.foundation.errors import Code, InputError, MindynError
from mindyn.logs.locations import FileListing, FileLocation, list_matching, parse_location
from mindyn.logs.metadata import SHARED_SIDECAR_NAME, parse_sidecar

_FIELD_PATTERN: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
DATE_FIELD: Final = "date"
"""Name of the field with the date of a log."""
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
    """Path pattern with fields in braces; a field is one part of a path, or a piece of one.

    text  as given: `{name}` a field, `*` and `?` within the name of a folder, `**` any folders
    """

    text: str

    def __post_init__(self) -> None:
        rest = _FIELD_PATTERN.sub("", self.text)
        if "{" in rest or "}" in rest:
            raise InputError(
                f"the pattern {self.text!r} has braces without a valid field name",
                hint="write fields like 's3://bucket/{robot_id}/*.parquet'",
                code=Code.WRONG_FORMAT,
                subject=self.text,
            )
        parse_location(self.text)

    @property
    def fields(self) -> tuple[str, ...]:
        """Return the names of the fields, in the order of the path."""
        return tuple(dict.fromkeys(_FIELD_PATTERN.findall(self.text)))

    @property
    def pattern(self) -> str:
        """Return the pattern with `*` in place of every field."""
        return _FIELD_PATTERN.sub("*", self.text)

    @property
    def root(self) -> str:
        """Return the folders before the first field or wildcard."""
        fixed = re.split(r"[{*?\[]", self.text, maxsplit=1)[0]
        return fixed[: fixed.rfind("/") + 1]

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        place, seen = parse_location(self.text), set[str]()
        expression = ""
        for part in re.split(r"(\{\w+\}|\*\*/?|\*|\?)", str(place)):
            if field := _FIELD_PATTERN.fullmatch(part):
                name = field[1]
                expression += f"(?P={name})" if name in seen else f"(?P<{name}>[^/]+?)"
                seen.add(name)
            else:
                expression += {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part) or re.escape(part)
        return re.compile(expression)

    def parse_fields(self, place: FileLocation) -> dict[str, str] | None:
        """Return the values of the fields in a path or URL; None if it does not match."""
        match = self._expression.fullmatch(str(place))
        return None if match is None else match.groupdict()


def find_day(fields: Mapping[str, str], listed: FileListing) -> float | None:
    """Return the date of a log in days since 1970.

    The date is that of the field `date`, else of the calendar fields: {day} or {month} with a whole date such as
    2026-11, or {year}, {month} and {day} together; else it is the modification date of the file.
    """
    if (text := fields.get(DATE_FIELD)) is not None:
        day_of_field = parse_day(text)
        if day_of_field is None:
            raise InputError(
                f"the date {text!r} of {listed.place} cannot be read",
                hint="write dates like 2026-11-15 or 20261115, or give the field another name if it is not a date",
                code=Code.WRONG_FORMAT,
                subject=text,
            )
        return day_of_field
    parts = [fields.get(name, "") for name in ("year", "month", "day")]
    for text in (parts[2], parts[1], "-".join(filter(None, parts))):
        if (day := parse_day(text)) is not None:
            return day
    return None if listed.changed is None else listed.changed / SECONDS_PER_DAY


def parse_day(text: str) -> float | None:
    """Return the days since 1970 of a date in the name of a folder; None if it is not a date."""
    for form in _DATE_FORMATS:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp() / SECONDS_PER_DAY
        except ValueError:
            continue
    return None


def calendar_fields(day: float) -> dict[str, str]:
    """Return the year, month, week and day, by which logs can be grouped."""
    then: date = datetime.fromtimestamp(day * SECONDS_PER_DAY, UTC).date()
    year, week, _ = then.isocalendar()
    return {"year": f"{then:%Y}", "month": f"{then:%Y-%m}", "week": f"{year}-W{week:02d}", "day": f"{then:%Y-%m-%d}"}


CALENDAR_FIELDS: Final = ("year", "month", "week", "day")


def list_tasks(template: Template, group_by: tuple[str, ...]) -> tuple[list[Task], list[Excluded]]:
    """Return every matching log by name, and logs that cannot be used with the reason."""
    listings = ((log, template.parse_fields(log.place)) for log in list_matching(template.pattern))
    matches = [(log, fields) for log, fields in listings if fields is not None]
    if not matches:
        raise InputError(
            f"no log matches {template.text!r}",
            hint="{name} and * match one part of a path, ** matches any folders",
            code=Code.MISSING_FILE,
            subject=template.text,
        )
    constants = tuple(name for name in group_by if name not in (*template.fields, *CALENDAR_FIELDS))
    sidecars = _Sidecars(template)
    tasks: list[Task] = []
    excluded: list[Excluded] = []
    first_error: MindynError | None = None
    for listed, fields in matches:
        place = listed.place
        if listed.problem:
            excluded.append(Excluded(str(place.absolute() if isinstance(place, Path) else place), listed.problem))
            continue
        name = str(place.resolve()) if isinstance(place, Path) else str(place)  # independent of the current folder
        try:
            day, sidecar = find_day(fields, listed), sidecars.find_for(place)
            tasks.append(Task(place, name, listed.version, fields, day, sidecar, constants))
        except MindynError as error:
            first_error = first_error or error
            excluded.append(Excluded(name, format_reason(error)))
    if not tasks and first_error is not None:
        raise first_error
    return tasks, excluded


class _Sidecars:
    """All sidecar files below the root of the template, by one listing."""

    def __init__(self, template: Template) -> None:
        places = [file.place for file in list_matching(f"{template.root or './'}**/*.toml")]
        self._names = {str(place) for place in places}
        self._shared = {str(file.parent): _try_sidecar(file) for file in places if file.name == SHARED_SIDECAR_NAME}

    def find_for(self, place: FileLocation) -> Mapping[str, Any] | None:
        """Return the nearest shared sidecar in the folder of the log or above; None if the log has its own.

        Raise the error of a shared sidecar that cannot be read.
        """
        own_sidecars = (place.with_name(f"{place.name}.toml"), place.with_name(f"{place.stem}.log.toml"))
        if any(str(path) in self._names for path in own_sidecars):
            return None
        folder: FileLocation = place.parent
        while str(folder) not in self._shared and folder != folder.parent:
            folder = folder.parent
        shared = self._shared.get(str(folder), {})
        if isinstance(shared, MindynError):
            raise shared
        return shared


def _try_sidecar(place: FileLocation) -> Mapping[str, Any] | MindynError:
    """Return a shared sidecar, or its error, which concerns only the logs below its folder."""
    try:
        return parse_sidecar(place)
    except MindynError as error:
        return error
