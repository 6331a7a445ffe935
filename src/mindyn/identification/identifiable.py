"""Can these logs identify this robot? What sensors and motion must show before any number of a fit means something.

Directly visible: joints that hardly move, torques that never change, that stop at a limit, that lag behind those of
other joints, that do not follow the motion. What is left is judged by what the model would be used for, torque on
motion anywhere within the limits:

    uncertainty^2 = mean over such motion of  sum_j y_j^T C y_j  /  sum_j mean tau_j^2 of the log

C is the covariance of a fit to what is *smooth* in the motion, below `CUTOFF_HZ`. Above it, noise of differentiated
positions looks like motion: columns full of noise seem to tell inertias sharply, of a joint at constant speed for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.parts import surely_positive
from mindyn.algebra.values import Array
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimate_parts import Identifiability
from mindyn.logs.filters import lowpass
from mindyn.logs.log import Log
from mindyn.logs.samples import Samples
from mindyn.regression.gathering import segment_ends

CUTOFF_HZ: Final = 5.0
ROWS: Final = 4000
"""Rows that are judged by, at most, two for each period of the cut-off."""
GENERIC: Final = 200
"""States within the limits."""
SWING_HZ: Final = 0.5
"""Accelerations of generic motion are its speeds times this rate."""
LEAST_RANGE: Final = {"revolute": 0.03, "prismatic": 0.005}
"""rad or m that a joint must move by: less is play, noise, or what other joints' motion shakes it by."""
UNCERTAIN: Final = 1.0
"""Uncertainty, as part of the torque, from which on a model says nothing of other motion. Sound logs of random arms
have 0.01 to 0.06, joints at constant speed 60 and more."""
HELD_UNCERTAIN: Final = 4.0
"""The same where values are held to what is physical, which is no part of the uncertainty: two short motions of a KR300
have 1.4, and its consistent fit foresees a third one to 13 %."""
UNFOLLOWED: Final = 0.75
"""Share of the variance of every joint's torque that the motion leaves unexplained, from which on it explains none."""
SATURATED: Final = 0.01
"""Share of rows that hold the largest value, or the least."""
PLATEAU: Final = 3
"""Rows in succession that do."""
STEPPED: Final = 0.3
"""Below this share of different values a signal is rounded, and its largest one has company by rounding."""
CROWDED: Final = 8.0
"""How many times as often as the value next to it a rounded signal must hold its largest one."""
SHIFTS_S: Final = (-0.06, -0.04, 0.04, 0.06)
"""s by which the torque of one joint is tried to be late; soft joints and friction look up to 25 ms late too."""
LATE_S: Final = 0.02
LATE: Final = 1.3
"""How many times the product over joints of mean squared residuals falls where one is late, and surely so: in a log of
few rows, or of motion that hardly changes, a shift fits better by chance."""
AHEAD: Final = 2.5
"""The same where its torque is ahead, which nothing but another clock makes: a sound log of 12 s, with friction that
falls with the speed and heavy-tailed noise, reaches 1.85."""
RUBBED: Final = 2 / 3
"""Share of the variance of a joint's torque that friction makes, from which on it is not asked: friction gives way
before it turns over, which looks up to 60 ms late in sound logs of measured wrists."""
REWEIGHTINGS: Final = 2
RICHER: Final = (
    "a motion in which every joint accelerates, through wide ranges and not in step: mindyn excite designs one"
)
LEAST_NOISE: Final = 1e-4
"""Part of a joint's torque that residuals count for at least."""


Fitted = tuple[Array, Array]
"""(N, n) squared residuals of a fit, and (n,) their means."""


