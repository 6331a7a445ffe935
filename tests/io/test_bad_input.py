"""Bad input raises an error with a code and a subject before any number is computed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from raising import raises
from robots import random_robot

import mindyn
from mindyn import Drive, Joint, Link, MindynError, Robot, build_equation, load_robot
from mindyn.foundation.errors import (
    Code,
    ExportError,
    InputError,
    MissingPhysicsError,
    RobotError,
    RobotFileError,
    UnknownNameError,
)
from mindyn.robots import Limits
from mindyn.robots.parts import Frame, Shape

ARM = """<robot name="arm">
  <link name="base"/>
  <link name="link">
    <inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>
  </link>
  <joint name="hinge" type="revolute"><parent link="base"/><child link="link"/><axis xyz="0 0 1"/></joint>
</robot>"""

BOMB = '<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>'
OUTSIDE = '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/hostname">]>'

URDF_CASES = {
    "entity expansion": (BOMB + ARM.replace('name="arm"', 'name="&b;"'), Code.UNSAFE_INPUT, "entities"),
    "external entity": (OUTSIDE + ARM.replace('name="arm"', 'name="&x;"'), Code.UNSAFE_INPUT, "entities"),
    "entity of another file": (
        '<!DOCTYPE r SYSTEM "x.dtd">' + ARM.replace('value="1"', 'value="&x;1"'),
        Code.UNSAFE_INPUT,
        "entities",
    ),
    "SDF": ("<sdf/>", Code.WRONG_FORMAT, "robot.urdf"),
    "Fortran": (ARM.replace('ixx="1"', 'ixx="1.0D-3"'), Code.WRONG_TYPE, "inertial of link 'link', ixx"),
    "empty damping": (
        ARM.replace("<axis", '<dynamics damping=""/><axis'),
        Code.WRONG_SHAPE,
        "dynamics of joint 'hinge', damping",
    ),
    "truncated": (ARM[:200], Code.WRONG_FORMAT, "robot.urdf"),
    "empty": ("", Code.WRONG_FORMAT, "robot.urdf"),
    "not a robot": ("<html/>", Code.WRONG_FORMAT, "robot.urdf"),
    "no link": ('<robot name="x"/>', Code.MISSING_VALUE, "link"),
    "zero axis": (ARM.replace("0 0 1", "0 0 0"), Code.INVALID_VALUE, "axis of joint 'hinge'"),
    "axis of two": (ARM.replace("0 0 1", "0 1"), Code.WRONG_SHAPE, "axis of joint 'hinge'"),
    "axis of words": (ARM.replace("0 0 1", "x y z"), Code.WRONG_TYPE, "axis of joint 'hinge'"),
    "nan": (ARM.replace('ixx="1"', 'ixx="nan"'), Code.NOT_FINITE, "inertial of link 'link', ixx"),
    "missing mass": (ARM.replace('<mass value="1"/>', ""), Code.MISSING_VALUE, "link"),
    "negative mass": (ARM.replace('value="1"', 'value="-2"'), Code.NOT_FEASIBLE, "link"),
    "unknown type": (ARM.replace("revolute", "screw"), Code.UNSUPPORTED, "hinge"),
    "mimic": (ARM.replace("<axis", '<mimic joint="x"/><axis'), Code.UNKNOWN_NAME, "x"),
    "unknown link": (ARM.replace('child link="link"', 'child link="lonk"'), Code.UNKNOWN_NAME, "lonk"),
    "no child": (ARM.replace('<child link="link"/>', ""), Code.MISSING_VALUE, "child"),
    "two roots": (ARM.replace("</robot>", '<link name="other"/></robot>'), Code.INVALID_STRUCTURE, "other"),
    "no joint": ('<robot name="x"><link name="a"/></robot>', Code.INVALID_STRUCTURE, "x"),
    "cycle": (
        ARM.replace(
            "</robot>", '<joint name="back" type="fixed"><parent link="link"/><child link="base"/></joint></robot>'
        ),
        Code.INVALID_STRUCTURE,
        "base",
    ),
    "two parents": (
        ARM.replace(
            "</robot>", '<joint name="b" type="fixed"><parent link="base"/><child link="link"/></joint></robot>'
        ),
        Code.INVALID_STRUCTURE,
        "link",
    ),
}


@pytest.mark.parametrize("case", URDF_CASES)
def test_wrong_urdf_raises_an_error_about_the_wrong_part(case, tmp_path):
    text, code, subject = URDF_CASES[case]
    path = tmp_path / "robot.urdf"
    path.write_text(text)
    with raises(RobotError, code, subject):
        load_robot(path)


@pytest.mark.parametrize(
    ("case", "hint"),
    [
        ("SDF", "save the model as URDF"),
        ("Fortran", "e instead of d"),
        ("empty damping", "--lock hinge=0"),
        ("truncated", "line"),
        ("two roots", "--root base"),
    ],
)
def test_hints_name_the_remedy(case, hint, tmp_path):
    path = tmp_path / "robot.urdf"
    path.write_text(URDF_CASES[case][0])
    with raises(RobotError, URDF_CASES[case][1]) as raised:
        load_robot(path)
    assert hint in raised.value.hint


def test_the_unchanged_urdf_is_valid(tmp_path):
    path = tmp_path / "robot.urdf"
    path.write_text(ARM)
    assert load_robot(path).joint_names == ("hinge",)


TOML = """
format = "mindyn-robot-1"
name = "arm"
convention = "modified_dh"
angles = "deg"
inertia = "com"
gravity = [0, 0, -9.81]
root = "base"
[[joint]]
name = "hinge"
type = "revolute"
child = "link"
alpha = 0
a = 0
theta = 0
d = 0
[[link]]
name = "link"
mass = 1
com = [0, 0, 0]
inertia = [1, 1, 1]
"""

TOML_CASES = {
    "not toml": ("x = = 1", Code.WRONG_FORMAT, "robot.toml"),
    "no gravity": (TOML.replace("gravity = [0, 0, -9.81]\n", ""), Code.MISSING_VALUE, "gravity"),
    "no angle unit": (TOML.replace('angles = "deg"\n', ""), Code.MISSING_VALUE, "angles"),
    "no inertia point": (TOML.replace('inertia = "com"\n', ""), Code.MISSING_VALUE, "inertia"),
    "wrong inertia point": (TOML.replace('inertia = "com"', 'inertia = "centre"'), Code.INVALID_VALUE, "robot.inertia"),
    "typing error": (TOML.replace("alpha", "alhpa"), Code.UNKNOWN_NAME, "alhpa"),
    "missing d": (TOML.replace("d = 0\n", ""), Code.MISSING_VALUE, "d"),
    "other format": (TOML.replace("robot-1", "robot-9"), Code.WRONG_FORMAT, "format"),
    "link without a joint": (
        TOML.replace('[[link]]\nname = "link"', '[[link]]\nname = "lonk"'),
        Code.UNKNOWN_NAME,
        "lonk",
    ),
    "inertia of four": (
        TOML.replace("[1, 1, 1]", "[1, 1, 1, 1]"),
        Code.WRONG_SHAPE,
        "inertia of link 'link' (xx, yy, zz or xx, xy, yy, xz, yz, zz)",
    ),
    "no com": (TOML.replace("com = [0, 0, 0]\n", ""), Code.DISAGREEMENT, "com"),
    "text for a number": (TOML.replace("mass = 1", 'mass = "1 kg"'), Code.INVALID_VALUE, "robot.link['link'].mass"),
    "joint type": (TOML.replace("revolute", "helical"), Code.INVALID_VALUE, "robot.joint['hinge'].type"),
    "single bracket": (TOML.replace("[[joint]]", "[joint]"), Code.INVALID_VALUE, "robot.joint"),
    "not a table": ("joint = 5\n" + TOML.replace("[[joint]]", "[[frame]]"), Code.INVALID_VALUE, "robot.joint"),
    "frame on nothing": (TOML + '[[frame]]\nname = "f"\nlink = "zz"\n', Code.UNKNOWN_NAME, "zz"),
    "two links of the same name": (TOML + TOML[TOML.index("[[link]]") :], Code.DUPLICATE, "link"),
    "no mass": (TOML.replace("mass = 1\n", ""), Code.MISSING_VALUE, "mass"),
    "a boolean": (TOML.replace("mass = 1", "mass = true"), Code.INVALID_VALUE, "robot.link['link'].mass"),
    "coupling": (
        TOML + '[[drive]]\njoint = "hinge"\nside = "joint"\ncoupling = 5\n',
        Code.INVALID_VALUE,
        "robot.drive['hinge'].coupling",
    ),
    "swapped limits": (
        TOML.replace("d = 0\n", "d = 0\nlimits = { lower = 1, upper = 0 }\n"),
        Code.OUT_OF_RANGE,
        "joint 'hinge'",
    ),
    "flat box": (
        TOML.replace("mass = 1", 'mass = 1\nshapes = [{ kind = "box", dimensions = [1, 2] }]'),
        Code.WRONG_SHAPE,
        "shape of link 'link'",
    ),
    "drive side": (TOML + '[[drive]]\njoint = "hinge"\nviscous = 1\n', Code.MISSING_VALUE, "side"),
}


@pytest.mark.parametrize("case", TOML_CASES)
def test_wrong_toml_raises_an_error_about_the_wrong_key(case, tmp_path):
    text, code, subject = TOML_CASES[case]
    path = tmp_path / "robot.toml"
    path.write_text(text)
    with raises(MindynError, code, subject):
        load_robot(path)


def test_ranges_of_numbers_are_not_part_of_a_message_about_a_text(tmp_path):
    (tmp_path / "robot.toml").write_text(TOML.replace("mass = 1", 'mass = "1"'))
    with raises(RobotFileError, Code.INVALID_VALUE) as text:
        load_robot(tmp_path / "robot.toml")
    (tmp_path / "robot.toml").write_text(TOML.replace("mass = 1", "mass = 1e20"))
    with raises(RobotFileError, Code.INVALID_VALUE) as number:
        load_robot(tmp_path / "robot.toml")
    assert "1e+15" in number.value.message
    assert "1e+15" not in text.value.message


def test_files_that_cannot_be_robots_are_rejected(tmp_path):
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "puma650") as raised:
        load_robot("puma650")
    assert raised.value.hint == "did you mean 'puma560'?"
    with raises(RobotFileError, Code.MISSING_FILE, "missing.urdf"):
        load_robot(tmp_path / "missing.urdf")
    huge = tmp_path / "huge.urdf"
    with huge.open("wb") as file:
        file.truncate(2**30)
    with raises(RobotFileError, Code.TOO_LARGE, "huge.urdf"):
        load_robot(huge)
    (tmp_path / "binary.urdf").write_bytes(b"\xff\xfe\x00")
    with raises(RobotFileError, Code.WRONG_FORMAT, "binary.urdf"):
        load_robot(tmp_path / "binary.urdf")
    (tmp_path / "mesh.stl").write_text("solid")
    with raises(RobotFileError, Code.WRONG_FORMAT, "mesh.stl"):
        load_robot(tmp_path / "mesh.stl")
    (tmp_path / "free.xml").write_text(
        '<mujoco><worldbody><body name="b"><freejoint/><geom size="1"/></body></worldbody></mujoco>'
    )
    with raises(RobotError, Code.INVALID_STRUCTURE, "MuJoCo Model"):
        load_robot(tmp_path / "free.xml")
    (tmp_path / "broken.xml").write_text("<mujoco><nonsense/></mujoco>")
    with raises(RobotFileError, Code.UNREADABLE, "broken.xml"):
        load_robot(tmp_path / "broken.xml")


def test_structure_is_validated_on_creation():
    phi = np.ones(10)
    arm = Robot("arm", Link("base"), (Joint("j", "revolute", "base", "link"),), (Link("link", phi),))
    cases = (
        (
            lambda: Joint("j", "revolute", "base", "link", axis=np.array([0, 0, 2.0])),
            Code.INVALID_VALUE,
            "j",
        ),
        (lambda: Joint("j", "revolute", "base", "base"), Code.INVALID_STRUCTURE, "j"),
        (lambda: Joint("j", "helical", "base", "link"), Code.UNKNOWN_NAME, "helical"),
        (lambda: Joint("", "revolute", "base", "link"), Code.INVALID_VALUE, "a joint"),
        (lambda: Link("l", np.ones(9)), Code.WRONG_SHAPE, None),
        (lambda: Link("l", np.full(10, np.nan)), Code.NOT_FINITE, None),
        (lambda: Limits(lower=float("nan")), Code.NOT_FINITE, "limit 'lower'"),
        (lambda: Limits(velocity=-1.0), Code.OUT_OF_RANGE, "limit 'velocity'"),
        (lambda: Limits(lower=-1.0, upper=1.0, continuous=True), Code.DISAGREEMENT, "continuous"),
        (
            lambda: Joint("j", "prismatic", "a", "b", limits=Limits(continuous=True)),
            Code.INVALID_STRUCTURE,
            "j",
        ),
        (lambda: Drive("j", ratio=0.0), Code.OUT_OF_RANGE, "j"),
        (lambda: Drive("j", viscous=-1.0), Code.OUT_OF_RANGE, "viscous of the drive of joint 'j'"),
        (lambda: Drive("j", coupling={"j": 1.0}), Code.INVALID_STRUCTURE, "j"),
        (lambda: Shape("cone", (1.0,)), Code.UNKNOWN_NAME, "cone"),
        (lambda: Shape("box", (1.0,)), Code.WRONG_SHAPE, "box"),
        (lambda: replace(arm, links=(Link("other", phi),)), Code.INVALID_STRUCTURE, "links"),
        (lambda: replace(arm, gravity=(0, 0)), Code.WRONG_SHAPE, "gravity"),
        (lambda: replace(arm, frames=(Frame("f", "nowhere"),)), Code.UNKNOWN_NAME, "nowhere"),
        (lambda: replace(arm, frames=(Frame("link", "base"),)), Code.DUPLICATE, "link"),
        (lambda: replace(arm, drives=(Drive("elbow"),)), Code.UNKNOWN_NAME, "elbow"),
        (lambda: replace(arm, drives=(Drive("j"), Drive("j"))), Code.DUPLICATE, "j"),
    )
    for make, code, subject in cases:
        with raises(MindynError, code, subject):
            make()


def test_impossible_edits_are_rejected():
    robot = random_robot(3, joints=4, tree=False)
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "elbow"):
        robot.lock({"elbow": 0.0})
    with raises(InputError, Code.NOT_FINITE, "position of 'joint1'"):
        robot.lock({"joint1": np.nan})
    with raises(RobotError, Code.INVALID_STRUCTURE, robot.name):
        robot.lock(dict.fromkeys(robot.joint_names, 0.0))
    with raises(RobotError, Code.INVALID_STRUCTURE, "link2"):
        robot.subchain("link3", "link2")
    with raises(InputError, Code.NOT_FEASIBLE, "payload"):
        robot.with_payload(1.0, (0, 0, 0), np.diag([1.0, 1.0, 3.0]))
    with raises(InputError, Code.NOT_FEASIBLE, "payload"):
        robot.with_payload(-1.0, (0, 0, 0), np.eye(3))
    with raises(InputError, Code.AMBIGUOUS, "at"):
        random_robot(3, joints=8, tree=True).with_payload(1.0, (0, 0, 0), np.eye(3))
    with raises(InputError, Code.UNKNOWN_NAME, "roof"):
        load_robot("panda", mount="roof")


def test_equations_reject_missing_physics():
    robot = random_robot(3, joints=2, tree=False)
    unknown = replace(robot, links=(Link("link1"), robot.links[1]))
    with raises(MissingPhysicsError, Code.MISSING_VALUE, "link1") as raised:
        build_equation(unknown, "inverse_dynamics")
    assert raised.value.hint
    assert build_equation(unknown, "inverse_dynamics", parameters="input").n_in() == 4
    assert build_equation(unknown, "forward_kinematics", link="link2").n_in() == 1
    with raises(MissingPhysicsError, Code.MISSING_VALUE):
        build_equation(robot, "inverse_dynamics", with_drives=True)
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "inverse"):
        build_equation(robot, "inverse")
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "tool"):
        build_equation(robot, "forward_kinematics", link="tool")
    with raises(InputError, Code.MISSING_VALUE, "link"):
        build_equation(robot, "forward_kinematics")


def test_a_failed_export_leaves_no_file(tmp_path):
    robot = load_robot("puma560")
    with raises(ExportError, Code.NOT_FEASIBLE, "puma560"):
        mindyn.write_urdf(robot, tmp_path / "x.urdf")
    driven = replace(load_robot("panda"), drives=(Drive("joint1", rotor_inertia=1.0),))
    with raises(ExportError, Code.UNSUPPORTED, "panda"):
        mindyn.write_urdf(driven, tmp_path / "x.urdf")
    with raises(ExportError, Code.MISSING_FILE, str(tmp_path / "nowhere")):
        mindyn.write_toml(robot, tmp_path / "nowhere" / "x.toml")
    assert list(tmp_path.iterdir()) == []
