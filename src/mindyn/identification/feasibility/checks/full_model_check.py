"""`check_full_model`: check whether a real robot could have the links of a complete model.

Physically consistent links may have a mass of a thousand kilograms, or a centre of mass metres away, because base
parameters do not determine all masses. This module therefore compares masses and centres with the limits of
`plausible_limits`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mindyn.equations.batch_evaluation import evaluate_batch
from mindyn.equations.catalogue import build_equation
from mindyn.equations.identifiability.random_states import draw_positions
from mindyn.equations.loop_closure import tree_state
from mindyn.equations.loop_constraints import open_tree
from mindyn.foundation.algebra.inertia import mass_com_inertia
from mindyn.foundation.algebra.requirements import require_type
from mindyn.foundation.algebra.values import Array, ShortRepr
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.json_values import to_json_value
from mindyn.identification.feasibility.checks.answer import Answer
from mindyn.identification.feasibility.conditions.default_limits import LinkLimits, plausible_limits
from mindyn.robots.robot import Robot

NEGLIGIBLE_MASS_FRACTION: Final = 1e-3
"""Mass relative to the total below which the centre of mass of a link is not checked."""
MAX_CONDITION_NUMBER: Final = 1e12
"""Largest condition number of the inertia matrix in units of its diagonal; forward dynamics is still accurate to four
digits there.
"""
MAX_NAMED_PROBLEMS: Final = 4
"""Most problems that a message names."""
CONFIGURATIONS: Final = 20
"""Number of random configurations at which the condition number is computed."""


@dataclass(frozen=True, slots=True)
class LinkPlausibility:
    """Mass and centre of mass of a link, with the limits of plausible values.

    Attributes
    ----------
    link : str
        Name of the link.
    mass : float
        Mass, kg.
    mass_range : (float, float)
        Smallest and largest plausible mass, kg.
    reference_mass : float or None
        Mass of the link in the reference, kg; None if it is unknown or a placeholder.
    centre_distance : float
        Distance of the centre of mass from the box around the joint frames and shapes of the link, m.
    centre_limit : float
        Largest plausible distance, m.
    """

    link: str
    mass: float
    mass_range: tuple[float, float]
    reference_mass: float | None
    centre_distance: float
    centre_limit: float

    @property
    def is_too_heavy(self) -> bool:
        """Return whether the mass is above its range."""
        return self.mass > self.mass_range[1]

    @property
    def is_light(self) -> bool:
        """Return whether the mass is below its range."""
        return self.mass < self.mass_range[0]

    @property
    def has_near_centre(self) -> bool:
        """Return whether the centre of mass is near the link."""
        return self.centre_distance <= self.centre_limit

    @property
    def problems(self) -> tuple[str, ...]:
        """Describe each implausible property; the name of the link is not repeated.

        A light link is not implausible, because base parameters do not determine how neighbouring links share their
        mass.
        """
        compared = "" if self.reference_mass is None else f" instead of {self.reference_mass:.3g} kg"
        mass = f"{self.mass:.4g} kg{compared} (plausible: {self.mass_range[0]:.3g} to {self.mass_range[1]:.3g} kg)"
        centre = f"centre of mass {self.centre_distance:.3g} m from the link (plausible: {self.centre_limit:.3g} m)"
        return (*((mass,) if self.is_too_heavy else ()), *(() if self.has_near_centre else (centre,)))


@dataclass(frozen=True, slots=True, repr=False)
class Plausibility(ShortRepr):
    """Result of `check_full_model`.

    Attributes
    ----------
    links : tuple of LinkPlausibility
        Mass and centre of mass of every moving link.
    total_mass : float
        Sum of the masses of the moving links, kg.
    total_range : (float, float)
        Smallest and largest plausible sum, kg.
    condition_number : float
        Largest condition number of the inertia matrix, in units of its diagonal, at random configurations; infinite if
        it is not positive definite.
    """

    links: tuple[LinkPlausibility, ...]
    total_mass: float
    total_range: tuple[float, float]
    condition_number: float

    @property
    def problems(self) -> tuple[str, ...]:
        """Return a sentence part for everything that is implausible; empty if the model is plausible."""
        problems = [f"{link.link}: {', '.join(link.problems)}" for link in self.links if link.problems]
        low, high = self.total_range
        if not low <= self.total_mass <= high:
            problems.append(f"all links together: {self.total_mass:.4g} kg (plausible: {low:.3g} to {high:.3g} kg)")
        if not self.condition_number <= MAX_CONDITION_NUMBER:
            problems.append(f"the inertia matrix has condition number {self.condition_number:.2g}")
        return tuple(problems)

    def describe_problems(self) -> str:
        """Return the problems as one text, at most `MAX_NAMED_PROBLEMS` of them."""
        problems = self.problems
        more = len(problems) - MAX_NAMED_PROBLEMS
        return "; ".join([*problems[:MAX_NAMED_PROBLEMS], *([f"and {more} more"] if more > 0 else [])])

    @property
    def light_links(self) -> tuple[str, ...]:
        """Return the names of links below their range of masses."""
        return tuple(link.link for link in self.links if link.is_light)

    @property
    def is_plausible(self) -> bool:
        """Return whether nothing is implausible."""
        return not self.problems

    @property
    def answer(self) -> Answer:
        """Return the result as an answer of a feasibility check."""
        good = f"all masses ({self.total_mass:.3g} kg in total) and centres of mass are plausible."
        reason = good if self.is_plausible else f"{self.describe_problems()}."
        return Answer("plausible", self.is_plausible, reason, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the result in types that JSON can store."""
        return {
            "masses": {link.link: link.mass for link in self.links},
            "mass_ranges": {link.link: list(link.mass_range) for link in self.links},
            "centre_distances": {link.link: link.centre_distance for link in self.links},
            "centre_limits": {link.link: link.centre_limit for link in self.links},
            "total_mass": self.total_mass,
            "total_range": list(self.total_range),
            "condition_number": to_json_value(self.condition_number),
            "problems": list(self.problems),
        }


