"""Read the triangles of mesh files: STL, OBJ and COLLADA (.dae); positions only, without materials.

mindyn has its own readers: robot meshes come in these formats, only positions are needed, and untrusted files get the
same checks as robot files. The tests compare them with `trimesh`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.poses import Pose, rotation_about_axis
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, RobotFileError
from mindyn.foundation.reading import read_small_bytes
from mindyn.robots.files import parse_numbers, parse_xml

MAX_MESH_BYTES: Final = 256 * 2**20
"""Size of a mesh file; a larger one is not meant for display or collision."""
STL_HEADER_BYTES: Final = 84
STL_RECORD: Final = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
"""Record of one triangle of a binary STL file; the records follow the header."""
Faces = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Triangles:
    """Corners (V, 3) in m or the file's unit, and triangles (F, 3) as indices of corners."""

    corners: Array
    faces: Faces

    def transform(self, X: Array) -> Triangles:
        """Transform the corners by a homogeneous matrix (4, 4)."""
        return Triangles(self.corners @ X[:3, :3].T + X[:3, 3], self.faces)


def join_triangles(parts: list[Triangles]) -> Triangles:
    """Join several meshes into one."""
    starts = np.cumsum([0, *(len(part.corners) for part in parts)])
    corners = np.concatenate([np.empty((0, 3)), *(part.corners for part in parts)])
    shifted = [part.faces + start for part, start in zip(parts, starts, strict=False)]
    return Triangles(corners, np.concatenate([np.empty((0, 3), np.int64), *shifted]))


def read_mesh(path: Path) -> Triangles:
    """Read the triangles of a file; raise `RobotFileError` if it has none or cannot be read."""
    read = MESH_READERS.get(path.suffix.lower())
    if read is None:
        message = f"{path.name} is not a mesh file that mindyn reads: {', '.join(MESH_READERS)}"
        raise RobotFileError(message, code=Code.WRONG_FORMAT, subject=path.name)
    content = read_small_bytes(path, "mesh", RobotFileError, MAX_MESH_BYTES)
    try:
        mesh = read(content)
    except (ValueError, IndexError, KeyError) as error:
        raise RobotFileError(
            f"{path.name} is not a valid mesh: {error}", subject=path.name, code=Code.UNREADABLE
        ) from error
    if not len(mesh.faces):
        raise RobotFileError(f"{path.name} has no triangles", code=Code.MISSING_VALUE, subject=path.name)
    if not np.isfinite(mesh.corners).all():
        raise RobotFileError(f"{path.name} has infinite corners", code=Code.NOT_FINITE, subject=path.name)
    if mesh.faces.min() < 0 or mesh.faces.max() >= len(mesh.corners):
        message = f"{path.name} has triangles with missing corners"
        raise RobotFileError(message, code=Code.OUT_OF_RANGE, subject=path.name)
    return mesh


def _read_stl(content: bytes) -> Triangles:
    count = int.from_bytes(content[80:STL_HEADER_BYTES], "little")
    is_text = content[:5].lower() == b"solid" and b"facet" in content[:1000]  # a binary one has no facets
    if len(content) >= STL_HEADER_BYTES + count * STL_RECORD.itemsize and not is_text:
        corners = np.frombuffer(content, STL_RECORD, count, STL_HEADER_BYTES)["corners"].reshape(-1, 3)
    else:
        words = content.decode("ascii", "replace").split()
        places = [k for k, word in enumerate(words) if word == "vertex"]
        corners = np.array([[float(value) for value in words[k + 1 : k + 4]] for k in places]).reshape(-1, 3)
        if len(corners) % 3:
            raise ValueError("its last triangle is incomplete")
    return Triangles(np.asarray(corners, dtype=float), np.arange(len(corners)).reshape(-1, 3))


def _read_obj(content: bytes) -> Triangles:
    corners: list[list[float]] = []
    faces: list[tuple[int, int, int]] = []
    for line in content.decode("utf-8", "replace").splitlines():
        kind, *words = line.split() or [""]
        if kind == "v":
            corners.append([float(word) for word in words[:3]])
        elif kind == "f":
            places = [int(word.partition("/")[0]) for word in words]
            used = [place - 1 if place > 0 else len(corners) + place for place in places]
            faces += [(used[0], used[k], used[k + 1]) for k in range(1, len(used) - 1)]
    return Triangles(np.array(corners, dtype=float).reshape(-1, 3), np.array(faces, np.int64).reshape(-1, 3))


