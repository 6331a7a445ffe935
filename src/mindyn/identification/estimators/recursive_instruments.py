"""`RecursiveInstruments`: update instrumental variables sample by sample [Yoshida 1996, section 3.5.2].

    A_k = forgetting A_{k-1} + Omega_k^T W Y_k,    b_k = forgetting b_{k-1} + Omega_k^T W tau_k,    beta_k = A_k^-1 b_k

The matrix inversion lemma shows that the iterative formula of the thesis equals these sums. The recursion of A^-1 would
lose digits; the sums give the batch solution of eq. 3.22 to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mindyn.foundation.algebra.requirements import require_number, require_type
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.instrument_steps import model_acceleration
from mindyn.identification.estimators.recursive_least_squares import WAITING_ROWS, require_sample
from mindyn.logs.samples import Samples


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Sums over samples, each weighted by its age.

    A, b      (p, p), (p,) Omega^T W Y and Omega^T W tau
    squares   (p + 1, p + 1) [Y tau]^T W [Y tau], for the residuals
    spread    (p, p) Omega^T W Omega with squared ages, for the covariance
    rows      weights of all rows
    dropped   samples without a usable inertia matrix
    """

    A: Array
    b: Array
    squares: Array
    spread: Array
    rows: float = 0.0
    dropped: int = 0


