"""Intervals that `identify` gives on encoder logs of a held torque: they cover the truth nearly as often as said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import mindyn
from mindyn.foundation.algebra.significance import NORMAL_95
from mindyn.logs.log import log_from_arrays
from mindyn.motions.simulation.sensors import measure

REPETITIONS = 6
SENSORS = mindyn.Sensors(rate_hz=100.0, counts_per_revolution=4000, torque_noise=0.05)


def arm():
    """Two heavy links with friction at the motors."""
    robot = mindyn.load_robot("planar2")
    return replace(robot, drives=tuple(replace(drive, viscous=0.01, coulomb=0.4) for drive in robot.drives))


def unknown(robot):
    """What is known before: geometry and gears."""
    links = tuple(replace(link, phi=None) for link in robot.links)
    drives = tuple(mindyn.Drive(drive.joint, drive.ratio, drive.coupling, side=drive.side) for drive in robot.drives)
    return replace(robot, links=links, drives=drives)


@pytest.fixture(scope="module")
def estimates():
    """From recordings of different motions, whose systematic errors differ; a torque that is read is held for 5 ms."""
    return [mindyn.identify(unknown(arm()), record(seed)) for seed in range(REPETITIONS)]


def record(seed):
    """Return the log of a random motion of the arm."""
    shape = np.random.default_rng(seed).uniform([[[0.2]], [[0.1]], [[0.0]]], [[[0.6]], [[0.9]], [[6.0]]], (3, 4, 2))
    reference, robot = mindyn.SineMotion(np.array([0.3, 0.4]), *shape), arm()
    q0, qd0, _ = reference(0.0)
    controller = mindyn.ComputedTorque(robot, reference, 400.0, 40.0, with_drives=True)
    run = mindyn.simulate(
        robot, controller, seconds=12.0, q0=q0, qd0=qd0, rate_hz=200.0, with_drives=True, method="fixed"
    )
    read = measure(robot, run, replace(SENSORS, seed=seed))
    return log_from_arrays(read.joint_names, read.t, read.position, read.torque)


def inside(result):
    """For each parameter of the arm that was kept, whether its interval holds the truth."""
    truth = replace(result.base, robot=arm()).values
    kept = [k for k, name in enumerate(result.base.names) if name not in result.values.dropped]
    return {result.names[k]: abs(result.beta[k] - truth[k]) <= NORMAL_95 * result.deviations[k] for k in kept}


def test_intervals_of_identify_cover_the_truth(estimates):
    """95 % is said; parameters that are zero and were kept by chance, and some left out, cost a part of it."""
    runs = [inside(estimate) for estimate in estimates]
    assert np.mean([held for run in runs for held in run.values()]) >= 0.85
    always = set.intersection(*(set(run) for run in runs))
    assert len(always) >= 8
    for name in always:
        assert np.mean([run[name] for run in runs]) >= 0.5, name


def test_intervals_of_noise_alone_do_not(estimates):
    runs = [inside(estimate.by_noise_alone()) for estimate in estimates]
    assert np.mean([held for run in runs for held in run.values()]) < 0.75


def test_the_timing_that_the_smooth_torque_asks_for_is_half_the_time_it_is_held(estimates):
    for estimate in estimates:
        message = estimate.provenance.notes["systematic"]
        delay = estimate.settings.conditioning.delay_s + message["timing_s"]
        assert delay == pytest.approx(-0.0025, abs=4 * message["timing_deviation_s"])
        assert message["timing_deviation_s"] < 1e-4


def test_saved_intervals_are_restored_and_distinguished(estimates, tmp_path):
    result = estimates[0]
    result.save(tmp_path / "estimate.json")
    again = mindyn.load_estimate(tmp_path / "estimate.json")
    np.testing.assert_array_equal(again.deviations, result.deviations)
    np.testing.assert_array_equal(again.by_noise_alone().covariance, result.by_noise_alone().covariance)
    kept = [k for k, name in enumerate(result.names) if name not in result.values.dropped]
    assert (result.by_noise_alone().deviations[kept] < result.deviations[kept]).all()
