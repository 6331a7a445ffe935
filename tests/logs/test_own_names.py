"""Columns with names that the user chose keep their order, and no hint changes which joint a column means."""

import numpy as np
import pytest
from cli.program import mindyn_program

import mindyn
from mindyn.identification.log_drafts import draft_log

OWN = ("base", "sh", "el", "w1", "w2", "w3")


def write(path, robot, names, endings=("pos_deg", "torque_nm"), between=lambda columns: columns):
    """Write a log of the robot's torque; columns are named by `names`."""
    n, t = len(names), np.arange(0, 6, 0.01)
    q = 0.6 * np.sin(np.outer(t, 0.5 + 0.1 * np.arange(n)) + np.arange(n))
    qd = np.gradient(q, t, axis=0)
    model = mindyn.compile_model(robot)
    tau = model.inverse_dynamics(q, qd, np.gradient(qd, t, axis=0)) if n == robot.joint_count else q
    columns = [f"{name}_{ending}" for ending in endings for name in names]
    head = between(columns)
    values = dict(zip(columns, np.column_stack([np.degrees(q), tau]).T, strict=True))
    rows = np.column_stack([t, *(values[name] for name in head)])
    np.savetxt(path, rows, delimiter=",", header=",".join(["time_s", *head]), comments="")
    return path


def by_joint(columns):
    """Position and torque of a joint side by side."""
    half = len(columns) // 2
    return [name for pair in zip(columns[:half], columns[half:], strict=True) for name in pair]


@pytest.mark.parametrize("between", [list, by_joint])
@pytest.mark.parametrize(
    "names", [OWN, ("a", "b", "c", "d", "e", "f"), ("turn", "arm1", "arm2", "hand1", "hand2", "hand3")]
)
def test_all_groups_are_matched_in_their_order(tmp_path, names, between):
    robot = mindyn.load_robot("puma560")
    draft = draft_log(write(tmp_path / "own.csv", robot, names, between=between), robot)
    assert draft.value("columns.position") == [f"{name}_pos_deg" for name in names]
    assert draft.value("columns.torque") == [f"{name}_torque_nm" for name in names]
    assert draft.value("units.position") == "deg"


def test_no_hint_proposes_locks_by_position(tmp_path):
    path = write(tmp_path / "five.csv", mindyn.load_robot("puma560"), OWN[1:])
    ended = mindyn_program("log", path, "puma560")
    assert ended.code == 1
    assert "--lock" not in ended.err
    assert "columns.position=[...]" in ended.err


def test_numbers_that_count_stay_a_pattern(tmp_path):
    robot = mindyn.load_robot("puma560")
    draft = draft_log(write(tmp_path / "run.csv", robot, [f"axis{k}" for k in range(1, 7)]), robot)
    assert draft.value("columns.position") == "axis{i}_pos_deg"
