"""`listed_tasks`: the logs that a template matches, with what their paths and sidecars say, by two listings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mindyn.errors import InputError, MindynError
from mindyn.fleet.template import CALENDAR, Template, day_of, name_of
from mindyn.fleet.work import Excluded, Task, one_line
from mindyn.logs.places import Place, matching
from mindyn.logs.statement import SHARED_SIDECAR, statement_of


def listed_tasks(template: Template, group_by: tuple[str, ...]) -> tuple[list[Task], list[Excluded]]:
    """Every log that matches, by name; and those that cannot be taken, with the reason."""
    found = template.logs()
    if not found:
        raise InputError(
            f"no log matches {template.text!r}", hint="{name} and * stand for one part of a path, ** for any folders"
        )
    constants = tuple(name for name in group_by if name not in (*template.fields, *CALENDAR))
    sidecars = _Sidecars(template)
    tasks: list[Task] = []
    excluded: list[Excluded] = []
    for listed, said in found:
        name = name_of(listed.place)
        try:
            day, sidecar = day_of(said, listed), sidecars.of(listed.place)
            tasks.append(Task(listed.place, name, listed.version, said, day, sidecar, constants))
        except MindynError as error:
            excluded.append(Excluded(name, one_line(error)))
    return tasks, excluded


class _Sidecars:
    """All sidecar files from the template's root on, by one listing."""

    def __init__(self, template: Template) -> None:
        found = [one.place for one in matching(f"{template.root or './'}**/*.toml")]
        self._names = {str(place) for place in found}
        self._shared = {str(one.parent): statement_of(one) for one in found if one.name == SHARED_SIDECAR}

    def of(self, place: Place) -> Mapping[str, Any] | None:
        """What the nearest shared sidecar of the log's folder, or one above it, states; None where it has its own."""
        own = (place.with_name(f"{place.name}.toml"), place.with_name(f"{place.stem}.log.toml"))
        if any(str(one) in self._names for one in own):
            return None
        folder: Place = place.parent
        while str(folder) not in self._shared and folder != folder.parent:
            folder = folder.parent
        return self._shared.get(str(folder), {})
