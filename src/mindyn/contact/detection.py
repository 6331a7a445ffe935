"""Contact: the torque that nobody commanded, and how much of it is an alarm.

    r' = gain (Y beta - tau - r)

r follows what the environment does to the joints with time constant 1 / gain (the momentum observer gives the same
without acceleration). On motions without contact r is the model's error: its greatest values in stretches of time
follow Gumbel's law, which gives the threshold that is passed as rarely as is asked. At a joint that stands still the
drive's friction holds against anything below breakaway, in either direction: what is hidden there is added to the
threshold, and fades with the observer's own time constant once the joint moves. Friction that holds a joint holds it
with one torque, though: what changes while the whole arm has stood for a while is held against the threshold of
motion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log as natural_log
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array, frozen_array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate, predict_unfiltered
from mindyn.kernels.model import Model
from mindyn.kernels.observer import MomentumObserver
from mindyn.logs.log import Log
from mindyn.logs.pipeline import condition
from mindyn.logs.samples import Samples
from mindyn.regression.row_blocks import FACTORED_ROWS, segment_ends
from mindyn.robots.robot import Robot

OBSERVER_GAIN_PER_S: Final = 20.0
"""1/s: contacts show within 50 ms."""
REST_SPEED: Final = 0.02
"""rad/s or m/s: slower joints may stand still, and their friction may be anything up to breakaway."""
BREAKAWAY_RATIO: Final = 1.5
"""Static friction as a multiple of the sliding friction at `REST_SPEED`; harmonic drives: 1.1 to 1.5."""
MIN_REST_S: Final = 1.0
"""The arm has stood for so long before a change of a residual counts: friction changes by stopping and by pushes."""
BASELINE_S: Final = 2.0
"""Time constant in which the residual of a standing joint is followed: drives creep on after a push for seconds."""
SEGMENT_S: Final = 0.5
"""Stretches whose greatest residuals are taken: ten time constants, so that they hardly depend on each other."""
MIN_SEGMENTS: Final = 20
ALARMS_PER_HOUR: Final = 1.0
EDGE_PERIODS: Final = 2.5
"""Periods of the cut-off that the low pass of positions errs by at the ends of a stretch that begins or ends moving."""
MERGE_GAP_S: Final = 0.2
"""Alarms that are no further apart are one contact."""


@dataclass(frozen=True, slots=True, eq=False)
class ContactThresholds:
    """What |r| may be without contact, joint by joint.

    moving           (n,) N m or N, of joints that move
    standstill       (n,) added while a joint stands still
    gain             1/s of the observer
    alarms_per_hour  false alarms that are expected, all joints together, on motions like those of `seconds`
    seconds          of motion without contact that the thresholds come from
    """

    joint_names: tuple[str, ...]
    moving: Array
    standstill: Array
    gain: float = OBSERVER_GAIN_PER_S
    alarms_per_hour: float = ALARMS_PER_HOUR
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "joint_names": list(self.joint_names),
            "moving": self.moving.tolist(),
            "standstill": self.standstill.tolist(),
            "gain": self.gain,
            "alarms_per_hour": self.alarms_per_hour,
            "seconds": self.seconds,
        }

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> ContactThresholds:
        """The inverse of `to_dict`."""
        names = tuple(values["joint_names"])
        moving, still = (frozen_array(values[key], (len(names),), key) for key in ("moving", "standstill"))
        rest = (float(values[key]) for key in ("gain", "alarms_per_hour", "seconds"))
        return ContactThresholds(names, moving, still, *rest)


@dataclass(frozen=True, slots=True, eq=False)
class ContactTrace:
    """The residual along a log: (N,) time in s, (N, n) r, and the least and the greatest that it may be."""

    joint_names: tuple[str, ...]
    time: Array
    residual: Array
    lower: Array
    upper: Array

    @property
    def alarms(self) -> NDArray[np.bool_]:
        """(N, n) whether the joint's residual is beyond its bounds."""
        return np.asarray((self.residual < self.lower) | (self.residual > self.upper))


@dataclass(frozen=True, slots=True)
class Contact:
    """One contact: from the first alarm to the last, alarms less than 0.2 s apart being one.

    joints  of alarms, each with the sign of the torque on it: +1 pushes towards larger positions
    link    what was touched, or a link beyond it: contact moves no joint after its own link's
    torque  N m or N, the largest of each of the joints
    """

    start_s: float
    end_s: float
    joints: Mapping[str, int]
    link: str
    torque: Mapping[str, float]


