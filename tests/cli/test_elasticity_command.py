"""`mindyn elasticity`, and the elasticity of a run in `identify`, `report` and `export`."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli.program import mindyn_program
from plants.mujoco_arm import random_arm_file, random_drives
from plants.mujoco_elastic_arm import Elastic, plan_motion, record_elastic

import mindyn


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with an arm of MuJoCo and two logs of it, with encoders of motors and links."""
    folder = tmp_path_factory.mktemp("elastic")
    rng = np.random.default_rng(6)
    path, _ = random_arm_file(rng, 2, folder)
    drives = random_drives(rng, path)
    robot = mindyn.load_robot(path)
    for name in ("run1", "run2"):
        motion, torque = plan_motion(path, rng, 1.0, 12.0)
        stiffness, none = 500 * torque, np.zeros(2)
        elastic = Elastic(stiffness, 0.1 * np.sqrt(drives.armature * stiffness), none, none, none)
        recording = record_elastic(path, drives, elastic, motion, seconds=12.0, step_s=2e-4, rate_hz=100.0)
        q, motor = (x + 1e-5 * rng.standard_normal(x.shape) for x in (recording.q, recording.motor_q))
        log = mindyn.log_from_arrays(robot, recording.time, q, recording.tau, motor_q=motor)
        log.save(folder / f"{name}.csv", robot)
    assert mindyn_program("identify", path, folder / "run1.csv", "--out", folder / "run").code == 0
    return folder


def test_identify_states_the_stiffness_of_logs_with_two_encoders(folder):
    ended = mindyn_program("identify", folder / "true.xml", folder / "run1.csv", "--json")
    joints = json.loads(ended.out)["elasticity"]["joints"]
    assert [joint["joint"] for joint in joints] == ["joint1", "joint2"]
    assert "determined" in {joint["state"] for joint in joints}


def test_the_report_of_a_run_draws_deflections(folder):
    assert "deflection-1" in (folder / "run" / "report.html").read_text()
    out = folder / "again.html"
    assert mindyn_program("report", folder / "run", "--out", out).code == 0
    assert "Elastic joints" in out.read_text()


def test_elasticity_of_another_log_replaces_that_of_the_run(folder):
    before = (folder / "run" / "elasticity.json").read_text()
    words = ("elasticity", folder / "run", folder / "run2.csv", "--validate", folder / "run1.csv")
    ended = mindyn_program(*words)
    assert ended.code == 0
    assert "deflection error" in ended.out
    assert (folder / "run" / "elasticity.json").read_text() == before
    assert mindyn_program(*words, "--save").code == 0
    assert (folder / "run" / "elasticity.json").read_text() != before


def test_a_held_out_log_must_not_be_a_training_log(folder):
    ended = mindyn_program("elasticity", folder / "run", folder / "run2.csv", "--validate", folder / "run2.csv")
    assert ended.code == 1


def test_export_adds_springs_only_if_asked(folder):
    for option, name in ((("--elastic",), "elastic.xml"), ((), "rigid.xml")):
        ended = mindyn_program("export", folder / "run", "--to", "mjcf", "--out", folder / name, "--force", *option)
        assert ended.code == 0, ended.err
        assert ("_elastic" in (folder / name).read_text()) == bool(option)
    assert mindyn_program("export", folder / "run", "--to", "urdf", "--out", folder / "x.urdf", "--elastic").code == 1


def test_a_new_run_without_motor_positions_has_no_elasticity(folder):
    """Files of a run are those of its logs."""
    robot = mindyn.load_robot(folder / "true.xml")
    log = mindyn.read_log(folder / "run1.csv", robot)
    mindyn.log_from_arrays(robot, log.time, log.q, log.tau).save(folder / "plain.csv", robot)
    out = folder / "plain"
    assert mindyn_program("identify", folder / "true.xml", folder / "run1.csv", "--out", out, "--no-report").code == 0
    assert (out / "elasticity.json").is_file()
    words = ("identify", folder / "true.xml", folder / "plain.csv", "--out", out, "--no-report")
    assert mindyn_program(*words).code == 0
    assert not (out / "elasticity.json").exists()
    assert mindyn_program("export", out, "--to", "mjcf", "--out", folder / "y.xml", "--elastic").code == 1
