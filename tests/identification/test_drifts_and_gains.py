"""Friction that drifts through a log and a joint whose torque is scaled are named with their size; nothing else is.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from identification.diagnosed import diagnostic_data
from identification.test_candidates import record_log

import mindyn
from mindyn.foundation.findings import Kind
from mindyn.identification.diagnostics import torque_signals
from mindyn.identification.diagnostics.diagnose import diagnose
from mindyn.identification.uncertainty.added_columns import Coefficient, fit_added_columns

SETTINGS = mindyn.EquationSettings(
    mindyn.Conditioning(motion_hz=None, delay_s=0.0), friction=mindyn.Friction("tanh", 0.05)
)


@pytest.fixture(scope="module")
def arm():
    return replace(mindyn.load_robot("planar2"), drives=(), extras=())


@pytest.fixture(scope="module")
def log(arm):
    """A motion that never repeats, with friction of a tenth of each torque."""
    return record_log(arm, 30.0, 23.0, noise=0.01)


def diagnosed(kind, arm, *logs, **changes):
    return [
        item for item in torque_signals.run(diagnostic_data(arm, list(logs), SETTINGS, **changes)) if item.kind == kind
    ]


def add_drift(log, part, joints=(0, 1)):
    """Friction that has fallen by `part` of its mean from the beginning of the log to its end."""
    friction = 0.1 * np.sqrt((log.tau**2).mean(axis=0)) * np.tanh(log.qd / 0.05)
    ramp = part * (0.5 - np.linspace(0, 1, len(log)))[:, None]
    tau = log.tau.copy()
    tau[:, joints] += (ramp * friction)[:, joints]
    return replace(log, tau=tau)


def scale_torque(log, factor, joint=1):
    return replace(log, tau=log.tau * np.where(np.arange(log.tau.shape[1]) == joint, factor, 1.0))


def test_friction_that_falls_is_named_with_its_size_and_joints(arm, log):
    (result,) = diagnosed(Kind.FRICTION_DRIFT, arm, add_drift(log, 0.3))
    assert result.value == pytest.approx(-0.3, abs=0.04)
    assert result.joints == ("joint1", "joint2")
    (result,) = diagnosed(Kind.FRICTION_DRIFT, arm, add_drift(log, -0.3))
    assert result.value == pytest.approx(0.3, abs=0.04)
    assert "warm" not in result.message


def test_drift_goes_on_through_several_logs(arm, log):
    whole = add_drift(log, 0.3)
    (result,) = diagnosed(Kind.FRICTION_DRIFT, arm, whole.take(slice(0, 1500)), whole.take(slice(1500, None)))
    assert result.value == pytest.approx(-0.3, abs=0.04)


def test_a_torque_that_is_scaled_is_named_with_its_factor(arm, log):
    (result,) = diagnosed(Kind.SCALED_TORQUE, arm, scale_torque(log, 1.25))
    assert "joint2" in result.joints
    assert abs(result.value - 1) == pytest.approx(0.25, abs=0.06)


def test_more_than_a_hundred_percent_less_is_the_opposite_sign(arm, log, monkeypatch):
    """A factor of 1 - 2.06 is negative, however it was found; no joint is named twice."""

    coefficients = [Coefficient(0.02, 0.1, 0.1), Coefficient(-2.06, 0.01, 9.0)]
    monkeypatch.setattr(torque_signals, "fit_added_columns", lambda *_: coefficients)
    (result,) = torque_signals._find_scaled(diagnostic_data(arm, [log], SETTINGS))
    assert (result.kind, result.joints) == (Kind.WRONG_TORQUE_SIGN, ("joint2",))
    assert result.value == pytest.approx(-1.06)
    monkeypatch.setattr(torque_signals, "_find_wrong_signs", lambda _: iter([replace(result, message="first")]))
    monkeypatch.setattr(torque_signals, "_find_friction_drift", lambda _: iter(()))
    findings = diagnose(diagnostic_data(arm, [log], SETTINGS))
    assert [finding.message for finding in findings if finding.kind == Kind.WRONG_TORQUE_SIGN] == ["first"]


def test_a_scaled_torque_is_not_a_drift_and_a_drift_is_not_a_scale(arm, log):
    assert diagnosed(Kind.FRICTION_DRIFT, arm, scale_torque(log, 1.25)) == []
    assert diagnosed(Kind.SCALED_TORQUE, arm, add_drift(log, 0.3)) == []


def test_sound_logs_are_not_questioned(arm, log):
    for seed in range(3):
        sound = log if seed == 0 else record_log(arm, 20.0, 19.0, noise=0.02, seed=seed)
        assert diagnosed(Kind.FRICTION_DRIFT, arm, sound) + diagnosed(Kind.SCALED_TORQUE, arm, sound) == []
    repeated = record_log(arm, 20.0, 4.0, noise=0.02, seed=4)
    assert diagnosed(Kind.FRICTION_DRIFT, arm, repeated) + diagnosed(Kind.SCALED_TORQUE, arm, repeated) == []
    # Factors on all torques are other masses.
    assert diagnosed(Kind.SCALED_TORQUE, arm, replace(log, tau=1.25 * log.tau)) == []


@pytest.mark.parametrize("kind", [Kind.FRICTION_DRIFT, Kind.SCALED_TORQUE])
def test_few_blocks_and_fits_without_weights_say_nothing(arm, log, kind):
    spoiled = scale_torque(add_drift(log, 0.3), 1.25)
    blocks = diagnostic_data(arm, spoiled, SETTINGS).blocks[:5]
    assert diagnosed(kind, arm, spoiled, blocks=blocks, independent_blocks=blocks) == []
    assert diagnosed(kind, arm, spoiled, blocks=[], independent_blocks=[]) == []
    data = diagnostic_data(arm, spoiled, SETTINGS)
    data.estimate = data.estimate.with_data(joint_weights=None)
    assert data.blocks == data.independent_blocks == []


def test_coefficients_and_deviations_are_those_of_fits_with_the_column(arm, log):
    data = diagnostic_data(arm, scale_torque(log, 1.1), SETTINGS)
    rows, result = data.rows, data.estimate
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(len(result.beta), 2))
    created = fit_added_columns(data.estimate, rows.blocks, lambda number, R: (number + 1) * (R @ mixed))
    parts = [block.information.stacked(result.data.joint_weights) for block in rows.blocks]

    def coefficient(column, without=None):
        taken = [(k, *part) for k, part in enumerate(parts) if k != without]
        Y = np.vstack([np.column_stack([R, (k + 1) * (R @ mixed[:, column])]) for k, R, _ in taken])
        return np.linalg.lstsq(Y, np.concatenate([z for _, _, z in taken]), rcond=None)[0][-1]

    m = len(parts)
    for column, item in enumerate(created):
        whole = coefficient(column)
        apart = np.array([coefficient(column, k) - whole for k in range(m)])
        assert_close(item.value, whole, 1e5 * SAME_ALGEBRA)
        assert_close(item.deviation, np.sqrt((m - 1) / m * (apart**2).sum()), 1e6 * SAME_ALGEBRA)
    assert fit_added_columns(data.estimate, rows.blocks, lambda _, R: R @ mixed) == [
        None,
        None,
    ]  # nothing that the fit has not
