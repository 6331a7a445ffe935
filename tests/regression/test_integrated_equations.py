"""Integrated equations: intervals, quadratures and right sides equal sums, and hold for the values of a motion.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import EXACT, ORACLE, SAME_ALGEBRA, assert_close
from raising import raises

from mindyn.foundation.errors import Code, InputError
from mindyn.logs.samples import Samples
from mindyn.regression.integrated import (
    QUADRATURE_ROWS,
    IntegratedRegressor,
    Integration,
    _torque_integral,
    intervals,
    quadrature_weights,
    reversals,
)
from mindyn.regression.regressor import Regressor
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Drive


def samples_of(rows, joints=2, segments=None, rate_hz=100.0, seed=0):
    arrays = np.random.default_rng(seed).normal(size=(4, rows, joints))
    numbers = np.zeros(rows, dtype=np.int64) if segments is None else np.asarray(segments)
    return Samples(("a", "b")[:joints], *arrays, rate_hz, numbers)


@pytest.mark.parametrize(
    ("given", "code", "subject"),
    [
        ({"form": "power"}, Code.UNKNOWN_NAME, "form"),
        ({"reversals": "never"}, Code.UNKNOWN_NAME, "reversals"),
        ({"torque": "late"}, Code.UNKNOWN_NAME, "torque"),
        ({"interval_s": 0.0}, Code.OUT_OF_RANGE, "interval_s"),
        ({"interval_s": -1.0}, Code.OUT_OF_RANGE, "interval_s"),
        ({"interval_s": float("inf")}, Code.OUT_OF_RANGE, "interval_s"),
        ({"torque": "held", "reversals": "within"}, Code.DISAGREEMENT, "reversals"),
    ],
)
def test_integrations_that_make_no_sense_are_rejected(given, code, subject):
    with raises(InputError, code, subject):
        Integration(**given)
    usual = Integration()
    assert (usual.form, usual.interval_s, usual.reversals, usual.torque) == ("energy", 0.2, "avoid", "sampled")
    assert Integration(torque="held").reversals == "avoid"


class Frictions:
    """Speeds of friction as given."""

    def __init__(self, speeds):
        self.speeds = np.asarray(speeds)

    def positions(self, samples, taken=slice(None)):
        return samples.q[taken]

    def friction_speeds(self, _q, _qd):
        return self.speeds


def test_intervals_have_as_many_rows_as_their_seconds():
    samples = samples_of(41)
    steady = Frictions(np.ones((41, 1)))
    result = Integration(interval_s=0.1).intervals(steady, samples)
    assert [(item.start, item.stop) for item in result] == [(0, 11), (10, 21), (20, 31), (30, 41)]
    Integration(interval_s=0.09).intervals(steady, samples)
    with raises(InputError, Code.OUT_OF_RANGE, "interval_s"):
        Integration(interval_s=0.08).intervals(steady, samples)
    turning = Frictions(np.where(np.arange(41) < 20, 1.0, -1.0)[:, None])
    assert [
        (interval.start, interval.stop) for interval in Integration(interval_s=0.4).intervals(turning, samples)
    ] == [
        (0, 20),
        (20, 41),
    ]
    within = Integration(interval_s=0.4, reversals="within").intervals(turning, samples)
    assert [(item.start, item.stop) for item in within] == [(0, 41)]


def test_friction_reverses_where_a_speed_changes_sign_or_rests():
    speeds = np.array([[1.0, 2.0], [1.0, 1.0], [-1.0, 1.0], [-1.0, 0.0], [-1.0, 0.0], [-1.0, 3.0], [-2.0, 3.0]])
    result = reversals(Frictions(speeds), samples_of(7))
    assert result.tolist() == [False, False, True, True, True, True, False]


def test_segments_are_cut_into_equal_pieces_that_share_a_row():
    samples = samples_of(60, segments=np.repeat([0, 1], [25, 35]))
    breaks = np.zeros(60, dtype=bool)
    breaks[[25, 45]] = True  # the first is the beginning of a segment anyway
    result = [(interval.start, interval.stop) for interval in intervals(samples, breaks, 13)]
    assert result == [(0, 13), (12, 25), (25, 35), (34, 45)]  # 15 rows are two pieces of 8: too short
    short = [(interval.start, interval.stop) for interval in intervals(samples_of(9), np.zeros(9, dtype=bool), 13)]
    assert short == []
    assert [
        (interval.start, interval.stop) for interval in intervals(samples_of(10), np.zeros(10, dtype=bool), 13)
    ] == [(0, 10)]


def test_weights_of_gregory_integrate_polynomials_of_degree_five():
    assert QUADRATURE_ROWS == 10
    for rows in (10, 11, 23):
        weights, x = quadrature_weights(rows), np.arange(rows) / (rows - 1)
        assert_close(weights, weights[::-1], SAME_ALGEBRA)
        for degree in range(6):
            assert_close(weights @ x**degree / (rows - 1), 1 / (degree + 1), ORACLE)


def test_right_sides_are_integrals_of_torque_and_power():
    samples, taken = samples_of(30), slice(5, 16)
    weights = quadrature_weights(11) / 100
    tau, q, qd = samples.tau[taken], samples.q[taken], samples.qd[taken]
    impulse = [sum(weights[k] * tau[k, j] for k in range(11)) for j in range(2)]
    work = sum(weights[k] * tau[k, j] * qd[k, j] for k in range(11) for j in range(2))
    assert_close(_torque_integral(samples, taken, weights, "momentum", "sampled"), impulse, SAME_ALGEBRA)
    assert_close(_torque_integral(samples, taken, weights, "energy", "sampled"), [work], SAME_ALGEBRA)
    held = [sum(tau[k, j] / 100 for k in range(10)) for j in range(2)]
    done = sum(tau[k, j] * (q[k + 1, j] - q[k, j]) for k in range(10) for j in range(2))
    assert_close(_torque_integral(samples, taken, weights, "momentum", "held"), held, SAME_ALGEBRA)
    assert_close(_torque_integral(samples, taken, weights, "energy", "held"), [done], SAME_ALGEBRA)


@pytest.fixture(scope="module")
def swinging():
    """The planar arm with drives on a smooth motion, its torque by its own regressor and some values."""
    robot = load_robot("planar2")
    regressor = Regressor(replace(robot, drives=tuple(Drive(name) for name in robot.joint_names)))
    t = np.arange(120) / 200
    q = np.column_stack([0.3 + 2.0 * t + 0.1 * np.sin(3 * t), -0.2 - 1.5 * t + 0.2 * np.cos(2 * t)])
    qd = np.column_stack([2.0 + 0.3 * np.cos(3 * t), -1.5 - 0.4 * np.sin(2 * t)])
    qdd = np.column_stack([-0.9 * np.sin(3 * t), -0.8 * np.cos(2 * t)])
    beta = np.random.default_rng(3).uniform(0.5, 2.0, regressor.count)
    tau = regressor.dense(regressor.parts(q, qd, qdd)) @ beta
    samples = Samples(robot.joint_names, q, qd, qdd, tau, 200.0, np.zeros(120, dtype=np.int64))
    return regressor, samples, beta


@pytest.mark.parametrize("form", ["momentum", "energy"])
def test_a_row_holds_for_the_values_of_the_motion(swinging, form):
    regressor, samples, beta = swinging
    created = IntegratedRegressor.of(regressor, form)
    taken = slice(20, 61)
    row = created.row(samples, taken, None, "sampled")
    names, columns = created.of_rows
    assert len(row) == len(names) == len(columns)
    weights = quadrature_weights(41) / 40
    tau, qd = samples.tau[taken], samples.qd[taken]
    mean = weights @ tau if form == "momentum" else [weights @ (tau * qd).sum(axis=1)]
    assert_close(row[:, -1], mean, ORACLE)
    assert_close(row[:, :-1] @ beta, row[:, -1], 1e-8)
    held = created.row(samples, taken, None, "held")
    assert_close(held[:, :-1], row[:, :-1], EXACT)
    assert np.abs(held[:, -1] - row[:, -1]).max() > 1e-6
