"""`identify_servos`: kp, damping, friction and armature of each joint from position targets and positions alone.

Joints are independent problems: loads of the other joints follow from the measured motion and the masses of the robot
file. A fit with all rows finds contacts; a second one leaves them out; joints without gravity take the gain of others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.blas import run_on_one_blas_thread
from mindyn.foundation.algebra.requirements import require_number
from mindyn.foundation.algebra.significance import NORMAL_95
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, list_names, require_choice
from mindyn.foundation.findings import Finding, Kind, Severity, info, warning
from mindyn.identification.selection.choose import Progress
from mindyn.identification.servos.command_delay import DelayFit, JointProblem, fit_delay
from mindyn.identification.servos.contact_rows import Table, choose_tip, find_table, free_rows, tip_heights
from mindyn.identification.servos.intervals import (
    deviations_between_blocks,
    number_blocks,
    widen_by_model_error,
)
from mindyn.identification.servos.joint_tables import STEP_S, ServoRows, build_servo_rows
from mindyn.identification.servos.linear_start import TYPICAL_KP, fit_linear_start, typical_values
from mindyn.identification.servos.model_errors import Extension, find_frictions, find_limit, with_limit
from mindyn.identification.servos.output_error import JointFit, OutputError, prior_information
from mindyn.identification.servos.rollout import NO_EXTRAS
from mindyn.identification.servos.servo_estimate import ServoEstimate
from mindyn.identification.servos.servo_samples import OPEN_HALF_WIDTH, complete_log_covariance
from mindyn.identification.servos.slipped_rows import Slip, find_slips, slipped_rows
from mindyn.identification.servos.target_checks import find_degrees, find_resting_tip, find_wrong_targets, stands
from mindyn.logs.conversion import gains_per_joint
from mindyn.logs.log import Log
from mindyn.regression.experiment import require_logs
from mindyn.regression.gathered_log import sources_of
from mindyn.regression.rows import Logs
from mindyn.robots.robot import Robot

CORRELATED_S: Final = 1.0
"""Time over which errors of a simulation are correlated; a weak prior has the weight of one such interval."""
SCALE_HALF_WIDTH: Final = 0.5
"""Largest half-width of the interval of log kp for which gravity counts as determining the scale."""
SCALE_GRAVITY: Final = 0.02
"""Smallest rms of gravity relative to that of kp (target - q)."""
SLOW_HALF_WIDTH: Final = 0.6
"""Half width of the interval of log damping above which a slow motion is stated: a factor of 1.8."""
COUPLED_PART: Final = 0.5
"""Rms torque by the motion of other joints, relative to friction, above which friction and armature are uncertain: that
torque is known from smoothed positions only. It is at most 0.08 on an SO-101, and above 5 on an arm of 20 kg without
gears, whose friction is then several times too large."""
CONTRADICTION: Final = 0.15
"""Log ratio of a given gain and that by gravity, beyond its interval, which is stated: masses of robot files are hardly
better than that."""
MAX_MODEL_ERROR: Final = 0.9 * OPEN_HALF_WIDTH
"""Largest half-width of log values that errors of the model cause: usual values of servos are not further apart."""
STILL_RANGE: Final = 0.01
"""Targets of a joint that stay within this range (rad, m) do not move it."""


@run_on_one_blas_thread
def identify_servos(
    robot: Robot,
    logs: Logs,
    *,
    kp: Mapping[str, float] | None = None,
    delay_s: float | None = None,
    tip: str | None = None,
    table_height_m: float | None = None,
    progress: Progress | None = None,
) -> ServoEstimate:
    """Estimate gain, damping, Coulomb friction and armature of position servos from targets and positions.

    The values minimise the error of simulated positions over whole motions. Masses stay those of the robot file. Rows
    in contact with a table and at hard stops are found and left out, and so are parts of a log in which all joints lag
    alike by more than elsewhere.

    Parameters
    ----------
    robot : Robot
        With masses.
    logs : Log or a sequence of them
        With position targets, such as from `read_log` or `mindyn.logs.log_from_targets`. A number for kp in their
        metadata is used, "unknown" is estimated. Targets are held until the next row.
    kp : mapping of joint names to floats, optional
        Known gains, N m/rad or N/m; they take precedence over those of the logs.
    delay_s : float, optional
        From the stamp of a target to its effect, in s; by default `target_delay_s` of the logs, less the half row by
        which holding delays a target: the simulation holds targets itself. If neither is given, a delay of at most
        three rows that all joints have in common is estimated, and applied if it is significant.
    tip : str, optional
        Link or frame that may touch a table; by default the last frame or link of the robot.
    table_height_m : float, optional
        Height of the tip, in m above the root frame, below which it touches a table. By default it is looked for.
    progress : callable, optional
        Called with a status line after each step.

    Returns
    -------
    ServoEstimate
        Values with intervals from the deviation between blocks of motion, and findings.

    Raises
    ------
    InputError
        If a log has no targets or differs in its joints, nothing moves, or the robot has no masses.
    """
    listed = _require_logs(robot, logs)
    say = progress or (lambda line: None)  # noqa: ARG005
    is_delay_known = delay_s is not None or any(log.metadata.target_delay_s for log in listed)
    delay = _delay_of(listed) if delay_s is None else delay_s
    require_number(delay, "delay_s", "[0, 1]", "the time from the stamp of a target to its effect, s")
    known = _known_gains(robot, listed, kp)
    rows = build_servo_rows(robot, listed, delay)
    still = np.ptp(rows.target, axis=0) < STILL_RANGE
    if still.all():
        raise InputError(
            "no joint has a target that moves", hint="record a motion", code=Code.TOO_LITTLE_DATA, subject="target"
        )
    names = robot.primary_names
    frame = choose_tip(robot, tip)
    wrong = find_degrees(names, rows, np.array([joint.kind != "prismatic" for joint in robot.primary_joints]))
    standing = stands(rows) & ~still & (not wrong)
    if not wrong:
        wrong = find_wrong_targets(names, rows, ~still & ~standing)
    if not wrong and table_height_m is None:
        heights = [tip_heights(robot, frame, x) for x in (rows.q, rows.target)]
        wrong = find_resting_tip(heights[0], heights[1], frame)
    if (still | standing).all():
        raise InputError(
            "no joint follows its target",
            hint="are the servos on? Compare the columns of target and position",
            code=Code.TOO_LITTLE_DATA,
            subject="position",
        )
    fits = _ServoFits(rows, known, ~still & ~standing)
    say("fitting each joint")
    fits.fit_all(np.ones(rows.q.shape))
    table = find_table(robot, rows, fits.residuals, frame) if table_height_m is None else Table(frame, table_height_m)
    free = free_rows(robot, rows, table)
    if not free.all():
        say("fitting without rows in contact")
        fits.fit_all(free.astype(np.float64))
    slips = find_slips(rows, [None if fit is None else np.exp(fit.x) for fit in fits.fits], fits.weights)
    if slips:
        say("fitting without rows that lag")
        fits.fit_all(fits.weights * ~slipped_rows(rows, slips)[:, None])
    say("looking for limits of the drives")
    fits.find_limits()
    say("fitting joints without a scale")
    fits.assume_missing_scales()
    if not is_delay_known:
        say("testing a delay of the targets")
        delay += fits.apply_delay()
    say("testing friction at rest and by load")
    fits.find_frictions()
    low, high, log_covariance = fits.uncertainty()
    kps, kds, fcs, ias = fits.values.T
    return ServoEstimate(
        robot=robot,
        kp=kps,
        kd=kds,
        fc=fcs,
        ia=ias,
        low=low,
        high=high,
        has_scale=fits.has_scale,
        limit=np.array([extras[2] for extras in fits.extras]),
        limits_damping=np.array([extras[3] > 0 for extras in fits.extras]),
        delay_s=delay,
        table=table,
        sources=tuple(source for log in listed for source in sources_of(log)),
        findings=(
            *wrong,
            *_explain(
                wrong,
                (
                    *_find_scales(names, fits, kps),
                    *_find_contacts(names, free, table),
                    *_find_slips(slips, listed),
                    *_find_still(names, still),
                    *_find_standing(names, standing),
                    *_find_contradictions(names, fits),
                    *_find_delay(fits.delay),
                    *_find_open(names, fits, low),
                    *_find_limits(names, fits),
                    *_find_frictions(names, fits),
                    *_find_coupled_joints(names, fits),
                ),
            ),
            *dict.fromkeys(finding for log in listed for finding in log.findings),
        ),
        log_covariance=log_covariance,
    )


@dataclass(eq=False)
class _ServoFits:
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
            known = widen_by_model_error(known, fit, int(self.rows.log[-1]) + 1, self._free(joint))
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

    def gain_by_gravity(self, joint: int) -> tuple[float, float, float] | None:
        """Return a given gain and the interval of that by gravity if the latter excludes it; None otherwise."""
        given, fit = float(self.known[joint]), self.fits[joint]
        if np.isnan(given) or fit is None:
            return None
        free = self._fit(joint, np.nan)
        self.fits[joint], self.assumed[joint] = free, np.nan
        half = float(self._half_widths(joint)[0]) if self._determines_scale(joint) else np.inf
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


def _delay_beyond_holding(delay_s: float, log: Log) -> float:
    """Return the delay of held targets: `target_delay_s` contains the half row by which holding delays them."""
    return max(0.0, delay_s - 0.5 * float(np.median(np.diff(log.time)))) if len(log) > 1 else delay_s


def _require_logs(robot: Robot, logs: Logs) -> list[Log]:
    listed = [log for log in require_logs(logs) if isinstance(log, Log)]
    if len(listed) != len(require_logs(logs)):
        message = "servos are identified from logs in memory"
        raise InputError(message, hint="use read_log, or omit --stream", code=Code.UNSUPPORTED, subject="logs")
    for log in listed:
        if log.joint_names != robot.primary_names:
            raise InputError(
                f"log {log.name!r} has the joints {list_names(log.joint_names)}, but the robot has "
                f"{list_names(robot.primary_names)}",
                hint="read the log with this robot",
                code=Code.DISAGREEMENT,
                subject=log.name,
            )
    return listed


def _delay_of(logs: Sequence[Log]) -> float:
    delays = {log.metadata.target_delay_s for log in logs}
    if len(delays) > 1:
        raise InputError(
            f"the logs have different target_delay_s: {', '.join(f'{d:g}' for d in sorted(delays))}",
            hint="pass delay_s, or identify them separately",
            code=Code.DISAGREEMENT,
            subject="target_delay_s",
        )
    return _delay_beyond_holding(delays.pop(), logs[0])


def _known_gains(robot: Robot, logs: Sequence[Log], kp: Mapping[str, float] | None) -> Array:
    """Return the gains (n,) that are given, NaN where they are unknown."""
    names = robot.primary_names
    stated = np.array([gains_per_joint(log.metadata.kp or "unknown", names, "kp") for log in logs])
    gains: Array = stated[0].copy()
    if not all(np.array_equal(gains, other, equal_nan=True) for other in stated):
        message = "the logs have different kp"
        raise InputError(message, hint="identify them separately", code=Code.DISAGREEMENT, subject="kp")
    for name, value in (kp or {}).items():
        require_choice(name, names, "kp")
        gains[names.index(name)] = value
    for name, value in zip(names, gains, strict=True):
        if not (np.isnan(value) or (np.isfinite(value) and value > 0)):
            raise InputError(
                f"kp of {name} is {value:g}; it must be positive",
                hint="check the sign of the target and of the position",
                code=Code.OUT_OF_RANGE,
                subject="kp",
            )
    return gains


def _find_scales(names: Sequence[str], fits: _ServoFits, kp: Array) -> list[Finding]:
    free = tuple(name for name, has in zip(names, fits.has_scale, strict=True) if not has)
    if not free:
        return []
    gain = float(kp[names.index(free[0])])
    origin = "the median of the other joints" if fits.has_scale.any() else "a usual value"
    message = (
        f"the logs do not determine the scale of {', '.join(free)}: only ratios to kp are known; kp = {gain:.3g} is "
        f"assumed, {origin}. The simulated motion does not depend on it"
    )
    remedy = "For torques, give kp of these joints, mount the robot so that gravity loads them, or add a weighed load"
    return [Finding(Kind.FREE_SCALE, info(Kind.FREE_SCALE, "").severity, message, remedy, free)]


def _find_delay(delay: DelayFit | None) -> list[Finding]:
    if delay is None or not delay.is_applied:
        return []
    d, half = 1e3 * delay.delay_s, 1e3 * delay.half_width_s
    message = (
        f"targets act {d:.1f} ms after their stamps (±{half:.1f} ms), at all joints: the delay is applied. Friction "
        "and damping were fitted with it"
    )
    return [replace(info(Kind.APPLIED_DELAY, message), value=delay.delay_s, unit="s")]


def _find_contacts(names: Sequence[str], free: NDArray[np.bool_], table: Table | None) -> list[Finding]:
    if free.all():
        return []
    parts = [f"{name}: {100 * part:.2g} %" for name, part in zip(names, 1 - free.mean(axis=0), strict=True) if part > 0]
    where = "hard stops" if table is None else f"{table.tip} below {1e3 * table.height_m:.0f} mm, or hard stops"
    return [info(Kind.CONTACT, f"rows in contact are left out of fit and score ({where})", *parts)]


def _find_slips(slips: Sequence[Slip], logs: Sequence[Log]) -> list[Finding]:
    if not slips:
        return []
    cases = ", ".join(
        f"{logs[s.log].name}: {1e3 * s.delay_s:.0f} ms from {s.begin_s - logs[s.log].time[0]:.0f} to "
        f"{s.end_s - logs[s.log].time[0]:.0f} s"
        for s in slips
    )
    message = (
        f"all joints lag more in a part of a log than elsewhere ({cases}): rows were lost, or the servos could not "
        "follow so fast a motion. The part is left out of the fit"
    )
    remedy = "Compare the stamps of targets and positions there, or record slower motion"
    return [Finding(Kind.STAMPS, Severity.WARNING, message, remedy)]


def _find_still(names: Sequence[str], still: NDArray[np.bool_]) -> list[Finding]:
    joints = tuple(name for name, stands in zip(names, still, strict=True) if stands)
    if not joints:
        return []
    message = f"the targets of {', '.join(joints)} do not move: their values are those of a usual servo"
    return [warning(Kind.STILL_JOINT, message, "Record a motion of these joints, or lock them (--lock)", joints)]


def _explain(causes: Sequence[Finding], findings: Sequence[Finding]) -> list[Finding]:
    """Mark all findings as consequences of a cause that makes them unreliable."""
    return [replace(f, explained_by=causes[0].kind) if causes else f for f in findings]


def _find_standing(names: Sequence[str], standing: NDArray[np.bool_]) -> list[Finding]:
    joints = tuple(name for name, stays in zip(names, standing, strict=True) if stays)
    if not joints:
        return []
    causes = "it is locked, its servo is off, or friction holds it"
    message = f"{', '.join(joints)} stays where it is while its target moves: {causes}"
    return [warning(Kind.STILL_JOINT, message, "Free the joint, or lock it for mindyn too (--lock)", joints)]


def _find_contradictions(names: Sequence[str], fits: _ServoFits) -> list[Finding]:
    """Return a finding if gravity, with the masses of the file, contradicts given gains."""
    found = {name: fits.gain_by_gravity(j) for j, name in enumerate(names)}
    wrong = {name: gains for name, gains in found.items() if gains is not None}
    if not wrong:
        return []
    cases = ", ".join(
        f"{name} {given:.3g} (gravity: {low:.3g} to {high:.3g})" for name, (given, low, high) in wrong.items()
    )
    message = f"given kp contradicts the weight of the robot file: {cases}. Either kp or the masses are wrong"
    remedy = 'Set kp = "unknown" if you trust the masses, or weigh the links'
    return [warning(Kind.CONTRADICTED_GAIN, message, remedy, tuple(wrong))]


def _find_open(names: Sequence[str], fits: _ServoFits, low: Array) -> list[Finding]:
    found = _find_slow_joints(names, fits, low)
    slow = [name for finding in found for name in finding.joints]
    for place, what in ((1, "damping"), (2, "friction"), (3, "armature")):
        stated = fits.moves & (fits.has_scale if what == "armature" else True)
        if what != "friction":  # both need speed
            stated = stated & [name not in slow for name in names]
        joints = tuple(n for j, n in enumerate(names) if stated[j] and np.isnan(low[j, place]))
        if joints:
            message = f"the logs leave the {what} of {', '.join(joints)} open: usual values decide"
            found.append(warning(Kind.POOR_GAIN, message, "Add a log with faster motion and slow reversals", joints))
    return found


def _find_limits(names: Sequence[str], fits: _ServoFits) -> list[Finding]:
    limits = {name: extras[2] for name, extras in zip(names, fits.extras, strict=True) if np.isfinite(extras[2])}
    if not limits:
        return []
    cases = ", ".join(f"{name} {limit:.3g}" for name, limit in limits.items())
    message = (
        f"the torque of servos is limited (N m or N): {cases}. The limit is part of the model and of exported files"
    )
    return [replace(info(Kind.SATURATED_TORQUE, message), joints=tuple(limits))]


def _find_frictions(names: Sequence[str], fits: _ServoFits) -> list[Finding]:
    """Return findings about joints whose friction is not one constant, which is all that simulators offer."""
    words = {"rest": "changes with speed by {:.0f} % between rest and motion", "loaded": "is {:.2g} % of the load more"}
    found = []
    best = {
        names[j]: max(some, key=lambda extension: extension.gain * extension.is_significant)
        for j, some in fits.frictions.items()
    }
    for extra, what in words.items():
        some = {name: e for name, e in best.items() if e.extra == extra and e.is_significant}
        if not some:
            continue
        cases = ", ".join(f"{name} {what.format(100 * e.value)}" for name, e in some.items())
        message = (
            f"one constant only approximates the friction: that of {cases}. Values and exported files have the best "
            "constant, and intervals include the difference"
        )
        remedy = "Use the values for simulation; do not read fc as a property of the gear"
        found.append(replace(info(Kind.MISSING_FRICTION, message), remedy=remedy, joints=tuple(some)))
    return found


def _find_slow_joints(names: Sequence[str], fits: _ServoFits, low: Array) -> list[Finding]:
    """Return a finding on joints too slow for damping: even a usual damping gives less torque than their friction."""
    peaks = np.quantile(np.abs(fits.rows.v), 0.99, axis=0)
    usual = np.array([typical_values(kp)[1] for kp in fits.values[:, 0]])
    needed = fits.values[:, 2] / usual
    is_known = low[:, 1] > np.exp(-SLOW_HALF_WIDTH) * fits.values[:, 1]  # not if it is open
    slow = fits.moves & ~is_known & (peaks < needed)
    joints = tuple(name for name, is_slow in zip(names, slow, strict=True) if is_slow)
    if not joints:
        return []
    cases = ", ".join(
        f"{n} {p:.2g} (needs {v:.2g})" for n, p, v, s in zip(names, peaks, needed, slow, strict=True) if s
    )
    message = f"the motion is too slow for damping and armature; peak speed in rad/s or m/s: {cases}"
    remedy = "Add a log that is faster: below that speed, usual damping gives less torque than friction"
    return [warning(Kind.SLOW_MOTION, message, remedy, joints)]


def _find_coupled_joints(names: Sequence[str], fits: _ServoFits) -> list[Finding]:
    coupling = np.sqrt(((fits.rows.load - fits.rows.gravity) ** 2).mean(axis=0))
    joints = tuple(n for n, c, v in zip(names, coupling, fits.values, strict=True) if c > COUPLED_PART * v[2])
    if not joints:
        return []
    message = (
        f"the motion of other joints loads {', '.join(joints)} as much as friction: friction, damping and armature are "
        "less certain than their intervals"
    )
    return [warning(Kind.NARROW_INTERVALS, message, "Record slower motion, or one joint at a time", joints)]
