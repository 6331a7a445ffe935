"""The cut-off is where the spectrum of a log sinks into its noise floor.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import numpy as np
from closeness import EXACT, SAME_ALGEBRA, assert_close

from mindyn.logs.noise_cutoff import _joint_cutoff, _power_density


def test_a_cut_off_is_where_the_spectrum_sinks_into_the_floor(monkeypatch):
    frequency = np.arange(0, 51.0)

    def of(density):
        monkeypatch.setattr("mindyn.logs.noise_cutoff._power_density", lambda *_: (frequency, density))
        return _joint_cutoff([], 100.0)

    density = np.where(frequency < 7, 100.0, 1.0)
    assert of(density) == 7.0
    density[25:46] = 2.0  # the floor is that between 25 and 45 Hz: four times two
    density[7:12] = 8.1
    density[12] = 8.0
    assert of(density) == 12.0
    density[46:] = 1e9
    density[:25] = 1e9
    density[25:46:2] = 1e9  # eleven of the twenty-one
    assert of(density) == 1.0
    assert of(np.where(frequency < 25, 9.0, 2.0) * 1.0) == 25.0
    rising = 2.0 ** frequency[::-1]
    assert of(np.where(frequency == 0, 0.0, rising)) < 50.0


def test_densities_are_averaged_over_the_longest_parts():
    from scipy.signal import welch

    rng = np.random.default_rng(0)
    long, longer, short = rng.normal(size=4200), rng.normal(size=9000), rng.normal(size=500)
    frequency, density = _power_density([long, short, longer], 100.0)
    each = [welch(item, 100.0, "blackmanharris", 4096, detrend="linear") for item in (long, longer)]
    assert_close(frequency, each[0][0], EXACT)
    assert_close(density, (4200 * each[0][1] + 9000 * each[1][1]) / 13200, SAME_ALGEBRA)
    assert len(_power_density([short, rng.normal(size=100)], 100.0)[0]) == 251
