"""Logs as other programs write them: two lines of names, rows that come late, clocks that begin anew, lines of JSON."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from closeness import EXACT, PUBLISHED_FILE, SAME_ALGEBRA, assert_close
from logs.recordings import NAMES, STATED, arm, sines
from messages import messages
from raising import raises

from mindyn.foundation.errors import Code
from mindyn.identification.log_drafts import draft_log
from mindyn.logs.cleaning import DAY_S
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.formats.text_table import TextTable
from mindyn.logs.log import log_from_arrays
from mindyn.logs.log_errors import LogError
from mindyn.logs.pipeline import condition
from mindyn.logs.read_log import read_log, scan_log
from mindyn.logs.time_stamps import MAX_LATE_ROWS, RESTART_GAP_S, sort_late_rows
from mindyn.robots.parts import Drive, Joint, Link

ROBOT = arm()
MOTION = sines(1200)
TABLE = pl.DataFrame(MOTION.table())


def write_csv(folder, frame, name="run.csv"):
    frame.write_csv(folder / name)
    return folder / name


def swap_rows(rows, apart=3, every=100):
    order = np.arange(rows)
    for k in range(10, rows - apart, every):
        order[[k, k + apart]] = order[[k + apart, k]]
    return order


@pytest.mark.parametrize("chunk_rows", [64, 1200])
def test_rows_that_come_late_are_put_in_order(tmp_path, chunk_rows):
    path = write_csv(tmp_path, TABLE[swap_rows(1200)])
    scan = scan_log(path, ROBOT, metadata=STATED, chunk_rows=chunk_rows)
    chunks = list(scan)
    q = np.concatenate([chunk.q for chunk in chunks])
    assert_close(q, MOTION.q, SAME_ALGEBRA)
    assert np.concatenate([chunk.rows for chunk in chunks])[10:14].tolist() == [13, 11, 12, 10]
    assert any("rows of run.csv were delayed: sorted by their stamps" in note for note in messages(scan))
    whole = log_from_arrays(NAMES, MOTION.t[swap_rows(1200)], MOTION.q[swap_rows(1200)], MOTION.tau[swap_rows(1200)])
    assert_close(whole.tau, MOTION.tau, EXACT)


def test_a_clock_that_is_set_back_is_not_sorted():
    t = np.arange(400) / 100
    assert sort_late_rows(t[swap_rows(400)]).tolist() == swap_rows(400).tolist()
    for back in (0.05, 0.053):  # rows of other instants get the same stamps, or stamps between those
        assert sort_late_rows(np.where(t < 2, t, t - back)) is None
    run = np.r_[t[:100], t[101 : 102 + MAX_LATE_ROWS], t[100], t[102 + MAX_LATE_ROWS :]]
    assert sort_late_rows(run) is not None
    long = np.r_[t[: 2 * MAX_LATE_ROWS], t[3 * MAX_LATE_ROWS + 1 :], t[2 * MAX_LATE_ROWS : 3 * MAX_LATE_ROWS + 1]]
    assert sort_late_rows(long) is None
    with raises(LogError, code=Code.INVALID_VALUE, subject="time"):
        log_from_arrays(NAMES, np.where(MOTION.t < 1, MOTION.t, MOTION.t - 0.9), MOTION.q, MOTION.tau)


def test_recordings_in_one_file_are_segments_of_their_own(tmp_path):
    again = np.where(MOTION.t < 1, MOTION.t, MOTION.t - 1)
    path = write_csv(tmp_path, TABLE.with_columns(t=pl.Series(again)))
    with raises(LogError, code=Code.INVALID_VALUE, subject="time"):
        read_log(path, ROBOT, metadata=STATED)
    log = read_log(path, ROBOT, metadata={**STATED, "accept": ["restarts"]})
    assert_close(log.q, MOTION.q, SAME_ALGEBRA)
    assert_close(log.time[500:] - RESTART_GAP_S, MOTION.t[500:] - MOTION.t[1], SAME_ALGEBRA)
    assert "the clock of run.csv restarts: 2 recordings in one file" in messages(log)
    segments = condition(ROBOT, log, Conditioning()).samples.segments
    assert len(np.unique(segments)) == 2


def test_comments_empty_lines_and_units_come_before_the_numbers(tmp_path):
    text = TABLE.write_csv().splitlines()
    units = ",".join(["s", *["rad", "rad/s", "Nm"] * 3])
    (tmp_path / "run.csv").write_text("\n".join(["", "# arm 12", "", text[0], units, *text[1:]]))
    log = read_log(tmp_path / "run.csv", ROBOT, metadata=STATED)
    assert_close(log.tau, MOTION.tau, SAME_ALGEBRA)
    draft = draft_log(tmp_path / "run.csv", ROBOT)
    assert (draft.value("units.time"), draft.value("units.position"), draft.value("units.torque")) == (
        "s",
        "rad",
        "N m",
    )
    other = units.replace("rad", "deg").replace("Nm", "mNm")
    (tmp_path / "run.csv").write_text("\n".join([text[0], other, *text[1:]]))
    draft = draft_log(tmp_path / "run.csv", ROBOT)
    assert (draft.value("units.position"), draft.value("units.torque")) == ("deg", "mN m")


def test_names_in_two_lines_are_joined(tmp_path):
    (tmp_path / "run.csv").write_text("t,pos,,tau,\n,a,b,a,b\n0,1,2,3,4\n1,2,3,4,5\n")
    table = TextTable(tmp_path / "run.csv")
    assert table.names == ("t", "pos a", "pos b", "tau a", "tau b")
    assert table.units == {}
    (chunk,) = table.chunks(table.names, 10)
    assert chunk["tau b"].tolist() == [4.0, 5.0]
    (tmp_path / "words.csv").write_text("t,pos\na,b\n0,x\n1,2\n")
    assert TextTable(tmp_path / "words.csv").names == ("t", "pos"), "a line of words above other words is not a header"


def format_stamps(form):
    day = datetime(2024, 5, 6, 10, 0, 0)
    return [(day + timedelta(seconds=float(t))).strftime(form) for t in MOTION.t]


@pytest.mark.parametrize(
    ("form", "how"),
    [
        ("%H:%M:%S.%f", {}),
        ("%m/%d/%Y %H:%M:%S.%f", {}),
        ("%d.%m.%Y %H:%M:%S,%f", {"separator": ";", "decimal_comma": True}),
        ("%Y-%m-%d %H:%M:%S.%f+02:00", {}),
    ],
)
def test_times_of_the_day_and_dates_are_stamps(tmp_path, form, how):
    TABLE.with_columns(t=pl.Series(format_stamps(form))).write_csv(tmp_path / "run.csv", **how)
    log = read_log(tmp_path / "run.csv", ROBOT, metadata={**STATED, "units": {**STATED["units"], "time": "ns"}})
    assert_close(log.time, MOTION.t, 1e-6)
    assert_close(log.tau, MOTION.tau, SAME_ALGEBRA)


def test_text_of_spreadsheets_and_old_programs_is_read(tmp_path):
    text = TABLE.write_csv(separator=";", decimal_comma=True)
    (tmp_path / "run.csv").write_bytes(b"sep=;\r\n" + text.replace("\n", "\r\n").encode())
    assert_close(read_log(tmp_path / "run.csv", ROBOT, metadata=STATED).q, MOTION.q, SAME_ALGEBRA)
    degrees = TABLE.rename({name: f"{name} [°]" for name in TABLE.columns if name.startswith("q_")})
    (tmp_path / "run.csv").write_bytes(degrees.with_columns(mode=pl.lit("läuft")).write_csv().encode("cp1252"))
    stated = {**STATED, "columns": {**STATED["columns"], "position": "q_{joint} [°]"}}
    assert_close(read_log(tmp_path / "run.csv", ROBOT, metadata=stated).q, MOTION.q, SAME_ALGEBRA)


def test_concatenated_files_are_two_recordings(tmp_path):
    text = TABLE.write_csv()
    (tmp_path / "run.csv").write_text(text + text)
    draft = draft_log(tmp_path / "run.csv", ROBOT)
    assert draft.value("accept") == ["restarts"]
    log = read_log(tmp_path / "run.csv", ROBOT, metadata={**STATED, "accept": ["restarts"]})
    assert_close(log.q, np.vstack([MOTION.q, MOTION.q]), SAME_ALGEBRA)
    assert messages(log)[0] == "the line of names is repeated in run.csv: dropped"


def test_stamps_that_do_not_grow_are_named_in_a_draft(tmp_path):
    draft = draft_log(write_csv(tmp_path, TABLE.with_columns(t=pl.lit(1.0))), ROBOT)
    (rate,) = (line for line in draft.lines if line.key == "rate_hz")
    assert rate.evidence.startswith("t does not increase from row to row")


def test_positions_are_not_taken_from_another_file(tmp_path):
    write_csv(tmp_path, TABLE, "pos.csv")
    odd = TABLE.rename({name: name.replace("q_", "unknown_") for name in TABLE.columns})
    draft = draft_log(write_csv(tmp_path, odd), ROBOT)  # recognised by their numbers, in this file
    assert draft.value("columns.position") == "unknown_{joint}"
    assert draft.value("files.position") is None


def test_joints_that_the_log_does_not_have_are_named(tmp_path):
    fingered = ROBOT.__class__(
        "arm",
        Link("base"),
        (*ROBOT.joints, Joint("finger", "prismatic", "hand", "tip")),
        (*ROBOT.links, Link("tip")),
    )
    with raises(LogError, code=Code.MISSING_VALUE, subject="columns.position"):
        draft_log(write_csv(tmp_path, TABLE), fingered)
    counted = {"t": "t"}
    counted |= {
        f"{a}_{name}": f"{b}{k}"
        for a, b in (("q", "q"), ("v", "qd"), ("tau", "tau"))
        for k, name in enumerate(NAMES, 1)
    }
    with raises(LogError, code=Code.MISSING_VALUE, subject="columns.position"):
        draft_log(write_csv(tmp_path, TABLE.rename(counted)), fingered)


@pytest.mark.parametrize(("ratio", "asked"), [(1.0, True), (50.0, False)])
def test_gears_of_motors_are_requested_if_the_file_has_none(tmp_path, ratio, asked):
    """A URDF with transmissions of 1 at every joint knows no gears."""
    names = {name: name.replace("_", "_motor_") for name in TABLE.columns if name != "t"}
    drives = tuple(Drive(name, ratio) for name in NAMES)
    draft = draft_log(write_csv(tmp_path, TABLE.rename(names)), arm(drives=drives))
    assert ("gears" in draft.questions) is asked


def test_torques_without_values_are_missing_in_a_draft(tmp_path):
    path = write_csv(tmp_path, TABLE.with_columns(tau_elbow=pl.lit(None, dtype=pl.Float64)))
    with raises(LogError, code=Code.MISSING_VALUE, subject="columns.torque"):
        draft_log(path, ROBOT)


def json_lines(folder, rows):
    (folder / "run.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "run.jsonl"


def states(names=("wrist", "elbow", "shoulder", "gripper")):
    q, tau = (np.column_stack([values[:, ::-1], 0 * MOTION.t]) for values in (MOTION.q, MOTION.tau))
    for t, position, effort in zip(MOTION.t, q, tau, strict=True):
        stamp = {"sec": 1_700_000_000 + int(t), "nanosec": round(1e9 * (t % 1))}
        yield {"header": {"stamp": stamp}, "name": names, "position": list(position), "effort": list(effort)}


def test_lines_of_json_are_read_with_the_order_of_joints_that_they_state(tmp_path):
    path = json_lines(tmp_path, states())
    draft = draft_log(path, ROBOT)
    assert draft.value("joints") == [*reversed(NAMES), "gripper"]
    assert not any("assumed" in line.evidence for line in draft.lines if line.key.startswith("columns."))
    assert draft.value("columns.time") == ["header.stamp.sec", "header.stamp.nanosec"]
    stated = {**draft.to_metadata(), "units": {"position": "rad", "torque": "N m"}, "side": "joint"}
    log = read_log(path, ROBOT, metadata=stated)
    assert_close(log.tau, MOTION.tau, EXACT)
    assert_close(np.diff(log.time), np.diff(MOTION.t), 1e-6)
    (tmp_path / "run.jsonl").write_text(path.read_text() + json.dumps(next(states(names=("x", *NAMES)))) + "\n")
    with raises(LogError, code=Code.DISAGREEMENT, subject="name"):
        read_log(path, ROBOT, metadata=stated)
    with raises(LogError, code=Code.DISAGREEMENT, subject="name"):
        draft_log(path, ROBOT)


def test_lines_of_json_whose_joint_order_changes_are_read_by_name(tmp_path):
    lists = ("name", "position", "effort")
    turned = ({**s, **{key: s[key][k % 3 :] + s[key][: k % 3] for key in lists}} for k, s in enumerate(states()))
    path = json_lines(tmp_path, turned)
    stated = {**draft_log(path, ROBOT).to_metadata(), "units": {"position": "rad", "torque": "N m"}, "side": "joint"}
    log = read_log(path, ROBOT, metadata=stated)
    assert_close(log.tau, MOTION.tau, EXACT)
    assert_close(log.q, MOTION.q, EXACT)
    assert any("by name" in note.message for note in log.findings)


def test_objects_and_missing_lists_of_parquet_are_read(tmp_path):
    rows = [{"position": list(q), "effort": list(tau)} for q, tau in zip(MOTION.q, MOTION.tau, strict=True)]
    extra = [None if k % 300 == 7 else list(v) for k, v in enumerate(MOTION.qd)]
    pl.DataFrame({"t": MOTION.t, "arm": rows, "v": extra}).write_parquet(tmp_path / "run.parquet")
    columns = {"time": "t", "position": "arm.position", "velocity": "v", "torque": "arm.effort"}
    log = read_log(tmp_path / "run.parquet", ROBOT, metadata={**STATED, "columns": columns, "joints": NAMES})
    left = np.arange(1200) % 300 != 7
    assert_close(log.tau, MOTION.tau[left], EXACT)
    assert_close(log.qd, MOTION.qd[left], EXACT)


def test_lines_of_json_that_cannot_be_read_are_rejected(tmp_path):
    rows = TABLE.head(20).to_dicts()
    path = json_lines(tmp_path, rows)
    assert_close(read_log(path, ROBOT, metadata=STATED).q, MOTION.q[:20], EXACT)
    path.write_text(path.read_text()[:-20])
    with raises(LogError, code=Code.UNREADABLE, subject="run.jsonl"):
        read_log(path, ROBOT, metadata=STATED)
    json_lines(tmp_path, [{"t": 0.0, "q": [1, 2], "u": [1, 2]}, {"t": 0.1, "q": [1], "u": [1, 2]}])
    with raises(LogError, code=Code.WRONG_SHAPE, subject="q"):
        read_log(
            path, ROBOT, metadata={**STATED, "columns": {"time": "t", "position": "q", "torque": "u"}, "joints": NAMES}
        )
    for text, code in (
        ("[1, 2]\n", Code.UNREADABLE),
        ("no json\n", Code.UNREADABLE),
        ("\n\n", Code.TOO_LITTLE_DATA),
    ):
        path.write_text(text)
        with raises(LogError, code=code, subject="run.jsonl"):
            read_log(path, ROBOT, metadata=STATED)
    path.write_text("[" * 200_000 + "\n")
    with raises(LogError, code=Code.UNSAFE_INPUT, subject="run.jsonl"):
        read_log(path, ROBOT, metadata=STATED)


@pytest.mark.parametrize("chunk_rows", [64, 1200])
@pytest.mark.parametrize("before", [600, 1180])
def test_times_of_the_day_continue_after_midnight(tmp_path, before, chunk_rows):
    """Rows behind midnight are neither another recording nor delayed rows, however few they are."""
    stamps = (MOTION.t - MOTION.t[before]) % DAY_S
    scan = scan_log(
        write_csv(tmp_path, TABLE.with_columns(t=pl.Series(stamps))), ROBOT, metadata=STATED, chunk_rows=chunk_rows
    )
    chunks = list(scan)
    assert_close(np.concatenate([chunk.q for chunk in chunks]), MOTION.q, SAME_ALGEBRA)
    time = np.concatenate([chunk.time for chunk in chunks])
    assert_close(time - time[0], MOTION.t - MOTION.t[0], PUBLISHED_FILE)
    assert "the stamps of run.csv pass midnight: a day is added to the stamps after it" in messages(scan)
