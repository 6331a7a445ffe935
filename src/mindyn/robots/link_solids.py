"""Read the solids of every link from the robot file: collision shapes, or visual shapes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import numpy as np

from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.foundation.algebra.rotations import rotation_from_quaternion
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import MindynError, RobotFileError, shorten_text
from mindyn.foundation.safe_reading import InputBudget, is_file
from mindyn.robots.description import Description
from mindyn.robots.loading import read_description
from mindyn.robots.mesh_files import Triangles, read_mesh
from mindyn.robots.mjcf_source import compile_with_solids, import_mujoco
from mindyn.robots.parts import Joint, Shape
from mindyn.robots.robot import Robot
from mindyn.robots.safe_robot_files import parse_xml, read_text
from mindyn.robots.snapping import Snapper
from mindyn.robots.urdf_reader import read_visual_shapes

CYLINDER_SIDES: Final = 32
"""Sides of the prism around a cylinder; its edges are 0.5 % of the radius outside."""
ELLIPSOID_LATITUDES: Final = 12
"""Latitudes, and half the longitudes, of the polyhedron around an ellipsoid."""


class VolumeSource(StrEnum):
    """Origin of the volume of a link. The last members are guesses, which may not contain the whole link."""

    GIVEN = "given"
    COLLISION = "collision geometry"
    VISUAL = "visual mesh"
    ELLIPSOID = "inertia ellipsoid (guess)"
    FRAMES = "joint frames (guess)"

    @property
    def is_guess(self) -> bool:
        """Whether the volume may be smaller than the link."""
        return self in (VolumeSource.ELLIPSOID, VolumeSource.FRAMES)


@dataclass(frozen=True, slots=True, eq=False)
class Solid:
    """Convex hull of `points` (V, 3) in a link frame, swept by a ball of `radius`, which contains the shape.

    surface  triangles of a mesh, which may not be convex
    """

    points: Array
    radius: float = 0.0
    surface: Triangles | None = None

    def transform(self, X: Pose) -> Solid:
        """Return the solid in frame a, for X = X_ab and a solid in frame b."""
        surface = None if self.surface is None else self.surface.transform(X.matrix)
        return Solid(self.points @ X.rotation.T + X.translation, self.radius, surface)

    def triangles(self) -> Triangles:
        """Return the triangles of the surface, or of the swept hull, with normals that point outwards."""
        from scipy.spatial import ConvexHull

        if self.surface is not None:
            return self.surface
        corners = self.points
        if self.radius:
            corners = (self.points[:, None] + self.radius * _sphere_corners()).reshape(-1, 3)
        hull = ConvexHull(corners, qhull_options="QJ")  # flat boxes too
        a, b, c = (corners[hull.simplices[:, k]] for k in range(3))
        inward = np.einsum("ij,ij->i", np.cross(b - a, c - a), hull.equations[:, :3]) < 0
        return Triangles(corners, np.where(inward[:, None], hull.simplices[:, ::-1], hull.simplices).astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class LinkGeometry:
    """Solids of one link of a file, in the link frame; empty if the file has none that can be read."""

    solids: tuple[Solid, ...] = ()
    source: VolumeSource = VolumeSource.COLLISION


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """Geometry of a robot file.

    links    by the link name in the file; a fixed joint may have merged the link into another one
    phi      (10,) standard parameters by the same names, None if the file has none
    missing  names of mesh files that are missing or unreadable
    """

    links: Mapping[str, LinkGeometry]
    phi: Mapping[str, Array | None] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


def read_geometry(robot: Robot) -> Geometry:
    """Read the geometry of the file that the robot was loaded from, or of the robot's shapes if there is no file.

    If the robot was edited and its link frames differ from those of the file, use the robot's shapes.
    """
    geometry = read_file_geometry(robot.file, robot) if robot.file else None
    if geometry is not None:
        return geometry
    reader = _MeshReader(Path(robot.file or "robot").absolute())
    links = {
        link.name: _choose_geometry(reader, [(VolumeSource.COLLISION, link.shapes)])
        for link in (robot.root, *robot.links)
    }
    return Geometry(links, {link.name: link.phi for link in robot.links}, reader.problems)


def read_file_geometry(source: str | Path, robot: Robot, *, visual: bool = False) -> Geometry | None:
    """Read the geometry of a robot file. With `visual`, visual shapes are preferred to collision shapes.

    Return None if the file cannot be read, or if its joints have other frames than those of the robot.
    """
    try:
        description = read_description(source)
    except (MindynError, OSError):
        return None
    if not _has_same_frames(description, robot):
        return None
    path = Path(source)
    phi = {link.name: link.phi for link in description.links}
    text = read_text(path) if is_file(path) and path.suffix != ".toml" else ""
    tag = parse_xml(text, path.name).tag if text else ""
    if tag == "mujoco":
        return _mjcf_geometry(path, phi, visual=visual)
    shown = {link.name: link.shapes for link in read_visual_shapes(text, Snapper()).links} if tag == "robot" else {}
    reader, links = _MeshReader(path.absolute()), {}
    for link in description.links:
        choices = [(VolumeSource.COLLISION, link.shapes), (VolumeSource.VISUAL, shown.get(link.name, ()))]
        links[link.name] = _choose_geometry(reader, choices[::-1] if visual else choices)
    return Geometry(links, phi, reader.problems)


@dataclass(slots=True)
class _MeshReader:
    """Read each mesh file once, and record the files that are missing or unreadable."""

    robot_file: Path
    budget: InputBudget = field(init=False)
    read: dict[str, Triangles | None] = field(default_factory=dict)
    found: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.budget = InputBudget(self.robot_file.name, 0, RobotFileError)

    @property
    def problems(self) -> tuple[str, ...]:
        """Missing files, and the reasons why others cannot be read."""
        return tuple(self.found)

    def shape(self, shape: Shape) -> Triangles | None:
        """Return the triangles of a mesh; None if its file is missing or unreadable, or the robot has too many."""
        try:
            mesh = self.use(shape.filename)
        except MindynError as error:
            self.found[error.message] = None
            return None
        return None if mesh is None else Triangles(mesh.corners * np.array(shape.dimensions), mesh.faces)

    def use(self, name: str) -> Triangles | None:
        """Return the triangles of a file, which is read once and counted at each use; None if it is missing."""
        if name in self.read:
            mesh = self.read[name]
            self.budget.take_triangles(0 if mesh is None else len(mesh.faces))
            return mesh
        self.read[name] = None
        path = next((path for path in _candidate_paths(name, self.robot_file) if is_file(path)), None)
        if path is None:
            self.found[shorten_text(name, 200)] = None
            return None
        self.read[name] = read_mesh(path, self.budget)
        return self.read[name]


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


def _has_same_frames(description: Description, robot: Robot) -> bool:
    joints = {joint.name: joint for joint in description.joints if isinstance(joint, Joint)}
    return all(
        joint.name in joints
        and np.allclose(joint.tip.matrix, joints[joint.name].tip.matrix, atol=1e-9)
        and np.allclose(joint.axis, joints[joint.name].axis, atol=1e-9)
        for joint in robot.joints
    )


def _choose_geometry(reader: _MeshReader, choices: Iterable[tuple[VolumeSource, Sequence[Shape]]]) -> LinkGeometry:
    """Return the first choice whose shapes can all be read."""
    for source, shapes in choices:
        solids = [solid for shape in shapes for solid in _shape_solids(reader, shape)]
        if solids and None not in solids:
            return LinkGeometry(tuple(solid for solid in solids if solid is not None), source)
    return LinkGeometry()


def _shape_solids(reader: _MeshReader, shape: Shape) -> list[Solid | None]:
    """Return the solids of a shape: an empty list for a placeholder without thickness, None if the mesh file is
    unreadable.
    """
    if shape.kind == "mesh":
        mesh = reader.shape(shape)
        return [None if mesh is None else mesh_solid(mesh).transform(shape.pose)]
    thick = [size > 0 for size in shape.dimensions]
    if sum(thick) < 2 if shape.kind == "box" else not thick[0]:
        return []
    return [_primitive_solid(shape.kind, shape.dimensions).transform(shape.pose)]


def _primitive_solid(kind: str, size: Sequence[float]) -> Solid:
    if kind == "sphere":
        return Solid(np.zeros((1, 3)), size[0])
    if kind == "capsule":
        return Solid(np.array([[0.0, 0.0, -size[1] / 2], [0.0, 0.0, size[1] / 2]]), size[0])
    if kind == "box":
        return Solid(np.array(list(product((-0.5, 0.5), repeat=3))) * np.array(size))
    angles = np.arange(CYLINDER_SIDES) * 2 * np.pi / CYLINDER_SIDES
    ring = size[0] / np.cos(np.pi / CYLINDER_SIDES) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    ends = [np.column_stack([ring, np.full(CYLINDER_SIDES, z)]) for z in (-size[1] / 2, size[1] / 2)]
    return Solid(np.concatenate(ends))


def _sphere_corners() -> Array:
    """Return the corners (V, 3) of a polyhedron in the unit sphere."""
    theta, phi = (
        np.linspace(0, end, count)
        for end, count in ((np.pi, ELLIPSOID_LATITUDES + 1), (2 * np.pi, 2 * ELLIPSOID_LATITUDES + 1))
    )
    T, F = np.meshgrid(theta, phi[:-1])
    return np.stack([np.sin(T) * np.cos(F), np.sin(T) * np.sin(F), np.cos(T)], axis=-1).reshape(-1, 3)


def _ellipsoid_solid(half: Array) -> Solid:
    """Return the corners of a polyhedron around an ellipsoid: those inscribed in the unit sphere, enlarged."""
    return Solid(_sphere_corners() / np.cos(np.pi / 2 / ELLIPSOID_LATITUDES) ** 2 * half)


def mesh_solid(mesh: Triangles) -> Solid:
    """Return the convex hull of a mesh; if the mesh encloses no volume, return all its corners."""
    from scipy.spatial import ConvexHull, QhullError

    used = mesh.corners[np.unique(mesh.faces)]
    try:
        return Solid(used[ConvexHull(used).vertices], surface=mesh)
    except QhullError:
        return Solid(np.unique(used, axis=0), surface=mesh)


def _mjcf_geometry(path: Path, phi: Mapping[str, Array | None], *, visual: bool) -> Geometry:
    """Return the geoms of the compiled model: those that collide, or all geoms of a body without colliding ones.

    With `visual`, the geoms that do not collide are preferred.
    """
    mujoco, (model, replaced, problems) = import_mujoco(), compile_with_solids(path)
    names = [mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_MESH, k) for k in range(model.nmesh)]
    lost = {k for k, name in enumerate(names) if name in replaced}
    links = {}
    for body in range(model.nbody):
        first = int(model.body_geomadr[body])
        mesh_of = {g: int(model.geom_dataid[g]) for g in range(first, first + int(model.body_geomnum[body]))}
        geoms = [g for g, mesh in mesh_of.items() if mesh not in lost]
        colliding = [g for g in geoms if model.geom_contype[g] or model.geom_conaffinity[g]]
        shown = [g for g in geoms if g not in colliding] if visual else colliding
        solids = [solid for g in shown or geoms for solid in _geom_solids(mujoco, model, g)]
        name = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_BODY, body) or f"body{body}"
        source = VolumeSource.COLLISION if colliding else VolumeSource.VISUAL
        links[str(name)] = LinkGeometry(tuple(solids), source)
    return Geometry(links, phi, problems)


def _geom_solids(mujoco: Any, model: Any, geom: int) -> list[Solid]:
    """Return the solid of a geom in its body frame; nothing for planes and height fields, which are surroundings."""
    kind = mujoco.mjtGeom(int(model.geom_type[geom])).name.removeprefix("mjGEOM_").lower()
    size = np.array(model.geom_size[geom])
    X = Pose(rotation_from_quaternion(*model.geom_quat[geom]), model.geom_pos[geom])
    if kind == "mesh":
        mesh = int(model.geom_dataid[geom])
        first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
        face, faces = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
        corners = np.array(model.mesh_vert[first : first + count], dtype=float)
        solid = mesh_solid(Triangles(corners, np.array(model.mesh_face[face : face + faces], dtype=np.int64)))
    elif kind == "ellipsoid":
        solid = _ellipsoid_solid(size)
    elif kind in ("sphere", "capsule", "cylinder", "box"):
        solid = _primitive_solid(kind, (2 * size).tolist() if kind == "box" else [float(size[0]), 2 * float(size[1])])
    else:
        return []
    return [solid.transform(X)]


def locate_file_link(robot: Robot, name: str) -> tuple[str, Pose] | None:
    """Return the robot link that contains a link of the file, and the pose of the file's link in it; None if the link
    was cut off.
    """
    if name == robot.root.name or name in robot.link_names:
        return name, IDENTITY
    return next(((frame.link, frame.pose) for frame in robot.frames if frame.name == name), None)
