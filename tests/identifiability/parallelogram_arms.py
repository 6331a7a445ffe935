"""Serial arms with a planar parallelogram, built from their published description, and random ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from robots import random_phi, random_pose, with_link_frames

from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.foundation.algebra.rotations import cos_sin, rot_x, rot_z
from mindyn.robots.parts import Joint, Link, Loop
from mindyn.robots.robot import Robot

REFERENCE = Path(__file__).parents[1] / "seeds" / "reference"
PUBLISHED = json.loads((REFERENCE / "parallelogram_robots.json").read_text())["robots"]


def arm(entry: dict, seed: int = 0) -> Robot:
    """Links 1..N, zeta, zeta + 1 in the frames of the description; joint angles are its thetas."""
    rng = np.random.default_rng(seed)
    N, xi, L = entry["n_dof"], entry["xi"], entry["L"]
    twists = [0.0, *entry["twist_alpha"][1:]]
    steps = [Pose(rot_x(*cos_sin(twists[n])), L[n - 1] if n else (0, 0, 0)) for n in range(N)]
    joints = [
        Joint(f"joint{n + 1}", "revolute", f"link{n}" if n else "base", f"link{n + 1}", steps[n]) for n in range(N)
    ]
    side = entry["L_zeta"]
    joints.append(Joint("zeta", "revolute", joints[xi - 1].parent, "link_zeta", steps[xi - 1]))
    joints.append(Joint("zeta1", "revolute", "link_zeta", "link_zeta1", Pose(None, (side, 0, 0))))
    rho = entry["rho"]
    pin = Loop(
        "parallelogram",
        f"link{xi + 1}",
        "link_zeta1",
        Pose(None, (-side * np.cos(rho), -side * np.sin(rho), 0)),
        Pose(None, (L[xi - 1][0], 0, 0)),
        (f"joint{xi + 1}", "zeta1"),
    )
    links = tuple(Link(joint.child, random_phi(rng)) for joint in joints)
    return Robot(entry["name"], Link("base"), tuple(joints), links, np.array(entry["gravity"], float), loops=(pin,))


def close_angles(entry: dict, theta: np.ndarray) -> np.ndarray:
    """All angles from theta_1..theta_xi, theta_{xi+2}..theta_N, theta_zeta, by the published closure."""
    N, xi = entry["n_dof"], entry["xi"]
    q = np.zeros(N + 2)
    q[[*range(xi), *range(xi + 1, N), N]] = theta
    q[xi] = q[N] - q[xi - 1] - entry["rho"] - np.pi
    q[N + 1] = q[xi - 1] - q[N]
    return q


def home_of(entry: dict) -> np.ndarray:
    theta = np.zeros(entry["n_dof"])
    theta[-1] = 1.0
    return close_angles(entry, theta)


def move_home_to_zero(robot: Robot, home: np.ndarray) -> Robot:
    """The same mechanism with every joint counted from `home`, so that it is closed at q = 0."""
    turns = [Pose(rot_z(*cos_sin(angle)), (0, 0, 0)) for angle in home]
    joints = [replace(joint, origin=joint.origin @ turn) for joint, turn in zip(robot.joints, turns, strict=True)]
    return replace(robot, joints=tuple(joints))


def random_entry(seed: int) -> dict:
    """N = 2..5 with every xi, twists 0, +-90 and 0.7 rad, lengths that may vanish, gravity along z1 or not."""
    rng = np.random.default_rng(seed)
    N = int(rng.integers(2, 6))
    xi = int(rng.integers(1, N))
    twists = [None, *rng.choice([0.0, 0.0, np.pi / 2, -np.pi / 2, 0.7], N - 1)]
    twists[xi] = 0.0
    if rng.random() < 0.3:
        twists = [None, *([0.0] * (N - 1))]
    L = rng.uniform(0.2, 0.7, (N, 3)) * rng.integers(0, 2, (N, 3))
    L[:, 1] = 0.0
    L[xi - 1] = (rng.uniform(0.3, 0.7), 0, 0)
    L[N - 1] = 0.0
    gravity = [0, 0, -9.81] if rng.random() < 0.6 else [2.0, 1.0, -9.0]
    return {
        "name": f"random{seed}",
        "n_dof": N,
        "xi": xi,
        "twist_alpha": twists,
        "L": L.tolist(),
        "L_zeta": float(rng.uniform(0.2, 0.6)),
        "rho": float(rng.uniform(-3, 3)),
        "gravity": gravity,
    }


def in_other_frames(robot: Robot, seed: int) -> Robot:
    """The same mechanism in random link frames, the pins moved along."""
    moved = with_link_frames(robot, seed)
    rng = np.random.default_rng(seed)
    turns = {"base": IDENTITY, **{name: random_pose(rng).inverse() for name in robot.link_names}}
    loops = [
        replace(k, first_pose=turns[k.first] @ k.first_pose, second_pose=turns[k.second] @ k.second_pose)
        for k in robot.loops
    ]
    return replace(moved, loops=tuple(loops))
