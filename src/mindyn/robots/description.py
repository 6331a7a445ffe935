"""`Description`: what a file says, before it is a robot; `Selection`: what of it is wanted.

Readers give a description. Joints are held and chains are cut out of it first, and only what is left has to be a
robot: a joint that mindyn cannot move, or a link with half an inertial, stops nothing when it is not asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from mindyn.algebra.poses import IDENTITY, Pose
from mindyn.algebra.values import Array, frozen_array
from mindyn.errors import InputError, RobotError, list_names, unknown_name_error
from mindyn.findings import Finding, Kind, info
from mindyn.robots.expressions import parse_formula
from mindyn.robots.mimics import find_mimic_cycle, find_mimic_root, hold_followers
from mindyn.robots.parts import Drive, ExtraTorque, Frame, Joint, Link, Loop, Mimic


@dataclass(frozen=True, slots=True)
class FixedJoint:
    """A rigid connection: `origin` is the pose of the child's link frame in the parent's.

    held  the file lets the joint move: a child of unknown parameters is then a body of its own, not a frame
    """

    name: str
    parent: str
    child: str
    origin: Pose
    held: bool = False


@dataclass(frozen=True, slots=True)
class UnsupportedJoint:
    """A joint that mindyn cannot move; `error` is raised where it is part of what is asked for and not held."""

    name: str
    parent: str
    child: str
    origin: Pose
    error: RobotError


AnyJoint = Joint | FixedJoint | UnsupportedJoint


@dataclass(frozen=True, slots=True)
class Selection:
    """What of a described mechanism is wanted.

    lock  positions at which joints are held, rad or m, by joint name; they and what they carry become rigid parts
    root  the link that becomes the root; what is above it is left out
    tip   the link or frame that ends the chain; what hangs beside the chain is left out, with its mass
    """

    lock: Mapping[str, float] = field(default_factory=dict)
    root: str | None = None
    tip: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.lock, Mapping):
            raise InputError(f"lock must map joint names to positions, got {self.lock!r}", hint="lock={'gripper': 0.0}")
        held = {name: float(frozen_array(value, (), f"position of {name!r}")) for name, value in self.lock.items()}
        object.__setattr__(self, "lock", MappingProxyType(held))
        for name, value in (("root", self.root), ("tip", self.tip)):
            if value is not None and not isinstance(value, str):
                raise InputError(f"{name} must be the name of a link, got {value!r}")

    def __bool__(self) -> bool:
        return bool(self.lock) or self.root is not None or self.tip is not None

    def __reduce__(self) -> tuple[type[Selection], tuple[Any, ...]]:
        """Pickles as its fields; the read-only view of `lock` cannot be pickled itself."""
        return Selection, (dict(self.lock), self.root, self.tip)

    def combine(self, later: Selection) -> Selection:
        """One selection that does what this and then `later` do."""
        root = self.root if later.root is None else later.root
        return Selection({**self.lock, **later.lock}, root, self.tip if later.tip is None else later.tip)

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `Selection(**...)` is its inverse."""
        return {"lock": dict(self.lock), "root": self.root, "tip": self.tip}


@dataclass(frozen=True, slots=True)
class Description:
    """Links and joints in any order, and all else that a robot has; see `Robot` for what the fields mean.

    home           positions of joints in the assembly of the loops that is meant; those left out are 0
    refused_links  errors that are raised where the link of that name is part of what is asked for
    as_written     joints keep the order of the file where every parent comes before its children
    """

    name: str
    links: tuple[Link, ...]
    joints: tuple[AnyJoint, ...]
    gravity: Array
    frames: tuple[Frame, ...] = ()
    drives: tuple[Drive, ...] = ()
    loops: tuple[Loop, ...] = ()
    extras: tuple[ExtraTorque, ...] = ()
    mimics: tuple[Mimic, ...] = ()
    home: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    findings: tuple[Finding, ...] = ()
    selection: Selection = field(default_factory=Selection)
    unsupported_links: Mapping[str, RobotError] = field(default_factory=dict)
    keep_order: bool = False

    def select(self, wanted: Selection) -> Description:
        """The description with joints held, then cut to a subtree or chain."""
        if not wanted:
            return self
        left = _hold_joints(self, wanted.lock) if wanted.lock else self
        if wanted.root is not None or wanted.tip is not None:
            left = _cut_chain(left, wanted.root, wanted.tip)
        return replace(left, selection=self.selection.combine(wanted))


