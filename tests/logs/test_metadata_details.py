"""Statements at their bounds, columns by pattern, rows in range, groups that are read at once.

One private name is tested directly: inputs at its limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from closeness import EXACT, SAME_ALGEBRA, assert_close
from raising import raises

from mindyn.foundation.errors import Code
from mindyn.logs.column_selection import ColumnSelection, list_columns_and_joints, list_unused_joints, select_columns
from mindyn.logs.conditioning import Conditioning, condition_motion
from mindyn.logs.conversion import array_per_joint, create_conversion, motor_gears
from mindyn.logs.differentiation import central_difference, fit_spline
from mindyn.logs.formats.parquet_table import MAX_WHOLE_GROUP_ROWS, _plan_fetches
from mindyn.logs.log import log_from_arrays
from mindyn.logs.log_errors import LogError
from mindyn.logs.metadata import LogMetadata, find_faults, find_sidecar
from mindyn.logs.number_checks import LogInspector
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


def table(*names):
    return SimpleNamespace(name="run.csv", names=names)


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


def test_long_lists_of_columns_are_cut():
    names = [f"c{k}" for k in range(61)]
    assert "c59 and 1 more; the robot has" in list_columns_and_joints(names, ROBOT)
    assert "c59; the robot has" in list_columns_and_joints(names[:60], ROBOT)


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
    ("groups", "rows", "read"),
    [
        ([10, 10, 10], 15, [(0, 20), (20, 10)]),
        ([10, 10, 10], 10, [(0, 10), (10, 10), (20, 10)]),
        ([], 10, []),
        ([MAX_WHOLE_GROUP_ROWS, 1], 2 * MAX_WHOLE_GROUP_ROWS, [(0, MAX_WHOLE_GROUP_ROWS), (MAX_WHOLE_GROUP_ROWS, 1)]),
        ([5, MAX_WHOLE_GROUP_ROWS - 3, 5], 10, [(0, 5), (5, MAX_WHOLE_GROUP_ROWS - 3), (MAX_WHOLE_GROUP_ROWS + 2, 5)]),
    ],
)
def test_row_groups_are_read_whole(groups, rows, read):
    assert list(_plan_fetches(groups, rows)) == read


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


def convert(signals, **stated):
    units = {"position": "rad", "velocity": "deg/s", "torque": "N m"}
    return create_conversion(LogMetadata(units=units, **stated), ROBOT, signals)


def test_motors_turn_further_and_push_less_than_joints():
    G = np.array([[100.0, 0.0], [20.0, 50.0]])
    raw = np.array([[100.0, 70.0], [-3.0, 5.0]])
    created = convert(("position", "velocity", "torque"), side="motor", gears=G.tolist(), position_offset=[0.5, 0.0])
    assert_close(created.apply("position", raw), raw @ np.linalg.inv(G).T + [0.5, 0.0], SAME_ALGEBRA)
    assert_close(created.apply("velocity", raw), np.deg2rad(raw @ np.linalg.inv(G).T), SAME_ALGEBRA)
    assert_close(created.apply("torque", raw), raw @ G, SAME_ALGEBRA)
    joint = convert(("position", "torque"), side="joint")
    assert_close(joint.apply("torque", raw), raw, EXACT)
    assert_close(joint.apply("position", raw), raw, EXACT)
    kept = joint.apply("torque", np.array([[np.nan, 1.0]]))
    assert kept[0, 1] == 1.0
    with raises(LogError, code=Code.INVALID_VALUE, subject="gears"):
        motor_gears(LogMetadata(gears=[[1.0, 2.0], [2.0, 4.0]]), ROBOT)
    assert_close(motor_gears(LogMetadata(gears=[50.0, -30.0]), ROBOT), np.diag([50.0, -30.0]), EXACT)
    with raises(LogError, code=Code.DISAGREEMENT, subject="gains"):
        array_per_joint({"a": 1.0}, ROBOT.primary_names, "gains")


def test_derivatives_have_the_units_of_their_rate():
    t = np.arange(200) / 50
    q = np.column_stack([t**2, 3 * t])
    inner = slice(10, -10)
    assert_close(central_difference(q, 50.0)[inner], np.column_stack([2 * t, 3 + 0 * t])[inner], 1e-9)
    spline = fit_spline(q, 50.0)
    assert_close(spline[0][inner], q[inner], 1e-9)
    assert_close(spline[1][inner], np.column_stack([2 * t, 3 + 0 * t])[inner], 1e-8)
    assert_close(spline[2][inner], np.column_stack([2 + 0 * t, 0 * t])[inner], 1e-6)


def test_measured_motion_is_used_if_requested():
    t = np.arange(100) / 50
    q, qd, qdd = (np.column_stack([f(t), f(2 * t)]) for f in (np.sin, np.cos, np.exp))
    log = log_from_arrays(ROBOT.joint_names, t, q, 5 * q, qd, qdd)
    c = Conditioning(rate_hz=50.0, motion_hz=None, velocity="measured", acceleration="measured")
    motion = condition_motion(log, c)
    for result, given in zip(motion[:4], (q, qd, qdd, 5 * q), strict=True):
        assert_close(result, given, EXACT)
    half = condition_motion(log, Conditioning(rate_hz=50.0, motion_hz=None, velocity="measured"))
    assert_close(half.qdd, central_difference(qd, 50.0), EXACT)
    plain = condition_motion(log, Conditioning(rate_hz=50.0, motion_hz=None))
    assert_close(plain.qdd, central_difference(central_difference(q, 50.0), 50.0), EXACT)
    late = condition_motion(log, Conditioning(rate_hz=50.0, motion_hz=None, delay_s=0.04))
    assert_close(late.q[10:-10], q[8:-12], 1e-9)  # the motion is moved to the later torque
    assert_close(late.tau, 5 * q, EXACT)
    with raises(LogError, code=Code.MISSING_VALUE, subject="acceleration"):
        condition_motion(log_from_arrays(ROBOT.joint_names, t, q, q, qd), c)


def test_steps_are_jumps_when_they_are_fast_and_unusual():
    time = np.arange(200) / 100
    smooth = np.column_stack([0.5 * np.sin(time), 0.3 * np.cos(time)])

    def notes(step):
        q = smooth.copy()
        q[120:, 1] += step
        seen = LogInspector(ROBOT)
        seen.see(log_from_arrays(ROBOT.joint_names, time, q, q))
        return [item for item in map(str, seen.findings()) if "jumps" in str(item)]

    limit = ROBOT.joints[1].limits.velocity or 10.0
    assert notes(0.9 * limit / 100) == []
    assert len(notes(1.2 * limit / 100)) == 1
    assert len(notes(-1.2 * limit / 100)) == 1
