"""`load_robot`: a bundled robot by name, or a file by path."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from numpy.typing import ArrayLike

from mindyn.errors import RobotFileError, UnknownNameError, did_you_mean
from mindyn.robots.edits import with_gravity
from mindyn.robots.files import parse_xml, read_text
from mindyn.robots.mjcf_reader import read_mjcf
from mindyn.robots.robot import Robot
from mindyn.robots.snapping import Snapper
from mindyn.robots.toml_reader import read_toml
from mindyn.robots.urdf_reader import read_urdf

SUFFIXES = (".toml", ".urdf", ".xml", ".mjcf")


def bundled_robots() -> tuple[str, ...]:
    """Names of the robots that come with mindyn."""
    folder = resources.files("mindyn.robots") / "data"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load_robot(
    source: str | Path,
    *,
    snap: bool = True,
    gravity: ArrayLike | None = None,
    mount: str | ArrayLike | None = None,
) -> Robot:
    """The robot of a bundled name or of a file: .toml, .urdf, or MJCF .xml.

    snap     take rotations and axes within 1e-5 rad of a multiple of 15 degrees as that multiple; `notes` says which
    gravity  (3,) of the world, m/s^2; what the file states otherwise
    mount    "floor", "ceiling", "wall", or roll, pitch, yaw of the root in the world, rad
    """
    snapper = Snapper(active=snap)
    if isinstance(source, str) and source in bundled_robots():
        text = (resources.files("mindyn.robots") / "data" / f"{source}.toml").read_text(encoding="utf-8")
        robot = read_toml(text, snapper)
    else:
        robot = _read_file(Path(source), snapper)
    return robot if gravity is None and mount is None else with_gravity(robot, gravity, mount)


def _meant(given: str) -> str:
    return did_you_mean(given, bundled_robots(), f"a robot of your own is a file: {', '.join(SUFFIXES)}")


def _read_file(path: Path, snapper: Snapper) -> Robot:
    if path.suffix.lower() not in SUFFIXES:
        if not path.exists():
            raise UnknownNameError(
                f"{str(path)!r} is neither a bundled robot nor a file; bundled: {', '.join(bundled_robots())}",
                hint=_meant(str(path)),
            )
        raise RobotFileError(
            f"{path.name}: mindyn reads {', '.join(SUFFIXES)}", hint="was a log given in place of the robot?"
        )
    text = read_text(path)
    if path.suffix.lower() == ".toml":
        return read_toml(text, snapper)
    root = parse_xml(text, path.name).tag
    if root == "mujoco":
        return read_mjcf(path, snapper)
    if root == "robot":
        return read_urdf(text, snapper)
    raise RobotFileError(f"{path.name} starts with <{root}>; a URDF starts with <robot>, MJCF with <mujoco>")
