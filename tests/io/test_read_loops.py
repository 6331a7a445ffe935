"""<connect> and <weld> in MJCF become closed loops: our files round-trip, and other files move as in MuJoCo."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest
from closed_models import closed_model
from closeness import ORACLE, assert_close
from laws.closed_linkages import linkage
from messages import messages
from raising import raises
from scipy.linalg import null_space

import mindyn
from mindyn.equations.loop_closure import home_closure
from mindyn.foundation.errors import Code, RobotError, RobotFileError
from mindyn.robots.parts import Mimic

STIFF = 1e-4
"""MuJoCo's constraints are slightly soft."""

FOUR_BAR = """
<mujoco model="four_bar">
  <compiler angle="radian"/>
  <worldbody>
    <body name="crank"><joint name="crank" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.02"/>
      <body name="coupler" pos="0.2 0 0"><joint name="coupler" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0.5 0 -0.1" size="0.02"/></body></body>
    <body name="rocker" pos="0.6 0 0.4"><joint name="rocker" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0.1 0 -0.5" size="0.02"/></body>
  </worldbody>
  <equality><connect name="pin" body1="coupler" body2="rocker" anchor="0.5 0 -0.1" {more}/></equality>
  <actuator><motor joint="{motor}"/></actuator>
</mujoco>
"""


def write_mjcf_file(tmp_path, text):
    path = tmp_path / "robot.xml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "robot",
    [
        mindyn.load_robot("five_bar"),
        mindyn.load_robot("slider_crank"),
        mindyn.load_robot("palletiser"),
        linkage("two loops", 0),
        linkage("ball", 3),
        linkage("five-bar", 1),
        linkage("weld", 1),
    ],
    ids=lambda robot: robot.name,
)
def test_our_files_round_trip(robot, tmp_path):
    mindyn.write_mjcf(robot, tmp_path / "robot.xml", force=True)
    again = mindyn.load_robot(tmp_path / "robot.xml", snap=False)
    assert [loop.name for loop in again.loops] == [loop.name for loop in robot.loops]
    kept = [[(loop.kind, loop.dependent) for loop in model.loops] for model in (again, robot)]
    assert kept[0] == kept[1]
    assert again.primary_names == robot.primary_names
    assert [frame.name for frame in again.frames] == [frame.name for frame in robot.frames]
    home = home_closure(robot).home
    assert_close(again.home + 1, home + 1, ORACLE)
    p, rng = home[list(home_closure(robot).primary)][None], np.random.default_rng(0)
    pd, pdd = rng.uniform(-1, 1, (2, 1, p.shape[1]))
    expected = closed_model(replace(robot, home=home)).inverse_dynamics(p, pd, pdd)
    assert_close(mindyn.compile_model(again).inverse_dynamics(p, pd, pdd), expected, 1e-9)
    mindyn.write_mjcf(again, tmp_path / "again.xml", force=True)
    twice = mindyn.load_robot(tmp_path / "again.xml")
    assert [loop.name for loop in twice.loops] == [loop.name for loop in robot.loops]


