"""Description of a mechanism as read from a file, and the selection of the part that is used.

Readers return a `Description`. Joints are held and chains are cut before the robot is validated: only the remaining
part must be a valid robot. A joint type that mindyn does not support, or a link with an incomplete inertial, is an
error only if the remaining part contains it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.foundation.algebra.requirements import require_type
from mindyn.foundation.algebra.values import Array, ShortRepr, frozen_array
from mindyn.foundation.errors import Code, RobotError, list_names, unknown_name_error
from mindyn.foundation.findings import Finding, Kind, info
from mindyn.robots.expressions import parse_formula
from mindyn.robots.mimics import find_mimic_cycle, find_mimic_root, hold_followers
from mindyn.robots.parts import Drive, ExtraTorque, Frame, Joint, Link, Loop, Mimic


@dataclass(frozen=True, slots=True)
class FixedJoint:
    """Rigid connection: `origin` is the pose of the child's link frame in the parent's.

    held  whether the joint can move in the file; then a child with unknown parameters is a separate body, not a frame
    """

    name: str
    parent: str
    child: str
    origin: Pose
    held: bool = False


@dataclass(frozen=True, slots=True)
class UnsupportedJoint:
    """Joint that mindyn cannot move. If the joint is part of the selection and is not held, `error` is raised."""

    name: str
    parent: str
    child: str
    origin: Pose
    error: RobotError


AnyJoint = Joint | FixedJoint | UnsupportedJoint


@dataclass(frozen=True, slots=True)
class Selection:
    """Part of a described mechanism that is used.

    lock  positions at which joints are held, rad or m, by joint name; they and the links they carry become rigid parts
    root  link that becomes the root; the links above it are dropped
    tip   link or frame that ends the chain; side branches are dropped with their mass
    """

    lock: Mapping[str, float] = field(default_factory=dict)
    root: str | None = None
    tip: str | None = None

    def __post_init__(self) -> None:
        require_type(self.lock, Mapping, "lock", "joint names and positions, such as lock={'gripper': 0.0}")
        held = {name: float(frozen_array(value, (), f"position of {name!r}")) for name, value in self.lock.items()}
        object.__setattr__(self, "lock", MappingProxyType(held))
        for name, value in (("root", self.root), ("tip", self.tip)):
            if value is not None:
                require_type(value, str, name, "the name of a link")

    def __bool__(self) -> bool:
        return bool(self.lock) or self.root is not None or self.tip is not None

    def __reduce__(self) -> tuple[type[Selection], tuple[Any, ...]]:
        """Pickle the fields, because the read-only view of `lock` cannot be pickled."""
        return Selection, (dict(self.lock), self.root, self.tip)

    def combine(self, later: Selection) -> Selection:
        """Return one selection that has the effect of this one followed by `later`."""
        root = self.root if later.root is None else later.root
        return Selection({**self.lock, **later.lock}, root, self.tip if later.tip is None else later.tip)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values; `Selection(**...)` is the inverse."""
        return {"lock": dict(self.lock), "root": self.root, "tip": self.tip}


