"""Small pieces of step-by-step fits, loads and wording: speeds of still encoders, onsets, integrals, intervals.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from closeness import EXACT, ORACLE, SAME_ALGEBRA, assert_close
from raising import raises

from mindyn.applications.step_tests.step_rows import (
    SIGN_SPEED,
    MotionRows,
    RowMaker,
    _differentiate,
    _require_both_ways,
    breakaway_onsets,
    find_held_motion,
)
from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.foundation.errors import Code, InputError
from mindyn.identification import WeighedLoad
from mindyn.identification.estimators.estimate_records import JointResidual, read_array, save_array
from mindyn.identification.estimators.fit_summary import (
    data_summary,
    describe_status,
    infinite_variances,
    joint_residuals,
    unexplained_fraction,
)
from mindyn.identification.runs_with_loads import Payload
from mindyn.logs.log import log_from_arrays
from mindyn.logs.log_errors import LogError
from mindyn.motions.step_plans.step_motions import Breakaways
from mindyn.regression.information import Information, triangle_of
from mindyn.regression.integrated import QUADRATURE_ROWS
from mindyn.regression.settings import EquationSettings


def test_a_still_encoder_has_the_direction_of_the_nearest_motion():
    t = np.arange(12.0)
    q = np.array([0.0, 1, 2, 3, 3, 3, 3, 3, 3, 2, 1, 0])[:, None]
    qd = _differentiate(q, t)[:, 0]
    assert qd[[0, 1, 2, 3]].tolist() == [1.0, 1.0, 1.0, 0.5]
    assert qd[8:].tolist() == [-0.5, -1.0, -1.0, -1.0]
    assert_close(qd[4:8] / SIGN_SPEED, [1.0, 1.0, -1.0, -1.0], EXACT)
    odd = _differentiate(np.array([0.0, 1, 2, 2, 2, 2, 1, 0])[:, None], np.arange(8.0))[:, 0]
    assert_close(odd[3:5] / SIGN_SPEED, [1.0, -1.0], EXACT)
    middle = _differentiate(np.array([0.0, 1, 1, 1, 1, 1, 0])[:, None], np.arange(7.0))[:, 0]
    assert middle[3] == 0.0  # as near to the way up as to the way down
    assert not _differentiate(np.ones((5, 1)), np.arange(5.0)).any()


MOTION = SimpleNamespace(name="push", joints=(1,), joint=1)


def test_held_joints_are_at_their_mean_and_do_not_move():
    rng = np.random.default_rng(0)
    t = np.arange(20) / 10
    q = np.column_stack([0.3 + 1e-3 * rng.normal(size=20), np.sin(t)])
    qd, tau = rng.normal(size=(2, 20, 2))
    held_motion = find_held_motion(MOTION, log_from_arrays(("a", "b"), t, q, tau, qd))
    assert_close(held_motion[0], np.column_stack([np.full(20, q[:, 0].mean()), q[:, 1]]), EXACT)
    assert_close(held_motion[1], np.column_stack([np.zeros(20), qd[:, 1]]), EXACT)
    assert_close(held_motion[2], t, EXACT)
    without = find_held_motion(MOTION, log_from_arrays(("a", "b"), t, q, tau))
    assert_close(without[1][:, 1], np.gradient(q[:, 1], t)[1:-1], EXACT)
    assert_close(without[3], tau[1:-1], EXACT)


def test_breakaways_are_where_a_speed_begins():
    qd = np.array([[9.0, v] for v in (0.0, 0.1, 0.2, 0.0, -0.1, -0.1, 0.3)])
    log = log_from_arrays(("a", "b"), np.arange(7.0), qd, qd, qd)
    assert breakaway_onsets(MOTION, log).tolist() == [0, 1, 0, 0, -1, 0, 1]
    with raises(LogError, Code.MISSING_VALUE, "velocity"):
        breakaway_onsets(MOTION, log_from_arrays(("a", "b"), np.arange(7.0), qd, qd))
    _require_both_ways(MOTION, "b", 0.5, 1, 1)
    for counts, text in (((1, 0), "forwards"), ((0, 1), "backwards"), ((0, 0), "in no direction")):
        with raises(LogError, Code.TOO_LITTLE_DATA, "b") as raised:
            _require_both_ways(MOTION, "b", 0.5, *counts)
        assert text in raised.value.message


def test_rows_are_whitened_by_the_weights_of_their_readings():
    rng = np.random.default_rng(1)
    A, z, W, D = rng.normal(size=(3, 4)), rng.normal(size=3), rng.normal(size=(3, 9)), rng.normal(size=(3, 2))
    white_A, white_z, white_D = MotionRows(A, z, W, D).whiten()
    root = np.linalg.cholesky(W @ W.T)
    assert_close(root @ white_A, A, ORACLE)
    assert_close(root @ white_z, z, ORACLE)
    assert_close(root @ white_D, D, ORACLE)


@pytest.mark.parametrize("rule", ["trapezoid", "gregory"])
def test_weights_are_integrals_over_intervals(rule):
    maker = RowMaker(SimpleNamespace(torque=None), rule, 3, 0.0)
    t = np.linspace(1.0, 4.0, 61)
    bounds = np.array([0, 20, 40, 60])
    W = maker._weights(MOTION, t, bounds)
    assert_close(W @ np.ones(61), np.ones(3), SAME_ALGEBRA)
    assert_close(W @ t, [1.5, 2.5, 3.5], SAME_ALGEBRA)
    assert (W[0, 21:] == 0).all()
    fewest = QUADRATURE_ROWS if rule == "gregory" else 3
    just = np.arange(3 * (fewest - 1) + 1.0)
    assert maker._weights(MOTION, just, np.arange(4) * (fewest - 1)).shape == (3, len(just))
    with raises(LogError, Code.TOO_LITTLE_DATA, "push"):
        maker._weights(MOTION, just, np.array([0, fewest - 2, 2 * fewest, 3 * (fewest - 1)]))
    uneven = t.copy()
    uneven[10] += 1e-3 * 0.05 * 2
    if rule == "gregory":
        with raises(LogError, Code.UNSUPPORTED, "push"):
            maker._weights(MOTION, uneven, bounds)
    else:
        assert_close(maker._weights(MOTION, uneven, bounds) @ uneven, [1.5, 2.5, 3.5], SAME_ALGEBRA)


def test_static_rows_are_half_the_sum_of_both_ways():
    maker = RowMaker(
        SimpleNamespace(torque=SimpleNamespace(base=SimpleNamespace(with_drives=True))), "trapezoid", 3, 0.5
    )
    motion = Breakaways("push", (0.0, 0.0), 0, (-1.0, 1.0))
    q = np.array([[-1.0, 0], [-1.0, 0], [1.0, 0], [1.0, 0]])
    qd = np.array([[1e-3, 0], [-1e-3, 0], [1e-3, 0], [-1e-3, 0]])
    wrong = log_from_arrays(("a", "b"), np.arange(4.0), q, np.array([[0.0, 0], [0.6, 0], [5, 0], [3, 0]]), qd)
    with raises(LogError, Code.DISAGREEMENT, "a"):
        maker.rows(motion, wrong, 0)


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


def test_the_status_of_fits_summarizes_their_data():
    result, _ = information()
    assert data_summary(result, EquationSettings()) == "50 equations (30 samples of 2 joints)"
    message = data_summary(result, EquationSettings(None, 5.0, 4))
    assert message == "50 equations (30 samples of 2 joints, low-passed at 5 Hz, one of 4 kept)"
    item = Information(("x",), result.names, result.columns[:1], result.factors[:1], (30,))
    assert data_summary(item, EquationSettings()) == "30 equations (30 samples of 1 joint)"
    assert describe_status(["a", "b"], []) == "a; b."
    assert describe_status(["a"], ["x", "y"]) == "a; the data do not determine some combinations of: x, y."


def test_what_is_unidentifiable_has_an_infinite_variance_alone():
    C = np.array([[2.0, 0.5], [0.5, 1.0]])
    assert infinite_variances(C, ["a", "b"], ["b"]).tolist() == [[2.0, 0.5], [0.5, np.inf]]
    saved = save_array(infinite_variances(C, ["a", "b"], ["a"]))
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
