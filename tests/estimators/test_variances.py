"""Residual variances are those of the textbook: rows less the parameters that they pay for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from equations import equations

import mindyn


def few_samples(robot, rows, seed=0):
    rng = np.random.default_rng(seed)
    q, qd, qdd = rng.uniform(-2, 2, (3, rows, robot.joint_count))
    tau = mindyn.compile_model(robot, with_drives=bool(robot.drives)).inverse_dynamics(q, qd, qdd)
    return mindyn.Samples(
        robot.joint_names, q, qd, qdd, tau + rng.standard_normal(tau.shape), 100.0, np.zeros(rows, int)
    )


def test_the_covariance_of_one_joint_is_that_of_ordinary_least_squares():
    """sigma^2 (Y^T Y)^-1 with sigma^2 = rss / (N - p), and 25 rows for 5 parameters: the divisor is a fifth."""
    arm = mindyn.load_robot("planar2").subchain("base", "link1")
    robot = replace(arm, drives=(mindyn.Drive("joint1", viscous=0.3, coulomb=0.2, offset=0.1),))
    samples = few_samples(robot, 25)
    estimate = mindyn.LeastSquares(weights="ordinary").fit(equations(robot, samples))
    base = estimate.base
    Y = mindyn.compile_model(robot, with_drives=True, base=base).regressor(samples.q, samples.qd, samples.qdd)[:, 0]
    beta, rss, rank, _ = np.linalg.lstsq(Y, samples.tau[:, 0], rcond=None)
    assert rank == len(beta) >= 5
    assert_close(estimate.beta, beta, SAME_ALGEBRA * 1e3)
    assert_close(estimate.covariance, rss[0] / (25 - rank) * np.linalg.inv(Y.T @ Y), SAME_ALGEBRA * 1e3)


@pytest.mark.parametrize("seed", range(3))
def test_every_joint_pays_for_its_share_of_the_parameters(seed):
    """variance_i = rss_i / (N - leverage_i), leverages adding up to all parameters; the sandwich around them."""
    robot, rows = replace(mindyn.load_robot("planar2"), drives=()), 8
    samples = few_samples(robot, rows, seed)
    estimate = mindyn.LeastSquares(weights="ordinary").fit(equations(robot, samples))
    Y = mindyn.compile_model(robot, base=estimate.base).regressor(samples.q, samples.qd, samples.qdd)
    inverse = np.linalg.inv(np.einsum("nip,niq->pq", Y, Y))
    beta = inverse @ np.einsum("nip,ni->p", Y, samples.tau)
    leverage = np.einsum("nip,pq,niq->i", Y, inverse, Y)
    assert_close(leverage.sum(), len(beta), SAME_ALGEBRA * 1e3)
    variances = ((samples.tau - Y @ beta) ** 2).sum(axis=0) / (rows - leverage)
    meat = np.einsum("i,nip,niq->pq", variances, Y, Y)
    assert_close(estimate.covariance, inverse @ meat @ inverse, SAME_ALGEBRA * 1e3)
