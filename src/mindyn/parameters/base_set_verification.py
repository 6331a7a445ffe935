"""Verify base sets and equations against a plain Newton-Euler recursion on standard parameters.

Standard parameters are the reference. This module does not reduce, trace, round or regroup anything: it uses NumPy, the
frames of the robot file, and the wrench of each link. A base set is correct if its torques equal those of the standard
parameters for random consistent links, at a few random states. The error of each joint must be at most
MAX_RELATIVE_ERROR times the sum of the absolute values of its terms, sum_k |Y_ik phi_k|.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.foundation.algebra.inertia import phi_from_pseudo_inertia, tensor_from_entries
from mindyn.foundation.algebra.rotations import skew
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.notation import DRIVE_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.parameters.base_parameters import BaseParameters, parameter_labels
from mindyn.robots.drive_matrices import friction_matrix, gear_matrix
from mindyn.robots.floating_base import BASE_COUNT
from mindyn.robots.robot import Robot
from mindyn.robots.scale import length_unit

MAX_RELATIVE_ERROR: Final = 1e-9
"""Largest error of a joint's torque relative to the sum of the absolute values of its terms."""

SAMPLING_MARGIN: Final = 10.0
"""A few states may underestimate the error. To pass, the error must therefore be smaller than MAX_RELATIVE_ERROR by
this factor.
"""

COMPARED_STATES: Final = 3


@dataclass(frozen=True, slots=True)
class States:
    """Positions, velocities and accelerations (N, n)."""

    q: Array
    qd: Array
    qdd: Array


@dataclass(frozen=True, slots=True)
class Deviation:
    """The joint with the largest torque error: its index, and its error relative to the sum of the sizes of its
    terms.
    """

    joint: int
    size: float

    @property
    def is_wrong(self) -> bool:
        """Whether the error may exceed MAX_RELATIVE_ERROR at other states (see SAMPLING_MARGIN), or is not a finite
        number.
        """
        return not self.size <= MAX_RELATIVE_ERROR / SAMPLING_MARGIN


def sample_states(robot: Robot, count: int = COMPARED_STATES, seed: int = 0) -> States:
    """Return random states of typical size: any angle, prismatic positions within the robot's length L, speeds near
    sqrt(g / L).
    """
    rng = np.random.default_rng(seed)
    L, g = length_unit(robot), float(np.linalg.norm(robot.gravity))
    time = np.sqrt(L / g) if g > 0 else 1.0
    slides = np.array([joint.kind == "prismatic" for joint in robot.joints])
    unit = np.where(slides, L, 1.0)
    shape = (count, len(robot.joints))
    q = rng.uniform(-1, 1, shape) * np.where(slides, L, 3.0)
    return States(q, rng.normal(size=shape) * unit / time, rng.normal(size=shape) * unit / time**2)


def sample_links(robot: Robot, count: int = COMPARED_STATES, seed: int = 0) -> Array:
    """Return random parameters (count, 10 n) of solid bodies, with sizes from L / 30 to L and masses over three
    decades.
    """
    rng = np.random.default_rng(seed)
    L, n = length_unit(robot), len(robot.joints)
    points = np.ones((count * n, 4, 8))
    sizes = L * 10.0 ** rng.uniform(-1.5, 0, (count * n, 1, 1))
    points[:, :3] = sizes * (rng.normal(size=(count * n, 3, 8)) + rng.normal(size=(count * n, 3, 1)))
    masses = rng.uniform(0.1, 1.0, (count * n, 8)) * 10.0 ** rng.uniform(-2, 1, (count * n, 1))
    bodies = np.einsum("bik,bk,bjk->bij", points, masses, points)
    links = np.stack([phi_from_pseudo_inertia(P) for P in bodies]).reshape(count, -1)
    if robot.has_floating_base:
        links[:, : PARAMETERS_PER_LINK * (BASE_COUNT - 1)] = 0.0
    return links


