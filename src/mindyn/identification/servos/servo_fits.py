"""`ServoFits`: the fits of all joints, which are replaced as contacts, scales, limits and the delay become known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.significance import NORMAL_95
from mindyn.foundation.algebra.values import Array
from mindyn.identification.servos.command_delay import DelayFit, JointProblem, fit_delay
from mindyn.identification.servos.intervals import (
    deviations_between_blocks,
    number_blocks,
    widen_by_model_error,
)
from mindyn.identification.servos.joint_tables import STEP_S, ServoRows
from mindyn.identification.servos.linear_start import TYPICAL_KP, fit_linear_start, typical_values
from mindyn.identification.servos.model_errors import Extension, find_frictions, find_limit, with_limit
from mindyn.identification.servos.output_error import JointFit, OutputError, prior_information
from mindyn.identification.servos.rollout import NO_EXTRAS
from mindyn.identification.servos.servo_samples import OPEN_HALF_WIDTH, complete_log_covariance

CORRELATED_S: Final = 1.0
"""Time over which errors of a simulation are correlated; a weak prior has the weight of one such interval."""
SCALE_HALF_WIDTH: Final = 0.5
"""Largest half-width of the interval of log kp for which gravity counts as determining the scale."""
SCALE_GRAVITY: Final = 0.02
"""Smallest rms of gravity relative to that of kp (target - q)."""
CONTRADICTION: Final = 0.15
"""Log ratio of a given gain and that by gravity, beyond its interval, which is stated: masses of robot files are hardly
better than that."""
MAX_MODEL_ERROR: Final = 0.9 * OPEN_HALF_WIDTH
"""Largest half-width of log values that errors of the model cause: usual values of servos are not further apart."""


@dataclass(eq=False)
class ServoFits:
    """Fits of all joints, which are replaced as contacts and scales become known.

    rows   rows of all logs
    known  (n,) given gains; NaN where they are estimated
    moves  (n,) joints that are fitted; the others get usual values
    """

    rows: ServoRows
    known: Array
    moves: NDArray[np.bool_]

    def __post_init__(self) -> None:
        n = len(self.known)
        self.fits: list[JointFit | None] = [None] * n
        self.weights = np.ones(self.rows.q.shape)
        self.assumed = self.known.copy()
        self.has_scale = ~np.isnan(self.known)
        self.blocks = number_blocks(self.rows)
        self.delay: DelayFit | None = None
        self.extras: list[tuple[float, ...]] = [NO_EXTRAS] * n
        self.frictions: dict[int, tuple[Extension, Extension]] = {}

    def find_limits(self) -> None:
        """Add a torque limit to each joint whose held-out blocks are then simulated better."""
        for joint in (int(k) for k in np.flatnonzero(self.moves)):
            fit, problem = self.fits[joint], self._problem(joint)
            assert fit is not None
            limit = find_limit(problem, fit, self.blocks)
            if limit is not None:
                problem = with_limit(problem, limit)
                self.extras[joint] = problem.extras
                self.fits[joint] = problem.refine(limit.fit.x[:4])

    def find_frictions(self) -> None:
        """Fit each joint twice more: with higher friction at rest, and with friction that grows with the load."""
        for joint in (int(k) for k in np.flatnonzero(self.moves)):
            fit = self.fits[joint]
            assert fit is not None
            self.frictions[joint] = find_frictions(self._problem(joint), fit, self.blocks)

    def _problem(self, joint: int) -> OutputError:
        free, weights = self._free(joint), self.weights[:, joint]
        return OutputError(self.rows.table(joint), weights, free, self._prior, self.extras[joint])

    def fit_all(self, weights: Array) -> None:
        """Fit every joint that moves with weights (N, n)."""
        self.weights = weights
        for joint in np.flatnonzero(self.moves):
            self.fits[joint] = self._fit(int(joint), self.known[joint])

    def assume_missing_scales(self) -> None:
        """Give joints without a scale the median gain of the others, and fit their other values again."""
        for joint in np.flatnonzero(self.moves & np.isnan(self.known)):
            self.has_scale[joint] = self._determines_scale(int(joint))
        gains = [float(np.exp(fit.x[0])) for fit, has in zip(self.fits, self.has_scale, strict=True) if fit and has]
        gains += [float(gain) for gain in self.known[~self.moves & ~np.isnan(self.known)]]
        gain = float(np.median(gains)) if gains else TYPICAL_KP
        for joint in np.flatnonzero(~self.has_scale):
            self.assumed[joint] = gain
            if self.moves[joint]:
                self.fits[joint] = self._fit(int(joint), gain)

    def apply_delay(self) -> float:
        """Fit a common delay of the targets. If it is significant, refit the joints and return it; else return 0."""
        joints = [int(joint) for joint in np.flatnonzero(self.moves)]
        problems = [JointProblem(j, self.weights[:, j], self._free(j), self._prior, self.extras[j]) for j in joints]
        fits = [fit for fit in self.fits if fit is not None]
        self.delay = fit_delay(self.rows, problems, fits, self.blocks)
        if not self.delay.is_applied:
            return 0.0
        self.rows = self.delay.rows
        for joint, fit in zip(joints, self.delay.fits, strict=True):
            self.fits[joint] = fit
        return self.delay.delay_s

    @property
    def residuals(self) -> Array:
        """Simulated minus measured positions (N, n); zero for joints that do not move."""
        nothing = np.zeros(len(self.rows.time))
        return np.column_stack([nothing if fit is None else np.nan_to_num(fit.residuals) for fit in self.fits])

    @property
    def values(self) -> Array:
        """Values (n, 4) of all joints."""
        usual = [typical_values(TYPICAL_KP if np.isnan(gain) else float(gain)) for gain in self.assumed]
        return np.array([u if fit is None else np.exp(fit.x) for u, fit in zip(usual, self.fits, strict=True)])

    def uncertainty(self) -> tuple[Array, Array, Array]:
        """Return the ends (n, 4) of the intervals, NaN for values that are open, assumed or given, and the covariance
        (n, 4, 4) of the logarithms of all values.
        """
        values = self.values
        half, covariance = np.full(values.shape, np.inf), np.zeros((*values.shape, 4))
        for joint in (int(k) for k in np.flatnonzero(self.moves)):
            fit = self.fits[joint]
            assert fit is not None
            jackknifed, quantile = self._covariance(joint)
            by_delay = self._changes_by_delay(joint)
            known = jackknifed * (quantile / NORMAL_95) ** 2 if np.isfinite(quantile) else np.zeros((4, 4))
            between = NORMAL_95 * np.sqrt(np.diag(known)) if np.isfinite(quantile) else np.full(4, np.inf)
            others = np.hypot(_step_errors(values[joint]), by_delay)
            half[joint] = np.hypot(np.fmax(between, self._errors_by_friction(joint)), others)
            known = widen_by_model_error(known, fit, self._log_count, self._free(joint))
            covariance[joint] = known + np.outer(by_delay, by_delay) / NORMAL_95**2
            # Errors of the model widen what the logs determine, but leave nothing open.
            widened = np.fmax(half[joint], NORMAL_95 * np.sqrt(np.diag(covariance[joint])))
            determined = half[joint] < OPEN_HALF_WIDTH
            half[joint, determined] = np.fmin(widened, MAX_MODEL_ERROR)[determined]
        is_free = np.column_stack([np.isnan(self.assumed), *[np.ones(len(values), dtype=bool)] * 3])
        for joint, matrix in enumerate(covariance):
            complete_log_covariance(matrix, np.where(is_free[joint], half[joint], 0.0))
        half[~is_free] = np.nan
        half[~self.has_scale, 3] = np.nan  # armature and links together have a ratio to kp, which is assumed
        half[~(half < OPEN_HALF_WIDTH)] = np.nan
        return values * np.exp(-half), values * np.exp(half), covariance

    def _errors_by_friction(self, joint: int) -> Array:
        """Return how far the intervals of the log values (4,) must reach because friction may not be one constant.

        Each model of varying friction gives values and intervals; the result is the largest distance of their ends from
        the values. A model that does not improve the fit significantly extends only the interval of the friction.
        """
        x, prior = np.log(self.values[joint]), self._prior * prior_information(5)
        ends = []
        for extension in self.frictions[joint]:
            fit, free = extension.fit, extension.problem.free
            covariance, quantile = deviations_between_blocks(fit, self.blocks, free, prior)
            with np.errstate(invalid="ignore"):
                end = np.abs(fit.x[:4] - x) + quantile * np.sqrt(np.diag(covariance)[:4])
            end[~(end < OPEN_HALF_WIDTH)] = 0.0  # the logs do not separate it from the load
            ends.append(end if extension.is_significant else end * [0.0, 0.0, 1.0, 0.0])
        return np.asarray(np.max(ends, axis=0))

    def _changes_by_delay(self, joint: int) -> Array:
        """Return changes (4,) of log values over the interval of an estimated delay."""
        if self.delay is None:
            return np.zeros(4)
        left = 0.0 if self.delay.is_applied else self.delay.delay_s
        error = min(max(self.delay.half_width_s, left), self.delay.limit_s)
        return np.asarray(self.delay.slopes[int(self.moves[:joint].sum())] * error)

    def _free(self, joint: int) -> NDArray[np.bool_]:
        return np.array([bool(np.isnan(self.assumed[joint])), True, True, True])

    def _half_widths(self, joint: int) -> Array:
        covariance, quantile = self._covariance(joint)
        with np.errstate(invalid="ignore"):
            return np.asarray(quantile * np.sqrt(np.diag(covariance)))

    def _covariance(self, joint: int) -> tuple[Array, float]:
        """Return the covariance (4, 4) of log values between blocks, and the t quantile of a 95 % interval."""
        fit = self.fits[joint]
        assert fit is not None
        prior = self._prior * prior_information()
        return deviations_between_blocks(fit, self.blocks, self._free(joint), prior)

    @property
    def _log_count(self) -> int:
        return int(self.rows.log[-1]) + 1

    @property
    def _prior(self) -> float:
        return CORRELATED_S * self.rows.rate_hz

    def _determines_scale(self, joint: int) -> bool:
        fit, used = self.fits[joint], self.weights[:, joint] > 0
        assert fit is not None
        servo = np.exp(fit.x[0]) * (self.rows.target - self.rows.q)[used, joint]
        gravity = self.rows.gravity[used, joint]
        is_loaded = (gravity**2).mean() > SCALE_GRAVITY**2 * (servo**2).mean() if used.any() else False
        # A gain that is far too small makes any weight large relative to the servo, but not to the residuals.
        unexplained = np.exp(fit.x[0]) * fit.residuals[used]
        is_visible = bool((gravity**2).sum() > (unexplained**2).sum())
        return bool(is_loaded and is_visible and self._half_widths(joint)[0] < SCALE_HALF_WIDTH)

    def _half_width_of_scale(self, joint: int) -> float:
        """Return the half-width of the interval of log kp, with errors of the model."""
        fit = self.fits[joint]
        assert fit is not None
        covariance, quantile = self._covariance(joint)
        known = covariance * (quantile / NORMAL_95) ** 2
        return float(NORMAL_95 * np.sqrt(widen_by_model_error(known, fit, self._log_count, self._free(joint))[0, 0]))

    def gain_by_gravity(self, joint: int) -> tuple[float, float, float] | None:
        """Return a given gain and the interval of that by gravity if the latter excludes it; None otherwise."""
        given, fit = float(self.known[joint]), self.fits[joint]
        if np.isnan(given) or fit is None:
            return None
        free = self._fit(joint, np.nan)
        self.fits[joint], self.assumed[joint] = free, np.nan
        half = self._half_width_of_scale(joint) if self._determines_scale(joint) else np.inf
        self.fits[joint], self.assumed[joint] = fit, given
        limits = np.exp(free.x[0] + np.array([-1, 1]) * half)
        if not half < SCALE_HALF_WIDTH or abs(free.x[0] - np.log(given)) < half + CONTRADICTION:
            return None
        return given, float(limits[0]), float(limits[1])

    def _fit(self, joint: int, gain: float) -> JointFit:
        """Fit a joint with this gain, or with a free one if it is NaN."""
        given = None if np.isnan(gain) else float(gain)
        weights = self.weights[:, joint]
        start = fit_linear_start(self.rows, joint, weights, given)
        starts = [start, typical_values(start[0]), start * [1.0, 1.0, 1.5, 1.0]]
        if given is None:
            starts.append(typical_values(TYPICAL_KP))
        elif (before := self.fits[joint]) is not None:
            starts.append(np.exp(before.x - before.x[0]) * given)
        free = np.array([given is None, True, True, True])
        problem = OutputError(self.rows.table(joint), weights, free, self._prior, self.extras[joint])
        return problem.minimise([np.log(start) for start in starts])


def _step_errors(values: Array) -> Array:
    """Return the errors (4,) of the log values that the time step `STEP_S` causes.

    A target acts half a step early, which kp h / 2 of damping balances, and damping acts half a step late, which adds
    kd h / 2 to the inertia. The values are therefore valid for simulators with the same step.
    """
    kp, kd, _, ia = values
    return np.array([0.0, kp / kd, 0.0, kd / ia]) * STEP_S / 2
