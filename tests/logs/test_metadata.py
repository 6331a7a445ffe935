"""Names, units, side, gears and offsets: stated in the sidecar or the call, never guessed."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from closeness import EXACT, ROUND_TRIP, SAME_ALGEBRA, assert_close
from messages import messages
from raising import raises
from recordings import COLUMNS, NAMES, STATED, UNITS, arm, sines

from mindyn.foundation.errors import Code
from mindyn.logs.log_errors import LogError
from mindyn.logs.read_log import read_log, scan_log
from mindyn.robots.parts import Drive

MOTION = sines(300)
G = np.array([[50.0, 0.0, 0.0], [0.0, -40.0, 0.0], [0.0, 30.0, 20.0]])
DRIVES = (Drive("wrist", 20.0, {"elbow": 30.0}), Drive("shoulder", 50.0), Drive("elbow", -40.0))
SIDECAR = """
side = "joint"
[columns]
time = "t"
position = "q_{joint}"
velocity = "v_{joint}"
torque = "tau_{joint}"
[units]
time = "s"
position = "rad"
velocity = "rad/s"
torque = "N m"
"""


@pytest.fixture
def path(tmp_path):
    pl.DataFrame(MOTION.table()).write_parquet(tmp_path / "run.parquet")
    return tmp_path / "run.parquet"


def without(key, entry=None):
    stated = {**STATED, key: {k: v for k, v in STATED[key].items() if k != entry}} if entry else dict(STATED)
    return stated if entry else {k: v for k, v in stated.items() if k != key}


@pytest.mark.parametrize("name", ["run.parquet.toml", "run.log.toml"])
def test_the_sidecar_gives_entries_that_the_call_does_not(path, name):
    (path.parent / name).write_text(SIDECAR)
    assert_close(read_log(path, arm()).tau, MOTION.tau, ROUND_TRIP)
    degrees = read_log(path, arm(), units={"position": "deg", "velocity": "deg/s"})
    assert_close(degrees.q, np.deg2rad(MOTION.q), ROUND_TRIP)


def test_the_time_column_of_signal_files_is_not_a_joint(tmp_path):
    names = arm().joint_names
    for file, values in (("run.csv", MOTION.q), ("torque.csv", MOTION.tau)):
        table = {"t": MOTION.t, **{name: values[:, k] for k, name in enumerate(names)}, "gripper": MOTION.t}
        pl.DataFrame(table).write_csv(tmp_path / file)
    columns = {"time": "t", "position": "{joint}", "torque": "{joint}"}
    log = read_log(
        tmp_path / "run.csv", arm(), metadata={**STATED, "columns": columns, "files": {"torque": "torque.csv"}}
    )
    assert (
        "logged joints that the robot does not have are not used: gripper. Check that the log belongs to this robot"
        in messages(log)
    )


def test_logged_joints_that_the_robot_has_not_are_named(tmp_path):
    table = MOTION.table()
    table |= {name.replace("elbow", "gripper"): column for name, column in table.items() if "elbow" in name}
    table |= {"q_lamp": table["t"], "tau_of": table["t"]}  # neither is a joint: one signal alone
    pl.DataFrame(table).write_parquet(tmp_path / "run.parquet")
    (tmp_path / "run.parquet.toml").write_text(SIDECAR)
    message = (
        "logged joints that the robot does not have are not used: gripper. Check that the log belongs to this robot"
    )
    assert messages(read_log(tmp_path / "run.parquet", arm())) == (message,)
    assert messages(scan_log(tmp_path / "run.parquet", arm())) == (message,)
    listed = {signal: [f"{mark}_{joint}" for joint in NAMES] for signal, mark in (("position", "q"), ("torque", "tau"))}
    assert read_log(tmp_path / "run.parquet", arm(), columns=listed).findings == ()


def test_two_sidecars_are_rejected(path):
    for name in ("run.parquet.toml", "run.log.toml"):
        (path.parent / name).write_text(SIDECAR)
    with raises(LogError, code=Code.AMBIGUOUS, subject="run.parquet"):
        read_log(path, arm())


@pytest.mark.parametrize(
    ("metadata", "code", "subject"),
    [
        (without("columns"), Code.MISSING_VALUE, "columns.position"),
        (without("columns", "time"), Code.MISSING_VALUE, "columns.time"),
        (without("units", "position"), Code.MISSING_VALUE, "units.position"),
        (without("units", "time"), Code.MISSING_VALUE, "units.time"),
        (without("side"), Code.MISSING_VALUE, "side.position"),
        ({**STATED, "side": {"position": "joint", "velocity": "joint"}}, Code.MISSING_VALUE, "side.torque"),
        ({**STATED, "side": "link"}, Code.INVALID_VALUE, "side"),
        ({**STATED, "side": "motor"}, Code.MISSING_VALUE, "gears"),
        ({**STATED, "units": {**UNITS, "torque": "A"}}, Code.MISSING_VALUE, "current_gains"),
        ({**STATED, "units": {**UNITS, "torque": "lbf ft"}}, Code.WRONG_UNIT, "units.torque"),
        ({**STATED, "units": {**UNITS, "position": "mm"}}, Code.WRONG_UNIT, "units.position"),
        ({**STATED, "colums": {}}, Code.UNKNOWN_NAME, "colums"),
        ({**STATED, "columns": {**COLUMNS, "position": "q_{nonsense}"}}, Code.INVALID_VALUE, "columns.position"),
    ],
)
def test_missing_or_wrong_metadata_is_named(path, metadata, code, subject):
    with raises(LogError, code=code, subject=subject):
        read_log(path, arm(), metadata=metadata)


@pytest.mark.parametrize("stated_gears", [True, False])
def test_motor_side_becomes_joint_side(tmp_path, stated_gears):
    motor = {"t": MOTION.t}
    for j, name in enumerate(NAMES):
        motor[f"q_{name}"] = (MOTION.q @ G.T)[:, j]
        motor[f"v_{name}"] = (MOTION.qd @ G.T)[:, j]
        motor[f"tau_{name}"] = np.linalg.solve(G.T, MOTION.tau.T)[j]
    pl.DataFrame(motor).write_parquet(tmp_path / "run.parquet")
    robot = arm() if stated_gears else arm(drives=DRIVES)
    gears = {"gears": G.tolist()} if stated_gears else {}
    log = read_log(tmp_path / "run.parquet", robot, metadata={**STATED, "side": "motor", **gears})
    for name in ("q", "qd", "tau"):
        assert_close(getattr(log, name), getattr(MOTION, name), SAME_ALGEBRA)


def test_currents_offsets_and_sides_by_signal(path):
    stated = {
        **STATED,
        "units": {**UNITS, "position": "deg", "torque": {"shoulder": "mA", "elbow": "A", "wrist": "N m"}},
        "side": {"position": "joint", "velocity": "joint", "torque": "motor"},
        "gears": [10.0, 0.2, 0.3],
        "current_gains": {"wrist": 9.0, "shoulder": 2.0, "elbow": 0.5},
        "position_offset": [0.0, -90.0, 90.0],
        "accept": ["velocity"],
    }
    log = read_log(path, arm(), metadata=stated)
    assert_close(log.tau, MOTION.tau * [10.0 * 2e-3, 0.2 * 0.5, 0.3], SAME_ALGEBRA)
    assert_close(log.q, np.deg2rad(MOTION.q + np.array([0.0, -90.0, 90.0])), SAME_ALGEBRA)
    assert any("accepted: logged velocity is 57." in note for note in messages(log))


def test_torque_may_be_in_another_file(tmp_path):
    for name, values in (("pos.csv", MOTION.q), ("cur.csv", MOTION.tau)):
        pl.DataFrame(values, schema=[f"Joint_{i + 1}" for i in range(3)]).write_csv(tmp_path / name)
    stated = {
        **{"columns": {"position": "Joint_{i}", "torque": "Joint_{i}"}, "units": UNITS, "side": "joint"},
        **{"files": {"torque": "cur.csv"}, "rate_hz": 500.0},
    }
    log = read_log(tmp_path / "pos.csv", arm(), metadata=stated)
    assert_close(log.tau, MOTION.tau, SAME_ALGEBRA)
    assert_close(log.time, MOTION.t, SAME_ALGEBRA)
    assert [source.path.rpartition("/")[2] for source in log.sources] == ["pos.csv", "cur.csv"]
    pl.DataFrame(MOTION.tau[:290], schema=[f"Joint_{i + 1}" for i in range(3)]).write_csv(tmp_path / "cur.csv")
    with raises(LogError, code=Code.DISAGREEMENT, subject="pos.csv"):
        read_log(tmp_path / "pos.csv", arm(), metadata=stated)


def test_joints_name_what_a_numbered_pattern_counts(tmp_path):
    order = ("wrist", "shoulder", "elbow")
    table = {"t": MOTION.t}
    for i, name in enumerate(order, 1):
        j = NAMES.index(name)
        table |= {f"q{i}": MOTION.q[:, j], f"v{i}": MOTION.qd[:, j], f"tau{i}": MOTION.tau[:, j]}
    pl.DataFrame(table).write_parquet(tmp_path / "run.parquet")
    stated = {**STATED, "columns": {"time": "t", "position": "q{i}", "velocity": "v{i}", "torque": "tau{i}"}}
    assert_close(read_log(tmp_path / "run.parquet", arm(), metadata={**stated, "joints": order}).q, MOTION.q, EXACT)
    with raises(LogError, code=Code.DISAGREEMENT, subject="joints"):
        read_log(tmp_path / "run.parquet", arm(), metadata={**stated, "joints": ("pan", "lift", "elbow")})


def test_all_faults_of_a_sidecar_are_known_at_once(path):
    (path.parent / "run.parquet.toml").write_text(
        SIDECAR.replace('side = "joint"', 'side = "link"\nskip_rows = -1\ncolums = 3')
    )
    with raises(LogError, code=Code.INVALID_VALUE, subject="side") as rejected:
        read_log(path, arm())
    message = str(rejected.value)
    assert message.startswith("the metadata of run.parquet in run.parquet.toml has 3 errors:")
    for part in (
        "'motor' or 'joint'",
        "skip_rows = -1",
        "no entry 'colums'",
        "did you mean 'columns'?",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("line", "wrong", "code", "subject"),
    [
        ('position = "rad"', "", Code.MISSING_VALUE, "units.position"),
        ('time = "t"', 'time = "clock"', Code.UNKNOWN_NAME, "clock"),
        ('torque = "tau_{joint}"', 'torque = "tau_{nonsense}"', Code.INVALID_VALUE, "columns.torque"),
    ],
)
def test_entries_that_do_not_fit_the_log_are_named(path, line, wrong, code, subject):
    (path.parent / "run.parquet.toml").write_text(SIDECAR.replace(line, wrong))
    with raises(LogError, code=code, subject=subject):
        read_log(path, arm())


@pytest.mark.parametrize(
    "wrong", [{"columns": 5}, {"units": "rad"}, {"joints": "elbow"}, {"rows": [3, 1]}, {"rows": 4}]
)
def test_keys_of_a_wrong_kind_are_named(path, wrong):
    with raises(LogError, (Code.INVALID_VALUE, Code.OUT_OF_RANGE), next(iter(wrong))):
        read_log(path, arm(), metadata={**STATED, **wrong})


def test_a_question_mark_is_not_an_answer(path):
    with raises(LogError, code=Code.MISSING_VALUE, subject="units.torque"):
        read_log(path, arm(), metadata={**STATED, "units": {**UNITS, "torque": "?"}, "gears": "?"})


def test_row_ranges(path):
    log = read_log(path, arm(), metadata={**STATED, "rows": [50, 120]})
    assert_close(log.tau, MOTION.tau[50:120], EXACT)
    assert_close(log.rows, np.arange(50, 120), EXACT)
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="rows"):
        read_log(path, arm(), metadata={**STATED, "rows": [5000, 6000]})


def test_seconds_and_nanoseconds_are_one_time(tmp_path):
    stamp = np.round(1e9 * MOTION.t).astype(np.int64) + 1_700_000_000_900_000_000
    table = {**MOTION.table(), "sec": stamp // 10**9, "nsec": stamp % 10**9}
    pl.DataFrame(table).write_parquet(tmp_path / "run.parquet")
    stated = {**STATED, "columns": {**COLUMNS, "time": ["sec", "nsec"]}}
    assert_close(read_log(tmp_path / "run.parquet", arm(), metadata=stated).time, MOTION.t, SAME_ALGEBRA)


def test_joints_may_name_columns_of_an_array_that_are_not_used(tmp_path):
    wide = {"q": np.column_stack([MOTION.t, MOTION.q]), "tau": np.column_stack([MOTION.t, MOTION.tau])}
    np.savez(tmp_path / "run.npz", t=MOTION.t, **wide)
    stated = {**STATED, "columns": {"time": "t", "position": "q", "torque": "tau"}, "joints": ["gripper", *NAMES]}
    assert_close(read_log(tmp_path / "run.npz", arm(), metadata=stated).tau, MOTION.tau, EXACT)


def test_a_truncated_last_line_is_dropped(tmp_path):
    text = pl.DataFrame(MOTION.table()).write_csv()
    (tmp_path / "old.csv").write_bytes(text.replace("\n", "\r").encode())
    with raises(LogError, code=Code.UNREADABLE, subject="line"):  # a single line
        read_log(tmp_path / "old.csv", arm(), metadata=STATED)
    (tmp_path / "cut.csv").write_text(text.rstrip().rpartition(",")[0])
    log = read_log(tmp_path / "cut.csv", arm(), metadata=STATED)
    assert "the last line of cut.csv is truncated after 9 of 10 cells; dropped" in messages(log)
    assert_close(log.tau, MOTION.tau[:-1], EXACT)
    (tmp_path / "unnamed.csv").write_text(text.partition("\n")[2])
    columns = {
        "time": "column_1",
        **{s: [f"column_{2 + 3 * j + k}" for j in range(3)] for k, s in enumerate(("position", "velocity", "torque"))},
    }
    unnamed = read_log(tmp_path / "unnamed.csv", arm(), metadata={**STATED, "columns": columns})
    assert "unnamed.csv has no line of names: its columns are called column_1 to column_10" in messages(unnamed)
