"""Filters forget a disturbance within their settling rows, and derivatives are those of polynomials and sines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import EXACT, SAME_ALGEBRA, assert_close
from raising import raises

from mindyn.foundation.errors import Code, InputError
from mindyn.logs.conditioning import Conditioning, condition_motion
from mindyn.logs.differentiation import central_difference, fit_spline
from mindyn.logs.filters import edge_duration_s, lowpass, settling_rows
from mindyn.logs.log import log_from_arrays
from mindyn.logs.log_errors import LogError
from mindyn.robots.loading import load_robot


@pytest.mark.parametrize(("cutoff_hz", "order"), [(2.0, 4), (10.0, 1), (30.0, 7)])
def test_a_filter_has_forgotten_a_disturbance_after_its_settling_rows(cutoff_hz, order):
    rows = settling_rows(cutoff_hz, 200.0, order)
    x = np.zeros(2 * rows + 400)
    x[0] = 1.0
    left = np.abs(lowpass(x, cutoff_hz, 200.0, order))
    assert left[rows:].max() < 1e-12
    assert left[rows // 2 :].max() > 1e-12  # and not long before
    assert settling_rows(None, 200.0) == 0
    assert settling_rows(cutoff_hz, 200.0) == settling_rows(cutoff_hz, 200.0, 4)


def test_filters_need_two_rows_and_a_cut_off_below_half_the_rate():
    x = np.array([[1.0, 2.0], [5.0, -3.0]])
    assert lowpass(x, None, 100.0) is x
    assert_close(lowpass(x[:1], 5.0, 100.0), x[:1], EXACT)
    assert not np.array_equal(lowpass(x, 5.0, 100.0), x)
    for call in (lowpass, lambda _, *given: settling_rows(*given)):
        call(x, 49.9, 100.0)
        with raises(InputError, code=Code.OUT_OF_RANGE, subject="cutoff_hz"):
            call(x, 50.0, 100.0)
    assert [edge_duration_s(), edge_duration_s(None), edge_duration_s(5.0), edge_duration_s(4.0, 2.0, None)] == [
        0.1,
        0.1,
        0.1,
        0.25,
    ]


ROBOT = load_robot("planar2")


def test_derivatives_have_the_units_of_their_rate():
    t = np.arange(200) / 50
    q = np.column_stack([t**2, 3 * t])
    inner = slice(10, -10)
    assert_close(central_difference(q, 50.0)[inner], np.column_stack([2 * t, 3 + 0 * t])[inner], 1e-9)
    spline = fit_spline(q, 50.0)
    assert_close(spline[0][inner], q[inner], 1e-9)
    assert_close(spline[1][inner], np.column_stack([2 * t, 3 + 0 * t])[inner], 1e-8)
    assert_close(spline[2][inner], np.column_stack([2 + 0 * t, 0 * t])[inner], 1e-6)


def test_measured_motion_is_used_if_requested():
    t = np.arange(100) / 50
    q, qd, qdd = (np.column_stack([f(t), f(2 * t)]) for f in (np.sin, np.cos, np.exp))
    log = log_from_arrays(ROBOT.joint_names, t, q, 5 * q, qd, qdd)
    c = Conditioning(rate_hz=50.0, motion_hz=None, velocity="measured", acceleration="measured")
    motion = condition_motion(log, c)
    for result, given in zip(motion[:4], (q, qd, qdd, 5 * q), strict=True):
        assert_close(result, given, EXACT)
    half = condition_motion(log, Conditioning(rate_hz=50.0, motion_hz=None, velocity="measured"))
    assert_close(half.qdd, central_difference(qd, 50.0), EXACT)
    plain = condition_motion(log, Conditioning(rate_hz=50.0, motion_hz=None))
    assert_close(plain.qdd, central_difference(central_difference(q, 50.0), 50.0), EXACT)
    late = condition_motion(log, Conditioning(rate_hz=50.0, motion_hz=None, delay_s=0.04))
    assert_close(late.q[10:-10], q[8:-12], 1e-9)  # the motion is moved to the later torque
    assert_close(late.tau, 5 * q, EXACT)
    with raises(LogError, code=Code.MISSING_VALUE, subject="acceleration"):
        condition_motion(log_from_arrays(ROBOT.joint_names, t, q, q, qd), c)


def test_the_usual_filter_is_of_fourth_order_without_delay():
    """An octave above the cut-off a filter of order 4, forwards and backwards, leaves 1 / (1 + 2^8)."""
    t = np.arange(4000) / 1000
    tone = np.sin(2 * np.pi * 20 * t)
    passed = lowpass(tone, 10.0, 1000.0)[1000:3000]
    gain = passed @ tone[1000:3000] / (tone[1000:3000] @ tone[1000:3000])
    assert_close(gain, 1 / (1 + 2.0**8), 0.05)
    assert_close([edge_duration_s(2.0), edge_duration_s(1e3)], [0.25, 0.1], SAME_ALGEBRA)


def test_differences_are_the_rates_of_a_sine():
    t = np.arange(1000) / 200
    q = np.sin(3 * t)[:, None]
    log = log_from_arrays(("a",), t, q, q, 7 * q, 9 * q)
    c = Conditioning(rate_hz=200.0, motion_hz=20.0, edge_s=0.1)
    inner = slice(200, 800)
    motion = condition_motion(log, c)
    assert_close(motion.q[inner], q[inner], 1e-3)
    assert_close(motion.qd[inner, 0], 3 * np.cos(3 * t)[inner], 0.01)
    assert_close(motion.qdd[inner, 0], -9 * np.sin(3 * t)[inner], 0.02)
    measured = condition_motion(log, replace(c, velocity="measured"))
    assert_close(measured.qd[inner], 7 * q[inner], 1e-3)
    assert_close(measured.qdd[inner, 0], 21 * np.cos(3 * t)[inner], 0.01)
    assert_close(condition_motion(log, replace(c, acceleration="measured")).qdd[inner], 9 * q[inner], 1e-3)
