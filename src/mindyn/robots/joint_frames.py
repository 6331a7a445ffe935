"""Joint frames: z along each joint axis, x along the common normal to the next axis.

`modified_dh` returns the frames of the closed-form base parameters: modified DH rows with the two branch parameters of
trees [Khalil & Kleinfinger 1986]. If the frames of the source satisfy this convention, they are used. `working_frames`
returns the frames in which the equations of motion are traced. They follow the same rule, with two differences: every
free choice is used to create zeros, and nearly parallel axes get no common normal, because it would be far away. Both
functions use the robot's length unit (robots/scale.py), so that thresholds do not depend on the robot's size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import atan2
from typing import Final, Literal

import numpy as np

from mindyn.foundation.algebra.inertia import phi_map
from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.foundation.algebra.rotations import (
    PARALLEL_ANGLE_RAD,
    ROTATION_ROUNDING,
    cos_sin,
    nearest_step,
    perpendicular_vector,
    rot_x,
    rot_z,
    tidy,
)
from mindyn.foundation.algebra.values import Array
from mindyn.robots.parts import JointKind
from mindyn.robots.robot import Robot
from mindyn.robots.scale import length_unit, scale_pose, scale_robot

MIN_NORMAL_ANGLE_RAD: Final = 1e-2
"""Below this angle the common normal of two axes is so far away that it costs digits: tensors grow with the square
of the distance, so that 1e-3 rad would leave nine of fifteen."""


FAR_FRAME_LENGTHS: Final = 100.0
"""Distance of a frame from its joint, in the robot's length unit, that costs digits."""


@dataclass(frozen=True, slots=True)
class HomeAxis:
    """Joint at q = 0 in the root frame: its source frame, the unit axis, and a point on the axis."""

    frame: Pose
    axis: Array
    point: Array


def home_axes(robot: Robot) -> tuple[HomeAxis, ...]:
    """Return the joint axes in the root frame at q = 0."""
    link_poses: list[Pose] = []
    axes: list[HomeAxis] = []
    for joint, parent in zip(robot.joints, robot.parents, strict=True):
        X_joint = (IDENTITY if parent < 0 else link_poses[parent]) @ joint.origin
        axes.append(HomeAxis(X_joint, tidy(X_joint.rotation @ joint.axis), X_joint.translation))
        link_poses.append(X_joint @ joint.tip)
    return tuple(axes)


def link_in_frame(robot: Robot, axes: tuple[HomeAxis, ...], frames: list[Pose]) -> tuple[Pose, ...]:
    """Return the constant pose of each source link frame in its joint frame."""
    return tuple(frames[i].inverse() @ axes[i].frame @ joint.tip for i, joint in enumerate(robot.joints))


def _main_child(robot: Robot, index: int) -> int | None:
    """Return the child that the frame of a joint is aligned with: the one that carries most joints."""
    size = [1] * len(robot.joints)
    for i in reversed(range(len(robot.joints))):
        if robot.parents[i] >= 0:
            size[robot.parents[i]] += size[i]
    return max(robot.children[index], key=lambda child: size[child], default=None)


def _make_frame(axis: HomeAxis, x: Array, origin: Array) -> Pose:
    """Return the frame with z along the axis and x as close as possible to the given direction."""
    x = x - (x @ axis.axis) * axis.axis
    x = x / np.linalg.norm(x)
    return Pose(tidy(np.column_stack([x, np.cross(axis.axis, x), axis.axis])), origin)


def _nearest_axis_point(axis: HomeAxis, point: Array) -> Array:
    """Return the point of the axis nearest to a point."""
    return axis.point + ((point - axis.point) @ axis.axis) * axis.axis


def _source_x(axis: HomeAxis) -> Array:
    """Return the first axis of the source frame that is not parallel to the joint axis."""
    columns = axis.frame.rotation.T
    across = [column for column in columns if abs(column @ axis.axis) < PARALLEL_ANGLE_RAD]
    return across[0] if across else perpendicular_vector(axis.axis)


def _find_normal(axis: HomeAxis, other: HomeAxis) -> tuple[Array, float, Array]:
    """Return the cross product of two axes, the length of this product, and the point of `axis` that is nearest to the
    other axis.
    """
    cross = np.cross(axis.axis, other.axis)
    sine = float(np.linalg.norm(cross))
    along = np.cross(other.point - axis.point, other.axis) @ cross / max(sine**2, 1e-300)
    return cross, sine, axis.point + along * axis.axis


