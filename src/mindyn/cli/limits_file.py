"""`read_limits_file`: the file of --limits: limits of the joints, and the surroundings of the robot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mindyn.cli.arguments import option_group, parse_assignments, require_exclusive
from mindyn.cli.choices import CLEARANCE_M, TIP_SPEED, TRACKING_ERROR_M
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.findings import Finding
from mindyn.foundation.safe_reading import read_settings_toml
from mindyn.foundation.schemas import (
    ANY_NUMBER,
    ANY_TEXT,
    Schema,
    list_schema,
    require_valid,
    require_valid_file,
    table_schema,
)

if TYPE_CHECKING:
    from mindyn.motions.excitation.constraints import Box
    from mindyn.motions.excitation.motion_safety import SafetySettings
    from mindyn.motions.excitation.volumes import Capsule
    from mindyn.robots.robot import Robot

_POINT: Final = list_schema(ANY_NUMBER, minItems=3, maxItems=3)
_CORNER: Final = list_schema({"type": ["number", "infinite"]}, minItems=3, maxItems=3)
_BOX: Final = table_schema({"lower": _CORNER, "upper": _CORNER})
_CAPSULE: Final = table_schema({"a": _POINT, "radius": ANY_NUMBER}, {"b": _POINT, "link": ANY_TEXT})
"""A capsule is a sphere without b; it moves if it names a link."""
SURROUNDINGS_SCHEMAS: Final[Mapping[str, Schema]] = {
    "workspace": table_schema({}, {"lower": _CORNER, "upper": _CORNER, "floor": ANY_NUMBER}),
    **dict.fromkeys(("capsules", "tool"), list_schema(_CAPSULE)),
    "obstacles": list_schema({"type": "object"}),
    "noise": list_schema(ANY_NUMBER, "number"),
    **dict.fromkeys(("start", "home"), list_schema(ANY_NUMBER)),
}


def limits_file_schema() -> Schema:
    """Return the JSON Schema of a file of limits."""
    from mindyn.motions.excitation.limits import LIMITS

    return {**LIMITS, "properties": {**LIMITS["properties"], **SURROUNDINGS_SCHEMAS}}


@dataclass(frozen=True, slots=True, eq=False)
class MotionOptions:
    """The options --limits to --move: the file of limits, joints that also move, and what a motion must not hit."""

    limits: Path | None
    move: tuple[str, ...]
    safety: SafetySettings


def parse_motion_options(
    limits: Annotated[
        Path | None,
        typer.Option("--limits", help=".toml file with limits, workspace, obstacles, tool, noise, start, home."),
    ] = None,
    floor: Annotated[
        float | None,
        typer.Option(help="Height of the floor above the root, m; 0 without a workspace."),
    ] = None,
    no_floor: Annotated[bool, typer.Option("--no-floor", help="Do not check against a floor.")] = False,
    clearance: Annotated[
        float, typer.Option(help="Smallest distance to floor, obstacles and own links, m.")
    ] = CLEARANCE_M,
    tracking_error: Annotated[
        float, typer.Option(help="Tracking error of the tip, m; added to the clearance.")
    ] = TRACKING_ERROR_M,
    tip_speed: Annotated[float, typer.Option(help="Largest speed of any point of the arm, m/s.")] = TIP_SPEED,
    radius: Annotated[
        list[str] | None,
        typer.Option(help="Volume of a link: a capsule of this radius, m. Repeatable.", metavar="LINK=M"),
    ] = None,
    accept_unchecked: Annotated[
        list[str] | None,
        typer.Option(help="Do not check this link, which has no volume. Repeatable.", metavar="LINK"),
    ] = None,
    move: Annotated[
        list[str] | None,
        typer.Option(help="Also move this gripper or propeller joint. Repeatable.", metavar="JOINT"),
    ] = None,
) -> MotionOptions:
    """Return the options of commands that check motions."""
    from mindyn.motions.excitation.motion_safety import SafetySettings

    require_exclusive({"--floor": floor is not None, "--no-floor": no_floor})
    safety = SafetySettings(
        floor=None if no_floor else "base plane" if floor is None else floor,
        radius=parse_assignments("--radius", radius, "link5=0.08, in m"),
        accept_unchecked=tuple(accept_unchecked or ()),
        clearance_m=clearance,
        tracking_error_m=tracking_error,
        tip_speed=tip_speed,
    )
    return MotionOptions(limits, tuple(move or ()), safety)


with_motion_options = option_group("motion", parse_motion_options, "Safety")
"""Replace the parameter `motion: MotionOptions` of a command."""


@dataclass(frozen=True, slots=True, eq=False)
class LimitsFile:
    """What a limits file states: the limits of joints by key, and arguments of `SafetySettings` by name."""

    bounds: dict[str, Any] = field(default_factory=dict)
    surroundings: dict[str, Any] = field(default_factory=dict)
    noise: Any = None
    start: Any = None
    home: Any = None


def read_limits_file(path: Path | None, robot: Robot, held: Iterable[Finding] = ()) -> LimitsFile:
    """Return what the file states, without the limits of held joints; nothing for None.

    held  findings that name the held joints
    """
    if path is None:
        return LimitsFile()
    hint = "for example: velocity = { joint1 = 2.0 }"
    given = read_settings_toml(path, "file of limits", InputError, hint)
    require_valid_file(given, limits_file_schema(), path.name, hint=hint)
    absent = {name for finding in held for name in finding.joints} - set(robot.joint_names)
    bounds = {
        key: {joint: limit for joint, limit in value.items() if joint not in absent}
        if isinstance(value, dict)
        else value
        for key, value in given.items()
        if key not in SURROUNDINGS_SCHEMAS
    }
    surroundings = {
        "obstacles": tuple(
            _read_obstacle(entry, f"{path.name}.obstacles[{k}]") for k, entry in enumerate(given.get("obstacles", []))
        ),
        "workspace": _read_workspace(given.get("workspace")),
        "tool": tuple(_read_capsule(entry, robot.link_names[-1]) for entry in given.get("tool", [])),
        "capsules": tuple(_read_capsule(entry) for entry in given.get("capsules", [])),
    }
    return LimitsFile(bounds, surroundings, given.get("noise"), given.get("start"), given.get("home"))


def _read_obstacle(entry: Any, where: str) -> Capsule | Box:
    """Read a table of a box if it has a corner, otherwise of a capsule."""
    from mindyn.motions.excitation.constraints import Box

    is_box = "lower" in entry or "upper" in entry
    require_valid(entry, _BOX if is_box else _CAPSULE, where)
    return Box(**entry) if is_box else _read_capsule(entry)


def _read_capsule(entry: Any, link: str = "") -> Capsule:
    """Read a table of a capsule, which is on `link` if it names none."""
    from mindyn.motions.excitation.volumes import Capsule

    return Capsule(**{"link": link, "b": entry["a"], **entry})


def _read_workspace(entry: Any) -> Box | None:
    """Read a table with `lower` and `upper` corners, or `floor` alone."""
    from mindyn.motions.excitation.constraints import Box

    if entry is None:
        return None
    if "floor" in entry:
        if len(entry) > 1:
            raise InputError(
                "a workspace has a floor or corners, not both",
                hint="set the floor as the z of lower",
                code=Code.DISAGREEMENT,
                subject="floor",
            )
        return Box(lower=(-float("inf"), -float("inf"), entry["floor"]))
    return Box(**entry)
