"""Samples, columns and decimal marks at their edges; the band that a noise floor is taken from.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import EXACT, assert_close
from raising import raises

from mindyn.foundation.errors import Code, InputError
from mindyn.logs.column_selection import ColumnSelection, take_column
from mindyn.logs.formats.text_table import _detect_decimal, _detect_separator, _strip_comment_mark
from mindyn.logs.log_errors import LogError
from mindyn.logs.noise_cutoff import _joint_cutoff
from mindyn.logs.samples import Samples

ZEROS = np.zeros((4, 2))


def samples(**changes):
    given = {"q": ZEROS, "qd": ZEROS, "qdd": ZEROS, "tau": ZEROS, "rate_hz": 10.0, "segments": np.zeros(4, dtype=int)}
    return Samples(("a", "b"), **{**given, **changes})


@pytest.mark.parametrize(
    ("changes", "code", "numbers"),
    [
        ({"q": np.zeros((4, 3))}, Code.WRONG_SHAPE, "(4, 3), but (4, 2)"),
        ({"qd": ZEROS[:3]}, Code.WRONG_SHAPE, "(3, 2)"),
        ({"qdd": ZEROS[:, :1]}, Code.WRONG_SHAPE, "(4, 1)"),
        ({"tau": ZEROS[:3]}, Code.WRONG_SHAPE, "(3, 2)"),
        ({"segments": np.zeros(3, dtype=int)}, Code.WRONG_SHAPE, "(3,), but (4,)"),
        ({"usable": np.ones((4, 1), dtype=bool)}, Code.WRONG_SHAPE, "(4, 1)"),
        ({"dependent_q": np.zeros((3, 1))}, Code.WRONG_SHAPE, "(3, 1), but (4, 1)"),
        ({"closure": np.zeros((5, 2))}, Code.WRONG_SHAPE, "(5, 2), but (4, 2)"),
        ({"qd": np.where(np.arange(8).reshape(4, 2) == 5, np.nan, 0.0)}, Code.NOT_FINITE, "'b' is nan at sample 2"),
    ],
)
def test_samples_whose_arrays_do_not_fit_are_rejected(changes, code, numbers):
    with raises(InputError, code=code, subject=next(iter(changes))) as raised:
        samples(**changes)
    assert numbers in raised.value.message
    whole = samples(usable=np.ones((4, 2), dtype=bool), dependent_q=np.arange(4.0)[:, None])
    assert repr(whole) == "Samples(4 of 2 joints at 10 Hz)"
    part = whole.take(slice(1, 3))
    assert (len(part), part.dependent_q[:, 0].tolist(), part.closure) == (2, [1.0, 2.0], None)


def test_columns_are_one_number_a_row():
    assert take_column({"x": np.arange(3.0)[:, None]}, "x").tolist() == [0.0, 1.0, 2.0]
    assert take_column({"x": np.arange(3)}, "x").dtype.kind == "i"
    with raises(LogError, code=Code.WRONG_SHAPE, subject="x"):
        take_column({"x": np.ones((3, 2))}, "x")
    array = np.arange(6.0).reshape(2, 3)
    assert_close(ColumnSelection(("x",), (2, 0), 3).take({"x": array}), array[:, [2, 0]], EXACT)
    assert ColumnSelection(("x",), (0,), 1).take({"x": np.arange(2.0)}).shape == (2, 1)
    with raises(LogError, code=Code.WRONG_SHAPE, subject="x"):
        ColumnSelection(("x",), (2, 0), 4).take({"x": array})
    with raises(LogError, code=Code.WRONG_SHAPE, subject="x"):
        ColumnSelection(("x",), (0,), 1).take({"x": array})
    pairs = {"a": np.arange(2), "b": np.arange(2.0)[:, None]}
    assert ColumnSelection(("b", "a")).take(pairs).tolist() == [[0.0, 0.0], [1.0, 1.0]]


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


def test_bins_beyond_nine_tenths_of_the_band_are_no_floor(monkeypatch):
    frequency = np.arange(0, 51.0)
    density = np.full(51, 100.0)
    density[25:36] = 1.0  # eleven of the twenty-one of the band, not of the twenty-six up to its end
    density[12] = 4.0
    monkeypatch.setattr("mindyn.logs.noise_cutoff._power_density", lambda *_: (frequency, density))
    assert _joint_cutoff([], 100.0) == 12.0
    density[12] = 4.1
    assert _joint_cutoff([], 100.0) == 25.0


def test_copies_of_samples_keep_unchanged_arrays():
    item = samples(closure=np.ones((4, 2)))
    assert replace(item, rate_hz=20.0).closure is item.closure