def _common_normal(axis: HomeAxis, after: HomeAxis, after_origin: Array, nearly: float) -> Pose | None:
    """Return the frame on `axis` with x along the common normal to the next axis; None if the normal is too far
    away.
    """
    cross, sine, foot = _find_normal(axis, after)
    if sine >= nearly:
        normal = cross / sine
        if normal @ _source_x(axis) < -ROTATION_ROUNDING:
            normal = -normal
        return _make_frame(axis, normal, foot)
    if sine > PARALLEL_ANGLE_RAD:
        return None
    origin = _nearest_axis_point(axis, after_origin)
    gap = after_origin - origin
    distance = float(np.linalg.norm(gap))
    return _make_frame(axis, gap if distance > PARALLEL_ANGLE_RAD else _source_x(axis), origin)


def _leaf_frame(axis: HomeAxis, before: HomeAxis | None) -> Pose:
    """Return the frame of a last joint, turned and moved along its axis so that theta and d vanish."""
    if before is None:
        return _make_frame(axis, _source_x(axis), axis.point)
    cross, sine, foot = _find_normal(axis, before)
    if sine < MIN_NORMAL_ANGLE_RAD:
        return _make_frame(axis, _source_x(axis), _nearest_axis_point(axis, before.point))
    normal = -cross if cross @ _source_x(axis) <= 0 else cross
    return _make_frame(axis, normal, foot)


def _is_dh_frame(axis: HomeAxis, after: HomeAxis | None) -> bool:
    """Whether the source frame has z on its axis and x on a common normal to the next axis."""
    R = axis.frame.rotation
    if np.abs(R[:, 2] - axis.axis).max() > PARALLEL_ANGLE_RAD:
        return False
    if after is None:
        return True
    if abs(R[:, 0] @ after.axis) > PARALLEL_ANGLE_RAD:
        return False
    # x meets the next axis where the line of x, the next axis and the gap between them are coplanar.
    gap = after.point - axis.point
    if np.linalg.norm(np.cross(R[:, 2], after.axis)) < PARALLEL_ANGLE_RAD:
        return bool(np.linalg.norm(np.cross(R[:, 0], gap - (gap @ R[:, 2]) * R[:, 2])) < PARALLEL_ANGLE_RAD)
    return bool(abs(gap @ np.cross(R[:, 0], after.axis)) < PARALLEL_ANGLE_RAD)


def _place_frames(robot: Robot, axes: tuple[HomeAxis, ...], *, dh: bool) -> list[Pose]:
    """Return joint frames at q = 0 in the root frame: modified DH frames, or those for the equations of motion.

    Source frames that satisfy the DH convention are kept. In the equations, the offset along parallel revolute axes
    belongs to the later joint: the force on the earlier link then affects only the joint of that link, and part of the
    trace is not needed. A prismatic joint takes the offset.
    """
    frames: dict[int, Pose] = {}
    for i in reversed(range(len(robot.joints))):
        child, parent = _main_child(robot, i), robot.parents[i]
        before = axes[parent] if parent >= 0 else None
        if dh and _is_dh_frame(axes[i], None if child is None else axes[child]):
            frames[i] = axes[i].frame
        elif child is None:
            frames[i] = _leaf_frame(axes[i], before)
        else:
            nearly = PARALLEL_ANGLE_RAD if dh else MIN_NORMAL_ANGLE_RAD
            normal = _common_normal(axes[i], axes[child], frames[child].translation, nearly)
            frames[i] = normal or _leaf_frame(axes[i], None)
            turns = robot.joints[i].kind == "revolute"
            if not dh and before is not None and turns and _are_parallel(axes[i], axes[child]):
                frames[i] = Pose(frames[i].rotation, _leaf_frame(axes[i], before).translation)
    return [frames[i] for i in range(len(robot.joints))]


def _move_slides(robot: Robot, axes: tuple[HomeAxis, ...]) -> tuple[HomeAxis, ...]:
    """Move every prismatic axis to the origin of its parent frame, because only the direction of the axis affects the
    dynamics.

    The offset then belongs to the next joint, and the force on the link before the slide is not needed for it.
    """
    moved = list(axes)
    for i, (joint, parent) in enumerate(zip(robot.joints, robot.parents, strict=True)):
        if joint.kind == "prismatic" and parent >= 0 and robot.children[i]:
            grandparent = robot.parents[parent]
            carrier = moved[parent]
            turns = robot.joints[parent].kind == "revolute" and grandparent >= 0
            origin = _leaf_frame(carrier, moved[grandparent]).translation if turns else carrier.point
            moved[i] = replace(moved[i], point=origin)
    return tuple(moved)


