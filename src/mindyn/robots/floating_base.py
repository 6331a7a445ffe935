"""Floating bases: six massless joints under the root, and conversions to body coordinates.

Joints x, y, z move along the axes of the world, yaw, pitch, roll turn about z, y, x, and the last one carries the
trunk, the former root link. With R = Rz(yaw) Ry(pitch) Rx(roll), the pose of the trunk in the world is (R, p), p = (x,
y, z).

A body twist is V = (v, w): velocity of the origin of the trunk and angular velocity, both in the axes of the trunk; its
components change at the rates A = (a, wd). This is the free flyer of Pinocchio, which also stores the attitude as a
quaternion (x, y, z, w):

    v = R^T pd,   w = E(pitch, roll) (yawd, pitchd, rolld),   A = dV/dt

E is singular at pitch = +-90 degrees. The attitude changes the equations of motion only through the direction of
gravity, and uniform gravity acts like an acceleration of the base. `body_coordinates` therefore returns a motion at the
origin with zero angles, whose acceleration contains the change of gravity. This motion has the same joint torques as
the given one, and its base torques are the wrench on the trunk in the axes of the trunk, at every attitude.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, RobotError
from mindyn.foundation.notation import PARAMETERS_PER_LINK
from mindyn.robots.expressions import parse_formula
from mindyn.robots.parts import Joint, JointKind, Link
from mindyn.robots.robot import Robot

BASE_JOINTS: Final[tuple[tuple[str, JointKind, int], ...]] = (
    ("base_x", "prismatic", 0),
    ("base_y", "prismatic", 1),
    ("base_z", "prismatic", 2),
    ("base_yaw", "revolute", 2),
    ("base_pitch", "revolute", 1),
    ("base_roll", "revolute", 0),
)
"""Name, kind and coordinate axis of the joints of a floating base."""
BASE_COUNT: Final = len(BASE_JOINTS)
MIN_COS_PITCH: Final = 1e-6
"""Smallest |cos(pitch)| at which the rates of the angles are computed; nearer to the singular attitude, the rates have
fewer than ten correct digits."""


def add_floating_base(robot: Robot) -> Robot:
    """Return the robot on the six joints of a floating base; its root becomes the trunk, a moving link."""
    numbered = [e.name for e in robot.extras if not parse_formula(e.formula).variables <= {"q", "qd", "load"}]
    if numbered:
        raise RobotError(
            f"a floating base shifts the joint numbers in the formula of the extra torque {numbered[0]!r}",
            hint="write the formula in terms of q and qd of its joint",
            code=Code.UNSUPPORTED,
            subject=numbered[0],
        )
    if robot.has_floating_base:
        raise RobotError(f"robot {robot.name!r} already has a floating base", code=Code.DUPLICATE, subject=robot.name)
    taken, world = {robot.root.name, *robot.link_names, *(frame.name for frame in robot.frames)}, "world"
    while world in taken:
        world += "_"
    names = [world, *(f"{name}_link" for name, _, _ in BASE_JOINTS[:-1]), robot.root.name]
    joints = [
        Joint(name, kind, names[k], names[k + 1], axis=np.eye(3)[axis])
        for k, (name, kind, axis) in enumerate(BASE_JOINTS)
    ]
    massless = [Link(name, np.zeros(PARAMETERS_PER_LINK)) for name in names[1:-1]]
    return replace(
        robot,
        root=Link(world),
        joints=(*joints, *robot.joints),
        links=(*massless, robot.root, *robot.links),
        home=None if robot.home is None else np.concatenate([np.zeros(BASE_COUNT), robot.home]),
    )


def remove_floating_base(robot: Robot) -> Robot:
    """Return the robot with its trunk as a fixed root: the inverse of `add_floating_base`."""
    require_floating_base(robot)
    home = None if robot.home is None else robot.home[BASE_COUNT:]
    joints, links = robot.joints[BASE_COUNT:], robot.links[BASE_COUNT:]
    return replace(robot, root=robot.links[BASE_COUNT - 1], joints=joints, links=links, home=home)


def is_floating(robot: Robot) -> bool:
    """Return whether the first joints are those of `add_floating_base`, with massless links between them."""
    if len(robot.joints) < BASE_COUNT or robot.parents[:BASE_COUNT] != tuple(range(-1, BASE_COUNT - 1)):
        return False
    if any(0 <= parent < BASE_COUNT - 1 for parent in robot.parents[BASE_COUNT:]):
        return False
    return all(
        joint.kind == kind and joint.axis[axis] == 1.0 and joint.origin.is_identity and joint.tip.is_identity
        for joint, (_, kind, axis) in zip(robot.joints, BASE_JOINTS, strict=False)
    ) and all(link.phi is not None and not link.phi.any() for link in robot.links[: BASE_COUNT - 1])


def from_free_flyer(
    robot: Robot, q: ArrayLike, v: ArrayLike | None = None, a: ArrayLike | None = None
) -> tuple[Array, Array, Array]:
    """Convert a motion of Pinocchio's free flyer to the joints of a floating base.

    Parameters
    ----------
    robot : Robot
        Robot with a floating base and n joints, the six of the base included.
    q : array_like, shape (..., n + 1)
        Position, quaternion (x, y, z, w) of any length, and the other joints in the order of `robot.joint_names`.
    v, a : array_like, shape (..., n), optional
        Body twist (linear, angular) and its derivative, then the other joints; zero by default.

    Returns
    -------
    tuple of ndarray, shape (..., n) each
        Positions q, velocities qd and accelerations qdd of the robot's joints.

    Raises
    ------
    InputError
        If a shape is wrong, a quaternion is zero, or rates are asked for at a singular attitude (pitch of +-90
        degrees), where only `body_coordinates` has them.
    """
    state, twist, rates = _require_motion(robot, q, v, a)
    R = rotations_from_quaternions(state[..., 3:7])
    pitch = np.arctan2(-R[..., 2, 0], np.hypot(R[..., 0, 0], R[..., 1, 0])) + 0.0
    yaw, roll = np.arctan2(R[..., 1, 0], R[..., 0, 0]), np.arctan2(R[..., 2, 1], R[..., 2, 2])
    positions = np.concatenate([state[..., :3], yaw[..., None], pitch[..., None], roll[..., None], state[..., 7:]], -1)
    if v is None and a is None:
        return positions, np.zeros_like(positions), np.zeros_like(positions)
    if (np.cos(pitch) < MIN_COS_PITCH).any():
        raise InputError(
            "the angles of the base have no rates at a pitch of +-90 degrees",
            hint="use body_coordinates, which holds at every attitude",
            code=Code.OUT_OF_RANGE,
            subject="q",
        )
    speeds, accelerations = twist.copy(), rates.copy()
    linear, angular = twist[..., :3], twist[..., 3:6]
    speeds[..., :3] = _rotate(R, linear)
    accelerations[..., :3] = _rotate(R, rates[..., :3] + np.cross(angular, linear))
    E = _angle_rate_matrix(pitch, roll)
    turns = _solve(E, angular)
    speeds[..., 3:6] = turns
    accelerations[..., 3:6] = _solve(E, rates[..., 3:6] - _turning_rate(E, turns))
    return positions, speeds, accelerations


def to_free_flyer(
    robot: Robot, q: ArrayLike, qd: ArrayLike | None = None, qdd: ArrayLike | None = None
) -> tuple[Array, Array, Array]:
    """Convert a motion of the joints of a floating base to Pinocchio's free flyer: the inverse of `from_free_flyer`.

    Parameters
    ----------
    robot : Robot
        Robot with a floating base and n joints.
    q, qd, qdd : array_like, shape (..., n)
        Positions, velocities and accelerations of the joints; rates are zero by default.

    Returns
    -------
    q : ndarray, shape (..., n + 1)
        Position, unit quaternion (x, y, z, w), other joints.
    v, a : ndarray, shape (..., n)
        Body twist (linear, angular) and its derivative, then the other joints.
    """
    positions, speeds, accelerations = _require_motion(robot, q, qd, qdd, width=len(robot.joints))
    yaw, pitch, roll = (positions[..., k] for k in (3, 4, 5))
    cy, sy, cp, sp = np.cos(yaw / 2), np.sin(yaw / 2), np.cos(pitch / 2), np.sin(pitch / 2)
    cr, sr = np.cos(roll / 2), np.sin(roll / 2)
    quaternion = np.stack(
        [
            cy * cp * sr - sy * sp * cr,
            cy * sp * cr + sy * cp * sr,
            sy * cp * cr - cy * sp * sr,
            cy * cp * cr + sy * sp * sr,
        ],
        axis=-1,
    )
    R_inverse = np.swapaxes(rotations_from_quaternions(quaternion), -1, -2)
    twist, rates = speeds.copy(), accelerations.copy()
    E, turns = _angle_rate_matrix(pitch, roll), speeds[..., 3:6]
    angular = _rotate(E, turns)
    twist[..., :3], twist[..., 3:6] = _rotate(R_inverse, speeds[..., :3]), angular
    rates[..., 3:6] = _rotate(E, accelerations[..., 3:6]) + _turning_rate(E, turns)
    rates[..., :3] = _rotate(R_inverse, accelerations[..., :3]) - np.cross(angular, twist[..., :3])
    return np.concatenate([positions[..., :3], quaternion, positions[..., BASE_COUNT:]], -1), twist, rates


def body_coordinates(
    robot: Robot, q: ArrayLike, v: ArrayLike | None = None, a: ArrayLike | None = None
) -> tuple[Array, Array, Array]:
    """Convert a motion of Pinocchio's free flyer to joints for which the base torques are the wrench on the trunk.

    The result has the base at the origin with zero angles, and an acceleration that contains the change of gravity. At
    this motion every equation of the robot has the joint torques of the given motion, and the first six entries are the
    force (x, y, z) and the moments about z, y, x on the trunk, at its origin and in its axes. Unlike the angles, this
    holds at every attitude.

    Parameters
    ----------
    robot : Robot
        Robot with a floating base and n joints.
    q, v, a : array_like
        As in `from_free_flyer`.

    Returns
    -------
    tuple of ndarray, shape (..., n) each
        Motion q, qd, qdd for kernels, regressors and `Samples`.

    Examples
    --------
    >>> import numpy as np
    >>> import mindyn
    >>> robot = mindyn.load_robot("planar2", root_joint="floating")
    >>> q, qd, qdd = body_coordinates(robot, [0, 0, 1, 0, np.sqrt(0.5), 0, np.sqrt(0.5), 0.1, 0.2])
    >>> q[:6].tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    state, twist, rates = _require_motion(robot, q, v, a)
    R_inverse = np.swapaxes(rotations_from_quaternions(state[..., 3:7]), -1, -2)
    level, pushed = state.copy(), rates.copy()
    level[..., :7] = (0, 0, 0, 0, 0, 0, 1)
    pushed[..., :3] += robot.gravity - _rotate(R_inverse, robot.gravity)
    return from_free_flyer(robot, level, twist, pushed)


