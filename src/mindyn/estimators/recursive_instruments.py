"""`RecursiveInstruments`: instrumental variables kept up to date sample by sample [Yoshida 1996, section 3.5.2].

    A_k = forgetting A_{k-1} + Omega_k^T W Y_k,    b_k = forgetting b_{k-1} + Omega_k^T W tau_k,    beta_k = A_k^-1 b_k

which is what the matrix inversion lemma makes of the thesis's iterative formula, without the digits that the recursion
of A^-1 loses: after the last sample it is the batch solution of eq. 3.22 to rounding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.model_acceleration import model_acceleration
from mindyn.logs.samples import Samples

WAITING_ROWS: Final = 128
"""Samples that wait to be added together, so that the kernels work on a block; what is asked for counts them too."""
SIGNALS: Final = ("q", "qd", "qdd", "tau")


class RecursiveInstruments:
    """Online instrumental variables: the regressor at the measured motion, its instruments at a model's accelerations.

    model       whose accelerations under the measured torque are the instruments: a least-squares estimate, mended
                where its inertia matrix is indefinite; its friction, base set and weights of joints are taken over
    forgetting  weight of a sample relative to the next one; 1: none is forgotten, the result is the batch's
    """

    def __init__(self, model: Estimate, *, forgetting: float = 1.0) -> None:
        if not 0 < forgetting <= 1:
            raise InputError(f"forgetting = {forgetting!r} must lie in (0, 1]")
        if model.regressor.friction.direction == "stop":
            raise InputError('friction direction "stop" remembers the motion before a sample; use "tanh" or "sign"')
        self.model = model
        self.forgetting = forgetting
        self.count, self.left_out = 0, 0
        p = len(model.beta)
        self._A, self._b = np.zeros((p, p)), np.zeros(p)
        self._waiting: list[Array] = []

    def update(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, tau: ArrayLike) -> None:
        """Takes in one sample, arrays (n,)."""
        sample = np.array([q, qd, qdd, tau], dtype=np.float64)
        if not np.isfinite(sample).all():
            signal, joint = np.argwhere(~np.isfinite(sample))[0]
            name = self.model.regressor.joint_names[joint]
            raise InputError(f"{SIGNALS[signal]} of joint {name!r} is not finite at sample {self.count}")
        self._waiting.append(sample)
        self.count += 1
        if len(self._waiting) == WAITING_ROWS:
            self._add()

    @property
    def beta(self) -> Array:
        """The values found so far; refuses while the samples do not tell every parameter that the model has."""
        self._add()
        d = np.sqrt(np.abs(np.diag(self._A)))
        told = d > 0
        if not told.any() or self.count * self.model.regressor.joint_count < told.sum():
            raise InputError(f"too few rows: {self.count} samples so far for {len(d)} parameters")
        beta = self.model.beta.copy()
        # Columns of unit length: what is solved does not depend on the units of the parameters.
        A = self._A[np.ix_(told, told)] / d[told] / d[told][:, None]
        if np.linalg.matrix_rank(A) < told.sum():
            raise InputError(
                f"{self.count} samples so far do not tell all {int(told.sum())} parameters",
                hint="move every joint, and give more samples",
            )
        beta[told] = np.linalg.solve(A, self._b[told] / d[told]) / d[told]
        return beta

    def estimate(self) -> Estimate:
        """The model with the values found so far; their covariance is not kept up to date, and is not told."""
        status = f"recursive instrumental variables after {self.count} samples, {self.left_out} left out"
        unknown = np.diag(np.full(len(self.model.beta), np.inf))
        return replace(
            self.model, beta=self.beta, covariance=unknown, status=status, method="recursive instrumental variables"
        )

    def _add(self) -> None:
        if not self._waiting:
            return
        regressor, model = self.model.regressor, self.model
        q, qd, qdd, tau = np.array(self._waiting).transpose(1, 0, 2)
        m = len(q)
        self._waiting = []
        stretch = np.zeros(m, dtype=np.int64)
        samples = Samples(regressor.joint_names, q, qd, qdd, tau, 1.0, stretch)
        expected = model_acceleration(regressor, model.beta, samples)
        directions = regressor.directions(qd, stretch, 1.0)
        Y = regressor.dense(regressor.parts(q, qd, qdd, directions))
        Omega = regressor.dense(regressor.parts(q, qd, expected.qdd, directions))
        ages = self.forgetting ** np.arange(m - 1, -1, -1.0) * expected.definite
        self.left_out += int((~expected.definite).sum())
        joints = np.ones(regressor.joint_count) if model.joint_weights is None else model.joint_weights
        weighted = Omega * ages[:, None, None] * (joints / joints.max())[:, None]
        self._A = self.forgetting**m * self._A + np.einsum("njp,njr->pr", weighted, Y, optimize=True)
        self._b = self.forgetting**m * self._b + np.einsum("njp,nj->p", weighted, tau, optimize=True)
