"""`plausible_limits`: masses and centres of mass that the links of a real robot can have.

Masses are compared with those of a reference, such as the robot file. Links that the reference does not contain must
have the density of a real link in the hull of their shapes; without shapes, they may be as heavy as a solid steel cube
of their size. A fit gets the limits as `Bounds`, and `check_full_model` checks models with the same limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.foundation.algebra.inertia import mass_com_inertia
from mindyn.foundation.algebra.values import Array
from mindyn.identification.feasibility.conditions.user_bounds import Bounds, shape_corners
from mindyn.robots.link_solids import Solid, read_geometry
from mindyn.robots.placeholders import find_placeholders
from mindyn.robots.robot import Robot

MASS_RATIOS: Final = (0.2, 5.0)
"""Smallest and largest mass relative to the mass in the reference, for each link and for the total."""
LOAD_FRACTION: Final = 0.5
"""Mass, relative to the total of the reference, that every link may have, because it may carry a tool or load that the
file does not contain.
"""
DENSITIES_KG_M3: Final = (200.0, 8000.0)
"""Smallest and largest mean density of a link in the hull of its shapes: a hollow plastic part, and solid steel."""
STEEL_KG_M3: Final = 7850.0
"""Density of the solid cube that limits the mass of a link without a reference or shapes."""
MIN_SIZE_M: Final = 0.05
"""Smallest size of a link whose joint frames coincide, m."""
BOUND_MARGIN: Final = 1e-3
"""Relative distance between the bounds of a fit and the limits, so that a solution on a bound satisfies the limit in
spite of rounding.
"""


@dataclass(frozen=True, slots=True, eq=False)
class LinkLimits:
    """Plausible values of one link.

    link            name of the link
    mass_range      smallest and largest mass, kg
    reference_mass  mass in the reference, kg; None if it is unknown or a placeholder
    box             (2, 3) corners of the box around the joint frames, shapes and reference centre, m
    centre_limit    largest distance of the centre of mass from the box, m
    """

    link: str
    mass_range: tuple[float, float]
    reference_mass: float | None
    box: Array
    centre_limit: float


@dataclass(frozen=True, slots=True, eq=False)
class PlausibleLimits:
    """Limits of every link with a body, and of the total mass in kg."""

    links: tuple[LinkLimits, ...]
    total_range: tuple[float, float]

    def bounds(self) -> Bounds:
        """Return bounds of a fit whose solution satisfies all limits.

        All points of a box that is `centre_limit` / sqrt(3) wider on each side are within `centre_limit` of the inner
        box.
        """
        boxes = {}
        for limits in self.links:
            wider = (1 - BOUND_MARGIN) * limits.centre_limit / np.sqrt(3) * np.ones(3)
            low, high = limits.box[0] - wider, limits.box[1] + wider
            boxes[limits.link] = ((low[0], low[1], low[2]), (high[0], high[1], high[2]))
        masses = {limits.link: _shrink_range(limits.mass_range) for limits in self.links}
        return Bounds(masses, boxes, _shrink_range(self.total_range))


def _shrink_range(values: tuple[float, float]) -> tuple[float, float]:
    return (1 + BOUND_MARGIN) * values[0], (1 - BOUND_MARGIN) * values[1]


def plausible_limits(robot: Robot, reference: Robot | None) -> PlausibleLimits:
    """Return the limits of all links that have a body; their masses are compared with those of the reference."""
    known = reference_masses(reference)
    bodies = [i for i in range(len(robot.links)) if not _is_virtual(robot, reference, i)]
    volumes = _hull_volumes(robot) if len(known) < len(bodies) else {}
    links = [_link_limits(robot, reference, i, known, volumes) for i in bodies]
    if len(known) == len(links):
        total = sum(known.values())
        total_range = (MASS_RATIOS[0] * total, MASS_RATIOS[1] * total)
    else:
        total_range = (sum(link.mass_range[0] for link in links), sum(link.mass_range[1] for link in links))
    return PlausibleLimits(tuple(links), total_range)


def reference_masses(reference: Robot | None) -> dict[str, float]:
    """Return the masses of the reference by link, without placeholders."""
    if reference is None:
        return {}
    unusable = find_placeholders(reference)
    return {
        link.name: float(link.phi[0]) for link in reference.links if link.name not in unusable and link.phi is not None
    }


def link_size(robot: Robot, i: int) -> float:
    """Return the size of a link, m: the diagonal of the box around its points, or the mean size if that is larger."""
    sizes = _box_diagonals(robot)
    positive = [size for size in sizes if size > 0]
    return max(MIN_SIZE_M, sizes[i], float(np.mean(positive)) if positive else 0.0)


def _is_virtual(robot: Robot, reference: Robot | None, i: int) -> bool:
    """Return whether a link has no body: one of the massless links of a floating base."""
    phi = robot.links[i].phi
    stated = None if reference is None else reference.links[i].phi
    return phi is not None and not phi.any() and (stated is None or not stated.any())


def _link_limits(
    robot: Robot, reference: Robot | None, i: int, known: dict[str, float], volumes: dict[str, float]
) -> LinkLimits:
    name, points, size = robot.links[i].name, _link_points(robot, i), link_size(robot, i)
    if name not in known or reference is None:
        heaviest = STEEL_KG_M3 * size**3
        low, high = (density * volumes.get(name, 0.0) for density in DENSITIES_KG_M3)
        mass_range = (low, high) if high else (0.0, heaviest)
        limit = max(size, sum(_box_diagonals(robot)))
        return LinkLimits(name, mass_range, None, _bounding_box(points), limit)
    stated = reference.links[i].phi
    assert stated is not None
    low, high = (ratio * known[name] for ratio in MASS_RATIOS)
    mass_range = (low, max(high, LOAD_FRACTION * sum(known.values())))
    return LinkLimits(
        name, mass_range, known[name], _bounding_box(np.vstack([points, mass_com_inertia(stated)[1]])), size
    )


def _bounding_box(points: Array) -> Array:
    return np.array([points.min(axis=0), points.max(axis=0)])


def _link_points(robot: Robot, i: int) -> Array:
    """Return points (k, 3) of a link in its frame: its joint, its child joints, its frames and shapes."""
    link = robot.links[i]
    ends = [joint.origin.translation for joint in robot.joints if joint.parent == link.name]
    frames = [frame.pose.translation for frame in robot.frames if frame.link == link.name]
    start = robot.joints[i].tip.inverse().translation
    corners = [shape_corners(shape) for shape in link.shapes if shape.kind != "mesh"]
    return np.vstack([np.zeros((1, 3)), start, *ends, *frames, *corners])


def _box_diagonals(robot: Robot) -> list[float]:
    """Return the diagonals of the boxes around the points of all links, m."""
    return [float(np.linalg.norm(np.ptp(_link_points(robot, k), axis=0))) for k in range(len(robot.links))]


def _hull_volumes(robot: Robot) -> dict[str, float]:
    """Return the volume (m^3) of the hull of all shapes of each link; links without readable shapes are omitted."""
    geometry = read_geometry(robot)
    volumes = {}
    for link in robot.links:
        shapes = geometry.links.get(link.name)
        if shapes is not None and shapes.solids:
            volumes[link.name] = _hull_volume(shapes.solids)
    return {name: volume for name, volume in volumes.items() if volume > 0}


def _hull_volume(solids: tuple[Solid, ...]) -> float:
    from scipy.spatial import ConvexHull, QhullError

    try:
        return float(ConvexHull(np.vstack([solid.triangles().corners for solid in solids])).volume)
    except QhullError:  # flat
        return 0.0
