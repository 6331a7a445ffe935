"""`Extent`: lowest point, reach and speed of a motion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.closed_motion import is_affine
from mindyn.equations.loop_closure import home_closure
from mindyn.equations.loop_constraints import open_tree
from mindyn.excitation.capsules import Capsule
from mindyn.excitation.clearance import Points, end_points
from mindyn.excitation.encounters import UNMOVED_M
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True)
class Extent:
    """Extent of all capsules of moving links, or of the links' origins if there are none, in the root frame.

    lowest_m, highest_m  least and greatest z; the least of what the motion lifts: the rest stands as it is mounted
    lowest_link          whose the lowest is, at the time lowest_s
    reach_m              greatest horizontal distance from the root's z axis
    flange               the outermost link that moves fastest, or the frame on it
    flange_speed         m/s, its greatest
    """

    lowest_m: float
    lowest_link: str
    lowest_s: float
    highest_m: float
    reach_m: float
    flange: str
    flange_speed: float

    def __str__(self) -> str:
        return (
            f"lowest point {self.lowest_m:.3f} m ({self.lowest_link}, at {self.lowest_s:.2f} s), highest "
            f"{self.highest_m:.3f} m, reach {self.reach_m:.3f} m from the base axis; peak speed of {self.flange} "
            f"{self.flange_speed:.3g} m/s"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the extent in types that JSON can store."""
        return asdict(self)


def extent_of(robot: Robot, capsules: Sequence[Capsule], t: Array, q: Array, qd: Array) -> Extent:
    """Compute the extent from positions q and speeds qd (N, n) of primary joints at t (N,)."""
    if not is_affine(robot):
        closure = home_closure(robot)
        q = closure.along(q)
        qd = np.einsum("tij,tj->ti", closure.velocity_matrix(q), qd)
        robot = open_tree(robot)
    moving = [capsule for capsule in capsules if capsule.link and robot.link_index(capsule.link) >= 0]
    if not moving:
        moving = [Capsule(name, np.zeros(3), np.zeros(3), 1e-12) for name in robot.link_names]
    P, radii = end_points(robot, moving).positions(q), np.repeat([capsule.radius for capsule in moving], 2)
    lifted = np.ptp(P[..., 2], axis=0) > UNMOVED_M
    heights = np.where(lifted | ~lifted.any(), P[..., 2] - radii, np.inf)
    row, column = (int(k) for k in np.unravel_index(heights.argmin(), heights.shape))
    names, flanges = _flanges(robot)
    speeds = np.linalg.norm(np.einsum("tkij,tj->tki", flanges.slopes(q), qd), axis=-1).max(axis=0)
    fastest = int(speeds.argmax())
    return Extent(
        float(heights.min()),
        moving[column // 2].link,
        float(t[row]),
        float((P[..., 2] + radii).max()),
        float((np.hypot(P[..., 0], P[..., 1]) + radii).max()),
        names[fastest],
        float(speeds[fastest]),
    )


def _flanges(robot: Robot) -> tuple[list[str], Points]:
    """Return frames on links that carry no further joint, or the origins of those links."""
    carrying = {joint.parent for joint in robot.joints}
    names, links, points = [], [], []
    for number, name in enumerate(robot.link_names):
        if name in carrying:
            continue
        frames = [(frame.name, frame.pose.translation) for frame in robot.frames if frame.link == name]
        for label, point in frames or [(name, np.zeros(3))]:
            names.append(label)
            links.append(number)
            points.append(point)
    return names, Points(robot, links, np.array(points))
