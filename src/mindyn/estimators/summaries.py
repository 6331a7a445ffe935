"""What every fit says in the same words."""

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
    """Of every joint (or whatever rows there are) at beta."""
    counts = np.array(information.counts)
    rms, torque = np.sqrt(information.residuals(beta) / counts), np.sqrt(information.torques() / counts)
    neighbours = correlations or (None,) * len(counts)
    return tuple(
        JointResidual(name, int(count), float(r), float(t), c)
        for name, count, r, t, c in zip(information.joint_names, counts, rms, torque, neighbours, strict=True)
    )


def unexplained_fraction(residuals: Sequence[JointResidual]) -> float:
    """Root of the squared residuals over the squared torques of all joints."""
    squares = sum(one.rows * one.rms**2 for one in residuals)
    return float(np.sqrt(squares / max(sum(one.rows * one.rms_torque**2 for one in residuals), 1e-300)))


def data_summary(information: Information, settings: EquationSettings) -> str:
    """`1200 equations (600 samples of 2 joints, low-passed at 5 Hz, one of 4 kept)`."""
    joints = f"{len(information.counts)} joints" if len(information.counts) > 1 else "1 joint"
    samples = f"{max(information.counts)} samples of {joints}"
    cutoff, step = settings.cutoff_hz, settings.step
    filtered = [] if cutoff is None else [f"low-passed at {cutoff:.3g} Hz"]
    thinned = [f"one of {step} kept"] if step > 1 else []
    return f"{sum(information.counts)} equations ({', '.join([samples, *filtered, *thinned])})"


def describe_status(parts: Sequence[str], unidentifiable: Sequence[str]) -> str:
    """What came of a fit as one sentence; its last part names what the data leave open."""
    open_ones = [f"the data leave combinations open, among: {', '.join(unidentifiable)}"] if unidentifiable else []
    return f"{'; '.join([*parts, *open_ones])}."
