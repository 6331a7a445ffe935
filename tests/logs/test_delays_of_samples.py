"""The delay of torques is that of the samples, for all joints and segments together."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import ORACLE, assert_close

from mindyn.logs.conditioning import Conditioning
from mindyn.logs.delay_scan import DelayScan, estimate_delay_without_model, scan_delay
from mindyn.logs.log import log_from_arrays
from mindyn.logs.samples import Samples

TONES = ((0.7, 1.0), (1.9, 0.6), (3.1, 0.5), (5.3, 0.3))


def in_steps(*delays, rate=200.0, rows=2000, noise=0.0):
    """Samples whose torques are accelerations some seconds ago, of another motion for each joint."""
    t, columns = np.arange(rows) / rate, []
    for joint, seconds in enumerate(delays):
        tones = [(w * (1 + 0.13 * joint), size) for w, size in TONES]
        q = sum(size * np.sin(w * t + w) for w, size in tones)
        qd = sum(size * w * np.cos(w * t + w) for w, size in tones)
        qdd = -sum(size * w * w * np.sin(w * t + w) for w, size in tones)
        tau = -sum(size * w * w * np.sin(w * (t - seconds) + w) for w, size in tones)
        columns.append((q, qd, qdd, tau + noise * np.random.default_rng(joint).normal(size=rows)))
    arrays = [np.column_stack(item) for item in zip(*columns, strict=True)]
    names = tuple("abcdef"[: len(delays)])
    return Samples(names, *arrays, rate, np.zeros(rows, dtype=np.int64))


def own_accelerations(samples):
    return lambda rows: [samples.qdd[rows, j : j + 1] for j in range(samples.qdd.shape[1])]


def test_all_joints_have_one_delay():
    samples = in_steps(0.03, 0.03, -0.02)
    scan = DelayScan(samples, own_accelerations(samples))
    common = scan.best()
    assert 0.0 < common.seconds < 0.03
    assert_close(common.unexplained, scan.unexplained(common.seconds).mean(), ORACLE)
    assert_close(common.unexplained_without, scan.unexplained(0.0).mean(), ORACLE)
    share = scan.unexplained(0.0)[0]
    U = samples.qdd[scan.rows, 0] / np.linalg.norm(samples.qdd[scan.rows, 0])
    torque = np.convolve(samples.tau[:, 0], np.array([1, 4, 6, 4, 1]) / 16, mode="same")[scan.rows]
    left = ((torque - U * (U @ torque)) ** 2).sum() / ((torque - torque.mean()) ** 2).sum()
    assert_close(share, left, 1e-6)


def test_early_torques_are_found_as_late_ones_are():
    assert scan_delay(in_steps(-0.03)).seconds == pytest.approx(-0.03, abs=1e-3)
    samples = in_steps(0.02)
    assert DelayScan(samples, own_accelerations(samples)).best().seconds == pytest.approx(0.02, abs=1e-4)


def test_a_chosen_delay_is_that_of_all_segments():
    samples = in_steps(0.03, rows=1200)
    time = np.arange(1200) / 200
    log = log_from_arrays(("a",), time, samples.q, samples.tau, samples.qd, samples.qdd)
    c = Conditioning(rate_hz=200.0, stamps="uniform", motion_hz=None, edge_s=0.1, delay_s=0.5)
    delay_without_model = estimate_delay_without_model([log.take(slice(0, 600)), log.take(slice(600, None))], c)
    assert delay_without_model == pytest.approx(0.03, abs=2e-3)
