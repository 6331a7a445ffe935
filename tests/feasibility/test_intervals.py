"""Intervals after the constraint: they cover the truth as often as they say, and never leave what is physical."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from equations import equations
from estimators.recovered import exact_samples
from robots import random_robot, with_random_drives

from mindyn import LeastSquares, PhysicallyConsistent, constrained_intervals
from mindyn.errors import InputError
from mindyn.feasibility.intervals import torque_bands


def arm_with_a_frictionless_drive(trial):
    """Two joints; the first drive has no friction, so that the truth lies at the edge of what is physical."""
    robot = with_random_drives(random_robot(100 + trial % 6, joints=2, tree=False, gravity=(0.0, 0.0, -9.81)), trial)
    first, second = robot.drives
    return replace(robot, drives=(replace(first, viscous=0.0, coulomb=0.0), second))


def test_pooled_coverage_of_intervals_and_bands():
    covered, banded, widths = [], [], []
    for trial in range(24):
        robot = arm_with_a_frictionless_drive(trial)
        found = LeastSquares().fit(equations(robot, exact_samples(robot, 200, seed=trial, noise=1.5)))
        intervals = constrained_intervals(found, draws=80, seed=trial)
        truth = found.base.values
        covered += list((truth >= intervals.low) & (truth <= intervals.high))
        widths += list((intervals.high - intervals.low) / (2 * 1.96 * found.deviations))
        unseen = exact_samples(robot, 40, seed=1000 + trial)
        low, high = torque_bands(found, unseen, intervals)
        banded += list(((unseen.tau >= low) & (unseen.tau <= high)).ravel())
    assert 0.90 <= np.mean(covered) <= 0.98
    assert 0.90 <= np.mean(banded) <= 0.98
    assert np.mean(widths) < 0.95  # knowing what is physical makes them narrower


def test_draws_and_intervals_keep_to_what_is_physical():
    robot = arm_with_a_frictionless_drive(3)
    found = PhysicallyConsistent(prior_weight=1e-4, kinds="all").fit(
        equations(robot, exact_samples(robot, 100, noise=5.0))
    )
    intervals = constrained_intervals(found, draws=20)
    signed = [k for k, name in enumerate(found.names) if name.startswith(("fv", "fc"))]
    assert (intervals.low[signed] >= 0).all()
    assert intervals.draws[:, signed].min() > -1e-6
    assert "interval" in str(intervals)


def test_where_the_constraint_does_not_bind_intervals_are_the_usual_ones():
    robot = with_random_drives(random_robot(7, joints=2, tree=False, gravity=(0.0, 0.0, -9.81)), 7)
    found = LeastSquares().fit(equations(robot, exact_samples(robot, 400, noise=1e-4)))
    intervals = constrained_intervals(found, draws=300)
    np.testing.assert_allclose(intervals.high - intervals.low, 2 * 1.96 * found.deviations, rtol=0.3)


def test_bands_of_measured_torque_are_wider():
    robot = arm_with_a_frictionless_drive(1)
    found = LeastSquares().fit(equations(robot, exact_samples(robot, 200, noise=1.0)))
    intervals = constrained_intervals(found, draws=20)
    samples = exact_samples(robot, 30, seed=5)
    low, high = torque_bands(found, samples, intervals)
    wide_low, wide_high = torque_bands(found, samples, intervals, noise=True)
    assert (wide_high - wide_low).mean() > 1.5 * (high - low).mean()


@pytest.mark.parametrize("wrong", [{"level": 1.5}, {"draws": 1}])
def test_levels_and_draws_are_checked(wrong):
    robot = arm_with_a_frictionless_drive(0)
    found = LeastSquares().fit(equations(robot, exact_samples(robot, 200, noise=1.0)))
    with pytest.raises(InputError, match="level"):
        constrained_intervals(found, **wrong)
