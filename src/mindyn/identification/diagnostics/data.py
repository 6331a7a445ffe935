"""`DiagnosticData`: the input of all diagnostics; each part is computed when a diagnostic first needs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.significance import is_significantly_positive
from mindyn.algebra.values import Array
from mindyn.estimators.estimate import Estimate, predict_unfiltered
from mindyn.estimators.least_squares import LeastSquares
from mindyn.findings import Finding
from mindyn.identification.diagnostics import thresholds as limit
from mindyn.identification.diagnostics.robot_file import compare_with_file, find_correction
from mindyn.identification.uncertainty.covariance import weighted_blocks
from mindyn.logs.filters import lowpass
from mindyn.logs.log import Log
from mindyn.logs.samples import Samples
from mindyn.regression.friction_limits import prior_groups
from mindyn.regression.gather_blocks import Block
from mindyn.regression.row_blocks import segment_ends
from mindyn.regression.rows import Rows
from mindyn.robots.robot import Robot

MAX_ROWS: Final = 4000
"""Largest number of smooth rows; two for each period of the cut-off."""
REWEIGHTINGS: Final = 2
HELD_OUT_BLOCKS: Final = 10
"""Contiguous blocks of smooth rows; every second one is held out of a fit."""
LEAST_NOISE: Final = 1e-4
"""Lower bound of a residual relative to the joint's torque."""
STATES: Final = 200
"""Number of random states within the limits at which the uncertainty of the torque is computed."""
SWING_HZ: Final = 0.5
"""Accelerations of these states relative to their speeds."""

Motion = tuple[Array, Array, Array, Array | None]
"""q, qd, qdd (N, n) and the directions of friction."""


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """Squared residuals (N, n) of a fit, and their means (n,)."""

    squares: Array
    means: Array

    def of_rows(self, rows: NDArray[np.bool_]) -> Residuals:
        """Return the residuals of some rows."""
        return Residuals(self.squares[rows], self.squares[rows].mean(axis=0))

    def are_significantly_below(self, other: Residuals) -> bool:
        """Return whether the squares are less than the others' in most parts of the log."""
        halves = 0.5 * (other.means + self.means) + 1e-300
        return is_significantly_positive(((other.squares - self.squares) / halves).sum(axis=1))

    def ratio_to(self, other: Residuals) -> float:
        """Return the geometric mean over the joints of the ratio of rms residuals."""
        ratios = self.means / np.maximum(other.means, 1e-300)
        return float(np.exp(0.5 * np.log(np.maximum(ratios, 1e-300)).mean()))


@dataclass(frozen=True, slots=True, eq=False)
class SmoothRows:
    """Rows of motion and torque below `SMOOTH_CUTOFF_HZ`.

    motion     q, qd, qdd and directions of friction
    Y          (N, n, p) columns
    tau        (N, n) torque
    residuals  (N, n)
    weights    (n,) 1 / mean squared residual
    owners     (N,) number of the log of each row; None if unknown
    """

    motion: Motion
    Y: Array
    tau: Array
    residuals: Array
    weights: Array
    _all: Samples
    _rows: NDArray[np.intp]
    owners: NDArray[np.int64] | None = None

    def fit(self, tau: Array | None = None) -> Residuals:
        """Return the residuals of a reweighted fit; `tau` replaces the measured torques."""
        tau = self.tau if tau is None else tau
        weights, Y = self.weights, self.Y.transpose(1, 0, 2)
        matrices, rights = Y.transpose(0, 2, 1) @ Y, np.einsum("jrp,rj->jp", Y, tau)  # of every joint
        for _ in range(REWEIGHTINGS):
            beta = invert_normal(np.tensordot(weights, matrices, 1)) @ (weights @ rights)
            squares = (tau - self.Y @ beta) ** 2
            means = squares.mean(axis=0)
            weights = 1 / np.maximum(means, LEAST_NOISE**2 * (tau**2).mean(axis=0) + 1e-300)
        return Residuals(squares, means)

    def fit_held_out(self, tau: Array | None = None) -> Residuals:
        """Return the residuals of blocks of rows by fits to the other blocks; `tau` replaces the measured torques."""
        tau = self.tau if tau is None else tau
        block = np.arange(len(tau)) * HELD_OUT_BLOCKS // max(1, len(tau))
        squares = np.zeros_like(tau)
        for half in (0, 1):
            fitted = block % 2 == half
            rows = (self.Y[fitted] * np.sqrt(self.weights)[:, None]).reshape(-1, self.Y.shape[2])
            right = (tau[fitted] * np.sqrt(self.weights)).ravel()
            beta = invert_normal(rows.T @ rows) @ (rows.T @ right)
            squares[~fitted] = (tau[~fitted] - self.Y[~fitted] @ beta) ** 2
        return Residuals(squares, squares.mean(axis=0))

    def delayed_torque(self, joint: int, seconds: float) -> Array:
        """Return the torque (N, n) with one joint's torque taken `seconds` later; ends of segments do not change."""
        tau, segments, rows, moved = self._all.tau, self._all.segments, self._rows, self.tau.copy()
        near = np.clip(rows + seconds * self._all.rate_hz, 0, len(tau) - 1)
        first = np.minimum(near.astype(np.intp), len(tau) - 2)
        part = near - first
        same = (segments[first] == segments[rows]) & (segments[first + 1] == segments[rows])
        between = (1 - part) * tau[first, joint] + part * tau[first + 1, joint]
        moved[:, joint] = np.where(same, between, tau[rows, joint])
        return moved

    @property
    def normal(self) -> Array:
        """Weighted normal matrix (p, p)."""
        rows = (self.Y * np.sqrt(self.weights)[:, None]).reshape(-1, self.Y.shape[2])
        return np.asarray(rows.T @ rows)

    @property
    def degrees_of_freedom(self) -> float:
        """Rows of a joint minus its fraction of the parameters."""
        rows, joints = map(int, self.tau.shape)
        return max(1.0, rows - int(np.linalg.matrix_rank(self.normal)) / joints)


