"""Noise of the measurements, and the errors that it causes in the columns of a regressor."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.logs.samples import Samples
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import blocks


@dataclass(frozen=True, slots=True)
class MeasurementNoise:
    """Standard deviations of independent measurement errors.

    Parameters
    ----------
    position, velocity, acceleration : float or tuple of n float
        In rad or m, per s and per s^2; one number for all joints, or one per joint.
    torque : float or tuple of n float
        In N m or N; must be positive.
    """

    position: float | tuple[float, ...] = 0.0
    velocity: float | tuple[float, ...] = 0.0
    acceleration: float | tuple[float, ...] = 0.0
    torque: float | tuple[float, ...] = 0.0

    def __post_init__(self) -> None:
        for name in ("position", "velocity", "acceleration", "torque"):
            values = np.atleast_1d(getattr(self, name))
            if not (np.isfinite(values).all() and (values >= 0).all()):
                raise InputError(
                    f"noise: {name} = {getattr(self, name)!r} must be a number, zero or more",
                    code=Code.OUT_OF_RANGE,
                    subject=name,
                )
        if not (np.atleast_1d(self.torque) > 0).all():
            raise InputError(
                "noise: torque = 0; a torque without errors leaves total least squares no residual",
                code=Code.OUT_OF_RANGE,
                subject="torque",
            )


def column_errors(regressor: Regressor, samples: Samples, noise: MeasurementNoise, weights: Array) -> Array:
    """Return (p + 1, p + 1) the mean of sum_i weights_i dZ_i^T dZ_i, dZ_i the errors of Z_i = [Y_i | tau_i].

    dZ for an error of one standard deviation sigma in a measured quantity x is (Z(x + sigma) - Z(x - sigma)) / 2: exact
    for accelerations, in which Y is linear, and of second order in sigma for others.
    """
    total = np.zeros((regressor.count + 1, regressor.count + 1))
    n = regressor.joint_count
    for name, given in (("q", noise.position), ("qd", noise.velocity), ("qdd", noise.acceleration)):
        sigmas = _for_joints(given, n)
        for joint in np.flatnonzero(sigmas):
            step = np.zeros(n)
            step[joint] = sigmas[joint]
            value = getattr(samples, name)
            ends = replace(samples, **{name: value + step}), replace(samples, **{name: value - step})
            _add_gram(total, regressor, ends, weights)
    total[-1, -1] += float(weights @ (_for_joints(noise.torque, n) ** 2 * _usable(samples).sum(axis=0)))
    return total


def _for_joints(value: float | tuple[float, ...], n: int) -> Array:
    values = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if values.shape not in ((1,), (n,)):
        raise InputError(
            f"noise: {len(values)} deviations given for {n} joints; one for all, or one for each, is needed",
            code=Code.WRONG_SHAPE,
            subject="noise",
        )
    return np.broadcast_to(values, (n,))


def _add_gram(total: Array, regressor: Regressor, ends: tuple[Samples, Samples], weights: Array) -> None:
    """Add sum_i weights_i dY_i^T dY_i, with dY half the difference of the regressors at two ends."""
    usable = _usable(ends[0])
    for (high, rows), (low, _) in zip(blocks(regressor, ends[0]), blocks(regressor, ends[1]), strict=True):
        for joint, columns in enumerate(regressor.columns):
            dZ = (np.concatenate(high[joint], axis=1) - np.concatenate(low[joint], axis=1)) / 2
            dY = dZ[usable[rows, joint], :-1]
            total[np.ix_(columns, columns)] += weights[joint] * (dY.T @ dY)


def _usable(samples: Samples) -> NDArray[np.bool_]:
    return np.full(samples.q.shape, True) if samples.usable is None else samples.usable
