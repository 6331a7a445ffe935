"""Arguments that commands share: what they mean, and how a shell completes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_type_hints

import typer

from mindyn.errors import InputError
from mindyn.excitation.held_joints import joints_to_hold
from mindyn.findings import Finding
from mindyn.robots.description import Selection
from mindyn.robots.edits import MOUNTS
from mindyn.robots.loading import ROBOT_FORMATS, RobotOptions, bundled_robots
from mindyn.robots.robot import Robot


def complete_robot(incomplete: str) -> Iterator[str]:
    """Bundled names, robot files and folders that begin with what was typed."""
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
    help="A bundled name, or a .toml, .urdf or MJCF .xml file.", autocompletion=complete_robot
)
"""For `Annotated[str, ROBOT_ARGUMENT]`."""


def complete_from(names: Iterable[str]) -> Callable[[str], list[str]]:
    """For `autocompletion=`: the names that begin with what was typed."""
    known = list(names)
    return lambda incomplete: [name for name in known if name.startswith(incomplete)]


VERBOSE_OPTION = typer.Option("--verbose", "-v", help="Print every row and every note.")
"""For `verbose: Annotated[bool, VERBOSE_OPTION]`."""
JSON_OPTION = typer.Option("--json", help="Print JSON.")
"""For `as_json: Annotated[bool, JSON_OPTION]`."""
MESHES_OPTION = typer.Option(
    "--meshes", help="Draw the meshes that the URDF names, where its files are at hand; up to 5 MB."
)
"""For `meshes: Annotated[bool, MESHES_OPTION]`."""


FLOOR_OPTION = typer.Option(help="Height of the floor above the root's origin, m; 0.0 unless the workspace states one.")
NO_FLOOR_OPTION = typer.Option("--no-floor", help="There is no floor.")
CLEARANCE_OPTION = typer.Option(help="Distance to floor, obstacles and between links, m.")
TRACKING_ERROR_OPTION = typer.Option(help="By which the tip may leave the path, m; added to the clearance.")
TIP_SPEED_OPTION = typer.Option(help="Largest speed of any point of the arm, m/s.")
LIMITS_OPTION = typer.Option(
    "--limits", help="A .toml with limits, workspace, obstacles, capsules, tool, noise, start and home."
)
RADIUS_OPTION = typer.Option(
    help="LINK=M: a volume of this radius between the link's joints. Repeatable.", metavar="LINK=M"
)
ACCEPT_UNCHECKED_OPTION = typer.Option(help="Accept that this link has no volume. Repeatable.", metavar="LINK")
"""Options of the commands that check motions."""


MOVE_OPTION = typer.Option(help="Move this joint of a gripper or propeller too. Repeatable.", metavar="JOINT")


def load_and_hold(
    options: RobotOptions, source: str, move: Sequence[str] | None
) -> tuple[Robot, RobotOptions, tuple[Finding, ...]]:
    """Return the robot with its grippers and propellers held, the options that say so, and a finding about it."""
    robot = options.load(source)
    held, findings = joints_to_hold(robot, move or ())
    if not held:
        return robot, options, findings
    chosen = options.selection
    options = replace(options, selection=replace(chosen, lock={**chosen.lock, **held}))
    return options.load(source), options, findings


def resolve_floor(height: float | None, absent: bool) -> float | Literal["base plane"] | None:
    """Return the floor that --floor and --no-floor state."""
    if absent and height is not None:
        raise InputError("--floor and --no-floor exclude each other", hint="give only one of them")
    return None if absent else "base plane" if height is None else height


_ROBOT_OPTIONS: Final[dict[str, Any]] = {
    "lock": Annotated[
        list[str] | None,
        typer.Option(help="JOINT=VALUE: hold a joint there, rad or m. Repeatable.", metavar="JOINT=VALUE"),
    ],
    "root": Annotated[str | None, typer.Option(help="Take this link as root; what is above it is left out.")],
    "tip": Annotated[
        str | None, typer.Option(help="End with this link or frame; what hangs beside the chain to it is left out.")
    ],
    "gravity": Annotated[
        tuple[float, float, float] | None, typer.Option(help="X Y Z of the world, m/s^2.", metavar="X Y Z")
    ],
    "mount": Annotated[
        str | None,
        typer.Option(help=f"{', '.join(MOUNTS)}, or 'ROLL PITCH YAW' of the root in the world, rad."),
    ],
    "assembly": Annotated[
        list[str] | None,
        typer.Option(
            help="JOINT=VALUE: a place near which loops are assembled the way that is meant, rad or m. Repeatable.",
            metavar="JOINT=VALUE",
        ),
    ],
    "snap": Annotated[bool, typer.Option(help="Take angles within 1e-5 rad of a multiple of 15 degrees as that.")],
}
"""Options of every command that takes a robot: what `load_robot` can be told."""

_ROBOT_DEFAULTS: Final[dict[str, Any]] = dict.fromkeys(_ROBOT_OPTIONS) | {"snap": True}
"""Their values where nothing is said, on a command line or where the command is called as a function."""


def with_robot_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of `_ROBOT_OPTIONS` in place of its parameter `options: RobotOptions`."""

    @wraps(command)
    def with_options(*args: Any, **given: Any) -> None:
        stated = {name: given.pop(name, unsaid) for name, unsaid in _ROBOT_DEFAULTS.items()}
        command(*args, **given, options=parse_robot_options(**stated))

    signature, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
    own = [p.replace(annotation=hints[p.name]) for p in signature.parameters.values() if p.name != "options"]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=_ROBOT_DEFAULTS[name])
        for name, kind in _ROBOT_OPTIONS.items()
    ]
    with_options.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in (*own, *more)} | {"return": None}
    return with_options


def parse_robot_options(
    lock: Sequence[str] | None,
    root: str | None,
    tip: str | None,
    gravity: tuple[float, ...] | None,
    mount: str | None,
    assembly: Sequence[str] | None,
    snap: bool,
) -> RobotOptions:
    """What the options of a command line say."""
    held, stands = parse_assignments("--lock", lock), parse_assignments("--assembly", assembly)
    if gravity is not None and not all(map(isfinite, gravity)):
        raise InputError(f"--gravity {' '.join(map(str, gravity))} must be finite", hint="--gravity 0 0 -9.81")
    return RobotOptions(snap, gravity, _parse_mount(mount), Selection(held, root, tip), stands or None)


def _parse_mount(text: str | None) -> str | tuple[float, ...] | None:
    if text is None or text in MOUNTS:
        return text
    try:
        angles = tuple(float(word) for word in text.replace(",", " ").split())
    except ValueError:
        angles = ()
    if len(angles) != 3 or not all(map(isfinite, angles)):
        raise InputError(
            f"--mount {text!r} is none of {', '.join(MOUNTS)} nor three angles",
            hint="--mount ceiling, or --mount '0 0.7854 0' for roll, pitch, yaw in rad",
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
            raise InputError(f"{option} {text!r} is not NAME=VALUE", hint=f"like {option} {example}") from error
        if name in numbers:
            raise InputError(f"{option} names {name!r} twice", hint="give each once")
        numbers[name] = position
    return numbers
