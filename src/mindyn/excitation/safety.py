"""The constraints of a robot: its limits, its torques under a prior model, its capsules, walls and obstacles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final, Literal

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import InputError, UnsafeMotionError, list_names
from mindyn.excitation.capsules import Capsule, cover
from mindyn.excitation.clearance import Pairs
from mindyn.excitation.columns import Columns, base_of, coulomb_columns
from mindyn.excitation.constraints import Box, Constraint, Gaps, Rates, Torques, Walls
from mindyn.excitation.encounters import Encounter, Encounters, Wall, find_encounters
from mindyn.excitation.keep_out import KeepOut
from mindyn.excitation.limits import STILL, MotionLimits
from mindyn.excitation.loop_limits import loop_constraints
from mindyn.excitation.speeds import speed_constraint
from mindyn.excitation.volumes import Volume, Volumes, volumes_of
from mindyn.findings import Finding, Kind, Severity
from mindyn.kernels.model import compile_model
from mindyn.parameters.base import BaseParameters
from mindyn.robots.drive_matrices import drive_parameters
from mindyn.robots.geometry import Solid, VolumeSource
from mindyn.robots.robot import Robot

PROBES: Final = 2000
"""Random positions at which distances are tried: bodies that touch at all of them do so by design."""
FINE_COVERS: Final = 8
"""Capsules of a link whose coarser covers touch another link in every position."""
CLEARANCE_M: Final = 0.05
TRACKING_ERROR_M: Final = 0.01
TIP_SPEED: Final = 1.0
"""m/s: what is kept to where nothing else is given."""

BASE_PLANE_M: Final = 0.0
"""Height in the root frame of the plane that an arm is mounted on."""


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """What a motion must not hit, and how the robot's own volumes are found.

    obstacles         capsules in the root frame (link ""), and finite boxes
    workspace         a box that the moving links must stay in
    floor             m, height of a floor in the root frame; "base plane": 0.0 where the workspace states none
    tool              capsules on links on top of their own volumes: a tool, a payload, cables
    self_collision    whether the robot's links must keep apart
    capsules          take the place of the volumes of the links that they name
    radius            m by link: capsules of this radius between its joint frames take the place of its volume
    accept_unchecked  moving links that may have no volume
    clearance         m, that is kept between all surfaces
    tracking_error    m, by which the tip may leave the path; added to the clearance
    tip_speed         m/s, largest speed of any point of a volume
    loaded            link that will carry a payload nobody has described; "" for none
    """

    obstacles: tuple[Capsule | Box, ...] = ()
    workspace: Box | None = None
    floor: float | Literal["base plane"] | None = None
    tool: tuple[Capsule, ...] = ()
    self_collision: bool = True
    capsules: tuple[Capsule, ...] = ()
    radius: Mapping[str, float] = field(default_factory=dict)
    accept_unchecked: tuple[str, ...] = ()
    clearance: float = CLEARANCE_M
    tracking_error: float = TRACKING_ERROR_M
    tip_speed: float = TIP_SPEED
    loaded: str = ""

    def __post_init__(self) -> None:
        for name, value in (("clearance_m", self.clearance), ("tracking_error_m", self.tracking_error)):
            if not (np.isfinite(value) and value >= 0):
                raise InputError(f"{name} must be zero or a positive number of metres, got {value!r}")
        if not self.tip_speed > 0:
            raise InputError(
                f"tip_speed must be a positive number of m/s, got {self.tip_speed!r}", hint="tip_speed=1.0"
            )
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
    def room(self) -> Box | None:
        """The workspace, above the floor."""
        box = self.workspace
        height = self.floor
        if height == "base plane":
            height = BASE_PLANE_M if self.guesses_floor else None
        if height is None:
            return box
        lower, upper = (np.full(3, -np.inf), np.full(3, np.inf)) if box is None else (box.lower.copy(), box.upper)
        lower[2] = max(lower[2], float(height))
        return Box(lower, upper)

    @property
    def guesses_floor(self) -> bool:
        """Whether nobody stated the floor: it is the base plane."""
        return self.floor == "base plane" and (self.workspace is None or not np.isfinite(self.workspace.lower[2]))

    @property
    def walls(self) -> list[Wall]:
        """Planes of the workspace and the floor."""
        room = self.room
        sides = (
            [] if room is None else [(a, s, c[a]) for s, c in ((1.0, room.lower), (-1.0, room.upper)) for a in range(3)]
        )
        names = {(2, 1.0): "floor"}
        return [
            Wall(
                names.get((axis, side), f"{'lower' if side > 0 else 'upper'} {'xyz'[axis]} wall"),
                side * np.eye(3)[axis],
                side * float(corner),
                "given" if (axis, side) != (2, 1.0) else "guessed" if self.guesses_floor else "near",
            )
            for axis, side, corner in sides
            if np.isfinite(corner)
        ]

    def volumes(self, robot: Robot) -> Volumes:
        """Return the volumes of the robot's links; raise where a moving link has none and that was not accepted."""
        for name in self.accept_unchecked:
            robot.link_index(name)
        found = volumes_of(robot, radius=self.radius, capsules=self.capsules, tool=self.tool, loaded=self.loaded)
        missing = [name for name in found.unknown if name not in self.accept_unchecked]
        if missing and (self.self_collision or self.walls or self.obstacles):
            raise UnsafeMotionError(
                f"these moving links of robot {robot.name!r} have no volume, so nothing keeps them from hitting "
                f"something: {list_names(missing)} (no shapes, no inertia, no further joint or frame)",
                hint=f"--radius {missing[0]}=0.08 (radius={{{missing[0]!r}: 0.08}}) gives it one; "
                f"--accept-unchecked {missing[0]} accepts that it is not checked",
            )
        return found

    def obstacle_volumes(self) -> list[Volume]:
        """Return the obstacles as volumes of no link."""
        made = []
        for one in self.obstacles:
            if isinstance(one, Capsule):
                made.append(Volume("", (replace(one, link=""),), (one.solid,), VolumeSource.GIVEN))
            else:
                corners = np.array(np.meshgrid(*np.stack([one.lower, one.upper], axis=1))).reshape(3, 8).T
                covers, solids = cover([Solid(corners)], "")
                made.append(Volume("", covers, solids, VolumeSource.GIVEN))
        return made


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
    """The constraints of the search, what the result is checked against, and findings about both.

    positions  ranges of the primary joints
    dynamics   other rates, torques and speeds of points
    distances  between covers, and from walls and boxes
    """

    positions: tuple[Constraint, ...]
    dynamics: tuple[Constraint, ...]
    distances: tuple[Constraint, ...]
    volumes: Volumes
    encounters: Encounters
    findings: tuple[Finding, ...]

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """All of them."""
        return (*self.positions, *self.dynamics, *self.distances)


