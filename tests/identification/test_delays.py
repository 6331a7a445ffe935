"""How much later torque comes than motion: found over the whole range, and of one joint alone named.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from raising import raises
from stand_in import stand_in

import mindyn
from mindyn.cli.printing import print_findings
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.findings import Kind, Severity
from mindyn.identification.diagnostics.time_offsets import _applied_delay, _common_delay
from mindyn.identification.selection.choose import choose
from mindyn.logs.conditioning import AS_LOGGED
from mindyn.logs.log import log_from_arrays
from mindyn.logs.samples import Samples
from mindyn.regression.settings import EquationSettings

RATE_HZ = 200.0
MS = 1e-3


def record_log(delays_s, noise=0.02, seed=0):
    """A planar arm with much friction, whose torques are logged so much later than its motion."""
    robot = replace(mindyn.load_robot("planar2"), drives=(), extras=())
    rng = np.random.default_rng(seed)
    rates, (sines, cosines) = 2 * np.pi * np.arange(1, 6) / 9.3, rng.normal(0, 0.3, (2, 5, 2))

    def motion(time):
        angles = np.outer(time, rates)
        q = np.sin(angles) @ sines + np.cos(angles) @ cosines
        qd = (np.cos(angles) * rates) @ sines - (np.sin(angles) * rates) @ cosines
        return q, qd, -(np.sin(angles) * rates**2) @ sines - (np.cos(angles) * rates**2) @ cosines

    def torque(time):
        q, qd, qdd = motion(time)
        rigid = mindyn.compile_model(robot).inverse_dynamics(q, qd, qdd)
        return rigid + rigid.std(axis=0) * (0.3 * np.tanh(qd / 0.02) + 0.2 * qd)

    time = np.arange(0, 16, 1 / RATE_HZ)
    tau = np.stack([torque(time - delay)[:, joint] for joint, delay in enumerate(delays_s)], axis=1)
    tau += noise * tau.std(axis=0) * rng.normal(size=tau.shape)
    q, qd, _ = motion(time)
    return robot, log_from_arrays(robot.joint_names, time, q, tau, qd)


@pytest.mark.parametrize(("milliseconds", "way"), [(74.5, "lags"), (-6.0, "leads"), (4.9, ""), (0.0, "")])
def test_an_applied_delay_of_more_than_a_sample_is_shown(milliseconds, way, capsys):
    """At 200 Hz; it is an info that the first screen shows."""
    conditioning = replace(AS_LOGGED, delay_s=milliseconds * MS)
    data = SimpleNamespace(
        estimate=stand_in(settings=SimpleNamespace(conditioning=conditioning)),
        samples=SimpleNamespace(rate_hz=RATE_HZ),
        joint_names=("a", "b", "c"),
        smooth=None,
    )
    findings = list(_applied_delay(data))
    assert [finding.value for finding in findings] == ([milliseconds * MS] if way else [])
    if way:
        (finding,) = findings
        assert (finding.kind, finding.severity) == (Kind.APPLIED_DELAY, Severity.INFO)
        print_findings(findings)
        assert f"info     the torque {way} the motion by {abs(milliseconds):g} ms" in capsys.readouterr().err
    assert (
        list(
            _applied_delay(
                SimpleNamespace(estimate=stand_in(settings=SimpleNamespace(conditioning=None)), samples=data.samples)
            )
        )
        == []
    )


def test_applied_delays_of_single_joints_name_them():
    conditioning = replace(AS_LOGGED, delay_s=(0.02, 0.0, -0.03))
    data = SimpleNamespace(
        estimate=stand_in(settings=SimpleNamespace(conditioning=conditioning)),
        samples=SimpleNamespace(rate_hz=RATE_HZ),
        joint_names=("a", "b", "c"),
    )
    assert [(finding.joints, finding.value) for finding in _applied_delay(data)] == [(("a",), 0.02), (("c",), -0.03)]


@pytest.mark.parametrize("delays_s", [(0.0, 0.03), (-0.012, 0.021)])
def test_a_delay_for_each_joint_is_undone_and_predicted(delays_s, tmp_path):
    """The error is that of a log without delays; a stream has the same equations; wrong numbers of delays raise."""

    def identify_with(log, delay_s):
        conditioning = mindyn.Conditioning(motion_hz=None, velocity="measured", delay_s=delay_s, edge_s=0.1)
        settings = EquationSettings(conditioning, friction=mindyn.Friction("tanh", 0.02))
        return mindyn.identify(robot, log, mindyn.LeastSquares(), settings)

    robot, log = record_log(delays_s)
    aligned = record_log((0.0, 0.0))[1]
    wanted = mindyn.validate(identify_with(aligned, 0.0), aligned).error.relative
    estimate = identify_with(log, delays_s)
    loaded = mindyn.load_estimate(estimate.save(tmp_path / "estimate.json"))
    for fitted in (estimate, loaded):
        assert mindyn.validate(fitted, log).error.relative == pytest.approx(wanted, rel=0.03)
    assert mindyn.validate(identify_with(log, 0.0), log).error.relative[1] > 2 * wanted[1]
    path = log.save(tmp_path / "log.csv", robot)[0]
    streamed = identify_with(mindyn.scan_log(path, robot, chunk_rows=500), delays_s)
    np.testing.assert_allclose(streamed.beta, estimate.beta, rtol=1e-6, atol=1e-9)
    with raises(InputError, Code.WRONG_SHAPE, "delay_s"):
        identify_with(log, (*delays_s, 0.0))


def select_delay(delays_s):
    """Nothing is stated but that there is no parallel filter, which the delay does not depend on."""
    robot, log = record_log(delays_s)
    return choose(robot, [log], mindyn.LeastSquares(), EquationSettings(equations_hz=None, friction="auto"))


@pytest.mark.parametrize("milliseconds", [53, -30])
def test_a_long_delay_is_found(milliseconds):
    """Not a part of it that friction turning over too early makes up for."""
    result = select_delay([milliseconds * MS] * 2)
    assert result.settings.conditioning.delay_s == pytest.approx(milliseconds * MS, abs=1.5 * MS)


def test_a_delay_of_one_joint_is_named():
    robot, log = record_log([0.0, 30 * MS])
    estimate = mindyn.identify(robot, log, mindyn.LeastSquares(), EquationSettings(equations_hz=None, friction="auto"))
    (delay,) = [finding for finding in estimate.findings if finding.kind == Kind.DELAYED_TORQUE]
    joint = robot.joint_names.index(delay.joints[0])
    assert delay.value == pytest.approx((-30 * MS, 30 * MS)[joint], abs=12 * MS)


@pytest.mark.parametrize("milliseconds", [30, -30, 4, 0])  # 4 ms are less than a row
def test_a_delay_of_all_joints_that_the_settings_leave_is_named(milliseconds):
    t, tones = np.arange(0, 20, 0.005), ((0.7, 1.0), (1.9, 0.6), (3.1, 0.5), (5.3, 0.3))
    q, qd, qdd = (sum(size * w**k * np.sin(w * t + w + k * np.pi / 2) for w, size in tones) for k in range(3))
    tau = -sum(size * w**2 * np.sin(w * (t - milliseconds * MS) + w) for w, size in tones)
    samples = Samples(("a",), *(x[:, None] for x in (q, qd, qdd, tau)), 200.0, np.zeros(len(t), dtype=np.int64))
    estimate = stand_in(settings=SimpleNamespace(conditioning=replace(AS_LOGGED, delay_s=0.01)))
    result = list(_common_delay(SimpleNamespace(samples=samples, estimate=estimate)))
    assert [item.kind for item in result] == [Kind.DELAYED_TORQUE] * (abs(milliseconds) > 4)
    for entry in result:
        assert entry.value == pytest.approx(milliseconds * MS, abs=1 * MS)
        assert f"delay_s = {0.01 + entry.value:.4g}" in entry.remedy
