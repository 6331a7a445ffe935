"""`Prior`: expected link parameters for directions that the data hardly determine.

entropic   tr(P0^-1 P) - log det(P0^-1 P) - 4 of pseudo-inertias P against P0: the Bregman divergence of -log det, the
           same in all frames and units [Lee, Wensing & Park 2020]
euclidean  |P - P0|^2 / |P0|^2, with lengths in units of the robot
least mass the sum of all masses, if no prior is known
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from mindyn.foundation.algebra.inertia import phi_about_origin, pseudo_inertia
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, require_choice
from mindyn.foundation.notation import LINK_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.identification.feasibility.conditions.physical_space import (
    MIN_LENGTH_M,
    PSEUDO_ROWS,
    UNIT_PSEUDO_INERTIAS,
    PhysicalSpace,
)
from mindyn.identification.feasibility.optimisation.conic_program import ConeRows, ConicProgram, triangle
from mindyn.parameters.base_parameters import has_same_mechanism
from mindyn.robots.parts import Link
from mindyn.robots.placeholders import find_placeholders
from mindyn.robots.robot import Robot

Divergence = Literal["entropic", "euclidean"]
MIN_GYRATION_RADIUS_M: Final = 0.01
"""Smallest radius of gyration of a link in a prior, m, because the entropic divergence of a point, rod or plate is
infinite.
"""
MIN_PRIOR_WEIGHT: Final = 1e-6
"""Smallest weight of a prior. With this weight, a prior affects only parameters that the data do not determine."""
MIN_LINK_MASS_KG: Final = 1e-3
"""Smallest mean mass of guessed links, kg."""
MASS_COST: Final = 10.0
"""Cost of the mean mass of guessed links, relative to the weight of the guess: the entropy alone grows with the mass of
thin links. A simulated Puma 560 without inertials gets 41, 38 and 32 % of its mass at 0, 10 and 30."""
MIN_MASS_RATIO: Final = 1e-2
"""Smallest mass of a link relative to the mean, for a guess: the geometric mean with the mean mass is then 10 %."""


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """Expected parameters of the links.

    links         phi (10,) of each link, or None if the prior does not know it
    divergence    measure of the distance from the prior
    notes         sentences about placeholders and links that were made thicker
    guessed       numbers of links with a guess instead of a prior; a guess affects only parameters that the data do not
                  determine
    guessed_cost  cost of 1 kg of a guessed link, relative to the weight of the guess
    """

    links: tuple[Array | None, ...]
    divergence: Divergence
    notes: tuple[str, ...]
    guessed: tuple[int, ...] = ()
    guessed_cost: float = 0.0

    @property
    def sentence(self) -> str:
        """Describe the values of parameters that the data do not determine."""
        known = sum(phi is not None for phi in self.links) - len(self.guessed)
        if not known:
            others = "balls of even mass" if self.guessed else "the smallest total mass"
            return f"no prior: unidentifiable parameters take {others}"
        others = "balls of even mass" if self.guessed else "the smallest mass"
        rest = "" if known == len(self.links) else f" for {known} of {len(self.links)} links, {others} for the others"
        return f"unidentifiable parameters take the prior ({self.divergence}){rest}"

    @property
    def is_known(self) -> bool:
        """Return whether the prior contains any link; guesses do not count."""
        return sum(phi is not None for phi in self.links) > len(self.guessed)

    def with_guesses(self, space: PhysicalSpace, x: Array) -> Prior:
        """Return the prior with a ball for every unknown link.

        The mass of a ball is between that of x and the mean mass.
        """
        unknown = [i for i, phi in enumerate(self.links) if phi is None]
        masses = x[space.masses]
        mean = max(float(masses.mean()), MIN_LINK_MASS_KG)
        guesses = np.sqrt(np.maximum(masses, MIN_MASS_RATIO * mean) * mean)
        links = guess_balls(space, self.links, unknown, guesses)
        return replace(self, links=links, guessed=tuple(unknown), guessed_cost=MASS_COST / mean)

    def add_to(
        self, program: ConicProgram, space: PhysicalSpace, units: Array, weight: float, mass_cost: float
    ) -> None:
        """Add weight times the divergence, and mass_cost times the mass in kg of links without a prior.

        A guess has the smallest weight that is given to any prior.
        """
        given = weight
        for i, phi in enumerate(self.links):
            weight = min(given, MIN_PRIOR_WEIGHT) if i in self.guessed else given
            if i in self.guessed:
                program.cost[PARAMETERS_PER_LINK * i] += weight * self.guessed_cost * units[PARAMETERS_PER_LINK * i]
            if phi is None:
                program.cost[PARAMETERS_PER_LINK * i] += mass_cost * units[PARAMETERS_PER_LINK * i]
            elif self.divergence == "entropic":
                _add_entropic(program, space, i, phi, units, weight)
            else:
                _add_euclidean(program, space, i, phi, units, weight)

    def curvature(self, space: PhysicalSpace, x: Array, given: float = 1.0) -> Array:
        """Return the second derivative (size, size) of the weighted divergence at x; links without a prior contribute
        zero.

        The second derivative is infinite where an entropic divergence is undefined.
        """
        curvature = np.zeros((space.size, space.size))
        for i, phi in enumerate(self.links):
            link, weight = space.link(i), min(given, MIN_PRIOR_WEIGHT) if i in self.guessed else given
            if phi is None:
                continue
            if self.divergence == "entropic":
                P = pseudo_inertia(x[link])
                if not np.isfinite(P).all() or np.linalg.eigvalsh(P)[0] <= 0:
                    return np.full_like(curvature, np.inf)
                turned = np.linalg.solve(P, UNIT_PSEUDO_INERTIAS)
                curvature[link, link] = weight * np.einsum("aij,bji->ab", turned, turned)
            else:
                triangles = PSEUDO_ROWS / space.link_units
                scale = float(np.linalg.norm(triangles @ phi)) ** 2
                curvature[link, link] = 2 * weight * triangles.T @ triangles / scale
        return curvature


def guess_balls(
    space: PhysicalSpace, links: Sequence[Array | None], unknown: Sequence[int], masses: Array
) -> tuple[Array | None, ...]:
    """Return phi of the links, where each unknown link is a ball of the given mass in the middle of its child
    joints.
    """
    filled = list(links)
    for i in unknown:
        middle = np.mean([np.zeros(3), *child_joint_positions(space, i)], axis=0)
        radius = max(MIN_LENGTH_M, float(np.linalg.norm(middle)))
        mass = float(masses[i])
        filled[i] = phi_about_origin(mass, middle, 0.4 * mass * radius**2 * np.eye(3))
    return tuple(filled)


def child_joint_positions(space: PhysicalSpace, link: int) -> list[Array]:
    """Return the positions of the child joints of a link in its frame."""
    name = space.robot.links[link].name
    return [joint.origin.translation for joint in space.robot.joints if joint.parent == name]


def require_valid_prior(given: Robot | str | None, divergence: str) -> None:
    """Raise `InputError` if the settings do not name a prior."""
    require_choice(divergence, ("entropic", "euclidean"), "divergence")
    if isinstance(given, str) and given != "robot":
        raise InputError(
            f'prior must be "robot", None or a Robot, got {given!r}',
            hint=f"pass prior=load_robot({given!r}) if this is a file or the name of a robot",
            code=Code.UNKNOWN_NAME,
            subject=given,
        )


def build_prior(robot: Robot, given: Robot | Literal["robot"] | None, divergence: Divergence = "entropic") -> Prior:
    """Build the prior of a fit: inertial parameters of the robot, of another robot with the same links, or none."""
    require_valid_prior(given, divergence)
    if given is None:
        return Prior((None,) * len(robot.joints), divergence, ())
    source = robot if isinstance(given, str) else given
    if source is not robot and (source.link_names != robot.link_names or not _have_same_joints(source, robot)):
        raise InputError(
            f"the prior {source.name!r} has other joints or link frames than robot {robot.name!r}",
            hint="the prior must have the same links in the same frames",
            code=Code.DISAGREEMENT,
            subject=source.name,
        )
    unusable = find_placeholders(source)
    links, notes = [], _format_unused(unusable)
    for link in source.links:
        usable = None if link.name in unusable else link.phi
        links.append(usable if usable is None else _thicken_body(link, notes))
    return Prior(tuple(links), divergence, tuple(notes))


def _format_unused(unusable: dict[str, str]) -> list[str]:
    """Return one sentence for each reason."""
    reasons: dict[str, list[str]] = {}
    for name, why in unusable.items():
        reasons.setdefault(why, []).append(name)
    return [f"not used as a prior: {', '.join(names)} ({why})" for why, names in reasons.items()]


def _have_same_joints(first: Robot, second: Robot) -> bool:
    plain = [replace(robot, drives=(), extras=(), gravity=np.zeros(3)) for robot in (first, second)]
    return has_same_mechanism(*plain)


def _thicken_body(link: Link, notes: list[str]) -> Array:
    """Return phi with a radius of gyration of at least `MIN_GYRATION_RADIUS_M` in every direction."""
    assert link.phi is not None
    P = pseudo_inertia(link.phi)
    mass = link.phi[0]
    Sigma = P[:3, :3] - np.outer(P[:3, 3], P[:3, 3]) / mass
    values, vectors = np.linalg.eigh(Sigma)
    least = mass * MIN_GYRATION_RADIUS_M**2 / 3
    if values[0] >= least:
        return link.phi
    notes.append(
        f"link {link.name}: the prior is thinner than {1000 * MIN_GYRATION_RADIUS_M:g} mm and was made that thick"
    )
    added = vectors @ np.diag(np.maximum(least - values, 0.0)) @ vectors.T
    tensor = added.trace() * np.eye(3) - added
    wider = link.phi.copy()
    wider[4:] += tensor[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    return wider


def _add_entropic(program: ConicProgram, space: PhysicalSpace, i: int, phi: Array, units: Array, weight: float) -> None:
    """Add weight (tr Q - log det Q), Q = L^-1 P L^-T with P0 = L L^T."""
    turn = np.linalg.inv(np.linalg.cholesky(pseudo_inertia(phi)))
    Q = turn @ UNIT_PSEUDO_INERTIAS @ turn.T  # (10, 4, 4): Q of each unit parameter
    link = space.link(i)
    program.cost[link] += weight * np.trace(Q, axis1=1, axis2=2) * units[link]
    matrix = np.zeros((PARAMETERS_PER_LINK, space.size))
    matrix[:, link] = triangle(Q) * units[link]
    program.add_logarithm(ConeRows("semidefinite", matrix, np.zeros(PARAMETERS_PER_LINK), 4), weight)


def _add_euclidean(
    program: ConicProgram, space: PhysicalSpace, i: int, phi: Array, units: Array, weight: float
) -> None:
    link, triangles = space.link(i), PSEUDO_ROWS
    expected = triangles @ (phi / space.link_units)
    root = np.sqrt(2 * weight) / float(np.linalg.norm(expected))
    A = np.zeros((len(LINK_PARAMETERS), space.size))
    A[:, link] = root * triangles * (units[link] / space.link_units)
    program.add_squares(A, root * expected)
