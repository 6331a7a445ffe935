"""Logs of servos as their tools write them: registers, LeRobot datasets and motions of SAGE; `mindyn start` on them."""

from __future__ import annotations

import io
import json
import shutil
import sys

import numpy as np
import polars
import pytest
from cli.program import mindyn_program
from logs.real_sets import FOLDER
from plants.mujoco_servo import JOINTS, random_plant, record_servos, write_arm
from raising import raises

import mindyn
from mindyn.foundation.errors import Code
from mindyn.identification import draft_log
from mindyn.logs.log_errors import LogError

RATE_HZ = 50
SO101 = FOLDER / "so101_sage"


class Terminal(io.StringIO):
    """Answers that are typed at a terminal."""

    def isatty(self):
        return True


@pytest.fixture(scope="module")
def logs():
    plant = random_plant(np.random.default_rng(11))
    return [record_servos(plant, seed) for seed in range(3)]


@pytest.fixture
def arm(tmp_path):
    return mindyn.load_robot(write_arm(tmp_path))


def write_lerobot(folder, joints, episodes, robot_type="so101_follower"):
    """Write a dataset of version 3.0 as LeRobot does; episodes are (time, state, action)."""
    frames = []
    for number, (time, state, action) in enumerate(episodes):
        columns = {
            "observation.state": state.astype(np.float32).tolist(),
            "action": action.astype(np.float32).tolist(),
            "timestamp": (time - time[0]).astype(np.float32),
            "frame_index": np.arange(len(time)),
            "episode_index": np.full(len(time), number),
        }
        lists = dict.fromkeys(("observation.state", "action"), polars.List(polars.Float32))
        frames.append(polars.DataFrame(columns, schema_overrides=lists))
    (folder / "data" / "chunk-000").mkdir(parents=True)
    (folder / "meta").mkdir()
    polars.concat(frames).write_parquet(folder / "data" / "chunk-000" / "file-000.parquet")
    feature = {"dtype": "float32", "shape": [len(joints)], "names": [f"{joint}.pos" for joint in joints]}
    features = {"observation.state": feature, "action": feature}
    info = {"codebase_version": "v3.0", "robot_type": robot_type, "fps": RATE_HZ, "features": features}
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    return folder


def write_sage(folder, joints, time, q, target, current):
    """Write a motion as SAGE's collector does: lists in text, stamps in us, commands at other times."""
    folder.mkdir()
    (folder / "joint_list.txt").write_text("".join(f"/robot/{joint}\n" for joint in joints))
    stamps = np.round(1e6 * time) + 1.7e15
    lists = {name: [str(row) for row in x.tolist()] for name, x in (("q", q), ("u", target), ("i", current))}
    still = [str([0.0] * len(joints))] * len(time)
    state = {"type": "STATE_MOTOR", "timestamp": stamps, "positions": lists["q"], "velocities": still}
    rows = {"torques": lists["i"]}
    polars.DataFrame({**state, **rows}).write_csv(folder / "state_motor.csv")
    command = {"type": "CONTROL", "timestamp": stamps - 700, "positions": lists["u"]}
    polars.DataFrame(command).write_csv(folder / "control.csv")
    events = {"timestamp": [stamps[10], stamps[-11]], "event": ["MOTION_START", "DISABLE"]}
    polars.DataFrame(events).write_csv(folder / "event.csv")
    return folder


def ticks(q):
    return np.round(2048 + q * 4096 / (2 * np.pi))


def write_registers(path, log, current):
    columns = {"t": log.time}
    for name, values in (("Present_Position", ticks(log.q)), ("Goal_Position", ticks(log.target)), ("cur", current)):
        columns |= {f"{name}.{joint}": values[:, k] for k, joint in enumerate(log.joint_names)}
    polars.DataFrame(columns).write_csv(path)
    return path


REGISTERS = {
    "columns": {"time": "t", "position": "Present_Position.{joint}", "target": "Goal_Position.{joint}"},
    "units": {"time": "s", "position": "tick"},
    "side": "joint",
}


def test_ticks_are_angles_around_the_middle_of_the_register(tmp_path, arm, logs):
    path = write_registers(tmp_path / "run.csv", logs[0], 0 * logs[0].q)
    log = mindyn.read_log(path, arm, **REGISTERS, metadata={"kp": "unknown", "servo": "sts3215"})
    np.testing.assert_allclose(log.q, logs[0].q, atol=np.pi / 4096)
    np.testing.assert_allclose(log.target, logs[0].target, atol=np.pi / 4096)
    each = {"kp": "unknown", "servo": dict.fromkeys(JOINTS, "xl330-m288"), "position_offset": [-2000.0] * 3}
    moved = mindyn.read_log(path, arm, **REGISTERS, metadata=each)
    np.testing.assert_allclose(moved.q - log.q, 48 * 2 * np.pi / 4096, atol=1e-12)


def test_registers_need_a_known_servo(tmp_path, arm, logs):
    path = write_registers(tmp_path / "run.csv", logs[0], 0 * logs[0].q)
    with raises(LogError, Code.MISSING_VALUE, "servo"):
        mindyn.read_log(path, arm, **REGISTERS, metadata={"kp": "unknown"})
    with raises(LogError, Code.UNKNOWN_NAME, "servo"):
        mindyn.read_log(path, arm, **REGISTERS, metadata={"kp": "unknown", "servo": "sts9000"})


