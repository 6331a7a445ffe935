"""Parallel robots and six-bar linkages that are closed at q = 0 by construction, with random links from a seed."""

from __future__ import annotations

import numpy as np
from robots import random_phi

from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.robots.parts import Drive, Joint, Limits, Link, Loop
from mindyn.robots.robot import Robot

X, Y, Z = np.eye(3)


class Builder:
    """Builder that adds joints and loops by their poses in the world at q = 0."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.joints, self.loops, self.world = [], [], {"base": IDENTITY}

    def add(self, name, parent, point, axis=Z, kind="revolute", limits=None, x=None):
        """Add a joint at a point of the world that turns about (or slides along) an axis; its link has its name."""
        pose = Pose(frame_along(axis, x), point)
        origin = self.world[parent].inverse() @ pose
        self.joints.append(Joint(name, kind, parent, name, origin, Z, IDENTITY, limits or Limits()))
        self.world[name] = pose
        return name

    def close(self, first, second, point, dependent, kind="pin", axis=Z):
        pose = Pose(frame_along(axis), point)
        ends = (self.world[link].inverse() @ pose for link in (first, second))
        self.loops.append(Loop(f"loop{len(self.loops)}", first, second, *ends, tuple(dependent), kind))

    def robot(self, name, gravity=(0.0, 0.0, -9.81), with_drives=False):
        links = tuple(Link(joint.child, random_phi(self.rng)) for joint in self.joints)
        tree = Robot(name, Link("base"), tuple(self.joints), links, np.array(gravity))
        home = np.zeros(len(links))
        dependent = [joint for loop in self.loops for joint in loop.dependent]
        names = [joint for joint in tree.joint_names if joint not in dependent] if with_drives else []
        driven = tuple(Drive(joint, 10.0, {}, 1e-3, 0.02, 0.1) for joint in names)
        return Robot(
            name, tree.root, tree.joints, tree.links, tree.gravity, loops=tuple(self.loops), home=home, drives=driven
        )


def frame_along(axis, x=None):
    """Return a rotation with z along `axis`."""
    z = np.asarray(axis, dtype=float) / np.linalg.norm(axis)
    x = np.eye(3)[np.argmin(np.abs(z))] if x is None else x
    x = x - (x @ z) * z
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


SIX_BARS = {
    # joints: (name, parent, point); loops: (first, second, point, dependent). The base is one of the links.
    "watt-1": (
        [("a", "base", "A"), ("b", "a", "B"), ("c", "base", "D"), ("d", "b", "E"), ("e", "c", "F")],
        [("b", "c", "C", "bc"), ("d", "e", "G", "de")],
    ),
    "watt-2": (
        [("a", "base", "A"), ("b", "a", "B"), ("c", "base", "D"), ("d", "c", "F"), ("e", "base", "H")],
        [("b", "c", "C", "bc"), ("d", "e", "G", "de")],
    ),
    "stephenson-1": (
        [("a", "base", "A"), ("b", "a", "B"), ("c", "base", "D"), ("d", "a", "E"), ("e", "c", "F")],
        [("b", "c", "C", "bc"), ("d", "e", "G", "de")],
    ),
    "stephenson-2": (
        [("a", "base", "A"), ("b", "a", "B"), ("c", "base", "D"), ("d", "b", "E"), ("e", "c", "F")],
        [("b", "e", "C", "be"), ("d", "c", "G", "cd")],
    ),
    "stephenson-3": (
        [("a", "base", "A"), ("b", "a", "B"), ("c", "base", "D"), ("d", "b", "E"), ("e", "base", "H")],
        [("b", "c", "C", "bc"), ("d", "e", "G", "de")],
    ),
}
POINTS = {
    "A": (0.0, 0.0),
    "B": (0.05, 0.12),
    "C": (0.55, 0.45),
    "D": (0.6, 0.0),
    "E": (0.25, 0.55),
    "F": (0.85, 0.4),
    "G": (0.75, 0.95),
    "H": (1.2, 0.3),
}


def six_bar(name, seed=0, *, reach=0.6, with_drives=True):
    """Return a planar linkage of one degree of freedom in a vertical plane; the seed moves its points."""
    built = Builder(seed)
    at = {key: np.array([*point + built.rng.uniform(-0.03, 0.03, 2), 0.0]) for key, point in POINTS.items()}
    joints, loops = SIX_BARS[name]
    for joint, parent, point in joints:
        built.add(joint, parent, at[point], limits=Limits(-reach, reach) if joint == "a" else None)
    for first, second, point, dependent in loops:
        built.close(first, second, at[point], dependent)
    return built.robot(f"{name} {seed}", (0.0, -9.81, 0.0), with_drives)


def three_rrr(seed=0):
    """Return a planar platform of three degrees of freedom in a vertical plane."""
    built = Builder(seed)
    turns = [np.array([np.cos(a), np.sin(a), 0.0]) for a in 2 * np.pi / 3 * np.arange(3) + 0.2]
    for k, u in enumerate(turns, 1):
        side = np.cross(Z, u)
        built.add(f"a{k}", "base", 0.6 * u)
        built.add(f"b{k}", f"a{k}", 0.45 * u + 0.3 * side)
        if k == 1:
            built.add("platform", "b1", 0.15 * u)
        else:
            built.close(f"b{k}", "platform", 0.15 * u, [f"b{k}", "platform" if k == 2 else "b1"])
    return built.robot(f"3-RRR {seed}", (0.0, -9.81, 0.0))


def delta(seed=0):
    """Return a Delta robot: three arms, each with a rod between two universal joints; the platform does not turn."""
    built = Builder(seed)
    for k, a in enumerate(2 * np.pi / 3 * np.arange(3), 1):
        u, side = np.array([np.cos(a), np.sin(a), 0.0]), np.array([-np.sin(a), np.cos(a), 0.0])
        elbow, wrist = 0.4 * u - 0.1 * Z, 0.06 * u - 0.6 * Z
        across = np.cross(side, wrist - elbow)
        built.add(f"arm{k}", "base", 0.2 * u, side)
        built.add(f"u{k}", f"arm{k}", elbow, side)
        built.add(f"rod{k}", f"u{k}", elbow, across)
        built.add(f"v{k}", f"rod{k}", wrist, across)
        built.add(f"w{k}", f"v{k}", wrist, side)
        joints = [f"{letter}{k}" for letter in "uvw"] + [f"rod{k}"]
        if k > 1:
            built.close(f"w{k}", "w1", wrist, [*joints, *(("u1", "rod1") if k == 2 else ("v1", "w1"))], "weld")
    return built.robot(f"Delta {seed}")


def stewart(seed=0, *, limits=True):
    """Return a 6-UPS platform: six sliding legs between universal joints of the base and balls of the platform."""
    built = Builder(seed)
    rng = built.rng
    low = [0.5 * np.array([np.cos(a), np.sin(a), 0]) for a in np.deg2rad([10, 110, 130, 230, 250, 350])]
    high = [0.25 * np.array([np.cos(a), np.sin(a), 0]) + 0.6 * Z for a in np.deg2rad([50, 70, 170, 190, 290, 310])]
    low, high = ([point + rng.uniform(-0.02, 0.02, 3) for point in points] for points in (low, high))
    slides = Limits(-0.1, 0.1) if limits else None
    platform = ("sx", "sy", "platform")
    for k, (a, b) in enumerate(zip(low, high, strict=True), 1):
        along = b - a
        first = np.cross(along, X)
        built.add(f"u{k}", "base", a, first)
        built.add(f"v{k}", f"u{k}", a, np.cross(along, first))
        built.add(f"leg{k}", f"v{k}", a, along, "prismatic", slides)
        if k == 1:
            for axis, name, parent in zip((X, Y, Z), platform, ("leg1", *platform), strict=False):
                built.add(name, parent, b, axis)
        else:
            built.close(f"leg{k}", "platform", b, [f"u{k}", f"v{k}", ("u1", "v1", *platform)[k - 2]], "ball")
    return built.robot(f"6-UPS {seed}")


PARALLEL_ROBOTS = {"3-RRR": three_rrr, "Delta": delta, "6-UPS": stewart}
