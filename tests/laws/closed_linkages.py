"""Random closed linkages from a seed: planar ones on the base or a turret, spatial ones with a ball or a weld."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from robots import random_phi, random_rotation

from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.parameters.parallelogram import moving_link_poses
from mindyn.robots.parts import Joint, Link, Loop
from mindyn.robots.robot import Robot

Z = np.array([0.0, 0.0, 1.0])


def in_plane(rng, size=0.5) -> Pose:
    """Return the step of a link: about `size` across the axes, a little along them, turned about them."""
    angle, length = rng.uniform(-np.pi, np.pi), size * rng.uniform(0.7, 1.3)
    c, s = np.cos(angle), np.sin(angle)
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]])
    return Pose(turn, (length, 0.0, rng.uniform(-0.1, 0.1)))


TOPOLOGIES = {
    "four-bar": ((("crank", "", "R"), ("coupler", "crank", "R"), ("rocker", "", "R")), (("coupler", "rocker", "pin"),)),
    "five-bar": (
        (("a", "", "R"), ("b", "a", "R"), ("c", "", "R"), ("d", "c", "R")),
        (("b", "d", "pin"),),
    ),
    "slider-crank": ((("crank", "", "R"), ("rod", "crank", "R"), ("slider", "", "P")), (("rod", "slider", "pin"),)),
    "slide": ((("a", "", "R"), ("b", "a", "R"), ("c", "", "R")), (("c", "b", "slide"),)),
    "two loops": (
        (("crank", "", "R"), ("coupler", "crank", "R"), ("rocker", "", "R"), ("arm", "rocker", "R"), ("leg", "", "R")),
        (("coupler", "rocker", "pin"), ("arm", "leg", "pin")),
    ),
    "weld": (
        (("crank", "", "R"), ("coupler", "crank", "R"), ("end", "coupler", "R"), ("rocker", "", "R")),
        (("end", "rocker", "weld"),),
    ),
    "welded ring": (
        (
            ("a", "", "R"),
            ("b", "a", "R"),
            ("c", "b", "R"),
            ("d", "c", "R"),
            ("e", "d", "P"),
            ("f", "e", "R"),
            ("g", "f", "R"),
        ),
        (("g", "carrier", "weld"),),
    ),
    "ball": (
        (("crank", "", "R"), ("u", "crank", "R"), ("v", "u", "R"), ("rocker", "", "R")),
        (("v", "rocker", "ball"),),
    ),
}
"""Joints (name, parent joint, kind) and loops (first, second, kind)."""

DEPENDENT = {
    "four-bar": [("coupler", "rocker")],
    "five-bar": [("b", "d")],
    "slider-crank": [("rod", "slider")],
    "slide": [("b", "c")],
    "two loops": [("coupler", "rocker"), ("arm", "leg")],
    "ball": [("u", "v", "rocker")],
    "weld": [("coupler", "end", "rocker")],
    "welded ring": [("b", "c", "d", "e", "f", "g")],
}


def linkage(topology: str, seed: int) -> Robot:
    """Return a linkage closed at its random home; every second one is on a turret, gravity has any direction."""
    rng = np.random.default_rng([sorted(TOPOLOGIES).index(topology), seed])
    tree_joints, loops = TOPOLOGIES[topology]
    joints = [Joint("turret", "revolute", "base", "turret_link", Pose(random_rotation(rng)), Z)] if seed % 2 else []
    carrier = "turret_link" if joints else "base"
    mount = Pose(random_rotation(rng), rng.uniform(-0.3, 0.3, 3))
    for name, parent, kind in tree_joints:
        origin = mount @ in_plane(rng) if parent == "" else in_plane(rng)
        if topology in ("ball", "welded ring"):
            origin = origin @ Pose(random_rotation(rng))
        axis = Z if kind == "R" else np.array([np.cos(seed), np.sin(seed), 0.0])
        on = carrier if parent == "" else f"{parent}_link"
        joints.append(Joint(name, "revolute" if kind == "R" else "prismatic", on, f"{name}_link", origin, axis))
    links = tuple(Link(joint.child, random_phi(rng)) for joint in joints)
    tree = Robot(f"{topology} {seed}", Link("base"), tuple(joints), links, rng.normal(size=3) * 5)
    home = rng.uniform(-1, 1, len(joints))
    poses = dict(zip(tree.link_names, moving_link_poses(tree, home), strict=True)) | {"base": IDENTITY}
    closures = []
    for k, (first, second, kind) in enumerate(loops):
        first_pose = in_plane(rng)
        if kind == "slide":  # along an axis in the plane
            first_pose = first_pose @ Pose(np.array([[0, 0, 1.0], [1, 0, 0], [0, 1, 0]]))
        slid = Pose(None, (0, 0, rng.uniform(-0.2, 0.2) if kind == "slide" else 0.0))
        other = carrier if second == "carrier" else f"{second}_link"
        closing = poses[f"{first}_link"] @ first_pose @ slid
        second_pose = poses[other].inverse() @ closing
        closures.append(Loop(f"loop{k}", f"{first}_link", other, first_pose, second_pose, DEPENDENT[topology][k], kind))
    return replace(tree, loops=tuple(closures), home=home)
