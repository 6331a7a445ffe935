"""Rows that are no numbers, repeat a stamp or go back in time are dropped and counted, or rejected."""

from __future__ import annotations

import numpy as np
import pytest
from messages import messages
from raising import raises

from mindyn.foundation.errors import Code
from mindyn.foundation.findings import Kind
from mindyn.logs.cleaning import MAX_MAGNITUDE, Cleaner
from mindyn.logs.log import Log
from mindyn.logs.log_errors import LogError


def clean(*chunks, names=("a", "b")):
    cleaner = Cleaner("run")
    for time, q in chunks:
        cleaner.clean(Log(names, time, q, q, np.arange(len(time))))
    return cleaner


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, MAX_MAGNITUDE, -MAX_MAGNITUDE])
def test_a_tenth_of_the_rows_may_be_no_numbers(value):
    t = np.arange(20.0)
    q = np.column_stack([np.sin(t), np.cos(t)])
    q[[3, 7], 1] = value
    cleaner = clean((t, q))
    assert [note.kind for note in cleaner.findings(())] == [Kind.DROPPED_ROWS]
    assert cleaner.not_numbers == {"position of b": 2, "torque of b": 2}
    q[9, 0] = value
    with raises(LogError, code=Code.NOT_FINITE, subject="position of a"):
        messages(clean((t, q)).findings(()))


def test_a_tenth_of_the_rows_may_repeat_a_stamp():
    t = np.arange(20.0)
    q = np.column_stack([np.sin(t), np.cos(t)])
    t[[4, 8]] = t[[3, 7]]
    assert [note.kind for note in clean((t, q)).findings(())] == [Kind.DROPPED_ROWS]
    t[12] = t[11]
    with raises(LogError, code=Code.DUPLICATE, subject="stamps"):
        messages(clean((t, q)).findings(()))
    assert len(clean((t, q)).findings(("stamps",))) == 1


def test_any_number_of_repeated_rows_is_dropped():
    t = np.repeat(np.arange(20.0), 2)
    q = np.column_stack([np.sin(t), np.cos(t)])
    (note,) = messages(clean((t, q)).findings(()))
    assert note == "20 of 40 rows of run repeat the stamp and values of the row before; dropped"


def test_cleaning_rejects_bad_logs():
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="run"):
        Cleaner("run").findings(())
    cleaner = Cleaner("run")
    cleaner.clean(Log(("a",), np.array([0.0]), np.zeros((1, 1)), np.zeros((1, 1)), np.arange(1)))
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="run"):
        cleaner.findings(())
    two = Cleaner("run")
    still = np.array([[0.0, 0.0], [0.0009, 0.0011]])
    two.clean(Log(("a", "b"), np.array([0.0, 1.0]), still, still, np.arange(2)))
    assert two.findings(()) == []
    back = Cleaner("run")
    back.clean(Log(("a",), np.array([0.0, 1.0]), np.zeros((2, 1)), np.zeros((2, 1)), np.arange(2)))
    with raises(LogError, code=Code.INVALID_VALUE, subject="time"):
        back.clean(Log(("a",), np.array([0.75, 2.0]), np.zeros((2, 1)), np.zeros((2, 1)), np.array([2, 3])))
