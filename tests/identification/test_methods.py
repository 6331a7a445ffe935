"""Every method by name finds the arm from a log, with settings chosen from it or those of another fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cli.program import mindyn_program
from estimators.recovered import smooth_samples

import mindyn
from mindyn.identification.method_names import METHODS
from mindyn.logs.log import log_from_arrays
from mindyn.regression.regressor import with_estimated_drives
from mindyn.regression.settings import EquationSettings


@pytest.fixture(scope="module")
def recorded():
    robot = with_estimated_drives(mindyn.load_robot("planar2"))
    samples = smooth_samples(robot, 3000, 3)
    noise = 0.01 * samples.tau.std(axis=0) * np.random.default_rng(0).standard_normal(samples.tau.shape)
    log = log_from_arrays(robot.joint_names, np.arange(3000) / samples.rate_hz, samples.q, samples.tau + noise)
    return robot, log, samples, mindyn.identify(robot, log)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_explains_the_log_with_the_chosen_settings(recorded, method):
    robot, log, samples, start = recorded
    estimate = mindyn.identify(robot, log, METHODS[method], start.settings)
    slow_speed = None if method == "energy" else start.settings.conditioning.slow_speed
    assert estimate.settings.conditioning == replace(start.settings.conditioning, slow_speed=slow_speed)
    assert estimate.regressor.friction == start.regressor.friction
    inside = slice(200, -200)
    missed = (estimate.predict(samples) - samples.tau)[inside]
    assert np.linalg.norm(missed) < 0.02 * np.linalg.norm(samples.tau[inside])
    assert estimate.status != start.status


def test_a_given_estimator_gets_the_settings_selected_for_least_squares(recorded):
    robot, log, _, start = recorded
    estimate = mindyn.identify(robot, log, METHODS["ordinary"])
    assert estimate.settings == start.settings
    assert estimate.values.dropped == ()


def test_unknown_methods_raise_an_error_that_lists_the_known_ones(tmp_path):
    for options, words in (
        (("--method", "magic"), "got 'magic'"),
        (("--method", "instruments", "--stream"), "exclude each"),
    ):
        ended = mindyn_program("identify", "planar2", tmp_path / "none.csv", *options)
        assert ended.code == 1
        assert words in ended.err


def test_the_last_link_first_finds_friction_of_a_robot_that_states_none():
    robot = with_estimated_drives(mindyn.load_robot("planar2"))
    samples = smooth_samples(robot, 2000, 4)
    log = log_from_arrays(robot.joint_names, np.arange(2000) / samples.rate_hz, samples.q, samples.tau)
    equation_settings = EquationSettings(mindyn.Conditioning(motion_hz=20.0), friction=mindyn.Friction("sign"))
    bare = replace(robot, drives=())
    estimate = mindyn.identify(bare, log, mindyn.LastLinkFirst(), equation_settings)
    assert {"viscous", "coulomb", "offset"} <= {parameter.kind for parameter in estimate.parameters}
    assert mindyn.validate(estimate, log).error.total < 0.05
