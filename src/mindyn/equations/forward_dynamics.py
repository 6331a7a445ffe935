"""Forward dynamics: accelerations from torques, by factoring M or by articulated bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import casadi
import numpy as np

from mindyn.equations.chain import SX, Chain, JointPlacement, count_instructions, cross_matrix
from mindyn.equations.forward_motion import forward_motion
from mindyn.equations.inertia_matrix import composite_bodies, inertia_matrix
from mindyn.equations.newton_euler import link_wrenches
from mindyn.foundation.algebra.inertia import tensor_from_entries
from mindyn.foundation.errors import MissingPhysicsError

TRIED_CONFIGURATIONS: Final = 3
"""Configurations at which a singular inertia matrix is searched: a determinant vanishes in all of them or almost
nowhere.
"""
SINGULAR_PIVOT_RATIO: Final = 64 * 2.0**-52
"""A pivot that is smaller than this, relative to the inertia from which it is computed, may be only rounding error."""


def forward_dynamics(chain: Chain, q: SX, qd: SX, tau: SX, bias: SX, added_inertia: SX | None = None) -> SX:
    """Return qdd (n, 1) with inverse_dynamics(q, qd, qdd) = tau, by the method with fewer operations.

    bias           (n, 1) torques at qdd = 0
    added_inertia  (n, n) constant of the drives, added to M
    """
    if added_inertia is not None:
        return solve_by_factoring(chain, q, tau - bias, added_inertia)
    recursive, pivots = solve_by_articulated_bodies(chain, q, qd, tau)
    size = count_instructions(casadi.cse(recursive))
    if _min_factoring_operations(chain) > size:  # long arms: tracing the rejected method takes 5 s at 60 joints
        require_inertia(_composite_inertia(chain, q) + _rotated_inertia(chain), pivots, q, chain.robot.joint_names)
        return recursive
    factored = solve_by_factoring(chain, q, tau - bias)
    return factored if count_instructions(casadi.cse(factored)) <= size else recursive


def _min_factoring_operations(chain: Chain) -> int:
    """Return a lower bound for factoring: two operations for every update, nine for every entry off the diagonal.

    Four of the nine belong to the solution and five to the entry itself.
    """
    ancestors = [len(chain.robot.path(i)) - 1 for i in range(len(chain.parents))]
    return sum(count * (count + 1) + 9 * count for count in ancestors)


def solve_by_factoring(chain: Chain, q: SX, left: SX, added_inertia: SX | None = None) -> SX:
    """Solve M qdd = left."""
    M = inertia_matrix(chain, q)
    M = M if added_inertia is None else M + added_inertia
    factors = Factors(M)
    require_inertia(casadi.diag(M) + _rotated_inertia(chain), factors.D, q, chain.robot.joint_names)
    return factors.solve(left)


class Factors:
    """Factors of M = L^T diag(D) L, computed from the last joint, which keeps the zeros between branches [Featherstone
    2008, 6.5].
    """

    def __init__(self, M: SX) -> None:
        self._order = list(reversed(range(M.shape[0])))
        self._factors = casadi.ldl(M[self._order, self._order], False)

    @property
    def D(self) -> SX:
        """Pivots (n, 1): the inertia of each joint while the later joints are free."""
        return self._factors[0][self._order]

    def solve(self, b: SX) -> SX:
        """Return x (n, k) with M x = b."""
        return casadi.ldl_solve(b[self._order, :], *self._factors)[self._order, :]


def _rotated_inertia(chain: Chain) -> SX:
    """Return a lower bound (n, 1) of the rounding error scale of M: the trace of the tensors that each rotation moves.

    The chain may have the tensors of base parameters, from which parts without effect were removed.
    """
    stated = [np.zeros(10) if link.phi is None else link.phi for link in chain.robot.links]
    sums = [float(abs(tensor_from_entries(phi[4:]).trace())) for phi in stated]
    for i in reversed(range(len(chain.parents))):
        if chain.parents[i] >= 0:
            sums[chain.parents[i]] += sums[i]
    slides = [joint.kind == "prismatic" for joint in chain.robot.joints]
    return casadi.vertcat(*(0 if slide else trace for slide, trace in zip(slides, sums, strict=True)))


def require_inertia(whole: SX, D: SX, q: SX, joint_names: Sequence[str]) -> None:
    """Raise an error if the inertia matrix is singular in every configuration and its entries are numbers.

    A pivot D_k is the inertia of joint k while the later joints are free. The pivot counts as zero if rounding explains
    it in each of a few configurations; if parameters are given at run time, the pivot is unknown.

    `whole` (n, 1) are the inertias from which each pivot is computed by subtraction.
    """
    pivots = casadi.Function("pivots", [q], [D, whole], {"allow_free": True})
    if pivots.has_free():
        return
    drawn = np.random.default_rng(0).uniform(-2.0, 2.0, (TRIED_CONFIGURATIONS, q.numel()))
    pairs = [tuple(np.asarray(values, dtype=np.float64).ravel() for values in pivots(row)) for row in drawn]
    for k in reversed(range(q.numel())):
        if all(not abs(pivot[k]) > SINGULAR_PIVOT_RATIO * abs(size[k]) for pivot, size in pairs):
            raise MissingPhysicsError(
                f"the inertia matrix is singular in every configuration: with the joints after it free, joint "
                f"{joint_names[k]!r} moves no inertia, and no torque gives a finite acceleration",
                hint="give the links that it moves an inertia, lock the joint, or pass with_drives=True and its rotor",
                subject=joint_names[k],
            )


def solve_by_articulated_bodies(chain: Chain, q: SX, qd: SX, tau: SX) -> tuple[SX, SX]:
    """Return accelerations by recursion over articulated bodies [Featherstone 2008, 7.3], and the inertia (n, 1) of
    each body.

    The inertia of an articulated body about its joint equals the pivot of factoring. Accelerations of the bodies are
    relative to gravity.
    """
    joints = chain.at(q)
    zero = casadi.SX(len(chain.parents), 1)
    motions = forward_motion(chain, joints, qd, zero)
    inertias = [_spatial_inertia(chain, i) for i in range(len(chain.parents))]
    # The recursion is written for the deviation from the motion at qdd = 0, so the bias is the whole wrench there.
    biases: list[SX] = [casadi.vertcat(w.moment, w.force) for w in link_wrenches(chain, motions)]
    rows = [5 if joint.step.kind == "prismatic" else 2 for joint in joints]
    columns, pivots, rests = [casadi.SX()] * len(joints), [casadi.SX()] * len(joints), [casadi.SX()] * len(joints)
    for i in reversed(range(len(chain.parents))):
        columns[i] = inertias[i][:, rows[i]]
        pivots[i] = columns[i][rows[i]]
        rests[i] = tau[i] - biases[i][rows[i]]
        if chain.parents[i] >= 0:
            X = motion_transform(joints[i])
            inertias[chain.parents[i]] += X.T @ (inertias[i] - columns[i] @ columns[i].T / pivots[i]) @ X
            biases[chain.parents[i]] += X.T @ (biases[i] + columns[i] * (rests[i] / pivots[i]))
    deviations: list[SX] = []
    qdd = casadi.SX(len(chain.parents), 1)
    for i in range(len(chain.parents)):
        parent_index = chain.parents[i]
        carried = motion_transform(joints[i]) @ deviations[parent_index] if parent_index >= 0 else casadi.SX(6, 1)
        qdd[i] = (rests[i] - casadi.dot(columns[i], carried)) / pivots[i]
        joint_motion = casadi.SX(6, 1)
        joint_motion[rows[i]] = qdd[i]
        deviations.append(carried + joint_motion)
    return qdd, casadi.vertcat(*pivots)


def _composite_inertia(chain: Chain, q: SX) -> SX:
    """Return the diagonal (n, 1) of M: the inertia that each joint moves while the later joints are locked."""
    joints = chain.at(q)
    slides = [joint.step.kind == "prismatic" for joint in joints]
    bodies = composite_bodies(chain, joints)
    moved = [body.mass if slide else body.tensor[2, 2] for body, slide in zip(bodies, slides, strict=True)]
    return casadi.vertcat(*moved)


def _spatial_inertia(chain: Chain, i: int) -> SX:
    body = chain.bodies[i]
    H = cross_matrix(body.moment)
    return casadi.vertcat(casadi.horzcat(body.tensor, H), casadi.horzcat(-H, body.mass * casadi.SX.eye(3)))


def motion_transform(joint: JointPlacement) -> SX:
    """Return X (6, 6) with (w, v)_child = X (w, v)_parent, both at their own origins."""
    E = joint.rotation.T
    return casadi.vertcat(casadi.horzcat(E, casadi.SX(3, 3)), casadi.horzcat(-E @ cross_matrix(joint.translation), E))
