"""Newton-Euler in 60 digits on standard parameters: what rounding and nearly special axes cannot touch."""

from __future__ import annotations

import mpmath as mp
import numpy as np

from mindyn.robots.robot import Robot

DIGITS = 60


def _vector(values) -> mp.matrix:
    return mp.matrix([mp.mpf(float(value)) for value in values])


def _matrix(values) -> mp.matrix:
    return mp.matrix([[mp.mpf(float(value)) for value in row] for row in values])


def _skew(v: mp.matrix) -> mp.matrix:
    return mp.matrix([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])


def _turn(axis: mp.matrix, angle: mp.mpf) -> mp.matrix:
    """Rodrigues' formula about an axis whose length is one to double precision only: that length counts as it is."""
    K = _skew(axis)
    return mp.eye(3) + mp.sin(angle) * K + (1 - mp.cos(angle)) * (K * K)


def torques(robot: Robot, q, qd, qdd) -> np.ndarray:
    """(n,) in the root frame, from the numbers of the robot as they are."""
    with mp.workdps(DIGITS):
        q, qd, qdd = (_vector(x) for x in (q, qd, qdd))
        rest = mp.matrix(3, 1)
        state = {-1: (mp.eye(3), rest, rest, rest, -_vector(robot.gravity))}  # R, p, w, wd, a less gravity
        axes, points, wrenches = [], [], []
        for i, (joint, parent) in enumerate(zip(robot.joints, robot.parents, strict=True)):
            R, p, w, wd, a = state[parent]
            expected = _vector(joint.axis)
            step = R * _vector(joint.origin.translation)
            R = R * _matrix(joint.origin.rotation)
            axis = R * expected
            if joint.kind == "revolute":
                a = a + _skew(wd) * step + _skew(w) * (_skew(w) * step)
                p = p + step
                wd = wd + _skew(w) * axis * qd[i] + axis * qdd[i]
                w = w + axis * qd[i]
                R = R * _turn(expected, q[i])
            else:
                step = step + axis * q[i]
                a = a + _skew(wd) * step + _skew(w) * (_skew(w) * step) + 2 * qd[i] * (_skew(w) * axis) + axis * qdd[i]
                p = p + step
            tip = R * _vector(joint.tip.translation)
            axes.append(axis)
            points.append(p)
            a = a + _skew(wd) * tip + _skew(w) * (_skew(w) * tip)
            p, R = p + tip, R * _matrix(joint.tip.rotation)
            state[i] = (R, p, w, wd, a)
            m, first, J = _body(robot, i, R)
            force = m * a + _skew(wd) * first + _skew(w) * (_skew(w) * first)
            wrenches.append((p, force, J * wd + _skew(w) * (J * w) + _skew(first) * a))
        tau = mp.matrix(robot.joint_count, 1)
        for i, (at, force, moment) in enumerate(wrenches):
            for j in robot.path(i):
                pushed = moment + _skew(at - points[j]) * force
                tau[j] += (axes[j].T * (pushed if robot.joints[j].kind == "revolute" else force))[0]
        return np.array([float(each) for each in tau])


def _body(robot: Robot, index: int, R: mp.matrix) -> tuple[mp.mpf, mp.matrix, mp.matrix]:
    """Mass, first moment and inertia about the link's origin, in axes of the root."""
    m, x, y, z, *J = (mp.mpf(float(value)) for value in robot.phi[10 * index : 10 * index + 10])
    xx, xy, yy, xz, yz, zz = J
    return m, R * mp.matrix([x, y, z]), R * mp.matrix([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) * R.T
