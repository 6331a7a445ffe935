"""`read_meshes`: what a robot looks like, from the meshes that its file names, made small enough for a page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import MindynError, RobotFileError, list_names
from mindyn.findings import Finding, Kind, info
from mindyn.pages.decimation import PackedNumbers, pack_indices, pack_levels
from mindyn.pages.markup import format_plural
from mindyn.robots.assembly import assemble
from mindyn.robots.description import Description, FixedJoint, Selection
from mindyn.robots.files import parse_xml, read_text
from mindyn.robots.loading import read_description
from mindyn.robots.mesh_files import Triangles, join_triangles, read_mesh
from mindyn.robots.parts import Shape
from mindyn.robots.robot import Robot
from mindyn.robots.snapping import Snapper
from mindyn.robots.urdf_reader import read_visual_shapes

MAX_PAGE_BYTES: Final = 5_000_000
"""Of all meshes of a page, as its text has them."""
MAX_TRIANGLES: Final = 150_000
"""Of a robot, beyond which corners that are near each other become one; a browser draws so many at once."""
MAX_CELLS: Final = 4000
"""Cells along the robot's largest extent that corners are gathered in at first: a few tenths of a millimetre."""
CIRCLE_SEGMENTS: Final = 24
"""Sides of what is round."""


@dataclass(frozen=True, slots=True)
class LinkMesh:
    """What is drawn of one link, in its frame: `link` is its number, 0 the root, k the moving link k."""

    link: int
    corners: PackedNumbers
    faces: PackedNumbers
    triangles: int


@dataclass(frozen=True, slots=True)
class Meshes:
    """Meshes of links; `notes` say what was not found, left out or made coarser."""

    parts: tuple[LinkMesh, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def bytes(self) -> int:
        """Of the text that a page holds of them."""
        return sum(len(part.corners.data) + len(part.faces.data) for part in self.parts)


def read_meshes(source: str | Path, robot: Robot) -> Meshes:
    """What the file at `source`, URDF or TOML, shows of the robot; a file that is missing is a note, never an error.

    Visuals, or collision shapes where a link has none. `package://NAME/...` is looked for in the folders above the
    file, then in ROS_PACKAGE_PATH and AMENT_PREFIX_PATH.
    """
    try:
        shown = _select_links(_describe_file(source), robot)
    except MindynError as error:
        return Meshes((), (info(Kind.MESH, f"no meshes are drawn: {error.message}"),))
    if shown.link_names != robot.link_names:
        return Meshes((), (info(Kind.MESH, f"no meshes are drawn: {source} has other links than the robot"),))
    reader = MeshReader(Path(source).absolute())
    drawn = {k: reader.link(link.shapes) for k, link in enumerate((shown.root, *shown.links))}
    parts, coarse = _simplify_parts({k: part for k, part in drawn.items() if len(part.faces)})
    return Meshes(
        parts, tuple(info(Kind.MESH, sentence) for sentence in (*reader.describe_problems(bool(parts)), *coarse))
    )


def _describe_file(source: str | Path) -> Description:
    path = Path(source)
    if path.suffix.lower() in (".urdf", ".xml") and path.is_file():
        text = read_text(path)
        if parse_xml(text, path.name).tag == "robot":
            return read_visual_shapes(text, Snapper(active=True))
        raise RobotFileError("meshes are read of URDF and TOML, not of MJCF")
    return read_description(source)


def _select_links(described: Description, robot: Robot) -> Robot:
    joints = {joint.name for joint in described.joints if not isinstance(joint, FixedJoint)}
    held = {name: position for name, position in robot.selection.lock.items() if name in joints}
    return assemble(described.select(Selection(held, robot.selection.root, robot.selection.tip)))


@dataclass(slots=True)
class MeshReader:
    """Reads each file once, and keeps in mind what could not be drawn."""

    robot_file: Path
    read: dict[Path, Triangles | str]
    missing: list[str]
    unreadable: list[str]

    def __init__(self, robot_file: Path) -> None:
        self.robot_file = robot_file
        self.read, self.missing, self.unreadable = {}, [], []

    def link(self, shapes: Sequence[Shape]) -> Triangles:
        """All shapes of a link as one."""
        return join_triangles([part.transform(shape.pose.matrix) for shape in shapes for part in self.shape(shape)])

    def shape(self, shape: Shape) -> Iterator[Triangles]:
        """The triangles of a shape; none where its file is missing or cannot be read."""
        if shape.kind != "mesh":
            yield _SOLIDS[shape.kind](shape.dimensions)
            return
        path = next((place for place in _candidate_paths(shape.filename, self.robot_file) if place.is_file()), None)
        if path is None:
            self.missing.append(shape.filename)
            return
        found = self.file(path)
        if isinstance(found, str):
            self.unreadable.append(found)
            return
        yield Triangles(found.corners * np.array(shape.dimensions), found.faces)

    def file(self, path: Path) -> Triangles | str:
        """The triangles of a file, or why they cannot be read."""
        if path not in self.read:
            try:
                self.read[path] = read_mesh(path)
            except MindynError as error:
                self.read[path] = error.message
        return self.read[path]

    def describe_problems(self, drawn: bool) -> list[str]:
        """What was not drawn."""
        said = []
        if self.missing:
            names = list(dict.fromkeys(self.missing))
            many = f"{format_plural(len(names), 'mesh file')} not at hand and not drawn"
            said.append(f"{many}: {list_names(names, 3)}")
        said += [f"a mesh is not drawn: {reason}" for reason in dict.fromkeys(self.unreadable)]
        return said if said or drawn else [f"no meshes are drawn: {self.robot_file.name} names none"]


def _candidate_paths(filename: str, robot_file: Path) -> Iterator[Path]:
    """Where a mesh may lie, the likeliest first."""
    scheme, mark, rest = filename.partition("://")
    name = unquote(rest) if mark else filename
    if mark and scheme == "file":
        yield Path(name)
        return
    if not mark:
        yield robot_file.parent / name  # an absolute path stays as it is
        return
    package, _, inside = name.partition("/")
    for folder in robot_file.parents:
        if folder.name == package:
            yield folder / inside
        yield folder / package / inside
        yield folder / inside
    for variable, below in (("ROS_PACKAGE_PATH", ""), ("AMENT_PREFIX_PATH", "share")):
        for entry in filter(None, os.environ.get(variable, "").split(os.pathsep)):
            yield Path(entry) / below / package / inside
            if Path(entry).name == package:
                yield Path(entry) / inside


def _simplify_parts(parts: Mapping[int, Triangles]) -> tuple[tuple[LinkMesh, ...], list[str]]:
    """The parts with corners gathered in cells of one size, the finest that keeps to the limits."""
    if not parts:
        return (), []
    extent = max(float(np.ptp(part.corners, axis=0).max()) for part in parts.values()) or 1.0
    cell, before = extent / MAX_CELLS, sum(len(part.faces) for part in parts.values())
    while True:
        found = {k: _merge_corners(part, cell) for k, part in parts.items()}
        count = sum(len(part.faces) for part in found.values())
        made = Meshes(tuple(_pack_part(k, part) for k, part in found.items() if len(part.faces)))
        if count <= MAX_TRIANGLES and made.bytes <= MAX_PAGE_BYTES:
            break
        cell *= 1.4
    said = f"meshes of {before} triangles are drawn with {count}, details under {1e3 * cell:.2g} mm left out"
    return made.parts, [said] if before > MAX_TRIANGLES else []


def _merge_corners(part: Triangles, cell: float) -> Triangles:
    """Corners in one cell of a grid become one, at their mean; triangles that vanish so are left out."""
    places = np.floor((part.corners - part.corners.min(axis=0)) / cell).astype(np.int64)
    keys = places @ np.array([1, 1 << 21, 1 << 42])
    _, number, count = np.unique(keys, return_inverse=True, return_counts=True)
    corners = np.stack([np.bincount(number, values) / count for values in part.corners.T], axis=1)
    faces = number[part.faces]
    a, b, c = faces.T
    faces = faces[(a != b) & (b != c) & (c != a)]
    _, first = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)
    faces = faces[np.sort(first)]
    used, again = np.unique(faces, return_inverse=True)
    return Triangles(corners[used], again.reshape(-1, 3))


