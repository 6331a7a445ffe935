"""`volumes_of`: volumes of all links, from the best source in the robot's file.

`Capsule`: a segment with a radius, fixed to a link, and the smallest capsules around given solids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.inertia import mass_com_inertia, transform_phi
from mindyn.foundation.algebra.requirements import require_number
from mindyn.foundation.algebra.rotations import frame_along, rotation_about_axis
from mindyn.foundation.algebra.values import Array, ShortRepr, Value, frozen_array
from mindyn.foundation.errors import list_names
from mindyn.foundation.findings import Finding, Kind, warning
from mindyn.robots.link_solids import Geometry, Solid, VolumeSource, locate_file_link, mesh_solid, read_geometry
from mindyn.robots.mesh_files import Triangles
from mindyn.robots.robot import Robot

MOST_COVERS: Final = 3
"""Largest number of capsules of one link, because the search compares all pairs of capsules at every instant."""
SPLIT_GAIN: Final = 0.8
"""Another capsule is used if it reduces the total volume below this fraction."""
DESCENT_STEPS: Final = 150
"""Number of evaluations that improve the axis of a capsule."""
MARGIN_M: Final = 1e-6
"""m: value that is added to every radius because of rounding."""
ENLARGED: Final = 1.05
"""Factor by which the capsule around a uniform box of the same inertia is enlarged, so that it contains every uniform
box and cylinder.
"""
THINNEST_M: Final = 0.005
"""Smallest radius of a guessed volume."""
RADIUS_PART: Final = 0.05
"""Radius of capsules that are guessed between joint frames, as a fraction of the sum of all joint distances."""
RADIUS_OF_LENGTH: Final = 0.5
"""Largest radius of such a capsule, as a fraction of its own length."""
PAYLOAD_RADIUS_M: Final = 0.1
"""Radius of the ball around the flange that represents a payload without a description."""


@dataclass(frozen=True, slots=True, eq=False)
class Capsule(Value):
    """All points within a radius of a segment, in the frame of a link.

    Parameters
    ----------
    link : str
        Name of a link. The name of the root, or "", is an obstacle that does not move.
    a, b : array_like, shape (3,)
        Ends of the segment, in m; a sphere if they are equal.
    radius : float
        In m.

    Raises
    ------
    InputError
        If an end is not three numbers, or the radius is not positive.
    """

    link: str
    a: Array
    b: Array
    radius: float

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            object.__setattr__(self, name, frozen_array(getattr(self, name), (3,), f"end {name} of a capsule"))
        require_number(self.radius, "radius", "(0, inf)", "the radius of a capsule in metres")

    @property
    def solid(self) -> Solid:
        """The capsule as the hull of its ends, swept by its radius."""
        return Solid(np.array([self.a, self.b] if (self.a != self.b).any() else [self.a]), self.radius)


@dataclass(frozen=True, slots=True, eq=False)
class _Balls:
    """Balls (V, 3), (V,) of pieces (V,) of solids (V,).

    A convex body that contains all balls of a piece contains the piece.
    """

    centres: Array
    radii: Array
    pieces: NDArray[np.int64]
    solids: NDArray[np.int64]

    def chosen(self, mask: NDArray[Any]) -> _Balls:
        return _Balls(self.centres[mask], self.radii[mask], self.pieces[mask], self.solids[mask])


def cover(solids: Sequence[Solid], link: str, most: int = MOST_COVERS) -> tuple[tuple[Capsule, ...], tuple[Solid, ...]]:
    """Return at most `most` capsules whose union contains the solids, and the solids that each capsule contains.

    Each solid, or each triangle of a mesh, is inside one capsule. Because a capsule is convex, it contains a solid if
    it contains its corners. The triangles of a mesh are divided among its capsules in the same way.
    """
    balls = _balls(solids)
    part = np.zeros(len(balls.centres), dtype=np.int64)
    axes, least = [axis for _, axis in _lines(balls)], _approximate_volume(balls, part)
    for count in range(2, most + 1):
        cuts = [_division(balls, count, axis) for axis in axes]
        sizes = [_approximate_volume(balls, cut) for cut in cuts]
        best = int(np.argmin(sizes))
        if sizes[best] < SPLIT_GAIN * least:
            part, least = cuts[best], sizes[best]
    fits = [_fit(balls.chosen(part == k)) for k in _numbers(part)]
    capsules = tuple(Capsule(link, a, b, radius + MARGIN_M) for a, b, radius in fits)
    return capsules, tuple(_pieces(solids, balls, part))


def _pieces(solids: Sequence[Solid], balls: _Balls, part: NDArray[np.int64]) -> Iterator[Solid]:
    for number, solid in enumerate(solids):
        parts = part[balls.solids == number]
        if solid.surface is None or len(_numbers(parts)) == 1:
            yield solid
            continue
        corners, faces = solid.surface.corners, solid.surface.faces
        yield from (mesh_solid(Triangles(corners, faces[parts[::3] == k])) for k in _numbers(parts))


def _numbers(part: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the numbers of the parts that occur; faster than sorting them."""
    return np.flatnonzero(np.bincount(part))