def check_full_model(model: Robot, reference: Robot | None = None) -> Plausibility:
    """Check whether masses, centres of mass and inertia matrix of a complete model are plausible.

    Parameters
    ----------
    model : Robot
        Robot with parameters of all links, such as the result of `build_full_model`.
    reference : Robot, optional
        Robot with the same links. Masses may be 0.2 to 5 times those of the reference; a link may also have half of its
        total mass, as a tool or load that the file does not contain. Its centre of mass must be within one link size.
        Links that the reference does not contain, or with placeholders, may have a density of 200 to 8000 kg/m^3 in the
        hull of their shapes; without shapes, they may be as heavy as a solid steel cube of their size. Their centre of
        mass must be within the length of the robot, because fits without a prior do not determine it better.

    Returns
    -------
    Plausibility
        Masses, distances and condition number with their limits.

    Raises
    ------
    InputError
        If the reference has other links.
    MissingPhysicsError
        If a link of the model has no parameters.

    Examples
    --------
    >>> import mindyn
    >>> from mindyn.identification import check_full_model
    >>> robot = mindyn.load_robot("puma560")
    >>> check_full_model(robot, robot).is_plausible
    True
    """
    require_type(model, Robot, "model", "pass build_full_model(estimate)")
    model.phi  # noqa: B018 - raises the error that names the links without parameters
    if reference is not None and reference.link_names != model.link_names:
        raise InputError(
            f"the reference {reference.name!r} has other links than {model.name!r}",
            hint="pass the robot file of the model",
            code=Code.DISAGREEMENT,
            subject=reference.name,
        )
    limits = plausible_limits(model, reference)
    masses = {link.link: _link_mass(model, link.link) for link in limits.links}
    total = sum(masses.values())
    links = tuple(_assess_link(model, link, total) for link in limits.links)
    return Plausibility(links, total, limits.total_range, _condition_number(model))


def _link_mass(model: Robot, name: str) -> float:
    phi = model.links[model.link_index(name)].phi
    assert phi is not None
    return float(phi[0])


def _assess_link(model: Robot, limits: LinkLimits, total: float) -> LinkPlausibility:
    phi = model.links[model.link_index(limits.link)].phi
    assert phi is not None
    mass, centre, _ = mass_com_inertia(phi)
    outside = np.maximum(limits.box[0] - centre, 0.0) + np.maximum(centre - limits.box[1], 0.0)
    is_negligible = mass <= NEGLIGIBLE_MASS_FRACTION * total
    distance = 0.0 if is_negligible else float(np.linalg.norm(outside))
    return LinkPlausibility(limits.link, mass, limits.mass_range, limits.reference_mass, distance, limits.centre_limit)


def _condition_number(model: Robot) -> float:
    """Return the largest condition number of M(q), scaled to a unit diagonal, at random configurations."""
    q = draw_positions(model, np.random.default_rng(0), CONFIGURATIONS)
    state = tree_state(model, q)
    M = evaluate_batch(
        build_equation(open_tree(model), "inertia_matrix", with_drives=bool(model.drives), check=False), state.q
    )
    M = state.W.transpose(0, 2, 1) @ M @ state.W
    return max(map(_scaled_condition_number, M))


def _scaled_condition_number(M: Array) -> float:
    diagonal = np.diag(M)
    if not np.isfinite(M).all() or not (diagonal > 0).all():
        return np.inf
    values = np.linalg.eigvalsh(M / np.sqrt(np.outer(diagonal, diagonal)))
    return float(values[-1] / values[0]) if values[0] > 0 else np.inf
