"""Read the triangles of mesh files: STL, OBJ, COLLADA (.dae) and MuJoCo's MSH.

Only positions are read, no materials.

mindyn has its own readers for three reasons: robot meshes come in these formats, only positions are needed, and files
of unknown origin get the same checks as robot files. The tests compare the readers with `trimesh`. Each reader counts
the triangles before it creates arrays for them.
"""

from __future__ import annotations

import io
import re
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.rotations import rotation_about_axis
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, RobotFileError, shorten_text
from mindyn.foundation.safe_reading import (
    MAX_TRIANGLES,
    InputBudget,
    are_limits_active,
    describe_exception,
    read_small_bytes,
)
from mindyn.robots.safe_robot_files import MAX_FILE_NUMBER, parse_numbers, parse_xml

MAX_MESH_BYTES: Final = 256 * 2**20
"""Size of a mesh file; a larger one is not meant for display or collision."""
MAX_LIST_NUMBERS: Final = 12 * MAX_TRIANGLES
"""Numbers of one list of a COLLADA file: three corners of a triangle with four indices each."""
STL_HEADER_BYTES: Final = 84
STL_RECORD: Final = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
"""Record of one triangle of a binary STL file; the records follow the header."""
_STL_VERTEX: Final = re.compile(rb"(?<!\S)vertex\b((?:[^\S\n]*+\S++){0,3})")
_MSH_HEADER: Final = np.dtype("<i4")
_WORD: Final = re.compile(r"\S+")
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


def read_mesh(path: Path, budget: InputBudget | None = None) -> Triangles:
    """Read the triangles of a file; raise `RobotFileError` if it has none or cannot be read.

    Parameters
    ----------
    path : pathlib.Path
        Mesh file.
    budget : InputBudget, optional
        Budget of the robot file that names the mesh; by default the mesh has one of its own.

    Returns
    -------
    Triangles
        Corners in m or the file's unit, and triangles.
    """
    read = MESH_READERS.get(path.suffix.lower())
    if read is None:
        message = f"{path.name} is not a mesh file that mindyn reads: {', '.join(MESH_READERS)}"
        raise RobotFileError(message, code=Code.WRONG_FORMAT, subject=path.name)
    budget = InputBudget(path.name, 0, RobotFileError) if budget is None else budget
    budget.take_file(path, "mesh")
    content = read_small_bytes(path, "mesh", RobotFileError, MAX_MESH_BYTES)
    try:
        with np.errstate(all="ignore"):  # numbers that overflow are rejected below
            mesh = read(content, budget)
    except (ValueError, IndexError, KeyError, OverflowError, TypeError, MemoryError) as error:
        reason = shorten_text(str(error), 200) if type(error) is ValueError else describe_exception(error)
        message = f"{path.name} is not a valid mesh: {reason}"
        raise RobotFileError(message, subject=path.name, code=Code.UNREADABLE) from error
    if not len(mesh.faces):
        raise RobotFileError(f"{path.name} has no triangles", code=Code.MISSING_VALUE, subject=path.name)
    if mesh.faces.min() < 0 or mesh.faces.max() >= len(mesh.corners):
        message = f"{path.name} has triangles with missing corners"
        raise RobotFileError(message, code=Code.OUT_OF_RANGE, subject=path.name)
    if not np.isfinite(mesh.corners).all():
        raise RobotFileError(f"{path.name} has infinite corners", code=Code.NOT_FINITE, subject=path.name)
    if np.abs(mesh.corners).max() > MAX_FILE_NUMBER:
        message = f"{path.name} has corners beyond {MAX_FILE_NUMBER:g} m"
        raise RobotFileError(message, code=Code.OUT_OF_RANGE, subject=path.name)
    return mesh