_Fit = tuple[Array, Array, float]


def _volume(fit: _Fit) -> float:
    a, b, r = fit
    return float(np.pi * r**2 * (np.linalg.norm(b - a) + 4 / 3 * r))


def _approximate_volume(balls: _Balls, part: NDArray[np.int64]) -> float:
    parts = [_hull(balls.chosen(part == k)) for k in _numbers(part)]
    return sum(min(_volume(_around(subset, *line)) for line in _lines(subset)) for subset in parts)


def _balls(solids: Sequence[Solid]) -> _Balls:
    centres, pieces, count = [], [], 0
    for solid in solids:
        if solid.surface is None:
            centres.append(solid.points)
            pieces.append(np.full(len(solid.points), count))
            count += 1
        else:
            faces = solid.surface.faces
            centres.append(solid.surface.corners[faces].reshape(-1, 3))
            pieces.append(count + np.repeat(np.arange(len(faces)), 3))
            count += len(faces)
    sizes = [len(centre) for centre in centres]
    radii = np.repeat([solid.radius for solid in solids], sizes)
    return _Balls(np.concatenate(centres), radii, np.concatenate(pieces), np.repeat(np.arange(len(solids)), sizes))


def _division(balls: _Balls, count: int, axis: Array) -> NDArray[np.int64]:
    """Return the number of the part (V,) of every ball: pieces are divided into equal lengths along an axis (3,)."""
    along = balls.centres @ axis
    sizes = np.bincount(balls.pieces)
    middles = (np.bincount(balls.pieces, along) / np.maximum(sizes, 1))[balls.pieces]
    return np.searchsorted(np.linspace(along.min(), along.max(), count + 1)[1:-1], middles)