def _are_parallel(a: HomeAxis, b: HomeAxis) -> bool:
    return bool(np.linalg.norm(np.cross(a.axis, b.axis)) < PARALLEL_ANGLE_RAD)


@dataclass(frozen=True, slots=True)
class Step:
    """Step to one joint of the working chain: v_parent = R Rz(q + offset) v_i (revolute), R v_i (prismatic).

    rotation     (3, 3) R, constant
    translation  (3,) origin of frame i in the parent frame, at q = 0 for a prismatic joint
    offset       angle added to q, rad; zero if it would be a multiple of 90 degrees
    link         pose of the source link frame in frame i
    phi_map      (10, 10) takes source link parameters to frame i
    """

    kind: JointKind
    parent: int
    rotation: Array
    translation: Array
    offset: float
    link: Pose
    phi_map: Array


@dataclass(frozen=True, slots=True)
class WorkingFrames:
    """Chain in which the equations are traced; `root` is the pose of its base frame in the root frame."""

    root: Pose
    gravity: Array
    steps: tuple[Step, ...]


def _remove_noise(vector: Array, scale: float = 1.0) -> Array:
    return np.where(np.abs(vector) < ROTATION_ROUNDING * scale, 0.0, vector)


def _split_rotation(X: Pose, kind: JointKind) -> tuple[Array, float]:
    """Split a home pose into a constant rotation and an angle offset if that creates zeros."""
    if kind == "prismatic":
        return X.rotation, 0.0
    R = X.rotation
    # R = A Rz(theta) with A = Rx(alpha) when x of the parent is across z of the joint.
    alpha = atan2(-R[1, 2], R[2, 2])
    A = rot_x(*cos_sin(alpha))
    if abs(R[0, 2]) > ROTATION_ROUNDING:
        return R, 0.0
    turned = A.T @ R
    theta = atan2(turned[1, 0], turned[0, 0])
    step, distance = nearest_step(theta)
    if distance < ROTATION_ROUNDING and step % 6 == 0:
        return R, 0.0
    return tidy(A), theta


def working_frames(robot: Robot, *, slides: Literal["free", "source"] = "free") -> WorkingFrames:
    """Return the frames that make the traced equations short, with the constant maps from the source link frames.

    slides  lines of prismatic joints: through their parent's origin, or as in the source
    """
    L = length_unit(robot)
    scaled = scale_robot(robot, L)
    axes = home_axes(scaled)
    lines = _move_slides(scaled, axes) if slides == "free" else axes
    frames = _place_frames(scaled, lines, dh=False)
    root = frames[0]
    links = [scale_pose(X, 1 / L) for X in link_in_frame(scaled, axes, frames)]
    steps: list[Step] = []
    for i, (joint, parent) in enumerate(zip(robot.joints, robot.parents, strict=True)):
        X = (root if parent < 0 else frames[parent]).inverse() @ frames[i]
        rotation, offset = _split_rotation(X, joint.kind)
        translation = L * _remove_noise(X.translation)
        steps.append(Step(joint.kind, parent, rotation, translation, offset, links[i], phi_map(links[i])))
    gravity = _remove_noise(root.rotation.T @ robot.gravity, float(np.abs(robot.gravity).max()) or 1.0)
    return WorkingFrames(scale_pose(root, 1 / L), gravity, tuple(steps))


def source_frames(robot: Robot) -> WorkingFrames:
    """Return the joint frames of the source, rotated so that z is the joint axis.

    The equations become longer, but no poses are multiplied.

    The frames of `working_frames` are computed through the root frame, which loses the last digits of small angles
    between axes and of small offsets. The frames of the source keep these digits.
    """
    turned = [Pose(_axis_to_z(joint.axis)) for joint in robot.joints]
    steps: list[Step] = []
    for i, (joint, parent) in enumerate(zip(robot.joints, robot.parents, strict=True)):
        before = IDENTITY if parent < 0 else turned[parent].inverse() @ robot.joints[parent].tip
        X = before @ joint.origin @ turned[i]
        link = turned[i].inverse() @ joint.tip
        steps.append(Step(joint.kind, parent, X.rotation, X.translation, 0.0, link, phi_map(link)))
    return WorkingFrames(IDENTITY, robot.gravity, tuple(steps))


def rotation_to_axis(axis: Array) -> Array:
    """Return a rotation whose third column is the unit vector `axis`; the rotation is exact if `axis` is a coordinate
    axis.
    """
    x = perpendicular_vector(axis)
    return np.column_stack([x, np.cross(axis, x), axis])


