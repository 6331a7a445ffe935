"""Torques, inertia matrices and accelerations equal MuJoCo's, on robots written to MJCF and on what MuJoCo reads."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest
from closeness import ORACLE, assert_close
from robots import random_motion, random_robot, with_random_drives

from mindyn.equations.catalogue import build_equation
from mindyn.output.export.mjcf_writer import robot_to_mjcf


@pytest.mark.parametrize("seed", range(20))
def test_dynamics_equal_mujocos(seed):
    robot = random_robot(seed)
    model = mujoco.MjModel.from_xml_string(robot_to_mjcf(robot))
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_LIMIT
    data = mujoco.MjData(model)
    assert [model.joint(i).name for i in range(model.njnt)] == list(robot.joint_names)
    q, qd, qdd = random_motion(robot, seed)
    data.qpos, data.qvel, data.qacc = q, qd, qdd
    mujoco.mj_inverse(model, data)
    assert_close(np.array(build_equation(robot, "inverse_dynamics")(q, qd, qdd)).ravel(), data.qfrc_inverse, ORACLE)
    data.qfrc_applied = data.qfrc_inverse
    mujoco.mj_forward(model, data)
    accelerations = np.array(build_equation(robot, "forward_dynamics")(q, qd, data.qfrc_applied)).ravel()
    condition = np.linalg.cond(np.array(build_equation(robot, "inertia_matrix")(q)))
    assert_close(accelerations, data.qacc, ORACLE * max(1.0, condition / 1e5))


@pytest.mark.parametrize("seed", range(8))
def test_armature_and_damping_equal_mujocos(seed):
    robot = with_random_drives(random_robot(seed, joints=4), seed)
    text = robot_to_mjcf(robot, force=True)
    model = mujoco.MjModel.from_xml_string(text)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_LIMIT
    data = mujoco.MjData(model)
    data.qpos, data.qvel, data.qacc = random_motion(robot, seed)
    model.dof_frictionloss[:] = 0  # MuJoCo softens dry friction; the law of Coulomb friction is tested elsewhere
    mujoco.mj_inverse(model, data)
    # mj_inverse sets the passive damping force beside the inertial ones.
    plain = tuple(replace(drive, coupling={}, coulomb=0.0, offset=0.0) for drive in robot.drives)
    torque = build_equation(replace(robot, drives=plain), "inverse_dynamics", with_drives=True)
    assert_close(np.array(torque(data.qpos, data.qvel, data.qacc)).ravel(), data.qfrc_inverse, ORACLE)
