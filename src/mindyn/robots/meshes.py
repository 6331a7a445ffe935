"""Read the meshes of a robot's file and simplify them for a page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import numpy as np

from mindyn.algebra.values import Array, ShortRepr
from mindyn.errors import Code, MindynError, RobotFileError, list_names
from mindyn.findings import Finding, Kind, info
from mindyn.pages.document import format_plural
from mindyn.pages.plots import PackedNumbers, pack_indices, pack_levels
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
"""Size of all meshes of a page, as text."""
MAX_TRIANGLES: Final = 150_000
"""Triangles of a robot above which close corners are merged; a browser draws this many smoothly."""
MAX_CELLS: Final = 4000
"""Cells along the largest extent of the robot in which corners are merged first: a few tenths of a millimetre."""
CIRCLE_SEGMENTS: Final = 24
"""Segments of a circle."""


@dataclass(frozen=True, slots=True)
class LinkMesh:
    """Mesh of one link in its frame: `link` is its number, 0 for the root, k for moving link k."""

    link: int
    corners: PackedNumbers
    faces: PackedNumbers
    triangles: int


@dataclass(frozen=True, slots=True, repr=False)
class Meshes(ShortRepr):
    """Meshes of the links of a robot.

    Parameters
    ----------
    parts : tuple of LinkMesh
        Meshes that can be drawn.
    findings : tuple of Finding
        Files that are missing or unreadable, and simplifications.
    """

    parts: tuple[LinkMesh, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def bytes(self) -> int:
        """Size of the meshes as text of a page."""
        return sum(len(part.corners.data) + len(part.faces.data) for part in self.parts)


def read_meshes(source: str | Path, robot: Robot) -> Meshes:
    """Read the visual geometry of a robot from its URDF or TOML file; missing files become findings, never errors.

    Links without visuals use their collision shapes. `package://NAME/...` is searched in the folders above the file,
    then in ROS_PACKAGE_PATH and AMENT_PREFIX_PATH.

    Parameters
    ----------
    source : str or pathlib.Path
        Bundled name or file of the robot.
    robot : Robot
        Robot to draw; its held joints and its chain are applied to the file.

    Returns
    -------
    Meshes
        Meshes in link frames, simplified if they are large.
    """
    try:
        loaded = _select_links(_describe_file(source), robot)
    except MindynError as error:
        return Meshes((), (info(Kind.MESH, f"no meshes are drawn: {error.message}"),))
    if loaded.link_names != robot.link_names:
        return Meshes((), (info(Kind.MESH, f"no meshes are drawn: {source} has other links than the robot"),))
    reader = MeshReader(Path(source).absolute())
    meshes = {k: reader.link(link.shapes) for k, link in enumerate((loaded.root, *loaded.links))}
    parts, coarse = _simplify_parts({k: part for k, part in meshes.items() if len(part.faces)})
    return Meshes(
        parts, tuple(info(Kind.MESH, sentence) for sentence in (*reader.describe_problems(bool(parts)), *coarse))
    )


def _describe_file(source: str | Path) -> Description:
    path = Path(source)
    if path.suffix.lower() in (".urdf", ".xml") and path.is_file():
        text = read_text(path)
        if parse_xml(text, path.name).tag == "robot":
            return read_visual_shapes(text, Snapper(active=True))
        message = "meshes can be read from URDF and TOML files, not from MJCF"
        raise RobotFileError(message, code=Code.UNSUPPORTED, subject=path.name)
    return read_description(source)


def _select_links(description: Description, robot: Robot) -> Robot:
    joints = {joint.name for joint in description.joints if not isinstance(joint, FixedJoint)}
    held = {name: position for name, position in robot.selection.lock.items() if name in joints}
    return assemble(description.select(Selection(held, robot.selection.root, robot.selection.tip)))


@dataclass(slots=True)
class MeshReader:
    """Reader that opens each file once and records missing and unreadable ones."""

    robot_file: Path
    read: dict[Path, Triangles | str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def link(self, shapes: Sequence[Shape]) -> Triangles:
        """Return all shapes of a link as one mesh."""
        return join_triangles([part.transform(shape.pose.matrix) for shape in shapes for part in self.shape(shape)])

    def shape(self, shape: Shape) -> Iterator[Triangles]:
        """Yield the triangles of a shape; nothing if its file is missing or unreadable."""
        if shape.kind != "mesh":
            yield _SOLIDS[shape.kind](shape.dimensions)
            return
        path = next((path for path in _candidate_paths(shape.filename, self.robot_file) if path.is_file()), None)
        if path is None:
            self.missing.append(shape.filename)
            return
        mesh = self.file(path)
        if isinstance(mesh, str):
            self.unreadable.append(mesh)
            return
        yield Triangles(mesh.corners * np.array(shape.dimensions), mesh.faces)

    def file(self, path: Path) -> Triangles | str:
        """Return the triangles of a file, or the reason why it cannot be read."""
        if path not in self.read:
            try:
                self.read[path] = read_mesh(path)
            except MindynError as error:
                self.read[path] = error.message
        return self.read[path]

    def describe_problems(self, drawn: bool) -> list[str]:
        """Return a sentence for each problem that prevented drawing."""
        problems = []
        if self.missing:
            names = list(dict.fromkeys(self.missing))
            problems.append(f"{format_plural(len(names), 'missing mesh file')} not drawn: {list_names(names, 3)}")
        problems += [f"a mesh is not drawn: {reason}" for reason in dict.fromkeys(self.unreadable)]
        return problems if problems or drawn else [f"no meshes are drawn: {self.robot_file.name} names none"]


def _candidate_paths(filename: str, robot_file: Path) -> Iterator[Path]:
    """Yield the possible paths of a mesh, the likeliest first."""
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
    """Merge corners in cells of one size, the smallest that satisfies the limits."""
    if not parts:
        return (), []
    extent = max(float(np.ptp(part.corners, axis=0).max()) for part in parts.values()) or 1.0
    cell, before = extent / MAX_CELLS, sum(len(part.faces) for part in parts.values())
    while True:
        merged = {k: _merge_corners(part, cell) for k, part in parts.items()}
        count = sum(len(part.faces) for part in merged.values())
        meshes = Meshes(tuple(_pack_part(k, part) for k, part in merged.items() if len(part.faces)))
        if count <= MAX_TRIANGLES and meshes.bytes <= MAX_PAGE_BYTES:
            break
        cell *= 1.4
    message = f"{before} mesh triangles are drawn with {count}, without details under {1e3 * cell:.2g} mm"
    return meshes.parts, [message] if before > MAX_TRIANGLES else []


def _merge_corners(part: Triangles, cell: float) -> Triangles:
    """Merge the corners in each cell of a grid to their mean, and drop triangles that collapse."""
    places = np.floor((part.corners - part.corners.min(axis=0)) / cell).astype(np.int64)
    keys = places @ np.array([1, 1 << 21, 1 << 42])
    _, number, count = np.unique(keys, return_inverse=True, return_counts=True)
    corners = np.stack([np.bincount(number, values) / count for values in part.corners.T], axis=1)
    faces = number[part.faces]
    a, b, c = faces.T
    faces = faces[(a != b) & (b != c) & (c != a)]
    _, first = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)
    faces = faces[np.sort(first)]
    used, renumbered = np.unique(faces, return_inverse=True)
    return Triangles(corners[used], renumbered.reshape(-1, 3))


def _pack_part(link: int, part: Triangles) -> LinkMesh:
    return LinkMesh(link, pack_levels(part.corners.ravel()), pack_indices(part.faces.ravel()), len(part.faces))


def _box(size: Sequence[float]) -> Triangles:
    corners = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)]) * np.array(size)
    sides = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = [triangle for a, b, c, d in sides for triangle in ((a, b, c), (a, c, d))]
    return Triangles(corners, np.array(faces))


def _revolve_profile(profile: Array) -> Triangles:
    """Revolve a profile (K, 2) of radius and height about z."""
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