def _axis_to_z(axis: Array) -> Array:
    """Return a rotation whose third column is `axis`; it is a permutation matrix if `axis` is a coordinate axis."""
    if np.count_nonzero(axis) == 1:
        k = int(np.flatnonzero(axis)[0])
        R = np.roll(np.eye(3), k + 1, axis=0)
        return R if axis[k] > 0 else R * np.array([1.0, -1.0, -1.0])
    return rotation_to_axis(axis)


@dataclass(frozen=True, slots=True)
class DhRow:
    """Step a(i) -> i: Rz(gamma) Tz(b) Rx(alpha) Tx(a) Rz(theta + q) Tz(d) (revolute; q adds to d if prismatic)."""

    gamma: float
    b: float
    alpha: float
    a: float
    theta: float
    d: float

    @property
    def pose(self) -> Pose:
        """Pose of the frame relative to its parent frame at q = 0."""
        turned = Pose(rot_z(*cos_sin(self.gamma))) @ Pose(None, (0, 0, self.b))
        tilted = turned @ Pose(rot_x(*cos_sin(self.alpha)), (self.a, 0, 0))
        return tilted @ Pose(rot_z(*cos_sin(self.theta))) @ Pose(None, (0, 0, self.d))


@dataclass(frozen=True, slots=True)
class ModifiedDh:
    """Modified DH description of a tree.

    base   pose of frame 0 in the root frame
    rows   one per joint; gamma = b = 0 along a serial chain
    links  pose of the source link frame in each DH frame
    far    joints whose frame is far away because two axes are nearly parallel
    """

    base: Pose
    parents: tuple[int, ...]
    rows: tuple[DhRow, ...]
    links: tuple[Pose, ...]
    far: tuple[str, ...]


def _dh_row(X: Pose) -> DhRow:
    """Return the six parameters of a step between two frames with z on their joint axes."""
    R, p = X.rotation, X.translation
    along_x = abs(R[0, 2]) < ROTATION_ROUNDING  # z of the joint is across x of the parent: no gamma needed
    across = float(np.hypot(R[0, 2], R[1, 2]))
    if along_x and abs(p @ np.cross([1.0, 0, 0], R[:, 2])) < PARALLEL_ANGLE_RAD and across > PARALLEL_ANGLE_RAD:
        gamma = 0.0
    elif across > PARALLEL_ANGLE_RAD:
        gamma = atan2(R[0, 2], -R[1, 2])
    else:
        gamma = 0.0 if abs(p[1]) < PARALLEL_ANGLE_RAD else atan2(p[1], p[0])
    turned = Pose(rot_z(*cos_sin(gamma)).T) @ X
    R, p = turned.rotation, turned.translation
    alpha = atan2(-R[1, 2], R[2, 2])
    rest = Pose(rot_x(*cos_sin(alpha)).T) @ Pose(R)
    theta = atan2(rest.rotation[1, 0], rest.rotation[0, 0])
    # p = (a, -d sin(alpha), b + d cos(alpha))
    if across > PARALLEL_ANGLE_RAD:
        d = -p[1] / np.sin(alpha)
        b = p[2] - d * np.cos(alpha)
    else:
        d, b = p[2] * R[2, 2], 0.0
    b, a, d = _remove_noise(np.array([b, p[0], d])).tolist()
    return DhRow(gamma, b, alpha, a, theta, d)


def modified_dh(robot: Robot) -> ModifiedDh:
    """Return the modified DH rows of a robot, and its source link frames in the DH frames."""
    L = length_unit(robot)
    scaled = scale_robot(robot, L)
    axes = home_axes(scaled)
    frames = _place_frames(scaled, axes, dh=True)
    base = frames[0]  # frame 0: where joint 1 has theta = d = 0
    steps = [
        _dh_row((base if parent < 0 else frames[parent]).inverse() @ frames[i])
        for i, parent in enumerate(robot.parents)
    ]
    rows = tuple(replace(row, b=L * row.b, a=L * row.a, d=L * row.d) for row in steps)
    far = tuple(
        joint.name
        for joint, frame, axis in zip(robot.joints, frames, axes, strict=True)
        if np.linalg.norm(frame.translation - axis.point) > FAR_FRAME_LENGTHS
    )
    links = tuple(scale_pose(X, 1 / L) for X in link_in_frame(scaled, axes, frames))
    return ModifiedDh(scale_pose(base, 1 / L), robot.parents, rows, links, far)
