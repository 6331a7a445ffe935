"""Random robots from fixed seeds: chains and trees, R and P joints, generic and special axes, any gravity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mindyn.foundation.algebra.inertia import phi_about_origin, transform_phi
from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.foundation.algebra.rotations import rotation_from_quaternion
from mindyn.robots.parts import Drive, Joint, Limits, Link
from mindyn.robots.robot import Robot

UP, DOWN_X, OBLIQUE, NONE = (0.0, 0.0, -9.81), (-9.81, 0.0, 0.0), (1.0, 2.0, -9.0), (0.0, 0.0, 0.0)


def random_rotation(rng: np.random.Generator) -> np.ndarray:
    return rotation_from_quaternion(*rng.normal(size=4))


def random_pose(rng: np.random.Generator) -> Pose:
    return Pose(random_rotation(rng), rng.uniform(-0.6, 0.6, 3))


def random_phi(rng: np.random.Generator) -> np.ndarray:
    """Return the parameters of a cloud of point masses, which are physically consistent by construction."""
    points = rng.normal(scale=0.2, size=(8, 3)) + rng.normal(scale=0.1, size=3)
    masses = rng.uniform(0.05, 1.0, 8)
    return sum(phi_about_origin(m, p, np.zeros((3, 3))) for m, p in zip(masses, points, strict=True))


def special_rotation(rng: np.random.Generator) -> np.ndarray:
    """Return a rotation to a parallel, antiparallel, perpendicular or 45-degree next axis, with or without a turn."""
    twist = rng.choice([0.0, np.pi, np.pi / 2, -np.pi / 2, np.pi / 4])
    turn = rng.choice([0.0, 0.0, np.pi / 2, 0.7])
    c, s = np.cos(twist), np.sin(twist)
    Rx = np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    c, s = np.cos(turn), np.sin(turn)
    return Rx @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


def random_origin(rng: np.random.Generator, *, special: bool) -> Pose:
    if not special:
        return random_pose(rng)
    offset = rng.uniform(-0.6, 0.6, 3) * rng.integers(0, 2, 3)  # zeros make axes coincide or intersect
    return Pose(special_rotation(rng), offset)


def random_parents(rng: np.random.Generator, n: int) -> list[int]:
    """Return the parents of a random tree, depth first (Pinocchio's CRBA needs contiguous subtrees)."""
    parents = [-1]
    while len(parents) < n:
        path = [len(parents) - 1]
        while path[-1] >= 0:
            path.append(parents[path[-1]])
        parents.append(int(rng.choice(path)))
    return parents


def random_robot(
    seed: int,
    *,
    joints: int | None = None,
    tree: bool | None = None,
    special: bool | None = None,
    tips: bool | None = None,
    gravity: tuple[float, float, float] | None = None,
) -> Robot:
    """Return a robot of 1 to 10 joints; options that are not given are drawn from the seed."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 11)) if joints is None else joints
    tree = bool(rng.integers(0, 2)) if tree is None else tree
    special = bool(rng.integers(0, 2)) if special is None else special
    tips = bool(rng.integers(0, 2)) if tips is None else tips
    gravity = (UP, DOWN_X, OBLIQUE, NONE)[int(rng.integers(0, 4))] if gravity is None else gravity
    parents = random_parents(rng, n) if tree else list(range(-1, n - 1))
    names = ["base", *(f"link{i + 1}" for i in range(n))]
    joint_list = []
    for i, parent in enumerate(parents):
        axis = np.array([0.0, 0.0, 1.0]) if special else rng.normal(size=3)
        joint_list.append(
            Joint(
                f"joint{i + 1}",
                "prismatic" if rng.random() < 0.25 else "revolute",
                names[parent + 1],
                names[i + 1],
                random_origin(rng, special=special),
                axis / np.linalg.norm(axis),
                random_pose(rng) if tips else IDENTITY,
                Limits(-2.0, 2.5, 3.0, effort=100.0),
            )
        )
    links = tuple(Link(name, random_phi(rng)) for name in names[1:])
    return Robot(f"random{seed}", Link("base"), tuple(joint_list), links, np.array(gravity))


def random_robots(count: int, start: int = 0, **options) -> Iterator[Robot]:
    for seed in range(start, start + count):
        yield random_robot(seed, **options)


def with_random_drives(robot: Robot, seed: int) -> Robot:
    """Add a drive to every joint, on motor or joint side, some of them coupled."""
    rng = np.random.default_rng(seed)
    drives = []
    for i, joint in enumerate(robot.joints):
        coupling = {robot.joint_names[i - 1]: float(rng.normal())} if i and rng.random() < 0.5 else {}
        side = "motor" if rng.random() < 0.5 else "joint"
        values = (*rng.uniform(0.01, 1.0, 3), float(rng.normal()))
        drives.append(Drive(joint.name, float(rng.uniform(-5, -1)), coupling, *values, side))
    return replace(robot, drives=tuple(drives))


def random_motion(robot: Robot, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return tuple(rng.uniform(-2, 2, (3, robot.joint_count)))


def with_link_frames(robot: Robot, seed: int) -> Robot:
    """Describe the same mechanism in other link frames, with transformed parameters."""
    rng = np.random.default_rng(seed)
    turns = {name: random_pose(rng) for name in robot.link_names}
    before = {robot.root.name: IDENTITY, **{name: X.inverse() for name, X in turns.items()}}
    joints = tuple(
        replace(joint, origin=before[joint.parent] @ joint.origin, tip=joint.tip @ turns[joint.child])
        for joint in robot.joints
    )
    links = tuple(Link(link.name, transform_phi(turns[link.name].inverse(), link.phi)) for link in robot.links)
    return replace(robot, joints=joints, links=links)


def geared_arm() -> Robot:
    """Return an arm of two joints with negative and coupled gears, and friction on the motor side."""
    arm = random_robot(6, joints=2, tree=False, special=False, gravity=(0.0, 0.0, -9.81))
    first, second = arm.joint_names
    drives = (
        Drive(first, -3.0, {}, 0.1, 0.2, 0.3, 0.4, "motor"),
        Drive(second, 2.0, {first: 0.5}, 0.05, 0.1, 0.2, -0.1, "motor"),
    )
    return replace(arm, drives=drives)
