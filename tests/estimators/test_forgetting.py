"""Online least squares that forgets: residuals and deviations are those of what it remembers."""

from __future__ import annotations

import numpy as np
from estimators.recovered import exact_samples
from robots import random_robot, with_random_drives

import mindyn


def test_the_noise_is_known_whatever_is_forgotten():
    robot, noise = with_random_drives(random_robot(2, joints=2, tree=False), 2), 0.3
    samples = exact_samples(robot, 6000, noise=noise)
    for forgetting in (1.0, 0.998):
        online = mindyn.RecursiveLeastSquares(robot, forgetting=forgetting)
        for row in zip(samples.q, samples.qd, samples.qdd, samples.tau, strict=True):
            online.update(*row)
        result = online.estimate()
        assert np.allclose([residual.rms for residual in result.data.residuals], noise, rtol=0.1)
        spread = (result.beta - result.base.values) / result.deviations
        assert 0.3 < np.sqrt(np.mean(spread**2)) < 1.6
