"""A real SO-101 from its targets: replays of other motions in MuJoCo, with the exported file."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import mindyn
from mindyn.foundation.findings import Kind
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


MOTIONS = ("actuator_bandwidth", "fast_transitions", "large_amplitude", "oscillation_med_freq", "symmetric_motion")


def test_gravity_contradicts_wrong_gains_only(so101):
    """Gains fitted to 13 motions are right within the errors of one; deviations of its windows contradicted two."""
    robot, read = so101
    logs = [read(name) for name in MOTIONS]
    gains = np.array([13.05, 10.09, 11.35])  # of lift, elbow and wrist, by 13 motions

    def count_contradictions(factor):
        given = dict(zip(robot.primary_names[1:4], factor * gains, strict=True))
        found = [mindyn.identify_servos(robot, log, kp=given).findings for log in logs]
        return sum(any(finding.kind is Kind.CONTRADICTED_GAIN for finding in findings) for findings in found)

    assert count_contradictions(1.0) == 0
    assert count_contradictions(2.0) == len(logs)


def test_single_motions_agree_within_their_intervals(so101):
    """Windows of one motion agree far better than different motions do; without errors of the model, 61 % agree."""
    robot, read = so101
    estimates = [mindyn.identify_servos(robot, read(name)) for name in MOTIONS]
    agree = []
    for first, second in combinations(estimates, 2):
        half = np.hypot(*(np.log(each.high / each.low) / 2 for each in (first, second)))
        known = np.isfinite(half) & (first.has_scale & second.has_scale)[:, None]
        agree.extend((np.abs(np.log(first.values / second.values)) <= half)[known])
    assert len(agree) >= 80
    assert np.mean(agree) > 0.9
    # The roll axis of a wrist carries 0.3 mN m: an error of the simulation is larger than the effect of that weight.
    assert not any(estimate.has_scale[4] for estimate in estimates)
