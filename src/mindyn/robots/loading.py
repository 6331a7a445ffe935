"""Load a bundled robot by name, or a robot file by path."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from mindyn.foundation.algebra.values import Array, frozen_array, real_array
from mindyn.foundation.errors import Code, RobotFileError, UnknownNameError, require_choice, shorten_text, suggest_name
from mindyn.foundation.safe_reading import require_path
from mindyn.robots.assembly import assemble_robot
from mindyn.robots.description import Description, FixedJoint, Selection
from mindyn.robots.edits import with_gravity
from mindyn.robots.floating_base import add_floating_base
from mindyn.robots.mjcf_reader import read_mjcf
from mindyn.robots.parts import Drive
from mindyn.robots.robot import Robot
from mindyn.robots.safe_robot_files import XACRO_HINT, parse_xml, read_text
from mindyn.robots.snapping import Snapper
from mindyn.robots.toml_format import read_robot_toml
from mindyn.robots.urdf_reader import read_urdf

BUNDLED_NAME: Final = re.compile(r"(zoo/)?\w+")
RootJoint = Literal["fixed", "floating"]
"""Whether the root is fixed to the world, or moves freely."""


def bundled_robots() -> tuple[str, ...]:
    """Return the names of the robots that mindyn includes.

    Returns
    -------
    tuple of str
        Names that `load_robot` accepts, sorted.

    Examples
    --------
    >>> "puma560" in bundled_robots()
    True
    """
    folder = _bundled_folder()
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def identified_robots() -> dict[str, dict[str, Any]]:
    """Return the identification results of measured robots, by the name that `load_robot` accepts.

    Returns
    -------
    dict of str to dict
        For each robot: its title, source, licence, settings, held-out torque error, base parameters with 95 %
        intervals, friction curves, and findings. Measured on one robot; other robots of the type differ.

    Examples
    --------
    >>> "zoo/kr300_2021" in identified_robots()
    True
    """
    folder = _bundled_folder() / "zoo"
    names = sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json"))
    return {f"zoo/{name}": json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in names}


def zoo_recipes() -> dict[str, dict[str, str]]:
    """Return the robots that a reader can identify from logs whose licence does not allow us to publish values."""
    recipes: dict[str, dict[str, str]] = json.loads((_bundled_folder() / "zoo_recipes.json").read_text("utf-8"))
    return recipes


def _bundled_folder() -> Traversable:
    return resources.files("mindyn.robots") / "data"


def _find_bundled(source: str | Path) -> Traversable | None:
    """Return the file of a bundled or identified robot; None if the source is not the name of one."""
    if not isinstance(source, str) or source.endswith(".toml") or not BUNDLED_NAME.fullmatch(source):
        return None
    file = _bundled_folder().joinpath(*f"{source}.toml".split("/"))
    try:
        return file if file.is_file() else None
    except OSError:  # the name is too long for the system
        return None


@dataclass(frozen=True, slots=True)
class RobotOptions:
    """Options for building a robot from a description, shared by `load_robot` and all commands that take a robot.

    snap       round rotations and axes within 1e-5 rad of a multiple of 15 degrees; `findings` lists the changes
    gravity    (3,) of the world, m/s^2; the default is that of the file
    mount      "floor", "ceiling", "wall", or roll, pitch, yaw of the root in the world, rad
    selection  joints to hold and chain to cut, applied before unsupported parts raise errors
    home       for a robot with loops, positions near the intended assembly: by joint name, or of all joints in order,
               rad or m; joints that are not named keep the position of the file
    root_joint "floating" puts six massless joints under the root
    """

    snap: bool = True
    gravity: tuple[float, ...] | None = None
    mount: str | tuple[float, ...] | None = None
    selection: Selection = field(default_factory=Selection)
    home: Mapping[str, float] | tuple[float, ...] | None = None
    root_joint: RootJoint = "fixed"

    def load(self, source: str | Path, drives: Sequence[Drive] = ()) -> Robot:
        """Load a bundled robot or a file; `drives` replace those of the file."""
        require_choice(self.root_joint, get_args(RootJoint), "root_joint")
        description = read_description(source, snap=self.snap)
        if drives:
            drive_of = {drive.joint: drive for drive in (*description.drives, *drives)}
            description = replace(description, drives=tuple(drive_of.values()))
        robot = assemble_robot(description.select(self.selection))
        robot = replace(robot, file=str(source) if _find_bundled(source) else str(Path(source).absolute()))
        if self.home is not None:
            robot = replace(robot, home=_resolve_home(robot, self.home))
        if self.gravity is not None or self.mount is not None:
            robot = with_gravity(robot, self.gravity, self.mount)
        return add_floating_base(robot) if self.root_joint == "floating" else robot

    def to_dict(self) -> dict[str, Any]:
        """Return the options as JSON values."""
        home = dict(self.home) if isinstance(self.home, Mapping) else self.home
        options = {
            "snap": self.snap,
            "gravity": self.gravity,
            "mount": self.mount,
            "home": home,
            "root_joint": self.root_joint,
        }
        return options | self.selection.to_dict()


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
    root_joint: RootJoint = "fixed",
) -> Robot:
    """Load a bundled robot by name, or a robot file: TOML, URDF, or MJCF.

    Joints are held and the chain is cut before unsupported parts raise errors: parts that are not selected need not be
    supported.

    Parameters
    ----------
    source : str or pathlib.Path
        Bundled name (see `bundled_robots` and `identified_robots`) or file (.toml, .urdf, .xml, .mjcf).
    snap : bool, default True
        Round rotations and axes within 1e-5 rad of a multiple of 15 degrees; `Robot.findings` lists the changes.
    gravity : array_like, shape (3,), optional
        Gravity of the world, m/s^2; the default is that of the file.
    mount : str or array_like, shape (3,), optional
        "floor", "ceiling", "wall", or roll, pitch, yaw of the root in the world, rad.
    lock : mapping of str to float, optional
        Joints to hold and their positions, rad or m; they and the links they carry become rigid parts.
    root : str, optional
        Link to use as root; the links above it are dropped.
    tip : str, optional
        Link or frame that ends the chain; side branches are dropped with their mass.
    home : mapping of str to float, or array_like, shape (n,), optional
        For a robot with loops, joint positions near the intended assembly, rad or m; joints that are not named keep the
        position of the file.
    root_joint : {"fixed", "floating"}
        "floating" puts six massless joints under the root, which moves freely: base_x, base_y, base_z, base_yaw,
        base_pitch and base_roll are the first joints. `gravity` and `mount` are then those at zero angles.

    Returns
    -------
    Robot
        The robot; its `findings` list assumptions and changes of the reader.

    Raises
    ------
    RobotFileError
        If the file cannot be read or is not a robot description.
    RobotError
        If the selected part is not a valid robot.
    UnknownNameError
        If no bundled robot, file, joint or link has the given name.

    Examples
    --------
    >>> robot = load_robot("puma560")
    >>> robot.joint_count
    6
    """
    selection = Selection({} if lock is None else lock, root, tip)
    mounting = mount if mount is None or isinstance(mount, str) else _require_vector(mount, "mount")
    vector = None if gravity is None else _require_vector(gravity, "gravity")
    positions = (
        home
        if home is None or isinstance(home, Mapping)
        else tuple(np.atleast_1d(real_array(home, np.float64, "home")).ravel().tolist())
    )
    return RobotOptions(snap, vector, mounting, selection, positions, root_joint).load(source)


def _resolve_home(robot: Robot, home: Mapping[str, float] | tuple[float, ...]) -> Array:
    """Return the home positions (n,): those given by the user, else those of the robot."""
    if not isinstance(home, Mapping):
        return frozen_array(home, (len(robot.joints),), "home")
    positions = np.zeros(len(robot.joints)) if robot.home is None else robot.home.copy()
    for name, position in home.items():
        positions[robot.joint_index(name)] = float(frozen_array(position, (), f"home position of {name!r}"))
    return positions


def _require_vector(value: ArrayLike, what: str) -> tuple[float, ...]:
    return tuple(frozen_array(value, (3,), what).tolist())


def load_matching(source: str | Path, robot: Robot) -> Robot:
    """Load another description of the same arm, with the held joints and the chain of `robot`.

    Parts that only `robot` has, such as a gripper, need not exist in the other description.
    """
    other, wanted = read_description(source), robot.selection
    joints = {joint.name for joint in other.joints if not isinstance(joint, FixedJoint)}
    links = {link.name for link in other.links} | {frame.name for frame in other.frames}
    held = {name: position for name, position in wanted.lock.items() if name in joints}
    ends = (name if name in links else None for name in (wanted.root, wanted.tip))
    loaded = assemble_robot(other.select(Selection(held, *ends)))
    loaded = add_floating_base(loaded) if robot.has_floating_base else loaded
    has_same_loops = loaded.loops and loaded.joint_names == robot.joint_names
    return replace(loaded, home=robot.home) if has_same_loops and robot.home is not None else loaded


def read_description(source: str | Path, *, snap: bool = True) -> Description:
    """Read the description of a bundled robot or a file, before joints are held and unsupported parts raise errors."""
    require_path(source, "the robot")
    snapper = Snapper(active=snap)
    bundled = _find_bundled(source)
    return (
        _read_file(Path(source), snapper) if bundled is None else read_robot_toml(bundled.read_text("utf-8"), snapper)
    )


def _read_xml_file(path: Path, snapper: Snapper) -> Description:
    """Read URDF or MJCF, regardless of the suffix."""
    text = read_text(path)
    root = parse_xml(text, path.name).tag
    if root == "mujoco":
        return read_mjcf(path, snapper)
    if root == "robot":
        return read_urdf(text, snapper)
    raise RobotFileError(
        f"{path.name} starts with <{shorten_text(root, 60)}>; a URDF starts with <robot>, MJCF with <mujoco>",
        hint=_OTHER_FORMAT_HINTS.get(root.lower(), ""),
        code=Code.WRONG_FORMAT,
        subject=path.name,
    )


_OTHER_FORMAT_HINTS: Final = {
    "sdf": "mindyn cannot read SDF: save the model as URDF or MJCF",
    "gazebo": "mindyn cannot read SDF: save the model as URDF or MJCF",
    "collada": "this is a mesh: pass the URDF or MJCF that uses it",
    "launch": "this is a launch file: pass the URDF that it loads",
    "package": "this is a package manifest: pass the URDF of the package",
}
"""Hints for files of other formats, by their first element."""

_OTHER_SUFFIX_HINTS: Final = {
    ".sdf": _OTHER_FORMAT_HINTS["sdf"],
    ".world": _OTHER_FORMAT_HINTS["sdf"],
    **dict.fromkeys((".usd", ".usda", ".usdc", ".usdz"), "mindyn cannot read USD: save the model as URDF or MJCF"),
    **dict.fromkeys((".stl", ".dae", ".obj", ".step", ".stp"), _OTHER_FORMAT_HINTS["collada"]),
}
"""Hints for files of other formats, by suffix."""


ROBOT_FORMATS: Final[dict[str, Callable[[Path, Snapper], Description]]] = {
    ".toml": lambda path, snapper: read_robot_toml(read_text(path), snapper, path.name),
    **dict.fromkeys((".urdf", ".xml", ".mjcf"), _read_xml_file),
}
"""Reader of each file suffix; a new format needs one reader and one entry, which another package can add."""


def _path_exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # the name is too long for the system, or the folder is not accessible
        return False


def _read_file(path: Path, snapper: Snapper) -> Description:
    if path.suffix.lower() not in ROBOT_FORMATS:
        if not _path_exists(path):
            given, names = shorten_text(str(path), 200), (*bundled_robots(), *identified_robots())
            message = f"{given!r} is neither a bundled robot nor a file; bundled: {', '.join(names)}"
            hint = suggest_name(given, names, f"pass the file of your robot: {', '.join(ROBOT_FORMATS)}")
            raise UnknownNameError(message, hint=hint, subject=given)
        if path.is_dir():
            hint = f"pass the robot file in it: {', '.join(ROBOT_FORMATS)}"
            raise RobotFileError(f"'{path}' is a folder", hint=hint, code=Code.WRONG_TYPE, subject=path.name)
        message, hint = f"{path.name} is xacro, not URDF", XACRO_HINT
        if path.suffix.lower() != ".xacro":
            message = f"{path.name} is not a robot file; mindyn reads {', '.join(ROBOT_FORMATS)}"
            hint = _OTHER_SUFFIX_HINTS.get(path.suffix.lower(), "did you pass a log instead of the robot file?")
        raise RobotFileError(message, hint=hint, code=Code.WRONG_FORMAT, subject=path.name)
    return ROBOT_FORMATS[path.suffix.lower()](path, snapper)
