"""Check a written motion file against the robot's original file: floor, links, limits. Shares no code with mindyn."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import coal
import numpy as np
from oracles.collision_scene import Scene, Shape

RATE_HZ = 250.0
"""Between these samples a point that accelerates with 20 m/s^2 leaves its chord by 40 um."""
FAR_M = 0.15
"""Distances between links are not measured beyond this."""
TOLERANCE_M = 1e-4
"""Between reported and measured distances: samples of both are a few milliseconds apart."""
PROBES = 200
"""Random positions that show which heights can change and which pairs always touch."""
FIXED_HEIGHT_M = 1e-4
CONTACT_M = 0.0
"""Bodies that no random position brings farther apart are in contact by design,"""
CONSTANT_M = 1e-9
"""and so are bodies that touch if their distance at all random positions differs by rounding errors only."""


@dataclass(frozen=True)
class Motion:
    """Samples of a motion file: time (N,) and position, velocity, acceleration (N,) of each joint that it names."""

    t: np.ndarray
    q: Mapping[str, np.ndarray]
    qd: Mapping[str, np.ndarray]
    qdd: Mapping[str, np.ndarray]

    def refine(self, rate_hz: float) -> dict[str, np.ndarray]:
        """Return positions at a higher rate, by cubic Hermite interpolation of positions and velocities."""
        parts = max(1, int(np.ceil(np.diff(self.t).max() * rate_hz - 1e-6)))
        s = np.arange(parts)[:, None] / parts
        h = np.diff(self.t)
        basis = (1 + 2 * s) * (1 - s) ** 2, s * (1 - s) ** 2, s**2 * (3 - 2 * s), s**2 * (s - 1)
        fine = {}
        for name, x in self.q.items():
            v = self.qd[name]
            rows = basis[0] * x[:-1] + basis[1] * h * v[:-1] + basis[2] * x[1:] + basis[3] * h * v[1:]
            fine[name] = np.append(rows.T.ravel(), x[-1])
        return fine


def read_motion(path: Path) -> Motion:
    """Read a CSV file with columns time, JOINT.position, JOINT.velocity, JOINT.acceleration; # starts a comment."""
    with path.open(newline="") as lines:
        rows = csv.reader(line for line in lines if not line.startswith("#"))
        header = next(rows)
        values = np.array([[float(x) for x in row] for row in rows])
    kinds: dict[str, dict[str, np.ndarray]] = {"position": {}, "velocity": {}, "acceleration": {}}
    for name, column in zip(header, values.T, strict=True):
        joint, _, kind = name.rpartition(".")
        if kind in kinds:
            kinds[kind][joint] = column
    return Motion(values[:, header.index("time")], *kinds.values())


@dataclass(frozen=True)
class MotionCheck:
    """Smallest distances of a motion in m, and the largest fraction of each limit that it takes."""

    floor: Mapping[str, float]
    pairs: Mapping[str, float]
    always_touching: tuple[str, ...]
    limits: Mapping[str, float]
    source: str

    @property
    def smallest(self) -> tuple[float, str]:
        """Return the smallest distance and what it separates."""
        distances = {f"{name} - floor": value for name, value in self.floor.items()} | {**self.pairs}
        if not distances:
            return np.inf, "nothing"
        name = min(distances, key=lambda key: distances[key])
        return distances[name], name

    @property
    def is_safe(self) -> bool:
        return self.smallest[0] > 0 and max(self.limits.values(), default=0.0) <= 1 + 1e-6

    def find_overstated(self, distances: Iterable[Mapping[str, Any]]) -> dict[str, tuple[float | None, float]]:
        """Return what mindyn reports larger than it is, as (reported, measured) in m.

        A pair that mindyn does not report counts if it is nearer than the smallest distance that mindyn reports.
        """
        measured = {frozenset((name, "floor")): value for name, value in self.floor.items()}
        measured |= {frozenset(name.split(" - ")): value for name, value in self.pairs.items()}
        bodies = {name for pair in measured for name in pair}
        reported: dict[frozenset[str], float] = {}
        for entry in distances:
            pair = frozenset(name if name in bodies else "world" for name in (entry["first"], entry["second"]))
            reported[pair] = min(reported.get(pair, np.inf), entry["distance_m"])
        smallest = min(reported.values(), default=0.0)
        return {
            " - ".join(sorted(pair)): (reported.get(pair), round(value, 5))
            for pair, value in measured.items()
            if value < FAR_M and reported.get(pair, smallest) > value + TOLERANCE_M
        }


