"""Fourier motions: at rest at both ends, derivatives of each other."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import DERIVATIVE, SAME_ALGEBRA, assert_close, assert_negligible
from excitation.independent_check import motion_at
from raising import raises

import mindyn
from mindyn.foundation.errors import Code
from mindyn.motions.excitation.motions import Motion

SECONDS = 7.0
FAMILIES = [
    mindyn.Fourier(),
    mindyn.Fourier(harmonics=3, ramp_s=0.1),
    mindyn.Fourier(harmonics=2, periods=3, ramp_s=1.0),
]


@pytest.fixture(params=FAMILIES, ids=repr)
def motion(request):
    rng = np.random.default_rng(0)
    return Motion(request.param, SECONDS, rng.normal(size=3), rng.normal(size=(request.param.count, 3)))


def test_a_motion_starts_and_stops_at_rest(motion):
    for end in (0.0, SECONDS):
        assert_close(motion.derivative(end, 0)[0], motion.start, SAME_ALGEBRA)
        for order in (1, 2):
            inside = np.abs(motion.derivative(np.linspace(0, SECONDS, 50), order)).max()
            assert_negligible(motion.derivative(end, order), inside, SAME_ALGEBRA)


def test_before_and_after_the_motion_the_robot_stands(motion):
    for t in (-1.0, SECONDS + 1.0):
        q, qd, qdd = motion(t)
        assert_close(q, motion.start, SAME_ALGEBRA)
        assert not qd.any()
        assert not qdd.any()


@pytest.mark.parametrize("order", [0, 1, 2])
def test_orders_are_derivatives_of_each_other(motion, order):
    t, h = np.random.default_rng(1).uniform(0.01, SECONDS - 0.01, 40), 1e-4
    moved = [motion.derivative(t + k * h, order) for k in (-2, -1, 1, 2)]
    slope = (moved[0] - 8 * moved[1] + 8 * moved[2] - moved[3]) / (12 * h)
    assert_close(slope, motion.derivative(t, order + 1), DERIVATIVE)


def test_between_the_ramps_the_motion_is_periodic():
    family = mindyn.Fourier(harmonics=4, periods=2, ramp_s=1.5)
    motion = Motion(family, 13.0, np.zeros(2), np.random.default_rng(2).normal(size=(8, 2)))
    t = np.linspace(1.5, 6.5, 30)
    assert_close(motion.derivative(t + 5.0, 0), motion.derivative(t, 0), SAME_ALGEBRA)


def test_the_check_of_the_tests_evaluates_the_same_motion():
    for family in (mindyn.Fourier(3), mindyn.Fourier(3, periods=2, ramp_s=0.5)):
        motion = Motion(family, 9.0, np.array([0.1, 0.2]), np.random.default_rng(3).normal(size=(family.count, 2)))
        sines, cosines = np.split(motion.coefficients, 2)
        record = {
            "family": family.to_dict(), "period_s": family.period(9.0), "seconds": 9.0,
            "sines": sines, "cosines": cosines, "start": motion.start,
        }  # fmt: skip
        t = np.linspace(0, 9, 300)
        for order, result in enumerate(motion_at(record, t)):
            assert_close(result, motion.derivative(t, order), 1e-11)


@pytest.mark.parametrize(
    ("make", "code", "subject"),
    [
        (lambda: mindyn.Fourier(harmonics=0), Code.INVALID_VALUE, "Fourier.harmonics"),
        (lambda: mindyn.Fourier(ramp_s=0.0), Code.INVALID_VALUE, "Fourier.ramp_s"),
        (lambda: mindyn.Fourier(ramp_s=-1.0), Code.INVALID_VALUE, "Fourier.ramp_s"),
        (lambda: mindyn.Fourier(ramp_s=4.0).period(8.0), Code.OUT_OF_RANGE, "ramp_s"),
    ],
)
def test_impossible_families_are_rejected(make, code, subject):
    with raises(mindyn.MindynError, code, subject):
        make()