def _pack_part(link: int, part: Triangles) -> LinkMesh:
    return LinkMesh(link, pack_levels(part.corners.ravel()), pack_indices(part.faces.ravel()), len(part.faces))


def _box(size: Sequence[float]) -> Triangles:
    corners = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)]) * np.array(size)
    sides = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = [triangle for a, b, c, d in sides for triangle in ((a, b, c), (a, c, d))]
    return Triangles(corners, np.array(faces))


def _revolve_profile(profile: Array) -> Triangles:
    """A profile (K, 2) of radius and height, turned about z."""
    angles = np.linspace(0, 2 * np.pi, CIRCLE_SEGMENTS, endpoint=False)
    rings = [
        np.stack([r * np.cos(angles), r * np.sin(angles), np.full(CIRCLE_SEGMENTS, z)], axis=1) for r, z in profile
    ]
    k, next_k = np.arange(CIRCLE_SEGMENTS), np.roll(np.arange(CIRCLE_SEGMENTS), -1)
    faces = []
    for ring in range(len(profile) - 1):
        low, high = ring * CIRCLE_SEGMENTS, (ring + 1) * CIRCLE_SEGMENTS
        faces += [np.stack([low + k, low + next_k, high + next_k], axis=1)]
        faces += [np.stack([low + k, high + next_k, high + k], axis=1)]
    return Triangles(np.concatenate(rings), np.concatenate(faces))


def _sphere(size: Sequence[float], half: float = 0.0) -> Triangles:
    angles = np.linspace(-np.pi / 2, np.pi / 2, CIRCLE_SEGMENTS // 2 + 2)
    heights = size[0] * np.sin(angles) + half * np.sign(angles.round(12))
    return _revolve_profile(np.stack([size[0] * np.cos(angles), heights], axis=1))


def _cylinder(size: Sequence[float]) -> Triangles:
    radius, half = size[0], size[1] / 2
    return _revolve_profile(np.array([[0, -half], [radius, -half], [radius, half], [0, half]]))


_SOLIDS: Final[Mapping[str, Callable[[Sequence[float]], Triangles]]] = {
    "box": _box,
    "sphere": _sphere,
    "cylinder": _cylinder,
    "capsule": lambda size: _sphere(size, size[1] / 2),
}
