"""The robot as lines in space, for some poses along a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.equations.loop_closure import closure_of
from mindyn.kernels.skeleton import SkeletonData, skeleton_along
from mindyn.report.evidence import Evidence
from mindyn.robots.meshes import Meshes
from mindyn.robots.robot import Robot

POSES: Final = 200


def skeleton(robot: Robot, evidence: Sequence[Evidence], meshes: Meshes | None = None) -> SkeletonData | None:
    """The drawing, loops closed."""
    return skeleton_along(robot, *_poses(robot, evidence), _torques(evidence), meshes=meshes)


def _poses(robot: Robot, evidence: Sequence[Evidence]) -> tuple[Array, Array]:
    """Evenly spaced rows of the first log, or the pose at rest."""
    if not evidence:
        return _at_rest(robot)[None], np.zeros(1)
    made = evidence[0].prediction
    rows = _rows(len(made.time))
    return made.samples.q[rows], made.time[rows] - made.time[0]


def _at_rest(robot: Robot) -> Array:
    """(n,) primary joints at zero, or where loops are known to be closed."""
    if not robot.loops:
        return np.zeros(len(robot.primary_names))
    closure = closure_of(robot)
    return np.asarray(closure.home[list(closure.primary)])


def _torques(evidence: Sequence[Evidence]) -> Array | None:
    """Parts of the greatest torque of every joint, at the same rows."""
    if not evidence:
        return None
    size = np.abs(evidence[0].prediction.measured)
    greatest = size.max(axis=0)
    return np.asarray(size[_rows(len(size))] / np.where(greatest > 0, greatest, 1.0))


def _rows(count: int) -> NDArray[np.intp]:
    return np.unique(np.linspace(0, count - 1, POSES).astype(int))
