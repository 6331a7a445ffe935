"""Springs, several joints on a body and massless links in MJCF: MuJoCo and mindyn agree."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest
from closeness import ORACLE, assert_close
from laws.closed_linkages import linkage
from raising import raises

from mindyn import ExtraTorque, compile_model, load_robot, write_mjcf
from mindyn.equations.loop_closure import home_closure
from mindyn.foundation.errors import Code, ExportError, RobotError
from mindyn.foundation.findings import Kind
from mindyn.robots.parts import Link
from mindyn.robots.springs import Spring, find_springs

MJCF = """<mujoco><default><default class="sprung"><joint stiffness="7" springref="20"/></default></default>
<worldbody>
<body name="a" pos="0 0 1"><joint name="j1" axis="0 1 0" class="sprung" ref="10"/>
<joint name="j2" type="slide" axis="1 0 0" pos="0.1 0 0" stiffness="30" springref="0.2"/>
<joint name="j3" axis="0 0 1" pos="0 0.3 0"/><geom type="capsule" size="0.05 0.2" pos="0.1 0 0.2"/>
<body name="b" pos="0.3 0 0" euler="20 0 40"><joint name="j4" axis="1 1 0" stiffness="{}"/>
<geom size="0.1" pos="0 0.1 0"/></body></body></worldbody></mujoco>"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "arm.xml").write_text(MJCF.format(0))
    return tmp_path / "arm.xml"


def torques(path, q, qd, qdd):
    """Return MuJoCo's torques."""
    model = mujoco.MjModel.from_xml_path(str(path))
    off = mujoco.mjtDisableBit
    model.opt.disableflags |= int(off.mjDSBL_CONTACT) | int(off.mjDSBL_LIMIT)
    data = mujoco.MjData(model)
    data.qpos, data.qvel, data.qacc = q, qd, qdd
    mujoco.mj_inverse(model, data)
    return np.array(data.qfrc_inverse)


MOTION = np.random.default_rng(0).uniform(-1, 1, (3, 4))


def test_written_springs_are_read_back(path, tmp_path):
    robot = load_robot(path, snap=False)
    assert [note for note in robot.findings if note.kind == Kind.DROPPED_PART] == []
    expected = torques(path, *MOTION)
    assert_close(compile_model(robot, with_drives=True).inverse_dynamics(*MOTION), expected, ORACLE)
    write_mjcf(robot, tmp_path / "again.xml")
    assert_close(torques(tmp_path / "again.xml", *MOTION), expected, ORACLE)
    held = load_robot(path, snap=False, lock={"j2": 0.1})
    assert [extra.joint for extra in held.extras] == ["j1"]


def test_a_file_without_joints_is_rejected(tmp_path):
    (tmp_path / "scene.xml").write_text("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
    with raises(RobotError, Code.INVALID_STRUCTURE, "MuJoCo Model"):
        load_robot(tmp_path / "scene.xml")


def test_editing_sets_the_springs_of_the_robot(path, tmp_path):
    """Change stiffness and rest position (in degrees in the file), add a spring, and remove one."""
    robot = load_robot(path, snap=False)
    now = {"j1": Spring(9.0, 0.5), "j4": Spring(3.0, -0.2)}
    robot = replace(robot, extras=tuple(spring.to_extra_torque(name) for name, spring in now.items()))
    write_mjcf(robot, tmp_path / "now.xml", source=path)
    read = find_springs(load_robot(tmp_path / "now.xml", snap=False).extras)
    assert sorted(read) == ["j1", "j4"]
    for name, spring in now.items():
        assert_close([read[name].stiffness, read[name].rest], [spring.stiffness, spring.rest], ORACLE)
    expected = compile_model(robot, with_drives=True).inverse_dynamics(*MOTION)
    assert_close(torques(tmp_path / "now.xml", *MOTION), expected, ORACLE)


def test_extra_torques_that_are_not_springs_are_rejected(path, tmp_path):
    path.write_text(MJCF.format("2 0.5"))
    model = mujoco.MjModel.from_xml_path(str(path)) if hasattr(mujoco.MjModel, "jnt_stiffnesspoly") else None
    if model is not None:
        assert any("nonlinear springs" in str(note) for note in load_robot(path).findings)
    robot = load_robot("planar2")
    bent = replace(robot, drives=(), extras=(ExtraTorque("bent", "joint1", "sin(q)", 2.0),))
    with raises(ExportError, Code.UNSUPPORTED, "planar2") as raised:
        write_mjcf(bent, tmp_path / "bent.xml")
    assert "'bent'" in raised.value.message


def test_massless_links_become_joints_of_the_next_body_or_are_rejected(tmp_path):
    robot = replace(load_robot("ur10"), drives=())
    empty = [Link(link.name, np.zeros(10)) if k in (0, 2, 3) else link for k, link in enumerate(robot.links)]
    light = replace(robot, links=tuple(empty))
    write_mjcf(light, tmp_path / "light.xml")
    q, qd, qdd = np.random.default_rng(1).uniform(-1, 1, (3, 6))
    expected = compile_model(light).inverse_dynamics(q, qd, qdd)
    assert_close(torques(tmp_path / "light.xml", q, qd, qdd), expected, ORACLE)
    last = replace(robot, links=(*robot.links[:-1], Link(robot.links[-1].name, np.zeros(10))))
    with raises(ExportError, Code.UNSUPPORTED, "wrist_3_link"):
        write_mjcf(last, tmp_path / "last.xml")


def test_the_home_keyframe_of_loops_is_in_the_order_of_mujoco(tmp_path):
    """Check that joints are ordered depth first, as MuJoCo numbers them."""
    robot = linkage("five-bar", 0)
    order = [0, 2, 1, 3]
    joints, links = (tuple(parts[i] for i in order) for parts in (robot.joints, robot.links))
    crossed = replace(robot, joints=joints, links=links, home=robot.home[order])
    write_mjcf(crossed, tmp_path / "crossed.xml")
    again = load_robot(tmp_path / "crossed.xml", snap=False)
    home = dict(zip(crossed.joint_names, home_closure(crossed).home, strict=True))
    assert_close(home_closure(again).home, [home[name] for name in again.joint_names], ORACLE)
