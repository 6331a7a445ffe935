"""`check_path`: compute lower bounds of all distances along a path, and the largest speed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import list_names
from mindyn.foundation.findings import Finding, Kind, Severity
from mindyn.foundation.pages.document import format_plural
from mindyn.motions.excitation.body_pairs import CURVE_M, STEP_M, Encounter, Encounters, gaps_of
from mindyn.motions.excitation.collision_shapes import Bodies

CHECK_HZ: Final = 250.0
"""Hz: rate at which a motion is sampled; steps that are too long are divided."""
CHUNK: Final = 8000
"""Number of samples that are in memory at once."""
MOST_PARTS: Final = 10_000
"""Largest number of parts into which one step of a path is divided."""


@dataclass(frozen=True, slots=True)
class Distance:
    """Lower bound of the smallest distance of one encounter along a path.

    by  "meshes", "hulls" (convex hulls of the shapes), "covers" (capsules around them) or "guesses"
    """

    first: str
    second: str
    distance_m: float
    required_m: float
    by: str

    @property
    def label(self) -> str:
        """Return the names of the pair."""
        return f"{self.first} - {self.second}"


@dataclass(frozen=True, slots=True, eq=False)
class PathCheck:
    """Result of the check of one or more paths.

    distances  smallest distance of every pair, except pairs whose guessed volumes overlap
    speed      largest speed of any point of any volume, m/s, with its link; 0 if the path has no times
    links      number of moving links with a volume, and of all moving links
    against    "floor", "each other", "2 obstacles"
    """

    distances: tuple[Distance, ...]
    speed: float
    fastest: str
    links: tuple[int, int]
    against: tuple[str, ...]
    findings: tuple[Finding, ...] = field(default=())

    @property
    def closest(self) -> Distance | None:
        """Return the smallest distance."""
        return min(self.distances, key=lambda gap: gap.distance_m, default=None)

    @property
    def headline(self) -> str:
        """Return a sentence on what was checked, and the smallest distance."""
        checked, whole = self.links
        message = f"Checked {checked} of {whole} links against {', '.join(self.against)}"
        message = message if self.against else f"Checked no distance of {whole} links: none requested, or none changes"
        if self.closest is not None:
            kinds = ", ".join(sorted({distance.by for distance in self.distances}))
            message += f"; smallest distance {1e3 * self.closest.distance_m:.0f} mm ({self.closest.label}), by {kinds}"
        unchecked = self.unchecked
        if unchecked:
            message += f"; {format_plural(len(unchecked), 'pair')} of links not checked: {list_names(unchecked, 4)}"
        inexact = sum(len(finding.joints) for finding in self.findings if finding.kind is Kind.INEXACT_PAIR)
        if inexact:
            message += f"; {format_plural(inexact, 'more pair')} can be checked with mindyn[collision]"
        return message

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Return the pairs of links that can touch and are not checked."""
        named = (
            name
            for finding in self.findings
            if finding.kind in (Kind.UNCHECKED_PAIR, Kind.INEXACT_PAIR) and finding.severity is Severity.WARNING
            for name in finding.joints
        )
        return tuple(dict.fromkeys(named))

    def lines(self, speed: float = 1.0) -> list[str]:
        """Return the smallest distances and the largest speed, for comments of a file at a fraction of the speed."""
        lines = [f"{gap.label}: {gap.distance_m:.3f} m, {gap.required_m:.3f} m required" for gap in self.distances[:5]]
        return [*lines, f"largest speed of any point: {speed * self.speed:.3f} m/s ({self.fastest or 'none moves'})"]

    def to_dict(self) -> dict[str, Any]:
        """Return the check in types that JSON can store."""
        return {
            "headline": self.headline,
            "links_checked": self.links[0],
            "links": self.links[1],
            "against": list(self.against),
            "speed": self.speed,
            "fastest": self.fastest,
            "distances": [asdict(distance) for distance in self.distances],
            "findings": [finding.to_dict() for finding in self.findings],
        }


