"""Where the data say little: `Prior`, what links are taken to be like, and what of it may be believed.

entropic   tr(P0^-1 P) - log det(P0^-1 P) - 4 of pseudo-inertias P against P0: the Bregman divergence of -log det, the
           same in all frames and units [Lee, Wensing & Park 2020]
euclidean  |P - P0|^2 / |P0|^2, lengths in units of the robot's
least mass the sum of all masses, where no prior is known
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from mindyn.algebra.inertia import check_consistency, mass_com_inertia, pseudo_inertia
from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.feasibility.conic import DIAGONAL_PLACES, ConeRows, ConicProgram, triangle
from mindyn.feasibility.physical_space import PhysicalSpace
from mindyn.notation import LINK_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.parameters.base import has_same_mechanism
from mindyn.robots.parts import Link
from mindyn.robots.robot import Robot

Divergence = Literal["entropic", "euclidean"]
MIN_GYRATION_RADIUS_M: Final = 0.01
"""m; a prior whose link is a point, rod or plate is given at least this radius of gyration: the entropic divergence of
a flat body is infinite."""
_UNIT_MATRICES = np.stack([pseudo_inertia(unit) for unit in np.eye(PARAMETERS_PER_LINK)])


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """What the links are taken to be like: phi of each, None where nothing may be believed, and why, in sentences.

    links       phi (10,) or None for each link
    divergence  how far from it is measured
    notes       what was found to be a placeholder or mended
    """

    links: tuple[Array | None, ...]
    divergence: Divergence
    notes: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What stands in for the data where they say little."""
        believed = sum(phi is not None for phi in self.links)
        if not believed:
            return "no prior: masses that the data cannot tell take the least total mass"
        rest = "" if believed == len(self.links) else f" for {believed} of {len(self.links)} links, the rest least mass"
        return f"what the data cannot tell takes the prior ({self.divergence}){rest}"

    @property
    def is_known(self) -> bool:
        """Whether anything is known of any link."""
        return any(phi is not None for phi in self.links)

    def add_to(
        self, program: ConicProgram, space: PhysicalSpace, units: Array, weight: float, mass_cost: float
    ) -> None:
        """Add weight times the divergence; where nothing is believed of a link, heaviness times its mass in kg."""
        for i, phi in enumerate(self.links):
            if phi is None:
                program.cost[PARAMETERS_PER_LINK * i] += mass_cost * units[PARAMETERS_PER_LINK * i]
            elif self.divergence == "entropic":
                _add_entropic(program, space, i, phi, units, weight)
            else:
                _add_euclidean(program, space, i, phi, units, weight)

    def value(self, space: PhysicalSpace, x: Array) -> float:
        """The divergence at x but for a constant; infinite where an entropic one has no value."""
        found = 0.0
        for i, phi in enumerate(self.links):
            if phi is None:
                continue
            P, P0 = pseudo_inertia(x[space.link(i)]), pseudo_inertia(phi)
            if self.divergence == "entropic":
                if not np.isfinite(P).all() or np.linalg.eigvalsh(P)[0] <= 0:
                    return float("inf")
                found += float(np.trace(np.linalg.solve(P0, P)) - np.linalg.slogdet(P)[1])
            else:
                triangles = triangle(_UNIT_MATRICES) / space.link_units
                off = triangles @ (x[space.link(i)] - phi)
                found += float(off @ off) / float(np.linalg.norm(triangles @ phi)) ** 2
        return found

    def gradient(self, space: PhysicalSpace, x: Array) -> Array:
        """(size,) derivative of the divergence at x; zero where nothing is believed of a link."""
        g = np.zeros(space.size)
        for i, phi in enumerate(self.links):
            if phi is None:
                continue
            P = pseudo_inertia(x[space.link(i)])
            if self.divergence == "entropic":
                change = np.linalg.inv(pseudo_inertia(phi)) - np.linalg.inv(P)
                g[space.link(i)] = np.einsum("aij,ji->a", _UNIT_MATRICES, change)
            else:
                triangles = triangle(_UNIT_MATRICES) / space.link_units
                off = triangles.T @ (triangles @ (x[space.link(i)] - phi))
                g[space.link(i)] = 2 * off / float(np.linalg.norm(triangles @ phi)) ** 2
        return g

    def curvature(self, space: PhysicalSpace, x: Array) -> Array:
        """(size, size) second derivative of the divergence at x; zero where nothing is believed of a link."""
        H = np.zeros((space.size, space.size))
        for i, phi in enumerate(self.links):
            if phi is None:
                continue
            own = np.ix_(range(space.size)[space.link(i)], range(space.size)[space.link(i)])
            if self.divergence == "entropic":
                turned = np.linalg.solve(pseudo_inertia(x[space.link(i)]), _UNIT_MATRICES)
                H[own] = np.einsum("aij,bji->ab", turned, turned)
            else:
                triangles = triangle(_UNIT_MATRICES) / space.link_units
                H[own] = 2 * triangles.T @ triangles / float(np.linalg.norm(triangles @ phi)) ** 2
        return H