def check_motion(scene: Scene, motion: Motion, *, floor_m: float | None = 0.0) -> MotionCheck:
    """Return the smallest distances over the whole motion, between bodies that are not adjacent and to the floor."""
    unknown = {*motion.q} - {*scene.joints}
    if unknown:
        raise ValueError(f"the robot file has no joint {', '.join(sorted(unknown))}")
    fine = scene.complete(motion.refine(RATE_HZ))
    moving = {*motion.q} | ({*scene.joints} if scene.closures else set())
    clusters = scene.clusters(moving)
    placed = _place_shapes(scene, fine)
    probes = _place_shapes(scene, _probe(scene, motion, PROBES))
    pairs, always = {}, []
    floor = {} if floor_m is None else _floor_distances(scene, clusters, placed, probes, floor_m)
    for name in [name for name, (_, highest) in floor.items() if highest <= CONTACT_M]:
        always.append(f"{name} - floor")
        floor.pop(name)
    for (a, b), shapes in _pairs_to_check(scene, clusters).items():
        name = f"{scene.body_names[a]} - {scene.body_names[b]}"
        distance = smallest_distance(scene.shapes, shapes, placed)
        if distance <= 0 and _touch_by_design(scene.shapes, shapes, probes):
            always.append(name)
        else:
            pairs[name] = distance
    heights = {name: lowest for name, (lowest, _) in floor.items()}
    return MotionCheck(heights, pairs, tuple(always), _used_limits(scene, motion), scene.source(moving))


Placed = list[tuple[np.ndarray, np.ndarray]]
"""For each shape, rotations (N, 3, 3) and positions (N, 3)."""


def _place_shapes(scene: Scene, q: Mapping[str, np.ndarray]) -> Placed:
    R, p = scene.place(q)
    return [(R[:, shape.body] @ shape.R, p[:, shape.body] + R[:, shape.body] @ shape.p) for shape in scene.shapes]


def _probe(scene: Scene, motion: Motion, count: int) -> dict[str, np.ndarray]:
    """Return random positions within the limits; in a loop, positions of the motion itself, which close it."""
    if scene.closures:
        rows = np.linspace(0, len(motion.t) - 1, count).astype(int)
        return scene.complete({name: x[rows] for name, x in motion.q.items()})
    rng = np.random.default_rng(0)
    ends = {name: (scene.limits[name]["lower"], scene.limits[name]["upper"]) for name in motion.q}
    ends = {name: np.clip(pair if pair[0] < pair[1] else (-np.pi, np.pi), -np.pi, np.pi) for name, pair in ends.items()}
    return scene.complete({name: rng.uniform(*pair, count) for name, pair in ends.items()})


def _floor_distances(scene: Scene, clusters: list[int], placed: Placed, probes: Placed, floor_m: float) -> dict:
    """Return the smallest distance of each moving body to the floor, and the largest at random positions.

    Bodies whose height no joint changes are left out.
    """
    lowest: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
    for shape, here, there in zip(scene.shapes, placed, probes, strict=True):
        if clusters[shape.body]:
            lowest.setdefault(clusters[shape.body], []).append((shape.lowest(*here), shape.lowest(*there)))
    distances = {}
    for body, heights in lowest.items():
        here, there = (np.min(rows, axis=0) for rows in zip(*heights, strict=True))
        if np.ptp(np.concatenate([here, there])) > FIXED_HEIGHT_M:
            distances[scene.body_names[body]] = float(here.min() - floor_m), float(there.max() - floor_m)
    return distances


