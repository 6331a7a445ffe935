"""Motions that come again, within a log and across logs: `motion_timeline`.

A log that repeats one motion holds less than its length: a block held out of it was seen in all other periods, so that
the error on it says nothing of other motions, and what is wrong with the model comes again with every period, where
noise would average out. Hence every row gets a time on a line along which no motion comes twice: rows of one place on
it are one piece of evidence, blocks of it are held out together. Where nothing repeats the line is the logs one after
another.

    change(lag) = max over joints of rms(q_j(t + lag) - q_j(t)) / (largest q_j - smallest q_j)

comes from one Fourier transform for each joint. On measured logs it falls to 1.4 to 2.4 % at a period and stays above
8 % elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from mindyn.algebra.values import Array

Places = NDArray[np.int64]

SAME_MOTION: Final = 0.04
"""Largest rms change, as a part of a joint's range, of a motion that comes again."""
OTHER_MOTION: Final = 0.08
"""The change must have risen above this before a fall counts: below it a slow motion has hardly moved on."""
MOVING_SPREAD: Final = 0.1
"""Standard deviation that some joint must have, as a part of its range, where two stretches are found to agree:
poses at rest agree without any motion."""
STILL_JOINT: Final = 0.02
"""A joint whose range is a smaller part of the largest one says nothing."""
SHORTEST_PERIOD_S: Final = 0.5
"""s; vibrations are no repeated motions."""
SEEN_AGAIN: Final = 0.25
"""Part of a period, or of the shorter of two logs, that must agree."""
THINNED_ROWS: Final = 8000
"""Rows of all logs after thinning: motions are smooth against their periods."""
APPROACHES: Final = ((0.0, 0.0), (0.1, 0.0), (0.0, 0.1), (0.1, 0.1), (0.2, 0.1), (0.3, 0.1))
"""Parts of a log that are tried as the way to the motion and back from it."""


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """A time for every row such that equal times mean equal motion.

    times     for each log (N,) s on the line
    length_s  of the line
    period_s  of the shortest motion that a log repeats; None where no log repeats itself
    repeats   logged seconds for each second of the line: 1 where nothing comes twice
    """

    times: tuple[Array, ...]
    length_s: float
    period_s: float | None
    repeats: float

    @property
    def repeated(self) -> bool:
        """Whether some motion comes again."""
        return self.repeats > 1 + SEEN_AGAIN

    @property
    def sentence(self) -> str:
        """For the person who recorded the logs; empty where nothing comes again."""
        if not self.repeated:
            return ""
        what = (
            "the logs repeat their motion" if self.period_s is None else f"one motion of {self.period_s:.3g} s repeats"
        )
        return f"{what} ({self.repeats:.2g} times): errors on it say little of other motions, which may be far worse"


def motion_timeline(times: Sequence[Array], positions: Sequence[Array]) -> Timeline:
    """The line of motions of some logs; times (N,) s, positions (N, n)."""
    logged = sum(float(t[-1] - t[0]) for t in times)
    step = logged / THINNED_ROWS
    joined = np.concatenate(positions)
    ranges = np.ptp(joined, axis=0)
    moving = ranges > STILL_JOINT * ranges.max()
    if not moving.any() or step <= 0:
        return Timeline(_one_after_another(times), logged, None, 1.0)
    evens = [_even(t, q[:, moving] / ranges[moving], step) for t, q in zip(times, positions, strict=True)]
    lines: list[Places] = []
    known: list[tuple[Array, Places]] = []
    end, periods = 0, []
    for even in evens:
        line, period = _folded(even, step)
        if period is not None:
            periods.append(period * step)
        line, end = _joined(even, line, period, known, end)
        known.append((even, line))
        lines.append(line)
    placed = tuple(
        (line[np.minimum(((t - t[0]) / step).astype(int), len(line) - 1)] + ((t - t[0]) / step) % 1) * step
        for t, line in zip(times, lines, strict=True)
    )
    rows = sum(len(line) for line in lines)
    return Timeline(placed, end * step, min(periods, default=None), rows / max(1, end))


def _one_after_another(times: Sequence[Array]) -> tuple[Array, ...]:
    ends = np.cumsum([0.0, *(float(t[-1] - t[0]) for t in times)])
    return tuple(t - t[0] + begin for t, begin in zip(times, ends[:-1], strict=True))


def _even(time: Array, q: Array, step: float) -> Array:
    """(M, n) positions every `step` seconds."""
    at = np.arange(time[0], time[-1], step) if time[-1] > time[0] else time[:1]
    return np.column_stack([np.interp(at, time, column) for column in q.T])


