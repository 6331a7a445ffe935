"""The noise floor is that of white noise; residuals that were made by a cause are named by it, and others by none."""

from __future__ import annotations

import numpy as np
import pytest

from mindyn.identification.diagnostics.residual_patterns import MESSAGES, REMEDIES, find_patterns
from mindyn.identification.prediction.noise_floor_error import is_at_floor, noise_floor, pool_floors
from mindyn.identification.prediction.prediction import TorquePrediction
from mindyn.identification.prediction.prediction_errors import scored_rows
from mindyn.logs.samples import Samples

RATE, COUNT = 200.0, 4000
T = np.arange(COUNT) / RATE
NOISE = np.random.default_rng(5).standard_normal(COUNT)


def prediction(residual_of, noise=0.05, count=COUNT):
    """One joint on a sum of sines, its torque that of inertia and gravity; `residual_of(q, qd, qdd, tau)` is missed."""
    w = 2 * np.pi * np.array([0.2, 0.5, 1.1])
    parts = T[:count, None] * w + np.array([0.3, 1.2, 2.0])
    q, qd, qdd = (0.7 * (w**k * np.sin(parts + k * np.pi / 2)).sum(axis=1) for k in range(3))
    tau = 0.3 * qdd + 4.0 * np.cos(q)
    left = residual_of(q, qd, qdd, tau) + noise * NOISE[:count]
    columns = [item[:, None] for item in (q, qd, qdd, tau + left)]
    samples = Samples(("joint",), *columns, RATE, np.zeros(count, dtype=np.int64))
    return TorquePrediction(samples, T[:count], columns[3], tau[:, None], scored_rows(count, RATE))


@pytest.mark.parametrize("sigma", [0.01, 0.3])
def test_the_floor_is_the_deviation_of_white_noise(sigma):
    created = prediction(lambda *_: 0.0, noise=sigma)
    floor = float(noise_floor(created)[0])
    assert floor == pytest.approx(sigma, rel=0.08)
    assert is_at_floor(float(created.error.rmse[0]), floor)


def test_a_slow_residual_is_above_the_floor():
    created = prediction(lambda q, *_: 0.1 * np.sin(3 * q), noise=0.05)
    floor = float(pool_floors([created, created])[0])
    assert floor == pytest.approx(0.05, rel=0.1)
    assert not is_at_floor(float(created.error.rmse[0]), floor)


def test_there_is_no_floor_where_motion_fills_all_frequencies_or_the_log_is_short():
    created = prediction(lambda *_: 0.0)
    rough = Samples(
        ("joint",),
        created.samples.q,
        NOISE[:, None],
        created.samples.qdd,
        created.measured,
        RATE,
        created.samples.segments,
    )
    noisy = TorquePrediction(rough, created.time, created.measured, created.predicted, created.scored)
    assert np.isnan(noise_floor(noisy)).all()
    assert not is_at_floor(0.0, float("nan"))
    assert np.isnan(noise_floor(prediction(lambda *_: 0.0, count=60))).all()
    assert find_patterns([prediction(lambda *_: 0.0, count=100)]) == (None,)


def test_every_pattern_has_a_remedy():
    assert REMEDIES.keys() == MESSAGES.keys()
    assert all(len(remedy) > 20 for remedy in REMEDIES.values())


CASES = {  # of q, qd, qdd, tau
    "delay": lambda *m: -0.01 * np.gradient(m[3]) * RATE,
    "load": lambda *m: 0.08 * (np.abs(m[3]) - np.abs(m[3]).mean()) * np.sign(m[1]),
    "speed": lambda *m: 0.02 * m[1] * np.abs(m[1]),
    "position": lambda q, *_: 0.4 * np.sin(q - 0.4),
    "offset": lambda *_: 0.5,
    "reversals": lambda *m: 2.0 * np.exp(-((m[1] / 0.05) ** 2)),
    "vibration": lambda *_: 0.5 * np.sin(2 * np.pi * 31.0 * T),
    "noise": lambda *_: 0.0,
}


@pytest.mark.parametrize("kind", CASES)
def test_the_pattern_of_a_residual_names_its_cause(kind):
    (result,) = find_patterns([prediction(CASES[kind])])
    assert result is not None
    assert result.details == (kind,)
    assert result.remedy == REMEDIES[kind]
    assert result.joints == ("joint",)
    assert 0.25 <= result.value <= 1.0


@pytest.mark.parametrize(("size", "kind"), [(0.05, "noise"), (0.1, "vibration")])
def test_noise_with_a_little_else_is_not_called_vibration(size, kind):
    """A wave of half the power of the noise raises it above the floor; with twice the power it is the cause."""
    (result,) = find_patterns([prediction(lambda *_: size * np.sin(2 * np.pi * 31.0 * T), noise=0.05)])
    assert result.details == (kind,)
    assert result.value == pytest.approx(2 / 3, abs=0.1)
    assert result.message.startswith(f"{100 * result.value:.0f} % of ")


def test_a_residual_like_none_of_them_is_not_named():
    drift = lambda *_: 0.3 * np.sin(2 * np.pi * 0.37 * T) * np.sin(2 * np.pi * 0.041 * T)  # noqa: E731
    assert find_patterns([prediction(drift, noise=0.01)]) == (None,)
