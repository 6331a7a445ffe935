"""Closed loops in MJCF: MuJoCo's stiff constraints give the accelerations of the primary joints."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest
from closed_models import closed_model
from closeness import ORACLE, assert_close
from laws.closed_linkages import linkage
from laws.test_mimics import mimicking
from raising import raises

import mindyn
from mindyn.equations.loop_closure import home_closure
from mindyn.foundation.errors import Code, ExportError
from mindyn.output.export.mujoco_comparison import mujoco_torques
from mindyn.output.export.write_checks import choose_format

STIFF = 1e-4
"""MuJoCo's constraints are slightly soft."""


def cases():
    yield pytest.param(mindyn.load_robot("five_bar"), id="five_bar")
    yield pytest.param(linkage("slider-crank", 1), id="slider-crank")
    yield pytest.param(linkage("two loops", 0), id="two loops")


@pytest.mark.parametrize("robot", list(cases()))
def test_mujoco_moves_like_the_primary_joints(robot, tmp_path):
    mindyn.write_mjcf(robot, tmp_path / "robot.xml")
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    closure = home_closure(robot)
    primary = list(closure.primary)
    assert np.abs(data.qpos - closure.home).max() < 1e-12
    rng = np.random.default_rng(0)
    pd, tau = rng.uniform(-0.5, 0.5, len(primary)), rng.uniform(-20, 20, len(primary))
    dynamics = closed_model(robot)
    p = closure.home[primary]
    data.qvel[:] = dynamics.motion(p[None], pd[None]).qd[0]
    data.qfrc_applied[primary] = tau
    model.opt.tolerance, model.opt.iterations = 0.0, 200
    mujoco.mj_forward(model, data)
    assert_close(data.qacc[primary], dynamics.forward_dynamics(p, pd, tau), STIFF)


@pytest.mark.parametrize("robot", [*cases(), pytest.param(mimicking(1), id="mimics")])
def test_a_replay_has_the_torques_of_the_primary_joints(robot, tmp_path):
    mindyn.write_mjcf(robot, tmp_path / "robot.xml")
    closure, rng = home_closure(robot), np.random.default_rng(0)
    p = closure.home[list(closure.primary)] + rng.uniform(-0.02, 0.02, (3, len(closure.primary)))
    pd, pdd = rng.uniform(-1, 1, (2, *p.shape))
    expected = closed_model(robot).inverse_dynamics(p, pd, pdd)
    assert_close(mujoco_torques(robot, tmp_path / "robot.xml", p, pd, pdd), expected, ORACLE)
    whole = closure.positions(p)
    assert_close(mujoco_torques(robot, tmp_path / "robot.xml", whole, pd, pdd), expected, ORACLE)


def test_sliding_loops_are_rejected_unless_forced(tmp_path):
    robot = linkage("slide", 0)
    with raises(ExportError, Code.UNSUPPORTED, "slide 0"):
        mindyn.write_mjcf(robot, tmp_path / "robot.xml")
    mindyn.write_mjcf(robot, tmp_path / "robot.xml", force=True)
    assert mindyn.load_robot(tmp_path / "robot.xml").joint_names == replace(robot, loops=(), home=None).joint_names


def test_the_suggested_format_can_express_all_loops_of_a_robot(tmp_path):
    assert choose_format(mindyn.load_robot("puma560")) == "urdf"
    closed = mindyn.load_robot("five_bar")
    with raises(ExportError, Code.UNSUPPORTED, "five_bar"):
        mindyn.write_urdf(closed, tmp_path / "robot.urdf")
    assert choose_format(closed) == "mjcf"
    mindyn.write_mjcf(closed, tmp_path / "robot.xml")
    first, *others = closed.loops
    sliding = replace(closed, loops=(replace(first, kind="slide"), *others))
    with raises(ExportError, Code.UNSUPPORTED, "five_bar"):
        mindyn.write_mjcf(sliding, tmp_path / "sliding.xml")
    assert choose_format(sliding) == "toml"
    mindyn.write_toml(sliding, tmp_path / "sliding.toml")
