"""Mayeda and Yoshida's base set: revolute axes parallel or perpendicular to their neighbours, any prismatic axes.

Revolute links form clusters of parallel axes: cluster d is a(d)..b(d), its first axis perpendicular to the one before.
Theorem 2.3.1 (only revolute joints) is the case without sliding links of theorem 2.4.1 [Yoshida 1996, eq. 2.22-2.26,
2.69-2.82]. Four corrections to the text of 2.4.1 are marked below; without them it fails on random arms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mindyn.algebra.poses import PARALLEL_ANGLE_RAD, perpendicular_vector
from mindyn.algebra.values import Array
from mindyn.errors import Code, RobotError
from mindyn.parameters.axis_groups import AxisGroup, axis_groups, require_serial
from mindyn.parameters.base import BaseParameters
from mindyn.parameters.general import AugmentedLink, NamedRows, SlidingLink, base_of_rows, upright_links
from mindyn.parameters.lin import distance_from_centre
from mindyn.robots.robot import Robot


def mayeda_base(robot: Robot) -> BaseParameters:
    """Return Mayeda and Yoshida's set of a serial robot with parallel and perpendicular revolute axes.

    Names: `J3z`, `J3(x-y)`, `J3xz`, `J3yz`, `J3xy`, `R3x`, `R3y` for revolute joint 3; for prismatic joint 4 `M4`, and
    `R4x`, `R4y`, `R4z` in its own frame, or between parallel axes `R4n` perpendicular to both axes and `R4t` along its
    own.
    """
    require_serial(robot, "mayeda")
    base, *turning = upright_links(robot)
    clusters = _clusters(robot, turning)
    places = axis_groups(robot)
    named: NamedRows = [(f"M{slide.joint + 1}", slide.mass) for slide in base.sliding]
    for d, cluster in enumerate(clusters):
        after = clusters[d + 1] if d + 1 < len(clusters) else []
        for k, link in enumerate(cluster):
            hats = _hats(link, cluster[k + 1 :], [] if k + 1 < len(cluster) else after)
            named += _revolute_rows(link, hats, places[link.joint])
            for slide in link.sliding:
                named += _prismatic_rows(slide, hats, places[slide.joint])
    return base_of_rows(robot, "mayeda", named)


def _clusters(robot: Robot, links: Sequence[AugmentedLink]) -> list[list[AugmentedLink]]:
    """Return links a(d)..b(d) of parallel axes, d = 1..K."""
    clusters: list[list[AugmentedLink]] = []
    perpendicular = True
    for n, link in enumerate(links):
        if perpendicular:
            clusters.append([])
        clusters[-1].append(link)
        cosine, sine = link.twist
        perpendicular = abs(cosine) <= PARALLEL_ANGLE_RAD
        if not perpendicular and abs(sine) > PARALLEL_ANGLE_RAD:
            raise _oblique(robot.joint_names[links[n + 1].joint], np.degrees(np.arctan2(sine, cosine)))
    return clusters


def _oblique(joint: str, degrees: float) -> RobotError:
    return RobotError(
        f"form 'mayeda' needs neighbouring revolute axes to be parallel or perpendicular; "
        f"the axis of joint {joint!r} is rotated by {degrees:.6g} deg",
        hint='use form="general" or "structural", or load with snap=True if the file rounds its angles',
        code=Code.UNSUPPORTED,
        subject=joint,
    )


@dataclass(frozen=True, slots=True)
class _Hats:
    """Sums over the links after link n that are added to its parameters.

    RCZ   (p,) sum of RC^z of the later links in the same cluster, eq. (2.69)
    RCZB  (p,) sum of RC^z of the next cluster if n = b(d), d < K, else 0, eq. (2.70)
    JY    (p,) sum of Jhat^y of the next cluster if n = b(d), d < K, else 0, eq. (2.76)
    """

    RCZ: Array
    RCZB: Array
    JY: Array


def _hats(link: AugmentedLink, beyond: Sequence[AugmentedLink], after: Sequence[AugmentedLink]) -> _Hats:
    """Return the sums; `beyond` are the links n+1..b(d) of the same cluster, `after` the next cluster if n = b(d)."""
    size = link.first.shape[-1]
    # (2.76) as read does not say that only the last link of a cluster gets the next cluster's sum.
    JY = sum((_J_y(next_link, after[k + 1 :]) for k, next_link in enumerate(after)), np.zeros(size))
    return _Hats(_sum_z(beyond, size), _sum_z(after, size), JY)


def _sum_z(links: Sequence[AugmentedLink], size: int) -> Array:
    return sum((link.first[2] for link in links), np.zeros(size))


def _J_y(link: AugmentedLink, beyond: Sequence[AugmentedLink]) -> Array:
    """Return Jhat_n^y = J_n^y + 2 L_n^z RCZ(n); its definition is missing in section 2.4, eq. (2.24) has it."""
    return np.asarray(link.tensor[1, 1] + 2 * link.length[2] * _sum_z(beyond, link.first.shape[-1]))


def _revolute_rows(link: AugmentedLink, hats: _Hats, place: AxisGroup) -> NamedRows:
    """Return the rows (2.77), after the first cluster (2.79), and for n > Q (2.78)."""
    i, J, R, (Lx, _, Lz) = link.joint + 1, link.tensor, link.first, link.length
    Rx, Ry = R[0], R[1] - hats.RCZB  # the hat is missing in (2.78)
    named = [(f"J{i}z", J[2, 2] + hats.JY)]
    if place.group == "spatial":
        dl = distance_from_centre(place, link.frame) or 0.0
        named += [
            (f"J{i}(x-y)", J[0, 0] - J[1, 1] + hats.JY),
            (f"J{i}xz", J[0, 2] - Lx * hats.RCZ - dl * Rx),  # (2.72) as read has the opposite sign
            (f"J{i}yz", J[1, 2] + Lz * hats.RCZB - dl * Ry),
            (f"J{i}xy", J[0, 1] + Lx * hats.RCZB),
        ]
    if place.swings and place.centre is None:
        named += [(f"R{i}x", Rx), (f"R{i}y", Ry)]
    return named


def _prismatic_rows(slide: SlidingLink, hats: _Hats, place: AxisGroup) -> NamedRows:
    """Return the rows (2.80), after the first cluster (2.81), in it (2.82) if the axis is not parallel to z_n."""
    i, axis = slide.joint + 1, slide.axis
    named = [(f"M{i}", slide.mass)]
    x = perpendicular_vector(axis)
    A = np.column_stack([x, np.cross(axis, x), axis])  # frame (n, t): z along the joint, x and y free
    RC = A.T @ (slide.first + np.stack([np.zeros_like(hats.RCZ), -hats.RCZB, hats.RCZ]))  # (2.74)
    if place.group == "spatial":
        return [*named, (f"R{i}x", RC[0]), (f"R{i}y", RC[1]), (f"R{i}z", RC[2])]
    if not place.oblique:
        return named
    w = A[2]  # z_n in frame (n, t)
    return [*named, (f"R{i}n", w[1] * RC[0] - w[0] * RC[1]), (f"R{i}t", RC[2] - w[2] * (w @ RC))]
