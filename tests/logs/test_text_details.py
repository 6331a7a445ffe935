"""Text tables at their edges: blank lines, marks, last lines, cells that are missing or no numbers."""

from __future__ import annotations

import numpy as np
import pytest
from draft_parts import clock_of
from raising import raises

from mindyn.foundation.errors import Code
from mindyn.logs.drafts.draft_head import (
    Clock,
    fitting_velocity_units,
    guess_position_side,
    guess_position_unit,
)
from mindyn.logs.drafts.draft_names import guess_signal, guess_unit, is_measured, split_words
from mindyn.logs.formats import tables, text_table
from mindyn.logs.formats.array_table import ArrayTable
from mindyn.logs.formats.npz_arrays import NpzArrays
from mindyn.logs.formats.tables import require_numbers
from mindyn.logs.formats.text_table import TextTable
from mindyn.logs.locations import RemoteFile, list_matching, parse_location
from mindyn.logs.log_errors import LogError
from mindyn.robots.loading import load_robot


def table_of(tmp_path, text, **given):
    path = tmp_path / "run.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return TextTable(path, **given)


def read(table, rows=100):
    result = list(table.chunks(table.names, rows))
    return {name: np.concatenate([chunk[name] for chunk in result]).tolist() for name in table.names if name}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_end_as_any_machine_ends_them(tmp_path, end):
    table = table_of(tmp_path, end.join(["t,q", "", "0,1.5", "1,-2", ""]))
    assert read(table) == {"t": [0.0, 1.0], "q": [1.5, -2.0]}
    assert table.notes == ()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("# t q\n0 1\n", ("t", "q")),
        ("#t,q\n0,1\n", ("t", "q")),
        ("#,q\n0,1\n", ("#", "q")),
        ("\ufefft;q\n0;1\n", ("t", "q")),
        ("t\tq\n0\t1\n", ("t", "q")),
        ("0,1\n2,3\n", ("column_1", "column_2")),
    ],
)
def test_names_of_columns(tmp_path, text, names):
    table = table_of(tmp_path, text)
    assert table.names == names
    assert len(table.notes) == (names[0] == "column_1")
    assert read(table)[names[1]] == ([1.0] if names[0] != "column_1" else [1.0, 3.0])


def test_lines_of_units_are_skipped(tmp_path):
    text = "t,q\ns,rad\n0,1\n1,2\n"
    assert read(table_of(tmp_path, text, skip_rows=1)) == {"t": [0.0, 1.0], "q": [1.0, 2.0]}
    known = table_of(tmp_path, text)
    assert known.units == {"t": "s", "q": "rad"}
    assert known.notes == ("the line after the names of run.csv has no number: it is read as a line of units",)
    assert read(known) == {"t": [0.0, 1.0], "q": [1.0, 2.0]}
    with raises(LogError, code=Code.WRONG_TYPE, subject="t") as rejected:
        read(table_of(tmp_path, "t,q\ns,rad\n-,-\n0,1\n"))
    assert "skip_rows = 1" in str(rejected.value.hint)
    with raises(LogError, code=Code.WRONG_TYPE, subject="t"):
        read(table_of(tmp_path, "t,q,mode\ns,rad,-\n0,1,idle\n0.1,2,idle\n"))  # words as a column of its own holds them
    with raises(LogError, code=Code.WRONG_TYPE, subject="t") as rejected:
        read(table_of(tmp_path, "t,q\n0,1\ns,rad\n"))
    assert not rejected.value.hint


def test_rows_come_in_pieces_and_are_counted_from_the_first(tmp_path, monkeypatch):
    rows = "".join(f"{k},{k * k}\n" for k in range(25))
    table = table_of(tmp_path, "t,q\n" + rows)
    assert [len(chunk["t"]) for chunk in table.chunks(["t"], 10)] == [10, 10, 5]
    monkeypatch.setattr(tables, "BLOCK_BYTES", 16)
    assert read(table)["q"] == [k * k for k in range(25)]
    wrong = table_of(tmp_path, "t,q\n" + rows.replace("20,400", "20,x"))
    with raises(LogError, code=Code.WRONG_TYPE, subject="q"):
        read(wrong)
    assert table.texts(3)["q"].to_list() == ["0", "1", "4"]
    assert table_of(tmp_path, "t,q\n").texts(3).shape == (0, 2)


@pytest.mark.parametrize("word", ["", "nan", "NaN", "NA", "null", "-nan(ind)"])
def test_missing_cells_are_not_numbers(tmp_path, word):
    result = read(table_of(tmp_path, f"t,q\n0,1\n1,{word}\n2, 5\n"))
    assert result["t"] == [0.0, 1.0, 2.0]
    assert np.isnan(result["q"][1])
    assert (result["q"][0], result["q"][2]) == (1.0, 5.0)


