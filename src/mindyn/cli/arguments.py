"""Arguments and options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_type_hints

import typer

from mindyn.errors import Code, InputError
from mindyn.excitation.held_joints import joints_to_hold
from mindyn.findings import Finding
from mindyn.robots.description import Selection
from mindyn.robots.edits import MOUNTS
from mindyn.robots.loading import ROBOT_FORMATS, Base, RobotOptions, bundled_robots
from mindyn.robots.robot import Robot


def complete_robot(incomplete: str) -> Iterator[str]:
    """Complete bundled names, robot files and folders."""
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
    help="Name of a bundled robot, or a .toml, .urdf or MJCF .xml file.", autocompletion=complete_robot
)
"""For `Annotated[str, ROBOT_ARGUMENT]`."""


def complete_from(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a completion function for a list of names."""
    known = list(names)
    return lambda incomplete: [name for name in known if name.startswith(incomplete)]


VERBOSE_OPTION = typer.Option("--verbose", "-v", help="Print all rows, findings and notes.")
"""For `verbose: Annotated[bool, VERBOSE_OPTION]`."""
JSON_OPTION = typer.Option("--json", help="Print JSON.")
"""For `as_json: Annotated[bool, JSON_OPTION]`."""
MESHES_OPTION = typer.Option(
    "--meshes", help="Draw the meshes of the robot file if they are available; adds up to 5 MB."
)
"""For `meshes: Annotated[bool, MESHES_OPTION]`."""


FLOOR_OPTION = typer.Option(
    help="Height of the floor above the origin of the root, m; 0.0 if neither this nor a workspace is given."
)
NO_FLOOR_OPTION = typer.Option("--no-floor", help="Do not check against a floor.")
CLEARANCE_OPTION = typer.Option(help="Smallest distance to the floor, to obstacles and between links, m.")
TRACKING_ERROR_OPTION = typer.Option(help="Largest tracking error of the tip, m; added to the clearance.")
TIP_SPEED_OPTION = typer.Option(help="Largest speed of any point of the arm, m/s.")
LIMITS_OPTION = typer.Option(
    "--limits", help=".toml file with limits, workspace, obstacles, capsules, tool, noise, start and home."
)
RADIUS_OPTION = typer.Option(
    help="Give a link a capsule of this radius, m, between its joints. Repeatable.", metavar="LINK=M"
)
ACCEPT_UNCHECKED_OPTION = typer.Option(
    help="Accept that this link has no volume and is not checked. Repeatable.", metavar="LINK"
)
"""Options of the commands that check motions."""


MOVE_OPTION = typer.Option(help="Also move this joint of a gripper or propeller. Repeatable.", metavar="JOINT")


def load_and_hold(
    options: RobotOptions, source: str, move: Sequence[str] | None
) -> tuple[Robot, RobotOptions, tuple[Finding, ...]]:
    """Return the robot with held grippers and propellers, its options, and findings about the held joints."""
    robot = options.load(source)
    held, findings = joints_to_hold(robot, move or ())
    if not held:
        return robot, options, findings
    chosen = options.selection
    options = replace(options, selection=replace(chosen, lock={**chosen.lock, **held}))
    return options.load(source), options, findings


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


def resolve_floor(height: float | None, absent: bool) -> float | Literal["base plane"] | None:
    """Return the floor that --floor and --no-floor give."""
    require_exclusive({"--floor": height is not None, "--no-floor": absent})
    return None if absent else "base plane" if height is None else height


_ROBOT_OPTIONS: Final[dict[str, Any]] = {
    "lock": Annotated[
        list[str] | None,
        typer.Option(help="Hold a joint at this position, rad or m. Repeatable.", metavar="JOINT=VALUE"),
    ],
    "root": Annotated[str | None, typer.Option(help="Use this link as root and drop the links above it.")],
    "tip": Annotated[str | None, typer.Option(help="End the chain at this link or frame and drop side branches.")],
    "gravity": Annotated[
        tuple[float, float, float] | None, typer.Option(help="Gravity in the world frame, m/s^2.", metavar="X Y Z")
    ],
    "mount": Annotated[
        str | None, typer.Option(help=f"Mounting of the root: {', '.join(MOUNTS)}, or 'ROLL PITCH YAW' in rad.")
    ],
    "assembly": Annotated[
        list[str] | None,
        typer.Option(
            help="Approximate position of a joint, rad or m, that selects how loops are assembled. Repeatable.",
            metavar="JOINT=VALUE",
        ),
    ],
    "base": Annotated[Base, typer.Option(help="floating: the root moves freely, on six massless joints.")],
    "snap": Annotated[bool, typer.Option(help="Round angles within 1e-5 rad of a multiple of 15 degrees.")],
}
"""Options of every command that takes a robot: the options of `load_robot`."""

_ROBOT_DEFAULTS: Final[dict[str, Any]] = dict.fromkeys(_ROBOT_OPTIONS) | {"base": "fixed", "snap": True}
"""Default values of these options."""


def with_robot_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `options: RobotOptions` of a command by the options of `_ROBOT_OPTIONS`."""

    @wraps(command)
    def with_options(*args: Any, **keywords: Any) -> None:
        given_options = {name: keywords.pop(name, default) for name, default in _ROBOT_DEFAULTS.items()}
        command(*args, **keywords, options=parse_robot_options(**given_options))

    signature, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
    parameters = [p.replace(annotation=hints[p.name]) for p in signature.parameters.values() if p.name != "options"]
    robot_parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=_ROBOT_DEFAULTS[name])
        for name, kind in _ROBOT_OPTIONS.items()
    ]
    with_options.__signature__ = signature.replace(parameters=[*parameters, *robot_parameters])  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in (*parameters, *robot_parameters)} | {"return": None}
    return with_options


def parse_robot_options(
    lock: Sequence[str] | None,
    root: str | None,
    tip: str | None,
    gravity: tuple[float, ...] | None,
    mount: str | None,
    assembly: Sequence[str] | None,
    base: Base,
    snap: bool,
) -> RobotOptions:
    """Return the robot options that a command line gives."""
    held, stands = parse_assignments("--lock", lock), parse_assignments("--assembly", assembly)
    if gravity is not None and not all(map(isfinite, gravity)):
        raise InputError(
            f"--gravity {' '.join(map(str, gravity))} must be finite",
            hint="such as --gravity 0 0 -9.81",
            code=Code.NOT_FINITE,
            subject="--gravity",
        )
    return RobotOptions(snap, gravity, _parse_mount(mount), Selection(held, root, tip), stands or None, base)


def _parse_mount(text: str | None) -> str | tuple[float, ...] | None:
    if text is None or text in MOUNTS:
        return text
    try:
        angles = tuple(float(word) for word in text.replace(",", " ").split())
    except ValueError:
        angles = ()
    if len(angles) != 3 or not all(map(isfinite, angles)):
        raise InputError(
            f"--mount must be {', '.join(MOUNTS)} or three angles, got {text!r}",
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
            position = float(value)
            if not name or not isfinite(position):
                raise ValueError(value)
        except ValueError as error:
            raise InputError(
                f"{option} must be NAME=VALUE, got {text!r}",
                hint=f"such as {option} {example}",
                code=Code.WRONG_FORMAT,
                subject=option,
            ) from error
        if name in numbers:
            raise InputError(
                f"{option} is given twice for {name!r}", hint="pass each name once", code=Code.DUPLICATE, subject=name
            )
        numbers[name] = position
    return numbers
