"""Contact detection: the external torque on the joints, and thresholds for alarms.

    r' = gain (Y beta - tau - r)

r follows the external torque with time constant 1 / gain (the momentum observer gives the same without acceleration).
On motions without contact, r is the error of the model: its maxima in segments of time follow a Gumbel distribution,
which gives the threshold for a required rate of false alarms. At a joint at rest, friction can balance any torque below
breakaway, in both directions. This hidden torque is added to the threshold, and decays with the time constant of the
observer once the joint moves. Friction balances with one constant torque, though: after the whole arm has been at rest
for a while, changes of r are compared with the threshold of motion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log as natural_log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.requirements import require_positive
from mindyn.foundation.algebra.values import Array, ShortRepr
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.estimate import Estimate, predict_unfiltered
from mindyn.identification.estimators.estimate_records import Record
from mindyn.kernels.external_wrench import ContactKind, ExternalWrench
from mindyn.kernels.model import Model
from mindyn.kernels.observer import MomentumObserver
from mindyn.logs.log import Log
from mindyn.logs.pipeline import condition
from mindyn.logs.samples import Samples, segment_ends
from mindyn.robots.robot import Robot

OBSERVER_GAIN_PER_S: Final = 20.0
"""Default gain of the observer, 1/s: contacts appear within 50 ms."""
REST_SPEED: Final = 0.02
"""Speed below which a joint may be at rest, rad/s or m/s; its friction is then anything up to breakaway."""
BREAKAWAY_RATIO: Final = 1.5
"""Static friction relative to sliding friction at `REST_SPEED`; harmonic drives: 1.1 to 1.5."""
MIN_REST_S: Final = 1.0
"""Time at rest before a change of the residual counts: friction changes after a stop and after a push."""
BASELINE_S: Final = 2.0
"""Time constant of the baseline of a resting joint: drives creep for seconds after a push."""
SEGMENT_S: Final = 0.5
"""Duration of the segments whose maxima are used: ten time constants, so that maxima are nearly independent."""
MIN_SEGMENTS: Final = 20
ALARMS_PER_HOUR: Final = 1.0
EDGE_PERIODS: Final = 2.5
"""Periods of the cutoff frequency that are dropped at the ends of a segment, where filtered positions are wrong."""
MERGE_GAP_S: Final = 0.2
"""Largest time between alarms of one contact."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ContactThresholds(ShortRepr, Record):
    """Largest |r| without contact for each joint.

    Attributes
    ----------
    joint_names : tuple of str
    moving : ndarray, shape (n,)
        Threshold of moving joints, N m or N.
    standstill : ndarray, shape (n,)
        Addition for joints at rest, N m or N.
    gain : float
        Gain of the observer, 1/s.
    alarms_per_hour : float
        Expected false alarms of all joints on motions like those of the logs.
    seconds : float
        Duration of the motions without contact from which the thresholds were computed.
    deviations : ndarray, shape (n,), optional
        Rms residual of each joint on these motions, beyond hidden friction, N m or N.
    """

    joint_names: tuple[str, ...]
    moving: Array
    standstill: Array
    gain: float = OBSERVER_GAIN_PER_S
    alarms_per_hour: float = ALARMS_PER_HOUR
    seconds: float = 0.0
    deviations: Array | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ContactTrace(ShortRepr):
    """Residual along a log: time (N,) in s, r (N, n), its lower and upper bounds, positions and speeds (N, n)."""

    joint_names: tuple[str, ...]
    time: Array
    residual: Array
    lower: Array
    upper: Array
    q: Array
    qd: Array

    @property
    def alarms(self) -> NDArray[np.bool_]:
        """Return whether the residual (N, n) is outside its bounds."""
        return np.asarray((self.residual < self.lower) | (self.residual > self.upper))


