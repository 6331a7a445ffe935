"""Bodies of a robot as its original file describes them: Pinocchio (URDF) or MuJoCo (MJCF) place them, coal measures.

This module reads robot files without mindyn, so that it can check motions that mindyn designed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from xml.etree import ElementTree

import coal
import mujoco
import numpy as np
import pinocchio as pin
from scipy.spatial import ConvexHull, QhullError

Poses = tuple[np.ndarray, np.ndarray]
"""Rotations (N, B, 3, 3) and positions (N, B, 3) in the root frame."""


class SceneError(Exception):
    """The file cannot serve as a reference: a mesh is missing, or a joint has more than one degree of freedom."""


@dataclass(frozen=True)
class Shape:
    """A solid on a body; its hull is the Minkowski sum of the hull of `points` and an ellipsoid of `semi_axes`."""

    body: int
    source: str  # "primitives", "meshes" or "visual meshes"
    solid: coal.CollisionGeometry
    points: np.ndarray
    semi_axes: np.ndarray
    R: np.ndarray
    p: np.ndarray

    @cached_property
    def hull(self) -> coal.CollisionGeometry:
        """Return a convex solid that contains the shape; `solid` itself if that is convex."""
        if not isinstance(self.solid, coal.BVHModelBase):
            return self.solid
        points = coal.StdVec_Vec3s()
        points.extend([*self.points])
        try:
            return coal.Convex.convexHull(points, True, "Qt")
        except (RuntimeError, ValueError):  # flat
            return self.solid

    @cached_property
    def centre(self) -> np.ndarray:
        return (self.points.min(axis=0) + self.points.max(axis=0)) / 2

    @cached_property
    def radius(self) -> float:
        """Return the radius of a sphere about `centre` that contains the solid."""
        return float(np.linalg.norm(self.points - self.centre, axis=1).max() + self.semi_axes.max())

    def lowest(self, R: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Return the height of the lowest point, (N,), for poses R (N, 3, 3), p (N, 3) of the shape."""
        down = R[:, 2, :]
        return p[:, 2] + (down @ self.points.T).min(axis=1) - np.linalg.norm(down * self.semi_axes, axis=1)


