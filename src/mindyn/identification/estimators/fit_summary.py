"""Quantities that every fit computes from its equations and values: residuals, status, unidentifiable parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import pluralise
from mindyn.identification.estimators.estimate_records import JointResidual
from mindyn.regression.information import Information, null_space
from mindyn.regression.settings import EquationSettings

NULL_SPACE_ENTRY: Final = 1e-6
"""Smallest entry of a unit vector of the null space that makes its parameter unidentifiable."""


def joint_residuals(
    information: Information, beta: Array, correlations: Sequence[float | None] | None = None
) -> tuple[JointResidual, ...]:
    """Return the residuals of each joint, or of other groups of rows, at beta."""
    counts = np.array(information.counts)
    rows = np.maximum(counts, 1)
    rms, torque = np.sqrt(information.residuals(beta) / rows), np.sqrt(information.torques() / rows)
    neighbours = correlations or (None,) * len(counts)
    return tuple(
        JointResidual(name, int(count), float(r), float(t), c)
        for name, count, r, t, c in zip(information.joint_names, counts, rms, torque, neighbours, strict=True)
    )


def unexplained_fraction(residuals: Sequence[JointResidual]) -> float:
    """Return the root of (sum of squared residuals / sum of squared torques) over all joints."""
    squares = sum(residual.rows * residual.rms**2 for residual in residuals)
    return float(np.sqrt(squares / max(sum(residual.rows * residual.rms_torque**2 for residual in residuals), 1e-300)))


def data_summary(information: Information, settings: EquationSettings) -> str:
    """Return a text such as `1200 equations (600 samples of 2 joints, low-passed at 5 Hz, one of 4 kept)`."""
    samples = f"{max(information.counts)} samples of {pluralise(len(information.counts), 'joint')}"
    return f"{sum(information.counts)} equations ({', '.join([samples, *settings.filtering.describe_equations()])})"


def describe_status(parts: Sequence[str], unidentifiable: Sequence[str]) -> str:
    """Return the status sentence of a fit; its last part names unidentifiable parameters."""
    unknown = [f"the data do not determine some combinations of: {', '.join(unidentifiable)}"] if unidentifiable else []
    return f"{'; '.join([*parts, *unknown])}."


def find_unidentifiable(R: Array, names: Sequence[str], dropped: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the parameters in the null space of equations with R factor (m, p), without dropped parameters."""
    kept = np.array([name not in dropped for name in names])
    is_open = (np.abs(null_space(R[:, kept])) > NULL_SPACE_ENTRY).any(axis=1)
    return tuple(names[k] for k in np.flatnonzero(kept)[is_open])


def infinite_variances(covariance: Array, names: Sequence[str], unidentifiable: Sequence[str]) -> Array:
    """Return the covariance with infinite variances of unidentifiable parameters."""
    result = np.array(covariance)
    places = [names.index(name) for name in unidentifiable]
    result[places, places] = np.inf
    return result
