"""The constraints of a robot: its limits, its torques under a prior model, its capsules, walls and obstacles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.closed_motion import is_affine
from mindyn.errors import InputError
from mindyn.excitation.capsules import Capsule, CapsuleModel, capsules_of
from mindyn.excitation.clearance import UNMOVED_M, Pairs, moved_by
from mindyn.excitation.columns import Columns, base_of, coulomb_columns
from mindyn.excitation.constraints import Box, Constraint, Gaps, Rates, Torques, Walls
from mindyn.excitation.keep_out import kept_out
from mindyn.excitation.limits import STILL, MotionLimits
from mindyn.excitation.loop_limits import loop_constraints
from mindyn.kernels.model import compile_model
from mindyn.parameters.base import BaseParameters
from mindyn.parameters.parallelogram import branches
from mindyn.robots.drive_matrices import drive_parameters
from mindyn.robots.robot import Robot

PROBES: Final = 500
"""Random positions at which capsules are tried: those that overlap at all of them do so by construction."""

BASE_PLANE_M: Final = 0.0
"""Height in the root frame of the plane that an arm is mounted on."""


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """What a motion must not hit.

    obstacles       capsules in the root frame (link ""), and finite boxes
    workspace       a box that the moving links must stay in
    floor           m, height of a floor in the root frame; "base plane": 0.0 where the workspace states none
    tool            capsules fixed to links beside their own: a tool, a payload, cables
    self_collision  whether the robot's links must keep apart
    capsules        of the links, in place of those that are made of shapes and joints
    radius          m, of capsules between joints
    clearance       m, that is kept between all surfaces
    """

    obstacles: tuple[Capsule | Box, ...] = ()
    workspace: Box | None = None
    floor: float | Literal["base plane"] | None = None
    tool: tuple[Capsule, ...] = ()
    self_collision: bool = True
    capsules: tuple[Capsule, ...] | None = None
    radius: float | None = None
    clearance: float = 0.01

    def __post_init__(self) -> None:
        if not (np.isfinite(self.clearance) and self.clearance >= 0):
            raise InputError(f"clearance_m must be zero or a positive number of metres, got {self.clearance!r}")
        for one in self.boxes:
            if not np.isfinite([one.lower, one.upper]).all():
                raise InputError(
                    f"an obstacle is a finite box, got {one.lower.tolist()} to {one.upper.tolist()}",
                    hint="walls of the room are faces of the workspace",
                )
        if self.floor not in ("base plane", None):
            require_height(self.floor)

    @property
    def boxes(self) -> tuple[Box, ...]:
        """Those among the obstacles."""
        return tuple(one for one in self.obstacles if isinstance(one, Box))

    @property
    def posts(self) -> tuple[Capsule, ...]:
        """The capsules among the obstacles."""
        return tuple(one for one in self.obstacles if isinstance(one, Capsule))

    @property
    def is_stated(self) -> bool:
        """Whether there is something to hit that the user stated."""
        return bool(self.obstacles) or self.workspace is not None or isinstance(self.floor, (int, float))

    @property
    def room(self) -> Box | None:
        """The workspace, above the floor."""
        box = self.workspace
        height = self.floor
        if height == "base plane":
            height = None if box is not None and np.isfinite(box.lower[2]) else BASE_PLANE_M
        if height is None:
            return box
        lower, upper = (np.full(3, -np.inf), np.full(3, np.inf)) if box is None else (box.lower.copy(), box.upper)
        lower[2] = max(lower[2], float(height))
        return Box(lower, upper)

    def body(self, robot: Robot) -> CapsuleModel:
        """The robot's capsules, and the tool's."""
        for one in (*(self.capsules or ()), *self.tool):
            robot.link_index(one.link)
        own = capsules_of(robot, self.radius) if self.capsules is None else CapsuleModel(self.capsules, "given")
        carried = f"; {len(self.tool)} of the tool, as given" if self.tool else ""
        return CapsuleModel((*own.capsules, *self.tool), own.origin + carried)


def require_height(height: object) -> float:
    """A floor's height, m."""
    if isinstance(height, bool) or not isinstance(height, (int, float)) or not np.isfinite(height):
        raise InputError(
            f'floor = {height!r}; it is a height in m above the root\'s origin, None, or "base plane"',
            hint="floor=0.0, or floor=None for none",
        )
    return float(height)


@dataclass(frozen=True, slots=True, eq=False)
class Safety:
    """All constraints, sentences on what was taken for granted, and the capsules that stand for the robot."""

    constraints: tuple[Constraint, ...]
    notes: tuple[str, ...]
    capsules: tuple[Capsule, ...] = ()


