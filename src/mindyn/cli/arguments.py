"""Arguments and options that several commands share."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from mindyn.cli.choices import MOUNT_NAMES, RootJoint
from mindyn.cli.printing import print_notes
from mindyn.foundation.errors import Code, InputError, MindynError
from mindyn.foundation.findings import Finding

if TYPE_CHECKING:
    from mindyn.robots.loading import RobotOptions
    from mindyn.robots.robot import Robot


def suggest_robots(incomplete: str) -> Iterator[str]:
    """Complete bundled names, robot files and folders."""
    from mindyn.robots.loading import ROBOT_FORMATS, bundled_robots

    yield from (name for name in bundled_robots() if name.startswith(incomplete))
    folder, start = incomplete.rpartition("/")[::2]
    inside = Path(f"{folder}/") if "/" in incomplete else Path()
    lead = incomplete.removesuffix(start) if start else incomplete
    for entry in sorted(inside.iterdir()) if inside.is_dir() else []:
        if entry.name.startswith(start) and (start or not entry.name.startswith(".")):
            if entry.is_dir():
                yield f"{lead}{entry.name}/"
            elif entry.suffix.lower() in ROBOT_FORMATS:
                yield f"{lead}{entry.name}"


ROBOT_ARGUMENT = typer.Argument(
    help="A .urdf, MJCF .xml or .toml file, or a bundled robot.", autocompletion=suggest_robots
)
"""For `Annotated[str, ROBOT_ARGUMENT]`."""


def complete_from(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a completion function for a list of names."""
    known = list(names)
    return lambda incomplete: [name for name in known if name.startswith(incomplete)]


OUTPUT_PANEL = "Output"
"""Group of options in the help, about what is written and printed."""
VERBOSE_OPTION = typer.Option(
    "--verbose", "-v", help="Print all rows, findings and notes.", rich_help_panel=OUTPUT_PANEL
)
"""For `verbose: Annotated[bool, VERBOSE_OPTION]`."""
JSON_OPTION = typer.Option("--json", help="Print JSON.", rich_help_panel=OUTPUT_PANEL)
"""For `as_json: Annotated[bool, JSON_OPTION]`."""
MESHES_OPTION = typer.Option(
    "--meshes", help="Draw the meshes of the robot file; adds up to 5 MB.", rich_help_panel=OUTPUT_PANEL
)
"""For `meshes: Annotated[bool, MESHES_OPTION]`."""


def load_and_hold(
    options: RobotOptions, source: str, move: Sequence[str]
) -> tuple[Robot, RobotOptions, tuple[Finding, ...]]:
    """Return the robot with held grippers and propellers, its options, and findings about the held joints."""
    from mindyn.motions.excitation.held_joints import joints_to_hold  # loads CasADi

    robot = options.load(source)
    held, findings = joints_to_hold(robot, move)
    if not held:
        return robot, options, findings
    chosen = options.selection
    options = replace(options, selection=replace(chosen, lock={**chosen.lock, **held}))
    return options.load(source), options, findings


def hold_unlogged_gripper(
    robot: Robot, options: RobotOptions, load: Callable[[RobotOptions], Robot], fits: Callable[[Robot], bool]
) -> tuple[Robot, RobotOptions]:
    """Return the robot with its gripper held, as `mindyn excite` does, if the logs only match this robot; print a note.

    load  loads the robot with changed options
    fits  whether the logs have the columns of a robot
    """
    if fits(robot):
        return robot, options
    from mindyn.motions.excitation.held_joints import joints_to_hold  # loads CasADi

    held, _ = joints_to_hold(robot)
    if not held:
        return robot, options
    chosen = options.selection
    changed = replace(options, selection=replace(chosen, lock={**chosen.lock, **held}))
    without = load(changed)
    if not fits(without):
        return robot, options
    locks = " ".join(f"--lock {name}={position:g}" for name, position in held.items())
    print_notes([f"the logs have no columns for {', '.join(held)} of the gripper: held by {locks}"])
    return without, changed


def require_exclusive(options: Mapping[str, object]) -> None:
    """Raise `InputError` if more than one of these options is given."""
    given = [name for name, value in options.items() if value]
    if len(given) > 1:
        message = f"{' and '.join(given)} exclude each other"
        raise InputError(message, hint="pass only one of them", code=Code.DISAGREEMENT, subject=given[1])


def require_companion(option: str, given: object, needed: str, present: object) -> None:
    """Raise `InputError` if an option is given without another option that it needs."""
    if given and not present:
        hint = f"add {needed}, or omit {option}"
        raise InputError(f"{option} needs {needed}", hint=hint, code=Code.MISSING_VALUE, subject=option)