class DiagnosticData:
    """Robot, estimate, rows and samples that diagnostics examine.

    robot          as the user gave it, with the inertial parameters of its file
    estimate       unconstrained values: a constraint would hide friction that drives a joint
    is_consistent  whether the fit was constrained to physically consistent values
    rows           equations of the fit
    samples        conditioned samples of the logs, or of segments of them
    logs           the same logs as recorded
    owners         (N,) number of the log of each sample; None if unknown
    """

    def __init__(
        self,
        robot: Robot,
        estimate: Estimate,
        rows: Rows,
        samples: Samples,
        logs: Sequence[Log],
        owners: NDArray[np.int64] | None = None,
    ) -> None:
        self.robot, self.rows, self.samples, self.logs, self.owners = robot, rows, samples, logs, owners
        self.is_consistent = estimate.physical is not None
        physical = estimate.physical
        self.estimate = estimate if physical is None else replace(estimate, beta=physical.unconstrained)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints that have a torque."""
        return self.estimate.regressor.joint_names

    def columns(self, motion: Motion, *, with_dropped: bool = False) -> Array:
        """Return the columns (N, n, p) of the estimate, zero for dropped parameters unless they are asked for."""
        regressor = self.estimate.regressor
        Y = regressor.dense(regressor.parts(*motion))
        if not with_dropped:
            Y[:, :, [name in self.estimate.dropped for name in self.estimate.names]] = 0.0
        return np.asarray(Y)

    def weight_columns(self, q: Array, directions: Array | None) -> Array:
        """Return the columns (N, n, p) of links and rotors at rest; all others are zero."""
        still = np.zeros_like(q)
        Y = self.columns((q, still, still, directions))
        Y[:, :, ~self.estimate.regressor.rigid] = 0.0
        return Y

    def predict(self, beta: Array, samples: Samples | None = None) -> Array:
        """Return the torque (N, n) that other values predict, on other samples if they are given."""
        return predict_unfiltered(self.estimate.regressor, beta, samples or self.samples)

    @cached_property
    def residuals(self) -> Array:
        """Measured minus predicted torque (N, n), unfiltered."""
        return np.asarray(self.samples.tau - self.predict(self.estimate.beta))

    @cached_property
    def free_beta(self) -> Array:
        """Values (p,) of least squares without conditions: impossible ones reveal errors of the logs."""
        return LeastSquares(dropped=self.estimate.dropped).fit(self.rows).beta

    @cached_property
    def friction_beta(self) -> Array:
        """Values (p,) of the friction parameters of the fit without conditions; all others are zero."""
        return np.where([parameter.is_friction for parameter in self.estimate.parameters], self.free_beta, 0.0)

    @cached_property
    def correction(self) -> Finding | None:
        """The input that the robot file's inertial parameters contradict; None if they agree or are missing."""
        return find_correction(compare_with_file(self.robot, self.samples))

    @cached_property
    def blocks(self) -> list[Block]:
        """Blocks of the rows in time order; empty unless the fit minimises torque residuals with joint weights."""
        return weighted_blocks(self.estimate, self.rows.blocks)

    @cached_property
    def independent_blocks(self) -> list[Block]:
        """Blocks, or phases of a motion that repeats, whose residuals do not repeat one another."""
        blocks = weighted_blocks(self.estimate, self.rows.independent_blocks)
        return [block for block in blocks if all(block.information.counts)]

    @cached_property
    def smooth(self) -> SmoothRows | None:
        """Smooth rows; None if there are too few of them, or the robot has loops."""
        estimate, samples, rate = self.estimate, self.samples, self.samples.rate_hz
        cutoff = min(limit.SMOOTH_CUTOFF_HZ, 0.2 * rate)
        ends = [(a, b) for a, b in segment_ends(samples.segments) if b - a > rate / cutoff]
        if not ends or estimate.robot.loops:
            return None
        arrays: dict[str, Any] = {
            name: np.concatenate([lowpass(getattr(samples, name)[a:b], cutoff, rate) for a, b in ends])
            for name in ("q", "qd", "qdd", "tau")
        }
        segments = np.concatenate([np.full(b - a, k, dtype=np.int64) for k, (a, b) in enumerate(ends)])
        whole = samples.replace_rows(**arrays, segments=segments)
        rows = np.arange(0, len(segments), max(1, int(rate / (2 * cutoff)), len(segments) // MAX_ROWS))
        directions = estimate.regressor.directions(whole.q, whole.qd, segments, rate)
        motion = (whole.q[rows], whole.qd[rows], whole.qdd[rows], None if directions is None else directions[rows])
        Y = self.columns(motion)
        if Y.shape[0] * Y.shape[1] < 2 * Y.shape[2]:
            return None
        tau = whole.tau[rows]
        residuals = tau - Y @ estimate.beta
        sizes = np.sqrt((tau**2).mean(axis=0))
        noise = np.maximum(np.sqrt((residuals**2).mean(axis=0)), LEAST_NOISE * np.maximum(sizes, 1e-6 * sizes.max()))
        weights = 1 / np.maximum(noise, 1e-300) ** 2
        owners = None if self.owners is None else np.concatenate([self.owners[a:b] for a, b in ends])[rows]
        return SmoothRows(motion, Y, tau, residuals, weights, whole, rows, owners)

    @cached_property
    def smooth_fit(self) -> Residuals | None:
        """Residuals of a fit to the smooth rows as they are."""
        return None if self.smooth is None else self.smooth.fit()

    @cached_property
    def uncertainty(self) -> float | None:
        """Uncertainty of the torque on motion anywhere within the limits, relative to the torque of the log.

            uncertainty^2 = mean over such motion of  sum_j y_j^T C y_j  /  sum_j mean tau_j^2 of the log

        C is the covariance of a fit of all parameters to the smooth rows: dropped ones may be zero on the motion of the
        log alone. Friction that the speeds do not separate from other friction of
        its joint is as uncertain as the largest friction of the fit there: a joint that turns one way does not separate
        an offset from Coulomb friction, which is not reason to expect an offset of thousands of N m.
        """
        if self.smooth is None:
            return None
        rng, joints, samples = np.random.default_rng(0), self.estimate.robot.primary_joints, self.samples
        low, high = samples.q.min(axis=0), samples.q.max(axis=0)
        for k, joint in enumerate(joints):
            whole = (-np.pi, np.pi) if joint.kind != "prismatic" else (low[k], high[k])
            given = (joint.limits.lower, joint.limits.upper)
            low[k], high[k] = (end if bound is None else bound for bound, end in zip(given, whole, strict=True))
        speeds = np.sqrt((samples.qd**2).mean(axis=0))
        fastest = {
            kind: max(v for v, j in zip(speeds, joints, strict=True) if j.kind == kind)
            for kind in {joint.kind for joint in joints}
        }
        fastest["revolute"] = max(limit.MIN_SPEED_RAD_S, fastest.get("revolute", 0.0))
        speed = np.array([fastest[joint.kind] for joint in joints])
        q = rng.uniform(low, high, (STATES, len(joints)))
        qd = speed * rng.standard_normal(q.shape)
        qdd = 2 * np.pi * SWING_HZ * speed * rng.standard_normal(q.shape)
        directions = self.estimate.regressor.directions(q, qd, np.arange(STATES, dtype=np.int64), 1.0)
        Y = self.columns((q, qd, qdd, directions), with_dropped=True)
        smooth = replace(self.smooth, Y=self.columns(self.smooth.motion, with_dropped=True))
        variance = np.einsum("ijk,kl,ijl->", Y, invert_normal(self._normal_with_priors(smooth)), Y) / STATES
        power = float((self.smooth.tau**2).mean(axis=0).sum())
        return float(np.sqrt(variance / max(power, 1e-300)))

    @property
    def is_poorly_excited(self) -> bool:
        """Whether the torque on other motion is too uncertain for most diagnostics."""
        return (self.uncertainty or 0.0) > limit.MAX_UNCERTAINTY

    def _normal_with_priors(self, smooth: SmoothRows) -> Array:
        """Return the normal matrix (p, p) with priors of inseparable friction (see `uncertainty`)."""
        normal, groups = smooth.normal, prior_groups(tuple(self.estimate.parameters))
        sizes = np.diag(normal).copy()
        squares, is_inseparable = sizes * self.estimate.beta**2, groups.precisions(normal[None])[0] > 0
        least = 1e-12 * max(float(squares.max()), 1e-280)  # of joints without friction in the fit
        for numbers in groups.groups:
            k, largest = numbers[:, 0], np.maximum(squares[numbers].max(axis=1), least)
            normal[k, k] += np.where(is_inseparable[k], sizes[k] / largest, 0.0)
        return normal


def invert_normal(normal: Array) -> Array:
    """Invert a normal matrix; directions without data get 1e12 times the variance of the best determined one."""
    scales = np.sqrt(np.diag(normal))
    scales = np.where(scales > 0, scales, np.inf)
    values, vectors = np.linalg.eigh(normal / np.outer(scales, scales))
    return np.asarray(
        (vectors / np.maximum(values, 1e-12 * max(values[-1], 1e-300))) @ vectors.T / np.outer(scales, scales)
    )