def safety_of(columns: Columns, limits: MotionLimits, beta: Array | None, around: Surroundings, seed: int) -> Safety:
    """The constraints of a robot within limits, torques by the base parameters `beta`."""
    robot = columns.robot
    rates = _rates(robot, limits)
    made: list[Constraint] = [*(one for one in rates if one.order > 0), *loop_constraints(robot, limits)]
    if np.isfinite(limits.effort).any():
        assert beta is not None
        made.append(_torques(columns, limits, beta))
    volumes, encounters = what_to_check(robot, random_positions(limits, np.random.default_rng(seed), PROBES), around)
    made += speed_constraint(robot, limits, encounters.bodies, around.tip_speed, seed)
    return Safety(
        tuple(one for one in rates if one.order == 0),
        tuple(made),
        tuple(_distance_constraints(robot, around, encounters)),
        volumes,
        encounters,
        (*volumes.findings, *floor_findings(robot, around)),
    )


def what_to_check(robot: Robot, probes: Array, around: Surroundings) -> tuple[Volumes, Encounters]:
    """Return the volumes of a robot, and what they must keep apart from."""
    for one in around.posts:
        if robot.link_index(one.link or robot.root.name) >= 0:
            raise InputError(f"an obstacle stands still, but its capsule is fixed to the moving link {one.link!r}")
    volumes = around.volumes(robot)
    encounters = _find_encounters(robot, volumes, probes, around)
    coarse = {
        k for one in encounters.checked if one.by != "covers" for k in one.bodies if 0 <= k < len(volumes.volumes)
    }
    if coarse:  # their covers touch in every position, and the search does not see covers that do
        finer = tuple(one.refined(FINE_COVERS) if k in coarse else one for k, one in enumerate(volumes.volumes))
        volumes = replace(volumes, volumes=finer)
        encounters = _find_encounters(robot, volumes, probes, around)
    return volumes, encounters