def test_a_last_line_with_missing_cells_is_dropped_with_a_note(tmp_path):
    table = table_of(tmp_path, "t,a,b\n0,1,2\n1,2")
    for _ in range(2):
        assert read(table)["t"] == [0.0]
        assert table.notes == ("the last line of run.csv is truncated after 2 of 3 cells; dropped",)
    assert read(table_of(tmp_path, "t,a,b\n0,1,2\n1,2,3"))["b"] == [2.0, 3.0]


def test_a_separator_that_ends_the_rows_divides_off_nothing(tmp_path):
    table = table_of(tmp_path, "t,q\n0,1,\n1,2,\n2,3")
    assert table.open_ended
    assert read(table) == {"t": [0.0, 1.0, 2.0], "q": [1.0, 2.0, 3.0]}
    with raises(LogError, code=Code.WRONG_SHAPE, subject="run.csv"):
        read(table_of(tmp_path, "t,q\n0,1,\n1,2,9\n"))


def test_rows_of_another_length_are_named(tmp_path):
    with raises(LogError, code=Code.WRONG_SHAPE, subject="run.csv"):
        read(table_of(tmp_path, "t,q\n0,1\n1,2\n2,3,4,5\n"))


def test_lines_longer_than_any_table_s_are_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(text_table, "MAX_LINE_BYTES", 40)
    assert read(table_of(tmp_path, "t,q\n0,1\n"))["q"] == [1.0]
    with raises(LogError, code=Code.TOO_LARGE, subject="run.csv"):
        table_of(tmp_path, "t,q" + 50 * "x" + "\n0,1\n")
    with raises(LogError, code=Code.MISSING_VALUE, subject="run.csv"):
        table_of(tmp_path, "\n  \n")
    with raises(LogError, code=Code.WRONG_FORMAT, subject="run.csv"):
        table_of(tmp_path, b"t\xff,q\n0,1\n")


def test_decimal_commas_are_known_from_thousands(tmp_path):
    assert read(table_of(tmp_path, "t;q\n0;1,5\n1;-2,25\n"))["q"] == [1.5, -2.25]
    assert table_of(tmp_path, "t;q\n0.5;1,234\n").decimal == "."
    with raises(LogError, code=Code.WRONG_TYPE, subject="q") as rejected:
        read(table_of(tmp_path, "t;q\n0.5;1,234\n"))
    assert 'decimal = ","' in str(rejected.value.hint)


@pytest.mark.parametrize(
    ("name", "words"),
    [("act_pos_motDeg1", "act pos mot deg"), ("tau_J[3]", "tau j"), ("qVel2", "q vel"), ("TCPForce", "tcp force")],
)
def test_words_of_names(name, words):
    assert split_words(name) == tuple(words.split())


@pytest.mark.parametrize(
    ("words", "signal"),
    [
        ("q", ("position", 0)),
        ("current position", ("position", 2)),
        ("motor current", ("torque", 9)),
        ("v", ("velocity", 8)),
        ("v arm", None),
        ("i", ("torque", 14)),
        ("q arm", ("position", 0)),
        ("observation state", ("position", 99)),
        ("temperature", None),
    ],
)
def test_signals_that_words_mean(words, signal):
    assert guess_signal(words.split()) == signal


def test_references_and_other_things_are_not_measured():
    assert is_measured(["q"])
    assert is_measured(["d"])  # alone it says nothing of desired
    for words in (["q", "d"], ["q", "target"], ["tcp", "pos"], ["tau", "c"]):
        assert not is_measured(words)
    assert guess_unit("position", ["q", "deg"], ["deg"]) == "deg"
    assert guess_unit("position", ["m", "q"], ["q"]) is None  # one letter is a unit at the end alone
    assert guess_unit("position", ["q", "m"], ["m"]) == "m"


def test_the_unit_of_time_is_that_of_the_name_unless_the_rate_speaks_against_it():
    t = np.arange(50.0)
    assert clock_of({"time_ms": 5 * t}).unit == "ms"
    against = clock_of({"time_s": 5 * t})  # 0.2 Hz as named
    assert (against.unit, against.seconds[1]) == ("ms", 0.005)
    assert "the unit that gives a usual rate" in against.evidence
    assert "from the name" in clock_of({"time_s": 0.005 * t}).evidence
    assert clock_of({"time": 0.005 * t}).unit == "s"
    unknown = clock_of({"time": 3e11 * t})
    assert (unknown.unit, unknown.columns) == (None, ("time",))
    assert clock_of({"time_s": 3e11 * t}).unit == "s"  # said, and nothing fits
    assert clock_of({"q": t}) == clock_of({}) or clock_of({"q": t}).columns == ()
    assert Clock(seconds=np.arange(5.0)).restarts == 0
    late = 0.005 * t
    assert "200 Hz; " in clock_of({"time": late}).evidence
    late[10] += 0.001
    assert "200 Hz, 4 % of the steps differ from it; " in clock_of({"time": late}).evidence


@pytest.mark.parametrize(("slope", "units"), [(1.0, ["rad/s"]), (57.3, ["deg/s"]), (1.39, ["rad/s"]), (1.41, [])])
def test_units_of_velocities(slope, units):
    assert fitting_velocity_units("rad", slope, "revolute") == units
    assert fitting_velocity_units("m", 1000.0, "prismatic") == ["mm/s"]