@dataclass(frozen=True, slots=True, repr=False)
class Contact(ShortRepr):
    """Contact from its first to its last alarm; alarms less than 0.2 s apart belong together.

    Attributes
    ----------
    start_s, end_s : float
    joints : Mapping of str to int
        Joints with alarms and the sign of the torque on them: +1 pushes towards larger positions.
    link : str
        Link in contact, or a link between it and the base: a contact causes no torque at joints beyond its link.
    torque : Mapping of str to float
        Largest torque on each of the joints, N m or N.
    """

    start_s: float
    end_s: float
    joints: Mapping[str, int]
    link: str
    torque: Mapping[str, float]


def external_torque(
    estimate: Estimate, log: Log, gain: float = OBSERVER_GAIN_PER_S
) -> tuple[Samples, Array, Array, Array]:
    """Return samples of a log, their time in s, r (N, n), and breakaway friction (N, n).

    The model has no friction at standstill.
    """
    # Filters lack neighbours at the ends of a segment: wrong accelerations there are not contacts.
    conditioning = estimate.conditioning_for(log)
    edge_s = EDGE_PERIODS / conditioning.motion_hz if isinstance(conditioning.motion_hz, float) else 0.0
    settings = replace(conditioning.for_prediction(), edge_s=max(conditioning.edge_s, edge_s))
    conditioned = condition(estimate.robot, log, settings)
    time = log.time[np.searchsorted(log.rows, conditioned.rows)]
    return conditioned.samples, time, *_filter_residuals(estimate, conditioned.samples, gain)


def _filter_residuals(estimate: Estimate, samples: Samples, gain: float) -> tuple[Array, Array]:
    friction = np.where([parameter.is_friction for parameter in estimate.parameters], estimate.beta, 0.0)
    still = np.abs(samples.qd) < REST_SPEED
    modelled = predict_unfiltered(estimate.regressor, estimate.beta, samples)
    modelled -= np.where(still, predict_unfiltered(estimate.regressor, friction, samples), 0.0)
    unexplained, r = modelled - samples.tau, np.zeros_like(samples.tau)
    decay = float(np.exp(-gain / samples.rate_hz))
    first = max(1, round(2 * samples.rate_hz / gain))
    for start, stop in segment_ends(samples.segments):
        # Start from the mean over two time constants, which has the noise of r; one row has ten times as much.
        state = unexplained[start : min(start + first, stop)].mean(axis=0)
        for row in range(start, stop):
            state = decay * state + (1 - decay) * unexplained[row]
            r[row] = state
    return r, BREAKAWAY_RATIO * _sliding_friction(estimate, samples, friction)


def _sliding_friction(estimate: Estimate, samples: Samples, friction: Array) -> Array:
    """Return half the difference (N, n) of friction at `REST_SPEED` forwards and backwards at the positions."""
    regressor = estimate.regressor
    abrupt = regressor.with_friction(replace(regressor.friction, direction="sign", width=0.0))
    slow = replace(samples, qd=np.full_like(samples.q, REST_SPEED), qdd=np.zeros_like(samples.q))
    forwards = predict_unfiltered(abrupt, friction, slow)
    backwards = predict_unfiltered(abrupt, friction, replace(slow, qd=-slow.qd))
    return np.asarray(np.abs(forwards - backwards) / 2)