@dataclass(frozen=True, slots=True, eq=False)
class SmoothRows:
    """Rows of the smooth motion.

    motion     q, qd, qdd and directions of friction
    Y          (N, n, p) columns
    tau        (N, n) torque; `shifted` by each of `SHIFTS_S`
    residuals  (N, n)
    weights    (n,) 1 / mean squared residual
    """

    motion: tuple[Array, Array, Array, Array | None]
    Y: Array
    tau: Array
    shifted: Array
    residuals: Array
    weights: Array

    def left(self, tau: Array) -> Fitted:
        """What a fit to other torques leaves, weighted by that."""
        weights, Y = self.weights, self.Y.transpose(1, 0, 2)
        matrices, rights = Y.transpose(0, 2, 1) @ Y, np.einsum("jrp,rj->jp", Y, tau)  # of every joint
        for _ in range(REWEIGHTINGS):
            beta = _inverse(np.tensordot(weights, matrices, 1)) @ (weights @ rights)
            squares = (tau - self.Y @ beta) ** 2
            left = squares.mean(axis=0)
            weights = 1 / np.maximum(left, LEAST_NOISE**2 * (tau**2).mean(axis=0) + 1e-300)
        return squares, left

    def moved(self, found: Estimate, joint: int, angle: float) -> SmoothRows:
        """The rows with a joint at another angle throughout."""
        q, *others = self.motion
        return replace(self, Y=_columns(found, (q + angle * np.eye(q.shape[1])[joint], *others)))

    @property
    def freedom(self) -> float:
        """Rows of a joint less its share of the parameters."""
        rows, joints = map(int, self.tau.shape)
        return max(1.0, rows - int(np.linalg.matrix_rank(self.normal)) / joints)

    @property
    def normal(self) -> Array:
        """(p, p) weighted."""
        rows = (self.Y * np.sqrt(self.weights)[:, None]).reshape(-1, self.Y.shape[2])
        return np.asarray(rows.T @ rows)


def identifiability(found: Estimate, samples: Samples, logs: Sequence[Log]) -> Identifiability:
    """The verdict on logs: what stands against them, and what to record instead.

    found    values that the data ask for by themselves
    samples  of the logs, or of stretches of them; `logs` are those as recorded
    """
    reasons = [*_still(found, samples), *_dead(logs), *_saturated(logs)]
    uncertainty: float | None = None
    if not found.robot.loops and not reasons:
        smooth = smooth_rows(found, samples)
        if smooth is not None:
            reasons += _unfollowed(smooth)
            uncertainty = _uncertainty(found, samples, smooth)
            if not reasons:
                # Of a motion that tells too little, a shift in time tells nothing either.
                limit = UNCERTAIN if found.physical is None else HELD_UNCERTAIN
                reasons += _vague(uncertainty) if uncertainty > limit else ()
                reasons += _late(found, smooth) if uncertainty <= UNCERTAIN else ()
    because, record = zip(*dict.fromkeys(reasons), strict=True) if reasons else ((), ())
    return Identifiability(not reasons, tuple(because), tuple(dict.fromkeys(record)), uncertainty)


def _still(found: Estimate, samples: Samples) -> Iterator[tuple[str, str]]:
    moved, places = np.ptp(samples.q, axis=0), np.median(samples.q, axis=0)
    for joint, reach, place in zip(found.robot.primary_joints, moved, places, strict=True):
        unit = "m" if joint.kind == "prismatic" else "rad"
        if reach < LEAST_RANGE["prismatic" if joint.kind == "prismatic" else "revolute"]:
            yield (
                f"joint {joint.name} hardly moves ({reach:.2g} {unit})",
                f"a motion of every joint (mindyn excite designs one), or lock it: --lock {joint.name}={place:.4g}",
            )


def _dead(logs: Sequence[Log]) -> Iterator[tuple[str, str]]:
    for name, dead in zip(logs[0].joint_names, never_change(logs), strict=True):
        if dead:
            yield f"the torque of joint {name} never changes", "with a torque sensor, or a column, that works"


def never_change(logs: Sequence[Log]) -> NDArray[np.bool_]:
    """(n,) whether the torque of a joint is the same in all rows."""
    tau = np.concatenate([log.tau for log in logs])
    return np.asarray(np.ptp(tau, axis=0) <= 1e-9 * np.abs(tau).max(axis=0))


def _saturated(logs: Sequence[Log]) -> Iterator[tuple[str, str]]:
    tau = np.concatenate([log.tau for log in logs])
    for name, one in zip(logs[0].joint_names, tau.T, strict=True):
        share = max(_plateau(one), _plateau(-one))
        if share > SATURATED:
            yield (
                f"the torque of joint {name} stops at one value in {100 * share:.2g} % of the rows, as at a limit",
                "slower, with accelerations that the drives reach, or within the sensor's range",
            )


def _plateau(x: Array) -> float:
    """Share of the rows at the largest value, where it is no peak and no step of rounding."""
    values, counts = np.unique(x, return_counts=True)
    if len(values) < 2 or counts[-1] < PLATEAU:
        return 0.0
    top = x == values[-1]
    edges = np.flatnonzero(np.diff(np.concatenate([[0], top.astype(np.int8), [0]])))
    if (edges[1::2] - edges[::2]).max() < PLATEAU:
        return 0.0
    if len(values) < STEPPED * len(x) and counts[-1] < CROWDED * counts[-2]:
        return 0.0
    return float(counts[-1] / len(x))