class RecursiveInstruments:
    """Online instrumental variables. Instruments are the regressor with the accelerations of a model.

    Reading `beta`, `covariance` or `estimate()` never changes later results, which depend only on the samples, to the
    last bit. The rows of the joints are weighted by the `joint_weights` of the model relative to the largest weight;
    without weights, the estimate would be different.

    Parameters
    ----------
    model : Estimate
        A least-squares estimate whose accelerations under the measured torque are the instruments; use
        `make_feasible` first if its inertia matrix is indefinite. Its friction, base set and joint
        weights are kept.
    forgetting : float
        Weight of a sample relative to the next one. With 1, the result equals that of a batch fit.
    largest_acceleration : array_like (n,) or float, optional
        Accelerations of the instruments are clipped here, in rad/s^2 or m/s^2, because a nearly singular inertia
        matrix makes them large; for example the largest of the batch that gave the model. By default the robot's
        acceleration limits, and no clipping where it has none.
    """

    def __init__(
        self, model: Estimate, *, forgetting: float = 1.0, largest_acceleration: ArrayLike | None = None
    ) -> None:
        require_type(model, Estimate, "model", "use LeastSquares().fit(rows) of a first batch")
        p = len(model.beta)
        sums = _Sums(np.zeros((p, p)), np.zeros(p), np.zeros((p + 1, p + 1)), np.zeros((p, p)))
        require_number(forgetting, "forgetting", "(0, 1]")
        if model.regressor.friction.direction == "stop":
            raise InputError(
                'friction direction "stop" remembers the motion before a sample; use "tanh" or "sign"',
                code=Code.UNSUPPORTED,
                subject="stop",
            )
        self.model, self.regressor, self.forgetting, self.count = model, model.regressor, forgetting, 0
        self._sums = sums
        self._waiting: list[Array] = []
        self.largest_acceleration = _acceleration_limits(model, largest_acceleration)

    def update(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, tau: ArrayLike) -> None:
        """Add one sample, arrays (n,)."""
        self._waiting.append(require_sample(self.regressor.joint_names, self.count, q, qd, qdd, tau))
        self.count += 1
        if len(self._waiting) == WAITING_ROWS:
            self._sums, self._waiting = self._sums_so_far(), []

    @property
    def dropped(self) -> int:
        """Samples so far at which the model's inertia matrix is not positive definite."""
        return self._sums_so_far().dropped

    @property
    def beta(self) -> Array:
        """The values so far.

        Reading raises an error while the samples do not determine every parameter of the model.
        """
        return self._beta(self._sums_so_far())

    @property
    def covariance(self) -> Array:
        """s^2 A^-1 (Omega^T W Omega) A^-T of the values so far, for noise without memory.

        s^2 is the residual variance of rows that are not forgotten, relative to the weights of the joints. Parameters
        that no sample moves have an infinite variance.
        """
        return self._covariance(self._sums_so_far())

    def estimate(self) -> Estimate:
        """Return the model with the values so far and their covariance."""
        sums = self._sums_so_far()
        status = f"recursive instrumental variables after {self.count} samples, {sums.dropped} excluded"
        method = "recursive instrumental variables"
        model = self.model.with_data(factor=None)
        return (
            model.with_values(beta=self._beta(sums))
            .with_uncertainty(covariance=self._covariance(sums))
            .with_provenance(status=status, method=method)
        )

    def _beta(self, sums: _Sums) -> Array:
        d, is_seen, A = self._equations(sums)
        beta = self.model.beta.copy()
        beta[is_seen] = np.linalg.solve(A, sums.b[is_seen] / d[is_seen]) / d[is_seen]
        return beta

    def _covariance(self, sums: _Sums) -> Array:
        d, is_seen, A = self._equations(sums)
        left = np.append(-self._beta(sums), 1.0)
        freedom = sums.rows - is_seen.sum()
        if not freedom > 0:
            raise InputError(
                f"{sums.rows:.4g} rows that are not forgotten leave no residual of {is_seen.sum()} parameters",
                code=Code.TOO_LITTLE_DATA,
                subject="forgetting",
            )
        variance = max(float(left @ sums.squares @ left), 0.0) / freedom
        half = np.linalg.solve(A, sums.spread[np.ix_(is_seen, is_seen)] / d[is_seen] / d[is_seen][:, None])
        covariance = np.diag(np.where(is_seen, 0.0, np.inf))
        covariance[np.ix_(is_seen, is_seen)] = variance * np.linalg.solve(A, half.T) / d[is_seen] / d[is_seen][:, None]
        return covariance

    def _equations(self, sums: _Sums) -> tuple[Array, NDArray[np.bool_], Array]:
        """Return the lengths of the columns, which of them are nonzero, and A of these, scaled to length 1."""
        d = np.sqrt(np.abs(np.diag(sums.A)))
        is_seen = d > 0
        if not is_seen.any() or self.count * self.regressor.joint_count < is_seen.sum():
            raise InputError(
                f"too few rows: {self.count} samples so far for {len(d)} parameters",
                code=Code.TOO_LITTLE_DATA,
                subject="samples",
            )
        # Columns of unit length: the solution does not depend on the units of the parameters.
        A = sums.A[np.ix_(is_seen, is_seen)] / d[is_seen] / d[is_seen][:, None]
        if np.linalg.matrix_rank(A) < is_seen.sum():
            raise InputError(
                f"{self.count} samples so far do not determine all {int(is_seen.sum())} parameters",
                hint="move every joint, and add more samples",
                code=Code.NOT_IDENTIFIABLE,
                subject="samples",
            )
        return d, is_seen, A

    def _sums_so_far(self) -> _Sums:
        """Return the sums including the waiting samples; the stored sums do not change."""
        if not self._waiting:
            return self._sums
        regressor, model, sums = self.regressor, self.model, self._sums
        q, qd, qdd, tau = np.ascontiguousarray(np.array(self._waiting).transpose(1, 0, 2))
        m = len(q)
        new = Samples(regressor.joint_names, q, qd, qdd, tau, 1.0, np.zeros(m, dtype=np.int64))
        expected = model_acceleration(regressor, model.beta, new, self.largest_acceleration)
        directions = regressor.directions(new.q, new.qd, new.segments, 1.0)
        Y = regressor.dense(regressor.parts(new.q, new.qd, new.qdd, directions))
        Omega = regressor.dense(regressor.parts(new.q, new.qd, expected.qdd, directions))
        ages = self.forgetting ** np.arange(m - 1, -1, -1.0) * expected.definite
        joints = np.ones(regressor.joint_count) if model.data.joint_weights is None else model.data.joint_weights
        weights = ages[:, None, None] * (joints / joints.max())[:, None]
        weighted = Omega * weights
        whole = np.concatenate([Y, tau[:, :, None]], axis=2)
        kept = self.forgetting**m
        return _Sums(
            kept * sums.A + np.einsum("njp,njr->pr", weighted, Y, optimize=True),
            kept * sums.b + np.einsum("njp,nj->p", weighted, tau, optimize=True),
            kept * sums.squares + np.einsum("njp,njr->pr", weights * whole, whole, optimize=True),
            kept**2 * sums.spread + np.einsum("njp,njr->pr", weighted * ages[:, None, None], Omega, optimize=True),
            kept * sums.rows + float(ages.sum()) * regressor.joint_count,
            sums.dropped + int((~expected.definite).sum()),
        )


def _acceleration_limits(model: Estimate, given: ArrayLike | None) -> Array:
    """Return the largest accelerations (n,) of the instruments: given ones, else the limits of the robot, else
    infinity.
    """
    names = model.regressor.joint_names
    if given is None:
        limits = [joint.limits.acceleration for joint in model.robot.primary_joints]
        return np.array([np.inf if limit is None else limit for limit in limits])
    try:
        bounds = np.broadcast_to(np.asarray(given, dtype=np.float64), len(names))
    except (TypeError, ValueError):
        bounds = np.zeros(1)
    if not (bounds > 0).all():
        raise InputError(
            f"largest_acceleration = {given!r} must be a positive number, or one for each joint: {', '.join(names)}",
            code=Code.OUT_OF_RANGE,
            subject="largest_acceleration",
        )
    return bounds