def _hold_joints(d: Description, positions: Mapping[str, float]) -> Description:
    """The description with the named joints held.

    The drive of a held joint goes; drives coupled to a held joint lose that coupling, since the joint no longer turns.
    Joints that mimic a held one are held with it; a mimic joint that is held itself follows no longer.
    """
    movable = {joint.name: joint for joint in d.joints if not isinstance(joint, FixedJoint)}
    for name in positions:
        if name not in movable:
            raise unknown_name_error("joint", name, movable)
    stopped, mimics = hold_followers(_require_no_mimic_cycle(d.mimics), positions)
    positions = {**positions, **{name: at for name, at in stopped.items() if name in movable}}
    extras = _drop_extras(d.extras, set(positions))
    for drive in d.drives:
        moving = [joint for joint in drive.coupling if joint not in positions]
        if drive.joint in positions and moving:
            raise RobotError(
                f"holding joint {drive.joint!r} does not stop its motor, which turns with {list_names(moving)} too",
                hint="remove that drive or its coupling first, if its inertia and friction may be left out",
            )
    loops = [loop for loop in d.loops if not _loop_joints(d, loop) <= set(positions)]
    for loop in loops:
        if set(loop.dependent) & set(positions):
            raise RobotError(
                f"a dependent joint of loop {loop.name!r} cannot be locked; lock its primary joints instead",
                hint=f"or all of its joints: {list_names(sorted(_loop_joints(d, loop)))}",
            )
    joints = tuple(_fix_joint(joint, positions[joint.name]) if joint.name in positions else joint for joint in d.joints)
    drives = _drop_drives(d.drives, set(positions))
    return replace(d, joints=joints, drives=drives, mimics=tuple(mimics), loops=tuple(loops), extras=extras)


def _loop_joints(d: Description, loop: Loop) -> set[str]:
    """Names of the joints between the two links of a loop that are not fixed."""
    above = {joint.child: joint for joint in d.joints}
    ways = []
    for link in (loop.first, loop.second):
        way: list[AnyJoint] = []
        while link in above and len(way) <= len(above):
            way.append(above[link])
            link = above[link].parent
        ways.append({joint.name for joint in way if not isinstance(joint, FixedJoint)})
    return ways[0] ^ ways[1]


def hold_mimics_of_fixed_joints(d: Description) -> Description:
    """The description with joints that mimic a fixed one fixed too, where their offset puts them."""
    fixed = {joint.name: 0.0 for joint in d.joints if isinstance(joint, FixedJoint)}
    stopped, mimics = hold_followers(_require_no_mimic_cycle(d.mimics), fixed)
    left = replace(_hold_joints(replace(d, mimics=()), stopped) if stopped else d, mimics=tuple(mimics))
    sentences = [f"joint {name!r} mimics a fixed joint: held at {at:g}" for name, at in stopped.items()]
    return replace(left, findings=(*left.findings, *(info(Kind.HELD_JOINT, sentence) for sentence in sentences)))


def _require_no_mimic_cycle(mimics: Sequence[Mimic]) -> Sequence[Mimic]:
    if ring := find_mimic_cycle(mimics):
        raise RobotError(f"joints mimic each other in a circle: {' -> '.join(ring)}")
    return mimics


def _fix_joint(joint: AnyJoint, position: float) -> FixedJoint:
    if isinstance(joint, UnsupportedJoint) and position:
        raise RobotError(f"joint {joint.name!r} can be held at 0 only, got {position:g}: {joint.error.message}")
    origin = joint.at(position) if isinstance(joint, Joint) else joint.origin
    return FixedJoint(joint.name, joint.parent, joint.child, origin, held=True)


def _drop_extras(extras: Sequence[ExtraTorque], gone: Collection[str]) -> tuple[ExtraTorque, ...]:
    """The extra torques of joints that stay; refuses formulas that name joints by number, which would shift."""
    numbered = [e.name for e in extras if not parse_formula(e.formula).variables <= {"q", "qd", "load"}]
    if gone and numbered:
        raise RobotError(
            f"joints cannot be taken away from a robot with extra torques of joints by number ({list_names(numbered)})",
            hint="remove those first, or write them of q and qd of their own joint",
        )
    return tuple(extra for extra in extras if extra.joint not in gone)


def _drop_drives(drives: Sequence[Drive], gone: set[str]) -> tuple[Drive, ...]:
    return tuple(
        replace(drive, coupling={k: v for k, v in drive.coupling.items() if k not in gone})
        for drive in drives
        if drive.joint not in gone
    )