def smooth_rows(found: Estimate, samples: Samples) -> SmoothRows | None:
    """The rows, with what the fit leaves of them; None where they are too few."""
    rate, regressor = samples.rate_hz, found.regressor
    cutoff = min(CUTOFF_HZ, 0.2 * rate)
    ends = [(a, b) for a, b in segment_ends(samples.segments) if b - a > rate / cutoff]
    if not ends:
        return None
    step = max(1, int(rate / (2 * cutoff)))
    smooth = {
        name: [lowpass(getattr(samples, name)[a:b], cutoff, rate) for a, b in ends]
        for name in ("q", "qd", "qdd", "tau")
    }
    segments = np.concatenate([np.full(b - a, k, dtype=np.int64) for k, (a, b) in enumerate(ends)])
    arrays: dict[str, Any] = {name: np.concatenate(parts) for name, parts in smooth.items()}
    whole = samples.of_rows(**arrays, segments=segments)
    rows = np.arange(0, len(segments), max(step, len(segments) // ROWS))
    directions = regressor.directions(whole.q, whole.qd, segments, rate)
    of_rows = (whole.q[rows], whole.qd[rows], whole.qdd[rows], None if directions is None else directions[rows])
    Y = _columns(found, of_rows)
    if Y.shape[0] * Y.shape[1] < 2 * Y.shape[2]:
        return None
    tau, expected = whole.tau[rows], Y @ found.beta
    residuals = tau - expected
    sizes = np.sqrt((tau**2).mean(axis=0))
    noise = np.maximum(np.sqrt((residuals**2).mean(axis=0)), LEAST_NOISE * np.maximum(sizes, 1e-6 * sizes.max()))
    # A torque that is late by d belongs to the motion d before: tau(t + d) stands beside it. Ends stay where they are.
    shifted = np.array([_at(whole.tau, rows + seconds * rate, segments, rows) for seconds in SHIFTS_S])
    return SmoothRows(of_rows, Y, tau, shifted, residuals, 1 / np.maximum(noise, 1e-300) ** 2)


def _columns(found: Estimate, motion: tuple[Array, Array, Array, Array | None]) -> Array:
    """(N, n, p) columns of the estimate, zero for what it leaves out."""
    regressor = found.regressor
    Y = regressor.dense(regressor.parts(*motion))
    Y[:, :, [name in found.left_out for name in found.names]] = 0.0
    return np.asarray(Y)


def _at(tau: Array, places: NDArray[np.floating[Any]], segments: NDArray[np.int64], rows: NDArray[np.intp]) -> Array:
    """(k, n) torques at places between rows; where another segment is there, at `rows`."""
    near = np.clip(places, 0, len(tau) - 1)
    first = np.minimum(near.astype(np.intp), len(tau) - 2)
    part = (near - first)[:, None]
    found = (1 - part) * tau[first] + part * tau[first + 1]
    same = (segments[first] == segments[rows]) & (segments[first + 1] == segments[rows])
    return np.asarray(np.where(same[:, None], found, tau[rows]))


def _unfollowed(smooth: SmoothRows) -> Iterator[tuple[str, str]]:
    freedom = smooth.freedom
    left = (smooth.residuals**2).sum(axis=0) / freedom
    whole = smooth.tau.var(axis=0)
    shares = left / np.maximum(whole, 1e-300)
    if (shares > UNFOLLOWED).all():
        yield (
            "the torque does not follow the motion",
            "torques of this robot on this motion: check columns, and that both come from one recording",
        )


def _late(found: Estimate, smooth: SmoothRows) -> Iterator[tuple[str, str]]:
    """Joints whose torque fits much better when it is shifted in time, by another time than the others' does."""
    n = smooth.tau.shape[1]
    if n < 2:
        return
    of_friction = [one.brakes for one in found.parameters]
    friction = smooth.Y @ np.where(of_friction, found.beta, 0.0)
    asked = friction.var(axis=0) < RUBBED * smooth.tau.var(axis=0)
    shifts, gains = np.zeros(n), np.ones(n)
    stay = smooth.left(smooth.tau)
    for joint in np.flatnonzero(asked).tolist():
        for number, seconds in enumerate(SHIFTS_S):
            moved = smooth.tau.copy()
            moved[:, joint] = smooth.shifted[number][:, joint]
            left = smooth.left(moved)
            gain = float(np.prod(stay[1] / left[1]))
            if gain > max(LATE if seconds > 0 else AHEAD, gains[joint]) and surely_less(left, stay):
                shifts[joint], gains[joint] = seconds, gain
    for joint, name in enumerate(found.regressor.joint_names):
        others = shifts[asked & (np.arange(n) != joint)]
        late = shifts[joint] - (float(np.median(others)) if len(others) else 0.0)
        if shifts[joint] and abs(late) >= LATE_S:
            word = "behind" if late > 0 else "ahead of"
            yield (
                f"the torque of joint {name} is about {1000 * abs(late):.0f} ms {word} its motion, unlike the others'",
                "all joints with one clock, or shift its torque column",
            )


def surely_less(left: Fitted, stay: Fitted) -> bool:
    """Whether the squares of `left` are less than those of `stay` in most parts of the log."""
    rows = ((stay[0] - left[0]) / (0.5 * (stay[1] + left[1]) + 1e-300)).sum(axis=1)
    return surely_positive(rows)


def _uncertainty(found: Estimate, samples: Samples, smooth: SmoothRows) -> float:
    """Of the torque on motion within the limits, as part of the torque of the log."""
    rng, joints = np.random.default_rng(0), found.robot.primary_joints
    low, high = samples.q.min(axis=0), samples.q.max(axis=0)
    for k, joint in enumerate(joints):
        whole = (-np.pi, np.pi) if joint.kind != "prismatic" else (low[k], high[k])
        stated = (joint.limits.lower, joint.limits.upper)
        low[k], high[k] = (end if one is None else one for one, end in zip(stated, whole, strict=True))
    speeds = np.sqrt((samples.qd**2).mean(axis=0))
    of_kind = {
        kind: max(v for v, j in zip(speeds, joints, strict=True) if j.kind == kind) for kind in {j.kind for j in joints}
    }
    speed = np.array([of_kind[joint.kind] for joint in joints])
    q = rng.uniform(low, high, (GENERIC, len(joints)))
    qd = speed * rng.standard_normal(q.shape)
    qdd = 2 * np.pi * SWING_HZ * speed * rng.standard_normal(q.shape)
    regressor = found.regressor
    directions = regressor.directions(q, qd, np.arange(GENERIC, dtype=np.int64), 1.0)
    Y = _columns(found, (q, qd, qdd, directions))
    variance = np.einsum("ijk,kl,ijl->", Y, _inverse(smooth.normal), Y) / GENERIC
    power = float((smooth.tau**2).mean(axis=0).sum())
    return float(np.sqrt(variance / max(power, 1e-300)))


def _vague(uncertainty: float) -> list[tuple[str, str]]:
    accelerated = "" if uncertainty < 10 else ", as of joints that do not accelerate, or always together"
    return [
        (
            f"torque on other motion would be uncertain by {_percent(uncertainty)} of it: the motion "
            f"tells too little{accelerated}",
            RICHER,
        )
    ]


def uncertain(verdict: Identifiability) -> bool:
    """Whether what the data say by themselves is too uncertain to be doubted in its turn."""
    return not verdict.holds or (verdict.uncertainty or 0.0) > UNCERTAIN


def uncertain_doubts(verdict: Identifiability) -> list[str]:
    """A sentence where physics alone makes the values of use."""
    if not verdict.holds or not uncertain(verdict):
        return []
    return [
        f"by the data alone, torque on other motion would be uncertain by {_percent(verdict.uncertainty or 0.0)} of "
        f"it: what is physical makes up for much of that; record {RICHER}"
    ]


def _percent(part: float) -> str:
    return f"{float(f'{100 * part:.2g}'):g} %"


def _inverse(normal: Array) -> Array:
    """What no row sees has a variance of 1e12 times that of the best seen."""
    scales = np.sqrt(np.diag(normal))
    scales = np.where(scales > 0, scales, np.inf)
    values, vectors = np.linalg.eigh(normal / np.outer(scales, scales))
    return np.asarray(
        (vectors / np.maximum(values, 1e-12 * max(values[-1], 1e-300))) @ vectors.T / np.outer(scales, scales)
    )
