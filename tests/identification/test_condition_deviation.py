"""The spread between conditions is a jackknife over groups of rows, and sees errors of the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from closeness import assert_close

import mindyn
from mindyn.foundation.algebra.jackknife import jackknife_variances
from mindyn.foundation.findings import Kind
from mindyn.identification.uncertainty.condition_shifts import (
    excess_of_conditions,
    find_condition_shifts,
    shifts_of_groups,
    variances_of_conditions,
)
from mindyn.logs.log import log_from_arrays
from mindyn.regression.build_rows import build_rows
from mindyn.regression.settings import EquationSettings

GIVEN = EquationSettings(mindyn.Conditioning(motion_hz=10.0), friction=mindyn.Friction("tanh", 0.05))


def draw_log(seed, spring=0.0, noise=0.02):
    """A log of planar2; a spring over twice the angle of joint 2 is not part of the model."""
    robot, rng = mindyn.load_robot("planar2"), np.random.default_rng(seed)
    t = np.arange(0, 40, 0.01)
    rates, phases = rng.uniform(0.3, 2.5, (4, 2)), rng.uniform(0, 2 * np.pi, (4, 2))
    angles = t[:, None, None] * rates + phases
    q, qd = 0.5 * np.sin(angles).sum(axis=1), 0.5 * (rates * np.cos(angles)).sum(axis=1)
    qdd = -0.5 * (rates**2 * np.sin(angles)).sum(axis=1)
    tau = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)
    sizes = np.sqrt((tau**2).mean(axis=0))
    tau = tau + sizes * (spring * np.sin(2 * q + [0.0, 1.0]) + noise * rng.standard_normal(q.shape))
    return robot, log_from_arrays(robot.joint_names, t, q, tau)


def test_shifts_of_groups_with_equal_motion_are_those_of_the_jackknife():
    robot, log = draw_log(0)
    rng = np.random.default_rng(1)
    rows = [
        build_rows(robot, replace(log, tau=log.tau + rng.standard_normal(log.tau.shape)), GIVEN).information
        for _ in range(5)
    ]
    weights, kept = np.ones(2), np.ones(len(rows[0].names), dtype=bool)
    shifts = shifts_of_groups(rows, weights, kept)
    solved = [np.linalg.lstsq(*rest.stacked(weights), rcond=None)[0] for rest in map(_without(rows), range(5))]
    whole = sum(rows[1:], rows[0])
    moved = np.array(solved) - np.linalg.lstsq(*whole.stacked(weights), rcond=None)[0]
    assert_close(variances_of_conditions([shifts])[0], jackknife_variances(moved), 1e-6)


def _without(rows):
    def rest(k):
        others = [part for j, part in enumerate(rows) if j != k]
        return sum(others[1:], others[0])

    return rest


def test_excess_is_zero_where_blocks_explain_the_spread():
    shifts = [np.array([[1.0, 2.0], [-1.0, -2.0]])]
    assert excess_of_conditions([], np.ones(2)).tolist() == [0.0, 0.0]
    assert excess_of_conditions(shifts, np.array([10.0, 1.0]), gain=1.0).tolist() == [0.0, 15.0]
    assert excess_of_conditions(shifts, np.array([3.0]), np.array([[1.0, 0.0]]), gain=1.0).tolist() == [1.0]


def test_model_errors_spread_values_between_conditions_more_than_noise_does():
    ratios = {}
    for spring in (0.0, 0.1):
        robot, log = draw_log(3, spring)
        estimate = mindyn.LeastSquares().fit(build_rows(robot, log, GIVEN))
        shifts = find_condition_shifts(estimate, estimate.samples_of(log))
        assert len(shifts) == 4
        ratios[spring] = np.median(variances_of_conditions(shifts).mean(axis=0) / estimate.deviations**2)
    assert ratios[0.0] < 3
    assert ratios[0.1] > 10 * ratios[0.0]


def test_a_residual_that_follows_the_position_is_reported_and_noise_is_not():
    robot, log = draw_log(3, 0.1)
    found = [f for f in mindyn.identify(robot, log, mindyn.LeastSquares(), GIVEN).findings if _is_dependent(f)]
    assert len(found) == 1
    assert "position" in found[0].message
    robot, log = draw_log(4)
    assert not any(map(_is_dependent, mindyn.identify(robot, log, mindyn.LeastSquares(), GIVEN).findings))


def _is_dependent(finding):
    return finding.kind is Kind.DEPENDENT_RESIDUAL
