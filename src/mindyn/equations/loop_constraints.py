"""The pins of closed loops as equations c(q) = 0, and which joints are primary.

For each loop c has five entries: distance of the two origins, in components of the first pose, over the loop's length;
and the components of the second z axis across the first. A planar loop makes some of them redundant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import casadi
import numpy as np

from mindyn.algebra.poses import Pose
from mindyn.algebra.values import Array
from mindyn.equations.chain import SX, Chain, constant, kinematic_chain
from mindyn.equations.kinematics import frame_placements
from mindyn.equations.loop_batches import evaluated
from mindyn.errors import RobotError
from mindyn.parameters.parallelogram import branches
from mindyn.robots.parts import Loop
from mindyn.robots.robot import Robot

PIN_EQUATIONS = 5
"""Equations of one pin: three of position, two of direction."""


def open_tree(robot: Robot) -> Robot:
    """The robot with every loop cut open at its pin."""
    return replace(robot, loops=())


def dependent_joints(robot: Robot) -> tuple[int, ...]:
    """Joints that follow from the others, in the order of q."""
    named = [name for loop in robot.loops for name in loop.dependent]
    if repeated := {name for name in named if named.count(name) > 1}:
        raise RobotError(f"a joint depends on one loop; {', '.join(sorted(repeated))} is named by several")
    return tuple(sorted(robot.joint_index(name) for name in named))


def primary_joints(robot: Robot) -> tuple[int, ...]:
    """Joints that move on their own, in the order of q."""
    return tuple(robot.joint_index(name) for name in robot.primary_names)


@dataclass(frozen=True)
class PinConstraints:
    """The pins of a robot's loops as equations of its joint positions.

    residual  casadi.Function q -> c (5 loops,), without unit
    jacobian  q -> J (5 loops, n), dc/dq
    bias      q, qd -> (dJ/dt) qd
    lengths   (loops,) the length by which each loop's distances are divided, m
    """

    robot: Robot
    residual: Any
    jacobian: Any
    bias: Any
    lengths: Array

    @cached_property
    def loop_joints(self) -> tuple[tuple[int, ...], ...]:
        """For each loop its joints, the pin left out."""
        return tuple(tuple(sorted((*a, *b))) for a, b in (branches(self.robot, loop) for loop in self.robot.loops))

    def gaps(self, q: Array) -> Array:
        """(N, loops): by how much each pin is open, m; the tilt of its axes counts by the loop's length."""
        c = evaluated(self.residual, q)[:, :, 0].reshape(len(q), -1, PIN_EQUATIONS)
        return np.asarray(np.linalg.norm(c, axis=2) * self.lengths)


def pin_constraints(robot: Robot) -> PinConstraints:
    """The equations of all loops of a robot; refuses a robot without loops, and a loop without dependent joints."""
    if not robot.loops:
        raise RobotError(f"robot {robot.name!r} has no closed loop")
    for loop in robot.loops:
        _require_dependents_in_loop(robot, loop)
    q, qd = casadi.SX.sym("q", robot.joint_count), casadi.SX.sym("qd", robot.joint_count)
    lengths = np.array([_length(robot, loop) for loop in robot.loops])
    chain = kinematic_chain(open_tree(robot))
    c = casadi.vertcat(
        *(_pin_residual(chain, q, loop, length) for loop, length in zip(robot.loops, lengths, strict=True))
    )
    J = casadi.jacobian(c, q)
    bias = casadi.jtimes(casadi.jtimes(c, q, qd), q, qd)
    return PinConstraints(
        robot,
        casadi.Function("residual", [q], [casadi.densify(casadi.cse(c))]),
        casadi.Function("jacobian", [q], [casadi.densify(casadi.cse(J))]),
        casadi.Function("bias", [q, qd], [casadi.densify(casadi.cse(bias))]),
        lengths,
    )


def _require_dependents_in_loop(robot: Robot, loop: Loop) -> None:
    inside = [robot.joint_names[i] for i in sorted(sum(branches(robot, loop), ()))]
    if not loop.dependent:
        raise RobotError(f"loop {loop.name!r} names no dependent joints; its joints are: {', '.join(inside)}")
    if strangers := [name for name in loop.dependent if name not in inside]:
        raise RobotError(
            f"joint {strangers[0]!r} is no part of loop {loop.name!r}; its joints are: {', '.join(inside)}"
        )


def _length(robot: Robot, loop: Loop) -> float:
    joints = sum(branches(robot, loop), ())
    poses = [X for i in joints for X in (robot.joints[i].origin, robot.joints[i].tip)]
    ends = (*poses, loop.first_pose, loop.second_pose)
    return float(max(np.linalg.norm(X.translation) for X in ends)) or 1.0


def _pin_residual(chain: Chain, q: SX, loop: Loop, length: float) -> SX:
    placed = frame_placements(chain, chain.at(q))
    R1, p1 = _end(chain, placed, loop.first, loop.first_pose)
    R2, p2 = _end(chain, placed, loop.second, loop.second_pose)
    return casadi.vertcat(R1.T @ (p2 - p1) / length, R1[:, :2].T @ R2[:, 2])


def _end(chain: Chain, placed: list[tuple[SX, SX]], link: str, pose: Pose) -> tuple[SX, SX]:
    """Rotation and origin of a pose on a link, in the base working frame."""
    index = chain.robot.link_index(link)
    if index < 0:
        X = chain.frames.root.inverse() @ pose
        return constant(X.rotation), constant(X.translation)
    X = chain.frames.steps[index].link @ pose
    R, p = placed[index]
    return R @ constant(X.rotation), p + R @ constant(X.translation)
