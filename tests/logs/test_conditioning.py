"""Filtering, differentiation, resampling, cutting: against SciPy's own, exact derivatives and known delays."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from closeness import DERIVATIVE, EXACT, ORACLE, assert_close
from messages import messages
from raising import raises
from recordings import NAMES, RATE, arm, sines
from scipy.signal import butter, filtfilt

from mindyn.foundation.errors import Code, InputError
from mindyn.logs.conditioning import AS_LOGGED, Conditioning
from mindyn.logs.delay_scan import DelayScan, scan_delay
from mindyn.logs.filters import lowpass
from mindyn.logs.interpolation import delay_rows, interpolate_between_stamps
from mindyn.logs.log import log_from_arrays
from mindyn.logs.noise_cutoff import noise_floor_cutoff
from mindyn.logs.pipeline import condition, condition_stream, join_samples

ROBOT = arm()
MOTION = sines(4000)


def log_of(motion):
    return log_from_arrays(NAMES, motion.t, motion.q, motion.tau, motion.qd, motion.qdd)


def noisy(rows=4000, scale=1e-4, seed=0):
    rng = np.random.default_rng(seed)
    motion = sines(rows)
    q, tau = motion.q + scale * rng.normal(size=motion.q.shape), motion.tau + rng.normal(size=motion.tau.shape)
    return replace(motion, q=q, tau=tau)


@pytest.mark.parametrize("order", [2, 4])
def test_the_low_pass_is_filtfilt(order):
    x = noisy().tau
    b, a = butter(order, 40.0, fs=RATE)
    assert_close(lowpass(x, 40.0, RATE, order), filtfilt(b, a, x, axis=0, padlen=13), ORACLE)


def test_the_low_pass_has_no_phase_and_halves_the_cut_off_frequency():
    """Away from the ends; forward and backward, the amplitude at the cut-off is 1/2."""
    t = np.arange(8000) / RATE
    wave = np.sin(2 * np.pi * 10.0 * t)[:, None]
    assert_close(lowpass(wave, 10.0, RATE)[2000:6000], 0.5 * wave[2000:6000], DERIVATIVE)


@pytest.mark.parametrize(
    ("settings", "velocity_error", "acceleration_error"),
    [
        ({"motion_hz": None}, 1e-4, 2e-4),
        ({"motion_hz": 60.0}, 1e-4, 2e-4),
        ({"motion_hz": None, "velocity": "measured"}, 1e-15, 1e-4),
    ],
)
def test_derivatives_of_sines(settings, velocity_error, acceleration_error):
    created = condition(ROBOT, log_of(MOTION), Conditioning(edge_s=0.4, **settings))
    assert_close(created.samples.qd, MOTION.qd[created.rows], velocity_error)
    assert_close(created.samples.qdd, MOTION.qdd[created.rows], acceleration_error)
    assert_close(created.samples.tau, MOTION.tau[created.rows], EXACT)


def test_as_logged_gives_the_log_back():
    created = condition(ROBOT, log_of(MOTION), AS_LOGGED)
    for name in ("q", "qd", "qdd", "tau"):
        assert_close(getattr(created.samples, name), getattr(MOTION, name), EXACT)
    assert created.samples.rate_hz == RATE


STREAMED = [
    Conditioning(motion_hz=30.0),
    Conditioning(motion_hz=5.0, slow_speed=(0.2, 0.1, 0.3)),
    Conditioning(motion_hz=40.0, delay_s=0.0123, velocity="measured"),
    Conditioning(rate_hz=321.0, motion_hz=30.0),
]


@pytest.mark.parametrize("conditioning", STREAMED, ids=range(len(STREAMED)))
def test_a_stream_gives_the_result_of_the_whole_log(conditioning):
    motion = noisy(20_000)
    keep = np.r_[0:7000, 7400:20_000]
    log = log_of(motion).take(np.isin(np.arange(20_000), keep))
    whole = condition(ROBOT, log, conditioning)
    chunks = ChunkedLog([log.take(slice(k, k + 997)) for k in range(0, len(log), 997)])
    stream = condition_stream(ROBOT, log, whole.conditioning, block_rows=1500)
    stream.logs = [chunks]
    blocks = list(stream)
    assert len(blocks) > 5
    streamed = join_samples(blocks)
    assert np.array_equal(streamed.segments, whole.samples.segments)
    assert len(np.unique(streamed.segments)) > 1
    for name in ("q", "qd", "qdd", "tau"):
        assert_close(getattr(streamed, name), getattr(whole.samples, name), 1e-9)
    if conditioning.slow_speed:
        assert np.array_equal(streamed.usable, whole.samples.usable)


class ChunkedLog(list):
    findings = ()


def test_jittered_stamps_are_made_uniform():
    rng = np.random.default_rng(3)
    t = np.arange(4000) / RATE + np.r_[0.0, rng.uniform(-0.3, 0.3, 3999) / RATE]
    created = condition(ROBOT, log_of(sines(t=t)), Conditioning(motion_hz=None, edge_s=0.1))
    assert created.conditioning.stamps == "measured"
    assert created.samples.rate_hz == pytest.approx(RATE, rel=1e-4)
    at = t[0] + (np.arange(len(created.samples)) + np.ceil(0.1 * created.samples.rate_hz)) / created.samples.rate_hz
    assert_close(created.samples.q, sines(t=at).q, 1e-7)
    assert_close(created.samples.tau, sines(t=at).tau, 1e-6)


def test_interpolation_is_exact_for_cubics():
    rng = np.random.default_rng(1)
    t = np.sort(rng.uniform(0, 1, 50))
    wanted = rng.uniform(t[0], t[-1], 30)
    cubic = np.polynomial.Polynomial([1.0, -2.0, 3.0, 0.5])
    assert_close(interpolate_between_stamps(t, cubic(t)[:, None], wanted)[:, 0], cubic(wanted), 1e-9)


@pytest.mark.parametrize("rows", [0.0, 3.0, 0.37, -2.61])
def test_a_delay_moves_a_wave(rows):
    k = np.arange(400.0)
    assert_close(delay_rows(np.sin(0.2 * k)[:, None], rows)[20:-20, 0], np.sin(0.2 * (k - rows))[20:-20], 1e-7)


@pytest.mark.parametrize("seconds", [0.0, 0.0173, -0.0081])
def test_the_delay_is_found_and_undone(seconds):
    late = replace(MOTION, tau=sines(t=MOTION.t - seconds).tau)
    raw = condition(ROBOT, log_of(late), Conditioning(motion_hz=60.0))

    def model(q, qd, qdd):
        return 2.0 * qdd + 1.5 * qd + 5.0 * np.cos(q)

    tau = model(raw.samples.q, raw.samples.qd, raw.samples.qdd)
    scan = DelayScan(raw.samples, lambda rows: [column[rows, None] for column in tau.T])
    assert scan.best().seconds == pytest.approx(seconds, abs=1e-4)
    assert scan_delay(raw.samples).seconds == pytest.approx(seconds, abs=5e-4)
    created = condition(ROBOT, log_of(late), Conditioning(motion_hz=60.0, delay_s=seconds)).samples
    assert_close(model(created.q, created.qd, created.qdd), created.tau, 1e-3)
    auto = condition(ROBOT, log_of(late), Conditioning(motion_hz=60.0, delay_s="auto"))
    assert auto.conditioning.delay_s == pytest.approx(seconds, abs=5e-4)


def test_edges_and_slow_rows():
    log = log_from_arrays(NAMES, MOTION.t, MOTION.q, MOTION.tau)
    settings = Conditioning(motion_hz=None, edge_s=0.2, slow_speed=0.5)
    created = condition(ROBOT, log, settings)
    assert created.rows[0] == 100
    assert created.rows[-1] == 3899
    assert np.array_equal(created.samples.usable, np.abs(created.samples.qd) > 0.5)
    assert len(created.samples) == 3800


def test_several_logs_have_their_own_segments():
    first, second = sines(1500), sines(2500)
    created = condition(ROBOT, [log_of(first), log_of(second)], Conditioning(motion_hz=30.0))
    assert np.array_equal(np.unique(created.samples.segments, return_counts=True)[1], [1400, 2400])
    assert np.array_equal(created.logs, created.samples.segments)
    alone = condition(ROBOT, log_of(second), Conditioning(motion_hz=30.0))
    assert_close(created.samples.qdd[created.logs == 1], alone.samples.qdd, EXACT)


def test_prediction_keeps_every_row_and_the_torque_as_logged():
    settings = Conditioning(motion_hz=20.0, slow_speed=0.1)
    trained = condition(ROBOT, log_of(noisy()), settings).conditioning
    created = condition(ROBOT, log_of(noisy(seed=1)), trained.for_prediction())
    assert np.array_equal(created.rows, np.arange(4000))
    assert_close(created.samples.tau, noisy(seed=1).tau, EXACT)
    assert created.samples.usable is None


def test_the_cut_off_is_chosen_reported_and_repeatable():
    samples = condition(ROBOT, log_of(noisy(scale=1e-5)))
    chosen = samples.conditioning.motion_hz
    assert 1.4 < chosen < 30.0
    assert f"position cut-off selected from the data: {chosen:.4g} Hz" in messages(samples)
    assert condition(ROBOT, log_of(noisy(scale=1e-5))).conditioning == samples.conditioning
    assert samples.conditioning.is_resolved


def test_more_noise_asks_for_a_lower_cut_off():
    chosen = [noise_floor_cutoff([log_of(noisy(scale=scale))], RATE) for scale in (1e-6, 1e-3, 1e-1)]
    assert chosen == sorted(chosen, reverse=True)


def test_conditioning_survives_json():
    for settings in (Conditioning(), AS_LOGGED, STREAMED[1]):
        assert Conditioning.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings
    assert Conditioning.from_dict({"edge_s": 3.0}) == Conditioning(edge_s=3.0)
    with raises(InputError, code=Code.UNKNOWN_NAME, subject="cutof"):
        Conditioning.from_dict({"cutof": 3})


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"velocity": "guessed"}, Code.INVALID_VALUE),
        ({"motion_hz": -1.0}, Code.INVALID_VALUE),
    ],
)
def test_impossible_settings_are_rejected(settings, code):
    with raises(InputError, code=code):
        Conditioning(**settings)


def test_a_cut_off_beyond_the_nyquist_frequency_is_rejected():
    with raises(InputError, code=Code.OUT_OF_RANGE, subject="cutoff_hz"):
        condition(ROBOT, log_of(MOTION), Conditioning(motion_hz=300.0))
