"""Find joints whose residual depends on position, direction, load or speed, because the model lacks an effect.

Intervals are valid for the model that is fitted. If a residual depends on a condition, the estimated values depend on
the motion of the log. The residual is fitted by columns of each condition on half of the blocks, and predicted on the
other half: model errors can be predicted, noise cannot. Residual and columns pass the same low-pass filter. (If a
filtered torque were compared with a prediction at the filtered motion, the residual would depend on the speed wherever
friction reverses, even for an exact model.) Several causes have the same residual, so that the finding names the
condition and no cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.findings import Finding, Kind, Severity
from mindyn.identification.diagnostics import thresholds as limit
from mindyn.identification.diagnostics.diagnostic_data import DiagnosticData
from mindyn.identification.smooth_rows import lowpass_rows

BLOCKS: Final = 10
"""Number of contiguous blocks; every second block is predicted from the others."""
SPEED_WIDTH: Final = 0.05
"""Width of the transition around zero velocity, relative to the rms speed of the joint."""
REMEDY: Final = (
    "Intervals hold on motion like that of the log. Record the motion for which the model is needed, or describe what "
    "the model lacks (friction shapes, springs, gear ripple)"
)


def run(data: DiagnosticData) -> list[Finding]:
    """Return findings on residuals that depend on a condition."""
    return list(_find_dependent_residuals(data))


def _find_dependent_residuals(data: DiagnosticData) -> Iterator[Finding]:
    if data.smooth is None or data.is_poorly_excited:
        return
    samples = data.samples
    load = np.abs(data.predict(np.where(data.estimate.regressor.rigid, data.estimate.beta, 0.0)))
    found: dict[str, dict[str, float]] = {}
    for joint, name in enumerate(data.joint_names):
        left = lowpass_rows(samples, data.residuals[:, [joint]])[:, 0]
        torque = float(np.sqrt((lowpass_rows(samples, samples.tau[:, [joint]]) ** 2).mean()))
        columns = _columns_of_conditions(samples.q[:, joint], samples.qd[:, joint], load[:, joint])
        fractions = {
            condition: _predicted_fraction(left, lowpass_rows(samples, part)) for condition, part in columns.items()
        }
        condition = max(fractions, key=lambda key: fractions[key])
        size = float(np.sqrt(max(fractions[condition], 0.0) * (left**2).mean()))
        if fractions[condition] > limit.MIN_DEPENDENT_POWER and size > limit.MIN_DEPENDENT_TORQUE * torque > 0:
            found.setdefault(condition, {})[name] = size / torque
    for condition, sizes in found.items():
        largest = max(sizes.values())
        severity = Severity.WARNING if largest > limit.LARGE_DEPENDENT_TORQUE else Severity.INFO
        joints = ", ".join(f"{name} ({100 * size:.2g} % of its torque)" for name, size in sizes.items())
        message = f"the residual depends on the joint's {condition} at {joints}: no parameter of the model explains it"
        yield Finding(Kind.DEPENDENT_RESIDUAL, severity, message, REMEDY, tuple(sizes), largest, "of the torque")


def _columns_of_conditions(q: Array, qd: Array, load: Array) -> Mapping[str, Array]:
    """Return for each condition the columns (N, k) of a residual that depends on it."""
    width = SPEED_WIDTH * float(np.sqrt((qd**2).mean()))
    way = np.tanh(qd / width) if width > 0 else np.zeros_like(qd)
    turns = np.stack([np.sin(q), np.cos(q), np.sin(2 * q), np.cos(2 * q)], axis=1)
    return {
        "position": np.column_stack([turns, turns * way[:, None]]),
        "direction of motion": np.column_stack([np.ones_like(q), np.abs(qd)]),
        "load": np.column_stack([(load - load.mean()) * way, load - load.mean()]),
        "speed": np.column_stack([way, qd, qd * np.abs(qd), qd**3]),
    }


def _predicted_fraction(left: Array, columns: Array) -> float:
    """Return the fraction of the power of `left` that the columns predict on blocks that were not fitted."""
    sizes = np.linalg.norm(columns, axis=0)
    columns = columns[:, sizes > 0] / sizes[sizes > 0]
    power = float(left @ left)
    if not columns.shape[1] or not power > 0:
        return 0.0
    odd = (np.arange(len(left)) * BLOCKS // len(left)) % 2 == 1
    rest = 0.0
    for held in (odd, ~odd):
        values = np.linalg.lstsq(columns[~held], left[~held], rcond=1e-8)[0]
        rest += float(((left[held] - columns[held] @ values) ** 2).sum())
    return 1 - rest / power