def _folded(q: Array, step: float) -> tuple[Places, int | None]:
    """(M,) place of each row on the log's own line, in steps, and the period that its motion repeats with."""
    for before, after in APPROACHES:
        first, last = int(before * len(q)), len(q) - int(after * len(q))
        period = _period(q[first:last], step)
        if period is not None:
            first, last = _grown(q, first, last, period)
            line = np.arange(len(q), dtype=np.int64)
            line[first:last] = first + (line[first:last] - first) % period
            line[last:] += first + period - last
            return line, period
    return np.arange(len(q), dtype=np.int64), None


def _grown(q: Array, first: int, last: int, period: int) -> tuple[int, int]:
    """The stretch that repeats, with rows before and after it that do as well."""
    change = np.abs(q[period:] - q[:-period]).max(axis=1)
    while first > 0 and change[first - 1] < 2 * SAME_MOTION:
        first -= 1
    while last < len(q) and change[last - period] < 2 * SAME_MOTION:
        last += 1
    return first, last


def _period(q: Array, step: float) -> int | None:
    """The smallest lag, in rows, at which all joints repeat."""
    longest = int(len(q) / (1 + SEEN_AGAIN))
    shortest = int(SHORTEST_PERIOD_S / step) + 1
    if longest <= shortest:
        return None
    change, deviation = (values[len(q) - 1 :][: longest + 1] for values in _changes(q, q))
    risen = np.maximum.accumulate(change) > OTHER_MOTION
    same = np.flatnonzero(risen & (change < SAME_MOTION) & (deviation > MOVING_SPREAD))
    same = same[same >= shortest]
    if not len(same):
        return None
    ends = np.flatnonzero(np.diff(same) > 1)
    dip = same[: ends[0] + 1] if len(ends) else same
    return int(dip[np.argmin(change[dip])])


def _joined(
    q: Array, line: Places, period: int | None, known: Sequence[tuple[Array, Places]], end: int
) -> tuple[Places, int]:
    """The log's line, on that of the logs before it where it makes the same motion; and where the whole ends now."""
    placed = np.full(len(q), -1, dtype=np.int64)
    for other, others in known:
        lag = _shared(q, other)
        if lag is None:
            continue
        at = np.arange(len(q)) + lag
        inside = (at >= 0) & (at < len(other))
        agree = np.zeros(len(q), dtype=bool)
        agree[inside] = np.abs(q[inside] - other[at[inside]]).max(axis=1) < 4 * SAME_MOTION
        fresh = agree & (placed < 0)
        placed[fresh] = others[at[fresh]]
    if period is not None and (placed >= 0).any():
        # Rows of one phase go where any of them went.
        place = np.full(line.max() + 1, -1)
        place[line[placed >= 0]] = placed[placed >= 0]
        placed = np.where(placed < 0, place[line], placed)
    alone = placed < 0
    own = np.unique(line[alone])
    placed[alone] = end + np.searchsorted(own, line[alone])
    return placed, end + len(own)


def _shared(q: Array, other: Array) -> int | None:
    """Rows to add to those of `q` to come to the same motion in `other`; None where they do not share one."""
    change, deviation = _changes(q, other)
    lags = np.arange(-(len(q) - 1), len(other))
    overlap = np.minimum(len(q), len(other) - lags) - np.maximum(0, -lags)
    good = (overlap >= 2 * SEEN_AGAIN * min(len(q), len(other))) & (change < SAME_MOTION) & (deviation > MOVING_SPREAD)
    if not good.any():
        return None
    return int(lags[good][np.argmin(change[good])])


def _changes(x: Array, y: Array) -> tuple[Array, Array]:
    """Largest rms over joints of y(i + lag) - x(i), and largest deviation of x, where both have rows.

    For lag = 1 - len(x) .. len(y) - 1.
    """
    count = len(x) + len(y) - 1
    size = next_fast_len(count, real=True)
    centre = x.mean(axis=0)
    x, y = x - centre, y - centre
    product = irfft(rfft(y, size, axis=0) * np.conj(rfft(x, size, axis=0)), size, axis=0)
    cross = np.roll(product, len(x) - 1, axis=0)[:count]
    lags = np.arange(1 - len(x), len(y))
    first, last = np.maximum(0, -lags), np.minimum(len(x), len(y) - lags)
    rows = (last - first)[:, None]
    of_x, of_y, sums = (np.vstack([np.zeros_like(v[:1]), np.cumsum(v, axis=0)]) for v in (x**2, y**2, x))
    squares_x = of_x[last] - of_x[first]
    squares = squares_x + of_y[last + lags] - of_y[first + lags] - 2 * cross
    variance = squares_x / rows - ((sums[last] - sums[first]) / rows) ** 2
    return (
        np.sqrt(np.maximum(squares / rows, 0.0)).max(axis=1),
        np.sqrt(np.maximum(variance, 0.0)).max(axis=1),
    )
