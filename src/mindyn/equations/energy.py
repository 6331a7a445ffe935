"""Kinetic and potential energy."""

from __future__ import annotations

import casadi

from mindyn.equations.chain import SX, Body, Chain, constant, cross
from mindyn.equations.kinematics import frame_placements
from mindyn.equations.motion import LinkMotion, spatial_velocities


def energy(chain: Chain, q: SX, qd: SX) -> SX:
    """(2, 1): kinetic and potential energy, J; the potential is zero for a mass at the root frame's origin."""
    joints = chain.at(q)
    motions = spatial_velocities(chain, joints, qd)
    kinetic = sum(kinetic_energy(body, motion) for body, motion in zip(chain.bodies, motions, strict=True))
    potential = casadi.SX(0)
    g = constant(chain.frames.gravity)
    start = constant(chain.frames.root.rotation.T @ chain.frames.root.translation)
    for body, (R, p) in zip(chain.bodies, frame_placements(chain, joints), strict=True):
        potential -= body.mass * casadi.dot(g, start + p) + casadi.dot(R.T @ g, body.moment)
    return casadi.vertcat(kinetic, potential)


def kinetic_energy(body: Body, motion: LinkMotion) -> SX:
    """1/2 m v.v + v.(w x mc) + 1/2 w.J w."""
    w, v = motion.w, motion.v
    linear = body.mass * casadi.dot(v, v) / 2 + casadi.dot(v, cross(w, body.moment))
    return linear + casadi.dot(w, body.tensor @ w) / 2
