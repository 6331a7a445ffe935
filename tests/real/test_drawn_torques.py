"""Samples of measured robots: drawn torques contain measured ones of another motion as often as the stated band."""

from __future__ import annotations

import numpy as np
import pytest
from logs.real_sets import FOLDER

import mindyn
from leaderboard.sets import prepare
from mindyn.applications.comparison.log_sets import read_sets
from mindyn.identification import check_full_model, torque_bands

SETS = (pytest.param("kuka_kr300", marks=pytest.mark.full), "ur10_unisa")
COUNT = 100


@pytest.mark.slow
@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("name", SETS)
def test_drawn_torques_contain_measured_ones_as_often_as_the_band(tmp_path, name):
    (split,) = read_sets(prepare(tmp_path, [name], FOLDER), [name])
    estimate = mindyn.identify(split.robot, list(split.training), mindyn.PhysicallyConsistent())
    models, (part,) = estimate.sample(COUNT, 0), split.held_out
    samples, measured = estimate.samples_of(part.log), part.log.tau
    scored = (part.log.rows >= part.rows[0]) & (part.log.rows < part.rows[1])
    band, drawn = (
        np.mean(((low <= measured) & (measured <= high))[scored])
        for low, high in (
            torque_bands(estimate, samples, noise=True),
            np.quantile(models.torques(samples, 1), [0.025, 0.975], axis=0),
        )
    )
    assert drawn > band - 0.01
    assert 0.90 < drawn < 0.98
    limit = check_full_model(mindyn.build_full_model(estimate), estimate.robot).condition_number
    for robot in models.robots[:20]:
        assert min(link.phi[0] for link in robot.links) > 0
        assert all(verdict.is_feasible for verdict in robot.consistency().values())
        assert check_full_model(robot, estimate.robot).condition_number <= 100 * limit
