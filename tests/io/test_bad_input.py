"""Bad input: a named error that says what was given, before any number is computed."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from robots import random_robot

import mindyn
from mindyn import Drive, Joint, Link, MindynError, Robot, equation, load_robot
from mindyn.errors import (
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
    "entity expansion": (BOMB + ARM.replace('name="arm"', 'name="&b;"'), RobotFileError, "document type"),
    "external entity": (OUTSIDE + ARM.replace('name="arm"', 'name="&x;"'), RobotFileError, "document type"),
    "entity of another file": (
        '<!DOCTYPE r SYSTEM "x.dtd">' + ARM.replace('value="1"', 'value="&x;1"'),
        RobotFileError,
        "document type",
    ),
    "SDF": ("<sdf/>", RobotFileError, "<sdf>.*\n.*save the model as URDF"),
    "Fortran": (ARM.replace('ixx="1"', 'ixx="1.0D-3"'), RobotFileError, "must be a number.*\n.*e in place of d"),
    "damping of nothing": (
        ARM.replace("<axis", '<dynamics damping=""/><axis'),
        RobotFileError,
        "damping must be a number, got ''\n.*--lock hinge=0",
    ),
    "truncated": (ARM[:200], RobotFileError, "not well-formed.*\n.*line"),
    "empty": ("", RobotFileError, "not well-formed"),
    "not a robot": ("<html/>", RobotFileError, "<html>"),
    "no link": ('<robot name="x"/>', RobotFileError, "no <link>"),
    "zero axis": (ARM.replace("0 0 1", "0 0 0"), RobotError, "axis of joint 'hinge' is zero"),
    "axis of two": (ARM.replace("0 0 1", "0 1"), RobotFileError, "axis of joint 'hinge' must be 3 numbers, got 2"),
    "axis of words": (ARM.replace("0 0 1", "x y z"), RobotFileError, "axis of joint 'hinge' must be 3 numbers"),
    "nan": (ARM.replace('ixx="1"', 'ixx="nan"'), RobotFileError, "ixx must be finite"),
    "missing mass": (ARM.replace('<mass value="1"/>', ""), RobotFileError, "needs <mass>"),
    "negative mass": (ARM.replace('value="1"', 'value="-2"'), RobotError, "'link' has a negative mass of -2 kg"),
    "unknown type": (ARM.replace("revolute", "screw"), RobotFileError, "type 'screw'; mindyn knows: revolute"),
    "mimic": (ARM.replace("<axis", '<mimic joint="x"/><axis'), RobotError, "mimics 'x', which is no joint"),
    "unknown link": (
        ARM.replace('child link="link"', 'child link="lonk"'),
        RobotError,
        "child link 'lonk', which does not exist",
    ),
    "no child": (ARM.replace('<child link="link"/>', ""), RobotFileError, "joint 'hinge' names no child link"),
    "two roots": (ARM.replace("</robot>", '<link name="other"/></robot>'), RobotError, "one root.*base, other"),
    "no joint": ('<robot name="x"><link name="a"/></robot>', RobotError, "no moving joint"),
    "cycle": (
        ARM.replace(
            "</robot>", '<joint name="back" type="fixed"><parent link="link"/><child link="base"/></joint></robot>'
        ),
        RobotError,
        "cycle",
    ),
    "two parents": (
        ARM.replace(
            "</robot>", '<joint name="b" type="fixed"><parent link="base"/><child link="link"/></joint></robot>'
        ),
        RobotError,
        "'link' is the child of more than one joint",
    ),
}


@pytest.mark.parametrize("case", URDF_CASES)
def test_urdf(case, tmp_path):
    text, error, message = URDF_CASES[case]
    path = tmp_path / "robot.urdf"
    path.write_text(text)
    with pytest.raises(error, match=re.compile(message, re.DOTALL)):
        load_robot(path)


def test_the_case_that_the_others_break_is_good(tmp_path):
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
    "not toml": ("x = = 1", "not valid TOML"),
    "no gravity": (TOML.replace("gravity = [0, 0, -9.81]\n", ""), "states no 'gravity'"),
    "no angle unit": (TOML.replace('angles = "deg"\n', ""), "states no 'angles'"),
    "no inertia point": (TOML.replace('inertia = "com"\n', ""), "states no 'inertia'"),
    "wrong inertia point": (
        TOML.replace('inertia = "com"', 'inertia = "centre"'),
        "must be one of com, origin; got 'centre'",
    ),
    "typing error": (TOML.replace("alpha", "alhpa"), "unknown keys alhpa"),
    "missing d": (TOML.replace("d = 0\n", ""), "joint 'hinge' states no 'd'"),
    "other format": (TOML.replace("robot-1", "robot-9"), "reads 'mindyn-robot-1'"),
    "link nobody moves": (
        TOML.replace('[[link]]\nname = "link"', '[[link]]\nname = "lonk"'),
        "'lonk'.*moved by no joint",
    ),
    "inertia of four": (TOML.replace("[1, 1, 1]", "[1, 1, 1, 1]"), r"inertia of link 'link'.*shape \(6,\)"),
    "no com": (TOML.replace("com = [0, 0, 0]\n", ""), "either com or first_moment"),
    "text for a number": (TOML.replace("mass = 1", 'mass = "1 kg"'), "mass of link 'link' must be numbers"),
    "joint type": (TOML.replace("revolute", "helical"), "must be one of revolute, prismatic, fixed; got 'helical'"),
    "one bracket": (TOML.replace("[[joint]]", "[joint]"), "must be a list of tables.*\nhint: write .*two brackets"),
    "not a table": ("joint = 5\n" + TOML.replace("[[joint]]", "[[frame]]"), "list of tables"),
    "frame on nothing": (TOML + '[[frame]]\nname = "f"\nlink = "zz"\n', "no link 'zz'; the model has: base, link"),
    "two links of one name": (TOML + TOML[TOML.index("[[link]]") :], "unique; repeated: link"),
    "no mass": (TOML.replace("mass = 1\n", ""), "states com, inertia but no mass"),
    "a truth value": (TOML.replace("mass = 1", "mass = true"), "mass of link 'link' must be numbers"),
    "coupling": (
        TOML + '[[drive]]\njoint = "hinge"\nside = "joint"\ncoupling = 5\n',
        "coupling of a drive must be a table",
    ),
    "drive side": (TOML + '[[drive]]\njoint = "hinge"\nviscous = 1\n', "states no 'side'"),
}


@pytest.mark.parametrize("case", TOML_CASES)
def test_toml(case, tmp_path):
    text, message = TOML_CASES[case]
    path = tmp_path / "robot.toml"
    path.write_text(text)
    with pytest.raises(MindynError, match=message):
        load_robot(path)


def test_files_that_cannot_be_robots(tmp_path):
    with pytest.raises(UnknownNameError, match="'puma650' is neither a bundled robot nor a file; bundled: .*puma560"):
        load_robot("puma650")
    with pytest.raises(RobotFileError, match="there is no file"):
        load_robot(tmp_path / "missing.urdf")
    huge = tmp_path / "huge.urdf"
    with huge.open("wb") as file:
        file.truncate(2**30)
    with pytest.raises(RobotFileError, match="1024 MiB"):
        load_robot(huge)
    (tmp_path / "binary.urdf").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RobotFileError, match="not UTF-8"):
        load_robot(tmp_path / "binary.urdf")
    (tmp_path / "mesh.stl").write_text("solid")
    with pytest.raises(RobotFileError, match="mindyn reads"):
        load_robot(tmp_path / "mesh.stl")
    (tmp_path / "free.xml").write_text(
        '<mujoco><worldbody><body name="b"><freejoint/><geom size="1"/></body></worldbody></mujoco>'
    )
    with pytest.raises(RobotError, match="no moving joint"):
        load_robot(tmp_path / "free.xml")
    (tmp_path / "broken.xml").write_text("<mujoco><nonsense/></mujoco>")
    with pytest.raises(RobotFileError, match="MuJoCo cannot compile"):
        load_robot(tmp_path / "broken.xml")


def test_structure_is_validated_at_birth():
    phi = np.ones(10)
    arm = Robot("arm", Link("base"), (Joint("j", "revolute", "base", "link"),), (Link("link", phi),))
    cases = (
        (lambda: Joint("j", "revolute", "base", "link", axis=np.array([0, 0, 2.0])), "unit length"),
        (lambda: Joint("j", "revolute", "base", "base"), "with itself"),
        (lambda: Joint("j", "helical", "base", "link"), "must be one of revolute, prismatic"),
        (lambda: Joint("", "revolute", "base", "link"), "needs a name"),
        (lambda: Link("l", np.ones(9)), r"shape \(10,\)"),
        (lambda: Link("l", np.full(10, np.nan)), "finite"),
        (lambda: Limits(lower=float("nan")), "limit 'lower' must be finite"),
        (lambda: Limits(velocity=-1.0), "at least 0"),
        (lambda: Limits(lower=-1.0, upper=1.0, continuous=True), "a continuous joint has no ends"),
        (lambda: Joint("j", "prismatic", "a", "b", limits=Limits(continuous=True)), "only a revolute joint"),
        (lambda: Drive("j", ratio=0.0), "gear ratio .* is zero"),
        (lambda: Drive("j", viscous=-1.0), "viscous .* at least 0"),
        (lambda: Drive("j", coupling={"j": 1.0}), "coupled to its own joint"),
        (lambda: Shape("cone", (1.0,)), "must be one of box"),
        (lambda: Shape("box", (1.0,)), "3 dimensions"),
        (lambda: replace(arm, links=(Link("other", phi),)), "child of"),
        (lambda: replace(arm, gravity=(0, 0)), r"shape \(3,\)"),
        (lambda: replace(arm, frames=(Frame("f", "nowhere"),)), "no link 'nowhere'; the model has: base, link"),
        (lambda: replace(arm, frames=(Frame("link", "base"),)), "unique; repeated: link"),
        (lambda: replace(arm, drives=(Drive("elbow"),)), "no joint 'elbow'; the model has: j"),
        (lambda: replace(arm, drives=(Drive("j"), Drive("j"))), "one drive; repeated: j"),
    )
    for make, message in cases:
        with pytest.raises(MindynError, match=message):
            make()


def test_edits_refuse_what_cannot_be():
    robot = random_robot(3, joints=4, tree=False)
    with pytest.raises(UnknownNameError, match="no joint 'elbow'; the model has: joint1"):
        robot.lock({"elbow": 0.0})
    with pytest.raises(InputError, match="finite"):
        robot.lock({"joint1": np.nan})
    with pytest.raises(RobotError, match="no moving joint"):
        robot.lock(dict.fromkeys(robot.joint_names, 0.0))
    with pytest.raises(RobotError, match="no chain between them"):
        robot.subchain("link3", "link2")
    with pytest.raises(InputError, match="no body can have"):
        robot.with_payload(1.0, (0, 0, 0), np.diag([1.0, 1.0, 3.0]))
    with pytest.raises(InputError, match="no body can have"):
        robot.with_payload(-1.0, (0, 0, 0), np.eye(3))
    with pytest.raises(InputError, match="several last links"):
        random_robot(3, joints=8, tree=True).with_payload(1.0, (0, 0, 0), np.eye(3))
    with pytest.raises(InputError, match="mount must be one of floor"):
        load_robot("panda", mount="roof")


def test_equations_refuse_missing_physics():
    robot = random_robot(3, joints=2, tree=False)
    unknown = replace(robot, links=(Link("link1"), robot.links[1]))
    with pytest.raises(MissingPhysicsError, match="no inertial parameters for: link1.*\n.*hint"):
        equation(unknown, "inverse_dynamics")
    assert equation(unknown, "inverse_dynamics", parameters="input").n_in() == 4
    assert equation(unknown, "forward_kinematics", place="link2").n_in() == 1
    with pytest.raises(MissingPhysicsError, match="no drives"):
        equation(robot, "inverse_dynamics", drives=True)
    with pytest.raises(UnknownNameError, match="no equation 'inverse'; .*inverse_dynamics"):
        equation(robot, "inverse")
    with pytest.raises(UnknownNameError, match="no link or frame 'tool'; the model has: base, link1, link2"):
        equation(robot, "forward_kinematics", place="tool")
    with pytest.raises(InputError, match="needs place"):
        equation(robot, "forward_kinematics")


def test_nothing_is_half_written(tmp_path):
    robot = load_robot("puma560")
    with pytest.raises(ExportError, match="link3 .*triangle.*\nhint"):
        mindyn.write_urdf(robot, tmp_path / "x.urdf")
    driven = replace(load_robot("panda"), drives=(Drive("joint1", rotor_inertia=1.0),))
    with pytest.raises(ExportError, match="rotor inertia"):
        mindyn.write_urdf(driven, tmp_path / "x.urdf")
    with pytest.raises(ExportError, match="no folder"):
        mindyn.write_toml(robot, tmp_path / "nowhere" / "x.toml")
    assert list(tmp_path.iterdir()) == []
