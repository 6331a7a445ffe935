"""Grippers and propellers are held in designed motions unless the user names them."""

from __future__ import annotations

import pytest
from excitation.arm_files import SHORT, urdf
from excitation.full_speed import design_motion
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, UnsafeMotionError
from mindyn.foundation.findings import Kind
from mindyn.motions.excitation.held_joints import joints_to_hold

ARM = """<mujoco><compiler angle="radian"/><worldbody>
<body name="l1"><joint name="j1" axis="0 0 1" range="-2 2"/><geom size=".04" mass="2"/>
<body name="l2" pos="0 0 .3"><joint name="j2" axis="0 1 0" range="-2 2"/><geom size=".04" pos="0 0 .1" mass="2"/>
<body name="l3" pos="0 0 .3"><joint name="j3" axis="0 1 0" range="-2 2"/><geom size=".04" pos="0 0 .1" mass="2"/>{hand}
</body></body></body></worldbody>{more}</mujoco>"""
PART = '<body name="{name}" pos="{pos}"><joint name="{name}_joint" axis="1 0 0" {range}/><geom size=".01" mass=".1"/>'
FOUR_BAR = (
    PART.format(name="driver", pos="0 .03 .2", range='range="0 .8"')
    + PART.format(name="coupler", pos="0 .03 .02", range='range="-1.5 1.5"')
    + "</body></body>"
    + PART.format(name="spring_link", pos="0 .01 .2", range='range="-.3 .8"')
    + "</body>"
)
HANDS = {
    "four-bar": (FOUR_BAR, ["driver_joint", "coupler_joint", "spring_link_joint"]),
    "jaw on a hand that is called gripper": (
        PART.format(name="gripper", pos="0 0 .2", range='range="-3 3"').replace("gripper_joint", "wrist_roll")
        + PART.format(name="moving_jaw", pos="0 0 .1", range='range="0 1"')
        + "</body></body>",
        ["moving_jaw_joint"],
    ),
    "hand with a thumb": (
        "".join(PART.format(name=name, pos="0 0 .2", range="") + "</body>" for name in ("index", "thumb", "ring")),
        ["index_joint", "thumb_joint", "ring_joint"],
    ),
    "propeller": (PART.format(name="rotor_0", pos="0 0 .2", range="") + "</body>", ["rotor_0_joint"]),
    "last link": (PART.format(name="flange", pos="0 0 .2", range="") + "</body>", []),
}


def test_accelerations_of_drake_are_read_and_grippers_are_held(tmp_path):
    file = tmp_path / "arm.urdf"
    file.write_text(urdf(more=' drake:acceleration="7"').replace('name="elbow"', 'name="left_finger_joint"'))
    robot = mindyn.load_robot(file)
    assert [joint.limits.acceleration for joint in robot.joints] == [7.0, 7.0, 7.0]
    held, findings = joints_to_hold(robot)
    assert held == {"left_finger_joint": 0.0}
    assert findings[0].kind is Kind.HELD_JOINT
    assert joints_to_hold(robot, ["left_finger_joint"]) == ({}, ())
    assert joints_to_hold(mindyn.load_robot("panda")) == ({}, ())
    assert issubclass(UnsafeMotionError, mindyn.MindynError)


@pytest.mark.parametrize("hand", HANDS)
def test_grippers_of_an_arm_are_held_and_the_arm_is_not(hand, tmp_path):
    parts, expected = HANDS[hand]
    loop = '<equality><connect anchor="0 .03 .05" body1="spring_link" body2="coupler"/></equality>'
    file = tmp_path / "arm.xml"
    file.write_text(ARM.format(hand=parts, more=loop if hand == "four-bar" else ""))
    robot = mindyn.load_robot(file)
    assert len(robot.loops) == (hand == "four-bar")
    held, findings = joints_to_hold(robot)
    assert list(held) == expected
    assert bool(findings) == bool(expected)
    arm = robot.lock(held)
    assert not arm.loops
    assert arm.joint_names == tuple(name for name in robot.joint_names if name not in expected)
    for name in expected:
        assert name not in joints_to_hold(robot, [name])[0]


def test_a_robot_of_propellers_alone_has_no_motion(tmp_path):
    rotors = "".join(PART.format(name=f"rotor_{k}", pos=f"{k} 0 0", range="") + "</body>" for k in range(4))
    file = tmp_path / "drone.xml"
    file.write_text(f"<mujoco><worldbody>{rotors}</worldbody></mujoco>")
    with raises(mindyn.MindynError, Code.UNSUPPORTED, "rotor_0_joint"):
        joints_to_hold(mindyn.load_robot(file))
    every = [f"rotor_{k}_joint" for k in range(4)]
    assert joints_to_hold(mindyn.load_robot(file), every) == ({}, ())


def test_designed_motions_hold_grippers_in_python_too(tmp_path):
    file = tmp_path / "arm.urdf"
    file.write_text(urdf(more=' drake:acceleration="7"').replace('name="elbow"', 'name="left_finger_joint"'))
    robot = mindyn.load_robot(file)
    limits = mindyn.MotionLimits.of(robot, velocity=[1.0, 2.0, 3.0])
    design = design_motion(robot, **SHORT, limits=limits, home=[0.0, 0.1, 0.0])
    assert design.robot.joint_names == ("waist", "shoulder")
    assert design.limits.velocity.tolist() == [0.5, 1.0]
    assert Kind.HELD_JOINT in {finding.kind for finding in design.findings}
    moved = design_motion(robot, **SHORT, limits=limits, move=["left_finger_joint"])
    assert moved.robot.joint_names == robot.joint_names
    assert Kind.HELD_JOINT not in {finding.kind for finding in moved.findings}
