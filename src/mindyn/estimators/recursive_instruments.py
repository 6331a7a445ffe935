"""`RecursiveInstruments`: instrumental variables kept up to date sample by sample [Yoshida 1996, section 3.5.2].

    A_k = forgetting A_{k-1} + Omega_k^T W Y_k,    b_k = forgetting b_{k-1} + Omega_k^T W tau_k,    beta_k = A_k^-1 b_k

The matrix inversion lemma turns the thesis's iterative formula into these sums, without the digits that the recursion
of A^-1 loses: the result is the batch solution of eq. 3.22 to rounding.

`RecursiveLeastSquares`: update the estimate sample by sample; equal to the batch result to rounding.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimate_parts import depends_on_unidentifiable
from mindyn.estimators.least_squares import LeastSquares, Weights
from mindyn.estimators.simulated_states import model_acceleration
from mindyn.logs.samples import Samples
from mindyn.regression.accumulators import Triangle
from mindyn.regression.friction import Friction
from mindyn.regression.information import Information
from mindyn.regression.regressor import Regressor
from mindyn.regression.rows import Rows
from mindyn.regression.settings import PLAIN_FRICTION, EquationSettings
from mindyn.robots.robot import Robot

WAITING_ROWS: Final = 128
"""Samples that are factored together, so that the kernel and the QR work on a block. An estimate that is read in
between includes them without adding them to the state."""
SIGNALS: Final = ("q", "qd", "qdd", "tau")
State = TypeVar("State")


def require_sample(names: Sequence[str], count: int, *signals: ArrayLike) -> Array:
    """Return q, qd, qdd and tau of one sample as an array (4, n); raise if one has another shape or is not finite."""
    try:
        sample = np.array([np.asarray(signal, dtype=np.float64).reshape(len(names)) for signal in signals])
    except (TypeError, ValueError) as error:
        raise InputError(
            f"sample {count}: q, qd, qdd and tau must each be {len(names)} numbers, one for each joint: "
            f"{', '.join(names)}",
            code=Code.WRONG_SHAPE,
            subject="sample",
        ) from error
    if not np.isfinite(sample).all():
        signal, joint = np.argwhere(~np.isfinite(sample))[0]
        raise InputError(
            f"{SIGNALS[signal]} of joint {names[joint]!r} is not finite at sample {count}",
            code=Code.NOT_FINITE,
            subject=names[joint],
        )
    return sample


class _OnlineFit(Generic[State]):
    """Samples that wait until a block of them is added to the state; reading the result never changes the state."""

    def __init__(self, regressor: Regressor, forgetting: float, state: State) -> None:
        if not 0 < forgetting <= 1:
            raise InputError(
                f"forgetting = {forgetting!r} must lie in (0, 1]", code=Code.OUT_OF_RANGE, subject="forgetting"
            )
        if regressor.friction.direction == "stop":
            raise InputError(
                'friction direction "stop" remembers the motion before a sample; use "tanh" or "sign"',
                code=Code.UNSUPPORTED,
                subject="stop",
            )
        self.regressor, self.forgetting, self.count = regressor, forgetting, 0
        self._state = state
        self._waiting: list[Array] = []

    def update(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, tau: ArrayLike) -> None:
        """Add one sample, arrays (n,)."""
        self._waiting.append(require_sample(self.regressor.joint_names, self.count, q, qd, qdd, tau))
        self.count += 1
        if len(self._waiting) == WAITING_ROWS:
            self._state, self._waiting = self._state_so_far(), []

    @abstractmethod
    def _state_so_far(self) -> State:
        """Return the state with the waiting samples added; the state itself stays as it is."""

    def _waiting_samples(self) -> Samples:
        """Return the waiting samples, each without the motion before it."""
        q, qd, qdd, tau = np.ascontiguousarray(np.array(self._waiting).transpose(1, 0, 2))
        return Samples(self.regressor.joint_names, q, qd, qdd, tau, 1.0, np.zeros(len(q), dtype=np.int64))


class RecursiveLeastSquares(_OnlineFit[list[Triangle]]):
    """Online least squares in square-root form: R factors for each joint, rows weighted by forgetting^age.

    Parameters
    ----------
    robot : Robot
        Robot of the samples.
    forgetting : float
        Weight of a sample relative to the next one. With 1, the result equals the batch's.
    weights : "joint", "ordinary" or tuple of float
        As in `LeastSquares`.
    friction : Friction
        Shape of the friction columns; the direction "stop", which depends on the previous motion, is not supported.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        forgetting: float = 1.0,
        weights: Weights | tuple[float, ...] = "joint",
        friction: Friction = PLAIN_FRICTION,
    ) -> None:
        regressor = Regressor(robot, friction)
        triangles = [Triangle(regressor.width(i) + 1) for i in range(regressor.joint_count)]
        super().__init__(regressor, forgetting, triangles)
        self.settings = LeastSquares(weights=weights)

    @property
    def information(self) -> Information:
        """R factors of all samples so far; rows count by their weights, like the squares in the factors."""
        factors = tuple(triangle.R for triangle in self._state_so_far())
        names, counts = self.regressor.joint_names, (self._forget(),) * len(factors)
        return Information(names, self.regressor.names, self.regressor.columns, factors, counts)

    def _forget(self) -> int:
        """Return the sum of the samples' weights."""
        kept = 1 - self.forgetting
        return self.count if not kept else max(1, round((1 - self.forgetting**self.count) / kept))

    @property
    def beta(self) -> Array:
        """Values so far."""
        return self.estimate().beta

    def estimate(self) -> Estimate:
        """Return the estimate from all samples so far; raise while there are too few."""
        widest = max(len(columns) for columns in self.regressor.columns)
        if self.count <= widest:
            raise InputError(
                f"too few rows: {self.count} samples so far, more than {widest} are needed",
                code=Code.TOO_LITTLE_DATA,
                subject="samples",
            )
        settings = EquationSettings(friction=self.regressor.friction, drives="stated")
        fitted = self.settings.fit(Rows.of_information(self.regressor, self.information, settings))
        return replace(fitted, method="recursive least squares").with_provenance(forgetting=self.forgetting)

    def _state_so_far(self) -> list[Triangle]:
        m, triangles = len(self._waiting), [copy(triangle) for triangle in self._state]
        if not m:
            return triangles
        new, regressor = self._waiting_samples(), self.regressor
        directions = regressor.directions(new.q, new.qd, new.segments, 1.0)
        ages = np.sqrt(self.forgetting) ** np.arange(m - 1, -1, -1.0)[:, None]
        for joint, parts in enumerate(regressor.parts(new.q, new.qd, new.qdd, directions)):
            rows = [*parts, new.tau[:, joint : joint + 1]]
            weighted = [part * ages for part in rows] if self.forgetting < 1 else rows
            triangles[joint].append(weighted, faded=float(np.sqrt(self.forgetting) ** m))
        return triangles


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


