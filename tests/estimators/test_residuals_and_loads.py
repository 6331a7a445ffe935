"""Residuals of joints, intervals of loads and infinite variances equal sums and formulas."""

from __future__ import annotations

import numpy as np
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from raising import raises

from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.json_values import to_json_value
from mindyn.identification import WeighedLoad
from mindyn.identification.estimators.estimate_records import JointResidual, read_array
from mindyn.identification.estimators.fit_summary import infinite_variances, joint_residuals, unexplained_fraction
from mindyn.identification.runs_with_loads import Payload
from mindyn.regression.information import Information, triangle_of


def information():
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(30, 3)), 5 * rng.normal(size=(20, 3))]
    columns = (np.array([0, 1]), np.array([0, 1]))
    return Information(("x", "y"), ("a", "b"), columns, tuple(map(triangle_of, rows)), (30, 20)), rows


def test_residuals_of_joints_are_root_means():
    result, rows = information()
    beta = np.array([0.2, -0.1])
    created = joint_residuals(result, beta, (0.5, None))
    for item, data in zip(created, rows, strict=True):
        e = data[:, :2] @ beta - data[:, 2]
        assert_close(item.rms, np.sqrt(np.mean(e**2)), SAME_ALGEBRA)
        assert_close(item.rms_torque, np.sqrt(np.mean(data[:, 2] ** 2)), SAME_ALGEBRA)
    assert [(item.joint, item.rows, item.correlation) for item in created] == [("x", 30, 0.5), ("y", 20, None)]
    assert [residual.correlation for residual in joint_residuals(result, beta)] == [None, None]
    assert_close(
        unexplained_fraction([JointResidual("x", 3, 1.0, 2.0), JointResidual("y", 1, 3.0, 6.0)]), 0.5, SAME_ALGEBRA
    )
    assert unexplained_fraction([JointResidual("x", 3, 0.0, 0.0)]) == 0.0


def test_what_is_unidentifiable_has_an_infinite_variance_alone():
    C = np.array([[2.0, 0.5], [0.5, 1.0]])
    assert infinite_variances(C, ["a", "b"], ["b"]).tolist() == [[2.0, 0.5], [0.5, np.inf]]
    saved = to_json_value(infinite_variances(C, ["a", "b"], ["a"]))
    assert saved == [[None, 0.5], [0.5, 1.0]]
    assert read_array(saved).tolist() == [[np.inf, 0.5], [0.5, 1.0]]


def test_a_load_has_a_mass_a_centre_and_intervals():
    phi = phi_about_origin(2.0, np.array([0.1, -0.2, 0.3]), np.diag([0.01, 0.02, 0.025]))
    C = np.diag([0.04, 0.01, 0.01, 0.01, *[1e-4] * 6])
    load = Payload("hand", phi, C, (), 2.0)
    assert load.mass == 2.0
    assert_close(load.centre, [0.1, -0.2, 0.3], SAME_ALGEBRA)
    assert_close(load.inertia_about_centre, np.diag([0.01, 0.02, 0.025]), ORACLE)
    assert_close(load.half_widths[:2], [0.4, 0.2], SAME_ALGEBRA)
    assert_close(load.mass_interval, [1.6, 2.4], SAME_ALGEBRA)
    # c = mc / m: its variance is (var(mc) + c^2 var(m)) / m^2.
    expected = 2.0 * np.sqrt((0.01 + np.array([0.01, 0.04, 0.09]) * 0.04) / 4)
    assert_close(load.centre_half_widths, expected, SAME_ALGEBRA)
    held = Payload("hand", phi, C, (), 2.0, (), np.array([3.0, *[0.0] * 9]))
    assert_close(held.mass_interval, [2.6, 3.4], SAME_ALGEBRA)


def test_gains_need_a_positive_mass():
    for mass in (0.0, -1.0, np.nan, np.inf):
        with raises(InputError, Code.OUT_OF_RANGE, "mass"):
            WeighedLoad([], mass)
