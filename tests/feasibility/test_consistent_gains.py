"""Drive gains together with physical links: the truth from exact runs, physical links from noisy ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from closeness import assert_close
from estimators.recovered import exact_samples
from raising import raises
from robots import random_robot, with_random_drives

from mindyn.algebra.inertia import check_consistency, phi_about_origin
from mindyn.errors import Code, InputError
from mindyn.loads.from_runs import consistent_drive_gains, drive_gains
from mindyn.regression.regressor import with_estimated_drives
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Link

LOAD = phi_about_origin(4.0, np.array([0.1, -0.2, 0.15]), 0.05 * np.eye(3))
GAINS = np.array([0.7, 2.5, 1.3])
DRAWS = 8


def runs(noise, count=300, draw=0):
    robot = with_random_drives(random_robot(31, joints=3, tree=False, gravity=(0.0, 0.0, -9.81)), 31)
    last = robot.links[-1]
    carrying = replace(robot, links=(*robot.links[:-1], Link(last.name, last.phi + LOAD)))
    result = []
    for seed, arm in enumerate((robot, carrying)):
        samples = exact_samples(arm, count, seed=seed + 2 * draw, noise=noise)
        result.append(replace(samples, tau=samples.tau / GAINS))
    return robot, *result


def test_exact_runs_give_the_gains():
    robot, unloaded, loaded = runs(0.0)
    gains = consistent_drive_gains(robot, unloaded, loaded, LOAD)
    assert_close(gains.gains.values, GAINS, 1e-3)


def test_noisy_runs_give_physical_links_and_gains_that_noise_does_not_make_small():
    """With signals as columns of the equations, the third gain came out 7.6 % low.

    Links near true inertials make gains better on average, not in every run: their rms error over several draws of the
    noise does not grow, and neither mean is off by more than its standard deviation.
    """
    errors, deviations = [], []
    for draw in range(DRAWS):
        robot, unloaded, loaded = runs(1.0, 60, draw)
        result = consistent_drive_gains(robot, unloaded, loaded, LOAD, prior="robot", prior_weight=1e-2)
        plain = drive_gains(robot, unloaded, loaded, LOAD)
        assert all(check_consistency(result.values[10 * i : 10 * i + 10]).is_feasible for i in range(3))
        for gains in (result.gains, plain):
            assert (np.abs(gains.values - GAINS) <= 3 * gains.deviations).all()
        errors.append([result.gains.values / GAINS - 1, plain.values / GAINS - 1])
        deviations.append(plain.deviations / GAINS)
    consistent, free = np.sqrt((np.array(errors) ** 2).mean(axis=(0, 2)))
    assert consistent <= free
    spread = np.mean(deviations, axis=0) / np.sqrt(DRAWS)
    assert (np.abs(np.mean(errors, axis=0)) <= 3 * spread).all()


def test_an_uninformative_load_raises():
    robot, unloaded, loaded = runs(0.0)
    with raises(InputError, Code.NOT_IDENTIFIABLE, "joint1, joint2, joint3"):
        consistent_drive_gains(robot, unloaded, loaded, np.zeros(10))


def test_a_robot_with_loops_raises():
    robot = with_estimated_drives(load_robot("parallelogram_planar"))
    samples = exact_samples(robot, 50)
    for gains in (drive_gains, consistent_drive_gains):
        with raises(InputError, Code.AMBIGUOUS, "link"):
            gains(robot, samples, samples, phi_about_origin(1.0, np.zeros(3), np.eye(3)))
