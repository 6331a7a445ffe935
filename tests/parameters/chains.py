"""Random serial chains full of special cases: parallel and coincident axes, axes through one point, sliding joints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from closeness import ORACLE, assert_close, assert_negligible
from parameters.oracle import assert_spans_row_space, sample_rows
from robots import random_motion, random_phi, random_pose, random_rotation, with_link_frames

from mindyn.equations.catalogue import build_equation
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.rotations import cos_sin, rot_x, rot_z
from mindyn.parameters.structural import structural_base
from mindyn.robots.parts import Joint, Link
from mindyn.robots.robot import Robot

RIGHT = (0.0, np.pi / 2, -np.pi / 2, np.pi)
ANY = (*RIGHT, 0.7, -1.2)


def random_chain(seed: int, twists=ANY, kinds=("revolute", "revolute", "prismatic"), gravity=None) -> Robot:
    """A chain of 1 to 6 joints: a parallel prefix of any length, then the given twists between revolute axes.

    Prismatic joints point anywhere and do not turn the frame, so they may stand before, between and after. Gravity is
    along the first revolute axis, oblique, or none; half of the robots have link frames off the joint frames.
    """
    rng = np.random.default_rng(seed)
    n = 1 + seed % 6
    prefix = int(rng.integers(0, n + 1)) if rng.random() < 0.6 else 0
    R_root = random_rotation(rng) if rng.random() < 0.3 else np.eye(3)
    through_one_point = rng.random() < 0.3
    reach, joints = 0.0, []
    for i in range(n):
        kind = str(rng.choice(kinds))
        turned = any(joint.kind == "revolute" for joint in joints)
        R = _turn(rng, twists, parallel=i < prefix) if turned and kind == "revolute" else np.eye(3)
        along = float(rng.choice([0.0, 0.4]))
        offset = rng.uniform(-0.6, 0.6, 3) * rng.integers(0, 2, 3)
        if through_one_point:
            offset = R @ [0.0, 0.0, along] - [0.0, 0.0, reach]
            reach = along
        origin = Pose(R_root if i == 0 else None) @ Pose(R, offset)
        axis = np.array([0.0, 0.0, 1.0]) if kind == "revolute" else _slide(rng)
        parent = joints[-1].child if joints else "base"
        joints.append(Joint(f"joint{i + 1}", kind, parent, f"link{i + 1}", origin, axis))
    links = tuple(Link(joint.child, random_phi(rng)) for joint in joints)
    choices = (-9.81 * R_root[:, 2], np.array([1.0, 2.0, -9.0]), np.zeros(3))
    g = choices[int(rng.integers(0, 3))] if gravity is None else np.array(gravity)
    robot = Robot(f"chain{seed}", Link("base"), tuple(joints), links, g)
    return with_link_frames(robot, seed) if rng.random() < 0.5 else robot


def _turn(rng, twists, *, parallel: bool):
    twist = float(rng.choice((0.0, np.pi) if parallel else twists))
    return rot_x(*cos_sin(twist)) @ rot_z(*cos_sin(float(rng.choice([0.0, np.pi / 2, 0.7]))))


def _slide(rng):
    axis = np.eye(3)[int(rng.integers(0, 3))] if rng.random() < 0.7 else rng.normal(size=3)
    return axis / np.linalg.norm(axis)


def random_tree(seed: int) -> Robot:
    """A random chain with another one grown on one of its links."""
    trunk, branch = random_chain(seed), random_chain(seed + 1)
    rng = np.random.default_rng(seed)
    root = trunk.links[int(rng.integers(0, trunk.joint_count))].name
    new = {link.name: f"branch_{link.name}" for link in branch.links} | {"base": root}
    grown = tuple(
        replace(joint, name=f"branch_{joint.name}", parent=new[joint.parent], child=new[joint.child])
        for joint in branch.joints
    )
    links = tuple(replace(link, name=new[link.name]) for link in branch.links)
    first = replace(grown[0], origin=random_pose(rng)) if rng.random() < 0.3 else grown[0]
    return replace(trunk, joints=(*trunk.joints, first, *grown[1:]), links=(*trunk.links, *links))


def assert_equals_structural(base) -> None:
    """The same count as the structural set, and conversions there and back are inverse to each other."""
    structural = structural_base(base.robot)
    assert base.count == structural.count, f"{base.robot!r}: {base.count} parameters, structural {structural.count}"
    there, back = base.transform_to(structural), structural.transform_to(base)
    assert_negligible(there @ back - np.eye(base.count), np.abs(there).max() * np.abs(back).max(), ORACLE)


def assert_equals_sampled(bases, seed: int) -> None:
    """Sets of one robot have the count and span of the sampled torque regressor of Pinocchio."""
    rows = sample_rows(bases[0].robot, seed, samples=40)
    for base in bases:
        assert_spans_row_space(base.matrix, rows)


def assert_reproduces_torques(base, seed: int) -> None:
    """Any phi with the same base values has the same torques; here E beta, which is far from the robot's own."""
    q, qd, qdd = random_motion(base.robot, seed)
    torque = build_equation(base.robot, "inverse_dynamics", parameters="input")
    other = base.embedding @ base.values
    assert np.abs(other - base.robot.phi).max() > 0.1
    assert_close(np.array(torque(q, qd, qdd, other)), np.array(torque(q, qd, qdd, base.robot.phi)), ORACLE)
