"""Accelerations that a model predicts under the measured torque: instruments free of the noise of measured ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.estimators.estimate import predict_unfiltered
from mindyn.logs.samples import Samples
from mindyn.regression.regressor import Regressor

DEFINITE: Final = 1e-6
"""Least eigenvalue of M, with its diagonal scaled to 1, for which its solution is usable."""


@dataclass(frozen=True, slots=True, eq=False)
class ModelAcceleration:
    """qdd (N, n) and where (N,) the model's inertia matrix M (N, n, n) is positive definite; qdd is zero elsewhere."""

    qdd: Array
    definite: NDArray[np.bool_]
    M: Array

    @property
    def indefinite_part(self) -> float:
        """Fraction of the samples at which the inertia matrix is not positive definite."""
        return 1.0 - float(self.definite.mean())


def model_acceleration(
    regressor: Regressor, beta: Array, samples: Samples, largest: Array | None = None
) -> ModelAcceleration:
    """Solve M(q) qdd = tau - tau(q, qd, 0), including the friction of the motors' motion [Yoshida 1996, eq. 3.35].

    Accelerations are clipped at `largest` (n,), by default the largest measured one of each joint, because a nearly
    singular M makes them large.
    """
    M = inertia_matrices(regressor, beta, samples)
    definite = _definite(M)
    rest = np.zeros_like(samples.q)
    left = samples.tau - predict_unfiltered(regressor, beta, replace(samples, qdd=rest))
    qdd = np.zeros_like(samples.q)
    qdd[definite] = np.linalg.solve(M[definite], left[definite, :, None])[..., 0]
    if largest is None:
        largest = np.abs(samples.qdd).max(axis=0)
    return ModelAcceleration(np.clip(qdd, -largest, largest), definite, M)


def inertia_matrices(regressor: Regressor, beta: Array, samples: Samples) -> Array:
    """Return M (N, n, n): column j is the torque of a unit acceleration of joint j, without load-dependent friction."""
    beta = np.where(np.arange(len(beta)) < regressor.base.count, beta, 0.0)
    rest = np.zeros_like(samples.q)
    held = predict_unfiltered(regressor, beta, replace(samples, qdd=rest))
    units = np.eye(regressor.joint_count)
    columns = [predict_unfiltered(regressor, beta, replace(samples, qdd=rest + unit)) - held for unit in units]
    M = np.stack(columns, axis=2)
    return np.asarray((M + M.transpose(0, 2, 1)) / 2)


def _definite(M: Array) -> NDArray[np.bool_]:
    diagonal = np.einsum("kii->ki", M)
    positive = (diagonal > 0).all(axis=1)
    root = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    least = np.linalg.eigvalsh(M / root[:, :, None] / root[:, None, :])[:, 0]
    return np.asarray(positive & (least > DEFINITE))