def option_group(
    parameter: str, parse: Callable[..., Any], panel: str = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a parameter of a command by those of `parse`, with their options and defaults; pass it the result.

    panel  title of these options in the help
    """
    declared = inspect.signature(parse).parameters.values()

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_group(*args: Any, **keywords: Any) -> None:
            given = {entry.name: keywords.pop(entry.name, entry.default) for entry in declared}
            try:
                command(*args, **keywords, **{parameter: parse(**given)})
            except MindynError as error:
                if keywords.get("robot") is not None:
                    error.fill_command(ROBOT=keywords["robot"])
                raise

        grouped = _resolve_hints(parse)
        for option in (option for hint in grouped.values() for option in getattr(hint, "__metadata__", ())):
            option.rich_help_panel = option.rich_help_panel or panel or None
        hints = grouped | _resolve_hints(command)
        accepted = inspect.signature(command).parameters.values()
        listed = [entry for given in accepted for entry in (declared if given.name == parameter else [given])]
        parameters = [entry.replace(kind=entry.KEYWORD_ONLY, annotation=hints[entry.name]) for entry in listed]
        with_group.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_group.__annotations__ = {entry.name: entry.annotation for entry in parameters} | {"return": None}
        return with_group

    return decorate


def _resolve_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function; types that it imports only when it runs become `object`."""
    known = {**vars(builtins), **function.__globals__}
    names = (text for text in function.__annotations__.values() if isinstance(text, str))
    late = {name: object for name in names if name.isidentifier() and name not in known}
    return get_type_hints(function, localns=late, include_extras=True)


def parse_robot_options(
    lock: Annotated[
        list[str] | None,
        typer.Option(help="Hold a joint at a position, rad or m. Repeatable.", metavar="JOINT=VALUE"),
    ] = None,
    root: Annotated[str | None, typer.Option(help="Drop the links above this one.", metavar="LINK")] = None,
    tip: Annotated[str | None, typer.Option(help="Drop what is beyond this link or frame.", metavar="LINK")] = None,
    gravity: Annotated[
        tuple[float, float, float] | None, typer.Option(help="Gravity in the world frame, m/s^2.", metavar="X Y Z")
    ] = None,
    mount: Annotated[
        str | None,
        typer.Option(help=f"Mounting: {', '.join(MOUNT_NAMES)}, or 'ROLL PITCH YAW' in rad.", metavar="MOUNT"),
    ] = None,
    assembly: Annotated[
        list[str] | None,
        typer.Option(help="Near which position a loop is assembled, rad or m. Repeatable.", metavar="JOINT=VALUE"),
    ] = None,
    base: Annotated[RootJoint, typer.Option(help="Whether the root is fixed or moves freely.")] = "fixed",
    snap: Annotated[bool, typer.Option(help="Round angles within 1e-5 rad of multiples of 15 deg.")] = True,
) -> RobotOptions:
    """Return the options of `load_robot` that a command line gives."""
    from mindyn.robots.description import Selection
    from mindyn.robots.loading import RobotOptions

    held, stands = parse_assignments("--lock", lock), parse_assignments("--assembly", assembly)
    if gravity is not None and not all(map(isfinite, gravity)):
        raise InputError(
            f"--gravity {' '.join(map(str, gravity))} must be finite",
            hint="such as --gravity 0 0 -9.81",
            code=Code.NOT_FINITE,
            subject="--gravity",
        )
    return RobotOptions(snap, gravity, _parse_mount(mount), Selection(held, root, tip), stands or None, base)


with_robot_options = option_group("options", parse_robot_options, "Robot")
"""Replace the parameter `options: RobotOptions` of a command that takes a robot."""


def _parse_mount(text: str | None) -> str | tuple[float, ...] | None:
    if text is None or text in MOUNT_NAMES:
        return text
    try:
        angles = tuple(float(word) for word in text.replace(",", " ").split())
    except ValueError:
        angles = ()
    if len(angles) != 3 or not all(map(isfinite, angles)):
        raise InputError(
            f"--mount must be {', '.join(MOUNT_NAMES)} or three angles, got {text!r}",
            hint="such as --mount ceiling, or --mount '0 0.7854 0' (roll, pitch, yaw in rad)",
            code=Code.INVALID_VALUE,
            subject="--mount",
        )
    return angles


def parse_assignments(
    option: str, texts: Sequence[str] | None, example: str = "gripper=0.02, in rad or m"
) -> dict[str, float]:
    """Return the numbers of a repeated option NAME=VALUE."""
    numbers: dict[str, float] = {}
    for text in texts or ():
        name, _, value = text.rpartition("=")
        try:
            number = float(value)
            if not name or not isfinite(number):
                raise ValueError(value)
        except ValueError as error:
            raise assignment_error(option, "NAME=VALUE", text, f"{option} {example}") from error
        if name in numbers:
            raise InputError(
                f"{option} is given twice for {name!r}", hint="pass each name once", code=Code.DUPLICATE, subject=name
            )
        numbers[name] = number
    return numbers


def assignment_error(option: str, form: str, text: str, example: str) -> InputError:
    """Return the error of an option that is not of the form NAME=VALUE."""
    message = f"{option} must be {form}, got {text!r}"
    return InputError(message, hint=f"such as {example}", code=Code.WRONG_FORMAT, subject=option)


def split_assignment(option: str, form: str, text: str, example: str) -> tuple[str, str]:
    """Return both sides of NAME=FILE."""
    name, _, file = text.partition("=")
    if not name or not file:
        raise assignment_error(option, form, text, example)
    return name, file
