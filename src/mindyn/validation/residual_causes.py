"""What the residual of a joint looks like: the likeliest cause of what a model misses, by its own evidence.

Each cause has a signature, columns that the residual would follow: the torque's rate for a delay, the load times the
direction for friction that grows with the load, powers of the speed for another friction curve, and so on. The share
of the residual's power that a signature explains is its evidence; noise has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from mindyn.algebra.values import Array
from mindyn.regression.gathering import segment_ends
from mindyn.validation.noise_floor import at_the_floor, noise_floor
from mindyn.validation.prediction import Prediction
from mindyn.validation.residual_spectra import spectrum

Kind = Literal["noise", "delay", "load", "speed", "reversals", "position", "acceleration", "offset", "vibration"]
EVIDENT: Final = 0.25
"""A cause is named from this share of the residual's power on."""
FEWEST_SCORED_ROWS: Final = 200
NEAR_REVERSAL_S: Final = 0.05
"""About a change of direction: presliding and backlash last that long."""
REVERSAL_POWER: Final = 3.0
"""Residual power near reversals, in multiples of their share of the time, from which on they stand out."""
FAST: Final = 0.5
"""Share of the residual's power above the motion's band from which on it is vibration."""
BAND: Final = 0.999
"""Of the speed's power that lies below the end of the motion's band."""
SENTENCES: Final[dict[Kind, str]] = {
    "noise": "flat over all frequencies: sensor noise, which no model explains",
    "delay": "follows the torque's rate: torque and position are not logged at the same instant",
    "load": "follows load and direction: friction grows with the load",
    "speed": "follows the speed: the friction curve has another shape",
    "reversals": "stands at changes of direction: presliding friction or backlash",
    "position": "follows the joint's position: a spring, a cable, or gears that are not round",
    "acceleration": "follows the acceleration: an inertia that the model lacks, or a load",
    "offset": "does not average out: an offset of the sensor, or a load",
    "vibration": "lies above the motion's frequencies: vibration of gears or joints",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """What a residual follows, and the share of its power that this explains."""

    kind: Kind
    share: float

    @property
    def sentence(self) -> str:
        """What is seen, and what it stands for."""
        if self.kind == "noise":
            return f"What is missed is {SENTENCES['noise']}."
        return f"{100 * self.share:.0f} % of what is missed {SENTENCES[self.kind]}."


def causes_of(predictions: Sequence[Prediction]) -> tuple[Cause | None, ...]:
    """The likeliest cause of each joint's residual in the longest log; None where no signature is evident."""
    made = max(predictions, key=lambda one: len(one.scored))
    joints: int = made.measured.shape[1]
    if len(made.scored) < FEWEST_SCORED_ROWS:
        return (None,) * joints
    floor = noise_floor(made)
    return tuple(_cause(made, joint, float(floor[joint])) for joint in range(joints))


def _cause(made: Prediction, joint: int, floor: float) -> Cause | None:
    left = made.residual[made.scored, joint]
    rms = float(np.sqrt(np.mean(left**2)))
    if rms == 0:
        return None
    if at_the_floor(rms, floor):
        return Cause("noise", min(1.0, (floor / rms) ** 2))
    shares = {kind: _explained(left, columns) for kind, columns in _signatures(made, joint).items()}
    shares["reversals"] = _near_reversals(made, joint)
    best = max(shares, key=lambda kind: shares[kind])
    if shares[best] >= EVIDENT:
        return Cause(best, shares[best])
    fast = _above_the_motion(made, joint)  # what jumps with the motion is fast too, and was looked for before
    return Cause("vibration", fast) if fast >= FAST else None


def _signatures(made: Prediction, joint: int) -> dict[Kind, Array]:
    """For each cause the columns (k, c), at the scored rows, that a residual of it follows."""
    q, qd, qdd = (getattr(made.samples, name)[made.scored, joint] for name in ("q", "qd", "qdd"))
    torque = made.predicted[:, joint]
    rate = np.zeros_like(torque)
    for start, stop in segment_ends(made.samples.segments):
        if stop - start > 1:
            rate[start:stop] = np.gradient(torque[start:stop]) * made.samples.rate_hz
    load, way = np.abs(torque[made.scored]), np.sign(qd)
    return {
        "offset": np.ones((len(q), 1)),
        "delay": rate[made.scored, None],
        "load": ((load - load.mean()) * way)[:, None],
        "speed": np.stack([way, qd, qd * np.abs(qd), qd**3], axis=1),
        "position": np.stack([q - q.mean(), np.sin(q), np.cos(q), np.sin(2 * q), np.cos(2 * q)], axis=1),
        "acceleration": qdd[:, None],
    }


def _explained(left: Array, columns: Array) -> float:
    """Share of the power of `left` that a combination of the columns has; without its mean, but for a constant."""
    if columns.shape[1] == 1 and np.ptp(columns) == 0:
        return float(left.mean() ** 2 / np.mean(left**2))
    centred, about = left - left.mean(), columns - columns.mean(axis=0)
    scale = np.linalg.norm(about, axis=0)
    about = about[:, scale > 0] / scale[scale > 0]
    if not about.shape[1]:
        return 0.0
    follow = about @ np.linalg.lstsq(about, centred, rcond=1e-10)[0]
    return float(np.sum(follow**2) / np.sum(left**2))


def _near_reversals(made: Prediction, joint: int) -> float:
    """Share of the residual's power near changes of direction; 0 where that is no more than their time tells."""
    qd, reach = made.samples.qd[:, joint], max(1, round(NEAR_REVERSAL_S * made.samples.rate_hz))
    turns = np.flatnonzero((qd[1:] * qd[:-1] < 0) & (made.samples.segments[1:] == made.samples.segments[:-1]))
    near = np.zeros(len(qd), dtype=bool)
    for turn in turns:
        near[max(0, turn - reach) : turn + reach + 1] = True
    at, left = near[made.scored], made.residual[made.scored, joint] ** 2
    share = float(left[at].sum() / left.sum())
    return share if at.mean() and share > REVERSAL_POWER * at.mean() else 0.0


def _above_the_motion(made: Prediction, joint: int) -> float:
    """Share of the residual's power at frequencies above those of the motion."""
    rate, segments = made.samples.rate_hz, made.samples.segments
    frequency, speed = spectrum(made.samples.qd, segments, rate)
    if len(frequency) < 2:
        return 0.0
    total = np.cumsum(speed.sum(axis=1))
    end = int(np.searchsorted(total, BAND * total[-1])) + 1
    _, left = spectrum(made.residual[:, [joint]], segments, rate)
    return float(left[end:].sum() / left.sum()) if left.sum() > 0 else 0.0
