"""Whole drafts of small files, line by line: stated values, open questions, and reasons."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from draft_parts import PLANAR
from raising import raises

from mindyn.foundation.errors import Code
from mindyn.logs.drafts import drafting
from mindyn.logs.drafts.draft import DraftLine, SidecarDraft, format_toml_value
from mindyn.logs.drafts.draft_head import read_log_head
from mindyn.logs.drafts.draft_names import group_columns, guess_signal, guess_unit, is_measured, split_words
from mindyn.logs.drafts.drafting import draft_sidecar
from mindyn.logs.log_errors import LogError
from mindyn.logs.number_checks import velocity_slope
from mindyn.robots.loading import load_robot

T = np.arange(60) / 100
Q = np.column_stack([np.sin(3 * T), 0.5 * np.cos(5 * T)])
V = np.column_stack([3 * np.cos(3 * T), -2.5 * np.sin(5 * T)])
TAU = np.column_stack([4 * np.cos(T), 2 * np.sin(2 * T)])
USUAL = "100 Hz; the unit that gives a usual rate"
NUMBERED = "2 joints; the numbers are assumed to be in the robot's order"
NAMED = "by joint name"
DERIVED = "1.000 times the derivative of the position, which explains 100.0 % of it"
ANY_TORQUE = "one of N m, mN m, N, mN, A, mA; up to 4"
GAINS = 'N m/A at each joint, or "unknown": mindyn identify estimates them up to a common scale'


def write(path, columns):
    rows = zip(*columns.values(), strict=True)
    path.write_text(",".join(columns) + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


def pair(pattern, values, names=(1, 2)):
    return {pattern.format(name): values[:, k] for k, name in enumerate(names)}


def lines(draft):
    return {line.key: (line.value, line.evidence) for line in draft.lines}


JOINTS = PLANAR.primary_names
PLAIN = {"time": T, **pair("q{}", Q), **pair("qd{}", V), **pair("tau{}", TAU)}
CASES = {
    "plain": (
        PLAIN,
        PLANAR,
        {
            "columns.time": ("time", USUAL),
            "units.time": ("s", USUAL),
            "columns.position": ("q{i}", NUMBERED),
            "columns.velocity": ("qd{i}", NUMBERED),
            "columns.torque": ("tau{i}", NUMBERED),
            "units.position": ("rad", "up to 1, within the limits in rad"),
            "units.velocity": ("rad/s", DERIVED),
            "units.torque": ("?", ANY_TORQUE),
            "side.position": ("joint", "at most 8 % of the limits"),
            "side.velocity": ("joint", "as the position"),
            "side.torque": ("?", "motor or joint: they differ by the gears"),
        },
    ),
    "without a robot": (
        {"time": T, **pair("joint_pos{}", Q), **pair("motor_torque{}", TAU)},
        None,
        {
            "columns.time": ("time", USUAL),
            "units.time": ("s", USUAL),
            "columns.position": ("joint_pos{i}", "2 joints"),
            "columns.torque": ("motor_torque{i}", "2 joints"),
            "units.position": ("rad", "up to 1, within two turns in rad"),
            "units.torque": ("?", ANY_TORQUE),
            "side.position": ("joint", "from the name"),
            "side.torque": ("motor", "from the name"),
            "gears": (
                "?",
                "needed if a side is motor: q_motor = G q_joint; delete the line if all sides are joint",
            ),
        },
    ),
    "as ROS has it": (
        {
            "header.stamp.sec": T // 1,
            "header.stamp.nanosec": np.round((T % 1) * 1e9),
            **pair("{}.position", Q, JOINTS),
            **pair("{}.velocity", V, JOINTS),
            **pair("{}.effort", TAU, JOINTS),
        },
        PLANAR,
        {
            "columns.time": (["header.stamp.sec", "header.stamp.nanosec"], "seconds and nanoseconds, 100 Hz"),
            "columns.position": ("{joint}.position", NAMED),
            "columns.velocity": ("{joint}.velocity", NAMED),
            "columns.torque": ("{joint}.effort", NAMED),
            "units.position": ("rad", "defined by the format; up to 1, within the limits in rad"),
            "units.velocity": ("rad/s", DERIVED),
            "units.torque": ("N m", "defined by the format; up to 4"),
            "side.position": ("joint", "at most 8 % of the limits"),
            "side.velocity": ("joint", "as the position"),
            "side.torque": ("joint", "defined by the format"),
        },
    ),
    "as UR has it": (
        {
            "timestamp": T,
            **pair("actual_q_{}", Q, (0, 1)),
            **pair("actual_qd_{}", V, (0, 1)),
            **pair("actual_current_{}", TAU, (0, 1)),
        },
        PLANAR,
        {
            "columns.time": ("timestamp", USUAL),
            "units.time": ("s", USUAL),
            "columns.position": ("actual_q_{i0}", NUMBERED),
            "columns.velocity": ("actual_qd_{i0}", NUMBERED),
            "columns.torque": ("actual_current_{i0}", NUMBERED),
            "units.position": ("rad", "defined by the format; up to 1, within the limits in rad"),
            "units.velocity": ("rad/s", DERIVED),
            "units.torque": ("A", "defined by the format; up to 4"),
            "current_gains": ("?", GAINS),
            "side.position": ("joint", "at most 8 % of the limits"),
            "side.velocity": ("joint", "as the position"),
            "side.torque": ("joint", "current_gains are then N m per A at the joint"),
        },
    ),
    "with units in names": (
        {
            "t_ms": 1000 * T,
            **pair("{}_pos_deg", np.degrees(Q), JOINTS),
            **pair("{}_vel_deg_s", np.degrees(V), JOINTS),
            **pair("{}_current_mA", 30 * TAU, JOINTS),
        },
        PLANAR,
        {
            "columns.time": ("t_ms", "100 Hz; unit from the name"),
            "units.time": ("ms", "100 Hz; unit from the name"),
            "columns.position": ("{joint}_pos_deg", NAMED),
            "columns.velocity": ("{joint}_vel_deg_s", NAMED),
            "columns.torque": ("{joint}_current_mA", NAMED),
            "units.position": (
                "deg",
                "from the name; up to 57.29: deg at the joints, or rad at motors with gears",
            ),
            "units.velocity": ("deg/s", DERIVED),
            "units.torque": ("mA", "from the name; up to 120"),
            "current_gains": ("?", GAINS),
            "side.position": ("joint", "at most 8 % of the limits"),
            "side.velocity": ("joint", "as the position"),
            "side.torque": ("joint", "current_gains are then N m per A at the joint"),
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_line_of_a_draft(tmp_path, name):
    columns, robot, expected = CASES[name]
    draft = draft_sidecar(write(tmp_path / "run.csv", columns), robot)
    assert lines(draft) == expected
    assert draft.notes == ()
    assert draft.name == "run.csv"


def test_empty_columns_are_noted(tmp_path):
    columns = {"time": T, **pair("q{}", Q), "tau1": TAU[:, 0], "tau2": 0 * T + 3, "spare": [""] * 60}
    draft = draft_sidecar(write(tmp_path / "run.csv", columns), PLANAR)
    assert draft.notes == ("columns without any value: spare",)
    alone = draft_sidecar(write(tmp_path / "run.csv", columns), None)
    assert alone.notes == draft.notes
    unused = {"time": T, **pair("q{}", np.column_stack([Q, T]), (1, 2, 3)), "tau1": T, "tau2": 2 * T, "tau3": 0 * T}
    wide = draft_sidecar(write(tmp_path / "run.csv", unused), PLANAR)
    assert wide.value("joints") == [*JOINTS, "column 3"]
    assert wide.notes == ()


def test_the_order_that_a_file_names_is_that_of_its_columns(tmp_path):
    names = {"name0": [JOINTS[1]] * 60, "name1": [JOINTS[0]] * 60}
    columns = {"time": T, **names, **pair("q{}", Q, (0, 1)), **pair("tau{}", TAU, (0, 1))}
    draft = draft_sidecar(write(tmp_path / "run.csv", columns), PLANAR)
    assert lines(draft)["joints"] == ([JOINTS[1], JOINTS[0]], "the order of the joint names in the file")


def test_arrays_of_a_folder_that_lerobot_made_are_in_the_order_of_its_info(tmp_path):
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    (tmp_path / "meta").mkdir()
    info = {"features": {"state": {"names": ["joint2.pos", "joint1.pos"]}}}
    (tmp_path / "meta" / "info.json").write_text(json.dumps(info))
    np.savez(folder / "run.npz", time=T, state=Q, torque=TAU)
    assert draft_sidecar(folder / "run.npz", PLANAR).value("joints") == ["joint2", "joint1"]
    (tmp_path / "meta" / "info.json").write_text(json.dumps({"features": []}))
    assert draft_sidecar(folder / "run.npz", PLANAR).value("joints") == list(JOINTS)
    deeper = folder / "c"
    deeper.mkdir()
    (tmp_path / "meta" / "info.json").write_text(json.dumps(info))
    np.savez(deeper / "run.npz", time=T, state=Q, torque=TAU)
    assert draft_sidecar(deeper / "run.npz", PLANAR).value("joints") == list(JOINTS)  # three folders up at most


def test_logs_with_fewer_joints_propose_joints_to_lock(tmp_path):
    robot = load_robot("scara")
    names = robot.primary_names
    some = {"time": T, **pair("{}_pos", Q, names[:2]), **pair("{}_torque", TAU, names[:2])}
    with raises(LogError, code=Code.MISSING_VALUE, subject="columns.position") as known:
        draft_sidecar(write(tmp_path / "run.csv", some), robot)
    held = " ".join(f"--lock {name}=0" for name in names[2:])
    assert f"lock joints that did not move, {held}" in known.value.hint
    numbered = {"time": T, **pair("pos{}", Q), **pair("torque{}", TAU)}
    with raises(LogError, code=Code.MISSING_VALUE, subject="columns.position") as known:
        draft_sidecar(write(tmp_path / "run.csv", numbered), robot)
    assert f"the log has 2 joints, but the robot has {len(names)}" in known.value.hint
    assert known.value.hint.endswith(f"such as {held}")
    unlike = {"time": T, **pair("pos{}", Q)}
    partial = draft_sidecar(write(tmp_path / "run.csv", unlike), PLANAR)
    assert partial.value("columns.position") == "pos{i}"
    assert partial.questions == ("columns.torque",)


def test_a_joint_is_not_named_by_another_whose_name_begins_alike(tmp_path):
    robot = load_robot("planar2")
    joints = tuple(replace(joint, name=f"joint{9 + k}") for k, joint in enumerate(robot.joints))
    arm = replace(robot, joints=joints, drives=(), extras=())
    some = {"time": T, "joint100_pos": Q[:, 0], "joint10_pos": Q[:, 1], "joint10_torque": TAU[:, 0]}
    with raises(LogError, code=Code.MISSING_VALUE, subject="columns.position") as known:
        draft_sidecar(write(tmp_path / "run.csv", some), arm)
    assert "the log has no column for joint9: lock joints that did not move" in known.value.hint
    both = {"time": T, **pair("{}_pos", Q, JOINTS), f"{JOINTS[1]}_torque": TAU[:, 0]}
    with raises(LogError, code=Code.MISSING_VALUE, subject="columns.torque") as known:
        draft_sidecar(write(tmp_path / "run.csv", both), PLANAR)
    assert known.value.hint.startswith(f"the log has no torque of {JOINTS[0]}: lock joints that did not move")


def test_forces_of_slides_appear_with_torques(tmp_path):
    arm = load_robot("scara")
    names, kinds = arm.primary_names, [joint.kind for joint in arm.primary_joints]
    words = ["force" if kind == "prismatic" else "torque" for kind in kinds]
    assert set(words) == {"force", "torque"}
    columns = {"time": T} | {f"{name}_pos": Q[:, 0] for name in names}
    columns |= {f"{name}_{word}": TAU[:, 0] for name, word in zip(names, words, strict=True)}
    result = draft_sidecar(write(tmp_path / "run.csv", columns), arm)
    assert result.value("columns.torque") == [f"{name}_{word}" for name, word in zip(names, words, strict=True)]


def test_torques_of_another_recording_are_not_taken(tmp_path):
    positions = {"time": T, **pair("q{}", Q)}
    write(tmp_path / "run2_current.csv", pair("j{}", TAU))
    assert draft_sidecar(write(tmp_path / "run1_pos.csv", positions), PLANAR).questions == ("columns.torque",)
    assert (
        draft_sidecar(write(tmp_path / "run2_pos.csv", positions), PLANAR).value("files.torque") == "run2_current.csv"
    )


def test_a_log_that_starts_at_rest_is_read_further(tmp_path, monkeypatch):
    monkeypatch.setattr(drafting, "DRAFT_ROWS", 30)
    still = {name: np.concatenate([np.full(40, column[0]), column]) for name, column in PLAIN.items()}
    still |= {"time": np.arange(100) / 100, "qd1": np.concatenate([np.zeros(40), V[:, 0]])}
    still |= {"qd2": np.concatenate([np.zeros(40), V[:, 1]])}
    result = lines(draft_sidecar(write(tmp_path / "run.csv", still), PLANAR))
    assert result["units.velocity"][0] == "rad/s"
    assert "times the derivative of the position" in result["units.velocity"][1]


def test_a_wrapped_angle_keeps_its_velocity_and_repeated_rows_keep_their_stamps(tmp_path):
    wrapped = {**PLAIN, **pair("q{}", np.mod(Q, 2 * np.pi))}
    assert draft_sidecar(write(tmp_path / "run.csv", wrapped), PLANAR).value("units.velocity") == "rad/s"
    twice = {name: np.repeat(column, 2) for name, column in PLAIN.items()}
    assert draft_sidecar(write(tmp_path / "run.csv", twice), PLANAR).value("units.time") == "s"
    fast = {**PLAIN, "time": T / 80, **pair("qd{}", 80 * V)}
    assert draft_sidecar(write(tmp_path / "run.csv", fast), PLANAR).value("units.time") == "s"  # 8 kHz


def test_bags_need_a_robot(tmp_path):
    for name in ("run.mcap", "run.db3"):
        with raises(LogError, code=Code.MISSING_VALUE, subject="robot"):
            read_log_head(tmp_path / name, None)


def test_columns_of_text_hold_numbers_from_half_of_their_cells_on(tmp_path):
    def head(good):
        cells = ["1.5"] * good + ["on"] * (10 - good)
        return read_log_head(write(tmp_path / "run.csv", {"t": range(10), "x": cells}), None)

    assert "x" in head(5).columns
    assert head(4).words == {"x": "1.5"}
    sparse = write(tmp_path / "run.csv", {"t": range(10), "x": ["", "2.0", *[""] * 8]})
    assert "x" in read_log_head(sparse, None).columns


@pytest.mark.parametrize(
    ("name", "signal"),
    [
        ("q", "position"),
        ("actual_position", "position"),
        ("current_position", "position"),
        ("motor_current", "torque"),
        ("i", "torque"),
        ("i_x", None),
        ("joint_velocity", "velocity"),
        ("observation_state", "position"),
        ("temperature", None),
    ],
)
def test_signals_that_names_mean(name, signal):
    result = guess_signal(split_words(name))
    assert (result and result[0]) == signal


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("current_mA", "mA"),
        ("current_mA1", "mA"),
        ("current_A", "A"),
        ("tau_Nm", "N m"),
        ("torque_mNm_2", "mN m"),
        ("torque", None),
        ("armAngle_torque", None),
    ],
)
def test_units_that_names_say(name, unit):
    words = split_words(name)
    assert guess_unit("torque", words, words[-1:]) == unit


def test_words_of_references_and_models_are_no_measurements():
    assert is_measured(("q",))
    assert not is_measured(("q", "d"))
    assert is_measured(("d",))
    assert not is_measured(("tau", "c"))


def test_joints_are_found_by_their_longest_names():
    columns = dict.fromkeys(("arm_pos", "arm_2_pos", "arm_tau", "arm_2_tau"), T)
    result = group_columns(columns, ("arm", "arm_2"))
    assert [item.columns for item in result] == [("arm_pos", "arm_2_pos"), ("arm_tau", "arm_2_tau")]
    assert [item.entry for item in result] == ["{joint}_pos", "{joint}_tau"]
    array = group_columns({"a b c d": Q}, ())[0]
    assert array.ending == ("b", "c", "d")


def test_rows_without_numbers_do_not_count_in_the_slope_of_a_velocity():
    q, v = Q.copy(), V.copy()
    v[7, 0] = np.nan
    q[20, 1] = np.nan
    slope, agrees = velocity_slope(q, v, T)
    assert slope == pytest.approx(1.0, abs=1e-3)
    assert agrees == pytest.approx(1.0, abs=1e-3)


def test_lines_of_a_draft_can_be_replaced_and_removed():
    draft = SidecarDraft(
        "x", (DraftLine("a.b", [1, "t"], ""), DraftLine("c", True, ""), DraftLine("a.d", {"k": 2.5}, ""))
    )
    assert draft.with_line("c", 7, "").value("c") == 7
    assert [line.key for line in draft.without_key("a").lines] == ["c"]
    assert [line.key for line in draft.without_key("a.b").lines] == ["c", "a.d"]
    assert [line.key for line in draft.without_key("c").lines] == ["a.b", "a.d"]
    whole = SidecarDraft("x", (DraftLine("units", "?", ""), DraftLine("c", 1, "")))
    assert [line.key for line in whole.without_key("units.torque").lines] == ["c"]
    assert format_toml_value([1, "t", [True]]) == '[1, "t", [true]]'
    assert format_toml_value({"k": 2.5}) == "{ k = 2.5 }"
    assert draft.to_metadata() == {"a": {"b": [1, "t"], "d": {"k": 2.5}}, "c": True}
