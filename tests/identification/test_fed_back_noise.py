"""A controller that feeds encoder noise back: instruments are low-passed in the motion's band, or an error is given.

The full study, with the coverage of many arms, is `make study NAME=feedback`.

One private name is tested directly: inputs at its limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from honesty.feedback import AUTOMATIC, assess_intervals, record_log

import mindyn
from mindyn.foundation.findings import Kind, Severity
from mindyn.identification.estimators.instrumental_variables import InstrumentalVariables
from mindyn.identification.fed_back_noise import find_fed_back_noise
from mindyn.identification.selection import choose
from mindyn.identification.selection.trials import Trial
from mindyn.identification.selection.tune import HIGHEST, LOWEST_HZ, SearchSpace, _select_filters

STRONG_RAD = 4e-4
noisy = cache(lambda seed: record_log(seed, STRONG_RAD))


@pytest.mark.parametrize("seed", [10, 14, 24])
def test_strong_noise_does_not_bias_the_fit_that_choose_selects(seed):
    """Without a bound these arms chose no filter, and values that were wrong by up to 16 times the largest one."""
    arm, log = noisy(seed)
    estimate = mindyn.identify(arm, log, InstrumentalVariables(), AUTOMATIC)
    cutoff = estimate.settings.equations_hz
    assert cutoff is not None
    assert cutoff <= choose.highest_filter(mindyn.Conditioning(), [log])
    held, _, error = assess_intervals(estimate, arm)
    assert held.mean() > 0.8
    assert error < 0.1
    assert not [note for note in estimate.findings if note.kind == Kind.BIASED_INSTRUMENTS]


def test_a_requested_biased_fit_has_an_error_finding():
    arm, log = noisy(24)
    estimate = mindyn.identify(arm, log, InstrumentalVariables(), replace(AUTOMATIC, equations_hz=None))
    assert assess_intervals(estimate, arm)[2] > 1.0
    (note,) = (note for note in estimate.findings if note.kind == Kind.BIASED_INSTRUMENTS)
    assert note.severity is Severity.ERROR
    (finding,) = find_fed_back_noise(InstrumentalVariables(), estimate, mindyn.Experiment(arm, log))
    assert (finding.severity, finding.unit) == (Severity.ERROR, "Hz")
    again = replace(AUTOMATIC, equations_hz=finding.value)
    assert assess_intervals(mindyn.identify(arm, log, InstrumentalVariables(), again), arm)[2] < 0.1


def test_noise_that_is_not_fed_back_raises_no_error():
    arm, log = record_log(24, 0.0)
    rng = np.random.default_rng(0)
    tau = log.tau + 0.02 * log.tau.std(axis=0) * rng.normal(size=log.tau.shape)
    q = log.q + 1e-6 * rng.normal(size=log.q.shape)
    quiet = mindyn.log_from_arrays(log.joint_names, log.time, q, tau)
    estimate = mindyn.identify(arm, quiet, InstrumentalVariables(), replace(AUTOMATIC, equations_hz=None))
    assert not [note for note in estimate.findings if note.kind == Kind.BIASED_INSTRUMENTS]


class Scored:
    """Trials in which the highest cut-off, and no filter above all, always predicts best."""

    sketch = None
    timeline = type("Timeline", (), {"repeated": False})

    def along_time(self):
        return self

    def knows(self, trial):  # noqa: ARG002
        return True

    def score(self, trial):
        error = 0.0 if trial.equations_hz is None else 1 / trial.equations_hz
        return type("Score", (), {"criterion": error, "total": error, "mean": error})


@pytest.mark.parametrize("rate", [1.0, 10.0, 125.0, 1000.0])
@pytest.mark.parametrize("times", [0.0, 0.3, 1.0])
def test_no_round_of_tuning_exceeds_the_bound(rate, times):
    bound = min(HIGHEST * rate, LOWEST_HZ + times * (HIGHEST * rate - LOWEST_HZ))
    conditioning = mindyn.Conditioning(rate_hz=rate, stamps="uniform", motion_hz=None, delay_s=0.0)
    asked = mindyn.EquationSettings(replace(conditioning, motion_hz="auto"), "auto")
    for highest, wanted in ((bound, bound), (None, None)):
        trial = Trial(mindyn.EquationSettings(conditioning))
        for _ in range(2):
            trial = _select_filters(Scored(), trial, SearchSpace(asked, highest_filter_hz=highest))
            assert trial.equations_hz == wanted