def contact_thresholds(
    estimate: Estimate,
    logs: Sequence[Log],
    *,
    alarms_per_hour: float = ALARMS_PER_HOUR,
    gain: float = OBSERVER_GAIN_PER_S,
) -> ContactThresholds:
    """Compute contact thresholds from logs of motions without contact.

    Parameters
    ----------
    estimate : Estimate
        Estimate to use.
    logs : sequence of Log
        Motions without contact. Motions unlike these may exceed the thresholds more often.
    alarms_per_hour : float
        Accepted rate of false alarms of all joints.
    gain : float
        Gain of the observer, 1/s.

    Returns
    -------
    ContactThresholds
        Thresholds of every joint, in motion and at standstill.

    Raises
    ------
    InputError
        If `alarms_per_hour` is not positive, or the logs are too short.
    """
    require_positive(alarms_per_hour, "alarms_per_hour", "1.0 means one false alarm per hour")
    peaks: list[Array] = []
    hidden, seconds = np.zeros(len(estimate.regressor.joint_names)), 0.0
    squares, rows_in_all = np.zeros_like(hidden), 0
    for log in logs:
        samples, _, r, friction = external_torque(estimate, log, gain)
        hidden = np.maximum(hidden, friction.max(axis=0))
        excess = np.maximum(np.abs(r) - _hidden_friction(samples, friction, gain), 0.0)
        squares, rows_in_all = squares + (excess**2).sum(axis=0), rows_in_all + len(excess)
        rows = max(1, round(SEGMENT_S * samples.rate_hz))
        for start, stop in segment_ends(samples.segments):
            parts = [excess[first : first + rows] for first in range(start, stop - rows + 1, rows)]
            peaks += [part.max(axis=0) for part in parts]
        seconds += len(samples) / samples.rate_hz
    if len(peaks) < MIN_SEGMENTS:
        raise InputError(
            f"the logs contain {seconds:.3g} s of motion, but at least {MIN_SEGMENTS * SEGMENT_S:g} s are needed",
            hint="give more logs of motion without contact (--free)",
            code=Code.TOO_LITTLE_DATA,
            subject="logs",
        )
    joint_rate = alarms_per_hour / len(hidden)
    moving = _rare_peak_threshold(np.array(peaks), joint_rate * SEGMENT_S / 3600)
    names = estimate.regressor.joint_names
    deviations = np.sqrt(squares / rows_in_all)
    return ContactThresholds(names, moving, hidden, gain, alarms_per_hour, seconds, deviations)


def _rare_peak_threshold(peaks: Array, probability: float) -> Array:
    """Return the level (n,) that a maximum exceeds with this probability, by a fitted Gumbel distribution."""
    scale = peaks.std(axis=0, ddof=1) * np.sqrt(6) / np.pi
    return np.asarray(peaks.mean(axis=0) + scale * (-natural_log(-np.log1p(-probability)) - np.euler_gamma))


class ResidualBounds:
    """Bounds of the residual, sample by sample, from speeds and earlier residuals.

        hidden_k = max(standstill if the joint is at rest, d hidden_(k-1)),  d = exp(-gain dt)
        |r| <= moving + hidden; and |r - b| <= moving after the arm has been at rest for `MIN_REST_S`

    b follows the residual with `BASELINE_S` and is constant during an alarm. After an alarm, friction has changed, and
    the joint must settle again.
    """

    def __init__(self, moving: Array, standstill: Array, gain: float, dt: float) -> None:
        self.moving, self.standstill, self.dt = moving, standstill, dt
        self._decay, self._follow = float(np.exp(-gain * dt)), float(-np.expm1(-dt / BASELINE_S))
        self.hidden, self.settling_s = standstill.copy(), np.zeros_like(moving)
        self.baseline = np.zeros_like(moving)
        self.changed = np.zeros(len(moving), dtype=bool)

    def bounds(self, r: Array, qd: Array) -> tuple[Array, Array]:
        """Return the lower and upper bound of r (n,) at this sample."""
        still = np.abs(qd) < REST_SPEED
        self.hidden = np.maximum(np.where(still, self.standstill, 0.0), self._decay * self.hidden)
        self.settling_s = self.settling_s + self.dt if still.all() else np.zeros_like(self.moving)
        level = self.moving + self.hidden
        self.settling_s = np.where(self.changed | (np.abs(r) <= level), self.settling_s, 0.0)
        settled = self.settling_s > MIN_REST_S
        changed = settled & (np.abs(r - self.baseline) > self.moving)
        low = np.where(settled, self.baseline - self.moving, -np.inf)
        high = np.where(settled, self.baseline + self.moving, np.inf)
        self.settling_s = np.where(self.changed & ~changed, 0.0, self.settling_s)
        following = self.baseline + self._follow * (r - self.baseline)
        self.baseline = np.where(changed, self.baseline, np.where(self.settling_s > MIN_REST_S, following, r))
        self.changed = changed
        return np.maximum(-level, low), np.minimum(level, high)