def _pairs_to_check(scene: Scene, clusters: list[int]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Return the shape pairs of each pair of bodies that no joint and no loop closure connects."""
    adjacent = {frozenset((clusters[body], clusters[parent])) for body, parent in enumerate(scene.parents)}
    adjacent |= {frozenset(clusters[body] for body in pair) for pair in scene.closures}
    pairs: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for i, j in combinations(range(len(scene.shapes)), 2):
        a, b = sorted((clusters[scene.shapes[i].body], clusters[scene.shapes[j].body]))
        if a != b and frozenset((a, b)) not in adjacent:
            pairs.setdefault((a, b), []).append((i, j))
    return pairs


def smallest_distance(shapes: tuple[Shape, ...], pairs: list[tuple[int, int]], placed: Placed) -> float:
    """Return the smallest distance over all samples and pairs, at most `FAR_M`, by branch and bound.

    A distance changes by at most the displacement of the one shape in the frame of the other, so that each distance
    bounds its neighbours from below. Samples whose bound exceeds the smallest distance are not evaluated; of the
    others, hulls are measured before meshes.
    """
    best = FAR_M
    for i, j in sorted(pairs, key=lambda pair: _sphere_bounds(shapes, pair, placed)[0].min()):
        if shapes[i].radius < shapes[j].radius:
            i, j = j, i
        bounds, centre, turn = _sphere_bounds(shapes, (i, j), placed)
        a, b = shapes[i], shapes[j]
        while bounds.min() < best:
            k = int(bounds.argmin())
            pose = [part[k] for part in (*placed[i], *placed[j])]
            distance = measure(a.hull, b.hull, *pose)
            if distance < best and (a.hull is not a.solid or b.hull is not b.solid):
                distance = measure(a.solid, b.solid, *pose, best)
            best = min(best, distance)
            if distance <= 0 and a.hull is not a.solid and b.hull is not b.solid:
                break  # two triangle meshes have no depth
            angle = np.sqrt(np.maximum(0, 3 - np.einsum("nij,ij->n", turn, turn[k])))
            moved = np.linalg.norm(centre - centre[k], axis=1) + angle * b.radius
            bounds = np.maximum(bounds, distance - moved)
            bounds[k] = np.inf
    return best


def _sphere_bounds(shapes: tuple[Shape, ...], pair: tuple[int, int], placed: Placed) -> tuple[np.ndarray, ...]:
    """Return distances of bounding spheres (N,), and the second shape's centre and rotation in the first's frame."""
    i, j = pair
    (Ri, pi), (Rj, pj) = placed[i], placed[j]
    centre = np.einsum("nji,nj->ni", Ri, pj + Rj @ shapes[j].centre - pi)
    turn = np.einsum("nji,njk->nik", Ri, Rj)
    return np.linalg.norm(centre - shapes[i].centre, axis=1) - shapes[i].radius - shapes[j].radius, centre, turn


def measure(
    a: coal.CollisionGeometry,
    b: coal.CollisionGeometry,
    Ra: np.ndarray,
    pa: np.ndarray,
    Rb: np.ndarray,
    pb: np.ndarray,
    enough: float = np.inf,
) -> float:
    """Return the distance by coal, at most `enough`; at most zero if the solids touch."""
    request, result = coal.DistanceRequest(), coal.DistanceResult()
    if np.isfinite(enough):
        result.min_distance = enough
    coal.distance(a, coal.Transform3s(Ra, pa), b, coal.Transform3s(Rb, pb), request, result)
    return min(float(result.min_distance), enough)


def _touch_by_design(shapes: tuple[Shape, ...], pairs: list[tuple[int, int]], probes: Placed) -> bool:
    """Return whether bodies that touch do so at all random positions, or keep one distance at all of them."""
    distances = [
        min(
            measure(shapes[i].solid, shapes[j].solid, *(part[k] for part in (*probes[i], *probes[j]))) for i, j in pairs
        )
        for k in range(len(probes[0][0]))
    ]
    return max(distances) <= CONTACT_M or float(np.ptp(distances)) < CONSTANT_M


def _used_limits(scene: Scene, motion: Motion) -> dict[str, float]:
    """Return the largest fraction of position, velocity and torque limits of the file; 1 is at the limit."""
    used: dict[str, float] = {}
    for name, x in motion.q.items():
        limit = scene.limits[name]
        lower, upper = limit["lower"], limit["upper"]
        if np.isfinite([lower, upper]).all() and upper > lower:
            fraction = np.abs(2 * x - lower - upper).max() / (upper - lower)
            used["position"] = max(used.get("position", 0.0), float(fraction))
        if limit.get("velocity", 0.0) > 0:
            fraction = np.abs(motion.qd[name]).max() / limit["velocity"]
            used["velocity"] = max(used.get("velocity", 0.0), float(fraction))
    if scene.torques is not None:
        rest = {name: np.zeros(len(motion.t)) for name in scene.joints}
        tau = scene.torques(scene.complete(motion.q), rest | {**motion.qd}, rest | {**motion.qdd})
        for name in motion.q:
            if scene.limits[name].get("effort", 0.0) > 0:
                fraction = np.abs(tau[name]).max() / scene.limits[name]["effort"]
                used["torque"] = max(used.get("torque", 0.0), float(fraction))
    return used