def _find_encounters(robot: Robot, volumes: Volumes, probes: Array, around: Surroundings) -> Encounters:
    return find_encounters(
        robot,
        volumes.volumes,
        around.obstacle_volumes(),
        around.walls,
        probes,
        around.clearance + around.tracking_error,
        self_collision=around.self_collision,
        tracking_error_m=around.tracking_error,
    )


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


def _distance_constraints(robot: Robot, around: Surroundings, encounters: Encounters) -> list[Constraint]:
    """The covers that the search keeps apart, by a little more than is required."""
    bodies = encounters.bodies
    capsules = [one for volume in bodies.volumes for one in volume.covers]
    owner = np.repeat(np.arange(len(bodies.volumes)), [len(one.covers) for one in bodies.volumes])
    first = len(bodies.volumes) - len(around.obstacles)
    boxed = [k for k, one in enumerate(around.obstacles, first) if isinstance(one, Box)]
    numbers, apart, walls, kept_out = [], [], [], []
    for one in encounters.checked:
        i, j = one.bodies
        if one.direction is not None:
            walls += [(int(k), one) for k in np.flatnonzero(owner == i) if one.by == "covers"]
        elif one.by == "covers" and j in boxed:
            kept_out += [(int(k), boxed.index(j)) for k in np.flatnonzero(owner == i)]
            distance = one.needed_m
        elif one.by == "covers":
            both = list(product(np.flatnonzero(owner == i), np.flatnonzero(owner == j)))
            numbers += both
            apart += [one.needed_m] * len(both)
    made: list[Constraint] = []
    pairs = Pairs(robot, capsules, np.array(numbers, dtype=np.intp).reshape(-1, 2))
    if numbers:
        made.append(Gaps(pairs, np.array(apart)))
    if walls:
        made.append(_walls(pairs, walls))
    if kept_out:
        made.append(KeepOut(pairs, around.boxes, np.array(kept_out, dtype=np.intp), distance))
    return made


def _walls(ends: Pairs, walls: Sequence[tuple[int, Encounter]]) -> Walls:
    """Both ends of every cover against the walls that its link can come near to."""
    point = [2 * k + end for k, _ in walls for end in (0, 1)]
    of_both = [one for one in walls for _ in (0, 1)]
    directions = [one.direction for _, one in of_both]
    offsets = [one.offset + ends.capsules[k].radius + one.needed_m for k, one in of_both]
    names = tuple(f"gap of {' - '.join(one.names)}" for _, one in of_both)
    return Walls(ends.points, np.array(point, dtype=np.intp), np.array(directions), np.array(offsets), names)


def floor_findings(robot: Robot, around: Surroundings) -> list[Finding]:
    """Say that a floor was guessed, that it is only the mounting plane, or that there is none."""
    room, down = around.room, robot.gravity / (np.linalg.norm(robot.gravity) or 1.0)
    if room is None or not np.isfinite(room.lower[2]):
        sentence = "no floor is checked: nothing keeps the arm from what it stands on"
        return [Finding(Kind.GUESSED_FLOOR, Severity.WARNING, sentence, "--floor HEIGHT states one")]
    if not around.guesses_floor:
        return []
    sentence = f"the floor is guessed: the plane z = {BASE_PLANE_M:g} m of the root frame"
    if robot.gravity.any() and down[2] > -0.99:
        sentence += ", on which the arm is mounted; the floor of the room is not checked"
    remedy = "--floor HEIGHT, or floor in [workspace] of the limits file, states the real one"
    return [Finding(Kind.GUESSED_FLOOR, Severity.WARNING, sentence, remedy, (), BASE_PLANE_M, "m")]


def random_positions(limits: MotionLimits, rng: np.random.Generator, count: int) -> Array:
    """(count, n) uniform within the position limits."""
    return np.asarray(limits.middle + limits.reach * rng.uniform(-1, 1, (count, len(limits.lower))))
