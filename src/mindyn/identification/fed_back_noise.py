"""Detect noise that a controller feeds back to the torque: instruments then contain the noise of the columns, and
values are biased.

The test compares the values of a fit that keeps frequencies above the motion with those of a fit that does not:

    d^T (C + C_low)^-1 d  against chi^2 of p,    d = beta - beta_low
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from mindyn.foundation.algebra.normal_equations import solve_normal_equations
from mindyn.foundation.errors import MindynError
from mindyn.foundation.findings import Finding, Kind, Severity
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimator import Estimator
from mindyn.identification.selection.choose import highest_filter
from mindyn.identification.selection.trials import decimation_for, rate_of
from mindyn.logs.conditioning import Conditioning
from mindyn.regression.experiment import Experiment

SAME_BAND: Final = 1.2
"""Cut-offs are compared only if their ratio is at least this."""
LEVEL: Final = 1e-3
"""Nominal probability of a false alarm. Measured at 1e-2 and 1e-4, on both sides of it, with fixed friction. On 40 arms
with 4e-4 rad of noise that is fed back, the test detects fits without a filter in 100 and 100 %, with 32 Hz in 100 and
97 %, and with 12 Hz, where 81 % of the intervals contain the true value, in 35 and 7 %. On 12 arms with 5e-5 rad it
raises no alarm at 12 and 16 Hz, where the intervals are right."""


def find_fed_back_noise(estimator: Estimator, estimate: Estimate, experiment: Experiment) -> list[Finding]:
    """Return an error if the values of an instrumental-variables fit change significantly when high frequencies are
    removed.
    """
    from scipy.special import chdtri

    settings, conditioning = estimate.settings, estimate.settings.conditioning
    if not estimator.filters_alike or not isinstance(conditioning, Conditioning):
        return []
    used, highest = settings.filtering.equations_hz, highest_filter(conditioning, experiment.logs)
    if used is not None and used <= SAME_BAND * highest:
        return []
    step = decimation_for(highest, rate_of(conditioning))
    try:
        low = estimator.fit(experiment.equations(replace(settings, equations_hz=highest, keep_every=step)))
    except MindynError:
        return []
    known = np.isfinite(np.diag(estimate.covariance)) & np.isfinite(np.diag(low.covariance))
    covariance = (estimate.covariance + low.covariance)[np.ix_(known, known)]
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    change = (estimate.beta - low.beta)[known] / scale
    distance = float(change @ solve_normal_equations(covariance / scale / scale[:, None], change))
    if distance <= chdtri(max(1, len(change)), LEVEL):
        return []
    kept = "no filter" if used is None else f"a filter of {used:.3g} Hz"
    message = (
        f"the values are biased: with {kept} they differ by up to {float(np.abs(change).max()):.2g} standard "
        f"deviations from those below {highest:.3g} Hz, where the motion is; the controller probably feeds back "
        "the noise of the encoders"
    )
    remedy = f'Pass equations_hz="auto", or equations_hz={highest:.3g} or less.'
    return [Finding(Kind.BIASED_INSTRUMENTS, Severity.ERROR, message, remedy, value=highest, unit="Hz")]
