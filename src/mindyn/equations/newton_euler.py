"""Inverse dynamics by recursive Newton-Euler: motion outwards, wrenches inwards."""

from __future__ import annotations

from dataclasses import dataclass

import casadi

from mindyn.equations.chain import SX, Body, Chain, JointPlacement, cross, cross_matrix, wrench_to_working
from mindyn.equations.external_inputs import RootMotion
from mindyn.equations.forward_motion import LinkMotion, forward_motion


@dataclass(frozen=True, slots=True)
class Wrench:
    """Moment about the frame origin and force, in the frame's components; (3, 1) each."""

    moment: SX
    force: SX

    def __add__(self, other: Wrench) -> Wrench:
        return Wrench(self.moment + other.moment, self.force + other.force)


def inverse_dynamics(
    chain: Chain, q: SX, qd: SX, qdd: SX, wrenches: SX | None = None, root: RootMotion | None = None
) -> SX:
    """Return joint torques tau (n, 1) of the rigid chain; `wrenches` (n, 6) act on the links, in link frames."""
    joints = chain.at(q)
    motions = forward_motion(chain, joints, qd, qdd, root)
    loads = link_wrenches(chain, motions)
    if wrenches is not None:
        loads = subtract_external(chain, loads, wrenches)
    return joint_torques(chain, joints, loads)


def inertial_wrench(body: Body, motion: LinkMotion) -> Wrench:
    """Return force m a + Omega mc and moment mc x a + J wd + w x J w, at the frame origin."""
    force = body.mass * motion.a + motion.omega @ body.moment
    return Wrench(cross_matrix(body.moment) @ motion.a + euler_moment(body.tensor, motion), force)


def euler_moment(J: SX, motion: LinkMotion) -> SX:
    """Return J wd + w x J w, written with the products w w^T that Omega uses too [Lin 1995, eq. 28]."""
    ww, wd = motion.squares, casadi.densify(motion.wd)
    xx, yy, zz = ww[0, 0], ww[1, 1], ww[2, 2]
    xy, xz, yz = ww[0, 1], ww[0, 2], ww[1, 2]
    psi = casadi.vertcat(
        casadi.horzcat(wd[0], -yz, yz, wd[1] - xz, wd[2] + xy, yy - zz),
        casadi.horzcat(xz, wd[1], -xz, wd[0] + yz, zz - xx, wd[2] - xy),
        casadi.horzcat(-xy, xy, wd[2], xx - yy, wd[0] - yz, wd[1] + xz),
    )
    return psi @ casadi.vertcat(J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2])


def link_wrenches(chain: Chain, motions: tuple[LinkMotion, ...]) -> list[Wrench]:
    """Return the wrench that each link needs for its motion."""
    return [inertial_wrench(body, motion) for body, motion in zip(chain.bodies, motions, strict=True)]


def subtract_external(chain: Chain, loads: list[Wrench], wrenches: SX, length: float = 1.0) -> list[Wrench]:
    """Return the wrench that the joints must supply for each link. `length` is the chain's length unit in m."""
    supplied = []
    for i, load in enumerate(loads):
        moment, force = wrench_to_working(chain.frames.steps[i], wrenches[i, :].T)
        supplied.append(Wrench(load.moment - moment, load.force - length * force))
    return supplied


def joint_torques(chain: Chain, joints: tuple[JointPlacement, ...], loads: list[Wrench]) -> SX:
    """Sum wrenches from the last links to the root; each joint supplies the component along its axis."""
    total = list(loads)
    for i in reversed(range(len(chain.parents))):
        if chain.parents[i] >= 0:
            total[chain.parents[i]] += carry_to_parent(joints[i], total[i])
    return casadi.vertcat(*(project_on_axis(joint, wrench) for joint, wrench in zip(joints, total, strict=True)))


def carry_to_parent(joint: JointPlacement, wrench: Wrench) -> Wrench:
    """Return the same wrench at the parent's origin."""
    force = joint.to_parent(wrench.force)
    return Wrench(joint.to_parent(wrench.moment) + cross(joint.translation, force), force)


def project_on_axis(joint: JointPlacement, wrench: Wrench) -> SX:
    """Return the component that a joint supplies: moment about z, or force along z."""
    return wrench.force[2] if joint.step.kind == "prismatic" else wrench.moment[2]
