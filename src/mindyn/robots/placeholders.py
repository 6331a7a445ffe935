"""Find links whose inertial parameters in the robot file carry no information."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mindyn.foundation.algebra.inertia import check_consistency, mass_com_inertia
from mindyn.foundation.algebra.values import Array
from mindyn.robots.parts import Link
from mindyn.robots.robot import Robot


def find_placeholders(robot: Robot) -> dict[str, str]:
    """Return the links whose inertial parameters carry no information, with the reason.

    Placeholders are missing parameters, zeros, values that no body can have, and mass 1 with the unit tensor. If all
    other links (at least two) have the same mass and tensor, they are placeholders too.
    """
    reasons = {link.name: reason for link in robot.links if (reason := _explain_implausible(link))}
    others = [link for link in robot.links if link.name not in reasons]
    if _are_alike(others):
        reasons |= {link.name: "every link has the same mass and inertia, a placeholder" for link in others}
    return reasons


def has_placeholders(robot: Robot) -> bool:
    """Return whether some link has mass 1 with the unit tensor, or all plausible links are equal."""
    plausible = [link for link in robot.links if not _explain_implausible(link)]
    return any(_is_unit(link) for link in robot.links) or _are_alike(plausible)


def _are_alike(links: Sequence[Link]) -> bool:
    bodies = [np.round(_mass_and_moments(link), 12) for link in links]
    return len(bodies) > 1 and all((body == bodies[0]).all() for body in bodies[1:])


def _is_unit(link: Link) -> bool:
    return link.phi is not None and link.phi[0] == 1.0 and np.array_equal(mass_com_inertia(link.phi)[2], np.eye(3))


def _mass_and_moments(link: Link) -> Array:
    assert link.phi is not None
    mass, _, J = mass_com_inertia(link.phi)
    return np.array([mass, *np.linalg.eigvalsh(J)])


def _explain_implausible(link: Link) -> str:
    if link.phi is None:
        return "it has no inertial parameters"
    if not link.phi.any():
        return "all its parameters are zero"
    consistency = check_consistency(link.phi)
    if not consistency.is_feasible:
        return consistency.reason
    if _is_unit(link):
        return "mass 1 and the unit tensor are a placeholder"
    return ""
