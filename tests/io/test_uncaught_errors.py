"""Bad values and files that once raised exceptions of Python raise errors of mindyn."""

from __future__ import annotations

import json

import numpy as np
import pytest
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, InputError, MindynError, RobotFileError
from mindyn.identification.estimators.estimate_files import robot_from_record, robot_record
from mindyn.logs.drafts.drafting import draft_sidecar
from mindyn.logs.log_errors import LogError
from mindyn.logs.wrench_log import read_wrench_log

LINKAGE = """<mujoco><worldbody><body name="a"><joint name="j1" axis="0 0 1"/><geom size="0.1" pos="1 0 0"/>
<body name="b" pos="1 0 0"><joint name="j2" axis="0 0 1"/><geom size=".1"/><body name="c" pos="1 0 0">
<joint name="j3" axis="0 0 1"/><geom size=".1"/></body></body></body></worldbody><equality>
<connect body1="c" anchor="0 1 0" body2="world"/></equality><keyframe><key qpos="{}"/></keyframe></mujoco>"""


@pytest.fixture
def linkage(tmp_path):
    path = tmp_path / "linkage.xml"
    path.write_text(LINKAGE.format("0 0 0"))
    return path


@pytest.mark.parametrize("home", ["x", ["a", "b", "c"], object(), {"j1": "x"}, {"j1": [1, 2]}, {"j1": None}])
def test_home_must_be_numbers(linkage, home):
    with raises(InputError, (Code.WRONG_TYPE, Code.WRONG_SHAPE, Code.NOT_FINITE)):
        mindyn.load_robot(linkage, home=home)


@pytest.mark.parametrize("argument", ["home", "lock"])
def test_the_name_of_a_joint_must_be_a_text(linkage, argument):
    with raises(MindynError, Code.UNKNOWN_NAME, "1"):
        mindyn.load_robot(linkage, **{argument: {1: 2.0}})


@pytest.mark.parametrize("source", [None, 5, [], {}, b"planar2", object()])
def test_a_source_must_be_a_path(source):
    with raises(InputError, Code.WRONG_TYPE):
        mindyn.load_robot(source)


def test_a_long_name_is_unknown():
    with raises(MindynError, Code.UNKNOWN_NAME):
        mindyn.load_robot("x" * 5000)


@pytest.mark.parametrize("position", ["nan 0 0", "inf 0 0", "1e300 0 0"])
def test_a_keyframe_must_be_finite(linkage, position):
    linkage.write_text(LINKAGE.format(position))
    with raises(RobotFileError, Code.NOT_FINITE, "qpos"):
        mindyn.load_robot(linkage)


@pytest.mark.parametrize("setting", ["boundmass", "boundinertia", "settotalmass"])
@pytest.mark.parametrize("value", ["-1e308", "1e308", "nan", "1e-320"])
def test_masses_of_the_compiler_settings_are_checked(tmp_path, setting, value):
    body = '<body name="a"><joint axis="0 0 1"/><geom size="0.1"/></body>'
    path = tmp_path / "arm.xml"
    path.write_text(f'<mujoco><compiler {setting}="{value}"/><worldbody>{body}</worldbody></mujoco>')
    try:
        robot = mindyn.load_robot(path)
    except RobotFileError:
        return
    robot.consistency()
    assert np.isfinite(robot.links[0].phi).all()


def test_a_wrench_log_needs_rows(tmp_path):
    (tmp_path / "ft.csv").write_text("time,fx,fy,fz,tx,ty,tz,qx,qy,qz,qw\n")
    with raises(LogError, Code.TOO_LITTLE_DATA):
        read_wrench_log(tmp_path / "ft.csv")


def test_a_draft_needs_rows(tmp_path):
    np.savez(tmp_path / "run.npz", time=np.zeros(0), q=np.zeros((0, 2)), tau=np.zeros((0, 2)))
    with raises(LogError, Code.TOO_LITTLE_DATA, "position"):
        draft_sidecar(tmp_path / "run.npz", None, {"columns.position": "q", "columns.torque": "tau"})


@pytest.mark.parametrize("selection", [[], "x", {"lock": []}, {"other": 1}, 5])
def test_the_selection_of_a_saved_robot_is_checked(selection):
    record = json.loads(json.dumps(robot_record(mindyn.load_robot("planar2")))) | {"selection": selection}
    with raises(MindynError, (Code.WRONG_TYPE, Code.UNKNOWN_NAME, Code.WRONG_FORMAT, Code.INVALID_VALUE)):
        robot_from_record(record)
