"""Mimic joints in files: URDF's <mimic>, MJCF's joint equalities and TOML, also in published robots."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from closeness import ORACLE, ROUND_TRIP, assert_close
from messages import messages
from raising import raises
from robots import UP, random_robot

from mindyn import compile_model, load_robot, write_mjcf, write_toml, write_urdf
from mindyn.equations.loop_closure import affine_closure
from mindyn.foundation.errors import Code, RobotError, RobotFileError
from mindyn.robots import Mimic

PUBLISHED = Path(os.environ.get("MINDYN_ROBOT_FILES", ""))
OF_FIXED_JOINTS = {"eve_r3.urdf"}
"""Files in which joints mimic only fixed joints."""


def list_published_files() -> list[Path]:
    if not os.environ.get("MINDYN_ROBOT_FILES"):
        return []
    return sorted(path for path in PUBLISHED.rglob("*.urdf") if "<mimic" in path.read_text(errors="replace"))


def robot():
    mimics = (Mimic("joint4", "joint2", -0.7, 0.25), Mimic("joint2", "joint5", 1 / 3))
    return replace(random_robot(4, joints=5, tips=False, gravity=UP), mimics=mimics)


@pytest.mark.parametrize("write", [write_toml, write_urdf, write_mjcf], ids=["toml", "urdf", "mjcf"])
def test_writers_keep_mimics(write, tmp_path):
    path = tmp_path / {write_toml: "a.toml", write_urdf: "a.urdf", write_mjcf: "a.xml"}[write]
    write(robot(), path)
    again = load_robot(path, snap=False)
    assert sorted(again.mimics, key=lambda m: m.joint) == sorted(robot().mimics, key=lambda m: m.joint)
    p, pd, pdd = np.random.default_rng(0).uniform(-1, 1, (3, 3))
    expected = compile_model(robot()).inverse_dynamics(p, pd, pdd)
    assert_close(compile_model(again).inverse_dynamics(p, pd, pdd), expected, ORACLE)


MJCF = """<mujoco><compiler angle="radian"/><worldbody><body name="a"><joint name="j1" axis="0 0 1" ref="0.3"/>
<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
<body name="b" pos="1 0 0"><joint name="j2" axis="0 1 0" ref="-0.2"/>
<inertial pos="1 0 0" mass="1" diaginertia="1 1 1"/></body></body></worldbody><equality>{}</equality></mujoco>"""


def test_mjcf_equalities_are_relative_to_the_initial_positions(tmp_path):
    (tmp_path / "a.xml").write_text(MJCF.format('<joint joint1="j2" joint2="j1" polycoef="0.1 2 0 0 0"/>'))
    (mimic,) = load_robot(tmp_path / "a.xml").mimics
    assert (mimic.joint, mimic.of, mimic.multiplier) == ("j2", "j1", 2.0)
    assert_close(mimic.offset, -0.2 + 0.1 - 2 * 0.3, ROUND_TRIP)


def test_nonlinear_mjcf_equalities_are_dropped_with_a_finding(tmp_path):
    (tmp_path / "a.xml").write_text(MJCF.format('<joint joint1="j2" joint2="j1" polycoef="0 1 0.5 0 0"/>'))
    read = load_robot(tmp_path / "a.xml")
    assert not read.mimics
    assert any("1 equality constraints" in str(note) for note in messages(read))


URDF = """<robot name="r"><link name="base"/><link name="a"/><link name="b"/>
<joint name="one" type="{kind}"><parent link="base"/><child link="a"/><axis xyz="0 0 1"/></joint>
<joint name="two" type="continuous"><parent link="a"/><child link="b"/><origin xyz="1 0 0"/><axis xyz="0 0 1"/>
{mimic}</joint><link name="c"/>
<joint name="three" type="continuous"><parent link="b"/><child link="c"/></joint></robot>"""


def test_a_mimic_of_a_fixed_joint_is_fixed_at_its_offset(tmp_path):
    text = URDF.format(kind="fixed", mimic='<mimic joint="one" multiplier="2" offset="0.5"/>')
    (tmp_path / "a.urdf").write_text(text)
    read = load_robot(tmp_path / "a.urdf")
    assert read.joint_names == ("three",)
    assert "joint 'two' mimics a fixed joint: held at 0.5" in [str(note) for note in messages(read)]
    R = read.joints[0].origin.rotation
    assert_close(R[:2, :2], [[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]], ROUND_TRIP)


@pytest.mark.parametrize(
    ("mimic", "code", "subject"),
    [
        ('<mimic joint="nine"/>', Code.UNKNOWN_NAME, "nine"),
        ('<mimic joint="two"/>', Code.INVALID_STRUCTURE, "two"),
        ("<mimic/>", Code.MISSING_VALUE, "two"),
        ('<mimic joint="one" multiplier="a"/>', Code.WRONG_TYPE, "multiplier of the mimic of joint 'two'"),
    ],
    ids=["unknown", "itself", "nothing", "text"],
)
def test_wrong_mimics_of_a_file_are_rejected_by_name(tmp_path, mimic, code, subject):
    (tmp_path / "a.urdf").write_text(URDF.format(kind="continuous", mimic=mimic))
    with raises(RobotError, code, subject):
        load_robot(tmp_path / "a.urdf")


def test_toml_checks_the_keys_and_types_of_mimics(tmp_path):
    write_toml(robot(), tmp_path / "a.toml")
    text = (tmp_path / "a.toml").read_text()
    (tmp_path / "a.toml").write_text(text.replace("multiplier", "factor"))
    with raises(RobotFileError, Code.UNKNOWN_NAME, "factor"):
        load_robot(tmp_path / "a.toml")
    (tmp_path / "a.toml").write_text(text.replace('of = "joint5"', "of = 5"))
    with raises(RobotFileError, Code.INVALID_VALUE, "robot.mimic['joint2'].of"):
        load_robot(tmp_path / "a.toml")


@pytest.mark.skipif(
    not list_published_files(), reason="MINDYN_ROBOT_FILES is not set: published robots are not in the repository"
)
@pytest.mark.parametrize("path", list_published_files(), ids=lambda path: path.stem)
def test_published_mimics_match_the_projected_tree_of_pinocchio(path):
    read = load_robot(path, snap=False)
    assert read.joint_count < len(read.joints) or path.name in OF_FIXED_JOINTS
    if not read.has_parameters:
        pytest.skip("the file has no inertials, so there are no torques")
    text = re.sub(
        r'(effort|velocity)="-', r'\1="', path.read_text(errors="replace")
    )  # Pinocchio rejects negative limits
    if "<robot" in text and "name=" not in text[text.index("<robot") : text.index(">", text.index("<robot"))]:
        text = text.replace("<robot", '<robot name="r"', 1)
    if f'<link name="{read.root.name}"' not in text:  # a partial robot, mounted on an undefined link
        text = text.replace("</robot>", f'<link name="{read.root.name}"/></robot>')
    A, b = affine_closure(read).matrix, affine_closure(read).offset
    p, pd, pdd = np.random.default_rng(0).uniform(-1, 1, (3, A.shape[1]))
    tree = pin.buildModelFromXML(text)
    state, places = pin.neutral(tree), []
    for name, value in zip(read.joint_names, A @ p + b, strict=True):
        joint = tree.joints[tree.getJointId(name)]
        state[joint.idx_q : joint.idx_q + joint.nq] = [value] if joint.nq == 1 else [np.cos(value), np.sin(value)]
        places.append(joint.idx_v)
    rates = np.zeros((2, tree.nv))
    rates[:, places] = A @ pd, A @ pdd
    expected = A.T @ pin.rnea(tree, tree.createData(), state, *rates)[places]
    assert_close(compile_model(read).inverse_dynamics(p, pd, pdd), expected, ORACLE)
