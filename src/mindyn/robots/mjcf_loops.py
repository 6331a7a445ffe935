"""Convert <connect> and <weld> of an MJCF to closed loops.

One point is a ball; two points between the same bodies are a pin.

Files that mindyn wrote name the dependent joints. In other files, joints without actuators become dependent before
joints with an actuator, and joints far from the root before joints near the root. The number of dependent joints is the
rank of MuJoCo's constraint Jacobian at the home position: the keyframe "home", the first keyframe, or the initial
position of the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.rotations import frame_along, rotation_from_quaternion
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, RobotFileError, list_names, shorten_text
from mindyn.foundation.findings import Finding, Kind, info
from mindyn.robots.mimics import find_mimic_root
from mindyn.robots.mjcf_source import CompiledMjcf
from mindyn.robots.parts import Loop, LoopKind, Mimic
from mindyn.robots.safe_robot_files import MAX_FILE_NUMBER

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

    home      positions by joint at which the loops are closed
    sites     numbers of the sites that define them, which do not become frames
    findings  dependent joints that the file does not name, and equalities that are not supported as loops
    """

    loops: tuple[Loop, ...]
    home: Mapping[str, float]
    sites: frozenset[int]
    findings: tuple[Finding, ...]


def read_loops(
    source: CompiledMjcf, equalities: Sequence[int], movable: Collection[str], mimics: Sequence[Mimic]
) -> FileLoops:
    """Read the loops of the active <connect>s and <weld>s with these numbers; `movable` joints move in the robot."""
    if not equalities:
        return FileLoops((), {}, frozenset(), ())
    model = source.model
    points = [_read_equality(source, k) for k in equalities]
    numbers = {name: j for j in range(model.njnt) if (name := source.name("joint", j)) in movable}
    reader = _LoopReader(source, numbers, {mimic.joint: mimic for mimic in mimics})
    home = _home_position(source)
    rows = _constraint_jacobian(source, home)
    stated, findings = _stated_dependents(source), list[Finding]()
    loops: list[Loop] = []
    taken: list[_LoopEquality] = []
    for bodies in dict.fromkeys(point.bodies for point in points):
        group = [point for point in points if point.bodies == bodies]
        name = re.sub(r"/\d+$", "", group[0].name)
        name = f"{name} {group[0].number}" if any(loop.name == name for loop in loops) else name
        reason, new = reader.explain_unsupported(group), list[str]()
        if not reason:
            J = np.vstack([rows.get(point.number, np.zeros((0, model.nv))) for point in [*taken, *group]])
            before = [joint for loop in loops for joint in loop.dependent]
            new = (
                reader.require_part(name, stated[name], bodies) if name in stated else reader.choose(bodies, J, before)
            )
            reason = "" if new else "it removes no degree of freedom in addition to the other loops"
        if reason:
            message = f"{group[0].label} of the MJCF was dropped: {reason}"
            findings.append(info(Kind.DROPPED_PART, message))
            continue
        loops.append(_make_loop(source, name, group, new))
        taken += group
        if name not in stated:
            what = f"loop {name!r} from <{mjcf_element_name(loops[-1])}>"
            findings.append(info(Kind.READ_LOOP, f"{what}: dependent joints {list_names(new)}"))
    positions = {name: float(home[model.jnt_qposadr[j]]) for name, j in reader.joints.items()} if loops else {}
    sites = frozenset(site for point in taken for site in point.sites)
    return FileLoops(tuple(loops), positions, sites, tuple(findings))


def _stated_dependents(source: CompiledMjcf) -> dict[str, list[str]]:
    """Return the dependent joints of each loop for which the file names them."""
    texts, prefix = source.texts.items(), DEPENDENT_TEXT_PREFIX
    return {name.removeprefix(prefix): _parse_names(text) for name, text in texts if name.startswith(prefix)}


