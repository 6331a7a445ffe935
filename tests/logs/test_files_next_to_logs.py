"""Files beside a log, rows that wait, sizes that add up and separators: what a reader decides before any number.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from closeness import EXACT, SAME_ALGEBRA, assert_close
from draft_parts import PLANAR, group, head
from polars.exceptions import PanicException
from raising import raises
from scipy.io import savemat

from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.safe_reading import InputBudget
from mindyn.logs.cleaning import Cleaner
from mindyn.logs.column_selection import _expand_column_names
from mindyn.logs.drafts.draft_columns import _hint_for_missing_joints, find_signal_files
from mindyn.logs.drafts.draft_names import _group_by_number
from mindyn.logs.formats import formats, mat_arrays, tables
from mindyn.logs.formats.json_table import JsonLinesTable
from mindyn.logs.formats.mat_arrays import read_mat
from mindyn.logs.formats.parquet_table import _parquet_error
from mindyn.logs.formats.text_table import TextTable, _detect_separator, _strip_comment_mark
from mindyn.logs.locations import RemoteFile, list_matching, parse_location
from mindyn.logs.log import Log, log_from_arrays
from mindyn.logs.log_errors import LogError
from mindyn.logs.metadata import LogMetadata
from mindyn.logs.time_stamps import MAX_LATE_ROWS, RESTART_GAP_S


def test_signals_stand_in_files_that_their_names_tell_and_in_nothing_else(tmp_path):
    for name in ("pos.csv", "current.csv", "velocity.txt", "notes.csv"):
        (tmp_path / name).write_text("column_1,column_2\n0.5,1.5\n")
    (tmp_path / "velocity.csv").mkdir()
    chosen, files = find_signal_files(tmp_path / "pos.csv", [group("column_")], {}, 2)
    assert files == {"torque": "current.csv"}
    assert set(chosen) == {"position", "torque"}
    assert chosen["torque"].words[-1] == "current"
    given = group("tau")
    chosen, files = find_signal_files(tmp_path / "pos.csv", [group("column_")], {"torque": given}, 2)
    assert (chosen["torque"], files) == (given, {})  # what the file has itself is not looked for elsewhere


def test_packed_arrays_count_together(tmp_path, monkeypatch):
    """A file that is made to fill the memory may do so in many small pieces."""
    asked = []

    class Counted(InputBudget):
        def take_bytes(self, count):
            super().take_bytes(count)
            if count:
                asked.append(self.unpacked // 8)

    monkeypatch.setattr(mat_arrays, "InputBudget", Counted)
    arrays = {"a": np.zeros((1000, 3)), "b": np.zeros((500, 2)), "c": np.zeros((10, 2))}
    savemat(tmp_path / "a.mat", arrays, do_compression=True)
    mat = read_mat(tmp_path / "a.mat")
    assert set(mat) == set(arrays)
    for expected, numbers in zip((3000, 4000, 4020), asked, strict=True):
        assert expected <= numbers < expected + 60  # of the arrays' heads


@pytest.mark.parametrize("order", ["C", "F"])
def test_packed_numbers_are_those_that_were_written(tmp_path, order):
    array = np.asarray(np.arange(12.0).reshape(4, 3), order=order)
    savemat(tmp_path / "a.mat", {"q": array}, do_compression=True)
    assert_close(read_mat(tmp_path / "a.mat")["q"], array, EXACT)


def test_a_damaged_file_of_a_store_is_known_from_a_store_that_is_not_reached():
    place = RemoteFile("s3://store/one.parquet")
    assert "cannot be read as Parquet" in _parquet_error(place, PanicException("out of range")).message
    assert "cannot be read: no route" in _parquet_error(place, RuntimeError("no route")).message
    assert "cannot be read as Parquet" in _parquet_error(Path("one.parquet"), RuntimeError("no index")).message


@pytest.mark.parametrize(
    ("header", "first", "separator"),
    [
        ("t;q", "0", ";"),  # a truncated row: the names show it
        ("t;q;tau", "0;1,5;2", ";"),
        ("t q", "0 1", " "),
        ("t,q", "0,1", ","),
        ("t\tq 1", "0\t1", "\t"),  # as many cells in both lines, though a space divides the names too
        ("time", "0", ","),
        ("a;b,c", "1;2,5", ";"),
    ],
)
def test_the_separator_divides_names_and_numbers_alike(header, first, separator):
    assert _detect_separator(header, first) == separator


def build_columns(time, first=0):
    q = np.column_stack([np.asarray(time), np.asarray(time)])
    return Log(("a", "b"), np.asarray(time, dtype=float), q, np.ones_like(q), np.arange(first, first + len(time)))


def test_of_rows_that_came_late_only_the_last_wait():
    time = np.arange(200) / 100
    time[[90, 91]] = time[[91, 90]]
    cleaner = Cleaner("log")
    begun = cleaner.clean(build_columns(time))
    assert_close(begun.time, np.arange(200 - MAX_LATE_ROWS) / 100, EXACT)
    assert cleaner.late == 1
    more = cleaner.clean(build_columns(np.arange(200, 260) / 100, 200))
    assert_close(more.time, np.arange(200 - MAX_LATE_ROWS, 260) / 100, EXACT)
    assert list(cleaner.rest()) == []
    few = Cleaner("log")
    assert len(few.clean(build_columns([0.0, 0.02, 0.01, *np.arange(3, 30) / 100]))) == 0
    assert_close(next(few.rest()).time, np.arange(30) / 100, EXACT)
    assert few.kept == few.row_count == 30


def test_an_empty_file_of_a_store_is_reported_as_empty(monkeypatch):
    monkeypatch.setattr(RemoteFile, "info", lambda _: SimpleNamespace(size=0))
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="one.parquet"):
        formats.open_table(RemoteFile("s3://store/one.parquet"), None, LogMetadata())


def test_times_that_go_back_are_recordings_one_after_the_other():
    cleaner = Cleaner("log", restarts=True)
    created = [cleaner.clean(build_columns(np.arange(5) / 10)), cleaner.clean(build_columns([0.5, 0.0, 0.1, 0.2], 5))]
    time = np.concatenate([item.time for item in created])
    assert_close(time, [*np.arange(6) / 10, *(0.5 + RESTART_GAP_S + np.arange(3) / 10)], SAME_ALGEBRA)
    assert cleaner.begun_anew == 1
    (more,) = [cleaner.clean(build_columns([0.3, 0.4], 9))]
    assert_close(more.time, 0.5 + RESTART_GAP_S + np.array([0.3, 0.4]), SAME_ALGEBRA)


def test_joints_of_the_metadata_are_those_of_the_robot():
    for joints in (["joint1", "elbow"], ["joint1"], ["joint1", "joint1"]):
        with raises(LogError, code=Code.DISAGREEMENT, subject="joints"):
            _expand_column_names("position", ["a", "b"], joints, PLANAR)
    assert _expand_column_names("position", "q{i}", ["joint2", "joint1"], PLANAR) == ("q2", "q1")


def test_a_log_of_two_joints_says_which_of_three_to_hold():
    counts = {"position": 2, "torque": 2}
    hint = _hint_for_missing_joints(head(), ["a", "b", "c"], counts)
    assert hint.startswith("the log has 2 joints, but the robot has 3")
    assert "--lock c=0" in hint
    assert _hint_for_missing_joints(head(), ["a", "b"], counts) == ""
    assert _hint_for_missing_joints(head(), ["a", "b", "c"], {"position": 1, "torque": 1}) == ""
    assert _hint_for_missing_joints(head(), ["a", "b", "c"], {"position": 2, "torque": 3}) == ""


@pytest.mark.parametrize("between", ["", "\n", "\n \n"])
def test_a_comment_that_names_the_columns_does_so_over_empty_lines(tmp_path, between):
    path = tmp_path / "run.txt"
    path.write_text(f"# made by hand\n# t q\n{between}0 1\n2 3\n")
    table = TextTable(path)
    assert table.names == ("t", "q")
    rows = list(table.chunks(["q"], 10))
    assert np.concatenate([row["q"] for row in rows]).tolist() == [1.0, 3.0]


def test_rows_are_copies_where_all_that_they_hold_is_the_same():
    q, tau = np.tile([1.0, 2.0], (6, 1)), np.tile([3.0, 4.0], (6, 1))
    q[3, 0] = tau[5, 1] = 9.0
    cleaner = Cleaner("log")
    cleaner.clean(Log(("a", "b"), np.array([0.0, 0.0, 0.1, 0.1, 0.2, 0.2]), q, tau, np.arange(6)))
    assert (cleaner.repeated, cleaner.copies) == (3, 1)


def test_a_line_of_json_that_does_not_end_is_rejected(tmp_path, monkeypatch):
    path = tmp_path / "run.jsonl"
    path.write_text('{"q": 1}\n{"q": 2}\n')
    for limit in ("BLOCK_BYTES", "MAX_LINE_BYTES"):
        monkeypatch.setattr(tables, limit, 9)
    assert sum(len(chunk["q"]) for chunk in JsonLinesTable(path).chunks(["q"], 9)) == 2
    path.write_text('{"q": 1}\n{"q": 2222222222222222}\n')
    with raises(LogError, code=Code.TOO_LARGE, subject="run.jsonl"):
        list(JsonLinesTable(path).chunks(["q"], 9))


@pytest.mark.parametrize("last", ["2,3", "2,3,", "2,3\n", "2,3,\n"])
def test_the_last_line_ends_as_the_others_or_not_at_all(tmp_path, last):
    path = tmp_path / "run.csv"
    path.write_text(f"t,q\n0,1,\n1,2,\n{last}")
    table = TextTable(path)
    assert np.concatenate([chunk["q"] for chunk in table.chunks(["q"], 9)]).tolist() == [1.0, 2.0, 3.0]
    assert table.notes == ()


def test_rows_with_an_empty_cell_stay_where_the_names_stand_again(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("t,q\n0,1\n,\nt,q\n2,3\n")
    table = TextTable(path)
    q = np.concatenate([chunk["q"] for chunk in table.chunks(["t", "q"], 9)])
    assert np.array_equal(q, [1.0, np.nan, 3.0], equal_nan=True)
    assert "the line of names is repeated" in table.notes[0]


@pytest.mark.parametrize("mark", ["#", "%", "//"])
def test_the_comment_mark_is_not_part_of_a_name(mark):
    assert _strip_comment_mark([f"{mark}t", "q"], ["0", "1"]) == ["t", "q"]
    assert _strip_comment_mark([mark, "t", "q"], ["0", "1"]) == ["t", "q"]
    assert _strip_comment_mark([mark, "q"], ["0", "1"]) == [mark, "q"]
    assert _strip_comment_mark(["t", "q"], ["0", "1"]) == ["t", "q"]
    assert _strip_comment_mark([], []) == []


def test_the_number_that_most_names_count_by_is_that_of_the_joint():
    (result,) = _group_by_number(["a1_b1", "a1_b2", "a1_b3", "a2_b1"])
    assert result.columns == ("a1_b1", "a1_b2", "a1_b3")


def test_a_path_is_kept_and_a_pattern_lists_existing_files(tmp_path):
    place = RemoteFile("s3://key:secret@store.example/one.parquet?token=abc")
    assert parse_location(place) is place
    (tmp_path / "one.csv").write_text("t\n")
    for pattern, count in (("one.csv", 1), ("two.csv", 0), ("*.csv", 1), ("o?e.csv", 1), ("*.txt", 0)):
        assert len(list_matching(str(tmp_path / pattern))) == count


def test_names_of_joints_are_a_list_of_them():
    for wrong in ("ab", None, 2):
        with raises(InputError, code=Code.WRONG_TYPE, subject="joint_names"):
            log_from_arrays(wrong, np.arange(3.0), np.zeros((3, 2)), np.zeros((3, 2)))
