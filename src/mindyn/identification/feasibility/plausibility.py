"""`check_full_model`: whether the links of a complete model could be those of a real robot.

Physical consistency alone allows a link of a thousand kilograms, or a centre of mass metres away: base parameters do
not determine all masses, and a projection may use that freedom. The masses are compared with those of a reference, such
as the robot file, or else with a solid steel cube of the size of the link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mindyn.equations.catalogue import equation
from mindyn.equations.identifiability.random_states import Regressors
from mindyn.equations.loop_closure import tree_state
from mindyn.equations.loop_constraints import evaluate_batch, open_tree
from mindyn.foundation.algebra.inertia import mass_com_inertia
from mindyn.foundation.algebra.requirements import require_type
from mindyn.foundation.algebra.values import Array, ShortRepr
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.feasibility.answer import Answer
from mindyn.identification.feasibility.bounds import shape_corners
from mindyn.identification.feasibility.priors import find_placeholders
from mindyn.robots.parts import Link
from mindyn.robots.robot import Robot

MASS_RATIOS: Final = (0.2, 5.0)
"""Smallest and largest mass relative to that of the reference, for each link and in total."""
LOAD_FRACTION: Final = 0.5
"""Mass relative to the total of the reference that any link may have: a tool or load that the file does not contain."""
STEEL_KG_M3: Final = 7850.0
"""Density of the solid cube that limits the mass of a link without a reference."""
MIN_SIZE_M: Final = 0.05
"""Smallest size of a link whose joint frames coincide, m."""
NEGLIGIBLE_MASS_FRACTION: Final = 1e-3
"""Mass relative to the total below which the centre of mass of a link is not checked."""
MAX_CONDITION_NUMBER: Final = 1e12
"""Largest condition number of the inertia matrix in units of its diagonal; forward dynamics keep four digits there."""
MAX_NAMED_PROBLEMS: Final = 4
"""Most problems that a message names."""
CONFIGURATIONS: Final = 20
"""Random configurations at which the condition number is computed."""


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
        """Return what is implausible, without the name of the link.

        A light link is not: base parameters leave open how neighbouring links share their mass.
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
            "condition_number": self.condition_number if np.isfinite(self.condition_number) else None,
            "problems": list(self.problems),
        }


