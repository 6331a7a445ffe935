"""Recursive least squares: errors, and results that do not depend on how often they are read."""

from __future__ import annotations

import numpy as np
import pytest
from raising import raises
from recovered import exact_samples
from robots import random_robot

from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.recursive_least_squares import SIGNALS, RecursiveLeastSquares


@pytest.fixture(scope="module")
def case():
    robot = random_robot(3, joints=3, tree=False, special=False)
    return robot, exact_samples(robot, count=300, seed=1)


@pytest.mark.parametrize(("signal", "name"), list(enumerate(("q", "qd", "qdd", "tau"))))
def test_a_value_that_is_not_a_number_is_named_by_signal_and_joint(case, signal, name):
    robot, samples = case
    rows = [array[0].copy() for array in (samples.q, samples.qd, samples.qdd, samples.tau)]
    rows[signal][1] = np.nan
    with raises(InputError, Code.NOT_FINITE, "joint2"):
        RecursiveLeastSquares(robot).update(*rows)
    assert SIGNALS[signal] == name


def result(online):
    estimate = online.estimate()
    return np.concatenate([online.beta, estimate.beta, estimate.covariance.ravel()])


@pytest.mark.parametrize("forgetting", [1.0, 0.995])
def test_reading_never_changes_the_result(case, forgetting):
    """Any pattern of reading gives the same bits, now and later, as reading once."""
    robot, samples = case
    rng = np.random.default_rng(4)
    online = [RecursiveLeastSquares(robot, forgetting=forgetting) for _ in range(4)]
    parts = [0.0, 0.02, 0.3, 1.0]
    for k, row in enumerate(zip(samples.q, samples.qd, samples.qdd, samples.tau, strict=True)):
        for item, part in zip(online, parts, strict=True):
            item.update(*row)
            if k > 40 and rng.random() < part:
                _ = item.beta if rng.random() < 0.5 else result(item)
        if k in (60, 127, 128, 200):
            assert len({result(item).tobytes() for item in online[1:]}) == 1
    assert len({result(item).tobytes() for item in online}) == 1


def test_samples_of_another_shape_are_rejected(case):
    robot, samples = case
    online = RecursiveLeastSquares(robot)
    good = samples.q[0]
    for bad in (0.5, good[:2], np.tile(good, 2), ["a", "b", "c"], None):
        with raises(InputError, Code.WRONG_SHAPE, "sample"):
            online.update(good, bad, good, good)
    assert online.count == 0
