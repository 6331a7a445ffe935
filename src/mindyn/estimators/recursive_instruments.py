"""`RecursiveInstruments`: instrumental variables kept up to date sample by sample [Yoshida 1996, section 3.5.2].

    A_k = forgetting A_{k-1} + Omega_k^T W Y_k,    b_k = forgetting b_{k-1} + Omega_k^T W tau_k,    beta_k = A_k^-1 b_k

which is what the matrix inversion lemma makes of the thesis's iterative formula, without the digits that the recursion
of A^-1 loses: after the last sample it is the batch solution of eq. 3.22 to rounding.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.model_acceleration import model_acceleration
from mindyn.estimators.recursive import SIGNALS, WAITING_ROWS
from mindyn.estimators.untold import among_untold
from mindyn.logs.samples import Samples


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
        # [Y tau]^T W [Y tau] for the residuals, Omega^T W Omega by squared ages for the covariance, weights of rows
        self._squares, self._spread, self._rows = np.zeros((p + 1, p + 1)), np.zeros((p, p)), 0.0
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
        d, told, A = self._equations()
        beta = self.model.beta.copy()
        beta[told] = np.linalg.solve(A, self._b[told] / d[told]) / d[told]
        return beta

    @property
    def covariance(self) -> Array:
        """s^2 A^-1 (Omega^T W Omega) A^-T of the values found so far, for noise without memory.

        s^2 is the variance of what they leave of the torque, of rows that are not forgotten, relative to the weights of
        the joints. Parameters that no sample moves have none: infinity.
        """
        d, told, A = self._equations()
        left = np.append(-self.beta, 1.0)
        freedom = self._rows - told.sum()
        if not freedom > 0:
            raise InputError(
                f"{self._rows:.4g} rows that are not forgotten leave no residual of {told.sum()} parameters"
            )
        variance = max(float(left @ self._squares @ left), 0.0) / freedom
        half = np.linalg.solve(A, self._spread[np.ix_(told, told)] / d[told] / d[told][:, None])
        return among_untold(variance * np.linalg.solve(A, half.T) / d[told] / d[told][:, None], told)

    def _equations(self) -> tuple[Array, NDArray[np.bool_], Array]:
        """Lengths of the columns, which of them some sample moves, and A of those in columns of unit length."""
        self._add()
        d = np.sqrt(np.abs(np.diag(self._A)))
        told = d > 0
        if not told.any() or self.count * self.model.regressor.joint_count < told.sum():
            raise InputError(f"too few rows: {self.count} samples so far for {len(d)} parameters")
        # Columns of unit length: what is solved does not depend on the units of the parameters.
        A = self._A[np.ix_(told, told)] / d[told] / d[told][:, None]
        if np.linalg.matrix_rank(A) < told.sum():
            raise InputError(
                f"{self.count} samples so far do not tell all {int(told.sum())} parameters",
                hint="move every joint, and give more samples",
            )
        return d, told, A

    def estimate(self) -> Estimate:
        """The model with the values found so far, and their covariance."""
        status = f"recursive instrumental variables after {self.count} samples, {self.left_out} left out"
        method = "recursive instrumental variables"
        return replace(self.model, beta=self.beta, covariance=self.covariance, status=status, method=method)

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
        directions = regressor.directions(q, qd, stretch, 1.0)
        Y = regressor.dense(regressor.parts(q, qd, qdd, directions))
        Omega = regressor.dense(regressor.parts(q, qd, expected.qdd, directions))
        ages = self.forgetting ** np.arange(m - 1, -1, -1.0) * expected.definite
        self.left_out += int((~expected.definite).sum())
        joints = np.ones(regressor.joint_count) if model.joint_weights is None else model.joint_weights
        weights = ages[:, None, None] * (joints / joints.max())[:, None]
        weighted = Omega * weights
        self._A = self.forgetting**m * self._A + np.einsum("njp,njr->pr", weighted, Y, optimize=True)
        self._b = self.forgetting**m * self._b + np.einsum("njp,nj->p", weighted, tau, optimize=True)
        whole = np.concatenate([Y, tau[:, :, None]], axis=2)
        kept = self.forgetting**m
        self._squares = kept * self._squares + np.einsum("njp,njr->pr", weights * whole, whole, optimize=True)
        aged = weighted * ages[:, None, None]
        self._spread = kept**2 * self._spread + np.einsum("njp,njr->pr", aged, Omega, optimize=True)
        self._rows = kept * self._rows + float(ages.sum()) * regressor.joint_count
