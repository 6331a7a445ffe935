"""Summaries that all fits share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mindyn.algebra.values import Array
from mindyn.estimators.estimate_parts import JointResidual
from mindyn.regression.information import Information
from mindyn.regression.settings import EquationSettings


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
    """Return the root of the squared residuals over the squared torques of all joints."""
    squares = sum(residual.rows * residual.rms**2 for residual in residuals)
    return float(np.sqrt(squares / max(sum(residual.rows * residual.rms_torque**2 for residual in residuals), 1e-300)))


def data_summary(information: Information, settings: EquationSettings) -> str:
    """`1200 equations (600 samples of 2 joints, low-passed at 5 Hz, one of 4 kept)`."""
    joints = f"{len(information.counts)} joints" if len(information.counts) > 1 else "1 joint"
    samples = f"{max(information.counts)} samples of {joints}"
    cutoff, step = settings.cutoff_hz, settings.step
    filtered = [] if cutoff is None else [f"low-passed at {cutoff:.3g} Hz"]
    thinned = [f"one of {step} kept"] if step > 1 else []
    return f"{sum(information.counts)} equations ({', '.join([samples, *filtered, *thinned])})"


def describe_status(parts: Sequence[str], unidentifiable: Sequence[str]) -> str:
    """Return the status sentence of a fit; its last part names unidentifiable parameters."""
    unknown = [f"the data leave combinations open, among: {', '.join(unidentifiable)}"] if unidentifiable else []
    return f"{'; '.join([*parts, *unknown])}."
