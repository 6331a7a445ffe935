"""A real SO-101 from its targets: replays of other motions in MuJoCo, with the exported file."""

from __future__ import annotations

import numpy as np
import pytest

import mindyn
from mindyn.output.export.servo_replay import replay_in_mujoco

OTHERS = ("fast_transitions", "square_pattern", "symmetric_motion")


@pytest.fixture(scope="module")
def so101(real_data):
    folder = real_data / "so101_sage"
    if not folder.is_dir():
        pytest.skip("MINDYN_REAL_DATA holds no so101_sage")
    robot = mindyn.load_robot(folder / "model" / "so101_new_calib.urdf", lock={"gripper": 0.0})

    def read(name):
        return mindyn.read_log(
            folder / f"{name}.parquet",
            robot,
            columns={"time": "t", "position": "q.{joint}", "target": "cmd.{joint}"},
            units={"time": "s", "position": "rad"},
            side="joint",
            metadata={"kp": "unknown"},
        )

    return robot, read


def test_one_fast_log_replays_other_motions(so101, tmp_path):
    robot, read = so101
    estimate = mindyn.identify_servos(robot, read("frequency_sweep"))
    assert estimate.has_scale.tolist() == [False, True, True, True, False]
    assert ((estimate.kp[1:4] > 8) & (estimate.kp[1:4] < 15)).all()
    replay = replay_in_mujoco(estimate, mindyn.write_mjcf(estimate, tmp_path / "arm.xml"), [read(n) for n in OTHERS])
    print("mrad:", np.round(1e3 * replay.mujoco.errors, 1), "target:", np.round(1e3 * replay.mujoco.target_errors, 1))
    assert replay.is_faithful
    assert (replay.mujoco.errors < 0.25 * replay.mujoco.target_errors).all()