def test_units_of_positions_by_their_size():
    slides = ["prismatic"]
    assert guess_position_unit(np.array([[19.0]]), None, slides).value == "m"
    assert guess_position_unit(np.array([[-21.0]]), None, slides).value == "mm"
    turns = ["revolute"]
    assert guess_position_unit(np.array([[0.19]]), None, turns).value is None
    assert guess_position_unit(np.array([[0.21]]), None, turns).value == "rad"
    assert guess_position_unit(np.array([[4.1 * np.pi]]), None, turns).value == "rad"
    far = guess_position_unit(np.array([[90.0]]), None, turns)
    assert far.value is None
    assert "deg at the joints" in far.evidence
    robot = load_robot("planar2")
    assert guess_position_side(np.ones((4, 2)), "deg", robot).value == "joint"
    assert guess_position_side(np.ones((4, 2)), "deg", None).value is None
    beyond = [guess_position_side(np.full((4, 2), scale * 4 * np.pi), "rad", robot) for scale in (1.4, 2.0, 6.0)]
    assert [item.value for item in beyond] == ["joint", None, None]
    assert "another zero" in beyond[1].evidence
    assert "probably at the motors" in beyond[2].evidence


def test_arrays_along_either_axis_and_their_heads():
    table = ArrayTable("run.npz", {"q": np.arange(12).reshape(2, 6), "t": np.arange(6), "s": np.array(["a"])}, 2)
    assert [len(chunk["t"]) for chunk in table.chunks(["t", "q"], 4)] == [4, 2]
    head = table.head(3)
    assert list(head) == ["q", "t"]
    assert head["q"].tolist() == [[0, 6], [1, 7], [2, 8]]
    with raises(LogError, code=Code.AMBIGUOUS, subject="q") as rejected:
        list(ArrayTable("run.npz", {"q": np.zeros((2, 2))}, 2).chunks(["q"], 4))
    assert rejected.value.hint == "there are as many rows as joints, so the time axis is ambiguous: log more rows"
    with raises(LogError, code=Code.WRONG_TYPE, subject="s"):
        require_numbers(np.array(["a"]), "s", "run")


def test_npz_files_hold_vectors_and_matrices(tmp_path):
    path = tmp_path / "run.npz"
    np.savez(
        path, t=np.arange(4.0), q=np.asfortranarray(np.arange(8.0).reshape(4, 2)), one=1.0, cube=np.zeros((2, 2, 2))
    )
    arrays = NpzArrays(path)
    assert sorted(arrays) == ["q", "t"]
    assert len(arrays) == 2
    assert arrays["q"].tolist() == np.arange(8.0).reshape(4, 2).tolist()
    np.savez(path, t=np.array([{}], dtype=object))
    with raises(LogError, code=Code.UNSAFE_INPUT, subject="t"):
        NpzArrays(path)["t"]


def test_places_have_names_and_neighbours(tmp_path):
    place = RemoteFile("s3://user:secret@bucket/runs/one.parquet?key=1")
    assert (place.name, place.stem, place.suffix) == ("one.parquet", "one", ".parquet")
    assert place.with_name("two.toml").url == "s3://user:secret@bucket/runs/two.toml?key=1"
    assert (place.parent / "three").name == "three"
    assert "secret" not in str(place)
    assert "key" not in str(place)
    assert parse_location(".").name  # a folder by its own name
    assert parse_location("a/b.csv").as_posix() == "a/b.csv"
    assert parse_location("file:///a/b%20c.csv").as_posix() == "/a/b c.csv"
    for name in ("b.csv", "a.csv", "c.txt"):
        (tmp_path / name).write_text("12345")
    matching = list_matching(f"{tmp_path}/*.csv")
    assert [(item.place.name, item.size) for item in matching] == [("a.csv", 5), ("b.csv", 5)]
    assert [item.place.name for item in list_matching(f"{tmp_path}/c.txt")] == ["c.txt"]
    assert list_matching(f"{tmp_path}/d.txt") == []


def test_objects_of_a_store_are_listed_by_their_own_urls():
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    store.pipe("/runs/one.csv", b"12")
    store.pipe("/runs/two.csv", b"123")
    matching = list_matching("memory://runs/*.csv")
    assert [item.place.read_text() for item in matching] == ["12", "123"]
    assert [item.size for item in matching] == [2, 3]
    assert parse_location("memory://runs/one.csv").exists()
    assert not parse_location("memory://runs/none.csv").exists()
    assert list_matching("memory://runs/none.csv") == []
    assert list_matching("memory://runs") == []  # a folder is not a log
    store.pipe("/user:word@runs/one.csv", b"1")
    (listed,) = list_matching("memory://user:word@runs/one.csv")
    assert listed.place == parse_location("memory://user:word@runs/one.csv")
    with parse_location("memory://runs/one.csv").open() as stream:
        assert stream.read() == b"12"
