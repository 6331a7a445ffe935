"""Triangles of mesh files: STL, OBJ and COLLADA (.dae); positions alone, without materials.

Readers of our own: these are the formats that meshes of robots come in, positions are all that is asked of them, and
files of strangers are read with the care that robot files get here. `trimesh` is the oracle of their tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.rotations import rotation_about_axis
from mindyn.algebra.values import Array
from mindyn.errors import RobotFileError
from mindyn.reading import describe_exception, require_file
from mindyn.robots.files import parse_numbers, parse_xml

MAX_MESH_BYTES: Final = 256 * 2**20
"""Bytes; a mesh of a link that is larger was meant for another purpose."""
STL_HEADER_BYTES: Final = 84
STL_RECORD: Final = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
"""Of a binary STL: bytes before the triangles, and one triangle."""
Faces = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Triangles:
    """Corners (V, 3) in m or the file's unit, and triangles (F, 3) as numbers of corners."""

    corners: Array
    faces: Faces

    def transform(self, X: Array) -> Triangles:
        """By a matrix (4, 4)."""
        return Triangles(self.corners @ X[:3, :3].T + X[:3, 3], self.faces)


def join_triangles(parts: list[Triangles]) -> Triangles:
    """Several as one."""
    starts = np.cumsum([0, *(len(part.corners) for part in parts)])
    corners = np.concatenate([np.empty((0, 3)), *(part.corners for part in parts)])
    shifted = [part.faces + start for part, start in zip(parts, starts, strict=False)]
    return Triangles(corners, np.concatenate([np.empty((0, 3), np.int64), *shifted]))


def read_mesh(path: Path) -> Triangles:
    """The triangles of a file; an error that says why where there are none."""
    read = MESH_READERS.get(path.suffix.lower())
    if read is None:
        raise RobotFileError(f"{path.name}: meshes are read from {', '.join(MESH_READERS)}")
    if require_file(path, "mesh", RobotFileError) > MAX_MESH_BYTES:
        raise RobotFileError(f"{path.name} has more than {MAX_MESH_BYTES / 2**20:.0f} MiB")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RobotFileError(f"{path.name} cannot be read: {describe_exception(error)}") from error
    try:
        found = read(content)
    except (ValueError, IndexError, KeyError) as error:
        raise RobotFileError(f"{path.name} is not a mesh that can be read: {error}") from error
    if not len(found.faces):
        raise RobotFileError(f"{path.name} has no triangles")
    if found.faces.min() < 0 or found.faces.max() >= len(found.corners) or not np.isfinite(found.corners).all():
        raise RobotFileError(f"{path.name} has triangles without corners, or corners that are not numbers")
    return found


def _read_stl(content: bytes) -> Triangles:
    count = int.from_bytes(content[80:STL_HEADER_BYTES], "little")
    if (
        len(content) >= STL_HEADER_BYTES + count * STL_RECORD.itemsize
        and len(content) >= STL_HEADER_BYTES
        and not _is_text_stl(content)
    ):
        corners = np.frombuffer(content, STL_RECORD, count, STL_HEADER_BYTES)["corners"].reshape(-1, 3)
    else:
        words = content.decode("ascii", "replace").split()
        places = [k for k, word in enumerate(words) if word == "vertex"]
        corners = np.array([[float(value) for value in words[k + 1 : k + 4]] for k in places]).reshape(-1, 3)
        if len(corners) % 3:
            raise ValueError("its last triangle is cut off")
    return Triangles(np.asarray(corners, dtype=float), np.arange(len(corners)).reshape(-1, 3))


def _is_text_stl(content: bytes) -> bool:
    """Binary files may begin with `solid` too; text has facets."""
    return content[:5].lower() == b"solid" and b"facet" in content[:1000]


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
    """Its scene, in m. The axis that is up in the drawing is not asked for, as robot viewers do."""
    root = parse_xml(content.decode("utf-8-sig", "replace"), "the COLLADA file")
    unit = root.find("asset/unit")
    scale = float(unit.get("meter", "1")) if unit is not None else 1.0
    known = {one.get("id", ""): one for one in root.iter() if one.get("id")}
    drawn = [
        part
        for scene in root.findall("library_visual_scenes/visual_scene")
        for node in scene.findall("node")
        for part in _read_node(node, known, np.eye(4))
    ]
    if not drawn:
        drawn = [_read_geometry(one, known) for one in root.findall("library_geometries/geometry")]
    whole = join_triangles(drawn)
    return Triangles(scale * whole.corners, whole.faces)


