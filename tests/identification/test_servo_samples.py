"""Samples of position servos: values are as often in their intervals as stated, and vary together within a joint."""

from __future__ import annotations

import csv
from dataclasses import replace

import mujoco
import numpy as np
import pinocchio
import pytest
import yaml
from closeness import ROUND_TRIP, assert_close
from plants.mujoco_servo import JOINTS, random_plant, record_servos, write_arm
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, InputError
from mindyn.identification import ServoEstimate, load_servo_estimate
from mindyn.output import write_model_samples

COUNT = 4000


@pytest.fixture(scope="module")
def plant():
    return random_plant(np.random.default_rng(11))


@pytest.fixture(scope="module")
def estimate(plant, tmp_path_factory):
    arm = mindyn.load_robot(write_arm(tmp_path_factory.mktemp("arm")))
    return mindyn.identify_servos(arm, [record_servos(plant, seed) for seed in range(3)])


@pytest.fixture(scope="module")
def models(estimate):
    return estimate.sample(COUNT, 0)


def test_95_percent_of_the_draws_lie_in_the_intervals(estimate, models):
    known = np.isfinite(estimate.low)
    assert known.sum() >= 8
    inside = ((models.values >= estimate.low) & (models.values <= estimate.high)).mean(axis=0)[known]
    assert ((inside > 0.935) & (inside < 0.965)).all()


def test_draws_contain_the_values_of_the_plant(estimate, models, plant):
    truth = np.column_stack([plant.kp, plant.kd, plant.fc, plant.ia])
    known = np.isfinite(estimate.low) & estimate.has_scale[:, None]
    low, high = np.quantile(models.values, [0.01, 0.99], axis=0)
    assert ((low <= truth) & (truth <= high))[known].mean() >= 0.9


def test_values_of_a_joint_vary_together_as_the_fit_leaves_them(estimate, models):
    """The logarithms of the draws have the covariance of the estimate: also of ratios."""
    logs = np.log(models.values)
    for joint in range(len(JOINTS)):
        assert_close(np.cov(logs[:, joint].T), estimate.log_covariance[joint], 0.15)
    assert any(abs(matrix[0, 1]) > 0.1 * np.sqrt(matrix[0, 0] * matrix[1, 1]) > 0 for matrix in estimate.log_covariance)


def test_assumed_gains_stay_and_open_values_vary_by_a_factor_of_four(estimate, models):
    assumed = ~estimate.has_scale
    assert assumed.any()
    assert (models.values[:, assumed, 0] == estimate.kp[assumed]).all()
    low = estimate.low.copy()
    low[:, 1] = np.nan  # damping is open
    plain = replace(estimate, low=low, log_covariance=np.zeros(0)).sample(COUNT, 1)
    ratio = np.log(plain.values[:, 1, 1] / estimate.kd[1]) - np.log(plain.values[:, 1, 0] / estimate.kp[1])
    assert 0.93 < np.mean(np.abs(ratio) < np.log(4.0)) < 0.97


def test_samples_follow_other_targets_as_the_arm_does(estimate, plant):
    replays = [mindyn.replay_servos(draw, record_servos(plant, 50)) for draw in estimate.sample(6, 2).estimates]
    assert all(replay.grade in ("good", "fair") for replay in replays)
    assert len({float(replay.errors[0]) for replay in replays}) == 6


def test_a_saved_estimate_has_the_same_samples(estimate, tmp_path):
    estimate.save(tmp_path / "servo.json")
    again = load_servo_estimate(tmp_path)
    assert isinstance(again, ServoEstimate)
    assert_close(again.sample(3, 5).values, estimate.sample(3, 5).values, ROUND_TRIP)
    assert not np.array_equal(again.sample(3, 5).values, again.sample(3, 6).values)


def test_files_have_the_values_of_their_draws(estimate, tmp_path):
    models = estimate.sample(3, 0)
    for file_format, suffix in (("mjcf", "xml"), ("urdf", "urdf"), ("isaac-lab", "yaml")):
        folder = write_model_samples(models, tmp_path / file_format, file_format)
        files = sorted(folder.glob(f"model_*.{suffix}"))
        assert len(files) == 3
        for file, (kp, kd, fc, ia) in zip(files, models.values.transpose(0, 2, 1), strict=True):
            if file_format == "mjcf":
                model = mujoco.MjModel.from_xml_path(str(file))
                assert_close(model.actuator_gainprm[:, 0], kp, ROUND_TRIP)
                assert_close(model.dof_damping, kd, ROUND_TRIP)
                assert_close(model.dof_frictionloss, fc, ROUND_TRIP)
                assert_close(model.dof_armature, ia, ROUND_TRIP)
            elif file_format == "urdf":
                model = pinocchio.buildModelFromUrdf(str(file))
                assert_close(model.lowerDryFrictionLimit, -fc, ROUND_TRIP)
            else:
                table = yaml.safe_load(file.read_text())
                assert list(table["stiffness"].values()) == kp.tolist()
                assert list(table["armature"].values()) == ia.tolist()
        rows = list(csv.DictReader((folder / "ranges.csv").read_text().splitlines()))
        ranges = yaml.safe_load((folder / "ranges.yaml").read_text())
        assert [row["parameter"] for row in rows[:4]] == ["stiffness", "damping", "friction", "armature"]
        low, high = np.quantile(models.values, [0.05, 0.95], axis=0)
        assert_close(np.array([float(row["low"]) for row in rows]), low.ravel(), ROUND_TRIP)
        assert_close(np.array([float(row["high"]) for row in rows]), high.ravel(), ROUND_TRIP)
        assert ranges[rows[5]["name"]]["damping"] == [float(rows[5]["low"]), float(rows[5]["high"])]


def test_wrong_counts_are_rejected(estimate):
    for count in (0, -1, 2.5, True):
        with raises(InputError, Code.OUT_OF_RANGE, "count"):
            estimate.sample(count, 0)
