"""`find_encounters`: find the pairs of bodies that can come close to each other, and the distances that they must
keep.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Final, Literal

import numpy as np

from mindyn.equations.closed_motion import is_affine
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import list_names
from mindyn.foundation.findings import Finding, Kind, Severity
from mindyn.foundation.hints import install_command
from mindyn.motions.excitation.capsule_pairs import nearest
from mindyn.motions.excitation.collision_shapes import ALL, Bodies
from mindyn.motions.excitation.volumes import Capsule, Volume
from mindyn.parameters.parallelogram import branches
from mindyn.robots.link_solids import VolumeSource
from mindyn.robots.robot import Robot

UNMOVED_M: Final = 1e-6
"""m: if a distance changes by less than this over all random positions, it counts as independent of the joints."""
UNMOVED_EXACT_M: Final = 1e-4
"""The same for distances between shapes, which coal computes by iteration."""
CONSTANT_PROBES: Final = 100
"""Number of random positions at which distances between shapes are compared for this."""
OFTEN_APART: Final = 0.2
"""Guessed volumes must be apart at this fraction of random positions; otherwise they count as too coarse."""
LEAST_OVERLAPPING: Final = 0.1
"""If volumes are too coarse, the motion must stay in this fraction of random positions: those with the least overlap.
"""
LEAST_ROOM: Final = 0.05
"""More positions are allowed if all coarse pairs together would leave less than this fraction of the positions at which
all other pairs keep their distance. The study safe-motions measures how often the true bodies touch nevertheless.
"""
LEAST_M: Final = 5e-3
"""m: if covers or hulls are never farther apart than this, they are too coarse for measuring the distance of the
shapes.
"""
TOUCHING_M: Final = 2e-3
"""m: surfaces that are never farther apart than this touch by design."""
STEP_M: Final = 1e-3
"""m: largest motion of a point of a volume between two samples of the check, and accuracy of smallest distances."""
FINEST_M: Final = 2.5e-4
"""m: the same as `STEP_M` for surfaces that are always close to each other."""
CURVE_M: Final = 1e-4
"""Largest distance of a point from the line between two samples, a dt^2 / 8: 1e-4 m at 50 m/s^2."""


@dataclass(frozen=True, slots=True, eq=False)
class Encounter:
    """Two bodies, or a body and a wall, that must stay `required_m` apart.

    bodies      numbers of the two bodies; of the body and -1 for a wall
    names       "link5", "link2"; "link5", "floor"
    required_m  negative for guessed volumes that overlap in most positions: the overlap that is allowed. The motion
                then stays in the positions of least overlap, but the pair counts as unchecked
    by          "covers": the search keeps the covers apart. If they touch in every position, only the result is
                checked, by "hulls" of the shapes or, if these touch as well, by the true surfaces: "meshes"
    direction   (3,) inward normal of a wall in the root frame, and `offset` (m) of its plane along it
    parts       covers of the two bodies that the encounter compares; one cover of each body if guessed volumes overlap
                in most positions
    """

    bodies: tuple[int, int]
    names: tuple[str, str]
    required_m: float
    by: str = "covers"
    direction: Array | None = None
    offset: float = 0.0
    parts: tuple[slice, slice] = ALL

    @property
    def is_checked(self) -> bool:
        """Whether the required distance keeps the true bodies apart; False if it only limits the overlap of guessed
        volumes.
        """
        return self.required_m >= 0

    @property
    def resolution_m(self) -> float:
        """Step and resolution of the check, m: a quarter of the required distance for surfaces that are always
        close.
        """
        is_narrow = self.by == "meshes" and self.direction is None
        return max(min(STEP_M, self.required_m / 4), FINEST_M) if is_narrow else STEP_M

    @property
    def needed_m(self) -> float:
        """True distance, m, from which on the check, which may report smaller distances, reports at least the required
        one.
        """
        return self.required_m + 2 * self.resolution_m + CURVE_M


@dataclass(frozen=True, slots=True, eq=False)
class Encounters:
    """All encounters, and findings about pairs that are excluded or cannot be checked.

    constant     links whose distance does not depend on the joints, and this distance in m
    overlapping  pairs of links whose guessed volumes overlap in every position
    """

    bodies: Bodies
    checked: tuple[Encounter, ...]
    findings: tuple[Finding, ...]
    constant: tuple[tuple[tuple[str, str], float], ...] = ()
    overlapping: tuple[str, ...] = ()

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        """The findings, including one about pairs of guessed volumes that may overlap."""
        coarse = (" - ".join(encounter.names) for encounter in self.checked if not encounter.is_checked)
        names = tuple(dict.fromkeys((*coarse, *self.overlapping)))
        if not names:
            return self.findings
        kind, severity, sentence, remedy = LISTED["overlapping"]
        return (*self.findings, Finding(kind, severity, f"{sentence}: {list_names(names, 12)}", remedy, names))


@dataclass(frozen=True, slots=True, eq=False)
class Wall:
    """A plane in the root frame; all links stay on its inner side.

    bound  "given": the full distance is required; "near": at most half of the largest distance that a link reaches,
           for example for a floor close to the base; "guessed": the same, but links that are always beyond the wall are
           not checked
    """

    name: str
    direction: Array
    offset: float
    bound: Literal["given", "near", "guessed"] = "given"


def allow_overlap_at(encounters: Encounters, q: Array) -> Encounters:
    """Return encounters in which guessed volumes may overlap as much as at q (n,), where the robot is known to be free.

    Guessed volumes that overlap at q are larger than the links, so that their pairs count as unchecked.
    """
    bodies = encounters.bodies
    poses = bodies.poses(q[None])

    def allowed(encounter: Encounter) -> Encounter:
        is_guess = any(bodies.volumes[k].source.is_guess for k in encounter.bodies if k >= 0)
        if not is_guess or encounter.direction is not None or not bodies.volumes[encounter.bodies[1]].link:
            return encounter
        gap = float(gaps_of(bodies, encounter, poses, is_exact=True)[0])
        if encounter.is_checked and gap > 0:
            return encounter
        margin = encounter.needed_m - encounter.required_m
        return replace(encounter, required_m=min(encounter.required_m, gap - margin - STEP_M))

    return replace(encounters, checked=tuple(map(allowed, encounters.checked)))


def allow_distances_at(encounters: Encounters, q: Array, least_m: float) -> Encounters:
    """Return encounters for a path that begins at q (n,), where some bodies are nearer than the required distance.

    The path may come as near to these as q is, but not nearer than `least_m`; a finding lists them. If the hulls of two
    bodies are too near and their true surfaces are not, the surfaces are measured. The encounters themselves are
    returned if no distance at q is too small.
    """
    bodies, poses = encounters.bodies, encounters.bodies.poses(q[None])
    nearer: dict[Encounter, Encounter] = {}
    for encounter in encounters.checked:
        lowest = min(least_m, encounter.required_m)
        if not encounter.is_checked or gaps_of(bodies, encounter, poses, is_exact=True)[0] >= encounter.needed_m:
            continue
        finer = bodies.is_exact and encounter.direction is None
        for tried in (encounter, *([replace(encounter, by="meshes")] if finer else [])):
            gap = float(gaps_of(bodies, tried, poses, is_exact=True)[0])
            margin = tried.needed_m - tried.required_m
            if gap - margin >= lowest:
                required = min(tried.required_m, max(lowest, gap - margin - STEP_M))
                nearer[encounter] = replace(tried, required_m=required)
                break
    if not nearer:
        return encounters
    checked = tuple(nearer.get(encounter, encounter) for encounter in encounters.checked)
    named = [f"{' - '.join(allowed.names)} ({1e3 * allowed.required_m:.0f} mm)" for allowed in nearer.values()]
    finding = Finding(
        Kind.NEAR_HOME,
        Severity.WARNING,
        "home is nearer to these than the required distance; approach and return keep only the distance in brackets, "
        f"the motion the required one: {list_names(named, 12)}",
        "Give a home with larger distances, or watch the begin and the end of the rehearsal",
        tuple(" - ".join(encounter.names) for encounter in nearer),
    )
    return replace(encounters, checked=checked, findings=(*encounters.findings, finding))


def find_encounters(
    robot: Robot,
    volumes: Sequence[Volume],
    obstacles: Sequence[Volume],
    walls: Sequence[Wall],
    probes: Array,
    distance_m: float,
    *,
    self_collision: bool = True,
    tracking_error_m: float = 0.0,
) -> Encounters:
    """Return the encounters of a robot.

    probes            (N, n) random positions: two links must keep `distance_m`, but at most half of their largest
                      distance at these positions
    tracking_error_m  smallest required distance; pairs that can hardly keep it give a warning
    """
    bodies = Bodies(robot, (*volumes, *obstacles))
    finder = _Finder(robot, bodies, len(volumes), probes, distance_m)
    checked = [*(finder.between_links() if self_collision else []), *finder.with_obstacles(), *finder.with_walls(walls)]
    checked += finder.farthest(checked)
    kept = tuple(finder.keep_error(encounter, tracking_error_m) for encounter in checked)
    labels = {" - ".join(encounter.names) for encounter in kept}  # another part of the link may move
    finder.listed["unmoved"] = [label for label in finder.listed["unmoved"] if label not in labels]
    overlapping = tuple(finder.listed.pop("overlapping", ()))  # `all_findings` lists them with the coarse pairs
    return Encounters(bodies, kept, tuple(finder.findings()), tuple(finder.constant), overlapping)


LISTED: Final = {
    "narrow": (
        Kind.NARROW_PAIR,
        Severity.WARNING,
        "these can hardly be farther apart than the tracking error; they keep only the distance in brackets",
        "Track the path more closely than that, or watch them during the rehearsal",
    ),
    "adjacent": (Kind.UNCHECKED_PAIR, Severity.INFO, "adjacent links are not checked against each other", ""),
    "unmoved": (
        Kind.UNCHECKED_PAIR,
        Severity.INFO,
        "these distances do not depend on the joints and are not checked",
        "",
    ),
    "linked": (
        Kind.UNCHECKED_PAIR,
        Severity.WARNING,
        "links of one loop are not checked against each other, because the robot file has no geometry for them",
        "Add collision geometry to the robot file",
    ),
    "unchecked": (
        Kind.UNCHECKED_PAIR,
        Severity.WARNING,
        "these touch in every position and are not checked",
        "Add finer collision geometry to the robot file, or watch them during the rehearsal",
    ),
    "inexact": (
        Kind.INEXACT_PAIR,
        Severity.WARNING,
        "capsules around these touch in every position; only distances between their shapes, by coal, could be checked",
        "Install coal: {install}",
    ),
    "overlapping": (
        Kind.UNCHECKED_PAIR,
        Severity.WARNING,
        "guessed volumes of these overlap, so their distance is not checked; the motion only avoids positions in which "
        "they overlap more",
        "Add collision geometry to the robot file, or [[capsules]] to the limits file; watch them during the rehearsal",
    ),
}
"""Findings about pairs, by the name of their list."""


class _Finder:
    def __init__(self, robot: Robot, bodies: Bodies, count: int, probes: Array, distance_m: float) -> None:
        self.robot, self.bodies, self.count, self.distance_m = robot, bodies, count, distance_m
        self.poses = bodies.poses(probes)
        self.narrow: dict[str, float] = {}
        self.listed: defaultdict[str, list[str]] = defaultdict(list)
        self.constant: list[tuple[tuple[str, str], float]] = []
        self.coarse: list[tuple[Encounter, Array]] = []

    def name(self, body: int) -> str:
        volume = self.bodies.volumes[body]
        return volume.link or f"obstacle {body - self.count + 1}"

    def between_links(self) -> list[Encounter]:
        joined = {frozenset((joint.parent, joint.child)) for joint in self.robot.joints}
        joined |= {frozenset((loop.first, loop.second)) for loop in self.robot.loops}
        linkages = (
            [] if is_affine(self.robot) else [set(sum(branches(self.robot, ring), ())) for ring in self.robot.loops]
        )
        pairs = []
        for i, j in combinations(range(self.count), 2):
            label = f"{self.name(i)} - {self.name(j)}"
            if self.name(i) == self.name(j):
                continue
            if frozenset((self.name(i), self.name(j))) in joined:
                self.listed["adjacent"].append(label)
            elif any(
                {self.bodies.links[i], self.bodies.links[j]} <= linkage for linkage in linkages
            ) and not self.is_real(i, j):
                self.listed["linked"].append(label)
            else:
                pairs += self.between(i, j, label)
        return pairs

    def farthest(self, others: Sequence[Encounter]) -> list[Encounter]:
        """Return encounters that keep guessed volumes in the positions at which all coarse pairs overlap least."""
        if not self.coarse:
            return []
        is_free = np.ones(len(self.poses), dtype=bool)
        for other in others:
            if other.by == "covers":
                is_free &= gaps_of(self.bodies, other, self.poses) >= other.needed_m
        ranks = [
            np.where(apart > encounter.required_m, 1.0, np.searchsorted(np.sort(apart), apart, "right") / len(apart))
            for encounter, apart in self.coarse
        ]
        lowest = np.min(ranks, axis=0)[is_free if is_free.any() else slice(None)]
        level = min(1 - LEAST_OVERLAPPING, float(np.quantile(lowest, 1 - LEAST_ROOM)))
        return [
            replace(encounter, required_m=min(encounter.required_m, float(np.quantile(apart, level)) - 3 * STEP_M))
            for encounter, apart in self.coarse
        ]

    def divide(self, whole: Encounter) -> Iterator[tuple[Encounter, Array]]:
        """Yield the encounters between all guessed capsules of two links, with their distances.

        If the overlap of the thickest capsules were allowed for all, thinner capsules could pass through each other.
        """
        volumes = [self.bodies.volumes[k] for k in whole.bodies]
        numbers = [
            [slice(k, k + 1) for k in range(len(v.covers))] if v.source.is_guess else [slice(None)] for v in volumes
        ]
        for first, second in product(*numbers):
            apart = cover_gaps(self.bodies, whole.bodies, self.poses, (first, second))
            if np.ptp(apart) >= UNMOVED_M:
                required = min(self.distance_m, max(float(apart.max()) / 2, 0.0))
                yield replace(whole, required_m=required, parts=(first, second)), apart

    def is_real(self, *bodies: int) -> bool:
        real = (VolumeSource.COLLISION, VolumeSource.VISUAL)
        return all(self.bodies.volumes[k].source in real for k in bodies)

    def has_surfaces(self, *bodies: int) -> bool:
        return any(solid.surface is not None for k in bodies for solid in self.bodies.volumes[k].solids)

    def is_guess(self, *bodies: int) -> bool:
        return any(self.bodies.volumes[k].source.is_guess for k in bodies)

    def between(self, i: int, j: int, label: str) -> list[Encounter]:
        """Return the encounter of two links; None if the links cannot come closer to each other, or always touch."""
        names = (self.name(i), self.name(j))
        apart = cover_gaps(self.bodies, (i, j), self.poses)
        gap = self.constant_gap(i, j, apart)
        if gap is not None:
            if gap > 0:
                self.constant.append((names, gap))
            else:
                self.listed["overlapping" if self.is_guess(i, j) else "unmoved"].append(label)
            return []
        required = min(self.distance_m, float(apart.max()) / 2)
        if self.is_guess(i, j) and (apart.max() <= LEAST_M or np.mean(apart > required) < OFTEN_APART):
            self.coarse += self.divide(Encounter((i, j), names, required))
            return []
        if apart.max() > LEAST_M:
            return [Encounter((i, j), names, required)]
        if self.bodies.is_exact:
            for by, least, often in (("hulls", LEAST_M, OFTEN_APART), ("meshes", TOUCHING_M, 0.0)):
                apart_by = self.bodies.distances((i, j), self.poses, surfaces=by == "meshes")
                required = min(self.distance_m, float(apart_by.max()) / 2)
                if apart_by.max() > least and np.mean(apart_by > required) >= often:
                    return [Encounter((i, j), names, required, by)]
            if apart_by.max() > UNMOVED_EXACT_M and not self.has_surfaces(i, j):
                return [Encounter((i, j), names, required, by)]  # solids that overlap more or less, and can be apart
        self.listed["unchecked" if self.bodies.is_exact else "inexact"].append(label)
        return []

    def constant_gap(self, i: int, j: int, apart: Array) -> float | None:
        """Return the distance of two links if it does not depend on the joints, otherwise None.

        `apart` is the distance of their covers.

        Covers around a common axis keep their distance while the shapes inside rotate, so that the shapes are measured
        too.
        """
        if np.ptp(apart) >= UNMOVED_M:
            return None
        if not self.bodies.is_exact:
            return float(apart.min())
        exact = self.bodies.distances((i, j), self.poses[:CONSTANT_PROBES])
        return float(exact.min()) - UNMOVED_EXACT_M if np.ptp(exact) < UNMOVED_EXACT_M else None

    def moving(self) -> list[int]:
        return [k for k in range(self.count) if self.bodies.links[k] >= 0]

    def with_obstacles(self) -> list[Encounter]:
        others = range(self.count, len(self.bodies.volumes))
        pairs = []
        for i, j in product(self.moving(), others):
            names = (self.name(i), self.name(j))
            apart = cover_gaps(self.bodies, (i, j), self.poses)
            if self.constant_gap(i, j, apart) is not None:
                self.listed["unmoved"].append(" - ".join(names))
            else:
                by = "hulls" if np.ptp(apart) < UNMOVED_M and apart.max() < self.distance_m else "covers"
                pairs.append(Encounter((i, j), names, self.distance_m, by))
        return pairs

    def with_walls(self, walls: Sequence[Wall]) -> list[Encounter]:
        pairs = []
        for wall in walls:
            for i in self.moving():
                heights = self.bodies.heights(i, self.poses, wall.direction) - wall.offset
                label = f"{self.name(i)} - {wall.name}"
                if np.ptp(heights) < UNMOVED_M:
                    self.listed["unmoved"].append(label)
                    continue
                if wall.bound == "guessed" and heights.max() <= LEAST_M:
                    self.listed["unchecked"].append(label)
                    continue
                covers = self.bodies.heights(i, self.poses, wall.direction, covers=True) - wall.offset
                highest = float(covers.max())
                by = "covers" if highest > LEAST_M else "meshes"
                reached = highest if by == "covers" else float(heights.max())
                if wall.bound == "given" or reached <= LEAST_M:
                    by, required = "covers", self.distance_m
                else:
                    required = min(self.distance_m, reached / 2)
                pairs.append(Encounter((i, -1), (self.name(i), wall.name), required, by, wall.direction, wall.offset))
        return pairs

    def keep_error(self, encounter: Encounter, error_m: float) -> Encounter:
        """Return the encounter with a required distance of at least the tracking error, if the pair can keep it often
        enough.
        """
        if encounter.required_m >= error_m:
            return encounter
        apart = gaps_of(self.bodies, encounter, self.poses)
        if np.mean(apart > error_m + LEAST_M) >= OFTEN_APART:
            return replace(encounter, required_m=error_m)
        if not encounter.is_checked:
            return encounter
        label = " - ".join(encounter.names)
        self.narrow[label] = min(encounter.required_m, self.narrow.get(label, np.inf))
        return encounter

    def findings(self) -> list[Finding]:
        self.listed["narrow"] = [f"{label} ({1e3 * least_m:.0f} mm)" for label, least_m in self.narrow.items()]
        return [
            Finding(kind, severity, f"{sentence}: {list_names(names, 12)}", _complete_remedy(remedy), names)
            for key, (kind, severity, sentence, remedy) in LISTED.items()
            if (names := tuple(dict.fromkeys(self.listed[key])))
        ]


def _complete_remedy(remedy: str) -> str:
    """Return a remedy with the command that installs coal, which takes time to find, only where it is needed."""
    return remedy.format(install=install_command("collision")) if "{install}" in remedy else remedy


def gaps_of(bodies: Bodies, encounter: Encounter, poses: Array, *, is_exact: bool = False) -> Array:
    """Return the distance (N,) of an encounter at poses (N, bodies, 4, 3), measured as in the search or, if exact, as
    in the check.
    """
    if encounter.direction is not None:
        return np.asarray(bodies.heights(encounter.bodies[0], poses, encounter.direction) - encounter.offset)
    if encounter.by == "covers" and not (is_exact and bodies.is_exact):
        return cover_gaps(bodies, encounter.bodies, poses, encounter.parts)
    return bodies.distances(encounter.bodies, poses, surfaces=encounter.by == "meshes", parts=encounter.parts)


def cover_gaps(bodies: Bodies, pair: tuple[int, int], poses: Array, parts: tuple[slice, slice] = ALL) -> Array:
    """Return for each pose (N,) the smallest distance between the covers of two bodies, or between some of their
    covers.
    """
    placed = [
        [(capsule_ends(cover, poses[:, k]), cover.radius) for cover in bodies.volumes[k].covers[part]]
        for k, part in zip(pair, parts, strict=True)
    ]
    both = list(product(*placed))
    ends = [np.concatenate([first, second], axis=1) for (first, _), (second, _) in both]
    reach = [radius + other for (_, radius), (_, other) in both]
    return np.asarray((nearest(np.stack(ends, axis=1)).distance - reach).min(axis=1))


def capsule_ends(capsule: Capsule, pose: Array) -> Array:
    """Return the ends (N, 2, 3) of a capsule in the root frame."""
    return np.asarray(pose[:, :1] + np.stack([capsule.a, capsule.b]) @ pose[:, 1:])