def safety_of(columns: Columns, limits: MotionLimits, beta: Array | None, around: Surroundings, seed: int) -> Safety:
    """The constraints of a robot within limits, torques by the base parameters `beta`."""
    robot = columns.robot
    made: list[Constraint] = [*_rates(robot, limits), *loop_constraints(robot, limits)]
    if np.isfinite(limits.effort).any():
        assert beta is not None
        made.append(_torques(columns, limits, beta))
    body = around.body(robot)
    kept, notes = _capsule_constraints(robot, limits, around, body, seed)
    return Safety((*made, *kept), notes, body.capsules)


def _rates(robot: Robot, limits: MotionLimits) -> list[Rates]:
    bounds = (limits.upper - limits.middle, limits.velocity, limits.acceleration, limits.jerk)
    made = []
    for order, half in enumerate(bounds):
        joints = np.flatnonzero(np.isfinite(half))
        if not len(joints):
            continue
        middle = limits.middle[joints] if order == 0 else np.zeros(len(joints))
        names = tuple(robot.primary_names[j] for j in joints)
        made.append(Rates(order, joints, middle, np.maximum(half[joints], STILL), names))
    return made


def _torques(columns: Columns, limits: MotionLimits, beta: Array) -> Torques:
    """Coulomb friction counts at its worst, whichever way the joint turns: no sign is left in the constraint."""
    robot, worst = columns.robot, np.zeros(len(limits.effort))
    base, smooth = _with_drives(columns.base, beta)
    if base.drives:
        numbers, rows = coulomb_columns(robot, base)
        worst = np.abs(rows).T @ np.abs(smooth[numbers])
        smooth[numbers] = 0.0
    joints = np.flatnonzero(np.isfinite(limits.effort))
    allowed = (limits.torque - worst)[joints]
    if (allowed <= 0).any():
        short = ", ".join(robot.primary_names[j] for j in joints[allowed <= 0])
        raise InputError(
            f"the torque limits cannot be met: Coulomb friction alone takes all that {short} may use",
            hint="raise the effort limits, lower torque_margin, or check the friction of the prior model",
        )
    model = compile_model(robot, drives=base.drives, base=base, parameters="base")
    names = tuple(robot.primary_names[j] for j in joints)
    kernel, slopes = model.kernel("inverse_dynamics"), model.derivatives("inverse_dynamics")
    return Torques(kernel, slopes, smooth, joints, allowed, names)


def _with_drives(base: BaseParameters, beta: Array) -> tuple[BaseParameters, Array]:
    """The set and values that give the whole torque: drives act even where their parameters are not asked for."""
    robot = base.robot
    if base.drives or not (robot.drives or robot.extras):
        return base, beta.copy()
    whole = base_of(robot, drives=True)
    return whole, np.asarray(whole.matrix @ np.concatenate([base.embedding @ beta, drive_parameters(robot)]))


def _capsule_constraints(
    robot: Robot, limits: MotionLimits, around: Surroundings, body: CapsuleModel, seed: int
) -> tuple[list[Constraint], tuple[str, ...]]:
    for one in around.posts:
        if robot.link_index(one.link or robot.root.name) >= 0:
            raise InputError(f"an obstacle stands still, but its capsule is fixed to the moving link {one.link!r}")
    bare = _links_without_capsules(robot, body, around)
    probes = random_positions(limits, np.random.default_rng(seed), PROBES)
    made: list[Constraint] = []
    notes: list[str] = []
    if body.capsules and (around.self_collision or around.posts):
        pairs, dropped = _pairs(robot, body, around, probes)
        notes += dropped
        made += [Gaps(pairs, around.clearance)] if len(pairs.pairs) else []
    if body.capsules and (around.room is not None or around.boxes):
        made += _room_constraints(robot, body.capsules, around, probes)
    notes += _room_notes(around, made)
    if around.self_collision and _linkages(robot):
        notes.append("links of one loop are not checked against each other: linkages are made to pass")
    if made:
        notes.insert(0, f"capsules {body.origin}")
    if bare and (body.capsules or around.room is not None):
        notes.append(f"not checked, since no capsule stands for them: {', '.join(bare)}")
    return made, tuple(notes)


def _room_constraints(
    robot: Robot, capsules: Sequence[Capsule], around: Surroundings, probes: Array
) -> list[Constraint]:
    """Walls and boxes against every capsule that a joint moves."""
    ends = Pairs(robot, capsules, np.zeros((0, 2), dtype=np.intp))
    places = ends.points.positions(probes)
    made: list[Constraint] = []
    if around.room is not None:
        walls = _walls(ends, places, around.room, around.clearance)
        made += [walls] if len(walls.offsets) else []
    if around.boxes:
        moves = np.ptp(places, axis=0).max(axis=1).reshape(-1, 2).max(axis=1) > UNMOVED_M
        boxes = kept_out(ends, around.boxes, moves.tolist(), around.clearance)
        made += [boxes] if len(boxes.series) else []
    return made


