"""Read the meshes of a robot's file and simplify them for a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import ShortRepr
from mindyn.foundation.errors import list_names
from mindyn.foundation.findings import Finding, Kind, info
from mindyn.foundation.pages.document import format_plural
from mindyn.foundation.pages.plots import PackedNumbers, pack_indices, pack_levels
from mindyn.robots.link_solids import locate_file_link, read_file_geometry
from mindyn.robots.mesh_files import Triangles, join_triangles
from mindyn.robots.robot import Robot

MAX_PAGE_BYTES: Final = 5_000_000
"""Size of all meshes of a page, as text."""
MAX_TRIANGLES: Final = 150_000
"""Number of triangles of a robot above which close corners are merged; a browser draws this many smoothly."""
MAX_CELLS: Final = 4000
"""Cells along the largest extent of the robot in which corners are merged first: a few tenths of a millimetre."""


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
    """Read the visual geometry of a robot from its file; missing files become findings, never errors.

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
    geometry = read_file_geometry(source, robot, visual=True)
    if geometry is None:
        message = f"no meshes are drawn: {source} cannot be read, or has other links than the robot"
        return Meshes((), (info(Kind.MESH, message),))
    triangles: dict[int, list[Triangles]] = {}
    for name, link in geometry.links.items():
        if link.solids and (place := locate_file_link(robot, name)) is not None:
            drawn = triangles.setdefault(robot.link_index(place[0]) + 1, [])
            drawn += [solid.transform(place[1]).triangles() for solid in link.solids]
    parts, messages = _simplify_parts({k: join_triangles(drawn) for k, drawn in sorted(triangles.items())})
    if geometry.missing:
        count = format_plural(len(geometry.missing), "mesh file")
        messages = [f"{count} not drawn: {list_names(geometry.missing, 3)}", *messages]
    elif not parts:
        messages = [f"no meshes are drawn: {Path(source).name} names none"]
    return Meshes(parts, tuple(info(Kind.MESH, message) for message in messages))


def _simplify_parts(parts: Mapping[int, Triangles]) -> tuple[tuple[LinkMesh, ...], list[str]]:
    """Merge corners that lie in the same cell of a grid, with the smallest cells that satisfy the limits."""
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
