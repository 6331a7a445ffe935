"""Diagnosing a finished fit never loses it: short logs, formulas without a value at rest, constant columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from equations import equations
from estimators.recovered import smooth_samples
from messages import messages

import mindyn
from mindyn.foundation.findings import Kind
from mindyn.identification.uncertainty.systematic_errors import with_systematic_errors
from mindyn.logs.conditioning import AS_LOGGED
from mindyn.logs.log import log_from_arrays
from mindyn.regression.regressor import with_estimated_drives
from mindyn.regression.settings import EquationSettings

ROBOT = with_estimated_drives(mindyn.load_robot("planar2"))
FIXED = mindyn.Conditioning(motion_hz=20.0, delay_s=0.0, edge_s=0.1)


def log_of(samples):
    return log_from_arrays(samples.joint_names, np.arange(len(samples)) / samples.rate_hz, samples.q, samples.tau)


def test_a_fit_survives_segments_too_short_to_diagnose():
    logs = [log_of(smooth_samples(ROBOT, 2000, seed, rate=1000.0)) for seed in range(100)]
    estimate = mindyn.identify(
        ROBOT, logs, mindyn.LeastSquares(), EquationSettings(FIXED, equations_hz=1.5, keep_every=10)
    )
    assert any(str(note).startswith("the intervals include only noise") for note in messages(estimate))


@pytest.mark.parametrize("estimator", [mindyn.LeastSquares(), mindyn.InstrumentalVariables()])
def test_formulas_need_no_value_at_rest(estimator):
    arm = replace(ROBOT, extras=(mindyn.ExtraTorque("mine", "joint1", "qd * log(abs(qd))", 50.0),))
    samples = smooth_samples(arm, 3000)
    assert (samples.qd != 0).all()
    assert mindyn.identify(arm, log_of(samples), estimator, EquationSettings(FIXED)).value("mine") == pytest.approx(
        50.0, rel=0.05
    )


def test_robots_with_mimic_joints_are_diagnosed():
    mimics = (mindyn.robots.Mimic("joint5", "joint4", 0.5),)
    arm = replace(mindyn.load_robot("puma560"), drives=(), mimics=mimics)
    samples = smooth_samples(arm, 3000)
    settings = EquationSettings(FIXED)
    kinds = [f.kind for f in mindyn.identify(arm, log_of(samples), mindyn.LeastSquares(), settings).findings]
    assert not {Kind.NOT_DIAGNOSED, Kind.WRONG_JOINT_ZERO} & set(kinds)
    shifted = replace(samples, q=samples.q + np.array([0.0, 0.4, 0.0, 0.0, 0.0]))
    (zero,) = [
        finding
        for finding in mindyn.identify(arm, log_of(shifted), mindyn.LeastSquares(), settings).findings
        if finding.kind == Kind.WRONG_JOINT_ZERO
    ]
    assert zero.joints == ("joint2",)


def test_a_dead_torque_column_is_not_called_unexplained():
    samples = smooth_samples(ROBOT, 3000)
    dead = replace(samples, tau=samples.tau * np.array([1.0, 0.0]))
    findings = mindyn.identify(ROBOT, log_of(dead), mindyn.LeastSquares(), EquationSettings(FIXED)).findings
    visible = [finding.kind for finding in findings if finding.explained_by is None]
    assert visible == [Kind.CONSTANT_TORQUE]


def test_a_selected_delay_is_reported():
    samples = smooth_samples(ROBOT, 3000)
    late = replace(samples, tau=np.roll(samples.tau, 3, axis=0)).take(slice(10, None))
    estimate = mindyn.identify(ROBOT, log_of(late))
    assert estimate.settings.conditioning.delay_s
    assert any(str(note).startswith("delay of the torque selected by cross-val") for note in messages(estimate))
    assert any("cut at both ends" in str(note) for note in messages(estimate))


def test_segments_of_a_long_log_inflate_intervals_no_more_than_the_log():
    """A fifth of the rows determines the timing less accurately; its noise is not that of the fit."""
    samples = smooth_samples(ROBOT, 20_000, seed=2)
    noise = 0.02 * samples.tau.std(axis=0) * np.random.default_rng(1).standard_normal(samples.tau.shape)
    samples = replace(samples, tau=samples.tau + noise)
    estimate = mindyn.LeastSquares().fit(equations(ROBOT, samples))
    whole = with_systematic_errors(estimate, samples, AS_LOGGED)
    part = with_systematic_errors(estimate, samples.take(slice(0, 4000)), AS_LOGGED, len(samples))
    ratio = (
        part.provenance.notes["systematic"]["timing_deviation_s"]
        / whole.provenance.notes["systematic"]["timing_deviation_s"]
    )
    assert 0.7 < ratio < 1.4
