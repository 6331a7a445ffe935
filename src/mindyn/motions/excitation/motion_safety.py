"""Build the constraints of a robot for a search: limits, torques of a prior model, capsules, walls and obstacles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product
from typing import Any, Final, Literal

import casadi
import numpy as np

from mindyn.equations.closed_motion import CLOSURE
from mindyn.foundation.algebra.requirements import require_number
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, UnsafeMotionError, list_names
from mindyn.foundation.findings import Finding, Kind, Severity
from mindyn.kernels.model import compile_model
from mindyn.motions.excitation.body_pairs import Encounter, Encounters, Wall, find_encounters
from mindyn.motions.excitation.capsule_pairs import Pairs, kernel_and_slopes, placed_points, primary_motion
from mindyn.motions.excitation.collision_shapes import Bodies
from mindyn.motions.excitation.constraints import (
    RATES,
    Box,
    Constraint,
    Distances,
    KeepOut,
    Rates,
    SolvedRates,
    Walls,
    loop_constraints,
)
from mindyn.motions.excitation.limits import MotionLimits, limited_rates
from mindyn.motions.excitation.motion_columns import Columns, base_of, coulomb_columns
from mindyn.motions.excitation.volumes import Capsule, Volume, Volumes, box_corners, cover, volumes_of
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.robots.drive_matrices import drive_parameters
from mindyn.robots.link_solids import Solid, VolumeSource
from mindyn.robots.robot import Robot

PROBES: Final = 2000
"""Number of random positions at which distances are measured. Bodies that touch at all of these positions touch by
design.
"""
FINE_COVERS: Final = 8
"""Number of capsules of a link whose coarser covers touch another link in every position."""
CLEARANCE_M: Final = 0.05
TRACKING_ERROR_M: Final = 0.01
TIP_SPEED: Final = 1.0
"""m/s: default tip speed."""
STATES: Final = 500
"""Number of random states at which speeds of links are computed, to find the links that can be too fast."""
KEPT_SPEED: Final = 0.995
"""Fraction of the tip speed that the search may use."""

BASE_PLANE_M: Final = 0.0
"""Height in the root frame of the plane that an arm is mounted on."""


@dataclass(frozen=True, slots=True, eq=False)
class SafetySettings:
    """Obstacles of a motion, the required clearance, the speed limit of points, and the volumes of the links.

    Parameters
    ----------
    obstacles : sequence of Capsule or Box, optional
        Capsules fixed in the root frame (their `link` is ""), and finite boxes.
    workspace : Box, optional
        Box in which the moving links stay.
    floor : float, "base plane" or None, default "base plane"
        Height in m, in the root frame, above which the links stay. "base plane" is 0.0, unless the workspace has a
        lower z wall. None turns the check off, with a finding of severity error.
    tool : sequence of Capsule, optional
        Capsules on links in addition to their volumes: a tool, a payload, cables.
    self_collision : bool, default True
        Whether links must not touch each other. False turns the check off, with a finding of severity error.
    capsules : sequence of Capsule, optional
        Capsules that replace the volumes of their links (see `volumes_of`).
    radius : mapping of link name to float, optional
        In m. Capsules of this radius between the joint frames of a link replace its volume.
    accept_unchecked : sequence of str, optional
        Moving links that may have no volume. Any other link without one raises `UnsafeMotionError`.
    clearance_m : float, default 0.05
        Distance in m from the floor and obstacles, and between links. For two links, at most half of their largest
        distance is required.
    tracking_error_m : float, default 0.01
        Largest distance in m of the tip from the path; added to the clearance.
    tip_speed : float, default 1.0
        Largest speed in m/s of any point of a volume.
    loaded : str, optional
        Link that carries an unknown payload. `design_motion` sets it for `purpose="payload"`.

    Raises
    ------
    InputError
        If a distance is negative or not finite, the speed is not positive, or an obstacle is an infinite box.

    Examples
    --------
    >>> SafetySettings(floor=-0.4, obstacles=[Box((0.5, 0.2, 0.0), (0.9, 0.6, 0.4))]).tip_speed
    1.0
    """

    obstacles: Sequence[Capsule | Box] = ()
    workspace: Box | None = None
    floor: float | Literal["base plane"] | None = "base plane"
    tool: Sequence[Capsule] = ()
    self_collision: bool = True
    capsules: Sequence[Capsule] = ()
    radius: Mapping[str, float] = field(default_factory=dict)
    accept_unchecked: Sequence[str] = ()
    clearance_m: float = CLEARANCE_M
    tracking_error_m: float = TRACKING_ERROR_M
    tip_speed: float = TIP_SPEED
    loaded: str = ""

    def __post_init__(self) -> None:
        for name in ("obstacles", "tool", "capsules", "accept_unchecked"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ("clearance_m", "tracking_error_m"):
            require_number(getattr(self, name), name, "[0, inf)", "metres, such as 0.05")
        require_number(self.tip_speed, "tip_speed", "(0, inf]", "m/s, such as 1.0")
        for box in self.boxes:
            if not np.isfinite([box.lower, box.upper]).all():
                raise InputError(
                    f"an obstacle must be a finite box, got {box.lower.tolist()} to {box.upper.tolist()}",
                    hint="give walls as faces of the workspace",
                    code=Code.NOT_FINITE,
                    subject="obstacles",
                )
        if self.floor not in ("base plane", None):
            require_number(self.floor, "floor", "(-inf, inf)", "floor=0.0, m in the root frame, or None for no floor")

    @property
    def boxes(self) -> tuple[Box, ...]:
        """Return the boxes among the obstacles."""
        return tuple(obstacle for obstacle in self.obstacles if isinstance(obstacle, Box))

    @property
    def posts(self) -> tuple[Capsule, ...]:
        """Return the capsules among the obstacles."""
        return tuple(obstacle for obstacle in self.obstacles if isinstance(obstacle, Capsule))

    @property
    def room(self) -> Box:
        """Return the workspace above the floor; the box is infinite where there is no wall."""
        box = Box() if self.workspace is None else self.workspace
        height = BASE_PLANE_M if self.guesses_floor else self.floor
        floor = -np.inf if height in (None, "base plane") else float(height)
        return Box(np.maximum(box.lower, (-np.inf, -np.inf, floor)), box.upper)

    @property
    def guesses_floor(self) -> bool:
        """Return whether the floor is guessed: it was not given, so that the base plane is used."""
        return self.floor == "base plane" and (self.workspace is None or not np.isfinite(self.workspace.lower[2]))

    @property
    def walls(self) -> list[Wall]:
        """Return the planes of the workspace and the floor."""
        room = self.room
        sides = [(a, s, c[a]) for s, c in ((1.0, room.lower), (-1.0, room.upper)) for a in range(3)]
        return [
            Wall(
                "floor" if (axis, side) == (2, 1.0) else f"{'lower' if side > 0 else 'upper'} {'xyz'[axis]} wall",
                side * np.eye(3)[axis],
                side * float(corner),
                "given" if (axis, side) != (2, 1.0) else "guessed" if self.guesses_floor else "near",
            )
            for axis, side, corner in sides
            if np.isfinite(corner)
        ]

    def volumes(self, robot: Robot) -> Volumes:
        """Return the volumes of the links.

        Raise an error if a moving link has none and the user did not accept this.
        """
        for name in self.accept_unchecked:
            robot.link_index(name)
        volumes = volumes_of(robot, radius=self.radius, capsules=self.capsules, tool=self.tool, loaded=self.loaded)
        missing = [name for name in volumes.unknown if name not in self.accept_unchecked]
        if missing and (self.self_collision or self.walls or self.obstacles):
            raise UnsafeMotionError(
                f"these moving links of robot {robot.name!r} have no volume and cannot be checked for collisions: "
                f"{list_names(missing)} (no shapes, no inertia, no further joint or frame)",
                hint=f"--radius {missing[0]}=0.08 (radius={{{missing[0]!r}: 0.08}}) gives it one; "
                f"--accept-unchecked {missing[0]} accepts that it is not checked",
                subject=missing[0],
            )
        return volumes

    def obstacle_volumes(self) -> list[Volume]:
        """Return the obstacles as volumes without a link."""
        volumes = []
        for obstacle in self.obstacles:
            if isinstance(obstacle, Capsule):
                volumes.append(Volume("", (replace(obstacle, link=""),), (obstacle.solid,), VolumeSource.GIVEN))
            else:
                solid = Solid(box_corners(obstacle.lower, obstacle.upper))
                volumes.append(Volume("", *cover([solid], ""), VolumeSource.GIVEN))
        return volumes


@dataclass(frozen=True, slots=True, eq=False)
class Safety:
    """Constraints of the search, encounters with which the result is checked, and findings about both.

    dynamics  only the constraints on rates, torques and speeds of points, without ranges of joints and distances
    """

    constraints: tuple[Constraint, ...]
    dynamics: tuple[Constraint, ...]
    volumes: Volumes
    encounters: Encounters
    findings: tuple[Finding, ...]


def safety_of(columns: Columns, limits: MotionLimits, beta: Array | None, around: SafetySettings, seed: int) -> Safety:
    """Return the constraints of a robot within limits, with torques by the base parameters `beta`."""
    robot = columns.robot
    names = robot.primary_names
    rates = [
        Rates(tuple(f"{RATES[order]} of {names[j]}" for j in joints), middle, half, order, np.eye(len(names))[joints])
        for order, joints, middle, half in limited_rates(limits)
    ]
    positions = [rate for rate in rates if rate.order == 0]
    dynamics: list[Constraint] = [*(rate for rate in rates if rate.order > 0), *loop_constraints(robot, limits)]
    if np.isfinite(limits.effort).any():
        assert beta is not None
        dynamics.append(_torques(columns, limits, beta))
    volumes, encounters = what_to_check(robot, random_positions(limits, np.random.default_rng(seed), PROBES), around)
    dynamics += speed_constraint(robot, limits, encounters.bodies, around.tip_speed, seed)
    return Safety(
        (*positions, *dynamics, *_distance_constraints(robot, around, encounters)),
        tuple(dynamics),
        volumes,
        encounters,
        (*unchecked_findings(around, volumes), *volumes.findings, *floor_findings(robot, around)),
    )


def what_to_check(robot: Robot, probes: Array, around: SafetySettings) -> tuple[Volumes, Encounters]:
    """Return the volumes of a robot, and the encounters to check."""
    for post in around.posts:
        if robot.link_index(post.link or robot.root.name) >= 0:
            message = f"an obstacle must not move, but its capsule is fixed to the moving link {post.link!r}"
            raise InputError(message, code=Code.INVALID_VALUE, subject=post.link)
    volumes = around.volumes(robot)

    def find(bodies: Sequence[Volume]) -> Encounters:
        return find_encounters(
            robot,
            bodies,
            around.obstacle_volumes(),
            around.walls,
            probes,
            around.clearance_m + around.tracking_error_m,
            self_collision=around.self_collision,
            tracking_error_m=around.tracking_error_m,
        )

    encounters = find(volumes.volumes)
    coarse = {k for pair in encounters.checked if pair.by != "covers" for k in pair.bodies}
    if coarse & set(range(len(volumes.volumes))):  # their covers touch everywhere, and the search does not see them
        finer = tuple(body.refined(FINE_COVERS) if k in coarse else body for k, body in enumerate(volumes.volumes))
        volumes = replace(volumes, volumes=finer)
        encounters = find(finer)
    return volumes, encounters


def speed_constraint(
    robot: Robot, limits: MotionLimits, bodies: Bodies, tip_speed: float, seed: int
) -> list[SolvedRates]:
    """Return the constraint on the speed of every link that can be too fast; None for an infinite tip speed."""
    if not np.isfinite(tip_speed):
        return []
    rng = np.random.default_rng(seed)
    q = random_positions(limits, rng, STATES)
    rates = np.where(np.isfinite(limits.velocity), limits.velocity, 10.0)
    step = 1e-6 * rng.choice([-1.0, 1.0], q.shape) * rates
    moved = np.linalg.norm(bodies.corners(q + step) - bodies.corners(q - step), axis=-1).max(axis=(0, 2)) / 2e-6
    volumes = [body for body, speed in zip(bodies.volumes, moved, strict=True) if body.link and speed > tip_speed / 2]
    if not volumes:
        return []
    points = np.concatenate([volume.corners for volume in volumes])
    function = _speeds(robot, [robot.link_index(body.link) for body in volumes for _ in range(8)], points)
    labels, zero = tuple(f"speed of {body.link}" for body in volumes), np.zeros(len(volumes))
    return [SolvedRates(labels, zero, zero + KEPT_SPEED * tip_speed, *kernel_and_slopes(robot, function))]


def _speeds(robot: Robot, links: list[int], points: Any) -> casadi.Function:
    """Return a function (q, qd) of primary joints -> largest speed (m/s) of each group of 8 points, and the loop
    closure.
    """
    tree = casadi.SX.sym("tree", len(robot.joints))
    rate = casadi.SX.sym("rate", len(robot.joints))
    moved = casadi.jtimes(placed_points(robot, tree, links, points), tree, rate)
    qd = casadi.SX.sym("qd", robot.joint_count)
    q, whole, W, closure = primary_motion(robot)
    velocity = casadi.reshape(casadi.Function("velocity", [tree, rate], [moved])(whole, W @ qd), 3, -1)
    squares = casadi.reshape(casadi.sum1(velocity**2), 8, -1)
    fastest = reduce(casadi.fmax, (squares[k, :] for k in range(8)))
    speed = casadi.sqrt(fastest.T + 1e-12)
    outputs: Any = casadi.cse([casadi.densify(speed), *closure])
    return casadi.Function("speeds", [q, qd], outputs, ["q", "qd"], ["rate", *[CLOSURE] * len(closure)])


def _torques(columns: Columns, limits: MotionLimits, beta: Array) -> SolvedRates:
    """Return the torque constraints.

    Coulomb friction has the sign with the largest torque, so that constraints contain no sign.
    """
    robot, worst = columns.robot, np.zeros(len(limits.effort))
    base, smooth = _with_drives(columns.base, beta)
    if base.with_drives:
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
            code=Code.OUT_OF_RANGE,
            subject=short,
        )
    model = compile_model(robot, with_drives=base.with_drives, base=base, parameters="base")
    labels = tuple(f"torque of {robot.primary_names[j]}" for j in joints)
    kernel, slopes = model.kernel("inverse_dynamics"), model.derivatives("inverse_dynamics")
    return SolvedRates(labels, np.zeros(len(joints)), allowed, kernel, slopes, (smooth,), joints)


def _with_drives(base: BaseParameters, beta: Array) -> tuple[BaseParameters, Array]:
    """Return the base set and the values of the full torque: drives act even if their parameters are not estimated."""
    robot = base.robot
    if base.with_drives or not (robot.drives or robot.extras):
        return base, beta.copy()
    whole = base_of(robot, with_drives=True)
    return whole, np.asarray(whole.matrix @ np.concatenate([base.embedding @ beta, drive_parameters(robot)]))


def _distance_constraints(robot: Robot, around: SafetySettings, encounters: Encounters) -> list[Constraint]:
    """Return the constraints on covers, with a little more than the required distance."""
    bodies = encounters.bodies
    capsules = [cover for volume in bodies.volumes for cover in volume.covers]
    owner = np.repeat(np.arange(len(bodies.volumes)), [len(body.covers) for body in bodies.volumes])
    count = len(bodies.volumes) - len(around.obstacles)
    boxed = [k for k, obstacle in enumerate(around.obstacles, count) if isinstance(obstacle, Box)]
    numbers, apart, walls, kept_out = [], [], [], []
    for encounter in encounters.checked:
        i, j = encounter.bodies
        if encounter.direction is not None:
            walls += [(int(k), encounter) for k in np.flatnonzero(owner == i) if encounter.by == "covers"]
        elif encounter.by == "covers" and j in boxed:
            kept_out += [(int(k), boxed.index(j)) for k in np.flatnonzero(owner == i)]
            distance = encounter.needed_m
        elif encounter.by == "covers":
            first, second = encounter.parts
            both = list(product(np.flatnonzero(owner == i)[first], np.flatnonzero(owner == j)[second]))
            numbers += both
            apart += [encounter.needed_m] * len(both)
    constraints: list[Constraint] = []
    pairs = Pairs(robot, capsules, np.array(numbers, dtype=np.intp).reshape(-1, 2))
    named = [capsule.link or "obstacle" for capsule in capsules]
    if numbers:
        labels = tuple(f"gap of {named[i]} - {named[j]}" for i, j in numbers)
        constraints.append(Distances(labels, np.array(apart), pairs))
    if walls:
        constraints.append(_walls(pairs, walls))
    if kept_out:
        labels = tuple(f"gap of {named[i]} - box {k + 1}" for i, k in kept_out)
        constraints.append(Distances(labels, distance, KeepOut(pairs, around.boxes, np.array(kept_out, dtype=np.intp))))
    return constraints


def _walls(ends: Pairs, walls: Sequence[tuple[int, Encounter]]) -> Distances:
    """Return the constraints on both ends of every cover that can come close to a wall."""
    point = [2 * k + end for k, _ in walls for end in (0, 1)]
    of_both = [entry for entry in walls for _ in (0, 1)]
    directions = [wall.direction for _, wall in of_both]
    offsets = [wall.offset + ends.capsules[k].radius + wall.needed_m for k, wall in of_both]
    labels = tuple(f"gap of {' - '.join(wall.names)}" for _, wall in of_both)
    surfaces = Walls(ends.points, np.array(point, dtype=np.intp), np.array(directions))
    return Distances(labels, np.array(offsets), surfaces)


def unchecked_findings(around: SafetySettings, volumes: Volumes) -> list[Finding]:
    """Return one finding that lists the checks that the settings disable; none if everything is checked."""
    off = {
        "floor": "" if np.isfinite(around.room.lower[2]) else "--floor HEIGHT",
        "self-collision": "" if around.self_collision else "self_collision=True",
        "tip speed": "" if np.isfinite(around.tip_speed) else f"--tip-speed {TIP_SPEED:g}",
        **{f"link {name}": f"--radius {name}=0.08" for name in volumes.unknown},
    }
    names = tuple(name for name, option in off.items() if option)
    if not names:
        return []
    remedy = f"Do not play this on a robot; turn the checks on: {', '.join(filter(None, off.values()))}"
    return [Finding(Kind.NOT_CHECKED, Severity.ERROR, f"NOT CHECKED: {', '.join(names)}", remedy, details=names)]


def floor_findings(robot: Robot, around: SafetySettings) -> list[Finding]:
    """Return a finding if the floor was guessed, or is only the plane on which the robot is mounted."""
    down = robot.gravity / (np.linalg.norm(robot.gravity) or 1.0)
    if not around.guesses_floor:
        return []
    sentence = f"the floor is guessed: the plane z = {BASE_PLANE_M:g} m of the root frame"
    if robot.gravity.any() and down[2] > -0.99:
        sentence += ", on which the arm is mounted; the floor of the room is not checked"
    remedy = "Pass the real one as --floor HEIGHT, or set floor in [workspace] of the limits file"
    return [Finding(Kind.GUESSED_FLOOR, Severity.WARNING, sentence, remedy, (), BASE_PLANE_M, "m")]


def random_positions(limits: MotionLimits, rng: np.random.Generator, count: int) -> Array:
    """Return (count, n) uniform positions within the position limits."""
    return np.asarray(limits.middle + limits.reach * rng.uniform(-1, 1, (count, len(limits.lower))))