def standard_rows(robot: Robot, states: States) -> Array:
    """Return Y (N, n, 10 n) with tau = Y phi: Newton-Euler for each link in its own frame."""
    N, n = states.q.shape
    Y = np.zeros((N, n, PARAMETERS_PER_LINK * n))
    w: dict[int, Array] = {-1: np.zeros((N, 3))}
    wd: dict[int, Array] = {-1: np.zeros((N, 3))}
    a: dict[int, Array] = {-1: np.tile(-robot.gravity, (N, 1))}
    steps: list[tuple[Array, Array]] = []
    for i, (joint, parent) in enumerate(zip(robot.joints, robot.parents, strict=True)):
        speed, push = states.qd[:, i, None] * joint.axis, states.qdd[:, i, None] * joint.axis
        R, p = _joint_pose(robot, i, states.q[:, i])
        at_joint = a[parent] + _offset_acceleration(wd[parent], w[parent], p)
        w_j, wd_j, a_j = _rotate_to_child(R, w[parent]), _rotate_to_child(R, wd[parent]), _rotate_to_child(R, at_joint)
        if joint.kind == "revolute":
            w_j, wd_j = w_j + speed, wd_j + np.cross(w_j, speed) + push
        else:
            a_j = a_j + 2 * np.cross(w_j, speed) + push
        tip = joint.tip
        a_j = a_j + _offset_acceleration(wd_j, w_j, tip.translation)
        w[i], wd[i], a[i] = w_j @ tip.rotation, wd_j @ tip.rotation, a_j @ tip.rotation
        steps.append((R, p))
        wrench = link_wrenches(w[i], wd[i], a[i])
        for j in reversed(robot.path(i)):
            wrench = _move_wrenches(robot.joints[j].tip.rotation, robot.joints[j].tip.translation, wrench)
            part = wrench[:, :3] if robot.joints[j].kind == "revolute" else wrench[:, 3:]
            Y[:, j, PARAMETERS_PER_LINK * i : PARAMETERS_PER_LINK * (i + 1)] = robot.joints[j].axis @ part
            wrench = _move_wrenches(*steps[j], wrench)
    return Y


def _joint_pose(robot: Robot, index: int, q: Array) -> tuple[Array, Array]:
    """Return rotation (N, 3, 3) and origin (N, 3) of the moved joint frame in the parent's link frame."""
    joint = robot.joints[index]
    R, p = joint.origin.rotation, joint.origin.translation
    if joint.kind == "prismatic":
        return np.broadcast_to(R, (len(q), 3, 3)), p + np.outer(q, R @ joint.axis)
    K = skew(joint.axis)
    turn = np.eye(3) + np.sin(q)[:, None, None] * K + (1 - np.cos(q))[:, None, None] * (K @ K)
    return R @ turn, np.broadcast_to(p, (len(q), 3))


def _rotate_to_child(R: Array, v: Array) -> Array:
    """Return R^T v for each state."""
    return np.asarray(np.einsum("nji,nj->ni", R, v))


def _offset_acceleration(wd: Array, w: Array, p: Array) -> Array:
    """Return wd x p + w x (w x p)."""
    return np.asarray(np.cross(wd, p) + np.cross(w, np.cross(w, p)))


def _move_wrenches(R: Array, p: Array, wrench: Array) -> Array:
    """Return wrenches (N, 6, k) (moment, force), given in an inner frame, at the outer frame: the inner frame has axes
    R and origin p there.
    """
    force = R @ wrench[:, 3:]
    return np.concatenate([R @ wrench[:, :3] + _skews(np.atleast_2d(p)) @ force, force], axis=1)


def _skews(v: Array) -> Array:
    """Return [v] for each row."""
    return np.cross(np.eye(3), v[:, None])


def link_wrenches(w: Array, wd: Array, a: Array) -> Array:
    """Return (N, 6, 10): the moment and the force about the frame's origin that one unit of each link parameter
    needs.
    """
    W = np.zeros((len(w), 6, PARAMETERS_PER_LINK))
    sw = _skews(w)
    W[:, 3:, 0] = a
    W[:, 3:, 1:4] = _skews(wd) + sw @ sw
    W[:, :3, 1:4] = -_skews(a)
    W[:, :3, 4:] = _tensor_columns(wd) + sw @ _tensor_columns(w)
    return W


