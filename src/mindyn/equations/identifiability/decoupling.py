"""`decoupling_rows`: constraints on the parameters that make off-diagonal inertias vanish in every configuration."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from mindyn.equations.identifiability.random_states import draw_positions
from mindyn.equations.identifiability.regressor_rows import Regressors
from mindyn.foundation.algebra.values import Array
from mindyn.robots.robot import Robot

OFF_DIAGONAL_ZERO: Final = 1e-9
"""Singular values below this fraction of the largest are zero."""
CONFIGURATIONS: Final = 200
"""Random configurations, if none are given."""


def decoupling_rows(robot: Robot, q: ArrayLike | None = None) -> Array:
    """Return constraints on the parameters that make the inertia matrix diagonal in every configuration.

    A design that satisfies them by a redistribution of mass has decoupled joints and fewer base parameters
    [Sheu & Walker 1991, section 5.3]. Any three of them reduce their semi-direct-drive arm from 26 to 23 parameters.

    Parameters
    ----------
    robot : Robot
        Robot, also with closed loops.
    q : array_like, shape (N, joints), optional
        Configurations of the primary joints; random ones by default.

    Returns
    -------
    ndarray, shape (c, p)
        Orthonormal rows C: C phi = 0. Pass them to `base_parameters(robot, form="numeric", constraints=C)`.

    Examples
    --------
    >>> import mindyn
    >>> from mindyn.equations import decoupling_rows
    >>> arm = mindyn.load_robot("five_bar")
    >>> mindyn.base_parameters(arm, form="numeric", constraints=decoupling_rows(arm)[:3]).count
    23
    """
    regressors = Regressors(robot)
    if q is None:
        q = draw_positions(robot, np.random.default_rng(0), CONFIGURATIONS)
    positions = np.asarray(q, dtype=np.float64)
    rest, count = np.zeros_like(positions), positions.shape[1]
    still = regressors.torque_rows(positions, rest, rest)
    columns = [regressors.torque_rows(positions, rest, rest + unit) - still for unit in np.eye(count)]
    rows = np.vstack([columns[j][:, i] for j in range(count) for i in range(j)])
    _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(directions[sizes > OFF_DIAGONAL_ZERO * sizes[0]])
