"""A leg of a Unitree Go2 from targets and positions alone: the fit to one part of a chirp replays the faster rest."""

from __future__ import annotations

import numpy as np
import pytest

import mindyn
from benchmarks.identification.go2_legs import GIVEN, UNKNOWN, leg_logs
from benchmarks.identification.servo_arms import write_leg


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize(("leg", "gains"), [("FL", GIVEN), ("FR", UNKNOWN), ("RR", UNKNOWN)], ids=["FL", "FR", "RR"])
def test_a_leg_replays_larger_torques_than_those_of_the_fit(leg, gains, tmp_path):
    """Drives of the rest are twice as large: friction that the model lacks must not be taken for a limit of them."""
    training, held_out = leg_logs(leg, gains)
    estimate = mindyn.identify_servos(write_leg(tmp_path, leg), training)
    assert np.isinf(estimate.limit).all()  # the motors allow 24 N m
    replay = mindyn.replay_servos(estimate, held_out)
    assert (replay.errors < [0.012, 0.008, 0.02]).all()
    assert (replay.errors < 0.12 * replay.target_errors).all()
