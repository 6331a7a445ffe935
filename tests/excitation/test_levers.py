"""Levers of a design: what a faster or longer motion determines, compared with dense regressors of those motions."""

from __future__ import annotations

import numpy as np
import pytest

import mindyn
from mindyn.kernels.model import compile_model
from mindyn.motions.excitation.better_motions import Lever, describe_levers
from mindyn.regression.regressor import with_estimated_drives

RATE_HZ, SECONDS = 100.0, 6.0
NOISES = (20.0, 35.0, 60.0, 80.0, 110.0, 160.0)
"""N m: levels at which different numbers of parameters are determined."""


def design_with(noise):
    robot = mindyn.load_robot("planar2")
    limits = mindyn.MotionLimits.of(robot, lower=-2.0, upper=2.0, velocity=1.2, acceleration=8.0, effort=4000.0)
    search = mindyn.SearchSettings(starts=1)
    motion, log = mindyn.MotionSettings(speed=0.6), mindyn.ExpectedLog(RATE_HZ, noise)
    return mindyn.design_motion(robot, seconds=SECONDS, limits=limits, motion=motion, log=log, search=search)


@pytest.fixture(scope="module")
def designs():
    return [design_with(noise) for noise in NOISES]


@pytest.fixture(scope="module")
def design(designs):
    return designs[2]


def determined(design, speed, repeated):
    """Count parameters within 10 % in a log of the path at another speed, of `repeated` times its rows."""
    robot = with_estimated_drives(mindyn.load_robot("planar2"))
    t = np.arange(int(SECONDS / speed * RATE_HZ + 1e-9) + 1) / RATE_HZ * speed
    q, qd, qdd = design.motion.rows(t)
    Y = compile_model(robot, with_drives=True).regressor(q, speed * qd, speed**2 * qdd)
    stacked = Y.reshape(-1, Y.shape[-1])
    covariance = np.linalg.inv(stacked.T @ stacked) * design.noise[0] ** 2 / repeated
    deviations, values = np.sqrt(np.diag(covariance)), np.abs(design.prediction.values)
    return int(np.sum((values > 1.96 * deviations) & (deviations <= 0.1 * values)))


def test_levers_count_what_the_scaled_motions_determine(designs):
    for design in designs:
        for lever in design.levers:
            speed = lever.factor if lever.what == "speed" else 1.0
            assert lever.determined == determined(design, speed, lever.factor), (lever, design.noise)
    assert len({tuple(lever.determined for lever in design.levers) for design in designs}) > 2


def test_limits_that_a_faster_motion_exceeds_are_named(design):
    used, parts = design.shares, design.parts
    assert parts["velocity"] == 0.6
    for lever in design.levers:
        if lever.what == "duration":
            assert lever.exceeded == ()
            continue
        expected = {"velocity": used["velocity"] * lever.factor, "acceleration": used["acceleration"] * lever.factor**2}
        for kind, value in expected.items():
            if abs(value - 1) > 0.02:  # between two instants a peak is a little higher
                assert (kind in lever.exceeded) == (value > 1), (lever, value)


def test_the_summary_prints_them(design):
    sentence = next(line for line in design.summary() if "will determine" in line)
    assert "with --tip-speed 1.5" in sentence
    assert "with --seconds 12" in sentence
    assert [entry["factor"] for entry in design.to_dict()["levers"]] == [1.5, 2.0, 1.5, 2.0]


def test_a_lever_beyond_the_limits_says_so():
    levers = (Lever("speed", 2.0, 22, ("velocity",)), Lever("duration", 2.0, 17))
    assert describe_levers(levers, 1.0, 20.0) == (
        "22 with --tip-speed 2 (beyond the limits of velocity); 17 with --seconds 40"
    )
    assert describe_levers(levers, np.inf, 20.0).startswith("22 at 2 times the speed")
    assert describe_levers((), 1.0, 20.0) == ""
