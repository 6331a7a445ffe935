"""Shifts by timing and differences: each beside the fit that does not have that error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import assert_close
from equations import equations
from estimators.recovered import smooth_samples
from robots import random_robot, with_random_drives

from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.uncertainty.dropped_parameters import with_dropped_parameters
from mindyn.identification.uncertainty.systematic_errors import FitRows, difference_shift, timing_error
from mindyn.logs.conditioning import AS_LOGGED, Conditioning
from mindyn.logs.differentiation import central_difference
from mindyn.logs.interpolation import delay_rows

ROBOT = with_random_drives(random_robot(21, joints=2, tree=False, gravity=(0.0, 0.0, -9.81)), 21)
INNER = slice(50, -50)
EXACT = smooth_samples(ROBOT, 3000, seed=1)
FIT = LeastSquares(weights="ordinary")


def with_noise(samples, sigma=0.05):
    noise = np.random.default_rng(4).standard_normal(samples.tau.shape)
    return replace(samples, tau=samples.tau + sigma * noise)


def delay_motion(samples, seconds):
    """The samples with their motion later by so much."""
    rows = seconds * samples.rate_hz
    late = {name: delay_rows(getattr(samples, name), rows) for name in ("q", "qd", "qdd")}
    return replace(samples, **late).take(INNER)


@pytest.mark.parametrize("equations_hz", [None, 20.0])
@pytest.mark.parametrize("seconds", [-0.001, 0.0, 0.0015])
def test_a_delay_is_found_within_its_deviation(seconds, equations_hz):
    samples = with_noise(delay_motion(EXACT, seconds))
    estimate = LeastSquares().fit(equations(ROBOT, samples, equations_hz=equations_hz))
    _, asked, deviation = timing_error(FitRows(estimate, samples))
    assert asked == pytest.approx(-seconds, abs=4 * deviation)
    assert 0 < deviation < 5e-4


def test_the_estimate_changes_with_the_timing_as_predicted():
    base = with_noise(EXACT)
    fits = {t: FIT.fit(equations(ROBOT, delay_motion(base, t))) for t in (-2e-4, 0.0, 2e-4)}
    samples = delay_motion(base, 0.0)
    message, _, _ = timing_error(FitRows(fits[0.0], samples))
    smooth = [k for k, name in enumerate(fits[0.0].names) if not name.startswith("fc")]
    measured = (fits[2e-4].beta - fits[-2e-4].beta) / 4e-4
    assert_close(message[smooth], measured[smooth], 0.1)


def test_better_differences_change_the_estimate_as_predicted():
    exact = with_noise(EXACT)
    qd = central_difference(exact.q, exact.rate_hz)
    rough = replace(exact, qd=qd, qdd=central_difference(qd, exact.rate_hz)).take(INNER)
    result, better = FIT.fit(equations(ROBOT, rough)), FIT.fit(equations(ROBOT, exact.take(INNER)))
    message = difference_shift(FitRows(result, rough), Conditioning())
    assert_close(message, better.beta - result.beta, 0.1)
    assert not difference_shift(FitRows(result, rough), AS_LOGGED).any()


def test_the_status_names_parameters_that_dropped_ones_would_move():
    rows = equations(ROBOT, with_noise(EXACT))
    full = LeastSquares().fit(rows)
    heaviest = full.names[int(np.argmax(np.abs(full.beta) / full.deviations))]
    estimate = with_dropped_parameters(LeastSquares(dropped=(heaviest,)).fit(rows), rows.blocks)
    assert "Intervals assume that dropped parameters are zero" in estimate.status
    assert heaviest not in estimate.status
    assert "Intervals assume" not in with_dropped_parameters(full, rows.blocks).status