def _hidden_friction(samples: Samples, friction: Array, gain: float) -> Array:
    """Return the torque (N, n) that friction hides along samples: see `ResidualBounds`."""
    hidden = np.zeros_like(friction)
    for start, stop in segment_ends(samples.segments):
        limits = ResidualBounds(np.zeros(friction.shape[1]), friction[start], gain, 1 / samples.rate_hz)
        for row in range(start, stop):
            limits.standstill = friction[row]
            limits.bounds(hidden[row], samples.qd[row])
            hidden[row] = limits.hidden
    return hidden


def contact_trace(estimate: Estimate, log: Log, thresholds: ContactThresholds) -> ContactTrace:
    """Compute the residual of a log and its bounds at every sample.

    Parameters
    ----------
    estimate : Estimate
        Estimate to use.
    log : Log
        Log to use.
    thresholds : ContactThresholds
        Thresholds of the same joints.

    Returns
    -------
    ContactTrace
        Residual (N, n) and its lower and upper bounds, over time.

    Raises
    ------
    InputError
        If the thresholds belong to other joints than the estimate.
    """
    _require_same_joints(thresholds, estimate.regressor.joint_names, "estimate")
    samples, time, r, _ = external_torque(estimate, log, thresholds.gain)
    lower, upper = np.zeros_like(r), np.zeros_like(r)
    for start, stop in segment_ends(samples.segments):
        limits = ResidualBounds(thresholds.moving, thresholds.standstill, thresholds.gain, 1 / samples.rate_hz)
        for row in range(start, stop):
            lower[row], upper[row] = limits.bounds(r[row], samples.qd[row])
    return ContactTrace(thresholds.joint_names, time, r, lower, upper, samples.q, samples.qd)


def _require_same_joints(thresholds: ContactThresholds, joints: tuple[str, ...], owner: str) -> None:
    if thresholds.joint_names != joints:
        raise InputError(
            f"the thresholds have the joints {', '.join(thresholds.joint_names)}, the {owner} has {', '.join(joints)}",
            hint="compute them for this robot: contact_thresholds(estimate, logs)",
            code=Code.DISAGREEMENT,
            subject="thresholds",
        )


def find_contacts(trace: ContactTrace, robot: Robot) -> tuple[Contact, ...]:
    """Find the contacts along a trace.

    Parameters
    ----------
    trace : ContactTrace
        Residual along a log.
    robot : Robot
        Robot of the logs.

    Returns
    -------
    tuple of Contact
        Contacts in the order of time.
    """
    rows = np.flatnonzero(trace.alarms.any(axis=1))
    if not len(rows):
        return ()
    apart = np.flatnonzero(np.diff(trace.time[rows]) > MERGE_GAP_S) + 1
    return tuple(_build_contact(trace, robot, part) for part in np.split(rows, apart))


def _build_contact(trace: ContactTrace, robot: Robot, rows: NDArray[np.intp]) -> Contact:
    span = slice(int(rows[0]), int(rows[-1]) + 1)
    r, alarms = trace.residual[span], trace.alarms[span]
    joints = {}
    for j in np.flatnonzero(alarms.any(axis=0)):
        # The first alarm is the push; later ones may be friction that releases.
        joints[trace.joint_names[j]] = int(np.sign(r[int(np.argmax(alarms[:, j])), j]))
    peaks = {name: float(np.abs(r[:, trace.joint_names.index(name)]).max()) for name in joints}
    return Contact(
        float(trace.time[span][0]), float(trace.time[span][-1]), joints, find_contact_link(robot, joints), peaks
    )


