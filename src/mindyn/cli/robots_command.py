"""`mindyn robots`: list the bundled robots, or show one robot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from mindyn.cli.arguments import JSON_OPTION, ROBOT_ARGUMENT, VERBOSE_OPTION, with_robot_options
from mindyn.cli.printing import print_json, print_output, print_table
from mindyn.foundation.errors import pluralise
from mindyn.foundation.pages.document import format_plural

if TYPE_CHECKING:
    from mindyn.robots.loading import RobotOptions
    from mindyn.robots.robot import Robot

MAX_LISTED_JOINTS: Final = 12
"""Most joints of the short table."""


@with_robot_options
def robots(
    robot: Annotated[str | None, ROBOT_ARGUMENT] = None,
    as_json: Annotated[bool, JSON_OPTION] = False,
    details: Annotated[bool, typer.Option("--details", help="Print every case that a finding summarizes.")] = False,
    verbose: Annotated[bool, VERBOSE_OPTION] = False,
    identified: Annotated[
        bool, typer.Option("--identified", help="List the robots whose dynamics were identified from measurements.")
    ] = False,
    *,
    options: RobotOptions,
) -> None:
    """List the bundled robots, or show one robot."""
    from mindyn.robots.loading import bundled_robots, load_robot
    from mindyn.robots.table import robot_table

    if robot is not None:
        shown = options.load(robot)
        if as_json:
            print_json(_robot_data(shown), indent=2)
        elif details or verbose:
            print_output(robot_table(shown, details=details))
        else:
            _print_robot(shown)
        return
    if identified:
        _print_identified(as_json=as_json)
        return
    listed = [load_robot(name) for name in bundled_robots()]
    if as_json:
        print_json([_robot_data(entry) for entry in listed], indent=2)
        return
    rows = [("name", "joints", "drives", "source"), *(_robot_row(entry) for entry in listed)]
    print_table(rows)


def _print_identified(*, as_json: bool) -> None:
    """Print the identified robots and motors, and the recipes; as JSON the robots alone."""
    from mindyn.robots.loading import identified_robots, zoo_recipes
    from mindyn.robots.motors import identified_motors

    zoo, motors = identified_robots(), identified_motors()
    if as_json:
        print_json(zoo, indent=2)
        return
    rows: list[tuple[str, ...]] = [("name", "robot", "held-out error", "licence")]
    for name, entry in zoo.items():
        error = f"{100 * entry['held_out']['total']:.1f} % of {entry['held_out'].get('quantity', 'torque')}"
        rows.append((name, entry["title"], error, entry["licence"]))
    print_table(rows)
    print_output("Each was measured on one robot; other robots of the type have another payload and friction.")
    print_output()
    rows = [("motor", "of", "gain", "friction, N m", "rotor, kg m^2")]
    for name, entry in motors.items():
        values = {parameter["name"]: f"{parameter['value']:.3g}" for parameter in entry["parameters"]}
        cells = (entry["measured_in"]["robot"], values.get("gain", "-"), values["coulomb"], values["rotor_inertia"])
        rows.append((name, *cells))
    print_table(rows)
    print_output('At the output of the gear. A drive of a robot file refers to one with motor = "NAME".')
    print_output()
    rows = [("recipe for", "licence of its log", "command in a clone of the repository")]
    rows += [(entry["title"], entry["licence"], entry["command"]) for entry in zoo_recipes().values()]
    print_table(rows)


def _print_robot(robot: Robot) -> None:
    """Print the joints with ranges and masses, and the findings about the robot."""
    from mindyn.robots.table import count_joints, tabulate_joints

    gears = f", {pluralise(len(robot.drives), 'drive')}" if robot.drives else ""
    print_output(f"{robot.name}: {count_joints(robot)} from {robot.root.name} to {robot.link_names[-1]}{gears}")
    rows = tabulate_joints(robot)
    print_table(rows[: MAX_LISTED_JOINTS + 1])
    left = [f"{len(rows) - 1 - MAX_LISTED_JOINTS} more joints"] if len(rows) - 1 > MAX_LISTED_JOINTS else []
    left += [format_plural(len(robot.loops), "loop")] if robot.loops else []
    left += ["axes, origins and drives"]
    print_output(f"Pass --verbose for {', '.join(left)}.")
    for finding in robot.findings:
        print_output(f"{finding.severity}: {finding}", indent="  ")


def _joint_letters(robot: Robot) -> str:
    return "".join("R" if joint.kind == "revolute" else "P" for joint in robot.joints)


def _robot_row(robot: Robot) -> tuple[str, ...]:
    source = robot.source if len(robot.source) <= 40 else robot.source[:37] + "..."
    return robot.name, _joint_letters(robot), str(len(robot.drives)) if robot.drives else "-", source


def _robot_data(robot: Robot) -> dict[str, object]:
    return {
        "name": robot.name,
        "joints": list(robot.joint_names),
        "kinds": _joint_letters(robot),
        "links": list(robot.link_names),
        "gravity": robot.gravity.tolist(),
        "consistency": {name: verdict.status for name, verdict in robot.consistency().items()},
        "findings": [finding.to_dict() for finding in robot.findings],
        "selection": robot.selection.to_dict(),
        "source": robot.source,
    }
