"""Families of motions: at rest at both ends, derivatives of each other, the same in C."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from dataclasses import dataclass

import numpy as np
import pytest
from closeness import DERIVATIVE, SAME_ALGEBRA, assert_close, assert_negligible
from excitation.independent_check import motion_at
from raising import raises

import mindyn
from mindyn.errors import Code
from mindyn.excitation.c_header import c_header
from mindyn.excitation.motions import Motion

SECONDS = 7.0
FAMILIES = [
    mindyn.Fourier(),
    mindyn.Fourier(harmonics=3, ramp_s=0.0),
    mindyn.Fourier(harmonics=2, periods=3, ramp_s=1.0),
    mindyn.BSpline(),
    mindyn.BSpline(points=3),
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


def test_every_spline_function_moves():
    B = mindyn.BSpline(points=5).basis(np.linspace(0, SECONDS, 200), SECONDS, 0)
    assert np.linalg.matrix_rank(B) == 5


@dataclass
class Named:
    """What a header needs of a robot."""

    name: str = "arm"
    primary_names: tuple[str, ...] = ("a", "b", "c")
    joint_count: int = 3


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_c_header_evaluates_the_same_motion(motion, tmp_path):
    (tmp_path / "motion.h").write_text(c_header(motion, Named()))
    (tmp_path / "motion.c").write_text(
        '#include "motion.h"\n'
        "void at(double t, double *q, double *qd, double *qdd) { motion_reference(t, q, qd, qdd); }\n"
    )
    subprocess.run(
        ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "motion.c", "-o", "m.so", "-lm"],
        cwd=tmp_path,
        check=True,
    )
    code = ctypes.CDLL(str(tmp_path / "m.so"))
    for t in (-0.5, 0.0, 0.3, 1.9, 3.5, 6.2, SECONDS, 8.0):
        values = np.zeros((3, 3))
        code.at(ctypes.c_double(t), *(ctypes.c_void_p(row.ctypes.data) for row in values))
        assert_close(values, np.array(motion(t)), 1e-11)


def test_the_check_of_the_tests_evaluates_the_same_motion():
    from mindyn.excitation.fourier import Fourier

    for family in (Fourier(3), Fourier(3, ramp_s=0.0)):
        motion = Motion(family, 9.0, np.array([0.1, 0.2]), np.random.default_rng(3).normal(size=(family.count, 2)))
        sines, cosines = family.amplitudes(motion.coefficients)
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
        (lambda: mindyn.Fourier(harmonics=1, ramp_s=0.0), Code.OUT_OF_RANGE, "harmonics"),
        (lambda: mindyn.Fourier(ramp_s=-1.0), Code.INVALID_VALUE, "Fourier.ramp_s"),
        (lambda: mindyn.Fourier(ramp_s=4.0).period(8.0), Code.OUT_OF_RANGE, "ramp_s"),
        (lambda: mindyn.BSpline(points=0), Code.INVALID_VALUE, "points"),
    ],
)
def test_impossible_families_are_rejected(make, code, subject):
    with raises(mindyn.MindynError, code, subject):
        make()