def check_path(encounters: Encounters, paths: Sequence[tuple[Array, Array | None]], unknown: int) -> PathCheck:
    """Check paths: positions (N, n) that are joined by straight lines, with their times (N,) or None.

    unknown  number of moving links without a volume

    Between two samples, a body moves at most as far as the fastest corner of its box. A distance therefore decreases at
    most by the motion of one body's corners relative to the other body. This bound is subtracted from the reported
    distance.
    """
    least = np.full(len(encounters.checked), np.inf)
    step_m = min((one.resolution_m for one in encounters.checked), default=STEP_M)
    speed, fastest = 0.0, ""
    for q, t in paths:
        for piece in _chunks(q, encounters.bodies, step_m):
            least = _least(encounters, piece, least)
        if t is not None:
            speeds = _speeds(encounters.bodies, q, t)
            k = int(speeds.argmax())
            if speeds[k] > speed:
                speed, fastest = float(speeds[k]), encounters.bodies.volumes[k].link
    coarse = {encounter.bodies for encounter in encounters.checked if not encounter.is_checked}
    measured = [
        (encounter, Distance(*encounter.names, float(gap), encounter.required_m, _by(encounters.bodies, encounter)))
        for encounter, gap in zip(encounters.checked, least, strict=True)
    ]
    by = "hulls" if encounters.bodies.is_exact else "covers"
    constant = [Distance(*names, gap, 0.0, by) for names, gap in encounters.constant]
    violated = [
        Finding(
            Kind.DISTANCE_VIOLATED,
            Severity.ERROR,
            _describe_violation(pair),
            "Lower --clearance, move the obstacle, or try another --seed",
            (pair.first, pair.second),
            pair.distance_m,
            "m",
        )
        for pair in (*(distance for _, distance in measured), *constant)
        if pair.distance_m < pair.required_m
    ]
    known = [distance for encounter, distance in measured if encounter.bodies not in coarse]
    smallest: dict[str, Distance] = {}  # a link may have several volumes
    for gap in (*known, *constant):
        smallest[gap.label] = min(gap, smallest.get(gap.label, gap), key=lambda gap: gap.distance_m)
    moving = len({number for number in encounters.bodies.links if number >= 0})
    links = (moving, moving + unknown)
    return PathCheck(
        tuple(smallest.values()), speed, fastest, links, _against(encounters), (*violated, *encounters.all_findings)
    )


def _describe_violation(pair: Distance) -> str:
    if pair.required_m < 0:
        return (
            f"{pair.label}: guessed volumes overlap by {-1e3 * pair.distance_m:.0f} mm; in many positions they overlap "
            f"by {-1e3 * pair.required_m:.0f} mm or less"
        )
    return f"{pair.label}: {1e3 * pair.distance_m:.0f} mm apart, but {1e3 * pair.required_m:.0f} mm are required"


def _by(bodies: Bodies, encounter: Encounter) -> str:
    if any(bodies.volumes[k].source.is_guess for k in encounter.bodies if k >= 0):
        return "guesses"
    if encounter.bodies[1] < 0 or encounter.by == "hulls":
        return "hulls"
    return "covers" if not bodies.is_exact else "meshes" if encounter.by == "meshes" else "hulls"


def _against(encounters: Encounters) -> tuple[str, ...]:
    walls = list(dict.fromkeys(encounter.names[1] for encounter in encounters.checked if encounter.bodies[1] < 0))
    bodies = encounters.bodies.volumes
    count = sum(not body.link for body in bodies)
    links = any(pair.is_checked and pair.bodies[1] >= 0 and bodies[pair.bodies[1]].link for pair in encounters.checked)
    return (*walls, *(["each other"] if links else []), *([format_plural(count, "obstacle")] if count else []))