class RecursiveInstruments(_OnlineFit[_Sums]):
    """Online instrumental variables: the regressor at the measured motion, its instruments at a model's accelerations.

    Reading `beta`, `covariance` or `estimate()` never changes later results: they depend on the samples alone, to the
    last bit.

    Parameters
    ----------
    model : Estimate
        A least-squares estimate whose accelerations under the measured torque are the instruments; use
        `make_feasible` first if its inertia matrix is indefinite. Its friction, base set and joint
        weights are kept.
    forgetting : float
        Weight of a sample relative to the next one. With 1, the result equals the batch's.
    largest_acceleration : array_like (n,) or float, optional
        Accelerations of the instruments are clipped here, in rad/s^2 or m/s^2, because a nearly singular inertia
        matrix makes them large; for example the largest of the batch that gave the model. By default the robot's
        acceleration limits, and no clipping where it has none.
    """

    def __init__(
        self, model: Estimate, *, forgetting: float = 1.0, largest_acceleration: ArrayLike | None = None
    ) -> None:
        p = len(model.beta)
        sums = _Sums(np.zeros((p, p)), np.zeros(p), np.zeros((p + 1, p + 1)), np.zeros((p, p)))
        super().__init__(model.regressor, forgetting, sums)
        self.model = model
        self.largest_acceleration = _bounds(model, largest_acceleration)

    @property
    def dropped(self) -> int:
        """Samples so far at which the model's inertia matrix is not positive definite."""
        return self._state_so_far().dropped

    @property
    def beta(self) -> Array:
        """The values so far; raises while the samples do not determine every parameter that the model has."""
        return self._beta(self._state_so_far())

    @property
    def covariance(self) -> Array:
        """s^2 A^-1 (Omega^T W Omega) A^-T of the values so far, for noise without memory.

        s^2 is the residual variance of rows that are not forgotten, relative to the weights of the joints. Parameters
        that no sample moves have an infinite variance.
        """
        return self._covariance(self._state_so_far())

    def estimate(self) -> Estimate:
        """Return the model with the values so far and their covariance."""
        sums = self._state_so_far()
        status = f"recursive instrumental variables after {self.count} samples, {sums.dropped} left out"
        method = "recursive instrumental variables"
        return replace(
            self.model, beta=self._beta(sums), covariance=self._covariance(sums), status=status, method=method
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
        return depends_on_unidentifiable(
            variance * np.linalg.solve(A, half.T) / d[is_seen] / d[is_seen][:, None], is_seen
        )

    def _equations(self, sums: _Sums) -> tuple[Array, NDArray[np.bool_], Array]:
        """Return the lengths of the columns, which of them some sample moves, and A of those, scaled to length 1."""
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

    def _state_so_far(self) -> _Sums:
        if not self._waiting:
            return self._state
        regressor, model, sums = self.regressor, self.model, self._state
        new = self._waiting_samples()
        m, tau = len(new), new.tau
        expected = model_acceleration(regressor, model.beta, new, self.largest_acceleration)
        directions = regressor.directions(new.q, new.qd, new.segments, 1.0)
        Y = regressor.dense(regressor.parts(new.q, new.qd, new.qdd, directions))
        Omega = regressor.dense(regressor.parts(new.q, new.qd, expected.qdd, directions))
        ages = self.forgetting ** np.arange(m - 1, -1, -1.0) * expected.definite
        joints = np.ones(regressor.joint_count) if model.joint_weights is None else model.joint_weights
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


def _bounds(model: Estimate, given: ArrayLike | None) -> Array:
    """Return the largest accelerations (n,) of the instruments: those given, else the robot's limits, else infinity."""
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
