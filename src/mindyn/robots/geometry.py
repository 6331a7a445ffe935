"""Read the solids of every link as its file describes them: collision shapes, or visual ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from mindyn.algebra.poses import IDENTITY, Pose, rotation_from_quaternion
from mindyn.algebra.values import Array
from mindyn.errors import MindynError
from mindyn.robots.description import Description
from mindyn.robots.files import parse_xml, read_text
from mindyn.robots.loading import bundled_robots, read_description
from mindyn.robots.mesh_files import Triangles
from mindyn.robots.meshes import MeshReader
from mindyn.robots.mjcf_reader import compile_mjcf, import_mujoco
from mindyn.robots.parts import Joint, Shape
from mindyn.robots.robot import Robot
from mindyn.robots.snapping import Snapper
from mindyn.robots.urdf_reader import read_visual_shapes

CYLINDER_SIDES: Final = 32
"""Sides of the prism around a cylinder; its edges are 0.5 % of the radius outside."""
ELLIPSOID_LATITUDES: Final = 12
"""Latitudes, and half the longitudes, of the polyhedron around an ellipsoid."""


class VolumeSource(StrEnum):
    """Origin of the volume of a link; guesses come last and may not contain the whole link."""

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
    reader = MeshReader(Path(robot.file or "robot").absolute())
    try:
        description = read_description(robot.file) if robot.file else None
    except (MindynError, OSError):
        description = None
    if description is None or not _has_same_frames(description, robot):
        links = {
            link.name: _choose_geometry(reader, [(VolumeSource.COLLISION, link.shapes)])
            for link in (robot.root, *robot.links)
        }
        return Geometry(links, {link.name: link.phi for link in robot.links}, _list_missing_meshes(reader))
    phi = {link.name: link.phi for link in description.links}
    text = "" if robot.file in bundled_robots() or robot.file.endswith(".toml") else read_text(Path(robot.file))
    tag = parse_xml(text, robot.file).tag if text else ""
    if tag == "mujoco":
        return _mjcf_geometry(Path(robot.file), phi)
    collision = {link.name: link.shapes for link in description.links}
    visual = {link.name: link.shapes for link in read_visual_shapes(text, Snapper()).links} if tag == "robot" else {}
    links = {
        name: _choose_geometry(reader, [(VolumeSource.COLLISION, shapes), (VolumeSource.VISUAL, visual.get(name, ()))])
        for name, shapes in collision.items()
    }
    return Geometry(links, phi, _list_missing_meshes(reader))


def _has_same_frames(description: Description, robot: Robot) -> bool:
    joints = {joint.name: joint for joint in description.joints if isinstance(joint, Joint)}
    return all(
        joint.name in joints
        and np.allclose(joint.tip.matrix, joints[joint.name].tip.matrix, atol=1e-9)
        and np.allclose(joint.axis, joints[joint.name].axis, atol=1e-9)
        for joint in robot.joints
    )


def _list_missing_meshes(reader: MeshReader) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*reader.missing, *reader.unreadable)))


def _choose_geometry(reader: MeshReader, choices: Iterable[tuple[VolumeSource, Sequence[Shape]]]) -> LinkGeometry:
    """Return the first choice of which all shapes can be read."""
    for source, shapes in choices:
        solids = [solid for shape in shapes for solid in _shape_solids(reader, shape)]
        if solids and None not in solids:
            return LinkGeometry(tuple(solid for solid in solids if solid is not None), source)
    return LinkGeometry()


def _shape_solids(reader: MeshReader, shape: Shape) -> list[Solid | None]:
    """Return the solid of a shape: nothing for a placeholder without thickness, None if the file is unreadable."""
    if shape.kind == "mesh":
        meshes = list(reader.shape(shape))
        return [mesh_solid(mesh).transform(shape.pose) for mesh in meshes] or [None]
    if sum(size > 0 for size in shape.dimensions) < (2 if shape.kind == "box" else 1) or (
        shape.kind != "box" and shape.dimensions[0] <= 0
    ):
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


def _ellipsoid_solid(half: Array) -> Solid:
    """Return the corners of a polyhedron around an ellipsoid: those inscribed in the unit sphere, enlarged."""
    theta, phi = (
        np.linspace(0, end, count)
        for end, count in ((np.pi, ELLIPSOID_LATITUDES + 1), (2 * np.pi, 2 * ELLIPSOID_LATITUDES + 1))
    )
    T, F = np.meshgrid(theta, phi[:-1])
    corners = np.stack([np.sin(T) * np.cos(F), np.sin(T) * np.sin(F), np.cos(T)], axis=-1).reshape(-1, 3)
    return Solid(corners / np.cos(np.pi / 2 / ELLIPSOID_LATITUDES) ** 2 * half)


def mesh_solid(mesh: Triangles) -> Solid:
    """Return the convex hull of a mesh, or all its corners if they enclose no volume."""
    used = mesh.corners[np.unique(mesh.faces)]
    try:
        return Solid(used[ConvexHull(used).vertices], surface=mesh)
    except QhullError:
        return Solid(np.unique(used, axis=0), surface=mesh)


def _mjcf_geometry(path: Path, phi: Mapping[str, Array | None]) -> Geometry:
    """Return the geoms of the compiled model: those that collide, or all geoms of a body without colliding ones."""
    mujoco, (model, missing) = import_mujoco(), compile_mjcf(path)
    links = {}
    for body in range(model.nbody):
        first = int(model.body_geomadr[body])
        geoms = range(first, first + int(model.body_geomnum[body]))
        colliding = [g for g in geoms if model.geom_contype[g] or model.geom_conaffinity[g]]
        solids = [solid for g in colliding or geoms for solid in _geom_solids(mujoco, model, g)]
        name = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_BODY, body) or f"body{body}"
        source = VolumeSource.COLLISION if colliding else VolumeSource.VISUAL
        links[str(name)] = LinkGeometry(tuple(solids), source)
    return Geometry(links, phi, tuple(missing))


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
    """Return the robot link that contains a link of the file, and its pose there; None if the link was cut off."""
    if name == robot.root.name or name in robot.link_names:
        return name, IDENTITY
    return next(((frame.link, frame.pose) for frame in robot.frames if frame.name == name), None)