def find_contact_link(robot: Robot, joints: Iterable[str]) -> str:
    """Return the child link of the joint furthest from the root among those with alarms."""
    joint_by_name = {joint.name: joint for joint in robot.joints}
    depth = {name: len(robot.path(robot.link_index(joint_by_name[name].child))) for name in joints}
    return joint_by_name[max(depth, key=depth.__getitem__)].child


def contact_wrenches(
    trace: ContactTrace,
    contacts: Sequence[Contact],
    thresholds: ContactThresholds,
    model: Model,
    link: str | None = None,
    contact: ContactKind = "surface",
) -> tuple[tuple[float, ExternalWrench], ...]:
    """Estimate the wrench of each contact at the moment of its largest residual.

    The deviation of each joint is that of the motions without contact; friction of a joint at rest hides any torque
    up to breakaway, so that its deviation is that of a uniform distribution.

    Parameters
    ----------
    trace : ContactTrace
        Residual along a log.
    contacts : sequence of Contact
        Contacts of this trace.
    thresholds : ContactThresholds
        Thresholds of `contact_thresholds`, with `deviations`.
    model : Model
        Model of the robot.
    link : str, optional
        Link or frame that is touched; by default the link of each contact.
    contact : {"surface", "point"}
        "point": the contact exerts no moment about the origin of the frame.

    Returns
    -------
    tuple of (float, ExternalWrench)
        Time in s and wrench of each contact.

    Raises
    ------
    InputError
        If the thresholds have no deviations.
    """
    if thresholds.deviations is None:
        raise InputError(
            "the thresholds have no deviations",
            hint="compute them with contact_thresholds",
            code=Code.MISSING_VALUE,
            subject="thresholds",
        )
    wrenches = []
    for event in contacts:
        rows = np.flatnonzero((trace.time >= event.start_s) & (trace.time <= event.end_s))
        row = rows[np.argmax((np.abs(trace.residual[rows]) / thresholds.moving).max(axis=1))]
        hidden = np.where(np.abs(trace.qd[row]) < REST_SPEED, thresholds.standstill, 0.0) / np.sqrt(3)
        wrench = model.external_wrench(
            trace.residual[row],
            trace.q[row],
            link or event.link,
            torque_deviations=np.maximum(np.hypot(thresholds.deviations, hidden), 1e-12),
            contact=contact,
        )
        wrenches.append((float(trace.time[row]), wrench))
    return tuple(wrenches)


class ContactDetector:
    """Contact detector for a control loop: call `update` once for each sample.

    Parameters
    ----------
    model : Model
        Model of the robot with drives:
        `compile_model(build_full_model(estimate, friction_at_zero="fitted"), with_drives=True)`.
    thresholds : ContactThresholds
        Thresholds of the same joints.
    dt : float
        Sampling time, s.

    Raises
    ------
    InputError
        If the thresholds belong to other joints than the model.
    """

    def __init__(self, model: Model, thresholds: ContactThresholds, dt: float) -> None:
        _require_same_joints(thresholds, model.robot.primary_names, "model")
        self._observer = MomentumObserver(model, thresholds.gain, dt)
        self._limits = ResidualBounds(thresholds.moving, thresholds.standstill, thresholds.gain, dt)
        self.residual = np.zeros(len(thresholds.joint_names))

    def update(self, q: Array, qd: Array, tau: Array) -> Array:
        """Return alarms (n,): the sign of the residual if it is outside its bounds, else 0.

        The model has no friction for a joint at rest, so its speed counts as zero.

        Parameters
        ----------
        q, qd, tau : ndarray, shape (n,)
            Positions, speeds and measured torques of the joints.

        Returns
        -------
        ndarray, shape (n,)
            +1, -1 or 0 for each joint.
        """
        self.residual = self._observer.update(q, np.where(np.abs(qd) < REST_SPEED, 0.0, qd), tau)
        lower, upper = self._limits.bounds(self.residual, qd)
        return np.where(self.residual > upper, 1.0, np.where(self.residual < lower, -1.0, 0.0))
