"""Priors of friction act on coefficients that the speeds of a joint do not separate, and on few others."""

from __future__ import annotations

import numpy as np
import pytest
from honesty.arms import FRICTION_WIDTH_RAD_S, Recording, motion, random_arm

from mindyn.regression.friction_limits import prior_precision
from mindyn.robots.friction_laws import FRICTION_LAWS

ARMS = 100


def speeds(seconds, drift=0.0):
    """Speeds (N, n) of random arms, with a mean of `drift` times the largest speed."""
    for seed in range(ARMS):
        qd = motion(random_arm(seed + 5000, 6), Recording(seconds=seconds), seed)[2]
        yield qd + drift * np.abs(qd).max(axis=0)


def prior_count(kind, motions):
    """Return on how many joints a coefficient has a prior."""
    count = 0
    for u in (column for qd in motions for column in qd.T):
        direction, item = np.tanh(u / FRICTION_WIDTH_RAD_S), np.ones(len(u))
        columns = (
            [item, direction, u] if kind == "offset" else [FRICTION_LAWS[kind].values(u, direction), direction, u, item]
        )
        stacked = np.column_stack(columns)
        count += bool(prior_precision(stacked.T @ stacked) > 0)
    return count


@pytest.mark.parametrize("kind", ["offset", "asymmetric", "square", "cubic", "stribeck"])
def test_motion_in_both_directions_separates_friction(kind):
    assert prior_count(kind, speeds(20.0)) == 0


@pytest.mark.parametrize("kind", ["offset", "asymmetric"])
def test_a_joint_that_never_turns_back_separates_neither_direction(kind):
    assert prior_count(kind, speeds(6.0, drift=1.05)) == 6 * ARMS


def test_root_friction_is_nearly_collinear_at_any_speeds():
    assert prior_count("root", speeds(20.0)) > 5.5 * ARMS
