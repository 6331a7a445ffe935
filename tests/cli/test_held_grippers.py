"""A gripper that no log has columns for is held by `log` and `identify`, as `excite` holds it."""

from __future__ import annotations

import json
import shlex

import numpy as np
import polars as pl
import pytest
from cli.program import mindyn_program

import mindyn

HAND = """<robot name="arm"><link name="base"/>
{links}
<joint name="a1" type="revolute"><parent link="base"/><child link="l1"/><axis xyz="0 0 1"/><limit {limit}/></joint>
<joint name="a2" type="revolute"><parent link="l1"/><child link="l2"/><origin xyz="0 0 0.3"/><axis xyz="0 1 0"/>
<limit {limit}/></joint>
<joint name="finger_joint" type="prismatic"><parent link="l2"/><child link="finger"/><origin xyz="0.3 0 0"/>
<axis xyz="0 1 0"/><limit lower="0" upper="0.04" effort="20" velocity="0.1"/></joint></robot>"""
LINK = """<link name="{name}"><inertial><origin xyz="0.1 0 0.1"/><mass value="{mass}"/>
<inertia ixx="0.05" iyy="0.05" izz="0.05" ixy="0" ixz="0" iyz="0"/></inertial></link>"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An arm with a finger, and a log of the arm alone."""
    monkeypatch.chdir(tmp_path)
    links = "\n".join(LINK.format(name=name, mass=mass) for name, mass in (("l1", 3), ("l2", 2), ("finger", 0.1)))
    limit = 'lower="-3" upper="3" effort="50" velocity="3"'
    (tmp_path / "arm.urdf").write_text(HAND.format(links=links, limit=limit))
    robot = mindyn.load_robot("arm.urdf", lock={"finger_joint": 0.0})
    t = np.arange(0, 15, 0.01)
    q = np.column_stack([np.sin(1.3 * t) + 0.4 * np.sin(3.1 * t), np.cos(1.7 * t) + 0.3 * np.sin(4.3 * t)])
    qd = np.gradient(q, t, axis=0)
    tau = mindyn.compile_model(robot).inverse_dynamics(q, qd, np.gradient(qd, t, axis=0)) + 0.2 * qd
    columns = {f"{n}.{s}": v[:, k] for k, n in enumerate(("a1", "a2")) for s, v in (("position", q), ("effort", tau))}
    pl.DataFrame({"t": t, **columns}).write_csv("run.csv")
    return tmp_path


def test_log_and_identify_hold_the_gripper(folder):
    ended = mindyn_program("log", "run.csv", "arm.urdf", "--confirm")
    assert ended.code == 0, ended.err
    following = shlex.split(next(line for line in ended.err.splitlines() if line.startswith("next: "))[6:])
    assert following[following.index("--lock") + 1] == "finger_joint=0"
    ended = mindyn_program("identify", "arm.urdf", "run.csv", "--hold-out", 0.3, "--out", "run")
    assert ended.code == 0, ended.err
    assert json.loads((folder / "run" / "run.json").read_text())["robot"]["lock"] == {"finger_joint": 0.0}


@pytest.mark.usefixtures("folder")
def test_start_holds_the_gripper_in_all_its_commands():
    done = mindyn_program("start", "arm.urdf", "run.csv", "--json")
    assert done.code == 2
    commands = json.loads(done.out)["commands"]
    assert all("--lock finger_joint=0" in line for line in commands if " log " in line or " identify " in line)


def test_an_arm_joint_without_columns_is_not_held(folder):
    frame = pl.read_csv("run.csv")
    frame.drop(["a2.position", "a2.effort"]).write_csv("short.csv")
    assert mindyn_program("log", "short.csv", "arm.urdf", "--confirm").code == 1
    assert not (folder / "short.csv.toml").exists()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("extra", [[], ["tool"]])
def test_columns_of_a_joint_that_the_user_holds_are_left_out_without_a_warning(extra):
    """The log has columns for the held finger; a joint that the robot does not have is still named."""
    frame = pl.read_csv("run.csv")
    for name in ("finger_joint", *extra):
        still = {f"{name}.{signal}": np.full(len(frame), 0.01) for signal in ("position", "effort")}
        frame = frame.with_columns(**{column: pl.Series(values) for column, values in still.items()})
    frame.write_csv("held.csv")
    holding = ("--lock", "finger_joint=0.01")
    outputs = [mindyn_program("log", "held.csv", "arm.urdf", *holding, "--confirm")]
    outputs += [mindyn_program("log", "held.csv", "arm.urdf", *holding)]
    outputs += [mindyn_program("identify", "arm.urdf", "held.csv", *holding, "--hold-out", 0.3, "--out", "run", "-v")]
    outputs += [mindyn_program("report", "run", "--train", "held.csv", "--out", "held.html")]
    assert [ended.code for ended in outputs] == [0] * 4, outputs[-1].err
    for ended in outputs:
        warned = [line for line in ended.err.splitlines() if "robot does not have" in line]
        assert [line.rpartition(": ")[2] for line in warned] == extra, ended.err
