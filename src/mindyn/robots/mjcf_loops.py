"""Convert <connect> and <weld> of an MJCF to closed loops: one point is a ball, two between the same bodies are a pin.

Files that mindyn wrote name the dependent joints. In other files, joints without actuators become dependent before
those with one, and joints far from the root before near ones; their number is the rank of MuJoCo's constraint Jacobian
at the home position: the keyframe "home", the first keyframe, or the initial position of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mindyn.algebra.poses import Pose, frame_along, rotation_from_quaternion
from mindyn.algebra.values import Array
from mindyn.errors import Code, RobotFileError
from mindyn.robots.mimics import find_mimic_root
from mindyn.robots.parts import Loop, LoopKind, Mimic

JACOBIAN_RANK_TOLERANCE: Final = 1e-7
"""Singular values of a constraint Jacobian, relative to the largest, that count as zero."""
ON_AXIS_TOLERANCE: Final = 1e-9
"""Largest sine between the z axis of a site and the axis of its pin for which they count as equal."""
DEPENDENT_TEXT_PREFIX: Final = "dependent joints of loop "
"""Prefix of the name of a <text> that lists the dependent joints of a loop."""


@dataclass(frozen=True, slots=True)
class _LoopEquality:
    """One <connect> or <weld>: its number, name, the two bodies and the pose of its point on each."""

    number: int
    name: str
    bodies: tuple[int, int]
    poses: tuple[Pose, Pose]
    sites: tuple[int, ...]
    is_weld: bool

    @property
    def label(self) -> str:
        """Name of the element for messages."""
        return f"<{'weld' if self.is_weld else 'connect'}> {self.name!r}"


def mjcf_element_name(loop: Loop) -> str:
    """Return the MJCF element that represents a loop."""
    return "weld" if loop.kind == "weld" else "connect"


@dataclass(frozen=True, slots=True)
class FileLoops:
    """Loops of a file.

    home     positions by joint at which the loops are closed
    sites    numbers of the sites that define them, which do not become frames
    dropped  (element, reason) of equalities that are not supported as loops
    """

    loops: tuple[Loop, ...]
    home: Mapping[str, float]
    sites: frozenset[int]
    dropped: tuple[tuple[str, str], ...]


NO_LOOPS: Final = FileLoops((), {}, frozenset(), ())


@dataclass(frozen=True, slots=True)
class LoopReader:
    """Reader of the <connect>s and <weld>s of a compiled model.

    name       returns the name of an element by kind and number
    movable    names of the joints that move in the robot
    following  joints that mimic others
    actuated   joints with an actuator, which become dependent last
    stated     dependent joints by loop, as far as the file names them
    """

    mujoco: Any
    model: Any
    name: Callable[[str, int], str]
    movable: Collection[str]
    following: Mapping[str, Mimic]
    actuated: frozenset[str]
    stated: Mapping[str, Sequence[str]]

    def read(self, numbers: Sequence[int]) -> FileLoops:
        """Read the loops of the active <connect>s and <weld>s with these numbers."""
        points = [self._point(k) for k in numbers]
        groups: dict[tuple[int, int], list[_LoopEquality]] = {}
        for point in points:
            groups.setdefault(point.bodies, []).append(point)
        home = self._home()
        rows = self._jacobian(home)
        loops: list[Loop] = []
        taken: list[_LoopEquality] = []
        dependent: list[str] = []
        dropped: list[tuple[str, str]] = []
        for group in groups.values():
            if reason := self._explain_unsupported(group):
                dropped.append((group[0].label, reason))
                continue
            loop_name = self._loop_name(group, loops)
            before = np.vstack([rows.get(point.number, np.zeros((0, self.model.nv))) for point in [*taken, *group]])
            new = self._choose_dependent(loop_name, self._joints(group[0].bodies), self._fold_mimics(before), dependent)
            if not new:
                dropped.append((group[0].label, "it removes no degree of freedom in addition to the other loops"))
                continue
            loops.append(self._loop(loop_name, group, new))
            taken += group
            dependent += new
        positions = {joint: float(home[self.model.jnt_qposadr[j]]) for j, joint in self._movable_joints().items()}
        sites = frozenset(site for point in taken for site in point.sites)
        return FileLoops(tuple(loops), positions if loops else {}, sites, tuple(dropped))

    def _point(self, k: int) -> _LoopEquality:
        model = self.model
        ends = int(model.eq_obj1id[k]), int(model.eq_obj2id[k])
        is_weld, data = int(model.eq_type[k]) == int(self.mujoco.mjtEq.mjEQ_WELD), model.eq_data[k]
        name = self.name("equality", k)
        if int(model.eq_objtype[k]) == int(self.mujoco.mjtObj.mjOBJ_SITE):
            poses = [Pose(rotation_from_quaternion(*model.site_quat[i]), model.site_pos[i]) for i in ends]
            bodies = tuple(int(model.site_bodyid[i]) for i in ends)
            return _LoopEquality(k, name, (bodies[0], bodies[1]), (poses[0], poses[1]), ends, is_weld)
        if is_weld:  # the anchor belongs to the second body, the pose to the first
            return _LoopEquality(
                k, name, ends, (Pose(rotation_from_quaternion(*data[6:10]), data[3:6]), Pose(None, data[:3])), (), True
            )
        return _LoopEquality(k, name, ends, (Pose(None, data[:3]), Pose(None, data[3:6])), (), False)

    def _home(self) -> Array:
        """Return qpos (nq,) of the keyframe "home", else of the first keyframe, else the initial position."""
        model = self.model
        if not model.nkey:
            return np.array(model.qpos0)
        key = self.mujoco.mj_name2id(model, self.mujoco.mjtObj.mjOBJ_KEY, "home")
        return np.array(model.key_qpos[max(key, 0)])

    def _jacobian(self, home: Array) -> dict[int, Array]:
        """Return the Jacobian rows (., nv) of each equality; equalities that no joint moves have none."""
        model, data = self.model, self.mujoco.MjData(self.model)
        if not model.nv:
            return {}
        model.opt.jacobian = int(self.mujoco.mjtJacobian.mjJAC_DENSE)
        model.opt.disableflags &= ~int(self.mujoco.mjtDisableBit.mjDSBL_EQUALITY)
        data.qpos[:] = home
        self.mujoco.mj_forward(model, data)
        J = np.reshape(data.efc_J, (-1, model.nv))[: data.nefc]
        kinds, numbers = np.asarray(data.efc_type)[: data.nefc], np.asarray(data.efc_id)[: data.nefc]
        equality = kinds == int(self.mujoco.mjtConstraint.mjCNSTR_EQUALITY)
        return {int(k): np.array(J[equality & (numbers == k)]) for k in np.unique(numbers[equality])}

    def _movable_joints(self) -> dict[int, str]:
        joints = {j: self.name("joint", j) for j in range(self.model.njnt)}
        return {j: name for j, name in joints.items() if name in self.movable}

    def _joints(self, bodies: tuple[int, int]) -> list[int]:
        """Return the numbers of the joints between two bodies, through their common ancestor."""
        first, second = ([*self._above(body)] for body in bodies)
        between = [body for body in first if body not in second] + [body for body in second if body not in first]
        model = self.model
        return [
            j
            for body in between
            for j in range(model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body])
        ]

    def _above(self, body: int) -> list[int]:
        ancestors = []
        while body:
            ancestors.append(body)
            body = int(self.model.body_parentid[body])
        return ancestors

    def _explain_unsupported(self, group: list[_LoopEquality]) -> str:
        """Return why a group of points is not a supported loop, or an empty text."""
        if len(group) > 1 and (len(group) > 2 or any(point.is_weld for point in group)):
            return (
                f"{len(group)} equalities connect the same two bodies; mindyn supports balls (one <connect>), pins "
                "(two) and welds (one <weld>)"
            )
        joints = self._joints(group[0].bodies)
        free = int(self.mujoco.mjtJoint.mjJNT_FREE)
        others = [j for j in joints if self.name("joint", j) not in self.movable and self.model.jnt_type[j] != free]
        if others:
            return f"joint {self.name('joint', others[0])!r} of its loop is neither a hinge nor a slide"
        if any(self.model.jnt_type[j] == free for j in joints):
            return "it contains a free joint, which mindyn holds"
        return "" if joints else "it contains no joint"

    def _loop_name(self, group: list[_LoopEquality], others: Sequence[Loop]) -> str:
        name = re.sub(r"/\d+$", "", group[0].name)
        return name if all(other.name != name for other in others) else f"{name} {group[0].number}"

    def _fold_mimics(self, J: Array) -> Array:
        """Return J (m, joints) with the columns of mimic joints added to those of the joints they follow."""
        model = self.model
        names = self._movable_joints()
        column = {name: J[:, model.jnt_dofadr[j]].copy() for j, name in names.items()}
        folded = np.zeros((len(J), model.njnt))
        numbers = {name: j for j, name in names.items()}
        for name, values in column.items():
            of, multiplier, _ = find_mimic_root(name, self.following)
            folded[:, numbers[of]] += multiplier * values
        return folded

    def _choose_dependent(self, loop: str, joints: list[int], J: Array, before: Sequence[str]) -> list[str]:
        """Return the joints that depend on a loop, given those that depend on the other loops in J."""
        model, names = self.model, self._movable_joints()
        if loop in self.stated:
            return self._require_stated(loop, [names[j] for j in joints])
        numbers = {name: j for j, name in names.items()}
        depths = {j: len(self._above(int(model.jnt_bodyid[j]))) for j in joints}
        free = [j for j in joints if names[j] not in self.following and names[j] not in before]
        ordered = sorted(free, key=lambda j: (names[j] in self.actuated, -depths[j], -j))
        chosen = [numbers[name] for name in before]
        full, dependent = _matrix_rank(J), []
        for j in ordered:
            if _matrix_rank(J[:, chosen]) == full:
                break
            if _matrix_rank(J[:, [*chosen, j]]) > _matrix_rank(J[:, chosen]):
                chosen.append(j)
                dependent.append(j)
        return [names[j] for j in sorted(dependent)]

    def _require_stated(self, loop: str, joints: Sequence[str]) -> list[str]:
        if unknown := [name for name in self.stated[loop] if name not in joints]:
            message = (
                f"dependent joint {unknown[0]!r} is not part of loop {loop!r}; its joints are: {', '.join(joints)}"
            )
            raise RobotFileError(message, code=Code.UNKNOWN_NAME, subject=unknown[0])
        return list(self.stated[loop])

    def _loop(self, name: str, group: list[_LoopEquality], dependent: list[str]) -> Loop:
        kind: LoopKind = "pin" if len(group) == 2 else "weld" if group[0].is_weld else "ball"
        poses = list(group[0].poses)
        if kind == "pin":
            poses = [_pin_pose(group[0].poses[end], group[1].poses[end], name) for end in (0, 1)]
        first, second = (self.name("body", body) for body in group[0].bodies)
        return Loop(name, first, second, poses[0], poses[1], tuple(dependent), kind)


def _matrix_rank(J: Array) -> int:
    s = np.linalg.svd(J, compute_uv=False) if J.size else np.zeros(0)
    return int((s > JACOBIAN_RANK_TOLERANCE * max(s.max(initial=0.0), 1e-12)).sum())


def _pin_pose(origin: Pose, other: Pose, name: str) -> Pose:
    """Return the pose at the first point of a pin with z along the pin; keep the pose of a site that has this z."""
    along = other.translation - origin.translation
    length = float(np.linalg.norm(along))
    if not length > 0:
        message = f"the two points of pin {name!r} coincide, so that they define no axis"
        raise RobotFileError(message, code=Code.INVALID_STRUCTURE, subject=name)
    z = along / length
    if np.linalg.norm(np.cross(origin.rotation[:, 2], z)) < ON_AXIS_TOLERANCE and origin.rotation[:, 2] @ z > 0:
        return origin
    return Pose(frame_along(z), origin.translation)