def _read_node(node: Element, known: Mapping[str, Element], above: Array) -> Iterator[Triangles]:
    X = above
    for element in node:
        if element.tag in _TRANSFORMS and element.text:
            values, size, move = element.text, *_TRANSFORMS[element.tag]
            X = X @ move(parse_numbers(values, size, element.tag))
    for geometry in node.findall("instance_geometry"):
        yield _read_geometry(known[geometry.get("url", "").removeprefix("#")], known).transform(X)
    for child in node.findall("node"):
        yield from _read_node(child, known, X)


def _parse_matrix(values: Array) -> Array:
    return values.reshape(4, 4)


def _translation_matrix(values: Array) -> Array:
    X = np.eye(4)
    X[:3, 3] = values
    return X


def _rotation_matrix(values: Array) -> Array:
    X = np.eye(4)
    X[:3, :3] = rotation_about_axis(values[:3], float(np.radians(values[3])))
    return X


def _scale_matrix(values: Array) -> Array:
    return np.diag([*values, 1.0])


_TRANSFORMS: Final[Mapping[str, tuple[int, Callable[[Array], Array]]]] = {
    "matrix": (16, _parse_matrix),
    "translate": (3, _translation_matrix),
    "rotate": (4, _rotation_matrix),
    "scale": (3, _scale_matrix),
}


def _read_geometry(geometry: Element, known: Mapping[str, Element]) -> Triangles:
    parts = []
    for mesh in geometry.findall("mesh"):
        for element in mesh:
            if element.tag in ("triangles", "polylist", "polygons"):
                parts.append(_read_polygons(element, known))
    return join_triangles(parts)


def _read_polygons(element: Element, known: Mapping[str, Element]) -> Triangles:
    inputs = element.findall("input")
    width = 1 + max(int(one.get("offset", "0")) for one in inputs)
    (place,) = [one for one in inputs if one.get("semantic") == "VERTEX"][:1]
    indices = [np.array((p.text or "").split(), np.int64) for p in element.findall("p")]
    used = [one.reshape(-1, width)[:, int(place.get("offset", "0"))] for one in indices]
    if element.tag == "triangles":
        rows = np.concatenate(used).reshape(-1, 3)
    else:
        counts = element.findtext("vcount")
        sizes = np.array(counts.split(), np.int64) if counts else np.array([len(one) for one in used])
        rows = _split_polygons(np.concatenate(used), sizes)
    return Triangles(_read_corners(known[place.get("source", "").removeprefix("#")], known), rows)


def _split_polygons(corners: NDArray[np.int64], sizes: NDArray[np.int64]) -> Faces:
    """Polygons as triangles about their first corners."""
    starts = np.cumsum([0, *sizes[:-1]])
    fans = [
        corners[[start, start + k, start + k + 1]]
        for start, size in zip(starts, sizes, strict=True)
        for k in range(1, size - 1)
    ]
    return np.array(fans, np.int64).reshape(-1, 3)


def _read_corners(vertices: Element, known: Mapping[str, Element]) -> Array:
    (place,) = [one for one in vertices.findall("input") if one.get("semantic") == "POSITION"]
    source = known[place.get("source", "").removeprefix("#")]
    values = np.array((source.findtext("float_array") or "").split(), dtype=float)
    accessor = source.find("technique_common/accessor")
    stride = int(accessor.get("stride", "3")) if accessor is not None else 3
    return values.reshape(-1, stride)[:, :3]


MESH_READERS: Final[Mapping[str, Callable[[bytes], Triangles]]] = {
    ".stl": _read_stl,
    ".obj": _read_obj,
    ".dae": _read_dae,
}
"""For each suffix the reader of its files."""