def _chunks(q: Array, bodies: Bodies, step_m: float) -> Iterator[Array]:
    """Yield pieces of the path with steps of at most `step_m`; each piece begins where the previous one ended."""
    for first in range(0, max(len(q) - 1, 1), CHUNK):
        rows = q[first : first + CHUNK + 1]
        if len(rows) == 1:
            yield rows
            continue
        for _ in range(3):  # chords of long steps are shorter than the way
            steps = np.linalg.norm(np.diff(bodies.corners(rows), axis=0), axis=-1).max(axis=(1, 2))
            parts = np.clip(np.ceil(steps / step_m), 1, MOST_PARTS).astype(int)
            if (parts == 1).all():
                break
            rows = _subdivide(rows, parts)
        for start in range(0, len(rows) - 1, CHUNK):
            yield rows[start : start + CHUNK + 1]


def _subdivide(q: Array, parts: NDArray[np.int64]) -> Array:
    """Divide each step into `parts` equal steps."""
    step = np.repeat(np.arange(len(parts)), parts)
    share = (np.arange(len(step)) - np.repeat(np.cumsum(parts) - parts, parts)) / parts[step]
    return np.vstack([q[step] + share[:, None] * (q[step + 1] - q[step]), q[-1:]])


def _least(encounters: Encounters, q: Array, so_far: Array) -> Array:
    """Return the lower bound of every encounter's distance along one piece and the pieces before it."""
    bodies = encounters.bodies
    poses, corners = bodies.poses(q), bodies.corners(q)
    least = so_far.copy()
    for number, encounter in enumerate(encounters.checked):
        i, j = encounter.bodies
        steps = _steps(corners[:, i]) if j < 0 else relative_steps(poses, corners, i, j)
        loss = float(steps.max(initial=0.0)) / 2 + CURVE_M
        if encounter.direction is not None or not bodies.is_exact:
            distance = float(gaps_of(bodies, encounter, poses).min())
        else:
            loss += encounter.resolution_m
            distance = _smallest(bodies, encounter, poses, steps, so_far[number] + loss)
        least[number] = min(least[number], distance - loss)
    return least


def _steps(corners: Array) -> Array:
    """Return for each step (N - 1,) the distance that the fastest corner of (N, 8, 3) moves."""
    x, y, z = np.moveaxis(np.diff(corners, axis=0), -1, 0)
    return np.asarray(np.sqrt((x**2 + y**2 + z**2).max(axis=1)))


def relative_steps(poses: Array, corners: Array, i: int, j: int) -> Array:
    """Return for each step (N - 1,) a bound on the change of the distance of two bodies: the smallest bound of three
    frames.

    Two bodies that rotate together keep their distance: in the frame of one body, the other one does not move. For
    bodies that rotate while they are far apart, the bound in the root frame is smallest.
    """
    steps = [_steps(corners[:, i]) + _steps(corners[:, j])]
    for frame, body in ((i, j), (j, i)):
        steps.append(_steps((corners[:, body] - poses[:, frame, :1]) @ poses[:, frame, 1:].swapaxes(1, 2)))
    return np.asarray(np.min(steps, axis=0))


def _smallest(bodies: Bodies, encounter: Encounter, poses: Array, steps: Array, best: float) -> float:
    """Return the smallest distance at the samples, or `best` if that is smaller.

    Samples that cannot be closer are skipped.
    """
    way = np.concatenate([[0.0], np.cumsum(steps)])
    k = 0
    while k < len(way):
        gap = float(gaps_of(bodies, encounter, poses[k : k + 1], is_exact=True)[0])
        best = min(best, gap)
        k = max(k + 1, int(np.searchsorted(way, way[k] + gap - best + encounter.resolution_m, side="right")))
    return best


def _speeds(bodies: Bodies, q: Array, t: Array) -> Array:
    """Return for each body the largest speed (m/s) of any of its corners."""
    speeds = np.zeros(len(bodies.volumes))
    for first in range(0, len(q) - 1, CHUNK):
        rows = slice(first, first + CHUNK + 1)
        steps = np.linalg.norm(np.diff(bodies.corners(q[rows]), axis=0), axis=-1).max(axis=2)
        speeds = np.maximum(speeds, (steps / np.diff(t[rows])[:, None]).max(axis=0))
    return speeds