def _read_dae(content: bytes) -> Triangles:
    """Read the scene in m. The up axis is ignored, as robot viewers do."""
    root = parse_xml(content.decode("utf-8-sig", "replace"), "the COLLADA file")
    unit = root.find("asset/unit")
    scale = float(unit.get("meter", "1")) if unit is not None else 1.0
    elements = {element.get("id", ""): element for element in root.iter() if element.get("id")}
    parts = [
        part
        for scene in root.findall("library_visual_scenes/visual_scene")
        for node in scene.findall("node")
        for part in _read_node(node, elements, np.eye(4))
    ]
    if not parts:
        parts = [_read_geometry(geometry, elements) for geometry in root.findall("library_geometries/geometry")]
    mesh = join_triangles(parts)
    return Triangles(scale * mesh.corners, mesh.faces)


def _read_node(node: Element, elements: Mapping[str, Element], X_parent: Array) -> Iterator[Triangles]:
    X = X_parent
    for element in node:
        if element.tag in _TRANSFORMS and element.text:
            values, size, move = element.text, *_TRANSFORMS[element.tag]
            X = X @ move(parse_numbers(values, size, element.tag))
    for geometry in node.findall("instance_geometry"):
        yield _read_geometry(elements[geometry.get("url", "").removeprefix("#")], elements).transform(X)
    for child in node.findall("node"):
        yield from _read_node(child, elements, X)


def _rotation_matrix(values: Array) -> Array:
    X = np.eye(4)
    X[:3, :3] = rotation_about_axis(values[:3], float(np.radians(values[3])))
    return X


_TRANSFORMS: Final[Mapping[str, tuple[int, Callable[[Array], Array]]]] = {
    "matrix": (16, lambda values: values.reshape(4, 4)),
    "translate": (3, lambda values: Pose(None, values).matrix),
    "rotate": (4, _rotation_matrix),
    "scale": (3, lambda values: np.diag([*values, 1.0])),
}


def _read_geometry(geometry: Element, elements: Mapping[str, Element]) -> Triangles:
    parts = []
    for mesh in geometry.findall("mesh"):
        for element in mesh:
            if element.tag in ("triangles", "polylist", "polygons"):
                parts.append(_read_polygons(element, elements))
    return join_triangles(parts)


def _read_polygons(element: Element, elements: Mapping[str, Element]) -> Triangles:
    inputs = element.findall("input")
    width = 1 + max(int(entry.get("offset", "0")) for entry in inputs)
    (vertices,) = [entry for entry in inputs if entry.get("semantic") == "VERTEX"][:1]
    indices = [np.array((p.text or "").split(), np.int64) for p in element.findall("p")]
    used = [numbers.reshape(-1, width)[:, int(vertices.get("offset", "0"))] for numbers in indices]
    if element.tag == "triangles":
        rows = np.concatenate(used).reshape(-1, 3)
    else:
        counts = element.findtext("vcount")
        sizes = np.array(counts.split(), np.int64) if counts else np.array([len(corners) for corners in used])
        rows = _split_polygons(np.concatenate(used), sizes)
    return Triangles(_read_corners(elements[vertices.get("source", "").removeprefix("#")], elements), rows)


def _split_polygons(corners: NDArray[np.int64], sizes: NDArray[np.int64]) -> Faces:
    """Split polygons into triangles that share their first corner."""
    starts = np.cumsum([0, *sizes[:-1]])
    fans = [
        corners[[start, start + k, start + k + 1]]
        for start, size in zip(starts, sizes, strict=True)
        for k in range(1, size - 1)
    ]
    return np.array(fans, np.int64).reshape(-1, 3)


def _read_corners(vertices: Element, elements: Mapping[str, Element]) -> Array:
    (position,) = [entry for entry in vertices.findall("input") if entry.get("semantic") == "POSITION"]
    source = elements[position.get("source", "").removeprefix("#")]
    values = np.array((source.findtext("float_array") or "").split(), dtype=float)
    accessor = source.find("technique_common/accessor")
    stride = int(accessor.get("stride", "3")) if accessor is not None else 3
    return values.reshape(-1, stride)[:, :3]


MESH_READERS: Final[Mapping[str, Callable[[bytes], Triangles]]] = {
    ".stl": _read_stl,
    ".obj": _read_obj,
    ".dae": _read_dae,
}
"""Reader of each file suffix."""
