"""Drafted sidecars: of the shapes that logs have, every line is right or a `?`, and nothing unconfirmed is used."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from closeness import ROUND_TRIP, SAME_ALGEBRA, assert_close
from raising import raises
from real_sets import FOLDER, MODELS, STATEMENTS, needs_real_data
from typer.testing import CliRunner

import mindyn
from mindyn.cli.main import app
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.log_drafts import draft_log
from mindyn.logs.log import write_log
from mindyn.logs.log_errors import LogError
from mindyn.logs.read_log import read_log
from mindyn.logs.time_stamps import RESTART_GAP_S
from mindyn.robots.parts import Limits

ROWS, RATE = 1500, 125.0
T = np.arange(ROWS) / RATE
ROBOT = mindyn.load_robot("panda")
N = ROBOT.joint_count


def motion():
    """A motion of the Panda with the torque of its inertials and some friction; positions within its limits."""
    lower = np.array([joint.limits.lower for joint in ROBOT.joints])
    upper = np.array([joint.limits.upper for joint in ROBOT.joints])
    a, w, p = 0.35 * (upper - lower), 2 * np.pi * np.array([0.21, 0.33, 0.27, 0.41, 0.37, 0.29, 0.45]), np.arange(N)
    phase = T[:, None] * w + p
    q, qd, qdd = (lower + upper) / 2 + a * np.sin(phase), a * w * np.cos(phase), -a * w**2 * np.sin(phase)
    tau = mindyn.compile_model(ROBOT).inverse_dynamics(q, qd, qdd) + 0.5 * qd + 0.3 * np.tanh(20 * qd)
    return q, qd, tau + np.random.default_rng(1).normal(0, 0.05, tau.shape)


Q, QD, TAU = motion()
GAINS = np.array([12.0, 12.0, 9.0, 9.0, 5.0, 5.0, 5.0])
GEARS = np.full(N, 100.0)


def number_columns(pattern, values):
    return {pattern.format(i=i + 1, i0=i): column for i, column in enumerate(values.T)}


def by_joint(pattern, values, names=ROBOT.joint_names):
    return {pattern.format(joint=name): column for name, column in zip(names, values.T, strict=True)}


def csv(columns, path, **how):
    pl.DataFrame(columns).write_csv(path, **how)
    return path


def own(folder):
    signals = {"position": Q, "velocity": QD, "torque": TAU}
    write_log(ROBOT, T, signals, folder / "run.csv", dict.fromkeys(signals, "joint"))
    (folder / "run.csv.toml").unlink()
    return folder / "run.csv", {}


def ros_topic(folder):
    """`rostopic echo -p`: a stamp in ns, the joints' names in columns of words, in an order of their own."""
    order = [3, 0, 1, 2, 6, 5, 4]
    names = {f"field.name{k}": [ROBOT.joint_names[j]] * ROWS for k, j in enumerate(order)}
    stamp = (1.6e18 + np.round(1e9 * T)).astype(np.int64)
    values = {}
    for word, array in (("position", Q), ("velocity", QD), ("effort", TAU)):
        values |= number_columns(f"field.{word}{{i0}}", array[:, order])
    table = {"%time": stamp + 1000, "field.header.seq": np.arange(ROWS), "field.header.stamp": stamp, **names, **values}
    return csv(table, folder / "run.csv"), {}


