"""Currents of a UR10e without gains: ratios to joint 2 next to the two published sets of gains."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import mindyn
from mindyn.identification import estimate_gains
from mindyn.regression.friction import Friction

FOLDER = Path(os.environ.get("MINDYN_REAL_DATA", "/nonexistent")) / "ur10e_innopolis"
PUBLISHED = np.array([[14.87, 13.26, 11.13, 10.62, 11.03, 11.47], [10.0, 10.70, 8.46, 9.00, 9.48, 10.12]])
"""N m/A: from another work, and the source's own estimate."""


@pytest.mark.skipif(not FOLDER.is_dir(), reason="MINDYN_REAL_DATA holds no ur10e_innopolis")
def test_ratios_of_a_ur10e_are_near_the_published_ones():
    robot = mindyn.load_robot(FOLDER / "model" / "ur10e.urdf")
    log = mindyn.read_log(
        FOLDER / "free.parquet",
        robot,
        columns={"time": "t_s", "position": "q{i}_rad", "velocity": "qd{i}_rad_s", "torque": "current{i}_A"},
        units={"time": "s", "position": "rad", "velocity": "rad/s", "torque": "A"},
        side="joint",
        metadata={"current_gains": "unknown"},
    )
    settings = mindyn.EquationSettings(
        mindyn.Conditioning(motion_hz=10.0), 5.0, 4, Friction("tanh", 0.03, ("stribeck",))
    )
    gains = estimate_gains(robot, [log], settings)
    assert gains.undetermined == (robot.joint_names[5],)
    ratios, half_widths = gains.ratios(robot.joint_names[1])
    sets = PUBLISHED / PUBLISHED[:, 1:2]
    for j in range(5):
        print(
            f"joint {j + 1}: {ratios[j]:.3f} +- {half_widths[j]:.3f}, published {sets[0, j]:.3f} and {sets[1, j]:.3f}"
        )
        nearest = np.abs(sets[:, j] - ratios[j]).min()
        assert nearest <= half_widths[j] + 1e-12
    assert half_widths[2] < 0.06
