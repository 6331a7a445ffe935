"""`mindyn robots`: the bundled robots, or one robot as a table."""

from __future__ import annotations

import json
from typing import Annotated, Final

import typer

from mindyn.cli.arguments import JSON, ROBOT, VERBOSE, takes_robot
from mindyn.cli.printing import show, show_table
from mindyn.robots.loading import RobotOptions, bundled_robots, load_robot
from mindyn.robots.robot import Robot
from mindyn.robots.table import joint_rows, robot_table

_MASS: Final = 9
SHOWN: Final = (0, 1, 2, 8, _MASS, 10)
"""Columns of the joints' table that tell the most: number, joint, type, range, mass, physical."""
MOST: Final = 12
"""Joints that are listed without being asked for."""


@takes_robot
def robots(
    robot: Annotated[str | None, ROBOT] = None,
    as_json: Annotated[bool, JSON] = False,
    details: Annotated[bool, typer.Option("--details", help="Every single case that a note sums up.")] = False,
    verbose: Annotated[bool, VERBOSE] = False,
    *,
    options: RobotOptions,
) -> None:
    """List the bundled robots, or show one robot."""
    if robot is not None:
        shown = options.load(robot)
        if as_json:
            typer.echo(json.dumps(_summary(shown), indent=2))
        elif details or verbose:
            typer.echo(robot_table(shown, details=details))
        else:
            _show(shown)
        return
    listed = [load_robot(name) for name in bundled_robots()]
    if as_json:
        typer.echo(json.dumps([_summary(entry) for entry in listed], indent=2))
        return
    rows = [("name", "joints", "drives", "source"), *(_row(entry) for entry in listed)]
    show_table(rows, cut=(3,))


def _show(robot: Robot) -> None:
    """The robot in a few lines: its joints with their ranges and masses, and what is worth knowing."""
    gears = f", drives of {len(robot.drives)} joints" if robot.drives else ""
    show(f"{robot.name}: {robot.joint_count} joints from {robot.root.name} to {robot.link_names[-1]}{gears}")
    rows = joint_rows(robot)
    show_table([tuple(row[k] for k in SHOWN) for row in rows[: MOST + 1]], numbers=(SHOWN.index(_MASS),))
    left = [f"{robot.joint_count - MOST} more joints"] if robot.joint_count > MOST else []
    left += [f"{len(robot.loops)} loops"] if robot.loops else []
    left += ["axes, origins and drives"]
    show(f"{', '.join(left)}: --verbose")
    for finding in robot.findings:
        show(f"{finding.severity}: {finding}", indent="  ")


def _kinds(robot: Robot) -> str:
    return "".join("R" if joint.kind == "revolute" else "P" for joint in robot.joints)


def _row(robot: Robot) -> tuple[str, ...]:
    source = robot.source if len(robot.source) <= 80 else robot.source[:77] + "..."
    return robot.name, _kinds(robot), str(len(robot.drives)) if robot.drives else "-", source


def _summary(robot: Robot) -> dict[str, object]:
    return {
        "name": robot.name,
        "joints": list(robot.joint_names),
        "kinds": _kinds(robot),
        "links": list(robot.link_names),
        "gravity": robot.gravity.tolist(),
        "consistency": {name: verdict.status for name, verdict in robot.consistency().items()},
        "findings": [finding.to_dict() for finding in robot.findings],
        "selection": robot.selection.to_dict(),
        "source": robot.source,
    }
