"""The delay of all torques, on logs of arms that MuJoCo simulates: joints stick, and reverse after their torque."""

import numpy as np
import pytest
from plants.study import record_case

from mindyn.identification.selection.choose import choose


@pytest.mark.parametrize("seed", [41001, 41005, 41032])
def test_a_late_torque_is_moved_by_its_delay(seed):
    """With the rows at reversals, these delays are 6 to 8 ms too short."""
    case = record_case("late", seed)
    conditioning = choose(case.robot, case.training).settings.conditioning
    assert conditioning.motion_delay_s == pytest.approx(case.drawn["delay"], abs=0.003)


@pytest.mark.parametrize("seed", [41000, 41001])
def test_sticking_joints_are_not_late(seed):
    case = record_case("sound", seed)
    assert np.all(np.array(choose(case.robot, case.training).settings.conditioning.delay_s) == 0)