def external_torque(
    estimate: Estimate, log: Log, gain: float = OBSERVER_GAIN_PER_S
) -> tuple[Samples, Array, Array, Array]:
    """Samples of a log, their time in s, r (N, n) along them, and breakaway friction (N, n).

    Friction is not modelled at standstill.
    """
    if estimate.conditioning is None:
        raise InputError("the estimate was made from samples: no log can be conditioned as it was", hint="identify")
    # Ends of a stretch have no neighbours to be filtered with: their accelerations are no contact.
    own = estimate.conditioning.for_log(velocity=log.qd is not None, acceleration=log.qdd is not None)
    reach_s = EDGE_PERIODS / own.position_cutoff_hz if isinstance(own.position_cutoff_hz, float) else 0.0
    settings = replace(own.for_prediction(), edge_s=max(own.edge_s, reach_s))
    made = condition(log, estimate.robot, settings)
    time = log.time[np.searchsorted(log.rows, made.rows)]
    return made.samples, time, *_residual(estimate, made.samples, gain)


def _residual(estimate: Estimate, samples: Samples, gain: float) -> tuple[Array, Array]:
    friction = np.where([one.is_friction for one in estimate.parameters], estimate.beta, 0.0)
    still = np.abs(samples.qd) < REST_SPEED
    modelled = predict_unfiltered(estimate.regressor, estimate.beta, samples)
    modelled -= np.where(still, predict_unfiltered(estimate.regressor, friction, samples), 0.0)
    unexplained, r = modelled - samples.tau, np.zeros_like(samples.tau)
    decay = float(np.exp(-gain / samples.rate_hz))
    first = max(1, round(2 * samples.rate_hz / gain))
    for start, stop in segment_ends(samples.segments):
        # From the mean over two time constants, which has the noise of r; one row has ten times that.
        state = unexplained[start : min(start + first, stop)].mean(axis=0)
        for row in range(start, stop):
            state = decay * state + (1 - decay) * unexplained[row]
            r[row] = state
    return r, BREAKAWAY_RATIO * _sliding_friction(estimate, samples, friction)


def _sliding_friction(estimate: Estimate, samples: Samples, friction: Array) -> Array:
    """(N, n) half the difference of friction at `REST_SPEED` forwards and backwards, where the joints stand."""
    found, regressor = np.zeros_like(samples.q), estimate.regressor
    for start in range(0, len(samples), FACTORED_ROWS):
        taken = slice(start, min(start + FACTORED_ROWS, len(samples)))
        for sign in (1.0, -1.0):
            qd = np.full_like(samples.q[taken], sign * REST_SPEED)
            q = regressor.positions(samples, taken)
            asked = regressor.directions(q[:1], qd[:1], np.zeros(1, int), 1.0) is not None
            directions = np.sign(regressor.friction_speeds(q, qd)) if asked else None
            parts = regressor.parts(q, qd, np.zeros_like(qd), directions)
            for joint, (columns, arrays) in enumerate(zip(regressor.columns, parts, strict=True)):
                found[taken, joint] += sign / 2 * (np.concatenate(arrays, axis=1) @ friction[columns])
    return np.abs(found)


def contact_thresholds(
    estimate: Estimate,
    logs: Sequence[Log],
    *,
    alarms_per_hour: float = ALARMS_PER_HOUR,
    gain: float = OBSERVER_GAIN_PER_S,
) -> ContactThresholds:
    """Thresholds from logs of motions without contact; motions unlike them may pass the thresholds more often."""
    if not (np.isfinite(alarms_per_hour) and alarms_per_hour > 0):
        raise InputError(f"alarms_per_hour must be positive, got {alarms_per_hour!r}", hint="1.0: one in an hour")
    peaks: list[Array] = []
    hidden, seconds = np.zeros(len(estimate.regressor.joint_names)), 0.0
    for log in logs:
        samples, _, r, friction = external_torque(estimate, log, gain)
        hidden = np.maximum(hidden, friction.max(axis=0))
        over = np.maximum(np.abs(r) - _hidden_friction(samples, friction, gain), 0.0)
        rows = max(1, round(SEGMENT_S * samples.rate_hz))
        for start, stop in segment_ends(samples.segments):
            parts = [over[first : first + rows] for first in range(start, stop - rows + 1, rows)]
            peaks += [part.max(axis=0) for part in parts]
        seconds += len(samples) / samples.rate_hz
    if len(peaks) < MIN_SEGMENTS:
        raise InputError(
            f"{seconds:.3g} s of motion without contact is too little: {MIN_SEGMENTS * SEGMENT_S:g} s is needed",
            hint="give more logs of free motion",
        )
    each = alarms_per_hour / len(hidden)
    moving = _rare_peak_threshold(np.array(peaks), each * SEGMENT_S / 3600)
    names = estimate.regressor.joint_names
    return ContactThresholds(names, moving, hidden, gain, alarms_per_hour, seconds)


def _rare_peak_threshold(peaks: Array, probability: float) -> Array:
    """(n,) what the greatest of a stretch passes with that probability: Gumbel's law of these mean and deviation."""
    scale = peaks.std(axis=0, ddof=1) * np.sqrt(6) / np.pi
    return np.asarray(peaks.mean(axis=0) + scale * (-natural_log(-np.log1p(-probability)) - np.euler_gamma))