def rotations_from_quaternions(quaternions: Array) -> Array:
    """Return the rotations (..., 3, 3) of quaternions (..., 4) in the order (x, y, z, w), of any length except zero."""
    length = np.linalg.norm(quaternions, axis=-1, keepdims=True)
    if not (np.isfinite(length) & (length > 0)).all():
        raise InputError(
            "a quaternion must have four finite numbers that are not all zero",
            hint="its order is x, y, z, w",
            code=Code.INVALID_VALUE,
            subject="quaternion",
        )
    x, y, z, w = np.moveaxis(quaternions / length, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _require_motion(
    robot: Robot, q: ArrayLike, v: ArrayLike | None, a: ArrayLike | None, width: int | None = None
) -> tuple[Array, Array, Array]:
    """Return positions (..., n + 1 or `width`), velocities and accelerations (..., n) as arrays of floats."""
    require_floating_base(robot)
    n = len(robot.joints)
    positions = np.asarray(q, dtype=np.float64)
    rates = [np.zeros((*positions.shape[:-1], n)) if x is None else np.asarray(x, dtype=np.float64) for x in (v, a)]
    expected = (*positions.shape[:-1], n)
    for what, array, size in (("q", positions, width or n + 1), ("v", rates[0], n), ("a", rates[1], n)):
        if array.shape != (*expected[:-1], size):
            message = f"{what} has shape {array.shape}, but {(*expected[:-1], size)} is needed for {robot.name!r}"
            hint = f"the joints are: {', '.join(robot.joint_names)}"
            raise InputError(message, hint=hint, code=Code.WRONG_SHAPE, subject=what)
    return positions, rates[0], rates[1]


def require_floating_base(robot: Robot) -> None:
    """Raise `InputError` if the root of a robot does not move."""
    if not robot.has_floating_base:
        raise InputError(
            f"robot {robot.name!r} has a fixed base",
            hint='load it with root_joint="floating"',
            code=Code.UNSUPPORTED,
            subject=robot.name,
        )


def _rotate(R: Array, vectors: Array) -> Array:
    """Return R v for each row."""
    return np.asarray(np.einsum("...ij,...j->...i", R, vectors))


def _solve(E: Array, vectors: Array) -> Array:
    """Return E^-1 v for each row."""
    return np.asarray(np.linalg.solve(E, vectors[..., None])[..., 0], dtype=np.float64)


def _angle_rate_matrix(pitch: Array, roll: Array) -> Array:
    """Return E (..., 3, 3) with w = E (yawd, pitchd, rolld), w in the axes of the trunk."""
    zero, one = np.zeros_like(pitch), np.ones_like(pitch)
    cp, sp, cr, sr = np.cos(pitch), np.sin(pitch), np.cos(roll), np.sin(roll)
    rows = [[-sp, zero, one], [cp * sr, cr, zero], [cp * cr, -sr, zero]]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _turning_rate(E: Array, turns: Array) -> Array:
    """Return dE/dt (yawd, pitchd, rolld).

    The columns of E for yaw and pitch are axes that turn with the later angles.
    """
    yaw_axis, pitch_axis, roll_axis = np.moveaxis(E, -1, 0)
    yawd, pitchd, rolld = (turns[..., k, None] for k in range(3))
    after_yaw = pitchd * pitch_axis + rolld * roll_axis
    return np.asarray(-yawd * np.cross(after_yaw, yaw_axis) - pitchd * rolld * np.cross(roll_axis, pitch_axis))
