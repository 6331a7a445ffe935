"""Friction that drifts through a log and a joint whose torque is scaled are named with their size; nothing else is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from identification.test_candidates import recorded

import mindyn
from mindyn.identification.one_more_column import _added, drift_doubts, gain_doubts
from mindyn.regression.rows import rows_of

SETTINGS = mindyn.Treatment(
    mindyn.Conditioning(position_cutoff_hz=None, delay_s=0.0), friction=mindyn.Friction("tanh", 0.05)
)


@pytest.fixture(scope="module")
def arm():
    return replace(mindyn.load_robot("planar2"), drives=(), extras=())


@pytest.fixture(scope="module")
def log(arm):
    """A motion that never repeats, with friction of a tenth of each torque."""
    return recorded(arm, 30.0, 23.0, noise=0.01)


def said(doubts, arm, *logs):
    rows = rows_of(arm, list(logs), SETTINGS)
    return doubts(mindyn.LeastSquares().fit(rows), rows.evidence if doubts is gain_doubts else rows.blocks)


def drifted(log, part, joints=(0, 1)):
    """Friction that has fallen by `part` of its mean from the beginning of the log to its end."""
    friction = 0.1 * np.sqrt((log.tau**2).mean(axis=0)) * np.tanh(log.qd / 0.05)
    ramp = part * (0.5 - np.linspace(0, 1, len(log)))[:, None]
    tau = log.tau.copy()
    tau[:, joints] += (ramp * friction)[:, joints]
    return replace(log, tau=tau)


def scaled(log, factor, joint=1):
    return replace(log, tau=log.tau * np.where(np.arange(log.tau.shape[1]) == joint, factor, 1.0))


def test_friction_that_falls_is_named_with_its_size_and_joints(arm, log):
    (sentence,) = said(drift_doubts, arm, drifted(log, 0.3))
    assert sentence.startswith("friction falls by ")
    assert float(sentence.split("by ")[1].split(" %")[0]) == pytest.approx(30, abs=4)
    assert "joint1 -" in sentence
    assert "joint2 -" in sentence
    (sentence,) = said(drift_doubts, arm, drifted(log, -0.3))
    assert sentence.startswith("friction rises by ")
    assert "warm" not in sentence


def test_drift_goes_on_through_several_logs(arm, log):
    whole = drifted(log, 0.3)
    (sentence,) = said(drift_doubts, arm, whole.take(slice(0, 1500)), whole.take(slice(1500, None)))
    assert float(sentence.split("by ")[1].split(" %")[0]) == pytest.approx(30, abs=4)


def test_a_torque_that_is_scaled_is_named_with_its_factor(arm, log):
    (sentence,) = said(gain_doubts, arm, scaled(log, 1.25))
    assert "joint2 (" in sentence or "joint joint2 is" in sentence
    sizes = [float(part.split(" %")[0].split()[-1].lstrip("(")) for part in sentence.split(" than")[0:1]]
    assert sizes[0] == pytest.approx(25, abs=6)


def test_a_scaled_torque_is_no_drift_and_a_drift_no_scale(arm, log):
    assert said(drift_doubts, arm, scaled(log, 1.25)) == []
    assert said(gain_doubts, arm, drifted(log, 0.3)) == []


def test_sound_logs_are_not_doubted(arm, log):
    for seed in range(3):
        sound = log if seed == 0 else recorded(arm, 20.0, 19.0, noise=0.02, seed=seed)
        assert said(drift_doubts, arm, sound) + said(gain_doubts, arm, sound) == []
    repeated = recorded(arm, 20.0, 4.0, noise=0.02, seed=4)
    assert said(drift_doubts, arm, repeated) + said(gain_doubts, arm, repeated) == []
    # Factors on all torques are other masses.
    assert said(gain_doubts, arm, replace(log, tau=1.25 * log.tau)) == []


def test_few_blocks_and_fits_without_weights_say_nothing(arm, log):
    rows = rows_of(arm, [scaled(drifted(log, 0.3), 1.25)], SETTINGS)
    found = mindyn.LeastSquares().fit(rows)
    few = rows.blocks[:5]
    assert drift_doubts(found, few) + gain_doubts(found, few) == []
    bare = replace(found, joint_weights=None)
    assert drift_doubts(bare, rows.blocks) + gain_doubts(bare, rows.blocks) == []


def test_coefficients_and_deviations_are_those_of_fits_with_the_column(arm, log):
    rows = rows_of(arm, [scaled(log, 1.1)], SETTINGS)
    found = mindyn.LeastSquares().fit(rows)
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(len(found.beta), 2))
    made = _added(found, rows.blocks, lambda number, R: (number + 1) * (R @ mixed))
    parts = [block.information.stacked(found.joint_weights) for block in rows.blocks]

    def coefficient(column, without=None):
        taken = [(k, *part) for k, part in enumerate(parts) if k != without]
        Y = np.vstack([np.column_stack([R, (k + 1) * (R @ mixed[:, column])]) for k, R, _ in taken])
        return np.linalg.lstsq(Y, np.concatenate([z for _, _, z in taken]), rcond=None)[0][-1]

    m = len(parts)
    for column, one in enumerate(made):
        whole = coefficient(column)
        apart = np.array([coefficient(column, k) - whole for k in range(m)])
        assert_close(one.value, whole, 1e5 * SAME_ALGEBRA)
        assert_close(one.deviation, np.sqrt((m - 1) / m * (apart**2).sum()), 1e6 * SAME_ALGEBRA)
    assert _added(found, rows.blocks, lambda _, R: R @ mixed) == [None, None]  # nothing that the fit has not
