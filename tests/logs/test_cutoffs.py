"""The cut-off selected from the data is the known bandwidth of the motion."""

from __future__ import annotations

import numpy as np
import pytest

from mindyn.logs.log import log_from_arrays
from mindyn.logs.noise_cutoff import noise_floor_cutoff


def motion_up_to(top_hz, rate_hz, seed, seconds=60.0, noise=1e-5):
    """Two joints, the second slower: all frequencies up to the top with random phases, and white noise."""
    rng = np.random.default_rng(seed)
    count = int(seconds * rate_hz)
    frequency = np.fft.rfftfreq(count, 1 / rate_hz)
    q = []
    for top in (top_hz, 0.4 * top_hz):
        inside = (frequency > 0) & (frequency <= top)
        spectrum = np.where(inside, np.exp(2j * np.pi * rng.random(len(frequency))), 0)
        wave = np.fft.irfft(spectrum, count)
        q.append(0.3 * wave / wave.std() + noise * rng.standard_normal(count))
    q = np.column_stack(q)
    return log_from_arrays(("a", "b"), np.arange(count) / rate_hz, q, np.zeros_like(q))


@pytest.mark.parametrize("rate_hz", [125.0, 500.0])
@pytest.mark.parametrize("top_hz", [2.0, 5.0, 9.0])
def test_the_cut_off_is_where_the_fastest_joint_sinks_into_its_noise(top_hz, rate_hz):
    result = noise_floor_cutoff([motion_up_to(top_hz, rate_hz, seed=int(top_hz))], rate_hz)
    bin_hz = rate_hz / min(4096, 60 * rate_hz)
    assert top_hz < result <= top_hz + 12 * bin_hz  # the window falls by the 90 dB of motion over noise within these


def test_segments_count_together_and_short_ones_do_not_decide():
    rate = 200.0
    log = motion_up_to(4.0, rate, seed=1)
    short = motion_up_to(20.0, rate, seed=2, seconds=2.0)
    alone, both = noise_floor_cutoff([log], rate), noise_floor_cutoff([log, short], rate)
    assert both == alone
