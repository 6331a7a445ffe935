"""What the numbers of a log say by themselves: its clock, and units of positions and velocities."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from draft_parts import clock_of

from mindyn.logs.drafts.draft_head import (
    Clock,
    fitting_velocity_units,
    guess_position_side,
    guess_position_unit,
)
from mindyn.logs.number_checks import velocity_slope
from mindyn.robots.loading import load_robot

STAMPS = np.arange(60) / 100


def test_stamps_that_cannot_be_a_time_leave_it_to_other_columns():
    broken = STAMPS.copy()
    broken[7] = np.nan
    mostly_back = np.where(np.arange(60) % 4 == 0, STAMPS, -STAMPS)
    for stamps in (broken, mostly_back):
        assert clock_of({"stamp": stamps, "time": STAMPS}).columns == ("time",)
    assert clock_of({"stamp": STAMPS[:2]}).columns == ()
    assert clock_of({"stamp": STAMPS[:3]}).columns == ("stamp",)


@pytest.mark.parametrize(("size", "unit"), [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")])
def test_the_unit_of_stamps_is_the_one_of_a_usual_rate(size, unit):
    clock = clock_of({"t": 5.0 + STAMPS / size})
    assert clock.unit == unit
    assert_close(clock.seconds, STAMPS, 1e-6)
    assert clock_of({"t": np.arange(60) * 0.15}).unit is None


def test_seconds_and_nanoseconds_belong_together():
    columns = {"header.stamp.sec": 7.0 + np.floor(3 * STAMPS), "header.stamp.nanosec": 1e9 * (3 * STAMPS % 1)}
    clock = clock_of(columns)
    assert clock.columns == tuple(columns)
    assert_close(clock.seconds, 3 * STAMPS, SAME_ALGEBRA)


def test_recordings_begin_where_the_time_goes_back():
    episodes = np.concatenate([STAMPS[:10], STAMPS, STAMPS[:20]])
    assert Clock(("t",), "s", episodes).restarts == 2
    assert Clock(("t",), "s", np.repeat(STAMPS, 2)).restarts == 0
    late = STAMPS.copy()
    late[[20, 22]] = late[[22, 20]]
    assert Clock(("t",), "s", late).restarts == 0


def test_a_velocity_is_recognised_as_derivative_of_the_position():
    t = STAMPS
    q = np.column_stack([np.sin(9 * t), 0.3 * np.cos(7 * t)])
    v = np.column_stack([9 * np.cos(9 * t), -2.1 * np.sin(7 * t)])
    slope, agreement = velocity_slope(q, 3 * v, t)
    assert_close(slope, 3.0, 0.01)
    assert 0.999 < agreement <= 1 + SAME_ALGEBRA
    assert velocity_slope(q, -3 * v, t)[0] < -2.9
    gap = q.copy()
    gap[20] = np.nan
    assert_close(velocity_slope(gap, 3 * v, t)[0], 3.0, 0.02)
    assert velocity_slope(0 * q, v, t) == (0.0, 0.0)
    assert velocity_slope(q, 0 * v, t) == (0.0, 0.0)


def test_units_of_a_velocity_follow_from_the_position_s():
    degree = np.pi / 180
    assert fitting_velocity_units("rad", 1.0, "revolute") == ["rad/s"]
    assert fitting_velocity_units("deg", degree, "revolute") == ["rad/s"]
    assert fitting_velocity_units("rad", 1 / degree, "revolute") == ["deg/s"]
    assert fitting_velocity_units("m", 1000.0, "prismatic") == ["mm/s"]
    for far in (0.6, 2.0):
        assert fitting_velocity_units("rad", far, "revolute") == []


def test_positions_within_the_limits_are_rad_and_more_may_be_degrees_or_motors():
    turns = np.array([[0.0, 0.0], [1.0, 2.0]])
    assert guess_position_unit(turns, None, []).value == "rad"
    assert guess_position_unit(0.05 * turns, None, []).value is None  # as well a tenth of a turn as degrees
    both = guess_position_unit(100 * turns, None, [])
    assert both.value is None
    assert "rad at motors" in both.evidence
    for neither in (np.array([[0.0, 0.0], [200.0, 5000.0]]), 0.05 * turns):
        assert "motors" not in guess_position_unit(neither, None, []).evidence
    assert guess_position_unit(turns, None, ["prismatic", "prismatic"]).value == "m"
    assert guess_position_unit(100 * turns, None, ["prismatic", "prismatic"]).value == "mm"


def test_positions_beyond_the_limits_are_not_those_of_joints():
    robot = load_robot("puma560")
    inside = np.array([[0.5] * 6, [1.0] * 6])
    assert guess_position_side(inside, "rad", robot).value == "joint"
    assert guess_position_side(57 * inside, "deg", robot).value == "joint"
    far = guess_position_side(50 * inside, "rad", robot)
    assert far.value is None
    assert "probably at the motors" in far.evidence
    assert guess_position_side(inside, "rad", None).value is None