def require_valid_prior(given: Robot | str | None, divergence: str) -> None:
    """Refuse settings that name no prior."""
    if divergence not in ("entropic", "euclidean"):
        raise InputError(f'divergence = {divergence!r}; it may be: "entropic", "euclidean"')
    if isinstance(given, str) and given != "robot":
        raise InputError(
            f'prior = {given!r}; it may be "robot", None or a Robot',
            hint=f"prior=load_robot({given!r}) where that is a file or a robot's name",
        )


def build_prior(robot: Robot, given: Robot | Literal["robot"] | None, divergence: Divergence = "entropic") -> Prior:
    """The prior that a fit of `robot` may use: its own inertials, another description's of the same links, or none."""
    require_valid_prior(given, divergence)
    if given is None:
        return Prior((None,) * robot.joint_count, divergence, ())
    source = robot if isinstance(given, str) else given
    if source is not robot and (source.link_names != robot.link_names or not _have_same_joints(source, robot)):
        raise InputError(
            f"the prior {source.name!r} has other joints or link frames than robot {robot.name!r}",
            hint="a prior states the parameters of the same links in the same frames",
        )
    unbelieved = find_placeholders(source)
    links, notes = [], _format_unused(unbelieved)
    for link in source.links:
        usable = None if link.name in unbelieved else link.phi
        links.append(usable if usable is None else _thicken_body(link, notes))
    return Prior(tuple(links), divergence, tuple(notes))


def _format_unused(unbelieved: dict[str, str]) -> list[str]:
    """One sentence for every reason."""
    reasons: dict[str, list[str]] = {}
    for name, why in unbelieved.items():
        reasons.setdefault(why, []).append(name)
    return [f"not used as a prior: {', '.join(names)} ({why})" for why, names in reasons.items()]


def _have_same_joints(one: Robot, other: Robot) -> bool:
    plain = [replace(robot, drives=(), extras=(), gravity=np.zeros(3)) for robot in (one, other)]
    return has_same_mechanism(*plain)


def find_placeholders(robot: Robot) -> dict[str, str]:
    """Links whose stated parameters are no statement about the arm, each with the reason.

    No parameters, all zero, no body can have them, mass 1 with the unit tensor; or the same mass and tensor on every
    link that is left, of several.
    """
    found = {link.name: why for link in robot.links if (why := _explain_implausible(link))}
    stated = [link for link in robot.links if link.name not in found]
    if _are_alike(stated):
        found |= {link.name: "every link states the same mass and inertia, a placeholder" for link in stated}
    return found


def has_placeholders(robot: Robot) -> bool:
    """Whether some link states mass 1 with the unit tensor, or all that are believable state the same."""
    believable = [link for link in robot.links if not _explain_implausible(link)]
    return any(_is_unit(link) for link in robot.links) or _are_alike(believable)


def _are_alike(links: Sequence[Link]) -> bool:
    bodies = [np.round(_body(link), 12) for link in links]
    return len(bodies) > 1 and all((body == bodies[0]).all() for body in bodies[1:])


def _is_unit(link: Link) -> bool:
    return link.phi is not None and link.phi[0] == 1.0 and np.array_equal(mass_com_inertia(link.phi)[2], np.eye(3))


