"""Errors of columns from stated noise, what a fit says of open combinations, and answers in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, assert_close

from mindyn.identification.estimators.coloured_noise import colouring_of
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.feasibility.checks.answer import Answer
from mindyn.logs.samples import Samples
from mindyn.regression.information import Information, triangle_of
from mindyn.regression.regressor import Regressor
from mindyn.regression.rows import Rows
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Drive


@pytest.fixture(scope="module")
def regressor():
    robot = load_robot("planar2")
    return Regressor(replace(robot, drives=tuple(Drive(name) for name in robot.joint_names)))


def samples_of(regressor, rows=12, usable=None):
    arrays = np.random.default_rng(0).normal(size=(4, rows, 2))
    return Samples(regressor.joint_names, *arrays, 100.0, np.zeros(rows, dtype=np.int64), usable)


def test_the_status_of_a_fit_counts_undetermined_combinations(regressor):
    rng = np.random.default_rng(1)
    tables = []
    for columns in regressor.columns:
        Y = rng.normal(size=(60, len(columns)))
        if 0 in columns and 1 in columns:
            Y[:, list(columns).index(1)] = 2 * Y[:, list(columns).index(0)]
        tables.append(np.column_stack([Y, rng.normal(size=60)]))
    factors = tuple(map(triangle_of, tables))
    information = Information(regressor.joint_names, regressor.names, regressor.columns, factors, (60, 60))
    alone = [0, 1] if all((0 in c) == (1 in c) for c in regressor.columns) else []
    estimate = LeastSquares().fit(Rows.of_information(regressor, information))
    if alone:
        names = ", ".join(regressor.names[k] for k in alone)
        assert f"the data do not determine 1 combination of: {names} (their values" in estimate.status
    whole = LeastSquares(dropped=(regressor.names[0],)).fit(Rows.of_information(regressor, information))
    assert whole.status.startswith(f"{regressor.count - 1} parameters from 120 equations")
    assert "open" not in whole.status
    assert whole.values.unidentifiable == ()


def test_answers_are_words_with_their_reason():
    assert Answer("positive_definite", True, "because.").sentence == "positive definite: because."
    assert Answer("positive_definite", None, "because.").sentence == "undecided: because."
    no = Answer("consistent", False, "because.", {"within_uncertainty": True})
    assert no.sentence.endswith(": because.")
    assert not no.sentence.startswith("consistent:")
    assert no.within_uncertainty
    assert not Answer("consistent", True, "", {"within_uncertainty": True}).within_uncertainty
    assert not Answer("consistent", False, "").within_uncertainty
    assert no.to_dict()["sentence"] == no.sentence


def test_residuals_remember_within_their_segments(regressor):
    samples = samples_of(regressor, 40)
    beta = np.zeros(regressor.count)
    tau = np.random.default_rng(2).normal(size=(41, 2))
    series = replace(samples, tau=tau[1:] + 0.8 * tau[:-1])
    colouring = colouring_of(regressor, beta, series, None, 1)
    for j in range(2):
        e = series.tau[:, j]
        assert_close(colouring.neighbours[j], (e[1:] @ e[:-1]) / (e @ e), ORACLE)
    silent = colouring_of(regressor, beta, replace(samples, tau=0 * samples.tau), None, 1)
    assert (silent.variances, silent.neighbours) == ((0.0, 0.0), (0.0, 0.0))