@dataclass(frozen=True, slots=True, repr=False)
class Description(ShortRepr):
    """Links and joints in any order, with all other parts of a mechanism; `Robot` documents the common fields.

    Parameters
    ----------
    name : str
        Name of the robot.
    links : tuple of Link
        All links, the root included.
    joints : tuple of Joint, FixedJoint or UnsupportedJoint
        All joints.
    gravity : numpy.ndarray, shape (3,)
        Gravity in the root frame, m/s^2.
    frames : tuple of Frame
        Named frames.
    drives : tuple of Drive
        Motors, gears and friction.
    loops : tuple of Loop
        Joints that close kinematic loops.
    extras : tuple of ExtraTorque
        Additional torques.
    mimics : tuple of Mimic
        Joints that follow another joint.
    home : mapping of str to float
        Joint positions near the intended assembly of the loops, rad or m; joints that are not named are at 0.
    source : str
        Origin of the description.
    findings : tuple of Finding
        Findings of the reader.
    selection : Selection
        Selection that was already applied.
    unsupported_links : mapping of str to RobotError
        Errors to raise if the link of that name is part of the selection.
    keep_order : bool
        Whether joints keep the order of the file if every parent precedes its children.
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
        """Hold joints, then cut the description to a subtree or chain.

        Parameters
        ----------
        wanted : Selection
            Joints to hold, root and tip.

        Returns
        -------
        Description
            Selected part.

        Raises
        ------
        UnknownNameError
            If a joint, link or frame does not exist.
        RobotError
            If there is no chain from root to tip, or the motor of a held joint would still move through its coupling.
        """
        if not wanted:
            return self
        selected = _hold_joints(self, wanted.lock) if wanted.lock else self
        if wanted.root is not None or wanted.tip is not None:
            selected = _cut_chain(selected, wanted.root, wanted.tip)
        return replace(selected, selection=self.selection.combine(wanted))


def _hold_joints(d: Description, positions: Mapping[str, float]) -> Description:
    """Hold the named joints at the given positions.

    The drive of a held joint is dropped, and drives coupled to it lose that coupling because the joint no longer turns.
    Joints that mimic a held joint are held too. A held joint that mimics another joint no longer follows it.
    """
    movable = {joint.name: joint for joint in d.joints if not isinstance(joint, FixedJoint)}
    for name in positions:
        if name not in movable:
            raise unknown_name_error("joint", name, movable)
    stopped, mimics = hold_followers(require_no_mimic_cycle(d.mimics), positions)
    positions = {**positions, **{name: at for name, at in stopped.items() if name in movable}}
    extras = _drop_extras(d.extras, set(positions))
    for drive in d.drives:
        moving = [joint for joint in drive.coupling if joint not in positions]
        if drive.joint in positions and moving:
            raise RobotError(
                f"joint {drive.joint!r} cannot be locked alone: its motor also turns with {list_names(moving)}",
                hint="remove the drive or its coupling first, if you can neglect its inertia and friction",
                subject=drive.joint,
            )
    loops = [loop for loop in d.loops if not _loop_joints(d, loop) <= set(positions)]
    for loop in loops:
        if set(loop.dependent) & set(positions):
            raise RobotError(
                f"a dependent joint of loop {loop.name!r} cannot be locked; lock its primary joints instead",
                hint=f"or lock all of its joints: {list_names(sorted(_loop_joints(d, loop)))}",
                subject=loop.name,
            )
    joints = tuple(_fix_joint(joint, positions[joint.name]) if joint.name in positions else joint for joint in d.joints)
    drives = _drop_drives(d.drives, set(positions))
    return replace(d, joints=joints, drives=drives, mimics=tuple(mimics), loops=tuple(loops), extras=extras)


def _loop_joints(d: Description, loop: Loop) -> set[str]:
    """Return the names of the joints between the two links of a loop that are not fixed."""
    above = {joint.child: joint for joint in d.joints}
    first, second = (
        {above[name].name for name in _links_above(above, link)[1:] if not isinstance(above[name], FixedJoint)}
        for link in (loop.first, loop.second)
    )
    return first ^ second


def hold_mimics_of_fixed_joints(d: Description) -> Description:
    """Hold joints that mimic a fixed joint at the position of their offset."""
    fixed = {joint.name: 0.0 for joint in d.joints if isinstance(joint, FixedJoint)}
    stopped, mimics = hold_followers(require_no_mimic_cycle(d.mimics), fixed)
    held = replace(_hold_joints(replace(d, mimics=()), stopped) if stopped else d, mimics=tuple(mimics))
    messages = [f"joint {name!r} mimics a fixed joint: held at {at:g}" for name, at in stopped.items()]
    return replace(held, findings=(*held.findings, *(info(Kind.HELD_JOINT, message) for message in messages)))


def require_no_mimic_cycle(mimics: Sequence[Mimic]) -> Sequence[Mimic]:
    """Return the mimics; raise `RobotError` if joints mimic each other in a cycle."""
    if cycle := find_mimic_cycle(mimics):
        raise RobotError(f"joints mimic each other in a cycle: {' -> '.join(cycle)}", subject=cycle[0])
    return mimics


def _fix_joint(joint: AnyJoint, position: float) -> FixedJoint:
    if isinstance(joint, UnsupportedJoint) and position:
        message = f"joint {joint.name!r} can only be locked at 0, got {position:g}: {joint.error.message}"
        raise RobotError(message, code=Code.OUT_OF_RANGE, subject=joint.name)
    origin = joint.at(position) if isinstance(joint, Joint) else joint.origin
    return FixedJoint(joint.name, joint.parent, joint.child, origin, held=True)


def _drop_extras(extras: Sequence[ExtraTorque], gone: Collection[str]) -> tuple[ExtraTorque, ...]:
    """Return the extra torques of the remaining joints; raise if a formula has joint numbers, which would shift."""
    numbered = [e.name for e in extras if not parse_formula(e.formula).variables <= {"q", "qd", "load"}]
    if gone and numbered:
        raise RobotError(
            f"joints cannot be removed while formulas of extra torques name joints by number: {list_names(numbered)}",
            hint="remove these extra torques first, or write them in terms of q and qd of their joint",
            code=Code.UNSUPPORTED,
            subject=numbered[0],
        )
    return tuple(extra for extra in extras if extra.joint not in gone)


def _drop_drives(drives: Sequence[Drive], gone: set[str]) -> tuple[Drive, ...]:
    return tuple(
        replace(drive, coupling={k: v for k, v in drive.coupling.items() if k not in gone})
        for drive in drives
        if drive.joint not in gone
    )


def _cut_chain(d: Description, root: str | None, tip: str | None) -> Description:
    """Cut the description to the subtree of `root`, or to the chain from `root` to `tip`, with all parts on fixed
    joints.

    The root keeps its orientation at q = 0: gravity is expressed in its frame.
    """
    places = {link.name: link.name for link in d.links} | {frame.name: frame.link for frame in d.frames}
    for name in (root, tip):
        if name is not None and name not in places:
            raise unknown_name_error("link or frame", name, places)
    above = {joint.child: joint for joint in d.joints}
    start = None if root is None else places[root]
    if tip is None:
        assert start is not None
        root_link, what = start, f"root {root}"
        kept = _collect_carried_links(d.joints, {start}, (Joint, FixedJoint, UnsupportedJoint))
    else:
        chain = _links_above(above, places[tip], start)
        if start is not None and chain[0] != start:
            raise RobotError(
                f"link {tip!r} is not a descendant of link {root!r}: there is no chain between them",
                hint=f"the links above {tip!r} are: {list_names(chain[:-1])}",
                subject=tip,
            )
        root_link, what = chain[0], f"chain {chain[0]} -> {tip}"
        kept = _collect_carried_links(d.joints, set(chain), (FixedJoint,))
        if all(isinstance(above[link], FixedJoint) for link in chain[1:]):
            raise RobotError(f"there is no moving joint between link {chain[0]!r} and {tip!r}", subject=tip)
    dropped = [j.child for j in d.joints if not isinstance(j, FixedJoint) and j.child not in kept | {root_link}]
    gone = {j.name for j in d.joints if j.child not in kept or j.child == root_link}
    extras = _drop_extras(d.extras, gone - {j.name for j in d.joints if isinstance(j, FixedJoint)})
    loops = [loop for loop in d.loops if {loop.first, loop.second} <= kept and not set(loop.dependent) & gone]
    dropped += [f"loop {loop.name}" for loop in d.loops if loop not in loops]
    finding = info(Kind.DROPPED_PART, f"not part of the {what}, dropped with mass: {list_names(dropped)}", *dropped)
    findings = (finding, *d.findings) if dropped else d.findings
    mimics, freed = _drop_mimics(d.mimics, gone)
    if freed:
        message = f"joints that mimicked a dropped joint now move independently: {list_names(freed)}"
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
    """Return the mimics between remaining joints, and the names of the joints that followed a dropped joint."""
    following = {mimic.joint: mimic for mimic in require_no_mimic_cycle(mimics)}
    roots = {joint: find_mimic_root(joint, following) for joint in following if joint not in gone}
    kept = tuple(Mimic(joint, *root) for joint, root in roots.items() if root[0] not in gone)
    return kept, [joint for joint, root in roots.items() if root[0] in gone]


def _links_above(above: Mapping[str, AnyJoint], link: str, start: str | None = None) -> list[str]:
    """Return the links from the topmost one, or from `start`, to a link; raise `RobotError` if they form a cycle."""
    chain = [link]
    while chain[-1] != start and chain[-1] in above:
        chain.append(above[chain[-1]].parent)
        if len(chain) > len(above) + 1:
            raise RobotError(f"the links above {link!r} form a cycle", subject=link)
    return chain[::-1]


def _collect_carried_links(joints: Sequence[AnyJoint], links: set[str], through: tuple[type, ...]) -> set[str]:
    """Return the links and all links that joints of the given types carry on them."""
    carried: dict[str, list[str]] = {}
    for joint in joints:
        if isinstance(joint, through):
            carried.setdefault(joint.parent, []).append(joint.child)
    reached, waiting = set(links), list(links)
    while waiting:
        new = [child for child in carried.get(waiting.pop(), ()) if child not in reached]
        reached.update(new)
        waiting.extend(new)
    return reached


def _home_rotation(above: Mapping[str, AnyJoint], link: str) -> Array:
    """Return the rotation of a link frame in the root frame at q = 0."""
    pose = IDENTITY
    for child in reversed(_links_above(above, link)[1:]):
        joint = above[child]
        pose = (joint.at(0.0) if isinstance(joint, Joint) else joint.origin) @ pose
    return pose.rotation
