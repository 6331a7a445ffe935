"""`mindyn robots`: the bundled robots, or one robot as a table."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from mindyn.cli.arguments import JSON, ROBOT, takes_robot
from mindyn.robots.loading import RobotOptions, bundled_robots, load_robot
from mindyn.robots.robot import Robot
from mindyn.robots.table import robot_table, text_table


@takes_robot
def robots(
    robot: Annotated[str | None, ROBOT] = None,
    as_json: Annotated[bool, JSON] = False,
    details: Annotated[bool, typer.Option("--details", help="Every single case that a note sums up.")] = False,
    *,
    options: RobotOptions,
) -> None:
    """List the bundled robots, or show one robot."""
    if robot is not None:
        shown = options.load(robot)
        typer.echo(json.dumps(_summary(shown), indent=2) if as_json else robot_table(shown, details=details))
        return
    listed = [load_robot(name) for name in bundled_robots()]
    if as_json:
        typer.echo(json.dumps([_summary(entry) for entry in listed], indent=2))
        return
    rows = [("name", "joints", "drives", "source"), *(_row(entry) for entry in listed)]
    typer.echo(text_table(rows))


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
        "notes": [note.to_dict() for note in robot.notes],
        "selection": robot.selection.to_dict(),
        "source": robot.source,
    }
