"""Mayeda and Yoshida's base set: revolute axes parallel or perpendicular to their neighbours, any prismatic axes.

Theorems 2.3.1 and 2.4.1 [Yoshida 1996, eq. 2.22-2.26, 2.69-2.82] are the general closed form in frames whose twists are
0 and +90 degrees: Z(n) is RCZ(n) inside a cluster of parallel axes and RCZB(n) at its end, and Y(n) is JY(n). The text
of 2.4.1 needs four corrections, without which it fails on random arms: only the last link of a cluster gets the sum
(2.76) of the next cluster; Jhat_n^y = J_n^y + 2 L_n^z RCZ(n), as in (2.24), is not defined there; (2.72) has the
opposite sign; the hat of RC^y is missing in (2.78).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mindyn.foundation.algebra.rotations import PARALLEL_ANGLE_RAD
from mindyn.foundation.errors import Code, RobotError
from mindyn.parameters.augmented_links import AugmentedLink, SlidingLink, far_joints, upright_links
from mindyn.parameters.axis_groups import AxisGroup, axis_groups, note_far_joints, require_serial
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.parameters.general import CarriedMoments, NamedRows, base_of_rows, general_rows
from mindyn.robots.joint_frames import rotation_to_axis
from mindyn.robots.robot import Robot


def mayeda_base(robot: Robot) -> BaseParameters:
    """Return Mayeda and Yoshida's set of a serial robot with parallel and perpendicular revolute axes.

    Names: `J3z`, `J3(x-y)`, `J3xy`, `J3xz`, `J3yz`, `R3x`, `R3y` for revolute joint 3; for prismatic joint 4 `M4`, and
    `R4x`, `R4y`, `R4z` in its own frame, or between parallel axes `R4n` perpendicular to both axes and `R4t` along its
    own.
    """
    require_serial(robot, "mayeda")
    links = upright_links(robot)
    _require_right_angles(robot, links[1:])
    named = general_rows(links, axis_groups(robot), _prismatic_rows)
    return base_of_rows(robot, "mayeda", named, note_far_joints(far_joints(robot)))


def _require_right_angles(robot: Robot, links: Sequence[AugmentedLink]) -> None:
    for n, link in enumerate(links):
        cosine, sine = link.twist
        if min(abs(cosine), abs(sine)) > PARALLEL_ANGLE_RAD:
            joint = robot.joint_names[links[n + 1].joint]
            raise RobotError(
                f"form 'mayeda' needs neighbouring revolute axes to be parallel or perpendicular; "
                f"the axis of joint {joint!r} is rotated by {np.degrees(np.arctan2(sine, cosine)):.6g} deg",
                hint='use form="general" or "structural", or load with snap=True if the file rounds its angles',
                code=Code.UNSUPPORTED,
                subject=joint,
            )


def _prismatic_rows(slide: SlidingLink, carried: CarriedMoments, place: AxisGroup) -> NamedRows:
    """Return the rows (2.80), after the first cluster (2.81), in it (2.82) if the axis is not parallel to z_n."""
    i, axis = slide.joint + 1, slide.axis
    named = [(f"M{i}", slide.mass)]
    A = rotation_to_axis(axis)  # frame (n, t): z along the joint, x and y free
    RC = A.T @ (slide.first + carried.u)  # (2.74)
    if place.group == "spatial":
        return [*named, (f"R{i}x", RC[0]), (f"R{i}y", RC[1]), (f"R{i}z", RC[2])]
    if not place.oblique:
        return named
    w = A[2]  # z_n in frame (n, t)
    return [*named, (f"R{i}n", w[1] * RC[0] - w[0] * RC[1]), (f"R{i}t", RC[2] - w[2] * (w @ RC))]
