"""Pins, slides, balls and welds of closed loops as equations c(q) = 0, and the choice of primary joints.

A loop brings two poses together. With R = R1^T R2, and d = R1^T (p2 - p1) divided by the loop's length, c is

    pin    d, and x and y of the second z axis in the first pose       5 equations
    slide  x and y of d, and the axial vector of R                     5
    ball   d                                                           3
    weld   d, and the axial vector of R                                6

In a planar loop, some of these equations are redundant. Positions of mimic joints are ignored: c is a function of the
joints that they follow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import casadi
import numpy as np

from mindyn.equations.batch_evaluation import evaluate_batch
from mindyn.equations.chain import SX, Chain, JointPlacement, constant, kinematic_chain
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, RobotError
from mindyn.parameters.parallelogram import branches
from mindyn.robots.mimics import MimicMap, mimic_map
from mindyn.robots.parts import Loop, LoopKind
from mindyn.robots.robot import Robot

EQUATIONS_PER_KIND: Final = {"pin": 5, "slide": 5, "ball": 3, "weld": 6}
"""Number of equations by the kind of closing joint."""

PARALLEL_AXIS_KINDS: Final = ("slide", "weld")
"""Kinds whose two poses have parallel axes."""


def open_tree(robot: Robot) -> Robot:
    """Return the robot with every loop cut at its closing joint, so that all joints move independently."""
    return replace(robot, loops=(), mimics=(), home=None)


def loop_dependents(robot: Robot) -> tuple[int, ...]:
    """Return the joints that follow from the others by loops, in the order of q."""
    named = [name for loop in robot.loops for name in loop.dependent]
    if repeated := {name for name in named if named.count(name) > 1}:
        joints = ", ".join(sorted(repeated))
        raise RobotError(
            f"a joint can depend on one loop only; {joints} is in several", code=Code.DUPLICATE, subject=joints
        )
    return tuple(sorted(robot.joint_index(name) for name in named))


def dependent_joints(robot: Robot) -> tuple[int, ...]:
    """Return the joints that follow from others, through loops or as mimic joints, in the order of q."""
    return tuple(robot.joint_index(name) for name in robot.dependent_names)


def primary_joints(robot: Robot) -> tuple[int, ...]:
    """Return the joints that move independently, in the order of q."""
    return tuple(robot.joint_index(name) for name in robot.primary_names)


@dataclass(frozen=True)
class ClosingEquations:
    """The closing joints of a robot's loops as equations of its joint positions.

    residual  casadi.Function q -> c (m,), without unit
    jacobian  q -> J (m, n), dc/dq; columns of mimic joints are zero, because they are added to the columns of the
              joints that they follow
    bias      q, qd -> (dJ/dt) qd
    lengths   (loops,) the length by which each loop's distances are divided, m
    facing    q -> (loops,) 1 + trace R if c requires R = 1: zero at half turns, where c vanishes too; else 1
    units     (n,) unit of each joint: 1 rad, or for a prismatic joint the length of its loops, m
    kept      for each loop S (., r): its equations are S^T c; the other directions of c are play
    """

    robot: Robot
    residual: Any
    jacobian: Any
    bias: Any
    facing: Any
    lengths: Array
    units: Array
    kept: tuple[Array, ...]

    @cached_property
    def rows(self) -> tuple[slice, ...]:
        """Numbers of the rows of c that belong to each loop."""
        ends = np.cumsum([0, *(S.shape[1] for S in self.kept)])
        return tuple(slice(int(a), int(b)) for a, b in pairwise(ends))

    @cached_property
    def mimics(self) -> MimicMap:
        """How mimic joints follow the others."""
        return mimic_map(self.robot)

    @cached_property
    def loop_joints(self) -> tuple[tuple[int, ...], ...]:
        """For each loop, the joints that move it, without its closing joint.

        Mimic joints are replaced by the joints that they follow.
        """
        return tuple(_find_moving_joints(self.robot, self.mimics, loop) for loop in self.robot.loops)

    def gaps(self, q: Array) -> Array:
        """Return the opening (N, loops) of each loop, m.

        Angles between the loop's axes are converted to m by the loop's length.
        """
        c = evaluate_batch(self.residual, q)[:, :, 0]
        sizes = [np.linalg.norm(c[:, rows], axis=1) for rows in self.rows]
        return np.asarray(np.stack(sizes, axis=1) * self.lengths)


def closing_equations(robot: Robot, kept: tuple[Array, ...] | None = None) -> ClosingEquations:
    """Return the equations of all loops of a robot. Raise an error if the robot, or a loop, has no dependent joints.

    `kept` is as in `ClosingEquations`; all of c by default.
    """
    if not robot.loops:
        raise RobotError(f"robot {robot.name!r} has no closed loop", code=Code.UNSUPPORTED, subject=robot.name)
    mimics = mimic_map(robot)
    for loop in robot.loops:
        _require_dependents_in_loop(robot, mimics, loop)
    q, qd = casadi.SX.sym("q", len(robot.joints)), casadi.SX.sym("qd", len(robot.joints))
    lengths = np.array([_loop_length(robot, loop) for loop in robot.loops])
    kept = tuple(np.eye(EQUATIONS_PER_KIND[loop.kind]) for loop in robot.loops) if kept is None else kept
    c = closing_residual(robot, mimics, q, lengths, kept)
    J = casadi.jacobian(c, q)
    bias = casadi.jtimes(casadi.jtimes(c, q, qd), q, qd)
    return ClosingEquations(
        robot,
        casadi.Function("residual", [q], [casadi.densify(casadi.cse(c))]),
        casadi.Function("jacobian", [q], [casadi.densify(casadi.cse(J))]),
        casadi.Function("bias", [q, qd], [casadi.densify(casadi.cse(bias))]),
        casadi.Function("facing", [q], [casadi.densify(_axis_alignments(robot, mimics, q))]),
        lengths,
        np.array([1.0 if joint.kind == "revolute" else lengths.max() for joint in robot.joints]),
        kept,
    )


def closing_residual(robot: Robot, mimics: MimicMap, q: SX, lengths: Array, kept: tuple[Array, ...]) -> SX:
    """Return c (m,) at q (n,), restricted to `kept`. Entries of q for mimic joints are ignored."""
    ends = _loop_ends(robot, mimics, q)
    residuals = []
    for loop, poses, length, S in zip(robot.loops, ends, lengths, kept, strict=True):
        c = _closing_residual(loop.kind, *poses, float(length))
        residuals.append(c if np.array_equal(S, np.eye(len(S))) else constant(S.T) @ c)
    return casadi.vertcat(*residuals)


def _axis_alignments(robot: Robot, mimics: MimicMap, q: SX) -> SX:
    turned = [1 + casadi.trace(first[0].T @ second[0]) for first, second in _loop_ends(robot, mimics, q)]
    kinds = [loop.kind for loop in robot.loops]
    return casadi.vertcat(
        *(value if kind in PARALLEL_AXIS_KINDS else 1 for value, kind in zip(turned, kinds, strict=True))
    )


def _loop_ends(robot: Robot, mimics: MimicMap, q: SX) -> list[tuple[tuple[SX, SX], tuple[SX, SX]]]:
    """Return rotation and origin of the two poses of every loop."""
    chain = kinematic_chain(open_tree(robot))
    free = casadi.vertcat(*(q[i] for i in mimics.free))
    joints = chain.at(constant(mimics.matrix) @ free + constant(mimics.offset))
    ends = []
    for loop in robot.loops:
        first, second = branches(robot, loop)
        of_first = _loop_end(chain, joints, first, loop.first, loop.first_pose)
        ends.append((of_first, _loop_end(chain, joints, second, loop.second, loop.second_pose)))
    return ends


def _find_moving_joints(robot: Robot, mimics: MimicMap, loop: Loop) -> tuple[int, ...]:
    inside = sum(branches(robot, loop), ())
    return tuple(mimics.free[k] for k in np.flatnonzero(mimics.matrix[list(inside)].any(axis=0)))


def _require_dependents_in_loop(robot: Robot, mimics: MimicMap, loop: Loop) -> None:
    inside = [robot.joint_names[i] for i in _find_moving_joints(robot, mimics, loop)]
    if not loop.dependent:
        raise RobotError(
            f"loop {loop.name!r} has no dependent joints; its joints are: {', '.join(inside)}",
            code=Code.MISSING_VALUE,
            subject=loop.name,
        )
    if strangers := [name for name in loop.dependent if name not in inside]:
        raise RobotError(
            f"joint {strangers[0]!r} is not part of loop {loop.name!r}; its joints are: {', '.join(inside)}",
            code=Code.UNKNOWN_NAME,
            subject=strangers[0],
        )


def _loop_length(robot: Robot, loop: Loop) -> float:
    joints = sum(branches(robot, loop), ())
    poses = [X for i in joints for X in (robot.joints[i].origin, robot.joints[i].tip)]
    ends = (*poses, loop.first_pose, loop.second_pose)
    return float(max(np.linalg.norm(X.translation) for X in ends)) or 1.0


def _closing_residual(kind: LoopKind, first: tuple[SX, SX], second: tuple[SX, SX], length: float) -> SX:
    (R1, p1), (R2, p2) = first, second
    d = R1.T @ (p2 - p1) / length
    if kind == "ball":
        return d
    if kind == "pin":
        return casadi.vertcat(d, R1[:, :2].T @ R2[:, 2])
    R = R1.T @ R2
    axial = [(R[i, j] - R[j, i]) / 2 for i, j in ((2, 1), (0, 2), (1, 0))]
    return casadi.vertcat(d if kind == "weld" else d[:2], *axial)


def _loop_end(
    chain: Chain, joints: tuple[JointPlacement, ...], branch: tuple[int, ...], link: str, pose: Pose
) -> tuple[SX, SX]:
    """Return the rotation and the origin of a pose on a link, in the working frame of the link that carries both
    branches of the loop.
    """
    R, p = casadi.SX.eye(3), casadi.SX(3, 1)
    for i in branch:
        R, p = R @ joints[i].rotation, p + R @ joints[i].translation
    index = chain.robot.link_index(link)
    X = (chain.frames.root.inverse() if index < 0 else chain.frames.steps[index].link) @ pose
    return R @ constant(X.rotation), p + R @ constant(X.translation)
