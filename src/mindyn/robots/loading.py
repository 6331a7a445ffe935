"""`load_robot`: a bundled robot by name, or a file by path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.values import Array, frozen_array
from mindyn.errors import RobotFileError, UnknownNameError, shorten_text, suggest_name
from mindyn.robots.assembly import assemble
from mindyn.robots.description import Description, FixedJoint, Selection
from mindyn.robots.edits import with_gravity
from mindyn.robots.files import XACRO_HINT, parse_xml, read_text
from mindyn.robots.mjcf_reader import read_mjcf
from mindyn.robots.parts import Drive
from mindyn.robots.robot import Robot
from mindyn.robots.snapping import Snapper
from mindyn.robots.toml_reader import read_toml
from mindyn.robots.urdf_reader import read_urdf


def bundled_robots() -> tuple[str, ...]:
    """Names of the robots that come with mindyn."""
    folder = resources.files("mindyn.robots") / "data"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


@dataclass(frozen=True, slots=True)
class RobotOptions:
    """How a description becomes a robot: what `load_robot` and every command that takes a robot can be told.

    snap       take rotations and axes within 1e-5 rad of a multiple of 15 degrees as that multiple; `notes` says which
    gravity    (3,) of the world, m/s^2; what the file states otherwise
    mount      "floor", "ceiling", "wall", or roll, pitch, yaw of the root in the world, rad
    selection  joints held and chain cut out; before anything is refused
    home       of a robot with loops, the assembly that is meant: positions by joint near a closed configuration, rad or
               m, or of all joints in order; joints that are not named stay where the file has them
    """

    snap: bool = True
    gravity: tuple[float, ...] | None = None
    mount: str | tuple[float, ...] | None = None
    selection: Selection = field(default_factory=Selection)
    home: Mapping[str, float] | tuple[float, ...] | None = None

    def load(self, source: str | Path, drives: Sequence[Drive] = ()) -> Robot:
        """The robot of a bundled name or file; `drives` stand above those that it states."""
        described = read_description(source, snap=self.snap)
        if drives:
            stated = {drive.joint: drive for drive in (*described.drives, *drives)}
            described = replace(described, drives=tuple(stated.values()))
        robot = assemble(described.select(self.selection))
        bundled = isinstance(source, str) and source in bundled_robots()
        robot = replace(robot, file=str(source) if bundled else str(Path(source).absolute()))
        if self.home is not None:
            robot = replace(robot, home=_resolve_home(robot, self.home))
        return robot if self.gravity is None and self.mount is None else with_gravity(robot, self.gravity, self.mount)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        home = dict(self.home) if isinstance(self.home, Mapping) else self.home
        own = {"snap": self.snap, "gravity": self.gravity, "mount": self.mount, "home": home}
        return own | self.selection.to_dict()


def load_robot(
    source: str | Path,
    *,
    snap: bool = True,
    gravity: ArrayLike | None = None,
    mount: str | ArrayLike | None = None,
    lock: Mapping[str, float] | None = None,
    root: str | None = None,
    tip: str | None = None,
    home: Mapping[str, float] | ArrayLike | None = None,
) -> Robot:
    """The robot of a bundled name or of a file: .toml, .urdf, or MJCF .xml.

    snap     take rotations and axes within 1e-5 rad of a multiple of 15 degrees as that multiple; `notes` says which
    gravity  (3,) of the world, m/s^2; what the file states otherwise
    mount    "floor", "ceiling", "wall", or roll, pitch, yaw of the root in the world, rad
    lock     joints held at these positions, rad or m; they and what they carry become rigid parts
    root     the link to take as root: what is above it is left out
    tip      the link or frame to end with: what hangs beside the chain to it is left out, with its mass
    home     of a robot with loops, the assembly that is meant: positions by joint near a closed configuration, rad or
             m, or (n,) of all joints; joints that are not named stay where the file has them

    Joints are held and the chain is cut out before anything is refused: what is not asked for need not be understood.
    """
    hold = Selection({} if lock is None else lock, root, tip)
    turned = mount if mount is None or isinstance(mount, str) else _require_vector(mount, "mount")
    pulled = None if gravity is None else _require_vector(gravity, "gravity")
    stands = (
        home
        if home is None or isinstance(home, Mapping)
        else tuple(np.atleast_1d(np.asarray(home, dtype=float)).tolist())
    )
    return RobotOptions(snap, pulled, turned, hold, stands).load(source)


def _resolve_home(robot: Robot, home: Mapping[str, float] | tuple[float, ...]) -> Array:
    """(n,) what was said of the assembly, on top of what the robot states."""
    if not isinstance(home, Mapping):
        return frozen_array(home, (robot.joint_count,), "home, a position of every joint,")
    stated = np.zeros(robot.joint_count) if robot.home is None else robot.home.copy()
    for name, position in home.items():
        stated[robot.joint_index(name)] = position
    return stated


def _require_vector(value: ArrayLike, what: str) -> tuple[float, ...]:
    return tuple(frozen_array(value, (3,), what).tolist())


def load_matching(source: str | Path, robot: Robot) -> Robot:
    """The robot of another description of the same arm: joints that `robot` holds are held, its chain cut out.

    What the other description does not have (a gripper of its own) is not asked of it.
    """
    other, wanted = read_description(source), robot.selection
    joints, links = {joint.name for joint in other.joints if not isinstance(joint, FixedJoint)}, _list_places(other)
    held = {name: position for name, position in wanted.lock.items() if name in joints}
    ends = (name if name in links else None for name in (wanted.root, wanted.tip))
    found = assemble(other.select(Selection(held, *ends)))
    same = found.loops and found.joint_names == robot.joint_names
    return replace(found, home=robot.home) if same and robot.home is not None else found


def _list_places(described: Description) -> set[str]:
    return {link.name for link in described.links} | {frame.name for frame in described.frames}


def read_description(source: str | Path, *, snap: bool = True) -> Description:
    """What a bundled name or a file describes, before joints are held or anything is refused."""
    snapper = Snapper(active=snap)
    if isinstance(source, str) and source in bundled_robots():
        text = (resources.files("mindyn.robots") / "data" / f"{source}.toml").read_text(encoding="utf-8")
        return read_toml(text, snapper)
    return _read_file(Path(source), snapper)


def _read_toml_file(path: Path, snapper: Snapper) -> Description:
    return read_toml(read_text(path), snapper)


def _read_xml_file(path: Path, snapper: Snapper) -> Description:
    """URDF or MJCF, whatever the file is called."""
    text = read_text(path)
    root = parse_xml(text, path.name).tag
    if root == "mujoco":
        return read_mjcf(path, snapper)
    if root == "robot":
        return read_urdf(text, snapper)
    raise RobotFileError(
        f"{path.name} starts with <{shorten_text(root, 60)}>; a URDF starts with <robot>, MJCF with <mujoco>",
        hint=_OTHER_FORMAT_HINTS.get(root.lower(), ""),
    )


_OTHER_FORMAT_HINTS: Final = {
    "sdf": "SDF is not read: save the model as URDF or MJCF",
    "gazebo": "SDF is not read: save the model as URDF or MJCF",
    "collada": "a drawing was given: name the URDF or MJCF that uses it",
    "launch": "a launch file was given: name the URDF that it loads",
    "package": "the manifest of a package was given: name the URDF in it",
}
"""What to do with files of other kinds, by their first element."""

_OTHER_SUFFIX_HINTS: Final = {
    ".sdf": _OTHER_FORMAT_HINTS["sdf"],
    ".world": _OTHER_FORMAT_HINTS["sdf"],
    **dict.fromkeys((".usd", ".usda", ".usdc", ".usdz"), "USD is not read: save the model as URDF or MJCF"),
    **dict.fromkeys((".stl", ".dae", ".obj", ".step", ".stp"), _OTHER_FORMAT_HINTS["collada"]),
}
"""The same by suffix."""


ROBOT_FORMATS: Final[dict[str, Callable[[Path, Snapper], Description]]] = {
    ".toml": _read_toml_file,
    **dict.fromkeys((".urdf", ".xml", ".mjcf"), _read_xml_file),
}
"""For each suffix the reader of its files; a new format is one reader and one entry, also of another program."""


def _suggest_robot(given: str) -> str:
    return suggest_name(given, bundled_robots(), f"a robot of your own is a file: {', '.join(ROBOT_FORMATS)}")


def _path_exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name longer than the system takes, a folder that may not be looked into
        return False


def _read_file(path: Path, snapper: Snapper) -> Description:
    if path.suffix.lower() not in ROBOT_FORMATS:
        if not _path_exists(path):
            given = shorten_text(str(path), 200)
            raise UnknownNameError(
                f"{given!r} is neither a bundled robot nor a file; bundled: {', '.join(bundled_robots())}",
                hint=_suggest_robot(given),
            )
        if path.is_dir():
            raise RobotFileError(
                f"{str(path)!r} is a folder", hint=f"name the robot's file in it: {', '.join(ROBOT_FORMATS)}"
            )
        if path.suffix.lower() == ".xacro":
            raise RobotFileError(f"{path.name} is xacro, not URDF", hint=XACRO_HINT)
        raise RobotFileError(
            f"{path.name}: mindyn reads {', '.join(ROBOT_FORMATS)}",
            hint=_OTHER_SUFFIX_HINTS.get(path.suffix.lower(), "was a log given in place of the robot?"),
        )
    return ROBOT_FORMATS[path.suffix.lower()](path, snapper)
