"""Rotation matrices, with exact entries at multiples of 15 degrees.

`R_ab` converts components in frame b to components in frame a: v_a = R_ab v_b.
"""

from __future__ import annotations

from math import atan2, cos, hypot, pi, sin, sqrt
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError

GRID_STEP_RAD: Final = pi / 12
"""15 degrees: angles of technical drawings are usually multiples of it."""

ROTATION_ROUNDING: Final = 1e-13
"""Entries of a product of rotations that differ from 0, +-1/2 or +-1 by less are considered rounding noise."""

PARALLEL_ANGLE_RAD: Final = 1e-9
"""Directions with a smaller angle between them count as parallel."""

_GRID_COSINES = (1.0, (sqrt(6) + sqrt(2)) / 4, sqrt(3) / 2, sqrt(0.5), 0.5, (sqrt(6) - sqrt(2)) / 4, 0.0)


def grid_cos(step: int) -> float:
    """Return cos(15 deg * step); the values 0, +-1/2 and +-1 are exact."""
    folded = min(step % 24, -step % 24)
    return _GRID_COSINES[folded] if folded <= 6 else -_GRID_COSINES[12 - folded]


def grid_cos_sin(step: int) -> tuple[float, float]:
    """Return cos and sin of 15 deg * step."""
    return grid_cos(step), grid_cos(step - 6)


def nearest_step(angle: float) -> tuple[int, float]:
    """Return the multiple of 15 degrees that is nearest to `angle` (rad): the number of steps, and the distance in
    rad.
    """
    step = round(angle / GRID_STEP_RAD)
    return step, abs(angle - step * GRID_STEP_RAD)


def cos_sin(angle: float) -> tuple[float, float]:
    """Return cos and sin, exact if `angle` is a multiple of 15 degrees up to rounding."""
    step, distance = nearest_step(angle)
    return grid_cos_sin(step) if distance <= 4e-16 * max(1, abs(step)) else (cos(angle), sin(angle))


def rot_x(c: float, s: float) -> Array:
    """Return the rotation about x by the angle with cosine c and sine s."""
    return np.array([[1, 0, 0], [0, c, -s], [0, s, c]], dtype=np.float64)


def rot_y(c: float, s: float) -> Array:
    """Return the rotation about y by the angle with cosine c and sine s."""
    return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]], dtype=np.float64)


def rot_z(c: float, s: float) -> Array:
    """Return the rotation about z by the angle with cosine c and sine s."""
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]], dtype=np.float64)


def skew(v: Array) -> Array:
    """Return the matrix [v] with [v] u = v x u."""
    x, y, z = v
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]], dtype=np.float64)


def rotation_about_axis(axis: Array, angle: float) -> Array:
    """Return the rotation by `angle` about the unit vector `axis` (Rodrigues)."""
    c, s = cos_sin(angle)
    return tidy(c * np.eye(3) + s * skew(axis) + (1 - c) * np.outer(axis, axis))


def rotation_from_rpy(roll: float, pitch: float, yaw: float) -> Array:
    """Return Rz(yaw) Ry(pitch) Rx(roll), the fixed-axis angles of URDF."""
    return rot_z(*cos_sin(yaw)) @ rot_y(*cos_sin(pitch)) @ rot_x(*cos_sin(roll))


def rpy_from_rotation(R: Array) -> tuple[float, float, float]:
    """Return roll, pitch, yaw with R = Rz(yaw) Ry(pitch) Rx(roll); yaw = 0 if pitch is +-90 degrees."""
    level = hypot(R[0, 0], R[1, 0])
    pitch = atan2(-R[2, 0], level)
    if level < 1e-9:
        return atan2(-R[1, 2], R[1, 1]), pitch, 0.0
    return atan2(R[2, 1], R[2, 2]), pitch, atan2(R[1, 0], R[0, 0])


def rotation_from_quaternion(w: float, x: float, y: float, z: float) -> Array:
    """Return the rotation of the quaternion w + xi + yj + zk, of any length except zero."""
    largest = max(map(abs, (w, x, y, z)))  # avoids overflow and underflow of squares
    w, x, y, z = (entry / largest for entry in (w, x, y, z))
    length = sqrt(w * w + x * x + y * y + z * z)
    v = np.array([x, y, z]) / length
    return np.asarray(np.eye(3) + 2 * (w / length) * skew(v) + 2 * skew(v) @ skew(v))


def quaternion_from_rotation(R: Array) -> Array:
    """Return the unit quaternion (w, x, y, z), w >= 0, of a rotation matrix."""
    # The largest of the four squares is at least 1/4, so its root is safe to divide by.
    squares = np.array([1 + R.trace(), *(1 + 2 * R.diagonal() - R.trace())])
    columns = np.array(
        [
            [squares[0], R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]],
            [R[2, 1] - R[1, 2], squares[1], R[0, 1] + R[1, 0], R[0, 2] + R[2, 0]],
            [R[0, 2] - R[2, 0], R[0, 1] + R[1, 0], squares[2], R[1, 2] + R[2, 1]],
            [R[1, 0] - R[0, 1], R[0, 2] + R[2, 0], R[1, 2] + R[2, 1], squares[3]],
        ]
    )
    q = columns[int(np.argmax(squares))]
    return np.asarray(q / np.linalg.norm(q) * (1 if q[0] >= 0 else -1))


def tidy(R: Array, noise: Array | float = ROTATION_ROUNDING) -> Array:
    """Round entries of a rotation that differ from 0, +-1/2, +-1 and further multiples of 1/2 only by rounding
    noise.
    """
    targets = np.round(R * 2) / 2
    return np.where(np.abs(R - targets) <= noise, targets + 0.0, R)


MAX_WRITTEN_ERROR: Final = 1e-6
"""Largest entry of R R^T - E for a rotation written with few digits; a larger entry is an error."""

ORTHONORMAL_ROUNDING: Final = 1e-14
"""Largest entry of R R^T - E that the rounding of a few products explains."""


def nearest_rotation(R: Array, what: str = "a rotation") -> Array:
    """Return the rotation nearest to a matrix that is written with few digits. A matrix that is a rotation up to
    rounding is returned unchanged.
    """
    off = float(np.abs(R @ R.T - np.eye(3)).max())
    if not off <= MAX_WRITTEN_ERROR or np.linalg.det(R) < 0:
        message = f"{what} must be orthonormal and right-handed, got {R.tolist()}"
        raise InputError(message, code=Code.INVALID_VALUE, subject=what)
    if off <= ORTHONORMAL_ROUNDING:
        return R
    left, _, right = np.linalg.svd(R)
    nearest = left @ right
    return np.asarray(nearest @ (1.5 * np.eye(3) - 0.5 * (nearest.T @ nearest)))  # Newton: removes the rounding of both


def perpendicular_vector(axis: Array) -> Array:
    """Return a unit vector perpendicular to the unit vector `axis`: the coordinate axis that is least parallel to it,
    projected.
    """
    k = int(np.argmin(np.abs(axis)))
    v = np.eye(3)[k] - axis[k] * axis
    return np.asarray(v / np.linalg.norm(v))


def frame_along(z: Array) -> Array:
    """Return a rotation whose third column is the unit vector `z`.

    The first column is perpendicular to `z` and to the coordinate axis that is least parallel to `z`.
    """
    x = np.cross(z, np.eye(3)[int(np.argmin(np.abs(z)))])
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


def azimuth_elevation(axis: Array) -> tuple[float, float]:
    """Return the angles a, e with axis = (cos e cos a, cos e sin a, sin e)."""
    return atan2(axis[1], axis[0]), atan2(axis[2], hypot(axis[0], axis[1]))
