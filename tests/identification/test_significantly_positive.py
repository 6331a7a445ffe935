"""A mean is significantly positive if parts of the series agree, and rarely by chance."""

from __future__ import annotations

import numpy as np
from scipy.signal import lfilter

from mindyn.foundation.algebra.significance import BLOCK_COUNT, is_significantly_positive


def noise(rng, correlation=0.6):
    """500 rows that depend on a few before them, as many as are short beside a part."""
    return lfilter([1.0], [1.0, -correlation], rng.standard_normal(500))


def test_noise_that_lasts_is_hardly_ever_called_positive():
    rng = np.random.default_rng(0)
    by_chance = np.mean([is_significantly_positive(noise(rng)) for _ in range(400)])
    assert by_chance < 0.06  # 2.9 % of Student's distribution with 19 degrees of freedom lie beyond 2
    rng = np.random.default_rng(0)
    assert np.mean([is_significantly_positive(noise(rng), 4.0) for _ in range(400)]) < 0.01


def test_a_mean_beyond_its_deviation_is_positive():
    rng = np.random.default_rng(1)
    deviation = noise(rng).reshape(BLOCK_COUNT, -1).mean(axis=1).std(ddof=1) / np.sqrt(BLOCK_COUNT)
    assert is_significantly_positive(noise(rng) + 8 * deviation)
    assert not is_significantly_positive(noise(rng) - 8 * deviation)


def test_one_row_gives_no_evidence():
    assert not is_significantly_positive(np.array([1.0]))