def _tensor_columns(x: Array) -> Array:
    """Return (N, 3, 6) with J x = columns @ (Jxx, Jxy, Jyy, Jxz, Jyz, Jzz)."""
    return np.asarray(np.einsum("nj,ijk->nik", x, tensor_from_entries(np.eye(6))))


def drive_rows(robot: Robot, states: States) -> Array:
    """Return rows (N, n, 4 drives): the torques of the drives, without extra torques, are rows @ drive parameters."""
    G, F = gear_matrix(robot), friction_matrix(robot)
    speed = states.qd @ F.T
    ones = np.ones_like(speed)
    kinds = [(G, states.qdd @ G.T), (F, speed), (F, np.sign(speed)), (F, ones)]
    rows = np.stack([np.einsum("kj,nk->njk", M, x) for M, x in kinds], axis=3)
    return rows.reshape(*states.q.shape, len(robot.drives) * len(DRIVE_PARAMETERS))


def find_worst_deviation(error: Array, size: Array) -> Deviation:
    """Return the largest error (..., n) relative to the sizes of the terms (..., n), and its joint.

    States with sizes that are not finite are skipped: a declared formula has no value there.
    """
    with np.errstate(invalid="ignore"):
        share = np.where(np.abs(error) == 0, 0.0, np.abs(error) / np.where(size > 0, size, 1e-300))
    share = np.where(np.isfinite(share) | ~np.isfinite(size), np.nan_to_num(share), np.inf)
    by_joint = share.reshape(-1, share.shape[-1]).max(axis=0)
    return Deviation(int(by_joint.argmax()), float(by_joint.max()))


def compute_deviation(base: BaseParameters, rows: Array, links: Array) -> Deviation:
    """Return the difference between the torques of base values and the torques of standard parameters.

    rows   (N, n, p) regressor Y of the standard parameters, without extra torques
    links  (k, p) standard parameters
    """
    p = rows.shape[-1]
    missed = links - (links @ base.matrix[:, :p].T) @ base.embedding[:p].T
    return find_worst_deviation(
        np.einsum("nip,kp->kni", rows, missed), np.einsum("nip,kp->kni", np.abs(rows), np.abs(links))
    )


def tree_deviation(base: BaseParameters) -> Deviation:
    """Return `compute_deviation` of a base set of an open tree, at random states and with random links of typical
    size.
    """
    robot = base.robot
    states, links = sample_states(robot), sample_links(robot)
    if robot.has_parameters:
        links = np.vstack([links, robot.phi])
    rows = standard_rows(robot, states)
    if base.with_drives and robot.drives:
        rows, links = np.concatenate([rows, drive_rows(robot, states)], axis=2), append_drive_parameters(robot, links)
    return compute_deviation(base, rows, links)


def append_drive_parameters(robot: Robot, links: Array) -> Array:
    """Append random drive parameters, whose torques are about as large as those of the links, to link parameters (k, 10
    n).
    """
    G, F = np.abs(gear_matrix(robot)).max(axis=1, initial=0.0), np.abs(friction_matrix(robot)).max(axis=1, initial=0.0)
    inertia = np.abs(links[:, 4::PARAMETERS_PER_LINK]).max()
    torque = inertia * (float(np.linalg.norm(robot.gravity)) or 1.0) / length_unit(robot)
    sizes = np.stack([inertia / np.maximum(G, 1e-300) ** 2, *[torque / np.maximum(F, 1e-300)] * 3], axis=1)
    draws = np.random.default_rng(1).uniform(0.1, 1.0, (len(links), sizes.size))
    return np.concatenate([links, draws * sizes.ravel()], axis=1)


def standard_set(robot: Robot, *, with_drives: bool, note: str) -> BaseParameters:
    """Return the set of all standard parameters, which is correct but not minimal. `note` says why this set is used."""
    labels = parameter_labels(robot, with_drives=with_drives)
    return BaseParameters(
        robot, "standard", with_drives, np.eye(len(labels)), labels, tuple(range(len(labels))), notes=(note,)
    )