@dataclass(frozen=True)
class Scene:
    """Bodies (0 is the fixed world), the joints that move each of them, shapes and limits."""

    body_names: tuple[str, ...]
    parents: tuple[int, ...]
    body_joints: tuple[tuple[str, ...], ...]
    shapes: tuple[Shape, ...]
    limits: Mapping[str, Mapping[str, float]]
    place: Callable[[Mapping[str, np.ndarray]], Poses]
    torques: Callable[[Mapping[str, np.ndarray], Mapping[str, np.ndarray], Mapping[str, np.ndarray]], dict] | None = (
        None
    )
    followers: Mapping[str, tuple[str, float, float]] = field(default_factory=dict)
    closures: tuple[tuple[int, int], ...] = ()
    """Pairs of bodies that a loop closure connects."""

    @property
    def joints(self) -> tuple[str, ...]:
        return tuple(name for names in self.body_joints for name in names)

    def complete(self, columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return joint positions: mimic joints follow theirs, other missing joints stay nearest to zero.

        A scene with loop closures keeps the missing joints out: `place` solves for them.
        """
        count = len(next(iter(columns.values())))
        q = {name: np.asarray(columns[name]) for name in self.joints if name in columns}
        for name in self.joints:
            if name not in q and name not in self.followers and not self.closures:
                limit = self.limits[name]
                q[name] = np.full(count, np.clip(0.0, limit["lower"], limit["upper"]))
        for name, (leader, factor, offset) in self.followers.items():
            if name not in q:
                q[name] = factor * q[leader] + offset
        return q

    def clusters(self, moving: Iterable[str]) -> list[int]:
        """Return, for each body, the body that carries it rigidly when only these joints move."""
        moving = {*moving}
        moving |= {name for name, (leader, *_) in self.followers.items() if leader in moving}
        clusters: list[int] = []
        for body, parent in enumerate(self.parents):
            carried = body > 0 and not moving & {*self.body_joints[body]}
            clusters.append(clusters[parent] if carried else body)
        return clusters

    def source(self, moving: Iterable[str]) -> str:
        """Return the weakest source of shape among the moving bodies; "guess" if one has no shape."""
        clusters = self.clusters(moving)
        order = ("primitives", "meshes", "visual meshes", "guess")
        best = {}
        for shape in self.shapes:
            best.setdefault(clusters[shape.body], set()).add(shape.source)
        weakest = [max(best.get(body, {"guess"}), key=order.index) for body in {*clusters} - {0}]
        return max(weakest, key=order.index, default="guess")


def load_scene(path: Path) -> Scene:
    """Read a .urdf with Pinocchio, any other file with MuJoCo."""
    return _urdf_scene(path) if path.suffix == ".urdf" else mujoco_scene(mujoco.MjModel.from_xml_path(str(path)))


# --- shapes -----------------------------------------------------------------------------------------------------------


def _primitive(kind: str, size: np.ndarray) -> tuple[coal.CollisionGeometry, np.ndarray, np.ndarray]:
    """Return solid, points and semi-axes of a box (edges), sphere (r), capsule or cylinder (r, length), ellipsoid."""
    ends = np.array([[0, 0, -0.5], [0, 0, 0.5]])
    none = np.zeros(3)
    if kind == "box":
        corners = np.stack(np.meshgrid(*[[-0.5, 0.5]] * 3), -1).reshape(-1, 3)
        return coal.Box(*size), corners * size, none
    if kind == "sphere":
        return coal.Sphere(size[0]), none[None], np.full(3, size[0])
    if kind == "ellipsoid":
        return coal.Ellipsoid(*size), none[None], np.asarray(size, float)
    if kind == "capsule":
        return coal.Capsule(size[0], size[1]), ends * size[1], np.full(3, size[0])
    if kind == "cylinder":
        return coal.Cylinder(size[0], size[1]), ends * size[1], np.array([size[0], size[0], 0])
    raise SceneError(f"no solid for a {kind}")


def _hull_points(points: np.ndarray) -> np.ndarray:
    try:
        return points[ConvexHull(points).vertices]
    except QhullError:  # flat
        return points


def _triangles(points: np.ndarray, faces: np.ndarray) -> coal.BVHModelOBBRSS:
    solid = coal.BVHModelOBBRSS()
    solid.beginModel(len(faces), len(points))
    solid.addVertices(points)
    solid.addTriangles(faces.astype(np.int64))
    solid.endModel()
    return solid


# --- URDF -------------------------------------------------------------------------------------------------------------


def mesh_path(name: str, file: Path) -> Path:
    """Resolve package://, file:// and relative names from the folders above the robot file and ROS_PACKAGE_PATH."""
    if name.startswith("package://"):
        package, _, rest = name.removeprefix("package://").partition("/")
        above = [folder for folder in file.resolve().parents if folder.name == package]
        listed = [Path(root) / package for root in os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep) if root]
        places = [folder / rest for folder in (*above, *listed)]
    else:
        places = [file.parent / name.removeprefix("file://")]
    for place in places:
        if place.is_file():
            return place
    raise SceneError(f"no mesh {name}")


def _numbers(element: ElementTree.Element | None, key: str, missing: str) -> np.ndarray:
    return np.array((missing if element is None else element.get(key, missing)).split(), float)


def _urdf_shapes(link: ElementTree.Element, file: Path, kind: str) -> list[tuple[str, tuple, pin.SE3]]:
    shapes = []
    for part in link.findall(kind):
        origin, geometry = part.find("origin"), part.find("geometry")
        X = pin.SE3(pin.rpy.rpyToMatrix(_numbers(origin, "rpy", "0 0 0")), _numbers(origin, "xyz", "0 0 0"))
        for shape in geometry if geometry is not None else ():
            if shape.tag == "mesh":
                scale = _numbers(shape, "scale", "1 1 1")
                solid = coal.MeshLoader().load(str(mesh_path(shape.get("filename", ""), file)), scale)
                body = solid, _hull_points(solid.vertices()), np.zeros(3)
                source = "meshes" if kind == "collision" else "visual meshes"
            else:
                keys = {"box": ("size",), "sphere": ("radius",)}.get(shape.tag, ("radius", "length"))
                body = _primitive(shape.tag, np.concatenate([_numbers(shape, key, "") for key in keys]))
                source = "primitives" if kind == "collision" else "visual meshes"
            shapes.append((source, body, X))
    return shapes


