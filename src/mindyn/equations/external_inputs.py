"""External inputs of inverse dynamics: the motion of the root, and a wrench at the tip."""

from __future__ import annotations

from dataclasses import dataclass

import casadi

from mindyn.equations.chain import SX, constant, cross
from mindyn.foundation.algebra.poses import Pose


@dataclass(frozen=True, slots=True)
class RootMotion:
    """Motion of a frame fixed to the root, with components in this frame; all (3, 1).

    w, wd  angular velocity and acceleration [Angeles et al. 1988, eq. 10-13: those of link 0]
    a      acceleration of its origin, without gravity
    """

    w: SX
    wd: SX
    a: SX

    def at(self, frame: Pose) -> RootMotion:
        """Return the motion of another frame fixed to the root, given the pose of that frame in this one."""
        R, p = constant(frame.rotation), constant(frame.translation)
        a = self.a + cross(self.wd, p) + cross(self.w, cross(self.w, p))
        return RootMotion(R.T @ self.w, R.T @ self.wd, R.T @ a)


def root_motion(column: SX) -> RootMotion:
    """Return the motion of the root frame from (9, 1): w, wd, a."""
    return RootMotion(column[0:3], column[3:6], column[6:9])


@dataclass(frozen=True, slots=True)
class ExternalInputs:
    """Optional inputs of inverse dynamics.

    root        motion of the root frame; None if it is at rest
    tip_wrench  (6, 1) moment and force on the last link of a serial robot, at its frame and in its components
    """

    root: RootMotion | None = None
    tip_wrench: SX | None = None

    def wrenches(self, joint_count: int) -> SX | None:
        """Return wrenches (n, 6) on all links; None if no wrench acts on the tip."""
        if self.tip_wrench is None:
            return None
        return casadi.vertcat(casadi.SX(joint_count - 1, 6), self.tip_wrench.T)


NO_EXTERNAL_INPUTS = ExternalInputs()
"""The root is at rest, and nothing acts on the tip."""
