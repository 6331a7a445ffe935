"""`Robot`: an immutable tree of links and joints with gravity, drives and loops; validated on creation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from mindyn.foundation.algebra.inertia import Consistency
from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.foundation.algebra.values import Array, Value, frozen_array, hashable_content
from mindyn.foundation.errors import Code, InputError, MissingPhysicsError, RobotError, list_names, unknown_name_error
from mindyn.foundation.findings import Finding, Kind
from mindyn.foundation.notation import STANDARD_GRAVITY
from mindyn.foundation.pages.notebook_display import NotebookDisplay
from mindyn.robots.description import Selection, require_no_mimic_cycle
from mindyn.robots.expressions import parse_formula
from mindyn.robots.parallel_axes import find_nearly_parallel_axes
from mindyn.robots.parts import Drive, ExtraTorque, Frame, Joint, Link, Loop, Mimic, require_name

CACHED_ROBOTS: Final = 16
"""Robots for which each cache keeps base sets, closures, equations or compiled kernels: tracing a 6R arm takes 0.3
s, often more than the computation itself."""


def require_unique(names: Iterable[str], rule: str, error: type[RobotError] = RobotError, hint: str = "") -> None:
    """Raise `error` with the rule and the repeated names if a name occurs more than once."""
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        message = f"{rule}; repeated: {list_names(repeated)}"
        raise error(message, hint=hint, code=Code.DUPLICATE, subject=repeated[0])


@dataclass(frozen=True, eq=False, repr=False)
class Robot(Value, NotebookDisplay):
    """Robot with a tree of links: joint i moves link i relative to its parent link; parents come before children.

    Parameters
    ----------
    name : str
        Name of the robot.
    root : Link
        Link that does not move.
    joints : tuple of Joint
        All joints; those that loops and mimics make dependent have no column in arrays (`primary_names`).
    links : tuple of Link
        Moving links; joints[i] moves links[i].
    gravity : array_like, shape (3,)
        Gravity in the root frame, m/s^2; the default is (0, 0, -9.81).
    frames : tuple of Frame
        Named frames fixed to links.
    drives : tuple of Drive
        Motors, gears and friction, at most one per joint.
    loops : tuple of Loop
        Pins, slides, balls and welds that close kinematic loops.
    extras : tuple of ExtraTorque
        Additional torques: a gas spring, a counterweight, Stribeck friction.
    mimics : tuple of Mimic
        Joints that follow another one, q = multiplier q_of + offset.
    home : array_like, shape (len(joints),), optional
        For a robot with loops, a configuration near the intended assembly, rad or m; None means near q = 0.
    source : str
        Origin of the description. This field and the following ones do not affect equality.
    findings : tuple of Finding
        Assumptions and changes of the reader, and nearly parallel axes.
    selection : Selection
        Joints that are held, and the chain that was selected from the description.
    file : str
        Bundled name or absolute path of the file that the robot was loaded from, or "".

    Raises
    ------
    RobotError
        If the joints do not form a tree, a name is repeated, or joints cannot follow each other as described.
    UnknownNameError
        If a frame, drive, loop or extra torque names a link or joint that does not exist.

    Examples
    --------
    >>> import mindyn
    >>> robot = mindyn.load_robot("planar2")
    >>> robot.joint_names
    ('joint1', 'joint2')
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
                f"robot {self.name!r} has no moving joint",
                hint="keep at least one joint that is neither fixed nor locked",
                subject=self.name,
            )
        require_unique(self.joint_names, "joint names must be unique")
        places = [self.root.name, *self.link_names, *(frame.name for frame in self.frames)]
        require_unique(places, "link and frame names must be unique")
        if tuple(joint.child for joint in self.joints) != self.link_names:
            raise RobotError("links[i] must be the child of joints[i]", subject="links")
        known = {self.root.name}
        for joint in self.joints:
            if joint.parent not in known:
                message = f"the parent of joint {joint.name!r}, link {joint.parent!r}, is not moved by an earlier joint"
                raise RobotError(message, subject=joint.name)
            known.add(joint.child)

    def _require_references(self) -> None:
        for frame in self.frames:
            self.link_index(frame.link)
        require_unique((drive.joint for drive in self.drives), "a joint can have only one drive")
        for drive in self.drives:
            for joint in (drive.joint, *drive.coupling):
                self.joint_index(joint)
        # Motor columns follow the order of the joints, not that of the file.
        object.__setattr__(self, "drives", tuple(sorted(self.drives, key=lambda d: self.joint_index(d.joint))))
        require_unique((extra.name for extra in self.extras), "names of extra torques must be unique")
        for extra in self.extras:
            if re.fullmatch(r"(I[xyz]{2}|mc[xyz]|m|Im|fv|fc|fo)\d+", extra.name):
                message = f"an extra torque cannot have the name {extra.name!r} of a link or drive parameter"
                raise RobotError(message, code=Code.DUPLICATE, subject=extra.name)
            self.joint_index(extra.joint)
            numbers = [
                int(name.lstrip("qdloa")) for name in parse_formula(extra.formula).variables if name[-1].isdigit()
            ]
            if numbers and max(numbers) > len(self.joints):
                message = f"the formula of {extra.name!r} names joint {max(numbers)}; the robot has {len(self.joints)}"
                raise RobotError(message, code=Code.OUT_OF_RANGE, subject=extra.name)

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
                    f"joint {mimic.joint!r} mimics the unknown joint {mimic.of!r}; the robot has: "
                    f"{', '.join(self.joint_names)}",
                    hint=f"correct the name in the file, or hold the joint: --lock {mimic.joint}=0",
                    code=Code.UNKNOWN_NAME,
                    subject=mimic.of,
                )
        require_unique((mimic.joint for mimic in self.mimics), "a joint can mimic only one joint")
        if both := [m.joint for m in self.mimics if any(m.joint in loop.dependent for loop in self.loops)]:
            message = f"joint {both[0]!r} mimics another joint and is a dependent joint of a loop; it can be only one"
            raise RobotError(message, subject=both[0])
        require_no_mimic_cycle(self.mimics)
        if self.home is not None:
            if not self.loops:
                raise RobotError(f"robot {self.name!r} has no loops, so home= has no meaning", subject="home")
            object.__setattr__(self, "home", frozen_array(self.home, (len(self.joints),), "home"))

    # Equations and closures are cached by robot and looked up in every step of a simulation or a design.
    @cached_property
    def _content(self) -> tuple[Any, int]:
        content = hashable_content(self)
        return content, hash(content)

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Robot):
            return self is other
        return self._content[1] == other._content[1] and bool(self._content[0] == other._content[0])

    def __hash__(self) -> int:
        return self._content[1]

    @property
    def joint_count(self) -> int:
        """Number n of columns of q, qd, qdd and tau: one for each of `primary_names`."""
        return len(self.primary_joints)

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        """Names of all joints; those with a column in arrays are `primary_names`."""
        return tuple(joint.name for joint in self.joints)

    @cached_property
    def has_floating_base(self) -> bool:
        """Whether the first six joints are those of a floating base (`load_robot(..., root_joint="floating")`)."""
        from mindyn.robots.floating_base import is_floating

        return is_floating(self)

    @property
    def has_dependents(self) -> bool:
        """Whether some joints follow others through loops or as mimic joints."""
        return bool(self.loops or self.mimics)

    @property
    def dependence(self) -> str:
        """Loops and mimic joints by name, for messages."""
        named = (("closed loops", [loop.name for loop in self.loops]), ("mimic joints", [m.joint for m in self.mimics]))
        return " and ".join(f"{what} ({', '.join(names)})" for what, names in named if names)

    @cached_property
    def dependent_names(self) -> tuple[str, ...]:
        """Names of dependent joints (through loops or as mimic joints), in the order of `joints`."""
        following = {name for loop in self.loops for name in loop.dependent} | {m.joint for m in self.mimics}
        return tuple(name for name in self.joint_names if name in following)

    @cached_property
    def primary_joints(self) -> tuple[Joint, ...]:
        """Joints that are not dependent, in the order of arrays."""
        return tuple(joint for joint in self.joints if joint.name not in self.dependent_names)

    @cached_property
    def primary_names(self) -> tuple[str, ...]:
        """Names of the joints with a column in arrays; all joints if none is dependent."""
        return tuple(joint.name for joint in self.primary_joints)

    @cached_property
    def link_names(self) -> tuple[str, ...]:
        """Names of the moving links, in the order of `joints`."""
        return tuple(link.name for link in self.links)

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """Index of the joint that moves each joint's parent link; -1 for the root."""
        return tuple(self.link_index(joint.parent) for joint in self.joints)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """For each joint, the joints whose parent is its link."""
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
        return self.parents == tuple(range(-1, len(self.joints) - 1))

    def joint_index(self, name: str) -> int:
        """Return the position of a joint in q.

        Parameters
        ----------
        name : str
            Name of a joint.

        Returns
        -------
        int
            Index in q.

        Raises
        ------
        UnknownNameError
            If the robot has no such joint.
        """
        if name not in self._joint_places:
            raise unknown_name_error("joint", name, self.joint_names)
        return self._joint_places[name]

    def link_index(self, name: str) -> int:
        """Return the index of the joint that moves a link; -1 for the root.

        Parameters
        ----------
        name : str
            Name of a link.

        Returns
        -------
        int
            Index in q, or -1.

        Raises
        ------
        UnknownNameError
            If the robot has no such link.
        """
        if name not in self._link_places:
            raise unknown_name_error("link", name, (self.root.name, *self.link_names))
        return self._link_places[name]

    def locate(self, name: str) -> tuple[int, Pose]:
        """Find the link that carries a link or frame.

        Parameters
        ----------
        name : str
            Name of a link or frame.

        Returns
        -------
        index : int
            Index of the carrying link, -1 for the root.
        pose : Pose
            Pose of the link or frame in the carrying link's frame.

        Raises
        ------
        UnknownNameError
            If the robot has no such link or frame.
        """
        for frame in self.frames:
            if frame.name == name:
                return self.link_index(frame.link), frame.pose
        if name != self.root.name and name not in self.link_names:
            places = (self.root.name, *self.link_names, *(frame.name for frame in self.frames))
            raise unknown_name_error("link or frame", name, places)
        return self.link_index(name), IDENTITY

    def path(self, index: int) -> tuple[int, ...]:
        """Return the joints from the root to a link.

        Parameters
        ----------
        index : int
            Index of the link; -1 for the root.

        Returns
        -------
        tuple of int
            Indices of the joints, the one that moves the link last.
        """
        joints: list[int] = []
        while index >= 0:
            joints.append(index)
            index = self.parents[index]
        return tuple(reversed(joints))

    @property
    def has_parameters(self) -> bool:
        """Whether every moving link has inertial parameters."""
        return all(link.phi is not None for link in self.links)

    @property
    def phi(self) -> Array:
        """Standard parameters (10 n,) of all moving links, each in its link frame, SI units.

        Raises
        ------
        MissingPhysicsError
            If a link has no inertial parameters.
        """
        missing = [link.name for link in self.links if link.phi is None]
        if missing:
            raise MissingPhysicsError(
                f"robot {self.name!r} has no inertial parameters for: {list_names(missing)}",
                hint='pass them at run time (parameters="input"), or add them to the robot file',
                subject=missing[0],
            )
        return np.concatenate([link.phi for link in self.links if link.phi is not None])

    def consistency(self) -> dict[str, Consistency]:
        """Check the physical consistency of every moving link.

        Returns
        -------
        dict of str to Consistency
            Status and violated condition by link name.
        """
        return {link.name: link.consistency() for link in self.links}

    def subchain(self, base: str, tool: str) -> Robot:
        """Cut out the serial robot between two links.

        Parameters
        ----------
        base : str
            Link that becomes the root, with its orientation at q = 0.
        tool : str
            Link or frame that ends the chain. Links off the path are dropped with their mass.

        Returns
        -------
        Robot
            Serial robot.
        """
        from mindyn.robots.edits import select_part

        return select_part(self, Selection(root=base, tip=tool))

    def lock(self, positions: dict[str, float]) -> Robot:
        """Hold joints at given positions.

        Parameters
        ----------
        positions : dict of str to float
            Positions by joint name, rad or m. Held links become rigid parts of their parents.

        Returns
        -------
        Robot
            Robot without the held joints.
        """
        from mindyn.robots.edits import select_part

        return select_part(self, Selection(positions))

    def with_payload(self, mass: float, com: Array, inertia: Array, at: str | None = None) -> Robot:
        """Add a rigid payload.

        Parameters
        ----------
        mass : float
            Mass, kg.
        com : array_like, shape (3,)
            Centre of mass, m.
        inertia : array_like, shape (3, 3)
            Inertia tensor about the centre of mass, kg m^2.
        at : str, optional
            Link or frame in which the payload is given; optional if the robot has only one last link.

        Returns
        -------
        Robot
            Robot with the payload.

        Raises
        ------
        InputError
            If the payload is not physically consistent, or is on the root.
        """
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


def require_robot(given: object, function: str) -> None:
    """Raise `InputError` if an argument of a public function is not a robot (but, for example, a file name)."""
    if not isinstance(given, Robot):
        message = f"{function} needs a Robot, got {type(given).__name__}"
        raise InputError(message, hint="load it: load_robot(...)", code=Code.WRONG_TYPE, subject="robot")
