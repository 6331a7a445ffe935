"""Noise of the torque, told from the torque alone, and what it puts into instruments that are made from that torque.

The acceleration that a model expects, M^-1 (tau - h), carries the torque's noise e into the instruments:
Omega = Omega(qdd) + J M^-1 e, J = dOmega/dqdd. Then Omega_i^T e_i has the mean J_i M^-1 (column i) var(e_i).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.estimators.estimate import Estimate
from mindyn.logs.filters import lowpass
from mindyn.logs.samples import Samples
from mindyn.regression.regressor import Regressor

NORMAL_MEDIAN: Final = 0.6744897501960817
"""Median of the size of a normal variable, in standard deviations."""
IMPULSE_ROWS: Final = 4096
COMPARED_ROWS: Final = 5000
"""Rows, evenly spread, over which dOmega is averaged."""


def torque_noise(samples: Samples) -> Array:
    """(n,) standard deviations of white noise: the median second difference, which jumps of friction hardly move.

    The torque itself has second differences too, small where rows follow its motion closely.
    """
    within = samples.segments[2:] == samples.segments[:-2]
    if not within.any():
        return np.zeros(samples.tau.shape[1])
    bends = np.abs(np.diff(samples.tau, n=2, axis=0)[within])
    return np.asarray(np.median(bends, axis=0) / (NORMAL_MEDIAN * np.sqrt(6.0)))


def noise_in_both(estimate: Estimate, expected: Samples, M: Array, cutoff_hz: float | None) -> list[Array]:
    """For each joint i the mean (p,) of Omega_i^T e_i over the rows of the fit that noise of the torque makes.

    expected   samples with the accelerations of the instrument model, `usable` where it has some
    M          (N, n, n) inertia matrices of that model
    """
    variances = torque_noise(expected) ** 2 * _passed(cutoff_hz, expected.rate_hz)
    every = slice(None, None, 1 + len(expected) // COMPARED_ROWS)
    some, M = expected.take(every), M[every]
    assert some.usable is not None
    found = []
    for joint, (variance, residual) in enumerate(zip(variances, estimate.residuals, strict=True)):
        usable = some.usable[:, joint]
        push = np.asarray(np.linalg.inv(M[usable])[:, :, joint], dtype=np.float64)
        mean = _mean_change(estimate.regressor, some.q[usable], some.qd[usable], push, joint)
        rows = residual.rows * float(usable.mean())
        # Noise is not more than what the fit leaves: second differences of rough rows would say so.
        found.append(rows * min(variance, residual.rms**2) * mean)
    return found


def _mean_change(regressor: Regressor, q: Array, qd: Array, push: Array, joint: int) -> Array:
    """(p,) by how much accelerations `push` (N, n) change the columns of a joint, on average."""
    if not len(push):
        return np.zeros(regressor.count)
    directions = regressor.directions(q, qd, np.zeros(len(push), dtype=np.int64), 1.0)
    pushed, coasting = (regressor.dense(regressor.parts(q, qd, qdd, directions)) for qdd in (push, np.zeros_like(push)))
    return np.asarray((pushed - coasting)[:, joint].mean(axis=0))


def _passed(cutoff_hz: float | None, rate_hz: float) -> float:
    """The part of the variance of white noise that a low pass leaves."""
    if cutoff_hz is None:
        return 1.0
    impulse = np.zeros(IMPULSE_ROWS)
    impulse[IMPULSE_ROWS // 2] = 1.0
    return float((lowpass(impulse, cutoff_hz, rate_hz) ** 2).sum())
