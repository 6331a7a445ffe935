"""What the four real logs' columns mean, as their NOTE.md says it; robots and files are found beside them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import mindyn
from mindyn.logs.read_log import read_log

FOLDER = Path(os.environ.get("MINDYN_REAL_DATA", "/nonexistent"))
needs_real_data = pytest.mark.skipif(not FOLDER.is_dir(), reason="MINDYN_REAL_DATA names no folder with the real logs")

QUARTER_TURN = 1.5707963267948966
TX40_GEARS = [
    *([32, 0, 0, 0, 0, 0], [0, 32, 0, 0, 0, 0], [0, 0, 45, 0, 0, 0]),
    *([0, 0, 0, -48, 0, 0], [0, 0, 0, 0, 45, 0], [0, 0, 0, 0, 32, 32]),
]
SI = {"time": "s", "position": "rad", "velocity": "rad/s", "torque": "N m"}

STATEMENTS = {
    "staubli_tx40": {
        "columns": {"position": "Joint_{i}", "torque": "Joint_{i}"},
        "files": {"torque": "curr_data.csv"},
        "units": {"position": "rad", "torque": "N m"},
        "side": "motor",
        "gears": TX40_GEARS,
        "position_offset": [0, -QUARTER_TURN, QUARTER_TURN, 0, 0, 0],
        "rate_hz": 5000.0,
    },
    "ur10_unisa": {
        "columns": {"time": "t_s", "position": "q{i}_rad", "velocity": "qd{i}_rad_s", "torque": "tau{i}_Nm"},
        "units": SI,
        "side": "joint",
    },
    "kuka_lwr4": {
        "columns": {"position": "positions", "velocity": "velocities", "torque": "torques"},
        "joints": [f"lwr_{i}_joint" for i in range(7)],
        "units": SI,
        "side": "joint",
        "rate_hz": 200.0,  # the stamps jitter, the samples do not
    },
    "kuka_kr300": {
        "columns": {
            "time": "rec.time_cont",
            "position": "rec.act_pos_mot_deg",
            "velocity": "rec.act_vel_mot_deg_per_s",
            "torque": "rec.act_torque_abs_nm",
        },
        "joints": [f"joint{i + 1}" for i in range(6)],
        "units": {**SI, "position": "deg", "velocity": "deg/s"},
        "side": {"position": "joint", "velocity": "joint", "torque": "motor"},
        "gears": [1798 / 7, 1872 / 7, 757 / 3, 221, 5032 / 21, 206793 / 1340],
        "position_offset": [0, -90, 90, 0, 0, 0],
    },
}
MODELS = {
    "staubli_tx40": "tx40_mdh_modified.urdf",
    "ur10_unisa": "ur10_robot.urdf",
    "kuka_lwr4": "kuka_lwr4.urdf",
    "kuka_kr300": "kr300_kinematic.urdf",
}


def real_robot(name: str):
    return mindyn.load_robot(FOLDER / name / "model" / MODELS[name])


def real_log(name: str, file: str, **changes):
    return read_log(FOLDER / name / file, real_robot(name), metadata={**STATEMENTS[name], **changes})
