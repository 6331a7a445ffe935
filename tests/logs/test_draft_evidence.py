"""The evidence behind a draft: rates, sizes and names, on either side of the bounds that decide.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from draft_parts import T, build_limited_robot, clock_of

from mindyn.logs.drafts.draft_head import (
    _describe_rate,
    _find_nanoseconds,
    _is_usual_rate,
    _read_array_head,
    _time_rank,
    guess_position_side,
    guess_position_unit,
)
from mindyn.logs.drafts.draft_names import _digit_count, _group_by_number, _list_spellings, group_columns
from mindyn.logs.formats.lerobot_table import _find_joint_name
from mindyn.logs.number_checks import velocity_slope


def test_rates_are_known_with_the_steps_that_differ():
    assert _describe_rate(T) == "100 Hz"
    gaps = T.copy()
    gaps[25:] += 0.5
    assert _describe_rate(gaps) == "100 Hz, 2 % of the steps differ from it"
    few = np.arange(201) / 100
    few[100:] += 0.5  # one step of two hundred is not worth a word
    assert _describe_rate(few) == "100 Hz"
    two = np.cumsum(np.where(np.arange(40) % 2, 0.0104, 0.0096))
    assert _describe_rate(two) == "96.154 Hz, 49 % of the steps differ from it"
    assert _describe_rate(np.cumsum(np.where(np.arange(40) % 2, 0.0102, 0.0099))) == "98.039 Hz"
    assert _describe_rate(np.zeros(4)).startswith("nan Hz")


def test_usual_rates_and_words_of_time():
    assert [_is_usual_rate(rate) for rate in (9.99, 10.0, 5000.0, 5000.1)] == [False, True, True, False]
    assert _time_rank("field.header.stamp") < _time_rank("time") < _time_rank("t")
    assert _time_rank("delta_t") is None
    assert _time_rank("dt") is None
    assert _time_rank("position") is None
    columns = {"a.sec": T, "a.nanosec": T, "b.secs": T, "b.nsecs": T, "c.sec": T, "c.nsec": np.ones((50, 2))}
    assert _find_nanoseconds("a.sec", columns) == "a.nanosec"
    assert _find_nanoseconds("b.secs", columns) == "b.nsecs"
    assert _find_nanoseconds("c.sec", columns) is None  # no column of numbers
    assert _find_nanoseconds("a.nanosec", columns) is None


def test_evidence_of_a_clock():
    assert clock_of({"t": T}).evidence == "100 Hz; the unit that gives a usual rate"
    assert clock_of({"t_ms": 1e3 * T}).evidence == "100 Hz; unit from the name"
    assert clock_of({"t_ms": 1e3 * T}).unit == "ms"
    wrong = clock_of({"t_us": T})  # the rate speaks against the name
    assert (wrong.unit, wrong.evidence) == ("s", "100 Hz; the unit that gives a usual rate")
    slow = clock_of({"t": 0.15 * np.arange(60)})
    assert slow.unit is None
    assert slow.evidence == "a step of 0.15 is not a usual rate in any unit of time"
    assert clock_of({"t_s": 0.15 * np.arange(60)}).unit == "s"  # the name alone
    assert clock_of({"x": T}).evidence == "no column of the file is a time"
    both = clock_of({"s.sec": np.floor(3 * T) + 9, "s.nanosec": 1e9 * (3 * T % 1) + 5})
    assert both.unit == "s"
    assert both.evidence.startswith("seconds and nanoseconds, 33.333 Hz")
    assert_close(both.seconds, 3 * T, SAME_ALGEBRA)


def test_the_slope_of_a_velocity_is_that_of_travelled_ways():
    rng = np.random.default_rng(0)
    seconds = np.cumsum(rng.uniform(0.005, 0.02, 40))
    seconds[20:] -= 0.3  # the time goes back once
    q, v = rng.normal(size=(40, 2)), rng.normal(size=(40, 2))
    steps = [k for k in range(39) if seconds[k + 1] > seconds[k]]
    change = np.array([q[k + 1] - q[k] for k in steps])
    ways = np.array([(v[k + 1] + v[k]) / 2 * (seconds[k + 1] - seconds[k]) for k in steps])
    together = (change * ways).sum()
    expected = together / (change**2).sum(), together**2 / ((change**2).sum() * (ways**2).sum())
    assert len(steps) == 38
    assert_close(velocity_slope(q, v, seconds), expected, SAME_ALGEBRA)


@pytest.mark.parametrize(
    ("peak", "reach", "value", "said"),
    [
        (2.09, 2.0, "rad", "up to 2.09, within the limits in rad"),
        (2.11, 2.0, None, "up to 2.11"),
        (0.21, 2.0, "rad", "within"),
        (0.19, 2.0, None, "up to 0.19"),
        (6.2, 2.0, None, "up to 6.2"),
        (6.3, 2.0, None, "deg at the joints, or rad at motors"),
        (6.3, 3.2, None, "up to 6.3"),
        (np.rad2deg(2.0) * 1.19, 2.0, None, "deg at the joints"),
        (np.rad2deg(2.0) * 1.21, 2.0, None, "up to"),
    ],
)
def test_units_of_positions_at_their_bounds(peak, reach, value, said):
    q = np.array([[0.0, 0.0], [-peak, 0.1]])
    result = guess_position_unit(q, build_limited_robot(reach), ["revolute"] * 2)
    assert result.value == value
    assert said in result.evidence
    assert ("motors" in result.evidence) == ("deg at the joints" in said)


def test_units_of_positions_without_a_robot_or_of_slides():
    assert guess_position_unit(np.array([[4 * np.pi]]), None, []).evidence == "up to 12.6, within two turns in rad"
    assert guess_position_unit(np.array([[-20.5]]), None, ["prismatic"]).value == "mm"
    assert guess_position_unit(np.array([[-19.5]]), None, ["prismatic"]).value == "m"
    assert guess_position_unit(np.array([[-20.5]]), None, ["prismatic"]).evidence == "the largest is 20.5"
    assert guess_position_unit(np.array([[-19.5, 1.0]]), None, ["prismatic", "revolute"]).value is None
    wide = np.array([[1.0, 1.0, 900.0]])  # a third column that the robot has not
    assert guess_position_unit(wide, build_limited_robot(2.0), ["revolute"] * 2).evidence.startswith(
        "up to 900, within"
    )


@pytest.mark.parametrize(
    ("times", "value", "said"),
    [
        (1.49, "joint", "at most 149 % of the limits"),
        (1.51, None, "1.51 times the limits: another zero, or at the motors"),
        (4.99, None, "another zero, or at the motors"),
        (5.01, None, "5.01 times the limits: probably at the motors"),
    ],
)
def test_sides_of_positions_at_their_bounds(times, value, said):
    q = np.rad2deg(np.array([[0.0, 0.0, 1e9], [-2.0 * times, 0.1, 0.0]]))
    result = guess_position_side(q, "deg", build_limited_robot(2.0))
    assert result.value == value
    assert said in result.evidence
    assert guess_position_side(q, "deg", None).evidence == "no robot is given"


def test_groups_by_joint_names_and_numbers():
    joints = ("shoulder_joint", "elbow_joint")
    columns = dict.fromkeys(["t", "pos_shoulder", "pos_elbow", "vel.shoulder_joint", "vel.elbow_joint", "x1", "x2"], T)
    result = group_columns({**columns, "tau_shoulder_joint": T, "arr": np.ones((50, 3))}, joints)
    assert [(item.order, item.count) for item in result] == [("array", 3), ("names", 2), ("names", 2), ("numbers", 2)]
    assert result[1].entry == ("pos_shoulder", "pos_elbow")
    assert result[2].entry == "vel.{joint}"
    assert result[3].entry == "x{i}"
    assert _list_spellings("shoulder_joint", joints) == ["shoulder_joint", "shoulder"]
    assert _list_spellings("j1", ("j1", "j2")) == ["j1"]
    assert _list_spellings("abc", ("abc",)) == ["abc"]
    assert _list_spellings("arm_abc", ("arm_abc", "arm_xyz")) == ["arm_abc", "abc"]


def test_numbers_count_on_from_nought_or_one():
    def of(*names):
        return [(item.entry, item.columns) for item in _group_by_number(names)]

    assert of("q2", "q1") == [("q{i}", ("q1", "q2"))]
    assert of("q0", "q1") == [("q{i0}", ("q0", "q1"))]
    assert of("q2", "q3") == []
    assert of("q1", "q3") == []
    assert of("q1") == []
    assert of("q01", "q02") == [("q{i:02}", ("q01", "q02"))]
    assert of("a1_x{0}", "a2_x{0}") == [("a{i}_x{{0}}", ("a1_x{0}", "a2_x{0}"))]
    assert _digit_count(["q00", "q01"], "q", "") == 2
    assert _digit_count(["q0", "q1"], "q", "") == 1
    assert _digit_count(["q10", "q11"], "q", "") == 1
    both = of("arm2_q1", "arm2_q2", "b1", "b2")
    assert [item[0] for item in both] == ["arm2_q{i}", "b{i}"]


def test_names_of_joints_within_names():
    joints = ("elbow_joint", "elbow_flex_joint", "wrist")
    assert _find_joint_name("main_elbow_flex.pos", joints) == "elbow_flex_joint"
    assert _find_joint_name("main_elbow.pos", joints) == "elbow_joint"
    assert _find_joint_name("gripper", joints) is None


def test_time_runs_along_the_length_that_most_arrays_share():
    class Table:
        def __init__(self, *lengths):
            self.lengths = lengths

        def head(self, _rows):
            return {f"x{k}": np.ones(length) for k, length in enumerate(self.lengths)}

    assert list(_read_array_head(Table(5, 7, 7)).columns) == ["x1", "x2"]
    assert list(_read_array_head(Table(5, 7)).columns) == ["x1"]
    assert list(_read_array_head(Table(1, 1, 1, 9)).columns) == ["x3"]
    assert _read_array_head(Table()).columns == {}
