"""Samples and columns have one shape; other shapes are rejected with their name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import EXACT, assert_close
from raising import raises

from mindyn.foundation.errors import Code, InputError
from mindyn.logs.column_selection import ColumnSelection, take_column
from mindyn.logs.log import Log, SourceFile, join_logs, log_from_arrays
from mindyn.logs.log_errors import LogError
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


T = np.arange(200) / 100


TURN = np.column_stack([np.sin(3 * T), np.cos(2 * T)])


def test_a_log_is_called_after_its_file_and_cannot_be_changed():
    q = TURN.copy()
    log = Log(("a", "b"), T, q, TURN, np.arange(200), sources=(SourceFile("/data/run7.csv", "0"),))
    assert log.name == "run7.csv"
    assert replace(log, name="mine").name == "mine"
    assert log_from_arrays(("a", "b"), T, q, TURN).name == ""
    with pytest.raises(ValueError, match="read-only"):
        log.q[0] = 1.0
    q[0] = 7.0  # the caller's own array stays the caller's
    assert repr(log) == "Log(200 rows of 2 joints over 1.99 s)"
    assert repr(log.take(slice(0, 0))) == "Log(0 rows of 2 joints over 0 s)"
    assert log.between(3, 6).rows.tolist() == [3, 4, 5]
    assert len(join_logs([log.take(slice(0, 3)), log.take(slice(3, 9))])) == 9
    assert join_logs([log]) is log
    for name in ("q", "tau", "qd", "qdd"):
        arrays = {"q": TURN, "tau": TURN, "qd": TURN, "qdd": TURN, name: TURN[:-1]}
        with raises(InputError, code=Code.WRONG_SHAPE):
            Log(("a", "b"), T, arrays["q"], arrays["tau"], np.arange(200), arrays["qd"], arrays["qdd"])
