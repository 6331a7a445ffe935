"""Gradients of criteria and constraints of whole designs, by differences of the same functions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import DERIVATIVE, SAME_ALGEBRA, assert_close
from robots import random_robot, with_random_drives

from mindyn import Fourier, MotionLimits
from mindyn.motions import Box, Capsule
from mindyn.motions.excitation.motion_columns import Columns
from mindyn.motions.excitation.motion_safety import SafetySettings, safety_of
from mindyn.motions.excitation.problem import Problem

KINDS = ("position", "velocity", "acceleration", "jerk", "torque", "gap", "wall", "speed of")


def make_problem(family, criterion, *, start=None, seed=3):
    """A tree with revolute and prismatic joints, coupled motors, an obstacle and walls."""
    robot = with_random_drives(random_robot(seed, joints=4, gravity=(0.0, 0.0, -9.81)), seed)
    limits = MotionLimits.of(robot, acceleration=20.0, jerk=200.0, effort=400.0)
    columns = Columns(robot, with_drives=True, speeds=limits.velocity)
    rng = np.random.default_rng(seed)
    earlier = 0.1 * rng.normal(size=(3, columns.count))
    around = SafetySettings(
        obstacles=(Capsule("", np.array([1.5, 0, 0]), np.array([1.5, 1, 0]), 0.1),),
        workspace=Box((-3, -3, -3)),
        floor=None,
    )
    safety = safety_of(columns, limits, columns.base.values, around, 0)
    noise = np.array([1.0, 2.0, 3.0, 5.0])
    return Problem(columns, limits, family, 6.0, criterion, noise, 50.0, earlier.T @ earlier, start, safety.constraints)


def differences(function, x, direction, h=2e-4):
    """Fourth-order central difference along a direction."""
    values = [function(x + k * h * direction) for k in (-2, -1, 1, 2)]
    return (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)


def unknowns(problem, rng):
    return 0.3 * rng.normal(size=problem.unknowns(problem.motion(np.zeros(size_of(problem)))).size)


def size_of(problem):
    rows, n = problem.scales.shape
    return n * (rows if problem.start is None else rows - 1)


@pytest.mark.parametrize("family", [Fourier(3, ramp_s=1.0), Fourier(2, periods=3, ramp_s=0.5)], ids=repr)
@pytest.mark.parametrize("criterion", ["condition", "D"])
def test_the_gradient_of_every_criterion(family, criterion):
    problem, rng = make_problem(family, criterion), np.random.default_rng(0)
    for power in (8.0, np.inf):
        x = unknowns(problem, rng)
        gradient = problem.objective(x, power)[1]()
        directions = rng.normal(size=(6, len(x)))
        result = [differences(lambda x, power=power: problem.objective(x, power)[0], x, d) for d in directions]
        assert_close(directions @ gradient, result, DERIVATIVE)


@pytest.mark.parametrize("start", [None, np.array([0.1, -0.2, 0.3, 0.0])], ids=["free", "given"])
@pytest.mark.parametrize("sharpness", [20.0, 100.0])
def test_the_jacobian_of_every_constraint(start, sharpness):
    problem, rng = make_problem(Fourier(3, ramp_s=1.0), "D", start=start), np.random.default_rng(1)
    x = unknowns(problem, rng)
    jacobian = problem.excess(x, sharpness)[1]()
    directions = rng.normal(size=(6, len(x)))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    values = np.array([differences(lambda x: problem.excess(x, sharpness)[0], x, d, 1e-5) for d in directions])
    for kind in KINDS:
        rows = [k for k, label in enumerate(problem.labels * problem.knots.segments) if kind in label]
        assert rows, f"no {kind} among {problem.labels}"
        assert_close((directions @ jacobian.T)[:, rows], values[:, rows], DERIVATIVE)


def test_smooth_maxima_approach_the_maxima_at_the_knots():
    problem, rng = make_problem(Fourier(3, ramp_s=1.0), "D"), np.random.default_rng(2)
    x = unknowns(problem, rng)
    exact = problem.greatest_by_segment(problem.motion(x), problem.knots)
    assert_close(
        exact.reshape(problem.knots.segments, -1).max(axis=0),
        problem.greatest(problem.motion(x), problem.knots),
        SAME_ALGEBRA,
    )
    errors = [np.abs(problem.excess(x, sharpness)[0] + 1 - exact).max() for sharpness in (30.0, 300.0, 3000.0)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-3


def test_earlier_information_is_used():
    problem, rng = make_problem(Fourier(3, ramp_s=1.0), "D"), np.random.default_rng(3)
    x = unknowns(problem, rng)
    without = replace(problem, earlier=np.zeros_like(problem.earlier))
    assert problem.objective(x)[0] < without.objective(x)[0]
