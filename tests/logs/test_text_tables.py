"""Text tables as programs write them: separators, decimals, line ends, names, units, missing cells.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import numpy as np
import pytest
from raising import raises

from mindyn.foundation.errors import Code
from mindyn.logs.formats import tables, text_table
from mindyn.logs.formats.text_table import TextTable, _detect_decimal, _detect_separator, _strip_comment_mark
from mindyn.logs.log_errors import LogError


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
    assert len(known.notes) == 1
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


def test_a_decimal_comma_is_recognised_if_a_point_does_not_parse():
    assert _detect_decimal(["1,5", "2"], ";") == ","
    assert _detect_decimal(["1,5", "2"], ",") == "."
    assert _detect_decimal(["1,5", "2.5"], ";") == "."
    assert _detect_decimal(["1", "2"], ";") == "."
    assert _detect_decimal(["1,5", "x"], ";") == "."
    assert _detect_separator("a;b", "1,5;2,5") == ";"
    assert _detect_separator("a,b", "1.5,2.5") == ","
    assert _detect_separator("a b", "1 2") == " "
    assert _detect_separator("name", "1") == ","
    assert _detect_separator("t [s, of the day];q", "0;1") == ";", "names may hold another separator"
    assert _strip_comment_mark(["#", "a", "b"], ["1", "2"]) == ["a", "b"]
    assert _strip_comment_mark(["#a", "b"], ["1", "2"]) == ["a", "b"]
    assert _strip_comment_mark(["#", "b"], ["1", "2"]) == ["#", "b"]
    assert _strip_comment_mark(["a", "b"], ["1", "2"]) == ["a", "b"]


def test_columns_of_one_name_are_rejected(tmp_path):
    (tmp_path / "run.csv").write_text("t,q1,q1\n0,1,2\n1,2,3\n")
    with raises(LogError, code=Code.DUPLICATE, subject="q1"):
        TextTable(tmp_path / "run.csv")