def _parse_names(text: str) -> list[str]:
    """Parse the joint names of a <text> that mindyn wrote: a JSON list."""
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        shown = shorten_text(text, 100)
        message = f"dependent joints of a loop must be a JSON list of names, got {shown!r}"
        raise RobotFileError(message, code=Code.WRONG_TYPE, subject=shown)
    return names


def _read_equality(source: CompiledMjcf, k: int) -> _LoopEquality:
    model, mujoco, data = source.model, source.mujoco, source.model.eq_data[k]
    is_weld = int(model.eq_type[k]) == int(mujoco.mjtEq.mjEQ_WELD)
    first, second = bodies = int(model.eq_obj1id[k]), int(model.eq_obj2id[k])
    sites: tuple[int, ...] = ()
    poses = Pose(None, data[:3]), Pose(None, data[3:6])
    if int(model.eq_objtype[k]) == int(mujoco.mjtObj.mjOBJ_SITE):
        X1, X2 = (Pose(rotation_from_quaternion(*model.site_quat[i]), model.site_pos[i]) for i in bodies)
        poses, sites = (X1, X2), bodies
        bodies = int(model.site_bodyid[first]), int(model.site_bodyid[second])
    elif is_weld:  # the anchor belongs to the second body, the pose to the first
        poses = Pose(rotation_from_quaternion(*data[6:10]), data[3:6]), Pose(None, data[:3])
    return _LoopEquality(k, source.name("equality", k), bodies, poses, sites, is_weld)


def _home_position(source: CompiledMjcf) -> Array:
    """Return qpos (nq,) of the keyframe "home", else of the first keyframe, else the initial position."""
    model = source.model
    if not model.nkey:
        return np.array(model.qpos0)
    key = source.mujoco.mj_name2id(model, source.mujoco.mjtObj.mjOBJ_KEY, "home")
    home = np.array(model.key_qpos[max(key, 0)])
    if not (np.abs(home) <= MAX_FILE_NUMBER).all():
        message = f"qpos of a keyframe is not finite or larger than {MAX_FILE_NUMBER:g}"
        raise RobotFileError(message, code=Code.NOT_FINITE, subject="qpos")
    return home


def _constraint_jacobian(source: CompiledMjcf, home: Array) -> dict[int, Array]:
    """Return the Jacobian rows (., nv) of each equality; equalities that no joint moves have none."""
    model, mujoco = source.model, source.mujoco
    if not model.nv:
        return {}
    data = mujoco.MjData(model)
    model.opt.jacobian = int(mujoco.mjtJacobian.mjJAC_DENSE)
    model.opt.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_EQUALITY)
    data.qpos[:] = home
    mujoco.mj_forward(model, data)
    J = np.reshape(data.efc_J, (-1, model.nv))[: data.nefc]
    kinds, numbers = np.asarray(data.efc_type)[: data.nefc], np.asarray(data.efc_id)[: data.nefc]
    equality = kinds == int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)
    return {int(k): np.array(J[equality & (numbers == k)]) for k in np.unique(numbers[equality])}


