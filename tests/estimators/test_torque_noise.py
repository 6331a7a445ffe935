"""Noise of the torque in instruments: its level is estimated, its bias removed, and intervals cover the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from equations import equations
from estimators.recovered import smooth_samples
from robots import random_robot, with_random_drives

from mindyn.identification.estimators.instrumental_variables import InstrumentalVariables, torque_noise

ROBOT = with_random_drives(random_robot(5, joints=3, tree=False, gravity=(0.0, 0.0, -9.81)), 1)
CLEAN = smooth_samples(ROBOT, count=2000)


def test_the_noise_level_is_estimated_despite_jumps_of_friction():
    sigma = np.array([0.5, 1.0, 2.0])
    noise = sigma * np.random.default_rng(0).standard_normal(CLEAN.tau.shape)
    jumps = 30.0 * np.sign(np.sin(np.arange(len(CLEAN)) / 40.0))[:, None]
    smooth = 10.0 * np.sin(np.arange(len(CLEAN)) / 100.0)[:, None]
    assert torque_noise(replace(CLEAN, tau=noise + jumps + smooth)) == pytest.approx(sigma, rel=0.1)
    assert (torque_noise(replace(CLEAN, tau=noise, segments=np.arange(len(CLEAN)))) == 0).all()


@pytest.mark.parametrize(("acceleration", "equations_hz"), [(0.0, None), (1.0, None), (1.0, 20.0)])
def test_torque_noise_of_a_tenth_neither_biases_nor_escapes_the_intervals(acceleration, equations_hz):
    fits, spread = [], CLEAN.tau.std(axis=0)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        qdd = CLEAN.qdd + acceleration * rng.standard_normal(CLEAN.q.shape)
        tau = CLEAN.tau + 0.1 * spread * rng.standard_normal(CLEAN.q.shape)
        fits.append(
            InstrumentalVariables().fit(equations(ROBOT, replace(CLEAN, qdd=qdd, tau=tau), equations_hz=equations_hz))
        )
    truth = fits[0].base.values
    z = np.array([(fit.beta - truth) / fit.deviations for fit in fits])
    assert np.abs(z.mean(axis=0)).max() < 1.5
    assert 0.88 <= np.mean(np.abs(z) < 1.96) <= 0.99
