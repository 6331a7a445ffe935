"""`DiagnosticData`: the input of all diagnostics. Each part is computed when a diagnostic first needs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.findings import Finding, Kind
from mindyn.identification.diagnostics import thresholds as limit
from mindyn.identification.diagnostics.file_comparison import compare_with_file
from mindyn.identification.diagnostics.robot_file import find_correction
from mindyn.identification.diagnostics.wrong_columns import ColumnCorrection, find_column_correction
from mindyn.identification.estimators.estimate import Estimate, predict_unfiltered
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.smooth_rows import Motion, Residuals, SmoothRows, build_smooth_rows, invert_normal
from mindyn.identification.uncertainty.block_deviation import weighted_blocks
from mindyn.logs.log import Log
from mindyn.logs.samples import Samples
from mindyn.regression.friction_limits import prior_groups
from mindyn.regression.gather_blocks import Block
from mindyn.regression.rows import Rows
from mindyn.robots.robot import Robot

STATES: Final = 200
"""Number of random states within the limits at which the uncertainty of the torque is computed."""
SWING_HZ: Final = 0.5
"""Hz: frequency that relates the accelerations of these states to their speeds."""


class DiagnosticData:
    """Robot, estimate, rows and samples that diagnostics examine.

    robot          robot that the user gave, with the inertial parameters of its file
    estimate       estimate with unconstrained values, because a constraint would hide friction that drives a joint
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
        self.is_consistent = estimate.values.physical is not None
        physical = estimate.values.physical
        self.estimate = estimate if physical is None else estimate.with_values(beta=physical.unconstrained)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints that have a torque."""
        return self.estimate.regressor.joint_names

    def columns(self, motion: Motion, *, with_dropped: bool = False) -> Array:
        """Return the columns (N, n, p) of the estimate.

        Columns of dropped parameters are zero, unless `with_dropped`.
        """
        regressor = self.estimate.regressor
        Y = regressor.dense(regressor.parts(*motion))
        if not with_dropped:
            Y[:, :, [name in self.estimate.values.dropped for name in self.estimate.names]] = 0.0
        return np.asarray(Y)

    def weight_columns(self, q: Array, directions: Array | None) -> Array:
        """Return the columns (N, n, p) of links and rotors at rest; the columns of other parameters are zero."""
        still = np.zeros_like(q)
        Y = self.columns((q, still, still, directions))
        Y[:, :, ~self.estimate.regressor.rigid] = 0.0
        return Y

    def predict(self, beta: Array, samples: Samples | None = None) -> Array:
        """Return the torque (N, n) that other values predict, on the samples of the data or on the given ones."""
        return predict_unfiltered(self.estimate.regressor, beta, samples or self.samples)

    @cached_property
    def residuals(self) -> Array:
        """Measured minus predicted torque (N, n), unfiltered."""
        return np.asarray(self.samples.tau - self.predict(self.estimate.beta))

    @cached_property
    def free_beta(self) -> Array:
        """Values (p,) of least squares without conditions, because physically impossible values indicate errors of the
        logs.
        """
        return LeastSquares(dropped=self.estimate.values.dropped).fit(self.rows).beta

    @cached_property
    def friction_beta(self) -> Array:
        """Values (p,) of the friction parameters of the fit without conditions; other values are zero."""
        return np.where([parameter.is_friction for parameter in self.estimate.parameters], self.free_beta, 0.0)

    @cached_property
    def correction(self) -> Finding | None:
        """Correction of an input that the robot file's inertial parameters contradict; None if they agree or are
        missing.
        """
        return find_correction(compare_with_file(self.robot, self.samples))

    @cached_property
    def column_correction(self) -> ColumnCorrection | None:
        """Correction of columns or gravity that the motion suggests; None if the fit explains the log well."""
        smooth, fit = self.smooth, self.smooth_fit
        is_scaled = self.correction is not None and self.correction.kind in (Kind.WRONG_TORQUE_UNIT, Kind.MOTOR_CURRENT)
        if smooth is None or fit is None or is_scaled:
            return None
        power = smooth.tau.var(axis=0)
        is_explained = fit.means < limit.UNEXPLAINED_FRACTION**2 * power
        if is_explained.all() or not power.all() or self.is_poorly_excited:
            return None
        rigid, bare = self.estimate.regressor.rigid, replace(self.estimate.robot, drives=(), extras=())
        return find_column_correction(smooth, self.columns, rigid, bare)

    @cached_property
    def blocks(self) -> list[Block]:
        """Blocks of the rows in time order; empty unless the fit minimises torque residuals with joint weights."""
        return weighted_blocks(self.estimate, self.rows.blocks)

    @cached_property
    def independent_blocks(self) -> list[Block]:
        """Blocks of the rows or, if a motion repeats, phases of it, so that residuals of different blocks do not repeat
        each other.
        """
        blocks = weighted_blocks(self.estimate, self.rows.independent_blocks)
        return [block for block in blocks if all(block.information.counts)]

    @cached_property
    def smooth(self) -> SmoothRows | None:
        """Smooth rows; None if there are too few rows, or the robot has loops."""
        if self.estimate.robot.loops:
            return None
        estimate = self.estimate
        excluded = [name in estimate.values.dropped for name in estimate.names]
        return build_smooth_rows(estimate.regressor, self.samples, estimate.beta, excluded, self.owners)

    @cached_property
    def smooth_fit(self) -> Residuals | None:
        """Residuals of a fit to the smooth rows without a correction."""
        return None if self.smooth is None else self.smooth.fit()

    @cached_property
    def uncertainty(self) -> float | None:
        """Uncertainty of the torque on motion anywhere within the limits, relative to the torque of the log.

            uncertainty^2 = mean over such motion of  sum_j y_j^T C y_j  /  sum_j mean tau_j^2 of the log

        C is the covariance of a fit of all parameters to the smooth rows, including dropped ones, which may have an
        effect on another motion. If the speeds do not separate a friction coefficient from other friction of its joint,
        its standard deviation is the largest friction of the joint in the fit. For example, a joint that turns in one
        direction does not separate an offset from Coulomb friction, but an offset of thousands of N m is still not
        expected.
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
        """Return the normal matrix (p, p) with priors for friction that the speeds do not separate (see
        `uncertainty`).
        """
        normal, groups = smooth.normal, prior_groups(tuple(self.estimate.parameters))
        sizes = np.diag(normal).copy()
        squares, is_inseparable = sizes * self.estimate.beta**2, groups.precisions(normal[None])[0] > 0
        least = 1e-12 * max(float(squares.max()), 1e-280)  # of joints without friction in the fit
        for numbers in groups.groups:
            k, largest = numbers[:, 0], np.maximum(squares[numbers].max(axis=1), least)
            normal[k, k] += np.where(is_inseparable[k], sizes[k] / largest, 0.0)
        return normal
