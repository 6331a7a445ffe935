"""Bands of predicted torque, on logs of arms that MuJoCo simulates: joints stick at reversals."""

import numpy as np
import pytest
from plants.study import record_case, rows_outside

import mindyn


@pytest.fixture(scope="module")
def case():
    """A log with steps of the encoders, noise, and friction that depends on the load."""
    return record_case("sound", 40032)


@pytest.fixture(scope="module")
def estimate(case):
    return mindyn.identify(case.robot, case.training)


def test_bands_contain_the_torque_of_another_motion(case, estimate):
    """Without the errors at reversals, 10 % of the torques of a joint are outside twice its band."""
    assert rows_outside(estimate, case.other).max() < 0.05


def test_bands_are_wider_near_reversals_only(case, estimate):
    samples = estimate.samples_of(case.other)
    lower, upper = mindyn.identification.torque_bands(estimate, samples)
    rms = np.sqrt((samples.tau**2).mean(axis=0))
    fast = np.abs(samples.qd) > 0.1 + 0.1 * np.abs(samples.qdd)
    for joint in range(samples.q.shape[1]):
        widths = (upper - lower)[:, joint] / rms[joint]
        away = np.median(widths[fast[:, joint]])
        assert away < 0.1
        assert np.median(widths[~fast[:, joint]]) > away