@dataclass(frozen=True, slots=True)
class _LoopReader:
    """Joints of a compiled model: numbers of those that move in the robot by name, and mimics by joint."""

    source: CompiledMjcf
    joints: Mapping[str, int]
    following: Mapping[str, Mimic]

    def between(self, bodies: tuple[int, int]) -> list[int]:
        """Return the numbers of the joints between two bodies, through their common ancestor."""
        first, second = (self.above(body) for body in bodies)
        between = [body for body in first if body not in second] + [body for body in second if body not in first]
        starts, counts = self.source.model.body_jntadr, self.source.model.body_jntnum
        return [j for body in between for j in range(starts[body], starts[body] + counts[body])]

    def above(self, body: int) -> list[int]:
        ancestors = []
        while body:
            ancestors.append(body)
            body = int(self.source.model.body_parentid[body])
        return ancestors

    def explain_unsupported(self, group: list[_LoopEquality]) -> str:
        """Return why a group of points is not a supported loop, or an empty text."""
        if len(group) > 1 and (len(group) > 2 or any(point.is_weld for point in group)):
            return (
                f"{len(group)} equalities connect the same two bodies; mindyn supports balls (one <connect>), pins "
                "(two) and welds (one <weld>)"
            )
        kinds, free = self.source.model.jnt_type, int(self.source.mujoco.mjtJoint.mjJNT_FREE)
        names = {self.source.name("joint", j): int(kinds[j]) for j in self.between(group[0].bodies)}
        if others := [name for name, kind in names.items() if name not in self.joints and kind != free]:
            return f"joint {others[0]!r} of its loop is neither a hinge nor a slide"
        if free in names.values():
            return "it contains a free joint, which mindyn holds"
        return "" if names else "it contains no joint"

    def choose(self, bodies: tuple[int, int], J: Array, before: Sequence[str]) -> list[str]:
        """Return the joints that depend on a loop. `before` are the joints that depend on other loops; J is (m, nv)."""
        model, folded = self.source.model, np.zeros((len(J), self.source.model.njnt))
        for name, j in self.joints.items():  # a mimic joint moves with the joint that it follows
            of, multiplier, _ = find_mimic_root(name, self.following)
            folded[:, self.joints[of]] += multiplier * J[:, model.jnt_dofadr[j]]
        depths = {j: len(self.above(int(model.jnt_bodyid[j]))) for j in range(model.njnt)}
        names = {j: name for name, j in self.joints.items()}
        free = [j for j in self.between(bodies) if names[j] not in self.following and names[j] not in before]
        chosen, dependent = [self.joints[name] for name in before], list[int]()
        for j in sorted(free, key=lambda j: (names[j] in self.source.actuated, -depths[j], -j)):
            if _matrix_rank(folded[:, [*chosen, j]]) > _matrix_rank(folded[:, chosen]):
                chosen.append(j)
                dependent.append(j)
        return [names[j] for j in sorted(dependent)]

    def require_part(self, loop: str, stated: list[str], bodies: tuple[int, int]) -> list[str]:
        """Return the joints that the file names as dependent; raise if one is not part of the loop."""
        joints = [self.source.name("joint", j) for j in self.between(bodies)]
        if unknown := [name for name in stated if name not in joints]:
            message = (
                f"dependent joint {unknown[0]!r} is not part of loop {loop!r}; its joints are: {', '.join(joints)}"
            )
            raise RobotFileError(message, code=Code.UNKNOWN_NAME, subject=unknown[0])
        return stated


def _make_loop(source: CompiledMjcf, name: str, group: list[_LoopEquality], dependent: list[str]) -> Loop:
    kind: LoopKind = "pin" if len(group) == 2 else "weld" if group[0].is_weld else "ball"
    poses = group[0].poses
    if kind == "pin":
        X1, X2 = (_pin_pose(group[0].poses[end], group[1].poses[end], name) for end in (0, 1))
        poses = X1, X2
    first, second = (source.name("body", body) for body in group[0].bodies)
    return Loop(name, first, second, *poses, tuple(dependent), kind)


def _matrix_rank(J: Array) -> int:
    s = np.linalg.svd(J, compute_uv=False) if J.size else np.zeros(0)
    return int((s > JACOBIAN_RANK_TOLERANCE * max(s.max(initial=0.0), 1e-12)).sum())


def _pin_pose(origin: Pose, other: Pose, name: str) -> Pose:
    """Return the pose at the first point of a pin with z along the pin.

    If the pose of a site has this z already, return that pose.
    """
    along = other.translation - origin.translation
    length = float(np.linalg.norm(along))
    if not length > 0:
        message = f"the two points of pin {name!r} coincide, so that they define no axis"
        raise RobotFileError(message, code=Code.INVALID_STRUCTURE, subject=name)
    z = along / length
    if np.linalg.norm(np.cross(origin.rotation[:, 2], z)) < ON_AXIS_TOLERANCE and origin.rotation[:, 2] @ z > 0:
        return origin
    return Pose(frame_along(z), origin.translation)
