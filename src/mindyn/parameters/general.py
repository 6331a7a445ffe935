"""The general closed form: one formula for serial chains of revolute and prismatic joints with arbitrary twists.

The formula extends Yoshida's theorems 2.3.1 and 2.4.1 from parallel and perpendicular axes to axes at any angle. With
alpha = alpha_{n+1},

Z(n) = RC_{n+1}^z + cos(alpha_{n+2}) Z(n+1) first moments along z that link n carries through joint n+1 u_n = (0,
-sin(alpha) Z(n), cos(alpha) Z(n)) the same first moments in frame n Jt_n = J_n + 2 (L_n.u_n) E - L_n u_n^T - u_n L_n^T
tensor with these moments at the position of joint n+1 Y(n) = Jt_{n+1}^y + cos^2(alpha_{n+2}) Y(n+1) moments of inertia
perpendicular to the axes

and Z(N) = Y(N) = 0. RC, J, M and L are those of the augmented links (augmented_links.py). [Yoshida 1996, sections 2.3.1
and 2.4.1]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.parameters.augmented_links import AugmentedLink, SlidingLink, augment_links, far_joints, yoshida_frames
from mindyn.parameters.axis_groups import AxisGroup, axis_groups, note_far_joints, require_serial
from mindyn.parameters.base_parameters import BaseParameters, remove_rounding
from mindyn.parameters.lin import distance_from_centre
from mindyn.parameters.linear_forms import outer, shift_tensor
from mindyn.robots.robot import Robot

NamedRows = list[tuple[str, Array]]


@dataclass(frozen=True, slots=True)
class CarriedMoments:
    """Contribution of the links after link n: u_n (3, p), Jt_n (3, 3, p), and Y(n) (p,)."""

    u: Array
    Jt: Array
    Y: Array


def general_base(robot: Robot) -> BaseParameters:
    """Return the general closed form of a serial robot.

    Names: `J3z`, `J3(x-y)`, `J3xy`, `J3xz`, `J3yz`, `R3x`, `R3y` for revolute joint 3; `M4` and `R4x`, ... for
    prismatic joint 4, whose moments are in the frame of the revolute link that it slides on.
    """
    require_serial(robot, "general")
    links = augment_links(robot, yoshida_frames(robot))
    named = general_rows(links, axis_groups(robot), _prismatic_rows)
    return base_of_rows(robot, "general", named, note_far_joints(far_joints(robot)))


def general_rows(
    links: Sequence[AugmentedLink],
    places: Sequence[AxisGroup],
    prismatic_rows: Callable[[SlidingLink, CarriedMoments, AxisGroup], NamedRows],
) -> NamedRows:
    """Return the rows of K of every link, those of sliding links by `prismatic_rows`."""
    named: NamedRows = []
    for link, carried in zip(links, sum_carried_moments(links), strict=True):
        if link.joint >= 0:
            named += _revolute_rows(link, carried, places[link.joint])
        for slide in link.sliding:
            named += prismatic_rows(slide, carried, places[slide.joint])
    return named


def base_of_rows(robot: Robot, form: str, named: NamedRows, notes: tuple[str, ...]) -> BaseParameters:
    """Return the base set whose K has the given rows and names."""
    names, rows = zip(*named, strict=True)
    return BaseParameters(robot, form, False, remove_rounding(robot, np.array(rows)), names, notes=notes)


def sum_carried_moments(links: Sequence[AugmentedLink]) -> list[CarriedMoments]:
    """Return u_n, Jt_n and Y(n), from the last link to the first."""
    size = links[0].first.shape[-1]
    Z_after, Y_after = np.zeros(size), np.zeros(size)
    parts = []
    for link in reversed(links):
        u = outer(link.next_axis, Z_after)
        Jt = link.tensor + shift_tensor(link.length, u)
        parts.append(CarriedMoments(u, Jt, Y_after))
        Z_after = link.first[2] + link.twist[0] * Z_after
        Y_after = Jt[1, 1] + link.twist[0] ** 2 * Y_after
    return parts[::-1]


def _revolute_rows(link: AugmentedLink, carried: CarriedMoments, place: AxisGroup) -> NamedRows:
    """Return the rows of a revolute link: J^z, first moments perpendicular to the axis if the axis swings, and the
    other tensor entries if the link comes after the parallel axes.
    """
    i = link.joint + 1
    cosine, sine = link.twist
    Jt, Y = carried.Jt, carried.Y
    R = link.first + carried.u
    named = [(f"J{i}z", Jt[2, 2] + sine**2 * Y)]
    if place.group == "spatial":
        dl = distance_from_centre(place, link.frame) or 0.0
        named += [
            (f"J{i}(x-y)", Jt[0, 0] - Jt[1, 1] + sine**2 * Y),
            (f"J{i}xy", Jt[0, 1]),
            (f"J{i}xz", Jt[0, 2] - dl * R[0]),
            (f"J{i}yz", Jt[1, 2] + sine * cosine * Y - dl * R[1]),
        ]
    if place.swings and place.centre is None:
        named += [(f"R{i}x", R[0]), (f"R{i}y", R[1])]
    return named


def _prismatic_rows(slide: SlidingLink, carried: CarriedMoments, place: AxisGroup) -> NamedRows:
    """Return the rows of a prismatic link: M, and h = RC_{n,t} + u_n if the link comes after the parallel axes.

    Between parallel axes, only the part of h perpendicular to z_n, if the axis is oblique.
    """
    i = slide.joint + 1
    h = slide.first + carried.u
    named = [(f"M{i}", slide.mass)]
    if place.group == "spatial":
        return [*named, (f"R{i}x", h[0]), (f"R{i}y", h[1]), (f"R{i}z", h[2])]
    return [*named, (f"R{i}x", h[0]), (f"R{i}y", h[1])] if place.oblique else named
