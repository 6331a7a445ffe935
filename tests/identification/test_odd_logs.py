"""Logs that are short, dead at a joint or stamped twice: an estimate that can be saved, or an error of ours."""

from __future__ import annotations

import numpy as np
import pytest

import mindyn
from mindyn.identification.trials import Score
from mindyn.logs.findings import LogError

ARM = mindyn.load_robot("planar2")


def logged(rows, rate_hz, *, torque=(1.0, 1.0), stamps=None):
    t = np.arange(rows) / rate_hz
    q = np.column_stack([np.sin(2.0 * t) + 0.4 * np.sin(5.1 * t), np.cos(3.3 * t) + 0.3 * np.sin(1.1 * t)])
    qd, qdd = (np.gradient(q, t, axis=0), np.gradient(np.gradient(q, t, axis=0), t, axis=0))
    tau = mindyn.compile_model(ARM).inverse_dynamics(q, qd, qdd) * np.asarray(torque)
    noise = np.random.default_rng(1).normal(scale=1e-3, size=q.shape) * np.asarray(torque)
    return mindyn.log_of_arrays(ARM.primary_names, t if stamps is None else stamps(t), q, tau + noise)


def reloaded(estimate, tmp_path):
    estimate.save(tmp_path / "estimate.json")
    return mindyn.load_estimate(tmp_path / "estimate.json")


def test_a_log_too_short_to_choose_settings_is_said_to_be_and_its_estimate_loads(tmp_path):
    found = mindyn.identify(ARM, [logged(30, 20.0)])
    assert found.cross_validated is None
    assert any("too short to choose" in str(note) for note in found.notes)
    assert not any("by cross-validation" in str(note) for note in found.notes)
    assert np.array_equal(reloaded(found, tmp_path).beta, found.beta)


def test_settings_are_chosen_by_the_joints_that_have_torque(tmp_path):
    found = mindyn.identify(ARM, [logged(1500, 100.0, torque=(1.0, 0.0))])
    assert found.cross_validated is not None
    assert 0 < found.cross_validated.mean < 1
    assert np.array_equal(reloaded(found, tmp_path).beta, found.beta)


def test_scores_leave_out_joints_without_torque():
    score = Score.of(np.array([4.0, 1.0, 9.0]), np.array([16.0, 0.0, 36.0]))
    assert score.mean == pytest.approx(0.5)
    assert score.total == pytest.approx(np.sqrt(13 / 52))
    assert np.isinf(Score.of(np.ones(2), np.zeros(2)).criterion)


def test_arrays_are_cleaned_as_files_are():
    log = logged(400, 100.0, stamps=lambda t: np.where(t == t[200], t[199], t))
    assert len(log) == 399
    assert 200 not in log.rows
    assert log.notes == ("1 of 400 rows of the log repeat the stamp before them; left out",)
    with pytest.raises(LogError, match="time goes back by 0.02 s at row 200"):
        logged(400, 100.0, stamps=lambda t: np.where(t == t[200], t[197], t))


def test_rows_of_arrays_that_are_no_numbers_are_left_out():
    log = logged(400, 100.0)
    tau = np.array(log.tau)
    tau[7, 1] = np.nan
    made = mindyn.log_of_arrays(ARM.primary_names, log.time, log.q, tau, name="bench")
    assert 7 not in made.rows
    assert made.notes == (
        "1 of 400 rows of bench hold NaN, infinity or more than 1e+30: torque of joint2 (1); left out",
    )
