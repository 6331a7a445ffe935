"""A serial arm in modified DH form and its recursive Newton-Euler equations in CasADi: what the kernel tests
evaluate.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np


@dataclass(frozen=True)
class SerialArm:
    """Revolute joints: step Rx(alpha) Tx(a) Rz(q) Tz(d); ten parameters per link about its frame origin."""

    alpha: np.ndarray
    a: np.ndarray
    d: np.ndarray
    phi: np.ndarray

    @property
    def joint_count(self) -> int:
        return len(self.alpha)


def puma_like(seed: int = 0) -> SerialArm:
    """Six joints with the PUMA 560's geometry and random inertia."""
    quarter = np.pi / 2
    alpha = np.array([0.0, -quarter, 0.0, -quarter, quarter, -quarter])
    a = np.array([0.0, 0.0, 0.4318, 0.0203, 0.0, 0.0])
    d = np.array([0.0, 0.0, 0.15005, 0.4318, 0.0, 0.0])
    return SerialArm(alpha, a, d, random_phi(6, seed))


def random_arm(joint_count: int, seed: int = 0) -> SerialArm:
    """An arm in which no geometric constant is special."""
    random = np.random.default_rng(seed)
    alpha, a, d = random.uniform(-1.0, 1.0, (3, joint_count))
    return SerialArm(alpha, a, d, random_phi(joint_count, seed))


def random_phi(joint_count: int, seed: int) -> np.ndarray:
    """Ten parameters per link of point masses, hence physically possible: m, m c, Ixx Ixy Iyy Ixz Iyz Izz."""
    random = np.random.default_rng(seed)
    phi = []
    for _ in range(joint_count):
        masses, points = random.uniform(0.2, 1.0, 6), random.uniform(-0.2, 0.2, (6, 3))
        tensor = sum(m * (p @ p * np.eye(3) - np.outer(p, p)) for m, p in zip(masses, points, strict=True))
        phi += [masses.sum(), *(masses @ points), *tensor[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]]
    return np.array(phi)


def inverse_dynamics(arm: SerialArm, *, phi_as_input: bool = False) -> ca.Function:
    """tau(q, qd, qdd[, phi]) by the recursive Newton-Euler equations."""
    q, qd, qdd = (ca.SX.sym(name, arm.joint_count) for name in ("q", "qd", "qdd"))
    if phi_as_input:
        phi = ca.SX.sym("phi", arm.phi.size)
        return ca.Function("inverse_dynamics", [q, qd, qdd, phi], [_torques(arm, q, qd, qdd, phi)],
                           ["q", "qd", "qdd", "phi"], ["tau"])  # fmt: skip
    tau = _torques(arm, q, qd, qdd, ca.SX(arm.phi))
    return ca.Function("inverse_dynamics", [q, qd, qdd], [tau], ["q", "qd", "qdd"], ["tau"])


def regressor(arm: SerialArm) -> ca.Function:
    """Y(q, qd, qdd) with tau = Y phi: sparse, upper block triangular."""
    q, qd, qdd = (ca.SX.sym(name, arm.joint_count) for name in ("q", "qd", "qdd"))
    phi = ca.SX.sym("phi", arm.phi.size)
    matrix = ca.jacobian(_torques(arm, q, qd, qdd, phi), phi)
    return ca.Function("regressor", [q, qd, qdd], [matrix], ["q", "qd", "qdd"], ["Y"])


def inertia_matrix(arm: SerialArm) -> ca.Function:
    """M(q) = d tau / d qdd, dense and symmetric."""
    q, qdd = ca.SX.sym("q", arm.joint_count), ca.SX.sym("qdd", arm.joint_count)
    matrix = ca.jacobian(_torques(arm, q, ca.SX(arm.joint_count, 1), qdd, ca.SX(arm.phi)), qdd)
    return ca.Function("inertia_matrix", [q], [matrix], ["q"], ["M"])


def derivatives(arm: SerialArm) -> ca.Function:
    """d tau / d q and d tau / d qd: a large function."""
    q, qd, qdd = (ca.SX.sym(name, arm.joint_count) for name in ("q", "qd", "qdd"))
    tau = _torques(arm, q, qd, qdd, ca.SX(arm.phi))
    return ca.Function("derivatives", [q, qd, qdd], [ca.jacobian(tau, q), ca.jacobian(tau, qd)],
                       ["q", "qd", "qdd"], ["dtau_dq", "dtau_dqd"])  # fmt: skip


def _snap(value: float) -> float:
    return round(value) if abs(value - round(value)) < 1e-12 else value


def _rotation(alpha: float, angle: ca.SX) -> ca.SX:
    """R_pi = Rx(alpha) Rz(angle)."""
    ca_, sa = _snap(np.cos(alpha)), _snap(np.sin(alpha))
    c, s = ca.cos(angle), ca.sin(angle)
    return ca.vertcat(ca.horzcat(c, -s, 0), ca.horzcat(ca_ * s, ca_ * c, -sa), ca.horzcat(sa * s, sa * c, ca_))


def _torques(arm: SerialArm, q: ca.SX, qd: ca.SX, qdd: ca.SX, phi: ca.SX) -> ca.SX:
    z = ca.SX([0, 0, 1])
    w, wd, acceleration = ca.SX(3, 1), ca.SX(3, 1), ca.SX([0, 0, 9.81])
    motions = []
    for i in range(arm.joint_count):
        R_pi = _rotation(arm.alpha[i], q[i])
        sa, ca_ = _snap(np.sin(arm.alpha[i])), _snap(np.cos(arm.alpha[i]))
        p = ca.SX([arm.a[i], -sa * arm.d[i], ca_ * arm.d[i]])
        acceleration = R_pi.T @ (acceleration + ca.cross(wd, p) + ca.cross(w, ca.cross(w, p)))
        w_i = R_pi.T @ w
        wd = R_pi.T @ wd + ca.cross(w_i, z * qd[i]) + z * qdd[i]
        w = w_i + z * qd[i]
        motions.append((R_pi, p, w, wd, acceleration))
    force, moment, tau = ca.SX(3, 1), ca.SX(3, 1), [ca.SX(0)] * arm.joint_count
    for i in reversed(range(arm.joint_count)):
        R_pi, p, w, wd, acceleration = motions[i]
        mass, first, tensor = _inertia(phi[10 * i : 10 * i + 10])
        force += mass * acceleration + ca.cross(wd, first) + ca.cross(w, ca.cross(w, first))
        moment += tensor @ wd + ca.cross(w, tensor @ w) + ca.cross(first, acceleration)
        tau[i] = moment[2]
        force = R_pi @ force
        moment = R_pi @ moment + ca.cross(p, force)
    return ca.vertcat(*tau)


def _inertia(phi: ca.SX) -> tuple[ca.SX, ca.SX, ca.SX]:
    xx, xy, yy, xz, yz, zz = (phi[k] for k in range(4, 10))
    tensor = ca.vertcat(ca.horzcat(xx, xy, xz), ca.horzcat(xy, yy, yz), ca.horzcat(xz, yz, zz))
    return phi[0], phi[1:4], tensor