def _cut_chain(d: Description, root: str | None, tip: str | None) -> Description:
    """The subtree of `root`, or its chain to `tip`, with what fixed joints hold to it.

    The root stays where it is at q = 0: gravity is turned into its frame.
    """
    places = {link.name: link.name for link in d.links} | {frame.name: frame.link for frame in d.frames}
    for name in (root, tip):
        if name is not None and name not in places:
            raise unknown_name_error("link or frame", name, places)
    above = {joint.child: joint for joint in d.joints}
    start = None if root is None else places[root]
    if tip is None:
        assert start is not None
        kept, root_link, what = (
            _collect_carried_links(d.joints, {start}, (Joint, FixedJoint, UnsupportedJoint)),
            start,
            f"root {root}",
        )
    else:
        chain = _find_chain(above, start, places[tip], root or "the root", tip)
        kept, root_link, what = (
            _collect_carried_links(d.joints, set(chain), (FixedJoint,)),
            chain[0],
            f"chain {chain[0]} -> {tip}",
        )
        if all(isinstance(above[link], FixedJoint) for link in chain[1:]):
            raise RobotError(f"no joint that moves lies between link {chain[0]!r} and {tip!r}")
    left_out = [j.child for j in d.joints if not isinstance(j, FixedJoint) and j.child not in kept | {root_link}]
    gone = {j.name for j in d.joints if j.child not in kept or j.child == root_link}
    extras = _drop_extras(d.extras, gone - {j.name for j in d.joints if isinstance(j, FixedJoint)})
    loops = [one for one in d.loops if {one.first, one.second} <= kept and not set(one.dependent) & gone]
    left_out += [f"loop {one.name}" for one in d.loops if one not in loops]
    dropped = info(Kind.DROPPED_PART, f"left out of the {what}, with their mass: {list_names(left_out)}", *left_out)
    findings = (dropped, *d.findings) if left_out else d.findings
    mimics, alone = _drop_mimics(d.mimics, gone)
    if alone:
        message = f"joints that mimic one left out move on their own: {list_names(alone)}"
        findings = (*findings, info(Kind.DROPPED_PART, message))
    return replace(
        d,
        links=tuple(link for link in d.links if link.name in kept),
        joints=tuple(joint for joint in d.joints if joint.child in kept and joint.child != root_link),
        gravity=_home_rotation(above, root_link).T @ d.gravity,
        frames=tuple(frame for frame in d.frames if frame.link in kept),
        drives=_drop_drives(d.drives, gone),
        loops=tuple(loops),
        extras=extras,
        mimics=mimics,
        findings=findings,
    )


def _drop_mimics(mimics: Sequence[Mimic], gone: set[str]) -> tuple[tuple[Mimic, ...], list[str]]:
    """Mimics of the joints that are kept by joints that are kept, and the names of those whose joint is gone."""
    following = {mimic.joint: mimic for mimic in _require_no_mimic_cycle(mimics)}
    roots = {joint: find_mimic_root(joint, following) for joint in following if joint not in gone}
    kept = tuple(Mimic(joint, *root) for joint, root in roots.items() if root[0] not in gone)
    return kept, [joint for joint, root in roots.items() if root[0] in gone]


def _find_chain(above: Mapping[str, AnyJoint], start: str | None, end: str, root: str, tip: str) -> list[str]:
    """The links from `start` (the topmost, where it is None) to `end`."""
    chain = [end]
    while chain[-1] != start and chain[-1] in above:
        chain.append(above[chain[-1]].parent)
        if len(chain) > len(above) + 1:
            raise RobotError(f"the links above {tip!r} form a cycle")
    if start is not None and chain[-1] != start:
        raise RobotError(
            f"link {tip!r} does not hang on link {root!r}: there is no chain between them",
            hint=f"the links above {tip!r} are: {list_names(reversed(chain[1:]))}",
        )
    return chain[::-1]


def _collect_carried_links(joints: Sequence[AnyJoint], links: set[str], through: tuple[type, ...]) -> set[str]:
    """The links, and all that joints of the given types carry on them."""
    carried: dict[str, list[str]] = {}
    for joint in joints:
        if isinstance(joint, through):
            carried.setdefault(joint.parent, []).append(joint.child)
    found, waiting = set(links), list(links)
    while waiting:
        new = [child for child in carried.get(waiting.pop(), ()) if child not in found]
        found.update(new)
        waiting.extend(new)
    return found


def _home_rotation(above: Mapping[str, AnyJoint], link: str) -> Array:
    """Rotation of a link frame in the root frame at q = 0."""
    pose, seen = IDENTITY, {link}
    while link in above:
        joint = above[link]
        pose = (joint.at(0.0) if isinstance(joint, Joint) else joint.origin) @ pose
        link = joint.parent
        if link in seen:
            raise RobotError(f"the links above {link!r} form a cycle")
        seen.add(link)
    return pose.rotation
