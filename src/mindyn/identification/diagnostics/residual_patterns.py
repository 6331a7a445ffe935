"""Describe the pattern of each joint's residual for report and terminal, with a remedy.

Each pattern has a signature: columns that explain such a residual. Examples are the derivative of the torque for a
delay, the load times the direction for load-dependent friction, and powers of the speed for another friction curve. The
pattern with the signature that explains the largest fraction of the residual's power is reported. If no signature
explains enough, the part of the residual above the frequencies of the motion counts as noise if its spectrum is flat.
Messages name the pattern and no cause, because several causes have the same signature.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Final, Literal

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.findings import Finding, Kind, Severity
from mindyn.identification.diagnostics import thresholds as limit
from mindyn.identification.prediction.noise_floor_error import flat_fraction, is_at_floor, noise_floor, spectrum
from mindyn.identification.prediction.prediction import TorquePrediction
from mindyn.logs.samples import segment_ends

Pattern = Literal["noise", "delay", "load", "speed", "reversals", "position", "acceleration", "offset", "vibration"]
MIN_SCORED_ROWS: Final = 200
NEAR_REVERSAL_S: Final = 0.05
"""Time before and after a change of direction during which presliding and backlash act."""
MOTION_BAND: Final = 0.999
"""Fraction of the speed's power below the upper end of the motion's band."""
MESSAGES: Final[dict[Pattern, str]] = {
    "noise": "is flat over all frequencies, as noise of a sensor is",
    "delay": "follows the torque's rate",
    "load": "follows load and direction",
    "speed": "follows the speed",
    "reversals": "appears at changes of direction",
    "position": "follows the joint's position",
    "acceleration": "follows the acceleration",
    "offset": "does not average out",
    "vibration": "lies above the motion's frequencies",
}
REMEDIES: Final[dict[Pattern, str]] = {
    "noise": "Record at a higher speed or with a load, where the torque is larger relative to the noise",
    "delay": "Check that torque and position have one clock, or give a delay as delay_s",
    "load": "Record with and without a load, so that the friction of each can be identified",
    "speed": "Record slow and fast motions in both directions, so that the friction curve is determined",
    "reversals": "Do not rely on the model while the joint reverses; record slow reversals to see friction there",
    "position": "Describe springs or cables in the robot file if the joint has some",
    "acceleration": "Check the payload that is given for the log, and that all masses move with the joints of the "
    "model",
    "offset": "Zero the sensor at rest, and check the payload that is given for the log",
    "vibration": "Use smoother motions, or filter the torque: a rigid model describes the motion's frequencies",
}


def find_patterns(predictions: Sequence[TorquePrediction]) -> tuple[Finding | None, ...]:
    """Return the pattern of each joint's residual in the longest log; None if no signature explains the residual."""
    longest = max(predictions, key=lambda prediction: len(prediction.scored))
    joints: int = longest.measured.shape[1]
    if len(longest.scored) < MIN_SCORED_ROWS:
        return (None,) * joints
    floor = noise_floor(longest)
    patterns = (_find_pattern(longest, joint, float(floor[joint])) for joint in range(joints))
    names = longest.samples.joint_names
    return tuple(pattern and _pattern_finding(*pattern, name) for pattern, name in zip(patterns, names, strict=True))


def _pattern_finding(pattern: Pattern, fraction: float, joint: str) -> Finding:
    is_all = pattern == "noise" and is_at_floor(1.0, sqrt(fraction))
    size = "" if is_all else f"{100 * fraction:.0f} % of "
    message = f"{size}the unexplained torque of {joint} {MESSAGES[pattern]}"
    unit = "of the residual's power"
    return Finding(
        Kind.RESIDUAL_PATTERN, Severity.INFO, message, REMEDIES[pattern], (joint,), fraction, unit, (pattern,)
    )


