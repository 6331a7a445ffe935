"""`Robot`: a frozen tree of links and joints with gravity, drives and loops; structure validated at birth."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from mindyn.algebra.inertia import Consistency
from mindyn.algebra.poses import IDENTITY, Pose
from mindyn.algebra.values import Array, Value, frozen_array, hashable_content
from mindyn.errors import InputError, MissingPhysicsError, RobotError, list_names, unknown_name_error
from mindyn.findings import Finding, Kind
from mindyn.notation import STANDARD_GRAVITY
from mindyn.pages.notebook import NotebookDisplay
from mindyn.robots.description import Selection
from mindyn.robots.expressions import parse_formula
from mindyn.robots.mimics import find_mimic_cycle
from mindyn.robots.parallel_axes import find_nearly_parallel_axes
from mindyn.robots.parts import Drive, ExtraTorque, Frame, Joint, Link, Loop, Mimic, require_name

CACHED_ROBOTS: Final = 16
"""Robots whose base sets, closures, equations and compiled kernels each cache keeps: tracing a 6R arm takes 0.3 s,
often more than what is then computed."""


def find_duplicates(names: Iterable[str]) -> list[str]:
    """The names that occur more than once, in order of first occurrence."""
    return [name for name, count in Counter(names).items() if count > 1]


@dataclass(frozen=True, eq=False, repr=False)
class Robot(Value, NotebookDisplay):
    """A tree robot: joint i moves link i relative to its parent link; parents come before children.

    root     the link that does not move
    joints   n joints, in the order of q
    links    the n moving links, links[i] moved by joints[i]
    gravity  (3,) in the root frame, m/s^2
    frames   named frames fixed to links
    drives   motors, gears and friction, at most one for each joint
    loops    pins, slides and balls that close kinematic loops
    extras   declared torques beside them: a gas spring, a counterweight, Stribeck friction
    mimics   joints that follow another one, q = multiplier q_of + offset
    home     (n,) of a robot with loops: a configuration near the closed one whose assembly is meant; None: near q = 0
    source   where the description comes from (like notes, not part of the robot's identity)
    notes    what the reader changed or found worth saying, and axes nearly parallel (not part of the robot's identity)
    selection  joints held and chain cut out of what `source` or a file describes (not part of the identity either)
    file     bundled name or absolute path of the file that it was loaded from; "" for none (not part of the identity)
    """

    name: str
    root: Link
    joints: tuple[Joint, ...]
    links: tuple[Link, ...]
    gravity: Array = field(default_factory=lambda: np.array(STANDARD_GRAVITY))
    frames: tuple[Frame, ...] = ()
    drives: tuple[Drive, ...] = ()
    loops: tuple[Loop, ...] = ()
    extras: tuple[ExtraTorque, ...] = ()
    mimics: tuple[Mimic, ...] = ()
    home: Array | None = None
    source: str = field(default="", compare=False)
    findings: tuple[Finding, ...] = field(default=(), compare=False)
    selection: Selection = field(default_factory=Selection, compare=False)
    file: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        require_name(self.name, "a robot")
        for name in ("joints", "links", "frames", "drives", "loops", "extras", "mimics", "findings"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "gravity", frozen_array(self.gravity, (3,), "gravity"))
        self._require_tree()
        self._require_references()
        self._require_dependents()
        others = (finding for finding in self.findings if finding.kind != Kind.NEARLY_PARALLEL_AXES)
        object.__setattr__(self, "findings", (*others, *find_nearly_parallel_axes(self.joints, self.gravity)))

    def _require_tree(self) -> None:
        if not self.joints:
            raise RobotError(
                f"robot {self.name!r} has no moving joint: there is no motion to compute",
                hint="leave one joint at least that is neither fixed nor locked",
            )
        if repeated := find_duplicates(self.joint_names):
            raise RobotError(f"joint names must be unique; repeated: {list_names(repeated)}")
        places = [self.root.name, *self.link_names, *(frame.name for frame in self.frames)]
        if repeated := find_duplicates(places):
            raise RobotError(f"link and frame names must be unique; repeated: {list_names(repeated)}")
        if tuple(joint.child for joint in self.joints) != self.link_names:
            raise RobotError("links[i] must be the child of joints[i]")
        known = {self.root.name}
        for joint in self.joints:
            if joint.parent not in known:
                raise RobotError(f"joint {joint.name!r} hangs on link {joint.parent!r}, which no earlier joint moves")
            known.add(joint.child)

    def _require_references(self) -> None:
        for frame in self.frames:
            self.link_index(frame.link)
        driven = [drive.joint for drive in self.drives]
        if repeated := find_duplicates(driven):
            raise RobotError(f"a joint has one drive; repeated: {list_names(repeated)}")
        for drive in self.drives:
            for joint in (drive.joint, *drive.coupling):
                self.joint_index(joint)
        # Columns of motors follow the joints, whatever the order of a file.
        object.__setattr__(self, "drives", tuple(sorted(self.drives, key=lambda d: self.joint_index(d.joint))))
        for extra in self.extras:
            if re.fullmatch(r"(I[xyz]{2}|mc[xyz]|m|Im|fv|fc|fo)\d+", extra.name):
                raise RobotError(
                    f"an extra torque cannot be called {extra.name!r}, which names a link or drive parameter"
                )
        if repeated := find_duplicates(extra.name for extra in self.extras):
            raise RobotError(f"extra torques have names of their own; repeated: {list_names(repeated)}")
        for extra in self.extras:
            self.joint_index(extra.joint)
            numbers = [
                int(name.lstrip("qdloa")) for name in parse_formula(extra.formula).variables if name[-1].isdigit()
            ]
            if numbers and max(numbers) > self.joint_count:
                raise RobotError(
                    f"the formula of {extra.name!r} names joint {max(numbers)}; the robot has {self.joint_count}"
                )

    def _require_dependents(self) -> None:
        for loop in self.loops:
            for link in (loop.first, loop.second):
                self.link_index(link)
            for joint in loop.dependent:
                self.joint_index(joint)
        for mimic in self.mimics:
            self.joint_index(mimic.joint)
            if mimic.of not in self.joint_names:
                raise RobotError(
                    f"joint {mimic.joint!r} mimics {mimic.of!r}, which is no joint of the robot; its joints are: "
                    f"{', '.join(self.joint_names)}",
                    hint=f"correct the name in the file, or hold the joint: --lock {mimic.joint}=0",
                )
        if repeated := find_duplicates(mimic.joint for mimic in self.mimics):
            raise RobotError(f"a joint mimics one other; {repeated[0]!r} is stated to mimic several")
        if both := [m.joint for m in self.mimics if any(m.joint in loop.dependent for loop in self.loops)]:
            raise RobotError(
                f"joint {both[0]!r} mimics another joint and is dependent on a loop: it can follow one only"
            )
        if ring := find_mimic_cycle(self.mimics):
            raise RobotError(f"joints mimic each other in a circle: {' -> '.join(ring)}")
        if self.home is not None:
            if not self.loops:
                raise RobotError(f"robot {self.name!r} has no loops: home= has no meaning")
            object.__setattr__(self, "home", frozen_array(self.home, (self.joint_count,), "home"))

    # Equations and closures are kept by robot, and asked for within the steps of a simulation or a design.
    @cached_property
    def _content(self) -> tuple[Any, int]:
        all_of_it = hashable_content(self)
        return all_of_it, hash(all_of_it)

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Robot):
            return self is other
        return self._content[1] == other._content[1] and bool(self._content[0] == other._content[0])

    def __hash__(self) -> int:
        return self._content[1]

    @property
    def joint_count(self) -> int:
        """n, the number of joints."""
        return len(self.joints)

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        """Joint names in the order of q."""
        return tuple(joint.name for joint in self.joints)

    @property
    def has_dependents(self) -> bool:
        """Whether some joints follow others, by loops or because they mimic them."""
        return bool(self.loops or self.mimics)

    @property
    def dependence(self) -> str:
        """What makes joints follow others, for messages: the loops and mimic joints by name."""
        named = (("closed loops", [loop.name for loop in self.loops]), ("mimic joints", [m.joint for m in self.mimics]))
        return " and ".join(f"{what} ({', '.join(names)})" for what, names in named if names)

    @cached_property
    def dependent_names(self) -> tuple[str, ...]:
        """Joints that loops make dependent and joints that mimic others, in the order of q."""
        following = {name for loop in self.loops for name in loop.dependent} | {m.joint for m in self.mimics}
        return tuple(name for name in self.joint_names if name in following)

    @cached_property
    def primary_joints(self) -> tuple[Joint, ...]:
        """Joints that move on their own, in the order of q: all but the dependent ones."""
        return tuple(joint for joint in self.joints if joint.name not in self.dependent_names)

    @cached_property
    def primary_names(self) -> tuple[str, ...]:
        """Names of the primary joints: all joints of a robot without dependent ones."""
        return tuple(joint.name for joint in self.primary_joints)

    @cached_property
    def link_names(self) -> tuple[str, ...]:
        """Names of the moving links, in the order of q."""
        return tuple(link.name for link in self.links)

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """Index of the joint that moves each joint's parent link; -1 for the root."""
        return tuple(self.link_index(joint.parent) for joint in self.joints)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """For each joint, the joints that hang on its link."""
        below: list[list[int]] = [[] for _ in self.joints]
        for k, parent in enumerate(self.parents):
            if parent >= 0:
                below[parent].append(k)
        return tuple(map(tuple, below))

    @cached_property
    def _joint_places(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.joint_names)}

    @cached_property
    def _link_places(self) -> dict[str, int]:
        return {name: i for i, name in enumerate((self.root.name, *self.link_names), -1)}

    @property
    def is_serial(self) -> bool:
        """Whether the joints form one chain."""
        return self.parents == tuple(range(-1, self.joint_count - 1))

    def joint_index(self, name: str) -> int:
        """Position of a joint in q."""
        if name not in self._joint_places:
            raise unknown_name_error("joint", name, self.joint_names)
        return self._joint_places[name]

    def link_index(self, name: str) -> int:
        """Index of the joint that moves a link; -1 for the root."""
        if name not in self._link_places:
            raise unknown_name_error("link", name, (self.root.name, *self.link_names))
        return self._link_places[name]

    def locate(self, name: str) -> tuple[int, Pose]:
        """Index of the link that carries a link or frame of this name, and its pose in that link frame."""
        for frame in self.frames:
            if frame.name == name:
                return self.link_index(frame.link), frame.pose
        if name != self.root.name and name not in self.link_names:
            places = (self.root.name, *self.link_names, *(frame.name for frame in self.frames))
            raise unknown_name_error("link or frame", name, places)
        return self.link_index(name), IDENTITY

    def path(self, index: int) -> tuple[int, ...]:
        """Joints from the root to link `index`, that joint included."""
        joints: list[int] = []
        while index >= 0:
            joints.append(index)
            index = self.parents[index]
        return tuple(reversed(joints))

    @property
    def has_parameters(self) -> bool:
        """Whether every moving link states its inertial parameters."""
        return all(link.phi is not None for link in self.links)

    @property
    def phi(self) -> Array:
        """(10 n,) standard parameters of all moving links, each in its own link frame."""
        missing = [link.name for link in self.links if link.phi is None]
        if missing:
            raise MissingPhysicsError(
                f"robot {self.name!r} states no inertial parameters for: {list_names(missing)}",
                hint='pass them at run time (parameters="input"), or add them to the robot file',
            )
        return np.concatenate([link.phi for link in self.links if link.phi is not None])

    def consistency(self) -> dict[str, Consistency]:
        """For every moving link, whether its parameters are physically consistent, and if not, why."""
        return {link.name: link.consistency() for link in self.links}

    def subchain(self, base: str, tool: str) -> Robot:
        """The serial robot from link `base` to link or frame `tool`; see `robots.edits.subchain`."""
        from mindyn.robots.edits import subchain

        return subchain(self, base, tool)

    def lock(self, positions: dict[str, float]) -> Robot:
        """The robot with the named joints held; see `robots.edits.lock`."""
        from mindyn.robots.edits import lock

        return lock(self, positions)

    def with_payload(self, mass: float, com: Array, inertia: Array, at: str | None = None) -> Robot:
        """The robot with a rigid load on its last link; see `robots.edits.with_payload`."""
        from mindyn.robots.edits import with_payload

        return with_payload(self, mass, com, inertia, at)

    @property
    def gear_matrix(self) -> Array:
        """G (drives, n): motor positions are G q, joint torques G^T times motor torques."""
        from mindyn.robots.drive_matrices import gear_matrix

        return gear_matrix(self)

    def __str__(self) -> str:
        from mindyn.robots.table import robot_table

        return robot_table(self)

    def __repr__(self) -> str:
        kinds = "".join("R" if joint.kind == "revolute" else "P" for joint in self.joints)
        return f"Robot({self.name!r}, {kinds})"


def require_robot(given: object, what: str) -> None:
    """Refuse what is no robot, such as the name of its file; `what` is done with it."""
    if not isinstance(given, Robot):
        raise InputError(f"{what} a Robot, got {type(given).__name__}", hint="load_robot(...) gives one")
