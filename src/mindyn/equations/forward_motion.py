"""Forward motion of every frame: angular velocity, angular acceleration, and acceleration of the origin."""

from __future__ import annotations

from dataclasses import dataclass

import casadi

from mindyn.equations.chain import SX, Z_AXIS, Chain, JointPlacement, cross_matrix
from mindyn.equations.external_inputs import RootMotion


@dataclass(frozen=True, slots=True)
class LinkMotion:
    """Motion of a frame, with components in this frame; all (3, 1).

    w, wd  angular velocity, acceleration
    a      acceleration of the origin minus gravity
    v      velocity of the origin
    """

    w: SX
    wd: SX
    a: SX
    v: SX

    @property
    def squares(self) -> SX:
        """w w^T: its six products are used by Omega and by the moment of inertia forces."""
        return self.w @ self.w.T

    @property
    def omega(self) -> SX:
        """Omega = [wd] + [w][w], the matrix with a_P = a + Omega r for a point r of the body."""
        return omega_matrix(self.squares, casadi.densify(self.wd))


def omega_matrix(ww: SX, wd: SX) -> SX:
    """Return [wd] + [w][w] from w w^T and wd."""
    diagonal = [-(ww[1, 1] + ww[2, 2]), -(ww[0, 0] + ww[2, 2]), -(ww[0, 0] + ww[1, 1])]
    return casadi.vertcat(
        casadi.horzcat(diagonal[0], ww[0, 1] - wd[2], ww[0, 2] + wd[1]),
        casadi.horzcat(ww[0, 1] + wd[2], diagonal[1], ww[1, 2] - wd[0]),
        casadi.horzcat(ww[0, 2] - wd[1], ww[1, 2] + wd[0], diagonal[2]),
    )


def base_frame_motion(chain: Chain, root: RootMotion | None) -> LinkMotion:
    """Return the motion of the base working frame, at rest or with a moving root.

    An upward acceleration models gravity.

    The velocity v is relative to the root frame, because torques do not depend on a common velocity.
    """
    zero = casadi.SX(3, 1)
    if root is None:
        return LinkMotion(zero, zero, -chain.gravity, zero)
    moving = root.at(chain.frames.root)
    return LinkMotion(moving.w, moving.wd, moving.a - chain.gravity, zero)


def forward_motion(
    chain: Chain, joints: tuple[JointPlacement, ...], qd: SX, qdd: SX, root: RootMotion | None = None
) -> tuple[LinkMotion, ...]:
    """Return the motion of every link, w_i = R^T w_p + z qd_i and so on, from the root outwards."""
    first = base_frame_motion(chain, root)
    motions: list[LinkMotion] = []
    for i, joint in enumerate(joints):
        before = first if chain.parents[i] < 0 else motions[chain.parents[i]]
        motions.append(_next_motion(joint, before, qd[i], qdd[i]))
    return tuple(motions)


def _next_motion(joint: JointPlacement, before: LinkMotion, qd: SX, qdd: SX) -> LinkMotion:
    p = joint.translation
    w_p, wd_p = joint.to_child(before.w), joint.to_child(before.wd)
    a = joint.to_child(before.a + before.omega @ p)
    v = joint.to_child(before.v + cross_matrix(before.w) @ p)
    if joint.step.kind == "prismatic":
        # Coriolis: 2 w x z qd = 2 qd (w_y, -w_x, 0).
        along = casadi.vertcat(2 * qd * w_p[1], -2 * qd * w_p[0], qdd)
        return LinkMotion(w_p, wd_p, a + along, v + Z_AXIS * qd)
    spin = casadi.vertcat(w_p[1] * qd, -w_p[0] * qd, qdd)
    return LinkMotion(w_p + Z_AXIS * qd, wd_p + spin, a, v)


def spatial_velocities(chain: Chain, joints: tuple[JointPlacement, ...], qd: SX) -> tuple[LinkMotion, ...]:
    """Return a motion in which only the velocities are valid: its accelerations are those at qdd = 0."""
    return forward_motion(chain, joints, qd, casadi.SX(qd.shape[0], 1))