@pytest.mark.parametrize("motor", ["crank", "rocker"])
@pytest.mark.parametrize("held", ["connect", "weld", "weld elsewhere"])
def test_a_stock_file_with_a_loop_moves_as_in_mujoco(motor, held, tmp_path):
    text = FOUR_BAR.format(motor=motor, more='solref="0.002 1" solimp="0.999999 0.999999 0.001"')
    if held != "connect":
        end = """<body name="end" pos="0.5 0 -0.1"><joint name="end" axis="0 1 0"/>
            <geom type="capsule" fromto="0 0 0 0.1 0 0.05" size="0.02"/></body></body></body>"""
        text = (
            text.replace("</body></body>", end).replace("<connect", "<weld").replace('body1="coupler"', 'body1="end"')
        )
        text = text.replace('anchor="0.5 0 -0.1"', "" if held == "weld" else 'anchor="0.1 0.2 0.3" torquescale="0.7"')
    path = write_mjcf_file(tmp_path, text)
    robot = mindyn.load_robot(path)
    assert robot.primary_names == (motor,)
    assert any(f"'pin' from <{held.split()[0]}>" in str(note) for note in messages(robot))
    model = mujoco.MjModel.from_xml_path(str(path))
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    model.opt.tolerance, model.opt.iterations = 0.0, 200
    data = mujoco.MjData(model)
    pd, tau = np.array([0.7 if held == "connect" else 0.0]), np.array([3.0])
    p = np.zeros(1)
    data.qvel[:] = closed_model(robot).motion(p[None], pd[None]).qd[0]
    data.qfrc_applied[robot.joint_index(motor)] = tau[0]
    mujoco.mj_forward(model, data)
    expected = mindyn.compile_model(robot).forward_dynamics(p, pd, tau)
    if held == "connect":
        assert_close(data.qacc[robot.joint_index(motor)], expected[0], STIFF)
        return
    # MuJoCo's welds are softer: compare accelerations from rest in the directions that its constraints leave free.
    free = null_space(data.efc_J.reshape(-1, model.nv))
    moved = np.array([masses(model, data, column) for column in free.T])
    qacc = free @ np.linalg.solve(moved @ free, free.T @ (data.qfrc_applied - data.qfrc_bias))
    assert_close(qacc[robot.joint_index(motor)], expected[0], ORACLE)


def masses(model, data, qacc):
    product = np.zeros(model.nv)
    mujoco.mj_mulM(model, data, product, qacc)
    return product


def test_unsupported_equalities_are_reported_by_name(tmp_path):
    text = FOUR_BAR.format(motor="crank", more='active="false"')
    assert mindyn.load_robot(write_mjcf_file(tmp_path, text)).loops == ()
    findings = mindyn.load_robot(tmp_path / "robot.xml").findings
    assert any("1 equality constraints" in str(finding) for finding in findings)
    both = text.replace("<equality>", '<equality><weld body1="coupler" body2="rocker"/>').replace('active="false"', "")
    notes = mindyn.load_robot(write_mjcf_file(tmp_path, both)).findings
    assert any("2 equalities connect the same two bodies" in str(note) for note in notes)
    still = text.replace('body1="coupler" body2="rocker"', 'body1="tool" body2="coupler"').replace(
        ' active="false"', ""
    )
    still = still.replace('size="0.02"/></body></body>', 'size="0.02"/><body name="tool"/></body></body>')
    robot = mindyn.load_robot(write_mjcf_file(tmp_path, still))
    assert robot.loops == ()
    assert any("<connect> 'pin' of the MJCF was dropped: it contains no joint" in str(m) for m in messages(robot))


def test_mimics_and_loops_of_the_same_file_are_read_together(tmp_path):
    robot = replace(mindyn.load_robot("five_bar"), mimics=(Mimic("joint4", "joint2", 1.0, -1.2),))
    mindyn.write_mjcf(robot, tmp_path / "robot.xml")
    text = (tmp_path / "robot.xml").read_text()
    again = mindyn.load_robot(tmp_path / "robot.xml")
    assert again.primary_names == ("joint1", "joint2")
    start, end = text.index("<custom"), text.index("</custom>") + len("</custom>")
    guessed = mindyn.load_robot(write_mjcf_file(tmp_path, text[:start] + text[end:]))
    assert set(guessed.loops[0].dependent) == {"joint3", "joint5"}
    wrong = text.replace("joint5&quot;]", "joint1&quot;]").replace('joint5"]', 'joint1"]')
    with raises(RobotFileError, Code.UNKNOWN_NAME, "joint1"):
        mindyn.load_robot(write_mjcf_file(tmp_path, wrong))


def test_all_joints_of_a_loop_or_its_primary_ones_can_be_locked(tmp_path):
    path = write_mjcf_file(
        tmp_path,
        FOUR_BAR.format(motor="crank", more="").replace(
            "</worldbody>",
            """
        <body name="other"><joint name="other" axis="0 0 1"/><geom size="0.1"/></body></worldbody>""",
        ),
    )
    held = mindyn.load_robot(path, lock={"crank": 0.0, "coupler": 0.0, "rocker": 0.0})
    assert held.joint_names == ("other",)
    assert held.loops == ()
    with raises(RobotError, Code.INVALID_STRUCTURE, "pin"):
        mindyn.load_robot(path, lock={"coupler": 0.0})