def _find_pattern(prediction: TorquePrediction, joint: int, floor: float) -> tuple[Pattern, float] | None:
    left = prediction.residual[prediction.scored, joint]
    rms = float(np.sqrt(np.mean(left**2)))
    if rms == 0:
        return None
    flat = flat_fraction(rms, floor)
    if is_at_floor(rms, floor):
        return "noise", flat
    fractions = {
        pattern: _explained_power(left, columns) for pattern, columns in _pattern_columns(prediction, joint).items()
    }
    fractions["reversals"] = _near_reversals(prediction, joint)
    best = max(fractions, key=lambda pattern: fractions[pattern])
    if fractions[best] >= limit.MIN_PATTERN_POWER:
        return best, fractions[best]
    fast = _above_the_motion(prediction, joint)  # jumps at reversals are fast too, and were tested before
    if fast < 0.5:
        return None
    return ("vibration", fast - flat) if fast - flat > flat else ("noise", flat)


def _pattern_columns(prediction: TorquePrediction, joint: int) -> dict[Pattern, Array]:
    """Return for each pattern its columns (k, c) at the scored rows."""
    q, qd, qdd = (getattr(prediction.samples, name)[prediction.scored, joint] for name in ("q", "qd", "qdd"))
    torque = prediction.predicted[:, joint]
    rate = np.zeros_like(torque)
    for start, stop in segment_ends(prediction.samples.segments):
        if stop - start > 1:
            rate[start:stop] = np.gradient(torque[start:stop]) * prediction.samples.rate_hz
    load, way = np.abs(torque[prediction.scored]), np.sign(qd)
    return {
        "offset": np.ones((len(q), 1)),
        "delay": rate[prediction.scored, None],
        "load": ((load - load.mean()) * way)[:, None],
        "speed": np.stack([way, qd, qd * np.abs(qd), qd**3], axis=1),
        "position": np.stack([q - q.mean(), np.sin(q), np.cos(q), np.sin(2 * q), np.cos(2 * q)], axis=1),
        "acceleration": qdd[:, None],
    }


def _explained_power(left: Array, columns: Array) -> float:
    """Return the fraction of the power of `left` that the columns explain.

    The mean is removed first, unless the column is constant.
    """
    if columns.shape[1] == 1 and np.ptp(columns) == 0:
        return float(left.mean() ** 2 / np.mean(left**2))
    centred, about = left - left.mean(), columns - columns.mean(axis=0)
    scale = np.linalg.norm(about, axis=0)
    about = about[:, scale > 0] / scale[scale > 0]
    if not about.shape[1]:
        return 0.0
    follow = about @ np.linalg.lstsq(about, centred, rcond=1e-10)[0]
    return float(np.sum(follow**2) / np.sum(left**2))


def _near_reversals(prediction: TorquePrediction, joint: int) -> float:
    """Return the fraction of the residual's power near reversals of direction; 0 if it is at most twice their fraction
    of the time.
    """
    qd, reach = prediction.samples.qd[:, joint], max(1, round(NEAR_REVERSAL_S * prediction.samples.rate_hz))
    turns = np.flatnonzero(
        (qd[1:] * qd[:-1] < 0) & (prediction.samples.segments[1:] == prediction.samples.segments[:-1])
    )
    near = np.zeros(len(qd), dtype=bool)
    for turn in turns:
        near[max(0, turn - reach) : turn + reach + 1] = True
    at, left = near[prediction.scored], prediction.residual[prediction.scored, joint] ** 2
    share = float(left[at].sum() / left.sum())
    return share if at.mean() and share > 2 * at.mean() else 0.0


def _above_the_motion(prediction: TorquePrediction, joint: int) -> float:
    """Return the fraction of the residual's power at frequencies above those of the motion."""
    rate, segments = prediction.samples.rate_hz, prediction.samples.segments
    frequency, speed = spectrum(prediction.samples.qd, segments, rate)
    if len(frequency) < 2:
        return 0.0
    total = np.cumsum(speed.sum(axis=1))
    end = int(np.searchsorted(total, MOTION_BAND * total[-1])) + 1
    _, left = spectrum(prediction.residual[:, [joint]], segments, rate)
    return float(left[end:].sum() / left.sum()) if left.sum() > 0 else 0.0
