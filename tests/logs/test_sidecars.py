"""Sidecars: values in range, merged key by key, found next to the log, faults named together."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from raising import raises

from mindyn.foundation.errors import Code, InputError
from mindyn.logs.column_selection import ColumnSelection, list_unused_joints, select_columns
from mindyn.logs.log import write_log
from mindyn.logs.log_errors import LogError, raise_together
from mindyn.logs.metadata import LogMetadata, find_faults, find_key_faults, find_sidecar
from mindyn.logs.read_log import read_log
from mindyn.robots.loading import load_robot

ROBOT = load_robot("planar2")


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("rows", [0, 1], [1, 1]),
        ("rows", [3, 9], [-1, 5]),
        ("rows", [0, 2], [0.0, 2.0]),
        ("rows", [0, 2], [0, 1, 2]),
        ("rate_hz", 1e-3, 0.0),
        ("rate_hz", 100, True),
        ("rate_hz", 100, "100"),
        ("skip_rows", 0, -1),
        ("skip_rows", 3, 1.0),
        ("decimal", ",", ";"),
        ("separator", ";", "/"),
        ("side", "joint", "link"),
        ("side", {"torque": "motor"}, {"force": "motor"}),
        ("accept", ["rate"], ["all"]),
        ("columns", {"position": "q{i}"}, {"pos": "q{i}"}),
        ("units", {"time": "s"}, "rad"),
        ("joints", ["a", "b"], "a"),
        ("draft", False, True),
        ("units", {"position": "rad"}, {"position": "?"}),
    ],
)
def test_metadata_values_at_both_sides_of_their_bounds(key, good, bad):
    assert getattr(LogMetadata(**{key: good}), key) == good
    for use in (lambda: LogMetadata(**{key: bad}), lambda: LogMetadata().merge_with({key: bad})):
        with raises(LogError, (Code.INVALID_VALUE, Code.MISSING_VALUE, Code.OUT_OF_RANGE)) as raised:
            use()
        assert raised.value.subject.split(".")[0] == key


def test_statements_are_merged_key_by_key():
    below = LogMetadata(units={"position": "deg", "time": "s"}, side="motor", rows=[0, 5])
    merge = below.merge_with({"units": {"position": "rad"}, "side": "joint"})
    assert merge.units == {"position": "rad", "time": "s"}
    assert (merge.side, merge.rows) == ("joint", [0, 5])
    assert merge.side_of("torque") == "joint"
    assert LogMetadata(side={"torque": "motor"}).side_of("torque") == "motor"
    with raises(LogError, code=Code.MISSING_VALUE, subject="side.position"):
        LogMetadata(side={"torque": "motor"}).side_of("position")
    with raises(LogError, code=Code.MISSING_VALUE, subject="units.torque") as rejected:
        LogMetadata(units={"torque": {"k": "N m"}}).unit("torque", "j")
    assert 'units.torque = "N m" (or mN m, N, mN, A, mA)' in str(rejected.value.hint)
    assert LogMetadata(units={"torque": {"k": "A"}}).unit("torque", "k") == "A"
    assert len(find_faults({"rows": [5, 0], "skip_rows": 2, "nonsense": 1})) == 2
    with raises(LogError, code=Code.OUT_OF_RANGE, subject="rows"):
        below.merge_with({"rows": [5, 0], "skip_rows": 2, "nonsense": 1})


def table(*names):
    return SimpleNamespace(is_named=True, name="run.csv", names=names)


def test_columns_follow_patterns_in_the_robot_s_order():
    first, second = ROBOT.joint_names
    given = LogMetadata(columns={"position": "q{i}", "torque": "tau_{joint}", "velocity": "v{i0:02d}"})
    all_names = ("q1", "q2", f"tau_{first}", f"tau_{second}", "v00", "v01")
    assert select_columns("position", given, ROBOT, table(*all_names)).names == ("q1", "q2")
    assert select_columns("torque", given, ROBOT, table(*all_names)).names == (f"tau_{first}", f"tau_{second}")
    assert select_columns("velocity", given, ROBOT, table(*all_names)).names == ("v00", "v01")
    turned = LogMetadata(columns={"position": "q{i}"}, joints=[second, "x", first])
    assert select_columns("position", turned, ROBOT, table("q1", "q2", "q3")).names == ("q3", "q1")
    with raises(LogError, code=Code.UNKNOWN_NAME, subject="q2"):
        select_columns("position", given, ROBOT, table("q1"))
    array = select_columns(
        "position", LogMetadata(columns={"position": "q"}, joints=[second, "x", first]), ROBOT, table("q")
    )
    taken = array.take({"q": np.arange(6.0).reshape(2, 3)})
    assert taken.tolist() == [[2.0, 0.0], [5.0, 3.0]]
    with raises(LogError, code=Code.WRONG_SHAPE, subject="q"):
        array.take({"q": np.zeros((2, 2))})
    with raises(LogError, code=Code.WRONG_SHAPE, subject="b"):
        ColumnSelection(("a", "b")).take({"a": np.zeros(2), "b": np.zeros((2, 2))})


def test_joints_that_only_the_log_has_are_named():
    first, second = ROBOT.joint_names
    given = LogMetadata(columns={"position": "q_{joint}", "torque": "t_{joint}"})
    names = [f"{a}_{b}" for a in "qt" for b in (first, second, "grip")]
    both = {"position": table(*names, "q_time"), "torque": table(*names)}
    assert list_unused_joints(given, ROBOT, both) == ["grip"]
    assert list_unused_joints(given, ROBOT, {"position": both["position"]}, ["q_time"]) == ["grip"]
    assert list_unused_joints(given, ROBOT, {"position": both["position"]}) == ["grip", "time"]
    numbered = LogMetadata(columns={"position": "q{i}"})
    assert list_unused_joints(numbered, ROBOT, {"position": table("q1", "q2")}, ["q1", "q2"]) == []
    assert list_unused_joints(numbered, ROBOT, {"position": table("q1", "q2", "q3", "qx")}, ["q1", "q2"]) == ["q3"]


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        ({}, range(10)),
        ({"rows": [2, 5]}, range(2, 5)),
    ],
)
def test_rows_choose_a_part_of_a_log(tmp_path, given, rows):
    path = tmp_path / "run.csv"
    cells = "\n".join(f"{100 + k / 10},{k},{-2 * k},{3 * k},{k}" for k in range(10))
    path.write_text(f"t,q1,q2,e1,e2\n{cells}\n")
    stated = {
        "columns": {"time": "t", "position": "q{i}", "torque": "e{i}"},
        "units": {"time": "s", "position": "deg", "torque": "mN m"},
        "side": "joint",
        "accept": ["rate", "degrees", "milli"],
    }
    log = read_log(path, ROBOT, metadata={**stated, **given})
    assert log.rows.tolist() == list(rows)
    assert_close(log.time, np.array(rows) / 10, 1e-9)
    assert_close(log.q, np.deg2rad(np.outer(rows, [1, -2])), SAME_ALGEBRA)
    assert_close(log.tau, 1e-3 * np.outer(rows, [3, 1]), SAME_ALGEBRA)
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="rows"):
        read_log(path, ROBOT, metadata={**stated, "rows": [100, 200]})


def test_an_unknown_key_is_one_fault():
    faults = find_faults({"colums": {"time": "t"}, "rate_hz": 100.0, "side": 3})
    assert len(faults) == 2
    assert [fault.subject for fault in faults] == ["colums", "side"]
    merged = LogMetadata().merge_with({"units": {"time": "s"}}).merge_with({"units": {"torque": "A"}})
    assert dict(merged.units) == {"time": "s", "torque": "A"}


def test_faults_are_raised_together_and_their_hints_once():
    one, two = (LogError(name, hint="look", code=Code.AMBIGUOUS, subject=name) for name in ("one", "two"))
    raise_together([], "run.csv")
    with raises(LogError, code=Code.AMBIGUOUS, subject="one") as alone:
        raise_together([one], "run.csv")
    assert alone.value is one
    with raises(LogError, code=Code.AMBIGUOUS, subject="one") as known:
        raise_together([one, two], "run.csv")
    assert known.value.message.splitlines() == ["the metadata of run.csv has 2 errors:", "1. one", "   look", "2. two"]


@pytest.mark.parametrize("key", ["rate_hz", "side", "columns", "joints", "separator"])
def test_a_question_mark_is_invalid_for_every_key(key):
    assert [(fault.code, fault.subject) for fault in find_key_faults(key, "?")] == [(Code.MISSING_VALUE, key)]
    (fault,) = find_key_faults("units", {"torque": "?", "time": "s"})
    assert (fault.code, fault.subject) == (Code.MISSING_VALUE, "units.torque")


@pytest.mark.parametrize("names", [("a", "b"), ("a b", "c,d")])
def test_joints_whose_names_no_header_holds_are_counted(tmp_path, names):
    robot = load_robot("planar2")
    joints = tuple(replace(joint, name=name) for joint, name in zip(robot.joints, names, strict=True))
    robot = replace(robot, joints=joints, drives=())
    t = np.arange(20) / 100
    q = np.column_stack([np.sin(3 * t), np.cos(2 * t)])
    path = tmp_path / "run.csv"
    write_log(
        robot,
        t,
        {"position": q, "torque": 2 * q},
        path,
        side={"position": "joint", "torque": "motor"},
        accept=("rate",),
    )
    stated = tomllib.loads((tmp_path / "run.csv.toml").read_text())
    plain = names == ("a", "b")
    assert stated.get("joints") == (None if plain else list(names))
    assert stated["columns"]["position"] == ("{joint}.position" if plain else "position{i}")
    assert stated["side"] == {"position": "joint", "torque": "motor"}
    assert stated["accept"] == ["rate"]
    assert set(stated["units"]["torque"].values()) == {"N m"}
    header = path.read_text().splitlines()[0]
    assert header == (
        "time,a.position,b.position,a.torque,b.torque" if plain else "time,position1,position2,torque1,torque2"
    )
    with raises(InputError, code=Code.UNSUPPORTED, subject="run.txt"):
        write_log(robot, t, {"position": q}, tmp_path / "run.txt", side={"position": "joint"})


def test_a_log_has_one_sidecar_or_that_of_its_folder(tmp_path):
    path = tmp_path / "run.csv"
    assert find_sidecar(path) is None
    (tmp_path / "logs.toml").write_text("")
    assert find_sidecar(path).name == "logs.toml"
    (tmp_path / "run.log.toml").write_text("")
    assert find_sidecar(path).name == "run.log.toml"
    (tmp_path / "run.csv.toml").write_text("")
    with raises(LogError, code=Code.AMBIGUOUS, subject="run.csv"):
        find_sidecar(path)