def _urdf_scene(path: Path) -> Scene:
    root = ElementTree.parse(path).getroot()
    model = pin.buildModelFromUrdf(str(path))
    if any(joint.nv != 1 for joint in model.joints[1:]):
        raise SceneError("a joint with several degrees of freedom")
    names = ["world"] + [
        next(f.name for f in model.frames if f.parentJoint == k and f.type == pin.BODY) for k in range(1, model.njoints)
    ]
    shapes = []
    for link in root.findall("link"):
        frame = model.frames[model.getFrameId(link.get("name"), pin.BODY)]
        parts = _urdf_shapes(link, path, "collision")
        with suppress(SceneError):  # a link without collision shapes, and without files of the visual ones
            parts = parts or _urdf_shapes(link, path, "visual")
        for source, (solid, points, semi_axes), X in parts:
            X = frame.placement * X
            shapes.append(Shape(frame.parentJoint, source, solid, points, semi_axes, X.rotation, X.translation))
    limits, followers = {}, {}
    for joint in root.findall("joint"):
        limit, mimic, name = joint.find("limit"), joint.find("mimic"), joint.get("name")
        given = (
            {}
            if limit is None
            else {k: float(v) for k, v in limit.attrib.items() if k in ("lower", "upper", "velocity", "effort")}
        )
        if joint.get("type") == "continuous":
            given |= {"lower": -np.inf, "upper": np.inf}
        limits[name] = {"lower": 0.0, "upper": 0.0} | given
        if mimic is not None:
            followers[name] = mimic.get("joint"), float(mimic.get("multiplier", 1)), float(mimic.get("offset", 0))
    data, joints = model.createData(), {name: model.joints[model.getJointId(name)] for name in model.names[1:]}

    def vector(values: Mapping[str, np.ndarray], k: int, *, speeds: bool = False) -> np.ndarray:
        q = np.zeros(model.nv if speeds else model.nq)
        for name, joint in joints.items():
            if name in values:
                x = values[name][k]
                turning = joint.nq == 2 and not speeds
                start = joint.idx_v if speeds else joint.idx_q
                q[start : start + 1 + turning] = (np.cos(x), np.sin(x)) if turning else x
        return q

    def place(q: Mapping[str, np.ndarray]) -> Poses:
        count = len(next(iter(q.values())))
        R, p = np.empty((count, model.njoints, 3, 3)), np.empty((count, model.njoints, 3))
        for k in range(count):
            pin.forwardKinematics(model, data, vector(q, k))
            for j in range(model.njoints):
                R[k, j], p[k, j] = data.oMi[j].rotation, data.oMi[j].translation
        return R, p

    def torques(q: Mapping, qd: Mapping, qdd: Mapping) -> dict[str, np.ndarray]:
        count = len(next(iter(q.values())))
        rows = [
            pin.rnea(model, data, vector(q, k), vector(qd, k, speeds=True), vector(qdd, k, speeds=True)).copy()
            for k in range(count)
        ]
        return {name: np.array(rows)[:, joint.idx_v] for name, joint in joints.items()}

    body_joints = ((), *((name,) for name in model.names[1:]))
    return Scene(tuple(names), tuple(model.parents), body_joints, tuple(shapes), limits, place, torques, followers)


# --- MuJoCo -----------------------------------------------------------------------------------------------------------

_KINDS = {
    int(mujoco.mjtGeom.mjGEOM_SPHERE): ("sphere", lambda s: s[:1]),
    int(mujoco.mjtGeom.mjGEOM_CAPSULE): ("capsule", lambda s: s[:2] * [1, 2]),
    int(mujoco.mjtGeom.mjGEOM_CYLINDER): ("cylinder", lambda s: s[:2] * [1, 2]),
    int(mujoco.mjtGeom.mjGEOM_ELLIPSOID): ("ellipsoid", lambda s: s),
    int(mujoco.mjtGeom.mjGEOM_BOX): ("box", lambda s: 2 * s),
}


