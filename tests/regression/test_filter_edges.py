"""Ends of segments where a filter has seen too little make no equations."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from scipy.signal import butter, sosfiltfilt

import mindyn
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import gather

RATE = 200.0
ROBOT = mindyn.load_robot("planar2")


def two_segments(lengths=(700, 500), seed=0):
    """Torques that fit no model, so that every row counts in the residual."""
    rng = np.random.default_rng(seed)
    count = sum(lengths)
    q, qd, qdd, tau = rng.standard_normal((4, count, 2))
    return mindyn.Samples(ROBOT.joint_names, q, qd, qdd, tau, RATE, np.repeat([0, 1], lengths))


@pytest.mark.parametrize("cutoff_hz", [2.0, 5.0, 20.0])
@pytest.mark.parametrize("decimation", [1, 3])
def test_equations_are_the_filtered_rows_between_the_edges(cutoff_hz, decimation):
    """max(0.1 s, half a period of the cut-off) are cut at both ends of both segments; the rest adds up as R factors."""
    samples, regressor = two_segments(), Regressor(ROBOT)
    information = gather(regressor, samples, cutoff_hz=cutoff_hz, decimation=decimation)
    edge = ceil(max(0.1, 0.5 / cutoff_hz) * RATE)
    taken = [
        np.arange(a, b)[edge : b - a - edge][(-edge) % decimation :: decimation] for a, b in ((0, 700), (700, 1200))
    ]
    assert information.counts == tuple([sum(map(len, taken))] * 2)
    Y = mindyn.compile_model(ROBOT, base=regressor.base, with_drives=regressor.base.with_drives).regressor(
        samples.q, samples.qd, samples.qdd
    )
    sections = butter(4, cutoff_hz, fs=RATE, output="sos")
    rows = np.concatenate([Y, samples.tau[:, :, None]], axis=2)
    smooth = np.concatenate(
        [sosfiltfilt(sections, rows[a:b], axis=0, padlen=ceil(RATE / cutoff_hz)) for a, b in ((0, 700), (700, 1200))]
    )
    for joint, (columns, factor) in enumerate(zip(information.columns, information.factors, strict=True)):
        expected = smooth[np.concatenate(taken), joint][:, [*columns, -1]]
        assert_close(factor.T @ factor, expected.T @ expected, SAME_ALGEBRA * 100)
