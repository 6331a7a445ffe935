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

from mindyn.algebra.rotations import about_axis
from mindyn.algebra.values import Array
from mindyn.errors import RobotFileError
from mindyn.reading import reason_of, require_file
from mindyn.robots.files import numbers, parse_xml

LARGEST_MESH: Final = 256 * 2**20
"""Bytes; a mesh of a link that is larger was meant for another purpose."""
HEAD: Final = 84
RECORD: Final = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
"""Of a binary STL: bytes before the triangles, and one triangle."""
Faces = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Triangles:
    """Corners (V, 3) in m or the file's unit, and triangles (F, 3) as numbers of corners."""

    corners: Array
    faces: Faces

    def moved(self, X: Array) -> Triangles:
        """By a matrix (4, 4)."""
        return Triangles(self.corners @ X[:3, :3].T + X[:3, 3], self.faces)


def joined(parts: list[Triangles]) -> Triangles:
    """Several as one."""
    starts = np.cumsum([0, *(len(part.corners) for part in parts)])
    corners = np.concatenate([np.empty((0, 3)), *(part.corners for part in parts)])
    shifted = [part.faces + start for part, start in zip(parts, starts, strict=False)]
    return Triangles(corners, np.concatenate([np.empty((0, 3), np.int64), *shifted]))


def read_mesh(path: Path) -> Triangles:
    """The triangles of a file; an error that says why where there are none."""
    read = READERS.get(path.suffix.lower())
    if read is None:
        raise RobotFileError(f"{path.name}: meshes are read from {', '.join(READERS)}")
    if require_file(path, "mesh", RobotFileError) > LARGEST_MESH:
        raise RobotFileError(f"{path.name} has more than {LARGEST_MESH / 2**20:.0f} MiB")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RobotFileError(f"{path.name} cannot be read: {reason_of(error)}") from error
    try:
        found = read(content)
    except (ValueError, IndexError, KeyError) as error:
        raise RobotFileError(f"{path.name} is not a mesh that can be read: {error}") from error
    if not len(found.faces):
        raise RobotFileError(f"{path.name} has no triangles")
    if found.faces.min() < 0 or found.faces.max() >= len(found.corners) or not np.isfinite(found.corners).all():
        raise RobotFileError(f"{path.name} has triangles without corners, or corners that are not numbers")
    return found


def _stl(content: bytes) -> Triangles:
    count = int.from_bytes(content[80:HEAD], "little")
    if len(content) >= HEAD + count * RECORD.itemsize and len(content) >= HEAD and not _is_text(content):
        corners = np.frombuffer(content, RECORD, count, HEAD)["corners"].reshape(-1, 3)
    else:
        words = content.decode("ascii", "replace").split()
        places = [k for k, word in enumerate(words) if word == "vertex"]
        corners = np.array([[float(value) for value in words[k + 1 : k + 4]] for k in places]).reshape(-1, 3)
        if len(corners) % 3:
            raise ValueError("its last triangle is cut off")
    return Triangles(np.asarray(corners, dtype=float), np.arange(len(corners)).reshape(-1, 3))


def _is_text(content: bytes) -> bool:
    """Binary files may begin with `solid` too; text has facets."""
    return content[:5].lower() == b"solid" and b"facet" in content[:1000]


def _obj(content: bytes) -> Triangles:
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


def _dae(content: bytes) -> Triangles:
    """Its scene, in m. The axis that is up in the drawing is not asked for, as robot viewers do."""
    root = parse_xml(content.decode("utf-8-sig", "replace"), "the COLLADA file")
    unit = root.find("asset/unit")
    scale = float(unit.get("meter", "1")) if unit is not None else 1.0
    known = {one.get("id", ""): one for one in root.iter() if one.get("id")}
    drawn = [
        part
        for scene in root.findall("library_visual_scenes/visual_scene")
        for node in scene.findall("node")
        for part in _drawn(node, known, np.eye(4))
    ]
    if not drawn:
        drawn = [_geometry(one, known) for one in root.findall("library_geometries/geometry")]
    whole = joined(drawn)
    return Triangles(scale * whole.corners, whole.faces)


def _drawn(node: Element, known: Mapping[str, Element], above: Array) -> Iterator[Triangles]:
    X = above
    for element in node:
        if element.tag in _MOVES and element.text:
            values, size, move = element.text, *_MOVES[element.tag]
            X = X @ move(numbers(values, size, element.tag))
    for geometry in node.findall("instance_geometry"):
        yield _geometry(known[geometry.get("url", "").removeprefix("#")], known).moved(X)
    for child in node.findall("node"):
        yield from _drawn(child, known, X)


def _matrix(values: Array) -> Array:
    return values.reshape(4, 4)


def _shift(values: Array) -> Array:
    X = np.eye(4)
    X[:3, 3] = values
    return X


def _turn(values: Array) -> Array:
    X = np.eye(4)
    X[:3, :3] = about_axis(values[:3], float(np.radians(values[3])))
    return X


def _stretch(values: Array) -> Array:
    return np.diag([*values, 1.0])


_MOVES: Final[Mapping[str, tuple[int, Callable[[Array], Array]]]] = {
    "matrix": (16, _matrix),
    "translate": (3, _shift),
    "rotate": (4, _turn),
    "scale": (3, _stretch),
}


def _geometry(geometry: Element, known: Mapping[str, Element]) -> Triangles:
    parts = []
    for mesh in geometry.findall("mesh"):
        for element in mesh:
            if element.tag in ("triangles", "polylist", "polygons"):
                parts.append(_polygons(element, known))
    return joined(parts)


def _polygons(element: Element, known: Mapping[str, Element]) -> Triangles:
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
        rows = _fans(np.concatenate(used), sizes)
    return Triangles(_corners(known[place.get("source", "").removeprefix("#")], known), rows)


def _fans(corners: NDArray[np.int64], sizes: NDArray[np.int64]) -> Faces:
    """Polygons as triangles about their first corners."""
    starts = np.cumsum([0, *sizes[:-1]])
    fans = [
        corners[[start, start + k, start + k + 1]]
        for start, size in zip(starts, sizes, strict=True)
        for k in range(1, size - 1)
    ]
    return np.array(fans, np.int64).reshape(-1, 3)


def _corners(vertices: Element, known: Mapping[str, Element]) -> Array:
    (place,) = [one for one in vertices.findall("input") if one.get("semantic") == "POSITION"]
    source = known[place.get("source", "").removeprefix("#")]
    values = np.array((source.findtext("float_array") or "").split(), dtype=float)
    accessor = source.find("technique_common/accessor")
    stride = int(accessor.get("stride", "3")) if accessor is not None else 3
    return values.reshape(-1, stride)[:, :3]


READERS: Final[Mapping[str, Callable[[bytes], Triangles]]] = {".stl": _stl, ".obj": _obj, ".dae": _dae}
"""For each suffix the reader of its files."""
