"""`log_from_arrays` takes tables of pandas and polars and dictionaries by joint name; other entries name it."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, InputError

ROBOT = mindyn.load_robot("planar2")
TIME = np.arange(20) / 100
Q, TAU = np.random.default_rng(0).normal(size=(2, 20, 2))
EXPECTED = mindyn.log_from_arrays(ROBOT.joint_names, TIME, Q, TAU)


def make_dictionary(columns):
    return {name: values.tolist() for name, values in columns.items()}


def make_pandas(columns):
    return pytest.importorskip("pandas").DataFrame(columns)


@pytest.mark.parametrize("make", [make_dictionary, make_pandas, pl.DataFrame])
def test_columns_are_taken_by_joint_name(make):
    first, second = ROBOT.joint_names
    q = make({second: Q[:, 1], first: Q[:, 0], "gripper": Q[:, 0]})
    tau = make({second: TAU[:, 1], first: TAU[:, 0]})
    log = mindyn.log_from_arrays(ROBOT, TIME, q, tau, q, q)
    assert log.joint_names == EXPECTED.joint_names
    assert log.q.tobytes() == EXPECTED.q.tobytes()
    assert log.tau.tobytes() == EXPECTED.tau.tobytes()
    with raises(InputError, Code.UNKNOWN_NAME, second):
        mindyn.log_from_arrays(ROBOT, TIME, make({first: Q[:, 0], "other": Q[:, 1]}), tau)


@pytest.mark.parametrize("make", [make_pandas, pl.DataFrame])
def test_tables_with_other_names_are_in_the_order_of_the_joints(make):
    log = mindyn.log_from_arrays(
        ROBOT, pl.Series(TIME), make({"q2": Q[:, 0], "q1": Q[:, 1]}), make({"a": TAU[:, 0], "b": TAU[:, 1]})
    )
    assert log.q.tobytes() == EXPECTED.q.tobytes()
    with raises(InputError, Code.UNKNOWN_NAME):
        mindyn.log_from_arrays(ROBOT, TIME, make({"q1": Q[:, 0]}), TAU)
    with raises(InputError, Code.UNKNOWN_NAME):  # a dictionary has no order that means anything
        mindyn.log_from_arrays(ROBOT, TIME, {"q1": Q[:, 0], "q2": Q[:, 1]}, TAU)
    with raises(InputError, Code.WRONG_SHAPE, "q"):
        mindyn.log_from_arrays(ROBOT, TIME, dict(zip(ROBOT.joint_names, (TIME, TIME[1:]), strict=True)), TAU)


@pytest.mark.parametrize("make", [make_dictionary, make_pandas, pl.DataFrame])
def test_other_entries_name_the_function(make):
    table = make({"time": TIME, "q1": Q[:, 0], "q2": Q[:, 1]})
    for call in (
        lambda: mindyn.identify(ROBOT, table),
        lambda: mindyn.read_log(table, ROBOT),
        lambda: mindyn.scan_log(table, ROBOT),
    ):
        with raises(InputError, Code.WRONG_TYPE) as result:
            call()
        assert "log_from_arrays" in result.value.hint
