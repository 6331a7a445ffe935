"""Closed loops through Pinocchio alone: constraint Jacobians, projected regressors, constrained forward dynamics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
from oracles.pinocchio_oracle import body_parameter_map, pinocchio_model, se3

ALIGNED = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED


class LoopOracle:
    """A robot with loops as a Pinocchio tree with two frames for each pin."""

    def __init__(self, robot):
        self.robot = robot
        self.model = pinocchio_model(replace(robot, loops=(), home=None))
        self.maps = [body_parameter_map(joint.tip) for joint in robot.joints]
        self.pins = []
        for loop in robot.loops:
            ends = [
                self._frame(f"{loop.name}{k}", link, pose)
                for k, (link, pose) in enumerate([(loop.first, loop.first_pose), (loop.second, loop.second_pose)])
            ]
            self.pins.append(ends)
        self.data = self.model.createData()
        dependent = [robot.joint_index(name) for loop in robot.loops for name in loop.dependent]
        self.dependent = sorted(dependent)
        self.primary = [i for i in range(len(robot.joints)) if i not in dependent]

    def _frame(self, name, link, pose):
        index = self.robot.link_index(link)
        X = se3(pose) if index < 0 else se3(self.robot.joints[index].tip) * se3(pose)
        return self.model.addFrame(pin.Frame(name, index + 1, 0, X, pin.FrameType.OP_FRAME))

    def gaps(self, q):
        """Distance of the pins' ends, and the sine of the angle between their axes."""
        pin.framesForwardKinematics(self.model, self.data, q)
        ends = [[self.data.oMf[i] for i in pair] for pair in self.pins]
        apart = [np.linalg.norm(a.translation - b.translation) for a, b in ends]
        tilt = [np.linalg.norm(np.cross(a.rotation[:, 2], b.rotation[:, 2])) for a, b in ends]
        return np.array(apart), np.array(tilt)

    def constraint(self, q, qd):
        """J (m, n) of the pins, slides and balls, and its (dJ/dt) qd."""
        pin.computeJointJacobians(self.model, self.data, q)
        pin.forwardKinematics(self.model, self.data, q, qd, np.zeros_like(q))
        pin.updateFramePlacements(self.model, self.data)
        rows, biases = [], []
        for loop, pair in zip(self.robot.loops, self.pins, strict=True):
            (J1, a1, w1), (J2, a2, w2) = (self._end(index) for index in pair)
            x, y = self.data.oMf[pair[0]].rotation[:, :2].T
            if loop.kind == "slide":
                apart = self.data.oMf[pair[1]].translation - self.data.oMf[pair[0]].translation
                v = (J2 - J1)[:3] @ qd
                for axis in (x, y):
                    rows.append(axis @ (J2 - J1)[:3] + np.cross(axis, apart) @ J1[3:])
                    turning = np.cross(a1[3:], axis) + np.cross(w1, np.cross(w1, axis))
                    biases.append(axis @ (a2 - a1)[:3] + 2 * np.cross(w1, axis) @ v + turning @ apart)
                rows += [*(J2 - J1)[3:]]
                biases += [*(a2 - a1)[3:]]
                continue
            rows += [*(J2 - J1)[:3]]
            biases += [*(a2 - a1)[:3]]
            if loop.kind == "weld":
                rows += [*(J2 - J1)[3:]]
                biases += [*(a2 - a1)[3:]]
            if loop.kind == "pin":
                rows += [axis @ (J2 - J1)[3:] for axis in (x, y)]
                biases += [axis @ (a2 - a1)[3:] + (w2 - w1) @ np.cross(w1, axis) for axis in (x, y)]
        return np.array(rows), np.array(biases)

    def _end(self, index):
        J = pin.getFrameJacobian(self.model, self.data, index, ALIGNED)
        a = pin.getFrameClassicalAcceleration(self.model, self.data, index, ALIGNED).vector
        return J, a, pin.getFrameVelocity(self.model, self.data, index, ALIGNED).angular

    def projection(self, q, pd, pdd):
        """W, qd and qdd of a closed configuration."""
        J, _ = self.constraint(q, np.zeros_like(q))
        W = np.zeros((len(q), len(self.primary)))
        W[self.primary] = np.eye(len(self.primary))
        W[self.dependent] = -np.linalg.lstsq(J[:, self.dependent], J[:, self.primary], rcond=1e-9)[0]
        qd = W @ pd
        bias = np.zeros_like(q)
        _, jdot = self.constraint(q, qd)
        bias[self.dependent] = -np.linalg.lstsq(J[:, self.dependent], jdot, rcond=1e-9)[0]
        return W, qd, W @ pdd + bias

    def torque_rows(self, q, pd, pdd):
        """W^T Y in the source's link frames."""
        W, qd, qdd = self.projection(q, pd, pdd)
        Y = np.reshape(pin.computeJointTorqueRegressor(self.model, self.data, q, qd, qdd), (len(q), -1))
        return W.T @ np.hstack([Y[:, 10 * i : 10 * i + 10] @ T for i, T in enumerate(self.maps)])

    def forward_dynamics(self, q, pd, tau):
        """pdd from the multipliers of the pins: M qdd + J^T f = tau - bias, J qdd = -(dJ/dt) qd."""
        n = len(q)
        _, qd, _ = self.projection(q, pd, np.zeros_like(pd))
        J, jdot = self.constraint(q, qd)
        M = pin.crba(self.model, self.data, q)
        M = np.triu(M) + np.triu(M, 1).T
        full = np.zeros(n)
        full[self.primary] = tau
        rest = full - pin.nonLinearEffects(self.model, self.data, q, qd)
        left = np.block([[M, J.T], [J, np.zeros((len(J), len(J)))]])
        # Redundant equations of planar loops leave the multipliers free, not the accelerations.
        return np.linalg.lstsq(left, np.concatenate([rest, -jdot]), rcond=1e-12)[0][:n][self.primary]

    def constraint_dynamics(self, q, pd, tau):
        """Pdd by Pinocchio's own constraint solver, pins as point contacts (enough where loops are planar)."""
        contacts, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
        for pair in self.pins:
            first, second = (self.model.frames[i] for i in pair)
            contacts.append(
                pin.RigidConstraintModel(
                    pin.ContactType.CONTACT_3D,
                    self.model,
                    first.parentJoint,
                    first.placement,
                    second.parentJoint,
                    second.placement,
                    pin.ReferenceFrame.LOCAL,
                )
            )
        data = self.model.createData()
        for contact in contacts:
            datas.append(contact.createData())
        pin.initConstraintDynamics(self.model, data, contacts, datas)
        _, qd, _ = self.projection(q, pd, np.zeros_like(pd))
        full = np.zeros(len(q))
        full[self.primary] = tau
        settings = pin.ProximalSettings(1e-14, 1e-9, 200)
        qdd = pin.constraintDynamics(self.model, data, q, qd, full, contacts, datas, settings)
        return np.array(qdd)[self.primary]