def _room_notes(around: Surroundings, made: Sequence[Constraint]) -> list[str]:
    """Says that a floor was taken where nobody stated one, or that there is none."""
    room = around.room
    if room is None or not np.isfinite(room.lower[2]):
        return ["no floor is kept: nothing keeps the arm from what it stands on"]
    if not any(isinstance(one, Walls) for one in made):
        return ["no height of the arm depends on its joints, or no link has a size: the floor is not checked"]
    if around.floor == "base plane" and (around.workspace is None or not np.isfinite(around.workspace.lower[2])):
        return [
            f"the floor is taken to be the base plane, z = {BASE_PLANE_M:g} m in the root frame; "
            "floor (--floor) states another"
        ]
    return []


def _links_without_capsules(robot: Robot, body: CapsuleModel, around: Surroundings) -> list[str]:
    """Moving links that nothing is kept from; refused where that are all of them, and there is something to hit."""
    links = {one.link for one in body.capsules}
    bare = [name for name in robot.link_names if name not in links]
    if len(bare) == robot.joint_count and around.is_stated:
        raise InputError(
            f"no obstacle or wall can be checked: no moving link of robot {robot.name!r} has a size "
            f"({', '.join(bare)}: neither shapes other than meshes nor a further joint or frame)",
            hint="give capsules=, one for each link that could hit something",
        )
    return bare


def random_positions(limits: MotionLimits, rng: np.random.Generator, count: int) -> Array:
    """(count, n) uniform within the position limits."""
    return np.asarray(limits.middle + limits.reach * rng.uniform(-1, 1, (count, len(limits.lower))))


def _pairs(robot: Robot, body: CapsuleModel, around: Surroundings, probes: Array) -> tuple[Pairs, list[str]]:
    """Pairs of links that are not neighbours, and of moving links and obstacles.

    Neighbours share a joint, or are joined through links without a capsule, as those of a spherical wrist. Links that
    always touch are left out; of an obstacle those alone that do so by the same depth, as what stands on a pedestal.
    Links of one loop that is solved for are made to pass each other, beside the plane of their joints.
    """
    capsules = (*body.capsules, *around.posts)
    links, own = moved_by(robot, capsules), len(body.capsules)
    before, linkages = _bodies_before(robot, set(links[:own])), _linkages(robot)
    wanted = [
        (i, j)
        for j in range(len(capsules))
        for i in range(min(j, own))
        if (links[i] >= 0 if j >= own else around.self_collision and _apart(before, links[i], links[j]))
        if j >= own or not any({links[i], links[j]} <= one for one in linkages)
    ]
    pairs = Pairs(robot, capsules, np.array(wanted, dtype=np.intp).reshape(-1, 2))
    if not wanted:
        return pairs, []
    gaps, with_obstacle = pairs.gaps(probes), pairs.pairs[:, 1] >= own
    unmoved = np.ptp(gaps, axis=0) < UNMOVED_M
    always = (gaps < around.clearance).all(axis=0) & (unmoved | ~with_obstacle)
    named = [name for name, met in zip(pairs.names(), always, strict=True) if met]
    kept = Pairs(robot, capsules, pairs.pairs[~always])
    return kept, [f"not checked, since they touch wherever the joints are: {', '.join(named)}"] if named else []


def _linkages(robot: Robot) -> list[set[int]]:
    """The links of each loop that is solved for."""
    return [] if is_affine(robot) else [set(sum(branches(robot, loop), ())) for loop in robot.loops]


def _bodies_before(robot: Robot, bodies: set[int]) -> dict[int, int | None]:
    """For every link with a capsule, the nearest one before it on the way from the root."""
    found: dict[int, int | None] = {-1: None}
    for link in range(robot.joint_count):
        parent = robot.parents[link]
        found[link] = parent if parent in bodies else found[parent]
    return found


def _apart(before: dict[int, int | None], one: int, other: int) -> bool:
    return one != other and before[other] != one and before[one] != other


def _walls(ends: Pairs, places: Array, box: Box, clearance: float) -> Walls:
    """Both ends of every capsule against every face; those that no joint moves towards it are left out."""
    moved = np.ptp(places, axis=0) > UNMOVED_M
    point, directions, offsets, names = [], [], [], []
    for axis, side, corner in ((a, s, c[a]) for s, c in ((1.0, box.lower), (-1.0, box.upper)) for a in range(3)):
        if not np.isfinite(corner):
            continue
        for k in np.flatnonzero(moved[:, axis]):
            one = ends.capsules[k // 2]
            point.append(k)
            directions.append(side * np.eye(3)[axis])
            offsets.append(side * corner + one.radius + clearance)
            names.append(f"{one.link} above the {'lower' if side > 0 else 'upper'} {'xyz'[axis]} wall")
    return Walls(ends.points, np.array(point, dtype=np.intp), np.array(directions), np.array(offsets), tuple(names))