def _lines(balls: _Balls) -> list[tuple[Array, Array]]:
    """Return the principal axes through the middle of the extents along them: (point, direction)."""
    centred = balls.centres - balls.centres.mean(axis=0)
    triangle = np.linalg.qr(centred[:: 1 + len(centred) // 2000], mode="r")  # has the same axes, in three rows
    axes = np.linalg.svd(triangle, full_matrices=True)[2]
    extents = centred @ axes.T
    middle = balls.centres.mean(axis=0) + axes.T @ ((extents.min(axis=0) + extents.max(axis=0)) / 2)
    return [(middle, axis) for axis in axes]


def _fit(balls: _Balls) -> _Fit:
    """Return a capsule of small volume around balls: a descent from the best principal axis."""
    from scipy.optimize import minimize

    balls = _hull(balls)
    point, axis = min(_lines(balls), key=lambda line: _volume(_around(balls, *line)))
    u, v, _ = frame_along(axis).T

    def capsule(x: Array) -> _Fit:
        turn = x[0] * u + x[1] * v
        angle = float(np.linalg.norm(turn))
        d = axis if angle == 0 else rotation_about_axis(turn / angle, angle) @ axis
        return _around(balls, point + x[2] * u + x[3] * v, d)

    size = float(np.ptp(balls.centres, axis=0).max() + balls.radii.max())
    simplex = np.vstack([np.zeros(4), np.diag([0.2, 0.2, 0.1 * size, 0.1 * size])])
    options = {"initial_simplex": simplex, "maxfev": DESCENT_STEPS, "xatol": 1e-4 * size, "fatol": 1e-9}
    return capsule(minimize(lambda x: _volume(capsule(x)), np.zeros(4), method="Nelder-Mead", options=options).x)


def _hull(balls: _Balls) -> _Balls:
    """Return the balls that matter: the corners of the hull, if all balls have the same size."""
    from scipy.spatial import ConvexHull, QhullError

    if len(balls.centres) > 20 and np.ptp(balls.radii) == 0:
        try:
            return balls.chosen(ConvexHull(balls.centres).vertices)
        except QhullError:
            pass
    return balls


def _around(balls: _Balls, point: Array, d: Array) -> _Fit:
    """Return the capsule of smallest radius, and then of smallest length, around the balls, with its axis through
    `point` along d.
    """
    along = (balls.centres - point) @ d
    off = np.linalg.norm(balls.centres - point - along[:, None] * d, axis=1)
    radius = float((off + balls.radii).max())
    half = np.sqrt(np.maximum((radius - balls.radii) ** 2 - off**2, 0.0))
    low, high = float((along + half).min()), float((along - half).max())
    low, high = (low, high) if low < high else ((low + high) / 2,) * 2
    return point + low * d, point + high * d, radius


@dataclass(frozen=True, slots=True, eq=False)
class Volume:
    """The space that a link occupies.

    covers  capsules that contain the link, for the search
    solids  solids that the final check measures: hulls of the shapes of the file, or the covers if there are none
    """

    link: str
    covers: tuple[Capsule, ...]
    solids: tuple[Solid, ...]
    source: VolumeSource

    def refined(self, most: int) -> Volume:
        """Return the volume with up to this many covers; guessed volumes do not change."""
        return self if self.source.is_guess else Volume(self.link, *cover(self.solids, self.link, most), self.source)

    @property
    def corners(self) -> Array:
        """Return the corners (8, 3) of a box around the solids; no point of the link is faster than all of them."""
        low = np.min([(solid.points - solid.radius).min(axis=0) for solid in self.solids], axis=0)
        high = np.max([(solid.points + solid.radius).max(axis=0) for solid in self.solids], axis=0)
        return box_corners(low, high)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Volumes(ShortRepr):
    """Volumes of the root and of the moving links, in this order. `unknown` are moving links without a volume.

    A link with a known and a guessed part has two volumes: a guess that is too coarse to check does not exclude the
    known part.
    """

    volumes: tuple[Volume, ...]
    unknown: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def capsules(self) -> tuple[Capsule, ...]:
        """All covers."""
        return tuple(capsule for volume in self.volumes for capsule in volume.covers)


def box_corners(lower: Array, upper: Array) -> Array:
    """Return the corners (8, 3) of a box."""
    return np.array(np.meshgrid(*np.stack([lower, upper], axis=1))).reshape(3, 8).T


def volumes_of(
    robot: Robot,
    *,
    radius: Mapping[str, float] | None = None,
    capsules: Sequence[Capsule] = (),
    tool: Sequence[Capsule] = (),
    loaded: str = "",
) -> Volumes:
    """Return the volume of every link of a robot.

    Parameters
    ----------
    robot : Robot
        Robot; its shapes are read from the file that it was loaded from, if there is one.
    radius : mapping of link name to float, optional
        In m. Capsules of this radius between the joint frames of the link replace its volume.
    capsules : sequence of Capsule, optional
        Capsules that replace the volumes of their links.
    tool : sequence of Capsule, optional
        Capsules that are added to the volumes of their links.
    loaded : str, optional
        Link that carries a payload: a ball around its flange, unless the tool or the robot describes it.

    Returns
    -------
    Volumes
        Volumes of the root and the moving links, moving links without a volume, and findings.

    Raises
    ------
    InputError
        If a link is unknown, or a radius is not positive.
    """
    for capsule in (*capsules, *tool):
        robot.link_index(capsule.link)
    for given, size in (radius or {}).items():
        robot.link_index(given)
        require_number(size, f"the radius of link {given!r}", "(0, inf)", f"metres: --radius {given}=0.08", given)
    geometry = read_geometry(robot)
    payload = _payload(robot, geometry)
    if loaded and not payload and all(capsule.link != loaded for capsule in tool):
        flange = (link_segments(robot, loaded) or [(np.zeros(3), np.zeros(3))])[-1][1]
        payload = {loaded: Capsule(loaded, flange, flange, PAYLOAD_RADIUS_M)}
    volumes: list[Volume] = []
    unknown: list[str] = []
    for link in (robot.root, *robot.links):
        name = link.name
        parts = _given_volumes(robot, name, radius or {}, [capsule for capsule in capsules if capsule.link == name])
        parts = parts or _from_file(robot, name, geometry)
        parts = parts or _volumes_around(_between_frames(robot, name), VolumeSource.FRAMES)
        if name in payload:
            parts += _volumes_around([payload[name]], VolumeSource.ELLIPSOID)
        parts += _volumes_around([capsule for capsule in tool if capsule.link == name], VolumeSource.GIVEN)
        volumes += parts
        if not parts and name != robot.root.name and not _is_empty(robot, name):
            unknown.append(name)
    return Volumes(tuple(volumes), tuple(unknown), tuple(_findings(volumes, geometry, payload)))


def _volumes_around(capsules: Sequence[Capsule], source: VolumeSource) -> list[Volume]:
    """Return the volume of capsules of one link; none without capsules."""
    if not capsules:
        return []
    return [Volume(capsules[0].link, tuple(capsules), tuple(capsule.solid for capsule in capsules), source)]


def _given_volumes(robot: Robot, link: str, radius: Mapping[str, float], capsules: Sequence[Capsule]) -> list[Volume]:
    if not capsules and link in radius:
        phi = None if link == robot.root.name else robot.links[robot.link_index(link)].phi
        centre = [] if phi is None or phi[0] <= 0 else [mass_com_inertia(phi)[1]]
        segments = link_segments(robot, link) or [(np.zeros(3), np.zeros(3))]
        segments += [(segments[0][0], point) for point in centre]
        capsules = [Capsule(link, a, b, radius[link]) for a, b in segments]
    return _volumes_around(capsules, VolumeSource.GIVEN)


def _from_file(robot: Robot, link: str, geometry: Geometry) -> list[Volume]:
    """Return the volume of all links of the file that this link contains.

    The volume is guessed for links with only a mass.
    """
    solids: list[Solid] = []
    guessed: list[Capsule] = []
    source = VolumeSource.COLLISION
    for name, part in geometry.links.items():
        place = locate_file_link(robot, name)
        if place is None or place[0] != link:
            continue
        phi = geometry.phi.get(name)
        if part.solids:
            solids += [solid.transform(place[1]) for solid in part.solids]
            source = max(source, part.source, key=list(VolumeSource).index)
        elif phi is not None and link != robot.root.name:
            body = _ellipsoid(transform_phi(place[1], phi), link, _ends(robot, link), _widest(robot, link))
            guessed += filter(None, [body])
    if guessed and not solids:
        guessed += _between_frames(robot, link)
    known = [Volume(link, *cover(solids, link), source)] if solids else []
    return known + _volumes_around(guessed, VolumeSource.ELLIPSOID)


def _ellipsoid(phi: Array, link: str, ends: Sequence[Array] = (), widest: float = np.inf) -> Capsule | None:
    """Return a capsule around the uniform box with the same inertia ellipsoid; None for a link without mass.

    ends    joints of the link: the capsule extends beyond them by at most its radius, but from the centre of mass of a
    link whose joints are close together by at least two radii, because such a link may lie beside its joints
    widest  m: largest radius; the inertia of a wider link is not credible, nor is its length
    """
    mass, com, J = mass_com_inertia(phi)
    if mass <= 0:
        return None
    moments, axes = np.linalg.eigh(J.trace() / 2 * np.eye(3) - J)
    half = ENLARGED * np.sqrt(3 * np.maximum(moments, 0.0) / mass)
    radius = max(float(np.hypot(*half[:2])), THINNEST_M)
    if radius > widest:
        radius, half[2] = widest, min(half[2], widest)
    low, high = -half[2], half[2]
    if ends:
        places = [float((end - com) @ axes[:, 2]) for end in ends]
        least = radius if np.ptp(places) < radius else 0.0
        low, high = max(low, min(*places, -least)), min(high, max(*places, least))
    return Capsule(link, com + low * axes[:, 2], com + high * axes[:, 2], radius)


def _payload(robot: Robot, geometry: Geometry) -> dict[str, Capsule]:
    """Return a volume of the load that was added to one link after the file was read."""
    stated: dict[str, Array] = {}
    for name, phi in geometry.phi.items():
        place = locate_file_link(robot, name)
        if place is not None and phi is not None:
            stated[place[0]] = stated.get(place[0], np.zeros(10)) + transform_phi(place[1], phi)
    added = {
        part.name: part.phi - stated[part.name] for part in robot.links if part.phi is not None and part.name in stated
    }
    changed = {link: phi for link, phi in added.items() if np.abs(phi).max() > 1e-9}
    if len(changed) != 1:
        return {}
    ((link, phi),) = changed.items()
    body = _ellipsoid(phi, link) if phi[0] > 0 else None
    return {} if body is None else {link: body}


def _ends(robot: Robot, link: str) -> list[Array]:
    """Return the joints of a link that lies between joints; none for the last link of a chain."""
    carried = list(_ends_of(robot, link))
    return [robot.joints[robot.link_index(link)].tip.inverse().translation, *carried] if carried else []


def _widest(robot: Robot, link: str) -> float:
    """Return the largest credible radius of a link from the distances of joint frames; infinite if all distances are
    zero.

    The radius is the longest distance between the frames of the link, or the shortest distance of its neighbour links
    if that is longer: a link is rarely wider than it is long, but the offset between two joints can be small. The rule
    was compared with the meshes of nine robots (UR3, UR5, UR10, Panda, Z1, xArm7, Jaco, SO-100, Go2): it reduces radii
    of three of them, always to more than the mesh needs.
    """
    joint = robot.joints[robot.link_index(link)]
    neighbours = [joint.parent, *(other.child for other in robot.joints if other.parent == link)]
    own, *others = (
        [float(np.linalg.norm(b - a)) for a, b in link_segments(robot, name)]
        for name in (link, *dict.fromkeys(neighbours))
    )
    lengths = [length for lengths in others for length in lengths]
    if not own:
        return max(lengths, default=np.inf)
    return max(*own, min(lengths, default=0.0), THINNEST_M)


def _between_frames(robot: Robot, link: str) -> list[Capsule]:
    names = (robot.root.name, *robot.link_names)
    reach = float(sum(np.linalg.norm(b - a) for name in names for a, b in link_segments(robot, name)))
    widest = RADIUS_PART * reach or RADIUS_PART
    capsules = []
    for a, b in link_segments(robot, link):
        length = float(np.linalg.norm(b - a))
        capsules.append(Capsule(link, a, b, max(min(widest, RADIUS_OF_LENGTH * length), THINNEST_M)))
    return capsules


def link_segments(robot: Robot, link: str) -> list[tuple[Array, Array]]:
    """Return lines from the joint that moves a link to the joints and pins that the link carries; to its frames if it
    carries none.
    """
    fixed = link == robot.root.name
    begin = np.zeros(3) if fixed else robot.joints[robot.link_index(link)].tip.inverse().translation
    ends = list(_ends_of(robot, link)) or [frame.pose.translation for frame in robot.frames if frame.link == link]
    ends = ends or ([] if fixed else [np.zeros(3)])
    return [(begin, end) for end in ends if np.linalg.norm(end - begin) > 1e-6]


def _ends_of(robot: Robot, link: str) -> Iterator[Array]:
    yield from (joint.origin.translation for joint in robot.joints if joint.parent == link)
    for loop in robot.loops:
        ends = ((loop.first, loop.first_pose), (loop.second, loop.second_pose))
        yield from (pose.translation for name, pose in ends if name == link)


def _is_empty(robot: Robot, link: str) -> bool:
    """Return whether a link without mass only connects two joints at the same position."""
    phi = robot.links[robot.link_index(link)].phi
    return any(True for _ in _ends_of(robot, link)) and (phi is None or phi[0] == 0)


def _findings(volumes: Sequence[Volume], geometry: Geometry, payload: Mapping[str, Capsule]) -> Iterator[Finding]:
    for source in VolumeSource:
        chosen = [body for body in volumes if body.source is source and body.covers[0] is not payload.get(body.link)]
        links = [body.link for body in chosen]
        described = [f"{body.link} (radius {max(part.radius for part in body.covers):.3f} m)" for body in chosen]
        if source.is_guess and links:
            yield warning(
                Kind.GUESSED_VOLUME,
                f"{list_names(described)}: the volume is guessed from the {source.value.removesuffix(' (guess)')}; the "
                "real link may be larger",
                "The robot file has no usable shape there. Add collision geometry to it, or [[capsules]] to the limits "
                "file (--radius LINK=0.08)",
                tuple(links),
            )
    for link, body in payload.items():
        size = float(body.radius + np.linalg.norm(body.b - body.a) / 2)
        yield warning(
            Kind.GUESSED_PAYLOAD,
            f"the payload of {link} is guessed: a volume within {size:.3f} m of its centre, or of the flange",
            "Describe it as [[tool]] in the limits file",
            (link,),
            size,
            "m",
        )
    if geometry.missing:
        yield warning(
            Kind.MISSING_MESH,
            f"these meshes were not found or cannot be read: {list_names(geometry.missing, 3)}",
            "The next source of each link's volume is used; add the files for the true shape",
        )