def check_full_model(model: Robot, reference: Robot | None = None) -> Plausibility:
    """Check whether masses, centres of mass and inertia matrix of a complete model are plausible.

    Parameters
    ----------
    model : Robot
        Robot with parameters of all links, such as the result of `full_model`.
    reference : Robot, optional
        Robot with the same links. Masses may be 0.2 to 5 times those of the reference; a link may also have half of its
        total mass, as a tool or load that the file does not contain. Its centre of mass must be within one link size.
        Links that the reference does not know, or with placeholders, may be as heavy as a solid steel cube of their
        size, with the centre of mass within the length of the robot: fits without a prior do not determine it better.

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
    require_type(model, Robot, "model", "pass full_model(estimate)")
    model.phi  # noqa: B018 - raises the error that names the links without parameters
    if reference is not None and reference.link_names != model.link_names:
        raise InputError(
            f"the reference {reference.name!r} has other links than {model.name!r}",
            hint="pass the robot file of the model",
            code=Code.DISAGREEMENT,
            subject=reference.name,
        )
    pairs = [(i, link) for i, link in enumerate(model.links) if not _is_virtual(model, reference, i)]
    known = _reference_masses(reference)
    reference_total = sum(known.values())
    total = sum(_mass(link) for _, link in pairs)
    ranges = [_mass_range(model, i, known.get(link.name), reference_total) for i, link in pairs]
    links = [
        _assess_link(model, reference, i, mass_range, total) for (i, _), mass_range in zip(pairs, ranges, strict=True)
    ]
    if len(known) == len(pairs):
        total_range = (MASS_RATIOS[0] * reference_total, MASS_RATIOS[1] * reference_total)
    else:
        total_range = (sum(low for low, _ in ranges), sum(high for _, high in ranges))
    return Plausibility(tuple(links), total, total_range, _condition_number(model))


def _is_virtual(model: Robot, reference: Robot | None, i: int) -> bool:
    """Return whether a link has no body: one of the massless links of a floating base."""
    phi = model.links[i].phi
    stated = None if reference is None else reference.links[i].phi
    return phi is not None and not phi.any() and (stated is None or not stated.any())


def _mass(link: Link) -> float:
    assert link.phi is not None
    return float(link.phi[0])


def _reference_masses(reference: Robot | None) -> dict[str, float]:
    """Return the masses of the reference by link, without placeholders."""
    if reference is None:
        return {}
    unusable = find_placeholders(reference)
    return {link.name: _mass(link) for link in reference.links if link.name not in unusable}


def _mass_range(model: Robot, i: int, reference_mass: float | None, reference_total: float) -> tuple[float, float]:
    if reference_mass is None:
        return 0.0, STEEL_KG_M3 * _link_size(model, i) ** 3
    low, high = (ratio * reference_mass for ratio in MASS_RATIOS)
    return low, max(high, LOAD_FRACTION * reference_total)


def _assess_link(
    model: Robot, reference: Robot | None, i: int, mass_range: tuple[float, float], total: float
) -> LinkPlausibility:
    link = model.links[i]
    assert link.phi is not None
    mass, centre, _ = mass_com_inertia(link.phi)
    known = _reference_masses(reference)
    points = _link_points(model, i)
    if link.name in known and reference is not None:
        stated = reference.links[i].phi
        assert stated is not None
        points = np.vstack([points, mass_com_inertia(stated)[1]])
    outside = np.maximum(points.min(axis=0) - centre, 0.0) + np.maximum(centre - points.max(axis=0), 0.0)
    is_negligible = mass <= NEGLIGIBLE_MASS_FRACTION * total
    distance = 0.0 if is_negligible else float(np.linalg.norm(outside))
    size = _link_size(model, i)
    limit = size if link.name in known else max(size, sum(_box_diagonals(model)))
    return LinkPlausibility(link.name, mass, mass_range, known.get(link.name), distance, limit)


def _link_points(model: Robot, i: int) -> Array:
    """Return points (k, 3) of a link in its frame: its joint, its child joints, its frames and shapes."""
    link = model.links[i]
    ends = [joint.origin.translation for joint in model.joints if joint.parent == link.name]
    frames = [frame.pose.translation for frame in model.frames if frame.link == link.name]
    start = model.joints[i].tip.inverse().translation
    corners = [shape_corners(shape) for shape in link.shapes if shape.kind != "mesh"]
    return np.vstack([np.zeros((1, 3)), start, *ends, *frames, *corners])


def _box_diagonals(model: Robot) -> list[float]:
    """Return the diagonals of the boxes around the points of all links, m."""
    return [float(np.linalg.norm(np.ptp(_link_points(model, k), axis=0))) for k in range(len(model.links))]


def _link_size(model: Robot, i: int) -> float:
    """Return the size of a link, m: the diagonal of the box around its points, or the mean size if that is larger."""
    sizes = _box_diagonals(model)
    positive = [size for size in sizes if size > 0]
    return max(MIN_SIZE_M, sizes[i], float(np.mean(positive)) if positive else 0.0)


def _condition_number(model: Robot) -> float:
    """Return the largest condition number of M(q), scaled to a unit diagonal, at random configurations."""
    q = Regressors(model).random_positions(np.random.default_rng(0), CONFIGURATIONS)
    state = tree_state(model, q)
    M = evaluate_batch(equation(open_tree(model), "inertia_matrix", drives=bool(model.drives), check=False), state.q)
    M = state.W.transpose(0, 2, 1) @ M @ state.W
    return max(map(_scaled_condition_number, M))


def _scaled_condition_number(M: Array) -> float:
    diagonal = np.diag(M)
    if not np.isfinite(M).all() or not (diagonal > 0).all():
        return np.inf
    values = np.linalg.eigvalsh(M / np.sqrt(np.outer(diagonal, diagonal)))
    return float(values[-1] / values[0]) if values[0] > 0 else np.inf