def _read_stl(content: bytes, budget: InputBudget) -> Triangles:
    count = int.from_bytes(content[80:STL_HEADER_BYTES], "little")
    is_text = content[:5].lower() == b"solid" and b"facet" in content[:1000]  # a binary one has no facets
    if len(content) >= STL_HEADER_BYTES + count * STL_RECORD.itemsize and not is_text:
        budget.take_triangles(count)
        corners = np.frombuffer(content, STL_RECORD, count, STL_HEADER_BYTES)["corners"].reshape(-1, 3)
    else:
        budget.take_triangles(content.count(b"vertex") // 3)
        numbers = array("d")
        for vertex in _STL_VERTEX.finditer(content):
            numbers.extend(_parse_corner(vertex[1].split()))
        corners = np.frombuffer(numbers).reshape(-1, 3)
        if len(corners) % 3:
            raise ValueError("its last triangle is incomplete")
    return Triangles(np.asarray(corners, dtype=float), np.arange(len(corners)).reshape(-1, 3))


def _read_obj(content: bytes, budget: InputBudget) -> Triangles:
    corners, faces, count = array("d"), array("q"), 0
    for line in io.BytesIO(content):
        kind, *words = line.split() or [b""]
        if kind == b"v":
            corners.extend(_parse_corner(words[:3]))
            count += 1
        elif kind == b"f":
            places = [int(word.partition(b"/")[0]) for word in words]
            used = [place - 1 if place > 0 else count + place for place in places]
            budget.take_triangles(max(0, len(used) - 2))
            for k in range(1, len(used) - 1):
                faces.extend((used[0], used[k], used[k + 1]))
    return Triangles(np.array(corners).reshape(-1, 3), np.array(faces, np.int64).reshape(-1, 3))


def _parse_corner(words: list[bytes]) -> list[float]:
    """Parse the three coordinates of a corner."""
    if len(words) != 3:
        raise ValueError(f"a corner has {len(words)} coordinates instead of 3")
    return [float(word) for word in words]


def _read_msh(content: bytes, budget: InputBudget) -> Triangles:
    """Read MuJoCo's binary format: four counts, then corners, normals, texture coordinates and triangles."""
    header = np.frombuffer(content[:16], _MSH_HEADER)
    if len(header) != 4 or (header < 0).any():
        raise ValueError("its header is not that of a MuJoCo mesh")
    corners, normals, textures, faces = (int(count) for count in header)
    if len(content) != 16 + 4 * (3 * corners + 3 * normals + 2 * textures + 3 * faces):
        raise ValueError("its size differs from that in its header")
    budget.take_triangles(faces)
    points = np.frombuffer(content, "<f4", 3 * corners, 16).astype(float)
    places = np.frombuffer(content[len(content) - 12 * faces :], "<i4", 3 * faces).astype(np.int64)
    return Triangles(points.reshape(-1, 3), places.reshape(-1, 3))


def _read_dae(content: bytes, budget: InputBudget) -> Triangles:
    """Read the scene in m. The up axis is ignored, as robot viewers do."""
    root = parse_xml(content.decode("utf-8-sig", "replace"), "the COLLADA file")
    unit = root.find("asset/unit")
    scale = float(unit.get("meter", "1")) if unit is not None else 1.0
    reader = _ColladaReader({element.get("id", ""): element for element in root.iter() if element.get("id")}, budget)
    parts = [
        part
        for scene in root.findall("library_visual_scenes/visual_scene")
        for node in scene.findall("node")
        for part in reader.read_node(node, np.eye(4))
    ]
    if not parts:
        parts = [reader.use_geometry(geometry) for geometry in root.findall("library_geometries/geometry")]
    mesh = join_triangles(parts)
    return Triangles(scale * mesh.corners, mesh.faces)


@dataclass(slots=True)
class _ColladaReader:
    """Reader of a COLLADA file that caches elements by id: many instances may use one geometry, and many polygons one
    source.
    """

    elements: Mapping[str, Element]
    budget: InputBudget
    geometries: dict[Element, Triangles] = field(default_factory=dict)
    sources: dict[str, Array] = field(default_factory=dict)

    def read_node(self, node: Element, X_parent: Array) -> Iterator[Triangles]:
        X = X_parent
        for element in node:
            if element.tag in _TRANSFORMS and element.text:
                values, size, move = element.text, *_TRANSFORMS[element.tag]
                X = X @ move(parse_numbers(values, size, element.tag))
        for geometry in node.findall("instance_geometry"):
            yield self.use_geometry(self.find(geometry.get("url", ""))).transform(X)
        for child in node.findall("node"):
            yield from self.read_node(child, X)

    def find(self, reference: str) -> Element:
        """Return the element of a reference."""
        if reference.removeprefix("#") not in self.elements:
            raise ValueError(f"it refers to {reference!r}, which it does not contain")
        return self.elements[reference.removeprefix("#")]

    def use_geometry(self, geometry: Element) -> Triangles:
        """Return the triangles of a geometry, and count them once more against the limit."""
        if geometry not in self.geometries:
            parts = [
                self.read_polygons(element)
                for mesh in geometry.findall("mesh")
                for element in mesh
                if element.tag in ("triangles", "polylist", "polygons")
            ]
            self.geometries[geometry] = join_triangles(parts)
        triangles = self.geometries[geometry]
        self.budget.take_triangles(len(triangles.faces))
        return triangles

    def read_polygons(self, element: Element) -> Triangles:
        inputs = element.findall("input")
        vertices = _find_input(inputs, "VERTEX")
        width = 1 + max(int(entry.get("offset", "0")) for entry in inputs)
        indices = [_parse_list(p.text, np.int64) for p in element.findall("p")]
        used = [numbers.reshape(-1, width)[:, int(vertices.get("offset", "0"))] for numbers in indices]
        places = np.concatenate([np.empty(0, np.int64), *used])
        if element.tag == "triangles":
            faces = places.reshape(-1, 3)
        else:
            counts = element.findtext("vcount")
            sizes = _parse_list(counts, np.int64) if counts else np.array([len(corners) for corners in used], np.int64)
            faces = _split_polygons(places, sizes)
        return _keep_used_corners(self.read_corners(vertices.get("source", "")), faces)

    def read_corners(self, reference: str) -> Array:
        if reference not in self.sources:
            position = _find_input(self.find(reference).findall("input"), "POSITION")
            source = self.find(position.get("source", ""))
            values = _parse_list(source.findtext("float_array"), np.float64)
            accessor = source.find("technique_common/accessor")
            stride = int(accessor.get("stride", "3")) if accessor is not None else 3
            if stride < 3:
                raise ValueError(f"its corners have {stride} coordinates instead of 3")
            self.sources[reference] = values.reshape(-1, stride)[:, :3]
        return self.sources[reference]


def _find_input(inputs: list[Element], semantic: str) -> Element:
    """Return the first input of a meaning."""
    for entry in inputs:
        if entry.get("semantic") == semantic:
            return entry
    raise ValueError(f"an element has no input {semantic!r}")


def _parse_list(text: str | None, kind: Any) -> NDArray[Any]:
    """Parse the numbers of a list without holding all its words in memory."""
    words = (word[0] for word in islice(_WORD.finditer(text or ""), MAX_LIST_NUMBERS + 1))
    numbers = np.fromiter(map(int if kind is np.int64 else float, words), kind)
    if len(numbers) > MAX_LIST_NUMBERS and are_limits_active():
        raise ValueError(f"a list has more than {MAX_LIST_NUMBERS} numbers")
    return numbers


def _split_polygons(corners: NDArray[np.int64], sizes: NDArray[np.int64]) -> Faces:
    """Split polygons into triangles that share their first corner."""
    if (len(sizes) and (sizes.min() < 0 or sizes.max() > len(corners))) or int(sizes.sum()) != len(corners):
        raise ValueError("its polygons have other sizes than their lists of corners")
    fans = np.maximum(sizes - 2, 0)
    first = np.repeat(np.cumsum(sizes) - sizes, fans)
    second = first + 1 + np.arange(len(first)) - np.repeat(np.cumsum(fans) - fans, fans)
    faces: Faces = corners[np.stack([first, second, second + 1], axis=1)].reshape(-1, 3)
    return faces


def _keep_used_corners(corners: Array, faces: Faces) -> Triangles:
    """Drop corners that no triangle uses. The number of triangles then limits the memory of all instances."""
    if len(faces) and (faces.min() < 0 or faces.max() >= len(corners)):
        raise ValueError("it has triangles with missing corners")
    used, renumbered = np.unique(faces, return_inverse=True)
    return Triangles(corners[used], renumbered.reshape(-1, 3).astype(np.int64))


def _rotation_matrix(values: Array) -> Array:
    X, length = np.eye(4), float(np.linalg.norm(values[:3]))
    if not length:
        raise ValueError("a rotation has no axis")
    X[:3, :3] = rotation_about_axis(values[:3] / length, float(np.radians(values[3])))
    return X


_TRANSFORMS: Final[Mapping[str, tuple[int, Callable[[Array], Array]]]] = {
    "matrix": (16, lambda values: values.reshape(4, 4)),
    "translate": (3, lambda values: Pose(None, values).matrix),
    "rotate": (4, _rotation_matrix),
    "scale": (3, lambda values: np.diag([*values, 1.0])),
}

MESH_READERS: Final[Mapping[str, Callable[[bytes, InputBudget], Triangles]]] = {
    ".stl": _read_stl,
    ".obj": _read_obj,
    ".dae": _read_dae,
    ".msh": _read_msh,
}
"""Reader of each file suffix."""
