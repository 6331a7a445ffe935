"""The chain that an equation is traced on: working frames, symbols of motion, and link parameters.

Vectors are casadi.SX columns. `R` converts components in the child frame to components in the parent frame: v_p = R
v_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi
import numpy as np

from mindyn.foundation.algebra.rotations import ROTATION_ROUNDING, skew
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.notation import PARAMETERS_PER_LINK, TENSOR_INDICES
from mindyn.parameters.reduced import reduced_parameters
from mindyn.robots.joint_frames import Step, WorkingFrames, source_frames, working_frames
from mindyn.robots.robot import Robot

SX = Any
"""casadi.SX; CasADi has no type information."""

Z_AXIS = casadi.SX([0, 0, 1])


def constant(value: Array) -> SX:
    """Return a constant whose zeros are structural, so that products with these zeros do not appear in the equation."""
    return casadi.sparsify(casadi.SX(casadi.DM(np.asarray(value, dtype=float))))


def count_instructions(expression: SX) -> int:
    """Return the number of instructions of an expression."""
    return int(casadi.Function("size", casadi.symvar(expression), [expression]).n_instructions())


def cross(a: SX, b: SX) -> SX:
    """Return a x b."""
    return casadi.cross(casadi.densify(a), casadi.densify(b))


def cross_matrix(v: SX) -> SX:
    """Return [v] with [v] u = v x u."""
    return casadi.skew(casadi.densify(v))


@dataclass(frozen=True, slots=True)
class Body:
    """A rigid body in its frame: mass, first moment (3, 1), inertia tensor about the origin (3, 3)."""

    mass: SX
    moment: SX
    tensor: SX


def make_body(phi: SX) -> Body:
    """Return the body of ten standard parameters."""
    tensor = casadi.SX(3, 3)
    for k, (row, column) in enumerate(TENSOR_INDICES, start=4):
        tensor[row, column] = tensor[column, row] = phi[k]
    return Body(phi[0], phi[1:4], tensor)


@dataclass(frozen=True, slots=True)
class JointPlacement:
    """A joint at a position: a rotation by the joint angle about z, then the constant rotation to the parent frame.

    c, s         cos and sin of the joint angle; 1, 0 for a prismatic joint
    translation  (3, 1) origin of frame i in the parent frame
    """

    step: Step
    c: SX
    s: SX
    translation: SX

    def to_parent(self, v: SX) -> SX:
        """Return the components of v in the parent frame: R v = A Rz v."""
        return constant(self.step.rotation) @ self._turn(v, self.s)

    def to_child(self, v: SX) -> SX:
        """Return the components of v in the child frame: R^T v."""
        return self._turn(constant(self.step.rotation.T) @ v, -self.s)

    def _turn(self, v: SX, s: SX) -> SX:
        if self.step.kind == "prismatic":
            return v
        return casadi.vertcat(self.c * v[0] - s * v[1], s * v[0] + self.c * v[1], v[2])

    def tensor_to_parent(self, J: SX) -> SX:
        """Return R J R^T of a symmetric tensor; the rotation about z takes 8 multiplications."""
        A = constant(self.step.rotation)
        return share_lower_triangle(A @ self._turn_tensor(J) @ A.T)

    def _turn_tensor(self, J: SX) -> SX:
        if self.step.kind == "prismatic":
            return J
        c, s = self.c, self.s
        v = s * (J[0, 0] - J[1, 1]) + 2 * c * J[0, 1]
        xx, yy, xy = J[0, 0] - s * v, J[1, 1] + s * v, c * v - J[0, 1]
        xz, yz = c * J[0, 2] - s * J[1, 2], s * J[0, 2] + c * J[1, 2]
        return symmetric_matrix(xx, xy, yy, xz, yz, J[2, 2])

    @property
    def rotation(self) -> SX:
        """The matrix R."""
        return casadi.horzcat(*(self.to_parent(casadi.SX(unit)) for unit in np.eye(3)))


def symmetric_matrix(xx: SX, xy: SX, yy: SX, xz: SX, yz: SX, zz: SX) -> SX:
    """Return the symmetric matrix of its six entries."""
    return casadi.vertcat(casadi.horzcat(xx, xy, xz), casadi.horzcat(xy, yy, yz), casadi.horzcat(xz, yz, zz))


def share_lower_triangle(J: SX) -> SX:
    """Return J with its lower triangle copied from the upper one, so that equal entries are the same expression."""
    J = casadi.densify(J)
    return symmetric_matrix(J[0, 0], J[0, 1], J[1, 1], J[0, 2], J[1, 2], J[2, 2])


@dataclass(frozen=True)
class Chain:
    """A robot that is ready to be traced.

    `bodies` are its links in their working frames, as constants or expressions.
    """

    robot: Robot
    frames: WorkingFrames
    bodies: tuple[Body, ...]

    @property
    def parents(self) -> tuple[int, ...]:
        """Index of the parent joint, -1 for the root."""
        return self.robot.parents

    def at(self, q: SX) -> tuple[JointPlacement, ...]:
        """Return the placement of every joint at positions q (n, 1)."""
        return tuple(_place_joint(step, q[i]) for i, step in enumerate(self.frames.steps))

    @property
    def gravity(self) -> SX:
        """Gravity (3, 1) in the base working frame."""
        return constant(self.frames.gravity)


def _place_joint(step: Step, q: SX) -> JointPlacement:
    p = constant(step.translation)
    if step.kind == "prismatic":
        return JointPlacement(step, casadi.SX(1), casadi.SX(0), p + constant(step.rotation[:, 2]) * q)
    angle = q + step.offset if step.offset else q
    return JointPlacement(step, casadi.cos(angle), casadi.sin(angle), p)


def reduced_chain(robot: Robot) -> Chain:
    """Return the chain with base values as link parameters: the same torques from the fewest parameters."""
    frames = working_frames(robot)
    return Chain(robot, frames, tuple(make_body(_numbers(phi)) for phi in reduced_parameters(robot, frames)))


def standard_chain(robot: Robot, *, moved: bool = True) -> Chain:
    """Return the chain with the robot's ten parameters of each link.

    Without `moved`, the frames are those of the source.
    """
    frames = working_frames(robot) if moved else source_frames(robot)
    phis = robot.phi.reshape(-1, PARAMETERS_PER_LINK)
    return Chain(
        robot, frames, tuple(make_body(_move_parameters(s, p)) for s, p in zip(frames.steps, phis, strict=True))
    )


def symbolic_chain(robot: Robot, phi: SX, *, moved: bool = True) -> Chain:
    """Return the chain with parameters phi (10 n, 1), expressions in the source's link frames."""
    frames = working_frames(robot) if moved else source_frames(robot)
    parts = [phi[PARAMETERS_PER_LINK * i : PARAMETERS_PER_LINK * (i + 1)] for i in range(len(robot.joints))]
    placed = [p if s.link.is_identity else constant(s.phi_map) @ p for s, p in zip(frames.steps, parts, strict=True)]
    return Chain(robot, frames, tuple(make_body(casadi.densify(phi_in_frame)) for phi_in_frame in placed))


def kinematic_chain(robot: Robot) -> Chain:
    """Return the chain of a robot for equations without parameters."""
    return Chain(robot, working_frames(robot), ())


def _numbers(phi: Array) -> SX:
    return casadi.SX(casadi.DM(phi))


def _move_parameters(step: Step, phi: Array) -> SX:
    """Return parameters in the working frame.

    Rounding errors near zero become zero, so that they do not appear in the equation.
    """
    if step.link.is_identity:
        return _numbers(phi)
    moved = step.phi_map @ phi
    noise = ROTATION_ROUNDING * (np.abs(step.phi_map) @ np.abs(phi))
    return _numbers(np.where(np.abs(moved) <= noise, 0.0, moved))


def wrench_to_working(step: Step, wrench: SX) -> tuple[SX, SX]:
    """Return the moment and the force at the working frame of a wrench (6, 1) (moment, force) that is given at the
    source link frame.
    """
    R, p = constant(step.link.rotation), step.link.translation
    force = R @ wrench[3:6]
    return R @ wrench[0:3] + constant(skew(p)) @ force, force