def _mujoco_shape(model: mujoco.MjModel, geom: int) -> Shape | None:
    kind = int(model.geom_type[geom])
    collides = bool(model.geom_contype[geom] | model.geom_conaffinity[geom])
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        mesh = model.geom_dataid[geom]
        start, faces = model.mesh_vertadr[mesh], model.mesh_faceadr[mesh]
        points = model.mesh_vert[start : start + model.mesh_vertnum[mesh]].astype(float)
        body = (
            _triangles(points, model.mesh_face[faces : faces + model.mesh_facenum[mesh]]),
            _hull_points(points),
            np.zeros(3),
        )
    elif kind in _KINDS:
        name, size = _KINDS[kind]
        body = _primitive(name, size(model.geom_size[geom]))
    else:
        return None  # planes and height fields: surroundings
    source = "visual meshes" if not collides else "meshes" if kind == mujoco.mjtGeom.mjGEOM_MESH else "primitives"
    R = np.empty(9)
    mujoco.mju_quat2Mat(R, model.geom_quat[geom])
    return Shape(int(model.geom_bodyid[geom]), source, *body, R.reshape(3, 3), model.geom_pos[geom].copy())


def mujoco_scene(model: mujoco.MjModel) -> Scene:
    """Return the scene of a compiled model; bodies without geoms that collide keep the others."""
    if {*model.jnt_type.tolist()} & {int(mujoco.mjtJoint.mjJNT_FREE), int(mujoco.mjtJoint.mjJNT_BALL)}:
        raise SceneError("a joint with several degrees of freedom")
    data = mujoco.MjData(model)
    names = [model.joint(k).name for k in range(model.njnt)]
    body_joints = tuple(
        tuple(n for n, b in zip(names, model.jnt_bodyid, strict=True) if b == body) for body in range(model.nbody)
    )
    shapes = [shape for geom in range(model.ngeom) if (shape := _mujoco_shape(model, geom)) is not None]
    solid_bodies = {shape.body for shape in shapes if shape.source != "visual meshes"}
    shapes = [shape for shape in shapes if shape.source != "visual meshes" or shape.body not in solid_bodies]
    limits = {}
    for k, name in enumerate(names):
        lower, upper = model.jnt_range[k] if model.jnt_limited[k] else (-np.inf, np.inf)
        limits[name] = {"lower": float(lower), "upper": float(upper)}
    followers, closures, loops = {}, [], []
    for k in range(model.neq):
        a, b = int(model.eq_obj1id[k]), int(model.eq_obj2id[k])
        if model.eq_type[k] == mujoco.mjtEq.mjEQ_JOINT and b >= 0:
            followers[names[a]] = names[b], float(model.eq_data[k, 1]), float(model.eq_data[k, 0])
        elif model.eq_type[k] == mujoco.mjtEq.mjEQ_CONNECT:
            closures.append((a, b))
            loops.append((a, model.eq_data[k, :3], b, model.eq_data[k, 3:6]))

    def gap() -> tuple[np.ndarray, np.ndarray]:
        error, slope = [], []
        for a, at_a, b, at_b in loops:
            ends, slopes = [], []
            for body, at in ((a, at_a), (b, at_b)):
                point = data.xpos[body] + data.xmat[body].reshape(3, 3) @ at
                J = np.zeros((3, model.nv))
                mujoco.mj_jac(model, data, J, None, point, body)
                ends.append(point)
                slopes.append(J)
            error.append(ends[0] - ends[1])
            slope.append(slopes[0] - slopes[1])
        return np.concatenate(error), np.concatenate(slope)

    def place(q: Mapping[str, np.ndarray]) -> Poses:
        count = len(next(iter(q.values())))
        R, p = np.empty((count, model.nbody, 3, 3)), np.empty((count, model.nbody, 3))
        given = [k for k, name in enumerate(names) if name in q]
        free = [int(model.jnt_dofadr[k]) for k in range(model.njnt) if k not in given]
        data.qpos[:] = model.qpos0
        for k in range(count):
            data.qpos[model.jnt_qposadr[given]] = [q[names[j]][k] for j in given]
            mujoco.mj_kinematics(model, data)
            for _ in range(20 if free and loops else 0):
                mujoco.mj_comPos(model, data)
                error, slope = gap()
                if np.abs(error).max() < 1e-9:
                    break
                data.qpos[free] -= np.linalg.lstsq(slope[:, free], error, rcond=None)[0]
                mujoco.mj_kinematics(model, data)
            R[k], p[k] = data.xmat.reshape(-1, 3, 3), data.xpos
        return R, p

    body_names = tuple(model.body(k).name for k in range(model.nbody))
    return Scene(
        body_names,
        tuple(model.body_parentid),
        body_joints,
        tuple(shapes),
        limits,
        place,
        None,
        followers,
        tuple(closures),
    )
