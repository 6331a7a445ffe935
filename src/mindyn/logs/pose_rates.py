"""Compute angular velocity and accelerations of a frame from its logged poses.

Quaternions are differentiated, not angles, so that no attitude is singular. With unit quaternions s, w = 2 vec(s* sd)
and wd = 2 vec(s* sdd), in the axes of the frame.
"""

from __future__ import annotations

import numpy as np

from mindyn.foundation.algebra.rotations import quaternion_from_rotation
from mindyn.foundation.algebra.values import Array
from mindyn.logs.differentiation import fit_spline
from mindyn.logs.filters import lowpass
from mindyn.robots.floating_base import rotations_from_quaternions


def differentiate_quaternions(s: Array, rate_hz: float, cutoff_hz: float | None) -> tuple[Array, Array, Array]:
    """Return filtered unit quaternions (N, 4) in the order (x, y, z, w), w (N, 3) and wd (N, 3) in the frame's axes."""
    continuous = with_continuous_sign(s)
    smooth = lowpass(continuous / np.linalg.norm(s, axis=1, keepdims=True), cutoff_hz, rate_hz)
    smooth = smooth / np.linalg.norm(smooth, axis=1, keepdims=True)
    _, rate, second = fit_spline(smooth, rate_hz)
    return smooth, 2 * _product(smooth, rate), 2 * _product(smooth, second)


def with_continuous_sign(s: Array) -> Array:
    """Return poses (N, .) that end with quaternions, without sign changes: s and -s are the same attitude."""
    turns = np.where((s[1:, -4:] * s[:-1, -4:]).sum(axis=1) < 0, -1.0, 1.0)
    signs = np.concatenate([np.ones(min(len(s), 1)), np.cumprod(turns)])[:, None]
    return np.hstack([s[:, :-4], s[:, -4:] * signs])


def differentiate_poses(
    R: Array, position: Array | None, rate_hz: float, cutoff_hz: float | None
) -> tuple[Array, Array, Array, Array]:
    """Return filtered rotations (N, 3, 3), and w, wd and the acceleration of the origin (N, 3) in the frame's axes.

    Without positions, the acceleration is zero.
    """
    s = np.array([np.roll(quaternion_from_rotation(rotation), -1) for rotation in R])
    smooth, w, wd = differentiate_quaternions(s, rate_hz, cutoff_hz)
    R = rotations_from_quaternions(smooth)
    if position is None:
        return R, w, wd, np.zeros_like(w)
    acceleration = fit_spline(lowpass(position, cutoff_hz, rate_hz), rate_hz)[2]
    return R, w, wd, np.einsum("nji,nj->ni", R, acceleration)


def _product(s: Array, t: Array) -> Array:
    """Return the vector part (N, 3) of the product s* t of quaternions (N, 4)."""
    return np.asarray(s[:, 3:] * t[:, :3] - t[:, 3:] * s[:, :3] - np.cross(s[:, :3], t[:, :3]))
