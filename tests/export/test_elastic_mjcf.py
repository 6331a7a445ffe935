"""Elastic joints in MJCF: MuJoCo deflects and vibrates as the stiffness says, and feedforward holds the links."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, SOLVED, assert_close
from plants.mujoco_arm import random_arm_file
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, ExportError
from mindyn.identification import Elasticity, JointElasticity

STIFFNESS = (4000.0, 900.0)
DAMPING = (2.0, 0.3)


def elastic(stiffness=STIFFNESS, damping=DAMPING):
    return Elasticity(
        tuple(
            JointElasticity(name, "determined", compliance=1 / K, compliance_interval=(0.9 / K, 1.1 / K), damping=D)
            for name, K, D in zip(("joint1", "joint2"), stiffness, damping, strict=True)
        ),
        cutoff_hz=10.0,
        rows=100,
    )


@pytest.fixture
def robot(tmp_path):
    arm = mindyn.load_robot(random_arm_file(np.random.default_rng(6), 2, tmp_path)[0])
    return replace(arm, drives=tuple(mindyn.Drive(name, rotor_inertia=0.05) for name in arm.joint_names))


@pytest.fixture
def compiled(robot, tmp_path):
    path = mindyn.write_mjcf(robot, tmp_path / "arm.xml", elasticity=elastic())
    return robot, mujoco.MjModel.from_xml_path(str(path))


def hold(model, data, positions):
    """Let the springs settle while the motors hold their positions; return their deflections."""
    motors = [model.joint(f"joint{k}").qposadr[0] for k in (1, 2)]
    springs = [model.joint(f"joint{k}_elastic").qposadr[0] for k in (1, 2)]
    data.qpos[motors] = positions
    for _ in range(round(20 / model.opt.timestep)):
        mujoco.mj_step1(model, data)
        feedback = 200 * (positions - data.qpos[motors]) - 10 * data.qvel[motors]
        data.qfrc_applied[motors] = data.qfrc_bias[motors] + feedback
        mujoco.mj_step2(model, data)
    assert_close(data.qpos[motors], positions, SOLVED)
    return data.qpos[springs].copy()


def test_links_hang_by_the_torque_over_the_stiffness(compiled):
    robot, model = compiled
    assert model.nv == 4
    data, theta = mujoco.MjData(model), np.array([0.4, -0.7])
    deflection = hold(model, data, theta)
    tau = mindyn.compile_model(robot).gravity(theta + deflection)
    assert_close(-deflection, tau / STIFFNESS, SOLVED)


def test_feedforward_puts_the_links_where_they_should_be(compiled):
    robot, model = compiled
    data, q = mujoco.MjData(model), np.array([0.2, 0.9])
    theta = elastic().motor_positions(q, mindyn.compile_model(robot).gravity(q))
    assert_close(theta + hold(model, data, theta), q, SOLVED)


def test_springs_carry_the_inertia_of_the_links(compiled):
    robot, model = compiled
    data = mujoco.MjData(model)
    full = np.zeros((4, 4))
    mujoco.mj_forward(model, data)
    unit = np.eye(4)
    for k in range(4):
        mujoco.mj_mulM(model, data, full[k], unit[k])
    springs = [model.joint(f"joint{k}_elastic").dofadr[0] for k in (1, 2)]
    assert_close(full[np.ix_(springs, springs)], mindyn.compile_model(robot).inertia_matrix(np.zeros(2)), ORACLE)
    assert_close(model.jnt_stiffness.reshape(4, -1)[springs, 0], np.array(STIFFNESS), SAME_ALGEBRA)
    assert_close(model.dof_damping.reshape(4, -1)[springs, 0], np.array(DAMPING), SAME_ALGEBRA)


def test_motors_without_inertia_get_a_small_one(robot, tmp_path):
    """Without it, MuJoCo's inertia matrix is singular; the time step follows its vibration."""
    bare = replace(robot, drives=())
    path = mindyn.write_mjcf(bare, tmp_path / "bare.xml", elasticity=elastic())
    model = mujoco.MjModel.from_xml_path(str(path))
    links = np.diag(mindyn.compile_model(bare).inertia_matrix(np.zeros(2)))
    assert_close(model.dof_armature[[0, 2]], 0.01 * links, ORACLE)
    fastest = np.sqrt((STIFFNESS / links * 101).max())
    assert_close(model.opt.timestep * fastest, 0.2, ORACLE)
    data = mujoco.MjData(model)
    data.qpos[1] = 0.01
    mujoco.mj_step(model, data, 1000)
    assert np.abs(data.qpos[[1, 3]]).max() < 0.05
    assert "assumed" in path.read_text()


def test_undetermined_joints_stay_rigid(robot, tmp_path):
    first, second = elastic().joints
    half = Elasticity((first, JointElasticity(second.joint, "not visible", compliance=1e-9)), 10.0, 100)
    path = mindyn.write_mjcf(robot, tmp_path / "arm.xml", elasticity=half)
    model = mujoco.MjModel.from_xml_path(str(path))
    assert [model.joint(k).name for k in range(model.njnt)] == ["joint1", "joint1_elastic", "joint2"]


def test_elastic_joints_need_a_new_file(robot, tmp_path):
    path = mindyn.write_mjcf(robot, tmp_path / "arm.xml")
    with raises(ExportError, Code.UNSUPPORTED, "source"):
        mindyn.write_mjcf(robot, tmp_path / "other.xml", source=path, elasticity=elastic())
    assert not (tmp_path / "other.xml").exists()
