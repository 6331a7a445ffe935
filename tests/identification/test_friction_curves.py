"""Friction curves: averages over laws, bands between recordings, drift, directions driven."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from honesty.arms import FRICTION_WIDTH_RAD_S, Recording, motion, random_arm, torque

import mindyn
from mindyn.identification import METHODS
from mindyn.identification.estimators.estimate import load_estimate
from mindyn.identification.estimators.estimate_records import FrictionCurve
from mindyn.identification.prediction.friction_curves import friction_curve
from mindyn.logs.log import log_from_arrays
from mindyn.output.report.report_data import collect_report_data
from mindyn.output.report.torque_sections import friction_section
from mindyn.regression.friction import Friction
from mindyn.regression.settings import EquationSettings

PLAIN = mindyn.LeastSquares(covariance="correlated")
GIVEN = EquationSettings(mindyn.Conditioning(motion_hz=10.0), friction=Friction("tanh", FRICTION_WIDTH_RAD_S))
HOW = Recording(noise=0.02)


@pytest.fixture(scope="module")
def arm():
    return random_arm(3, 2)


def record_log(arm, seed, further=lambda qd, _: 0 * qd):
    """Log of a motion with further friction."""
    t, q, qd, qdd = motion(arm, HOW, seed)
    tau = torque(arm, q, qd, qdd) + further(qd, t[:, None])
    tau += HOW.noise * tau.std(axis=0) * np.random.default_rng(seed).normal(size=tau.shape)
    return log_from_arrays(arm.joint_names, t, q, tau, qd)


def identify(arm, log):
    return mindyn.identify(replace(arm, drives=()), log, PLAIN, GIVEN)


def true_curve(arm, curve):
    drive = arm.drives[arm.joint_names.index(curve.joint)]
    return drive.viscous * curve.speed + drive.coulomb * np.tanh(curve.speed / FRICTION_WIDTH_RAD_S)


def test_the_curve_is_the_mean_of_fits_with_each_law(arm):
    """Each law is fitted again by itself, as a user would."""
    log = record_log(arm, 1)
    estimate = identify(arm, log)
    curve = estimate.uncertainty.friction_curves[1]
    assert sum(curve.laws.values()) == pytest.approx(1.0)
    torques = []
    for law, probability in curve.laws.items():
        shapes = () if law == "plain" else tuple(law.split(", "))
        reference = tuple(estimate.base_values.tolist()) if "load" in shapes else ()
        others = tuple((arm.joint_names[0], shape) for shape in shapes)
        friction = Friction("tanh", FRICTION_WIDTH_RAD_S, shapes, reference=reference, without=others)
        alone = mindyn.identify(replace(arm, drives=()), log, PLAIN, replace(GIVEN, friction=friction))
        torques.append(probability * friction_curve(alone, 1, curve.speed, curve.load).torque)
    assert (np.abs(sum(torques) - curve.torque) < 0.05 * curve.half_width).all()


def test_bands_hold_the_true_curve_and_that_of_another_recording(arm):
    first, second = (identify(arm, record_log(arm, seed)) for seed in (1, 2))
    inside = []
    for curve, other in zip(first.uncertainty.friction_curves, second.uncertainty.friction_curves, strict=True):
        assert len(curve.speed) == 20
        assert curve.deviations.shape == (3, 20)
        inside += (np.abs(true_curve(arm, curve) - curve.torque) <= curve.half_width).tolist()
        at = (np.abs(curve.speed) <= min(-other.speed[0], other.speed[-1])) & (
            np.abs(curve.speed) >= np.abs(other.speed).min()
        )
        apart = np.interp(curve.speed, other.speed, other.torque) - curve.torque
        inside += (np.abs(apart) <= curve.half_width)[at].tolist()
        assert (curve.half_width < 0.3 * np.abs(curve.torque)).all()
    assert np.mean(inside) > 0.9


def test_a_law_that_the_blocks_reject_has_no_weight(arm):
    """Friction that falls by half up to 0.1 rad/s is not plain."""
    coulomb = np.array([drive.coulomb for drive in arm.drives])
    estimate = identify(arm, record_log(arm, 1, lambda qd, _: coulomb * np.sign(qd) * np.exp(-np.abs(qd) / 0.1)))
    for curve, c in zip(estimate.uncertainty.friction_curves, coulomb, strict=True):
        assert curve.laws.get("plain", 0.0) == 0.0
        assert sum(p for law, p in curve.laws.items() if "stribeck" in law) > 0.5
        truth = true_curve(arm, curve) + c * np.sign(curve.speed) * np.exp(-np.abs(curve.speed) / 0.1)
        assert np.mean(np.abs(truth - curve.torque) <= curve.half_width) > 0.9


def test_drift_widens_the_band_by_the_deviation_of_a_uniform_distribution(arm):
    drives = [(drive.viscous, drive.coulomb) for drive in arm.drives]
    viscous, coulomb = map(np.array, zip(*drives, strict=True))

    def warming(qd, t):
        return 0.4 * (0.5 - t / HOW.seconds) * (viscous * qd + coulomb * np.tanh(qd / FRICTION_WIDTH_RAD_S))

    steady, drifting = (identify(arm, record_log(arm, 1, further)) for further in (lambda qd, _: 0 * qd, warming))
    for still, curve in zip(steady.uncertainty.friction_curves, drifting.uncertainty.friction_curves, strict=True):
        assert curve.deviations[2] / np.abs(curve.torque) == pytest.approx(0.4 / np.sqrt(12), rel=0.25)
        assert (still.deviations[2] < 0.2 * curve.deviations[2]).all()
    assert any(finding.kind.value == "friction drift" for finding in drifting.findings)


def test_a_direction_that_was_not_driven_has_no_curve(arm):
    """The first joint turns forward alone, with its angle logged as it is."""
    t = np.arange(0, 24, 0.01)
    speeds = np.stack([0.6 + 0.4 * np.sin(0.9 * t), 0.8 * np.sin(1.3 * t + 1)], axis=1)
    q, qdd = np.cumsum(speeds, axis=0) * 0.01, np.gradient(speeds, 0.01, axis=0)
    tau = torque(arm, q, speeds, qdd)
    tau += 0.02 * tau.std(axis=0) * np.random.default_rng(1).normal(size=tau.shape)
    curves = identify(arm, log_from_arrays(arm.joint_names, t, q, tau, speeds)).uncertainty.friction_curves
    assert (curves[0].speed > 0).all()
    assert curves[0].speed[-1] == pytest.approx(1.0, rel=0.02)
    assert (curves[1].speed < 0).any()


def test_curves_are_saved_and_reported(arm, tmp_path):
    log = record_log(arm, 1)
    estimate = identify(arm, log)
    restored = load_estimate(estimate.save(tmp_path / "estimate.json")).uncertainty.friction_curves
    for curve, again in zip(estimate.uncertainty.friction_curves, restored, strict=True):
        assert again.to_dict() == curve.to_dict()
    infinite = replace(restored[0], half_width=np.full(20, np.inf))
    assert np.isinf(FrictionCurve.from_dict(infinite.to_dict()).half_width).all()
    data = collect_report_data(estimate, training_logs=[log])
    band = estimate.uncertainty.friction_curves[0]
    section = friction_section(data)
    shown = [curve for curve in section.plots["friction-0"]["panes"][0]["series"] if curve["role"] == "band"]
    assert [speed for curve in shown for speed in curve["x"]] == pytest.approx(band.speed, rel=1e-5)
    low = [torque for curve in shown for torque in curve["y"]]
    assert low == pytest.approx(band.torque - band.half_width, rel=1e-4)
    text = section.body
    assert "contains the curve of another recording" in text
    assert "Laws in the band" in text
    assert "hold for the selected friction law and the temperature" in estimate.table()


def test_fits_of_other_quantities_have_no_curves(arm):
    estimate = mindyn.identify(replace(arm, drives=()), record_log(arm, 1), METHODS["momentum"], GIVEN)
    assert estimate.data.residual_of != "torque"
    assert estimate.uncertainty.friction_curves == ()
