"""`gain_groups`: which gains have a free common scale, from the equations of a robot alone."""

from __future__ import annotations

from typing import Final

import numpy as np

from mindyn.identifiability.random_states import make_regressors, sample_rows, typical_rates
from mindyn.parameters.base import parameter_sizes
from mindyn.regression.regressor import with_estimated_drives
from mindyn.robots.robot import Robot

ZERO_TOLERANCE: Final = 1e-8
"""Singular values and differences below this are rounding errors of zero, relative to the largest."""
SAME_CHANGE: Final = 1e-6
"""Difference below which two gains change alike in unit vectors of changes."""
TARGET_STRUCTURE: Final = (
    "kd and viscous friction of a joint are one parameter unless target_velocity moves or kd is given",
    "an offset of a target and an offset of the torque of a joint are one parameter",
)
"""What position targets leave open for every robot."""


def gain_groups(robot: Robot, *, seed: int = 0) -> tuple[tuple[str, ...], ...]:
    """Return groups of joints whose gains have one free common scale, if all gains are unknown.

    Changes dg of the gains that no motion shows satisfy Y dx = diag(dg) Y x for all states and generic parameters x.
    One known gain in each group fixes it.

    Parameters
    ----------
    robot : Robot
        Joints without drives get one, with rotor inertia, friction and offset.
    seed : int
        Seed of the random states and parameters.

    Returns
    -------
    tuple of tuple of str
        Joint names; a single group for an ordinary arm.

    Examples
    --------
    >>> from mindyn.loads import gain_groups
    >>> gain_groups(mindyn.load_robot("planar2"))
    (('joint1', 'joint2'),)
    """
    driven = with_estimated_drives(robot)
    sizes, names = parameter_sizes(driven, drives=True), robot.primary_names
    rows = sample_rows(
        make_regressors(driven, drives=True), "torque", parameters=len(sizes), seed=seed, rates=typical_rates(driven)
    )
    n = len(names)
    Y = (rows * sizes).reshape(-1, n, len(sizes))
    tau = Y @ np.random.default_rng(seed + 1).uniform(0.5, 1.5, len(sizes))
    scales = 1 / np.maximum(np.sqrt((tau**2).mean(axis=0)), 1e-300)
    signals = np.zeros((len(Y), n, n))
    signals[:, np.arange(n), np.arange(n)] = tau * scales
    columns, left = (Y * scales[:, None]).reshape(-1, len(sizes)), signals.reshape(-1, n)
    U, s, _ = np.linalg.svd(columns, full_matrices=False)
    U = U[:, s > ZERO_TOLERANCE * s[0]]
    rest = left - U @ (U.T @ left)
    _, s, Vt = np.linalg.svd(rest)
    free = Vt[s <= ZERO_TOLERANCE * np.sqrt(len(Y))].T
    first_alike = [
        next(k for k in range(n) if np.abs(free[k] - free[joint]).max(initial=0.0) < SAME_CHANGE) for joint in range(n)
    ]
    return tuple(
        tuple(names[joint] for joint in range(n) if first_alike[joint] == first) for first in dict.fromkeys(first_alike)
    )
