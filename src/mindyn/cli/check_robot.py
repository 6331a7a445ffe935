"""Check whether the inertial parameters of a robot file can exist, for `mindyn check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from mindyn.cli.exit_codes import ExitCode
from mindyn.cli.printing import print_json, print_output, print_table
from mindyn.foundation.errors import Code, MissingPhysicsError, RobotError, pluralise

if TYPE_CHECKING:
    from mindyn.foundation.algebra.inertia import Consistency
    from mindyn.robots.parts import Link

ANSWERS: Final = {"consistent": "yes", "boundary": "yes", "inconsistent": "no", "unknown": "not given"}
"""Answer to "can this inertia exist?" for each status of `Consistency`."""


def is_robot(source: Path) -> bool:
    """Return whether an argument names a robot file or a bundled robot, rather than a run."""
    from mindyn.robots.loading import ROBOT_FORMATS, bundled_robots

    if source.suffix.lower() in ROBOT_FORMATS:
        return not source.is_dir()
    return not source.exists() and str(source) in bundled_robots()


def check_robot_file(source: Path, *, as_json: bool) -> None:
    """Print for each link of a robot file whether a body can have its inertial parameters; exit with 3 if not.

    The links are those of the file: a link on a fixed joint is not hidden by the link that carries it.
    """
    name, answers = _check_links(source)
    impossible = [entry for entry in answers if entry["status"] == "inconsistent"]
    if as_json:
        print_json({"robot": name, "possible": not impossible, "links": answers}, indent=2)
    else:
        given = [entry for entry in answers if entry["status"] != "unknown"]
        print_output(
            f"{name}: {pluralise(len(impossible), 'link')} of {len(given)} cannot exist"
            if impossible
            else f"{name}: bodies with the inertial parameters of all {len(given)} links can exist"
        )
        rows = [("link", "mass", "can exist", "reason")]
        rows += [
            (
                entry["link"],
                "" if entry["mass"] is None else f"{entry['mass']:.4g} kg",
                ANSWERS[entry["status"]],
                entry["reason"],
            )
            for entry in answers
        ]
        print_table(rows)
    if impossible:
        raise typer.Exit(ExitCode.NO)


def _check_links(source: Path) -> tuple[str, list[dict[str, Any]]]:
    """Return the name of a robot and the answer for each link that a file describes."""
    from mindyn.foundation.algebra.inertia import Consistency
    from mindyn.robots.loading import read_description

    try:
        description = read_description(str(source))
    except RobotError as error:
        if error.code is not Code.NOT_FEASIBLE:
            raise
        return source.name, [_to_dict(error.subject, Consistency("inconsistent", error.message), None)]
    rejected = description.unsupported_links
    for problem in rejected.values():
        if problem.code is not Code.NOT_FEASIBLE:
            raise problem
    if not rejected and not any(link.phi is not None for link in description.links):
        raise MissingPhysicsError(
            f"no link of {source.name} has inertial parameters, so there is nothing to check",
            hint="identify them from a log, or add <inertial> elements",
            subject=source.name,
        )
    return description.name, [_check_link(link, rejected.get(link.name)) for link in description.links]


def _check_link(link: Link, rejected: RobotError | None) -> dict[str, Any]:
    from mindyn.foundation.algebra.inertia import Consistency

    if rejected is not None:
        return _to_dict(link.name, Consistency("inconsistent", rejected.message), None)
    return _to_dict(link.name, link.consistency(), link)


def _to_dict(name: str, consistency: Consistency, link: Link | None) -> dict[str, Any]:
    from mindyn.foundation.algebra.inertia import mass_com_inertia

    mass = None if link is None or link.phi is None else mass_com_inertia(link.phi)[0]
    return {"link": name, "status": consistency.status, "reason": consistency.reason, "mass": mass}