def ros_seconds(folder):
    stamp = np.round(1e9 * T).astype(np.int64) + 1_700_000_000_123_456_789
    table = {"header.stamp.sec": stamp // 10**9, "header.stamp.nanosec": stamp % 10**9}
    for word, array in (("position", Q), ("velocity", QD), ("effort", TAU)):
        table |= number_columns(f"{word}_{{i0}}", array)
    return csv(table, folder / "run.csv"), {}


def plot_juggler(folder):
    table = {"__time": 1.6e6 + T, "/joint_states/gripper/position": 0 * T}
    for word, array in (("position", Q), ("velocity", QD), ("effort", TAU)):
        table |= by_joint(f"/joint_states/{{joint}}/{word}", array)
    return csv(table, folder / "run.csv"), {}


def ur_rtde(folder):
    table = {"timestamp": 5030.0 + T}
    for word, array in (("target_q", Q + 0.01), ("actual_q", Q), ("target_qd", QD), ("actual_qd", QD)):
        table |= number_columns(f"{word}_{{i0}}", array)
    table |= number_columns("target_moment_{i0}", TAU + 1) | number_columns("actual_current_{i0}", TAU / GAINS)
    table |= number_columns("actual_TCP_pose_{i0}", Q) | number_columns("joint_temperatures_{i0}", 30 + 0 * Q)
    return csv(table, folder / "run.csv", separator=" "), {"current_gains": GAINS.tolist()}


def franka(folder):
    table = {"time": T}
    for word, array in (("q", Q), ("q_d", Q + 0.01), ("dq", QD), ("tau_J", TAU), ("tau_J_d", TAU + 1), ("dtau_J", QD)):
        table |= number_columns(f"state.{word}[{{i0}}]", array)
    table |= number_columns("state.tau_ext_hat_filtered[{i0}]", 0.1 * QD)
    return csv(table, folder / "run.csv"), {}


def lerobot(folder):
    """Two episodes of a dataset, arrays in cells, names in meta/info.json, a gripper as one more column."""
    names = [*(f"main_{name}" for name in reversed(ROBOT.joint_names)), "main_gripper"]
    features = {key: {"names": {"motors": names}} for key in ("observation.state", "observation.effort")}
    (folder / "meta").mkdir()
    (folder / "meta" / "info.json").write_text(json.dumps({"fps": 30, "features": features}))
    (folder / "data").mkdir()
    cut = 500
    rows = {key: np.column_stack([array[:, ::-1], 0 * T]).tolist() for key, array in (("state", Q), ("effort", TAU))}
    episodes = np.r_[T[:cut], T[: ROWS - cut]]
    table = {"observation.state": rows["state"], "observation.effort": rows["effort"], "action": rows["state"]}
    table |= {
        "timestamp": episodes,
        "frame_index": np.arange(ROWS),
        "episode_index": np.repeat([0, 1], [cut, ROWS - cut]),
    }
    pl.DataFrame(table).write_parquet(folder / "data" / "episode.parquet")
    return folder / "data" / "episode.parquet", {"side": {"torque": "joint"}, "units": {"torque": "N m"}}


def german_degrees(folder):
    """Degrees that no name states, milliseconds, semicolons and decimal commas."""
    table = {"Zeit time": 1000 * T, **number_columns("Pos_A{i}", np.rad2deg(Q)), **number_columns("Trq_A{i}", TAU)}
    return csv(table, folder / "run.csv", separator=";", decimal_comma=True), {}


def arrays(folder):
    np.savez(folder / "run.npz", times=T, positions=Q, velocities=QD, torques=1000 * TAU, target_positions=Q + 1)
    return folder / "run.npz", {}


def motors(folder):
    table = {
        "t_ms": 1000 * T,
        **number_columns("motor{i}_pos_rad", Q * GEARS),
        **number_columns("motor{i}_torque_Nm", TAU / GEARS),
    }
    return csv(table, folder / "run.csv"), {"gears": GEARS.tolist()}


def short_names(folder):
    names = [name.upper() for name in ROBOT.joint_names]
    table = {"t_s": T, **by_joint("{joint}_q", Q, names), **by_joint("{joint}_qd", QD, names)}
    return csv({**table, **by_joint("{joint}_tau", TAU, names)}, folder / "run.csv"), {}


SHAPES = [
    own,
    ros_topic,
    ros_seconds,
    plot_juggler,
    ur_rtde,
    franka,
    lerobot,
    german_degrees,
    arrays,
    motors,
    short_names,
]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_draft_with_answered_questions_reads_a_log_of_every_shape(tmp_path, shape):
    path, answers = shape(tmp_path)
    draft = draft_log(path, ROBOT)
    asked = {key.partition(".")[0] for key in draft.questions}
    assert asked <= {*answers, *({"gears"} if "side" in answers else ())}, draft.toml()
    stated = draft.to_metadata()
    for key, value in answers.items():
        stated[key] = {**stated.get(key, {}), **value} if isinstance(value, dict) else value
    log = read_log(path, ROBOT, metadata=stated)
    assert_close(log.q, Q, SAME_ALGEBRA)
    assert_close(log.tau, TAU, ROUND_TRIP)
    steps = np.diff(log.time)
    within = steps[steps < RESTART_GAP_S / 2]
    assert len(steps) - len(within) == len(stated.get("accept", ()))  # a gap between two recordings in one file
    assert_close(within, np.full(len(within), 1 / RATE), 1e-5)


@needs_real_data
@pytest.mark.parametrize(
    ("name", "file", "asked"),
    [
        ("ur10_unisa", "ur10_exciting_trajectory.csv", set()),
        ("kuka_lwr4", "measurements_1.npz", set()),
        ("kuka_kr300", "traj_A.mat", {"gears", "side.torque"}),
        ("staubli_tx40", "pos_read_data.csv", {"rate_hz", "gears", "units.position", "units.torque"}),
    ],
)
def test_drafts_of_measured_logs_agree_with_their_notes(name, file, asked):
    robot = mindyn.load_robot(FOLDER / name / "model" / MODELS[name])
    draft = draft_log(FOLDER / name / file, robot)
    assert {key for key in draft.questions if not key.startswith("side.")} == asked - {"side.torque"}
    known = STATEMENTS[name]
    for key in ("position", "velocity", "torque"):
        for table in ("columns", "units"):
            message, true = draft.value(f"{table}.{key}"), known[table].get(key)
            listed = [true.format(i=i + 1) for i in range(robot.joint_count)] if isinstance(true, str) else None
            either = {str(true), str(true).replace("_mot_", "_se_"), str(listed), "?"}  # the KR 300 has two encoders
            assert str(message) in either or (true is None and key == "velocity"), (table, key, message)
        side = known["side"] if isinstance(known["side"], str) else known["side"][key]
        assert draft.value(f"side.{key}") in (side, "?", None)


@needs_real_data
def test_drafts_of_measured_logs_without_a_statement_of_their_own():
    panda = draft_log(FOLDER / "panda_gaz2019" / "exciting.parquet", mindyn.load_robot("panda"))
    assert not panda.questions
    assert panda.to_metadata()["units"] == {"time": "s", "position": "rad", "velocity": "rad/s", "torque": "N m"}
    ur10e = mindyn.load_robot(FOLDER / "ur10e_innopolis" / "model" / "ur10e.urdf")
    draft = draft_log(FOLDER / "ur10e_innopolis" / "free.parquet", ur10e)
    assert draft.questions == ("current_gains",)
    assert draft.value("columns.torque") == "current{i}_A"
    assert draft.value("units.torque") == "A"


def test_a_draft_is_rejected_until_it_is_confirmed_and_then_read(tmp_path):
    path, _ = franka(tmp_path)
    run = CliRunner().invoke
    assert run(app, ["log", str(path), "panda", "--write"]).exit_code == 0
    with raises(LogError, code=Code.MISSING_VALUE, subject="draft"):
        read_log(path, ROBOT)
    assert run(app, ["log", str(path), "panda", "--confirm"]).exit_code == 0
    assert_close(read_log(path, ROBOT).tau, TAU, ROUND_TRIP)
    checked = run(app, ["log", str(path), "panda"])
    assert "1500 rows, 125 Hz" in checked.stdout


def test_what_only_the_user_knows_is_stated_or_rejected(tmp_path):
    path, _ = ur_rtde(tmp_path)
    words = ["log", str(path), "panda", "--confirm"]
    rejected = CliRunner().invoke(app, words)
    assert isinstance(rejected.exception, InputError)
    assert "unknown entries of run.csv: current_gains" in str(rejected.exception)
    assert not path.with_name("run.csv.toml").exists()
    assert CliRunner().invoke(app, [*words, "--state", f"current_gains={GAINS.tolist()}"]).exit_code == 0
    assert_close(read_log(path, ROBOT).tau, TAU, ROUND_TRIP)


BARE_ARM = """<robot name="bare"><link name="base"/><link name="a"/><link name="b"/>
<joint name="joint_a" type="revolute"><parent link="base"/><child link="a"/><axis xyz="0 1 0"/>
<limit lower="-2" upper="2" velocity="2" effort="50"/></joint>
<joint name="joint_b" type="revolute"><origin xyz="0.3 0 0"/><parent link="a"/><child link="b"/><axis xyz="0 1 0"/>
<limit lower="-2" upper="2" velocity="2" effort="50"/></joint></robot>"""


def test_edits_of_a_draft_are_kept_and_each_open_question_is_listed_once(tmp_path):
    (tmp_path / "bare.urdf").write_text(BARE_ARM)
    arm = mindyn.load_robot(tmp_path / "bare.urdf")
    degrees = {f"joint_{k}_Ist_deg": np.degrees(Q[:, j]) for j, k in enumerate("ab")}
    path = csv(
        {"Zeit [ms]": 1000 * T, **degrees, **{f"joint_{k}_Moment": TAU[:, j] for j, k in enumerate("ab")}},
        tmp_path / "run.csv",
    )
    words = ["log", str(path), str(tmp_path / "bare.urdf")]
    assert CliRunner().invoke(app, [*words, "--write"]).exit_code == 0
    sidecar = path.with_name("run.csv.toml")
    questions = [line.split(" = ")[0] for line in sidecar.read_text().splitlines() if ' = "?"' in line]
    assert {"units.torque", "side.torque"} <= set(questions)
    with raises(LogError, code=Code.MISSING_VALUE, subject="draft") as failure:
        read_log(path, arm)
    assert failure.value.message.startswith(f"the metadata of run.csv in run.csv.toml has {1 + len(questions)} errors")
    answers = {"units.torque": "N m", "side.torque": "joint"}
    lines = [line for line in sidecar.read_text().splitlines() if not line.startswith("gears")]
    edited = [f'{key} = "{answers[key]}"' if (key := line.split(" = ")[0]) in answers else line for line in lines]
    sidecar.write_text("\n".join(edited))
    assert CliRunner().invoke(app, [*words, "--confirm"]).exit_code == 0
    assert_close(read_log(path, arm).tau, TAU[:, :2], ROUND_TRIP)


def test_a_wrong_velocity_is_not_used_and_a_wrong_unit_is_reported(tmp_path):
    table = {"t": T, **number_columns("q{i}", Q), **number_columns("tau{i}", TAU)}
    other = csv({**table, **number_columns("qd{i}", Q[::-1])}, tmp_path / "other.csv")
    draft = draft_log(other, ROBOT)
    assert draft.value("columns.velocity") is None
    assert any("is called a velocity" in note for note in draft.notes)
    wrong = csv({**table, **number_columns("qd{i}_rad_s", np.rad2deg(QD))}, tmp_path / "wrong.csv")
    assert draft_log(wrong, ROBOT).value("units.velocity") == "deg/s"


def test_a_log_without_torque_asks_for_it_and_one_of_fewer_joints_is_rejected(tmp_path):
    pl.DataFrame({"t": T, **number_columns("q{i}", Q)}).write_csv(tmp_path / "run.csv", include_header=False)
    draft = draft_log(tmp_path / "run.csv", ROBOT)
    assert draft.questions == ("columns.torque",)
    assert draft.value("columns.position") == [f"column_{k}" for k in range(2, 2 + N)]
    few = {"t": T, **number_columns("q{i}", Q[:, :5]), **number_columns("tau{i}", TAU[:, :5])}
    pl.DataFrame(few).write_csv(tmp_path / "short.csv")
    with raises(LogError, code=Code.MISSING_VALUE, subject="columns.position"):
        draft_log(tmp_path / "short.csv", ROBOT)


def test_a_draft_is_a_toml_file_whatever_the_names_are(tmp_path):
    import tomllib

    path = csv({"t": T, **number_columns('q"\u2028{i}', Q), **number_columns("tau{i}", TAU)}, tmp_path / "odd.csv")
    draft = draft_log(path, ROBOT).with_line("rows", [0, 10], "two\nlines")
    assert tomllib.loads(draft.toml())["rows"] == [0, 10]


@pytest.mark.parametrize("kinds", [("revolute", "prismatic", "revolute"), ("prismatic",) * 3])
def test_units_of_robots_with_prismatic_joints_are_drafted_per_joint(tmp_path, kinds):
    arm = mindyn.load_robot("panda", tip="link3")
    limits = (Limits(-2.0, 2.0) if kind == "revolute" else Limits(-0.5, 0.5) for kind in kinds)
    joints = (
        replace(joint, kind=kind, limits=limit) for joint, kind, limit in zip(arm.joints, kinds, limits, strict=True)
    )
    robot = replace(arm, joints=tuple(joints), gravity=np.array([2.0, 3.0, -9.0]))
    w, a = 2 * np.pi * np.array([0.4, 0.6, 0.5]), np.where(np.array(kinds) == "revolute", 1.0, 0.2)
    phase = T[:, None] * w + np.arange(3)
    q, qd, qdd = a * np.sin(phase), a * w * np.cos(phase), -a * w**2 * np.sin(phase)
    tau = mindyn.compile_model(robot).inverse_dynamics(q, qd, qdd)
    names = robot.joint_names
    path = csv(
        {"t": T} | by_joint("{joint}_pos", q, names) | by_joint("{joint}_torque", tau, names), tmp_path / "a.csv"
    )
    draft = draft_log(path, robot)
    assert draft.questions == ()
    log = read_log(path, robot, metadata=draft.to_metadata())
    assert_close(log.q, q, ROUND_TRIP)
    assert_close(log.tau, tau, ROUND_TRIP)