class ResidualBounds:
    """What the residual may be, sample by sample, from speeds and the residuals before.

        hidden_k = max(standstill where the joint stands, d hidden_(k-1)),  d = exp(-gain dt)
        |r| <= moving + hidden; and |r - b| <= moving where the arm has stood for `MIN_REST_S`

    b follows the residual with `BASELINE_S`, and holds while a change is an alarm; when an alarm ends, friction is
    another, and the joint has to settle anew.
    """

    def __init__(self, moving: Array, standstill: Array, gain: float, dt: float) -> None:
        self.moving, self.standstill, self.dt = moving, standstill, dt
        self._decay, self._follow = float(np.exp(-gain * dt)), float(-np.expm1(-dt / BASELINE_S))
        self.hidden, self.settling_s = standstill.copy(), np.zeros_like(moving)
        self.baseline = np.zeros_like(moving)
        self.changed = np.zeros(len(moving), dtype=bool)

    def bounds(self, r: Array, qd: Array) -> tuple[Array, Array]:
        """The least and the greatest that r (n,) may be at this sample."""
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
    """(N, n) what friction hides along samples: see `ResidualBounds`."""
    hidden = np.zeros_like(friction)
    for start, stop in segment_ends(samples.segments):
        watch = ResidualBounds(np.zeros(friction.shape[1]), friction[start], gain, 1 / samples.rate_hz)
        for row in range(start, stop):
            watch.standstill = friction[row]
            watch.bounds(hidden[row], samples.qd[row])
            hidden[row] = watch.hidden
    return hidden


def contact_trace(estimate: Estimate, log: Log, thresholds: ContactThresholds) -> ContactTrace:
    """The residual of a log and its threshold at every sample."""
    if thresholds.joint_names != estimate.regressor.joint_names:
        raise InputError(
            f"the thresholds are of the joints {', '.join(thresholds.joint_names)}, the estimate of "
            f"{', '.join(estimate.regressor.joint_names)}",
            hint="make them from this estimate: contact_thresholds(estimate, logs)",
        )
    samples, time, r, _ = external_torque(estimate, log, thresholds.gain)
    lower, upper = np.zeros_like(r), np.zeros_like(r)
    for start, stop in segment_ends(samples.segments):
        watch = ResidualBounds(thresholds.moving, thresholds.standstill, thresholds.gain, 1 / samples.rate_hz)
        for row in range(start, stop):
            lower[row], upper[row] = watch.bounds(r[row], samples.qd[row])
    return ContactTrace(thresholds.joint_names, time, r, lower, upper)


def find_contacts(trace: ContactTrace, robot: Robot) -> tuple[Contact, ...]:
    """The contacts along a trace, in the order of time."""
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
        # The first alarm is the push; later ones may be friction that lets go again.
        joints[trace.joint_names[j]] = int(np.sign(r[int(np.argmax(alarms[:, j])), j]))
    peaks = {name: float(np.abs(r[:, trace.joint_names.index(name)]).max()) for name in joints}
    return Contact(
        float(trace.time[span][0]), float(trace.time[span][-1]), joints, find_contact_link(robot, joints), peaks
    )


def find_contact_link(robot: Robot, joints: Iterable[str]) -> str:
    """The link beyond the joint that is furthest from the root among those that feel a contact."""
    named = {joint.name: joint for joint in robot.joints}
    depth = {name: len(robot.path(robot.link_index(named[name].child))) for name in joints}
    return named[max(depth, key=depth.__getitem__)].child


class ContactDetector:
    """The detector for a control loop: `update(q, qd, tau)` once for each sample gives alarms joint by joint.

    model  of the arm with its drives, as `compile_model(full_model(estimate, friction="fitted"), drives=True)` gives
    dt     sampling time, s
    """

    def __init__(self, model: Model, thresholds: ContactThresholds, dt: float) -> None:
        if thresholds.joint_names != model.robot.primary_names:
            raise InputError(
                f"the thresholds are of the joints {', '.join(thresholds.joint_names)}, the model has "
                f"{', '.join(model.robot.primary_names)}"
            )
        self.thresholds = thresholds
        self._observer = MomentumObserver(model, thresholds.gain, dt)
        self._watch = ResidualBounds(thresholds.moving, thresholds.standstill, thresholds.gain, dt)
        self.residual = np.zeros(len(thresholds.joint_names))

    def update(self, q: Array, qd: Array, tau: Array) -> Array:
        """(n,) +1 or -1 where the joint's residual passes its bounds, with its sign; else 0.

        A joint that stands still has no friction in the model: its speed is given as zero.
        """
        self.residual = self._observer.update(q, np.where(np.abs(qd) < REST_SPEED, 0.0, qd), tau)
        lower, upper = self._watch.bounds(self.residual, qd)
        return np.where(self.residual > upper, 1.0, np.where(self.residual < lower, -1.0, 0.0))
