"""Published robot files load, report changes as findings, and give the torques of the intended mechanism."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from cli.program import mindyn_program
from closeness import SAME_ALGEBRA, assert_close
from messages import messages
from raising import raises

from mindyn import MindynError, compile_model, load_robot
from mindyn.foundation.errors import Code, MissingPhysicsError, RobotError, RobotFileError
from mindyn.foundation.findings import Kind
from mindyn.identification.estimators.estimate_files import robot_from_record, robot_record
from mindyn.output.export.urdf_writer import edit_urdf
from mindyn.robots.description import Selection
from mindyn.robots.loading import load_matching
from mindyn.robots.robot import Robot

INERTIAL = (
    '<inertial><origin xyz="0.1 0 0.2"/><mass value="2"/>'
    '<inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.05"/></inertial>'
)


def link(name: str, inside: str = INERTIAL) -> str:
    return f'<link name="{name}">{inside}</link>'


def joint(name: str, parent: str, child: str, inside: str = '<axis xyz="0 1 0"/>', kind: str = "revolute") -> str:
    ends = f'<parent link="{parent}"/><child link="{child}"/>'
    return f'<joint name="{name}" type="{kind}">{ends}<origin xyz="0 0 0.3"/>{inside}</joint>'


LINKS = link("base", "") + link("upper") + link("fore") + link("jaw")
ARM = LINKS + joint("shoulder", "base", "upper") + joint("elbow", "upper", "fore")
GRASP = joint("grasp", "fore", "jaw", '<axis xyz="1 0 0"/>', "prismatic")


def write_urdf_file(tmp_path, body: str, head: str = '<robot name="arm">'):
    path = tmp_path / "arm.urdf"
    path.write_text(f"{head}{body}</robot>", encoding="utf-8")
    return path


def kinds(robot: Robot) -> list[str]:
    return [note.kind for note in robot.findings]


def torques(robot: Robot) -> np.ndarray:
    q, qd, qdd = np.random.default_rng(1).uniform(-1, 1, (3, robot.joint_count))
    return compile_model(robot).inverse_dynamics(q, qd, qdd)


LIKE_THE_ARM = {
    "undeclared prefix": ARM + GRASP + '<gazebo reference="upper"><sensor:camera name="eye"/></gazebo>',
    "transmission": ARM + GRASP + "<transmission><mechanicalReduction>50</mechanicalReduction></transmission>",
    "comment and text": f"<!-- {{}} -->{ARM}{GRASP} trailing text",
    "axis of another length": (ARM + GRASP).replace('xyz="0 1 0"', 'xyz="0 2e0 0"', 1),
    "no velocity": (ARM + GRASP).replace("<axis", '<limit lower="-1" upper="1" effort="5" velocity="-1"/><axis', 1),
    "ends swapped": (ARM + GRASP).replace("<axis", '<limit lower="1" upper="-1"/><axis', 1),
    "limits of zero": (ARM + GRASP).replace("<axis", '<limit lower="0" upper="0" effort="0" velocity="0"/><axis', 1),
    "limits in words": (ARM + GRASP).replace("<axis", '<limit lower="-inf" upper="none" effort="nan"/><axis', 1),
    "continuous with ends": (ARM + GRASP).replace('type="revolute"', 'type="continuous"', 1),
    "shape without size": (ARM + GRASP).replace(
        "<inertial>", "<collision><geometry><box/></geometry></collision><inertial>", 1
    ),
    "mesh of a package": (ARM + GRASP).replace(
        "<inertial>",
        '<collision><geometry><mesh filename="package://x/y.dae"/></geometry></collision><inertial>',
        1,
    ),
}


@pytest.mark.parametrize("body", LIKE_THE_ARM.values(), ids=LIKE_THE_ARM)
def test_unusual_content_changes_no_torque(body, tmp_path):
    plain = torques(load_robot(write_urdf_file(tmp_path, ARM + GRASP)))
    assert_close(torques(load_robot(write_urdf_file(tmp_path, body))), plain, SAME_ALGEBRA)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("no velocity", "it is negative"), ("ends swapped", "above"), ("limits of zero", "allows no motion")],
)
def test_invalid_limits_are_dropped_with_a_finding(name, reason, tmp_path):
    robot = load_robot(write_urdf_file(tmp_path, LIKE_THE_ARM[name]))
    (note,) = robot.findings
    assert note.kind == Kind.DROPPED_LIMIT
    assert any(reason in line for line in (note.message, *note.details))
    assert robot.joints[0].limits.velocity is None


def test_the_first_of_several_inertials_is_used_with_a_finding(tmp_path):
    twice = load_robot(
        write_urdf_file(tmp_path, (ARM + GRASP).replace(INERTIAL, INERTIAL + INERTIAL.replace('"2"', '"9"'), 1))
    )
    assert kinds(twice) == [Kind.ASSUMED_PART]
    assert_close(torques(twice), torques(load_robot(write_urdf_file(tmp_path, ARM + GRASP))), SAME_ALGEBRA)


def test_common_file_headers_do_not_change_the_robot(tmp_path):
    plain = load_robot(write_urdf_file(tmp_path, ARM + GRASP))
    document_type = '<!DOCTYPE robot SYSTEM "urdf.dtd">\n<robot name="arm">'
    for head in (
        document_type,
        '<robot xmlns="http://www.ros.org" name="arm">',
        '<robot xmlns:xacro="http://ros.org/x" name="arm">',
    ):
        assert load_robot(write_urdf_file(tmp_path, ARM + GRASP, head)) == plain
    text = f'<?xml version="1.0" encoding="{{}}"?>\n<!-- f\u00fcr --><robot name="arm">{ARM}{GRASP}</robot>'
    for encoding, name in (("utf-8-sig", "utf-8"), ("utf-16", "utf-16"), ("latin-1", "iso-8859-1")):
        (tmp_path / "arm.urdf").write_bytes(text.format(name).encode(encoding))
        assert load_robot(tmp_path / "arm.urdf") == plain


def test_a_free_base_is_held_with_a_finding(tmp_path):
    for kind in ("floating", "planar"):
        body = link("world", "") + ARM + GRASP + joint("float", "world", "base", "", kind)
        robot = load_robot(write_urdf_file(tmp_path, body))
        assert robot.joint_names == ("shoulder", "elbow", "grasp")
        assert robot.findings[0].kind == Kind.HELD_JOINT
        assert_close(torques(robot), torques(load_robot(write_urdf_file(tmp_path, ARM + GRASP))), SAME_ALGEBRA)


def test_unsupported_parts_that_are_not_selected_raise_no_error(tmp_path):
    wrong = {
        Code.UNSUPPORTED: GRASP.replace("prismatic", "screw"),
        Code.INVALID_VALUE: GRASP.replace("1 0 0", "0 0 0"),
        Code.UNKNOWN_NAME: GRASP.replace("<axis", '<mimic joint="missing"/><axis'),
        Code.OUT_OF_RANGE: GRASP.replace("<axis", '<dynamics damping="-1"/><axis'),
    }
    arm = load_robot(write_urdf_file(tmp_path, ARM + GRASP), lock={"grasp": 0.0})
    chain = load_robot(write_urdf_file(tmp_path, ARM + GRASP), tip="fore")
    for code, grasp in wrong.items():
        path = write_urdf_file(tmp_path, ARM + grasp)
        with raises(RobotError, code):
            load_robot(path)
        assert load_robot(path, tip="fore") == chain
        assert load_robot(path, lock={"grasp": 0.0}) == arm
    half = write_urdf_file(
        tmp_path, ARM.replace(link("jaw"), link("jaw", '<inertial><mass value="1"/></inertial>')) + GRASP
    )
    with raises(RobotFileError, Code.MISSING_VALUE, "jaw"):
        load_robot(half)
    assert load_robot(half, tip="fore") == chain


def test_options_of_loading_have_the_effect_of_the_edits(tmp_path):
    path = write_urdf_file(tmp_path, ARM + GRASP)
    whole = load_robot(path)
    assert load_robot(path, lock={"elbow": 0.4}) == whole.lock({"elbow": 0.4})
    assert load_robot(path, root="upper", tip="jaw") == whole.subchain("upper", "jaw")
    held = load_robot(path, lock={"grasp": 0.01}, tip="fore", mount="ceiling")
    assert held.selection == Selection({"grasp": 0.01}, None, "fore")
    assert whole.lock({"grasp": 0.01}).subchain("base", "fore").selection == Selection({"grasp": 0.01}, "base", "fore")
    assert held.gravity.tolist() == [0.0, 0.0, 9.81]
    assert held.joint_names == ("shoulder", "elbow")
    below = load_robot(path, root="upper")
    assert below.joint_names == ("elbow", "grasp")
    with raises(MindynError, Code.INVALID_STRUCTURE, "upper"):
        load_robot(path, root="fore", tip="upper")
    with raises(MindynError, Code.UNKNOWN_NAME, "grip"):
        load_robot(path, lock={"grip": 0.0})


def test_a_held_link_of_unknown_mass_leaves_its_carrier_unknown(tmp_path):
    path = write_urdf_file(tmp_path, ARM.replace(link("jaw"), link("jaw", "")) + GRASP)
    held = load_robot(path, lock={"grasp": 0.0})
    assert [link.phi is None for link in held.links] == [False, True]
    with raises(MissingPhysicsError, Code.MISSING_VALUE, "fore"):
        compile_model(held).inverse_dynamics(*np.zeros((3, 2)))


def test_xacro_is_rejected_with_the_command_that_expands_it(tmp_path):
    for body in ('<xacro:include filename="x"/>' + ARM, '<xacro:arm name="a"/>'):
        with raises(RobotFileError, Code.WRONG_FORMAT, "xacro") as raised:
            load_robot(write_urdf_file(tmp_path, body))
        assert "xacro robot.xacro > robot.urdf" in raised.value.hint
    with raises(RobotFileError, Code.WRONG_TYPE, "joint 'shoulder' origin xyz") as raised:
        load_robot(write_urdf_file(tmp_path, (ARM + GRASP).replace("0 0 0.3", "0 0 ${height}", 1)))
    assert "xacro robot.xacro > robot.urdf" in raised.value.hint
    (tmp_path / "arm.xacro").write_text("<robot/>")
    with raises(RobotFileError, Code.WRONG_FORMAT, "arm.xacro") as raised:
        load_robot(tmp_path / "arm.xacro")
    assert "xacro robot.xacro > robot.urdf" in raised.value.hint


def test_root_selects_one_of_several_roots(tmp_path):
    path = write_urdf_file(tmp_path, ARM + GRASP + link("table"))
    with raises(RobotError, Code.INVALID_STRUCTURE, "table"):
        load_robot(path)
    assert load_robot(path, root="base").joint_names == ("shoulder", "elbow", "grasp")


def test_a_partial_robot_may_be_mounted_on_an_undefined_link(tmp_path):
    robot = load_robot(write_urdf_file(tmp_path, LINKS.replace(link("base", ""), "") + ARM.removeprefix(LINKS) + GRASP))
    assert robot.root.name == "base"
    assert kinds(robot) == [Kind.ASSUMED_PART]


MJCF = """<mujoco model="arm"><compiler meshdir="nowhere"/>
<asset><mesh name="shell" file="shell.stl"/><texture name="wood" builtin="flat" width="{texture}" height="{texture}"/>
<material name="m" texture="wood"/></asset>
<worldbody><geom type="plane" size="1 1 1" material="m"/><body name="float"><freejoint/>
<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
<body name="upper"><joint name="shoulder" axis="0 1 0" range="-1 1"/><site name="upper" pos="0 0 1"/>{inertial}
<geom type="mesh" mesh="shell" material="m"/>
<body name="fore" pos="0 0 0.3"><joint name="elbow" axis="0 1 0"/><geom type="capsule" size="0.05 0.2"/></body></body>
</body></worldbody><actuator><motor joint="shoulder"/></actuator></mujoco>"""
STATED = '<inertial pos="0 0 0.1" mass="2" diaginertia="0.1 0.1 0.1"/>'


def mjcf(tmp_path, text: str):
    pytest.importorskip("mujoco")
    (tmp_path / "arm.xml").write_text(text)
    return tmp_path / "arm.xml"


def test_mjcf_without_its_meshes_loads_if_bodies_have_inertials(tmp_path):
    robot = load_robot(mjcf(tmp_path, MJCF.format(texture=99_000, inertial=STATED)))
    assert robot.joint_names == ("shoulder", "elbow")
    assert robot.has_parameters
    assert {Kind.HELD_JOINT, Kind.MESH, Kind.DROPPED_PART} <= set(kinds(robot))
    assert "site upper" in {frame.name for frame in robot.frames}
    unknown = load_robot(mjcf(tmp_path, MJCF.format(texture=4, inertial="")))
    assert [link.phi is None for link in unknown.links] == [True, False]
    assert any("without which the inertia of these bodies is unknown: upper" in str(note) for note in messages(unknown))


def test_disabled_gravity_is_zero(tmp_path):
    text = """<mujoco><option gravity="0 0 -3.7"><flag gravity="{}"/></option><worldbody><body><joint axis="0 1 0"/>
    <geom size="0.1" pos="0.3 0 0"/></body></worldbody></mujoco>"""
    assert load_robot(mjcf(tmp_path, text.format("disable"))).gravity.tolist() == [0, 0, 0]
    assert load_robot(mjcf(tmp_path, text.format("enable"))).gravity.tolist() == [0, 0, -3.7]


def test_copies_are_counted_before_they_are_created(tmp_path):
    inner = '<body><joint axis="0 0 1"/><geom size="0.1"/></body>'
    copies = f'<replicate count="1000"><replicate count="1e6">{inner}</replicate></replicate>'
    text = f"<mujoco><worldbody>{copies}</worldbody></mujoco>"
    with raises(RobotFileError, Code.UNSAFE_INPUT, "replicate"):
        load_robot(mjcf(tmp_path, text))


def test_every_command_with_a_robot_accepts_its_options(tmp_path):
    path = str(write_urdf_file(tmp_path, ARM + GRASP.replace("prismatic", "screw")))
    shown = json.loads(mindyn_program("robots", path, "--json", "--tip", "fore", "--gravity", "0", "0", "-1.62").out)
    assert shown["joints"] == ["shoulder", "elbow"]
    assert shown["gravity"] == [0.0, 0.0, -1.62]
    assert shown["selection"]["tip"] == "fore"
    for command in ("base", "count"):
        ended = mindyn_program(command, path, "--lock", "grasp=0", "--mount", "0 1.5707963267948966 0")
        assert ended.code == 0, ended.err
    for wrong in (("--lock", "grasp"), ("--lock", "=1"), ("--mount", "roof"), ("--gravity", "0", "0", "nan")):
        ended = mindyn_program("robots", path, *wrong)
        assert ended.code == 1
        assert "hint" in ended.err


def test_source_prior_and_record_keep_a_held_joint(tmp_path):
    path = write_urdf_file(tmp_path, ARM + GRASP)
    robot = load_robot(path, lock={"grasp": 0.02})
    heavier = replace(robot, links=tuple(replace(link, phi=2 * link.phi) for link in robot.links))
    (tmp_path / "edited.urdf").write_text(edit_urdf(heavier, path))
    assert "grasp = 0.02" in (tmp_path / "edited.urdf").read_text()
    again = load_robot(tmp_path / "edited.urdf", lock={"grasp": 0.02})
    assert_close(torques(again), torques(heavier), SAME_ALGEBRA)
    assert load_matching(path, robot) == robot
    assert (
        load_matching(write_urdf_file(tmp_path, ARM.replace(link("jaw"), "")), robot).joint_names == robot.joint_names
    )
    assert robot_from_record(json.loads(json.dumps(robot_record(robot)))).selection == robot.selection