@pytest.mark.parametrize(
    ("given", "is_used"),
    [
        ({"servo": "sts3215", "kp": "unknown", "current_gains": "unknown"}, False),
        ({"servo": "xm430", "kp": "unknown"}, False),
        ({"servo": "xm430", "kp": "unknown", "current_gains": [1.8, 1.8, 1.8]}, True),
        ({"servo": "xm430", "current_gains": [1.8, 1.8, 1.8]}, True),
    ],
)
def test_a_current_beside_targets_is_a_torque_if_its_servo_and_gains_say_so(tmp_path, arm, logs, given, is_used):
    current = np.sin(logs[0].q)
    path = write_registers(tmp_path / "run.csv", logs[0], current)
    columns = {**REGISTERS["columns"], "torque": "cur.{joint}"}
    units = {**REGISTERS["units"], "torque": "count"}
    log = mindyn.read_log(path, arm, columns=columns, units=units, side="joint", metadata={"servo": "sts3215", **given})
    assert (log.target is None) == is_used
    if is_used:
        np.testing.assert_allclose(log.tau, current * 0.00269 * 1.8)
    else:
        mindyn.identify_servos(arm, log)


@pytest.mark.parametrize("sign", [False, True])
def test_a_current_that_lost_its_sign_is_found(tmp_path, arm, logs, sign):
    current = 300 * np.diff(logs[0].q, axis=0, append=0)
    path = write_registers(tmp_path / "run.csv", logs[0], current if sign else np.abs(current))
    draft = draft_log(path, arm)
    assert ("sign is lost" in draft.toml()) != sign
    assert (draft.value("columns.target") is None) == sign
    assert (draft.value("columns.torque") is None) != sign


def test_ticks_are_recognised_for_a_known_servo(tmp_path, arm, logs):
    path = write_registers(tmp_path / "run.csv", logs[0], np.abs(logs[0].q))
    draft = draft_log(path, arm, {"servo": "sts3215"})
    assert draft.value("units.position") == draft.value("units.target") == "tick"
    assert draft.value("kp") == "unknown"
    assert not draft.questions
    log = mindyn.read_log(path, arm, metadata=draft.to_metadata())
    np.testing.assert_allclose(log.q, logs[0].q, atol=np.pi / 4096)


def test_a_motion_of_sage_is_a_log(tmp_path, arm, logs):
    log = logs[0]
    folder = write_sage(tmp_path / "wave", JOINTS, log.time, log.q, log.target, np.abs(log.q))
    draft = draft_log(folder, arm)
    assert "sign is lost" in draft.toml()
    read = mindyn.read_log(folder, arm, metadata={**draft.to_metadata(), "kp": "unknown"})
    assert len(read) == len(log) - 20
    np.testing.assert_allclose(read.q, log.q[10:-10], atol=1e-12)
    np.testing.assert_allclose(read.target, log.target[10:-10], atol=1e-12)
    table = polars.read_csv(folder / "state_motor.csv")
    table.with_columns(positions=polars.lit("[1.0, 2.0]")).write_csv(folder / "state_motor.csv")
    with raises(LogError, Code.WRONG_SHAPE, "positions"):
        mindyn.read_log(folder, arm, metadata={"kp": "unknown"})
    (folder / "state_motor.csv").write_text("type,timestamp,positions\nSTATE_MOTOR,x,y\n")
    with raises(LogError, Code.UNREADABLE, "state_motor.csv"):
        mindyn.read_log(folder, arm, metadata={"kp": "unknown"})


def run_start(monkeypatch, robot, dataset, out, *options):
    monkeypatch.setattr(sys, "stdin", Terminal("\n".join(["", "", ""])))
    return mindyn_program("start", robot, dataset, *options, "--out", out)


def test_start_goes_from_a_lerobot_dataset_to_a_validated_model(tmp_path, logs, monkeypatch):
    episodes = [(log.time, np.degrees(log.q), np.degrees(log.target)) for log in logs]
    dataset = write_lerobot(tmp_path / "pick", JOINTS, episodes)
    done = run_start(monkeypatch, write_arm(tmp_path), dataset, tmp_path / "run")
    assert done.code == 0, done.out + done.err
    assert "The servo model is good" in done.out
    assert (tmp_path / "run" / "servo_arm.xml").is_file()
    replay = json.loads((tmp_path / "run" / "replay.json").read_text())
    assert replay["held_out"]
    assert max(replay["errors"]) < 0.002


@pytest.mark.skipif(not SO101.is_dir(), reason="MINDYN_REAL_DATA names no folder with the real logs")
def test_start_goes_from_a_real_so101_dataset_to_a_validated_model(tmp_path, monkeypatch):
    joints = ["shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper"]
    episodes = []
    for name in ("frequency_sweep", "fast_transitions"):
        table = polars.read_parquet(SO101 / f"{name}.parquet")
        q, target = (table.select([f"{s}.{j}" for j in joints]).to_numpy().astype(float) for s in ("q", "cmd"))
        scale = np.array([180 / np.pi] * 5 + [100.0])
        episodes.append((table["t"].to_numpy(), q * scale, target * scale))
    dataset = write_lerobot(tmp_path / "sweeps", joints, episodes)
    robot = shutil.copy(SO101 / "model" / "so101_new_calib.urdf", tmp_path / "so101.urdf")
    done = run_start(monkeypatch, robot, dataset, tmp_path / "run", "--lock", "gripper=0")
    assert done.code == 0, done.out + done.err
    replay = json.loads((tmp_path / "run" / "replay.json").read_text())
    assert replay["grade"] in ("good", "fair")
    assert max(replay["errors"]) < 0.012
