"""Express the motion of all joints of a robot with loops: Newton steps from a start, then W and Wdot pd.

    q_d <- q_d - J_d^-1 c(q)         NEWTON_STEPS times, from the given positions of the dependent joints
    W_d = -J_d^-1 J_p                qd = W pd,  qdd = W pdd + Wdot pd,  (Wdot pd)_d = -J_d^-1 Jdot qd

The number of steps is fixed, so that samples are independent of each other and take equal time. A start with an error
of 1e-4 rad has only a rounding error after these steps. The remaining c and the regularity of J_d are outputs of every
sample: if the loop did not close, or is nearly singular, the result is marked instead of being wrong without a message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import casadi

from mindyn.equations.chain import SX, constant
from mindyn.equations.loop_closure import home_closure
from mindyn.robots.robot import Robot

NEWTON_STEPS: Final = 2
"""Newton steps of a kernel."""

CLOSURE: Final = "closure"
"""Name of the output that says how well the loops are closed. Its entries are |c| and 1 / |J_d^-1|, which is at most
the smallest singular value of J_d; both have no unit.
"""

MAX_CLOSURE_ERROR: Final = 1e-9
"""|c| above which a loop counts as open, in float64; the torque error is about as large as |c|."""

MIN_REGULARITY: Final = 5e-4
"""s = 1 / |J_d^-1| below which a result is rejected. Rounding moves the dependent joints by eps / s; W and the torques
then change by eps / s^2 relative to their size, which is 1e-9 here.
"""


@dataclass(frozen=True, slots=True)
class ClosedMotion:
    """Motion of all n joints: q, qd, qdd (n,), W (n, k); closure (2,) as described at `CLOSURE`."""

    q: SX
    qd: SX
    qdd: SX
    W: SX
    closure: SX


def is_affine(robot: Robot) -> bool:
    """Return whether all dependent joints follow q = A p + b, so that equations need only the primary positions."""
    return not robot.loops or home_closure(robot).affine is not None


def closed_motion(robot: Robot, q: SX, pd: SX | None = None, pdd: SX | None = None) -> ClosedMotion:
    """Return the motion of all joints.

    q (n,) contains all joints. Its dependent positions are initial values of the Newton steps; its mimic joints are
    ignored.
    """
    closure = home_closure(robot)
    system = closure.newton.system
    q = system.correct(q, NEWTON_STEPS)
    c, J = system.at(q)
    inverse = system.inverse(J)
    primary, dependent, free = list(closure.primary), list(closure.dependent), list(closure.mimics.free)
    k = len(primary)
    W_s = casadi.SX(len(robot.joints), k)
    W_s[primary, :] = casadi.SX.eye(k)
    W_s[dependent, :] = -(inverse @ J[:, primary])
    A, b = constant(closure.mimics.matrix), constant(closure.mimics.offset)
    W = A @ W_s[free, :]
    whole = A @ q[free] + b
    pd = casadi.SX(k, 1) if pd is None else pd
    qd = W @ pd
    bias = casadi.SX(len(robot.joints), 1)
    bias[dependent] = -(inverse @ system.jacobian_rate(q, qd))
    qdd = A @ bias[free] + (casadi.SX(len(robot.joints), 1) if pdd is None else W @ pdd)
    return ClosedMotion(whole, qd, qdd, W, casadi.vertcat(casadi.sqrt(casadi.sumsqr(c)), system.regularity(inverse)))