def _body(link: Link) -> Array:
    assert link.phi is not None
    mass, _, J = mass_com_inertia(link.phi)
    return np.array([mass, *np.linalg.eigvalsh(J)])


def _explain_implausible(link: Link) -> str:
    if link.phi is None:
        return "it states no parameters"
    if not link.phi.any():
        return "all its parameters are zero"
    verdict = check_consistency(link.phi)
    if not verdict.is_feasible:
        return verdict.reason
    if _is_unit(link):
        return "mass 1 and the unit tensor are a placeholder"
    return ""


def _thicken_body(link: Link, notes: list[str]) -> Array:
    """phi, or phi with `MIN_GYRATION_RADIUS_M` in the directions in which the body is thinner."""
    assert link.phi is not None
    P = pseudo_inertia(link.phi)
    mass = link.phi[0]
    Sigma = P[:3, :3] - np.outer(P[:3, 3], P[:3, 3]) / mass
    values, vectors = np.linalg.eigh(Sigma)
    least = mass * MIN_GYRATION_RADIUS_M**2 / 3
    if values[0] >= least:
        return link.phi
    notes.append(
        f"link {link.name}: the prior is thinner than {1000 * MIN_GYRATION_RADIUS_M:g} mm and was given that much"
    )
    added = vectors @ np.diag(np.maximum(least - values, 0.0)) @ vectors.T
    tensor = added.trace() * np.eye(3) - added
    wider = link.phi.copy()
    wider[4:] += tensor[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    return wider


def _add_entropic(program: ConicProgram, space: PhysicalSpace, i: int, phi: Array, units: Array, weight: float) -> None:
    """weight (tr Q - log det Q), Q = L^-1 P L^-T with P0 = L L^T, through a factor of Q with a bounded diagonal.

    [[Q, Z], [Z^T, diag Z]] >= 0 with Z lower triangular makes det Q >= prod Z_kk, and the logarithms of Z_kk are
    variables in exponential cones [Ben-Tal & Nemirovski 2001].
    """
    turn = np.linalg.inv(np.linalg.cholesky(pseudo_inertia(phi)))
    Q = turn @ _UNIT_MATRICES @ turn.T  # (10, 4, 4): Q of each unit parameter
    link = space.link(i)
    program.cost[link] += weight * np.trace(Q, axis1=1, axis2=2) * units[link]
    factor, logs = program.add_variables(10), program.add_variables(4)
    program.cost[logs] -= weight
    wide = np.zeros((PARAMETERS_PER_LINK, 8, 8))
    wide[:, :4, :4] = Q
    corners = np.zeros((10, 8, 8))
    for k, (row, column) in enumerate(zip(*np.tril_indices(4), strict=True)):
        corners[k, row, 4 + column] = corners[k, 4 + column, row] = 1.0
        if row == column:
            corners[k, 4 + row, 4 + row] = 1.0
    matrix = np.zeros((36, program.size))
    matrix[:, link] = triangle(wide) * units[link]
    matrix[:, factor] = triangle(corners)
    program.add_rows(ConeRows("semidefinite", matrix, np.zeros(36), 8))
    exponentials, offset = np.zeros((12, program.size)), np.tile([0.0, 1.0, 0.0], 4)
    for k in range(4):
        exponentials[3 * k, logs.start + k] = 1.0
        exponentials[3 * k + 2, factor.start + DIAGONAL_PLACES[k]] = 1.0
    program.add_rows(ConeRows("exponential", exponentials, offset))


def _add_euclidean(
    program: ConicProgram, space: PhysicalSpace, i: int, phi: Array, units: Array, weight: float
) -> None:
    link, triangles = space.link(i), triangle(_UNIT_MATRICES)
    believed = triangles @ (phi / space.link_units)
    root = np.sqrt(2 * weight) / float(np.linalg.norm(believed))
    A = np.zeros((len(LINK_PARAMETERS), space.size))
    A[:, link] = root * triangles * (units[link] / space.link_units)
    program.add_squares(A, root * believed)
