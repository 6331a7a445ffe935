"""Deviations, correlations and intervals of an estimate follow from its covariance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import EXACT, ORACLE, SAME_ALGEBRA, assert_close
from raising import raises

from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimate_parts import FitData, ParameterValues, Provenance, Uncertainty
from mindyn.identification.estimators.estimate_records import JackknifeDeviation, JointResidual, Physical
from mindyn.regression.regressor import Regressor
from mindyn.regression.settings import EquationSettings
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Drive


@pytest.fixture(scope="module")
def regressor():
    robot = load_robot("planar2")
    return Regressor(replace(robot, drives=tuple(Drive(name) for name in robot.joint_names)))


def build_estimate(regressor, **fields):
    p = regressor.count
    root = np.random.default_rng(0).normal(size=(p, p))
    residuals = tuple(JointResidual(name, 100, 0.1, 2.0) for name in regressor.joint_names)
    given = {"covariance": root @ root.T, "beta": np.arange(1.0, p + 1), **fields}
    values, uncertainty = (
        kind(**{field: given[field] for field in kind.__dataclass_fields__ if field in given})
        for kind in (ParameterValues, Uncertainty)
    )
    return Estimate(regressor, values, uncertainty, FitData(EquationSettings(), residuals), Provenance())


def test_deviations_correlations_and_half_widths_follow_the_covariance(regressor):
    result = build_estimate(regressor)
    C = result.covariance
    assert_close(result.deviations, np.sqrt(np.diag(C)), EXACT)
    assert_close(result.uncertainty.correlations, C / np.outer(result.deviations, result.deviations), SAME_ALGEBRA)
    open_one = C.copy()
    open_one[1, 1], open_one[2] = np.inf, 0.0
    open_one[:, 2] = 0.0
    loose = build_estimate(
        regressor, covariance=open_one, unidentifiable=(regressor.names[1],), dropped=(regressor.names[2],)
    )
    assert not loose.uncertainty.correlations[[1, 2]].any()
    assert_close(loose.uncertainty.correlations[0, 0], 1.0, SAME_ALGEBRA)
    rows = np.eye(regressor.count)[[0, 1]] * 2
    expected = 1.959963984540054 * 2 * np.sqrt(C[0, 0])
    assert_close(loose.uncertainty.half_widths_of(rows)[0], expected, SAME_ALGEBRA)
    assert loose.uncertainty.half_widths_of(rows)[1] == np.inf
    ends = loose.intervals
    assert np.isnan(ends[:, [1, 2]]).all()
    assert_close(ends[:, 0], [1 - expected / 2, 1 + expected / 2], SAME_ALGEBRA)
    both = np.zeros((1, regressor.count))
    both[0, [0, 3]] = [1.0, -2.0]
    variance = C[0, 0] + 4 * C[3, 3] - 4 * C[0, 3]
    assert_close(result.uncertainty.half_widths_of(both), [1.959963984540054 * np.sqrt(variance)], SAME_ALGEBRA)


def test_intervals_of_noise_alone_exclude_blocks_and_shifts(regressor):
    p = regressor.count
    shifts = np.random.default_rng(1).normal(size=(2, p))
    blocks = JackknifeDeviation(9, False, np.full(p, 9.0), np.full(p, 2.0))
    plain = build_estimate(regressor).covariance
    whole = build_estimate(regressor, covariance=plain * 4 + shifts.T @ shifts, shifts=shifts, jackknife=blocks)
    alone = whole.by_noise_alone()
    assert_close(alone.covariance, plain, ORACLE)
    assert alone.uncertainty.shifts is None
    assert alone.uncertainty.jackknife is None
    assert_close(
        whole.uncertainty.half_widths / whole.deviations, np.full(p, 2.306004135), 1e-8
    )  # Student's, 8 degrees
    assert_close(whole.uncertainty.quantile, 2.306004135, 1e-8)
    few = replace(blocks, significant=np.full(p, 2.9), count=2)
    assert_close(few.quantiles, np.full(p, 1.959963984540054), ORACLE)
    assert_close(replace(blocks, significant=np.full(p, 3.0)).quantiles, np.full(p, 4.302652730), 1e-8)
    assert_close(few.quantile, 12.70620474, 1e-8)
    assert JackknifeDeviation.from_dict(blocks.to_dict()).to_dict() == blocks.to_dict()


def test_ends_of_physical_values_go_before_those_of_the_covariance(regressor):
    p = regressor.count
    ends = np.stack([np.zeros(p), np.full(p, 9.0)])
    ends[0, 3] = np.nan
    held = Physical((), np.zeros(0), np.zeros(p), ends=ends)
    result = build_estimate(regressor, physical=held)
    assert result.values.is_constrained
    assert result.intervals[:, 0].tolist() == [0.0, 9.0]
    assert np.isnan(result.intervals[:, 3]).all()
    assert result.values.physical.ends[1, 3] == 9.0  # what it holds is not changed
    again = Physical.from_dict(held.to_dict())
    assert np.array_equal(again.ends, ends, equal_nan=True)
    assert again.prior_fractions is None


def test_values_by_name_and_states_of_any_shape(regressor):
    result = build_estimate(regressor)
    assert result.value(regressor.names[2]) == 3.0
    with raises(InputError, Code.UNKNOWN_NAME, "nothing"):
        result.value("nothing")
    rng = np.random.default_rng(3)
    q, qd, qdd = rng.normal(size=(3, 4, 3, 2))
    flat = [item.reshape(-1, 2) for item in (q, qd, qdd)]
    dense = regressor.dense(regressor.parts(*flat)) @ result.beta
    assert_close(result.predict(q, qd, qdd), dense.reshape(4, 3, 2), ORACLE)
    with raises(InputError, Code.MISSING_VALUE):
        result.predict(q, qd)
    with raises(InputError, Code.WRONG_SHAPE, "q"):
        result.predict(q[..., :1], qd[..., :1], qdd[..., :1])
    with raises(InputError, Code.MISSING_VALUE, "conditioning"):
        result.samples_of(None)
