"""Gram matrices compare settings, R factors fit them: on ill-conditioned robots both select the same settings."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from robots import random_robot

import mindyn
from mindyn.foundation.algebra.poses import Pose
from mindyn.identification.estimators.least_squares import LeastSquares, fit_weighted
from mindyn.identification.selection.candidates import limits_of
from mindyn.identification.selection.scores import TrialScore
from mindyn.identification.selection.trials import Trial, Trials, decimation_for
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.filters import edge_duration_s, lowpass
from mindyn.regression.friction import Friction
from mindyn.regression.information import GramMatrices, Information, Triangle, add_information, triangle_of
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.regression.settings import EquationSettings

RATE_HZ = 100.0
CONDITIONING = Conditioning(motion_hz=None, velocity="measured", rate_hz=RATE_HZ, stamps="uniform", edge_s=0.0)


def nearly_parallel(angle):
    """A spatial arm whose last axis is `angle` rad from the one before it."""
    arm = random_robot(4, joints=3, tree=False)
    c, s = np.cos(angle), np.sin(angle)
    tilt = Pose(np.array([[1, 0, 0], [0, c, -s], [0, s, c]]), (0.3, 0.0, 0.1))
    joints = tuple(
        replace(joint, axis=np.array([0.0, 0.0, 1.0]), origin=tilt if k == 2 else joint.origin)
        for k, joint in enumerate(arm.joints)
    )
    return replace(arm, joints=joints)


def log_of(robot, size):
    rng = np.random.default_rng(1)
    t = np.arange(1600)[:, None, None] / RATE_HZ
    rates, phases = rng.uniform(0.5, 5, (3, robot.joint_count)), rng.uniform(0, 6, (3, robot.joint_count))
    q = size * np.sin(t * rates + phases).sum(axis=1)
    qd = size * (rates * np.cos(t * rates + phases)).sum(axis=1)
    qdd = -size * (rates**2 * np.sin(t * rates + phases)).sum(axis=1)
    tau = mindyn.compile_model(robot).inverse_dynamics(q, qd, qdd)
    scale = np.sqrt((tau**2).mean(axis=0))
    tau = tau + scale * (0.1 * np.tanh(qd / 0.05) + 0.02 * rng.normal(size=q.shape))
    return mindyn.log_from_arrays(robot.joint_names, t[:, 0, 0], q, tau, qd)


def score_by_factors(trials, trial):
    """The cross-validated error of a trial from R factors: dense columns, QR, singular values, and no product."""
    samples = trials.samples(trial.conditioning).samples
    regressor = trials.regressor.with_friction(trial.friction)
    directions = regressor.directions(samples.q, samples.qd, samples.segments, samples.rate_hz)
    parts = regressor.parts(samples.q, samples.qd, samples.qdd, directions)
    smooth = [lowpass(np.concatenate(arrays, axis=1), trial.equations_hz, RATE_HZ) for arrays in parts]
    tau = lowpass(samples.tau, trial.equations_hz, RATE_HZ)
    trim, edge = (int(np.ceil(edge_duration_s(f) * RATE_HZ)) for f in (trial.equations_hz, None))
    step = decimation_for(trial.equations_hz, RATE_HZ)
    ends = np.linspace(0, len(tau), trials.fold_count + 1).astype(int)
    blocks = []
    for start, stop in pairwise(ends):
        rows = np.arange(start + trim, stop - trim, step)
        factors = tuple(triangle_of(np.column_stack([Y, tau[:, i]])[rows]) for i, Y in enumerate(smooth))
        counts = (len(rows),) * len(smooth)
        blocks.append(Information(regressor.joint_names, regressor.names, regressor.columns, factors, counts))
    left, power = [], []
    for k, (start, stop) in enumerate(pairwise(ends)):
        rest = add_information([block for block in blocks if block is not blocks[k]])
        beta = fit_weighted(LeastSquares(friction_rule=limits_of(trial.settings)), rest, regressor=regressor).beta
        rows = np.arange(max(start, edge), min(stop, len(tau) - edge))
        held = np.stack([Y[rows] @ beta[c] for Y, c in zip(smooth, regressor.columns, strict=True)], axis=1)
        left.append(((samples.tau[rows] - held) ** 2).sum(axis=0))
        power.append((samples.tau[rows] ** 2).sum(axis=0))
    return TrialScore(np.array(left), np.array(power))


@pytest.mark.parametrize(
    ("robot", "size"),
    [(nearly_parallel(1e-3), 0.5), (nearly_parallel(1e-5), 0.5), (random_robot(7, joints=3, tree=False), 0.002)],
    ids=["1e-3 rad from parallel", "1e-5 rad from parallel", "a motion of 0.1 degrees"],
)
def test_both_select_the_same_settings(robot, size):
    robot = with_estimated_drives(robot)
    trials = Trials(mindyn.Experiment(robot, log_of(robot, size)), Regressor(robot))
    frictions = (
        Friction("sign"),
        *(Friction("tanh", width) for width in (0.01, 0.05, 0.2)),
        Friction("tanh", 0.05, ("square",)),
    )
    settings = [
        EquationSettings(CONDITIONING, f, friction=friction) for f in (None, 5.0, 20.0) for friction in frictions
    ]
    by_products = [trials.score(Trial(setting)).criterion for setting in settings]
    by_factors = [score_by_factors(trials, Trial(setting)).criterion for setting in settings]
    assert np.isfinite(by_products).all()
    assert np.argmin(by_products) == np.argmin(by_factors)
    np.testing.assert_allclose(by_products, by_factors, rtol=1e-3)
    R, _ = trials_factors(trials, settings[0])
    assert np.linalg.cond(R / np.linalg.norm(R, axis=0)) > 1e4  # products square it


def trials_factors(trials, settings):
    return mindyn.build_rows(
        trials.regressor.robot, list(trials.logs), replace(settings, drive_parameters="stated")
    ).information.stacked()


def test_both_accumulate_the_same_rows():
    rng = np.random.default_rng(0)
    rows, groups = rng.normal(size=(900, 7)), [(0, slice(3, 800, 4)), (1, rng.uniform(size=900) < 0.3)]
    triangles, products = [Triangle(7), Triangle(7)], GramMatrices(rows, 2)
    for k, taken in groups:
        triangles[k].append([rows[taken, :4], rows[taken, 4:]])
    products.add((k, taken if isinstance(taken, slice) else np.flatnonzero(taken)) for k, taken in groups)
    for triangle, matrix, (_, taken) in zip(triangles, products.matrices, groups, strict=True):
        np.testing.assert_allclose(triangle.R.T @ triangle.R, matrix, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(rows[taken].T @ rows[taken], matrix, rtol=1e-12, atol=1e-12)
