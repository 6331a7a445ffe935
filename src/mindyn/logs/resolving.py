"""Replace "auto" settings by values selected from the first rows of the training logs, and report them.

Select a cut-off from the data: the frequency at which the spectrum of the motion falls to the noise floor.

Estimate the delay of the torque relative to the motion: the shift at which the motion explains the torque best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code
from mindyn.foundation.findings import Finding, Kind, info
from mindyn.logs.cleaning import MIN_GAP_PERIODS, estimate_even_step, has_bursts
from mindyn.logs.conditioning import Conditioning, condition_motion, motion_cutoff, require_resolved
from mindyn.logs.errors import LogError
from mindyn.logs.filters import LOWEST_HZ, SHIFT_REACH_ROWS, delay_selected_rows, edge_duration_s, power_density
from mindyn.logs.log import Log, join_logs
from mindyn.logs.reading import LogScan
from mindyn.logs.samples import Samples
from mindyn.logs.segments import SegmentPiece, resample_pieces, split_at_gaps

MAX_DELAY_S: Final = 0.1
SCAN_STEPS: Final = 20
MAX_COMPARED_ROWS: Final = 2500
MIN_COMPARED_ROWS: Final = 100
BINOMIAL_WEIGHTS: Final = np.array([1, 4, 6, 4, 1]) / 16
"""Weights of neighbouring torque rows in the comparison; they are symmetric and add no delay."""
MAX_REMAINING_FRACTION: Final = 0.5
"""A delay is reported if it reduces the unexplained torque to less than this fraction. Without a model, a wrong delay
reduces it to 0.74 in slow motions that have no delay."""
ROUNDING_FRACTION: Final = 1e-9
"""Fraction of the torque that rounding and interpolation may leave; below it no delay is significant."""


@dataclass(frozen=True, slots=True, eq=False)
class Delay:
    """Best common delay in s, and the unexplained fraction of the torque of all joints with it and without delay."""

    seconds: float
    unexplained: float
    unexplained_without: float

    @property
    def is_noticeable(self) -> bool:
        """Whether the delay explains the torque significantly better."""
        return (
            self.unexplained_without > ROUNDING_FRACTION
            and self.unexplained < MAX_REMAINING_FRACTION * self.unexplained_without
        )


def joint_columns(q: Array, qd: Array, qdd: Array) -> Array:
    """Return columns that need no model: 1, sin and cos of all q, the joint's velocity and its sign, all qdd."""
    n = q.shape[1]
    speed = np.sqrt((qd**2).mean(axis=0))
    direction = np.tanh(qd / np.where(speed > 0, 0.05 * speed, 1.0))
    shared = np.concatenate([np.ones((len(q), 1)), np.sin(q), np.cos(q), qdd], axis=1)
    of_joint = np.stack([qd, direction], axis=2)
    return np.concatenate([np.broadcast_to(shared[:, None, :], (len(q), n, shared.shape[1])), of_joint], axis=2)


class DelayScan:
    """Unexplained torque of each joint after a fit of the columns, as a function of the delay of the torque.

    At most `MAX_COMPARED_ROWS` evenly spaced rows are compared, which is enough for a delay. Rows that are closer to
    the end of a segment than the longest delay are excluded. Rows that are closer to a reversal of the joint's
    friction are excluded as well, because the shape of the friction would look like a delay.

    columns    function of sample indices (r,) that returns the columns (r, p_j) of every joint
    direction  (N, n) speeds whose sign determines the friction; None uses all rows
    """

    def __init__(
        self,
        samples: Samples,
        columns: Callable[[NDArray[np.intp]], Sequence[Array]],
        longest_s: float = MAX_DELAY_S,
        direction: Array | None = None,
    ) -> None:
        self.samples, self.longest_s = samples, longest_s
        reach = int(np.ceil(longest_s * samples.rate_hz))
        self.rows = _select_compared_rows(samples.segments, reach + 2 * SHIFT_REACH_ROWS)
        # Interpolation between rows removes noise near half the rate, which would look like a better fit.
        self._torques = [np.convolve(tau, BINOMIAL_WEIGHTS, mode="same") for tau in samples.tau.T]
        self.is_enough = len(self.rows) >= MIN_COMPARED_ROWS
        self._parts: list[tuple[NDArray[np.intp], Array]] = []
        for joint, Y in enumerate(columns(self.rows) if self.is_enough else ()):
            kept = np.arange(len(self.rows))
            if direction is not None:
                steady = kept[_keeps_sign(direction[:, joint], reach)[self.rows]]
                kept = steady if len(steady) >= max(MIN_COMPARED_ROWS, 2 * Y.shape[1]) else kept
            self._parts.append((self.rows[kept], _orthonormal_basis(Y[kept])))

    def unexplained(self, seconds: float) -> Array:
        """Return |tau - projection|^2 / |tau - mean|^2 (n,) of every joint; 1 for joints without torque."""
        return np.array([self._share(joint, seconds) for joint in range(len(self._parts))])

    def best(self) -> Delay:
        """Return the best common delay, with equal weights of all joints: scan the range, then search near the best."""
        from scipy.optimize import minimize_scalar

        if not self.is_enough:
            return Delay(0.0, 1.0, 1.0)

        def unexplained(seconds: float) -> float:
            return float(self.unexplained(seconds).mean())

        scan = np.linspace(-self.longest_s, self.longest_s, 2 * SCAN_STEPS + 1)
        best = int(np.argmin([unexplained(value) for value in scan]))
        bounds = (scan[max(0, best - 1)], scan[min(len(scan) - 1, best + 1)])
        xatol = 0.01 / self.samples.rate_hz
        result = minimize_scalar(unexplained, bounds=bounds, method="bounded", options={"xatol": xatol})
        return Delay(float(result.x), float(result.fun), unexplained(0.0))

    def _share(self, joint: int, seconds: float) -> float:
        rows, U = self._parts[joint]
        # A delayed torque must be moved to earlier times: a negative delay.
        torque = delay_selected_rows(self._torques[joint], -seconds * self.samples.rate_hz, rows)
        centred = float(((torque - torque.mean()) ** 2).sum())
        if not centred > 0:
            return 1.0
        return max(0.0, float(torque @ torque) - float(((U.T @ torque) ** 2).sum())) / centred


def _keeps_sign(speed: Array, reach: int) -> NDArray[np.bool_]:
    """Return whether the sign of a speed is constant from `reach` rows before to `reach` rows after, (N,)."""
    turns = np.concatenate([[0], np.cumsum(np.diff(np.sign(speed)) != 0)])
    padded = np.pad(turns, reach, mode="edge")
    return np.asarray(padded[2 * reach :] == padded[: len(turns)])


def estimate_delay(samples: Samples) -> Delay:
    """Return the common delay at which a least-squares fit of `joint_columns` leaves the least torque."""

    def of_joints(rows: NDArray[np.intp]) -> list[Array]:
        return list(joint_columns(samples.q[rows], samples.qd[rows], samples.qdd[rows]).swapaxes(0, 1))

    return DelayScan(samples, of_joints).best()


def _select_compared_rows(segments: NDArray[np.int64], margin: int) -> NDArray[np.intp]:
    starts = np.flatnonzero(np.diff(segments, prepend=-1))
    stops = np.append(starts[1:], len(segments))
    inner = [np.arange(start + margin, stop - margin) for start, stop in zip(starts, stops, strict=True)]
    rows = np.concatenate(inner)
    return np.asarray(rows[:: 1 + len(rows) // MAX_COMPARED_ROWS])


def _orthonormal_basis(Y: Array) -> Array:
    """Return an orthonormal basis of columns (r, p)."""
    U, s, _ = np.linalg.svd(Y / np.maximum(np.linalg.norm(Y, axis=0), 1e-300), full_matrices=False)
    return np.asarray(U[:, s > 1e-10 * s[0]])


def estimate_delay_without_model(parts: Sequence[Log], c: Conditioning) -> float:
    """Estimate the delay from uniform segments, in s."""
    motions = [condition_motion(part, replace(c, delay_s=0.0)) for part in parts]
    q, qd, qdd, tau = (np.concatenate(arrays) for arrays in zip(*motions, strict=True))
    segments = np.concatenate([np.full(len(part), k, dtype=np.int64) for k, part in enumerate(parts)])
    rate = require_resolved(c.rate_hz, "rate_hz")
    return estimate_delay(Samples(parts[0].joint_names, q, qd, qdd, tau, rate, segments)).seconds


CutoffRule = Callable[[Sequence[Log], float], float | None]
"""Function of the uniform segments of the training logs and their rate; returns a cut-off in Hz, None: no filter."""

FLOOR_BAND: Final = (0.5, 0.9)
"""Band, relative to the Nyquist frequency, that contains only noise."""
MIN_SIGNAL_TO_FLOOR: Final = 4.0
"""The motion ends where its power density falls below this multiple of the noise floor."""
MAX_CUTOFF_FRACTION: Final = 0.4
"""With a cut-off above this fraction of the rate, a filter has no significant effect: none is applied."""
MAX_WELCH_ROWS: Final = 4096
BLACKMAN_HARRIS: Final = (0.35875, -0.48829, 0.14128, -0.01168)
"""Cosine terms of the Blackman-Harris window: a strong low frequency does not leak into the noise floor."""


def noise_floor_cutoff(segments: Sequence[Log], rate_hz: float) -> float | None:
    """Return the highest frequency up to which the position of some joint stays above its noise floor.

    At least `LOWEST_HZ`: positions at constant speed have no spectrum, and a slower filter would leave no rows.
    """
    joints = range(len(segments[0].joint_names))
    highest = max(LOWEST_HZ, *(_joint_cutoff([segment.q[:, j] for segment in segments], rate_hz) for j in joints))
    return None if highest >= MAX_CUTOFF_FRACTION * rate_hz else highest


def _joint_cutoff(parts: Sequence[Array], rate_hz: float) -> float:
    frequency, density = _power_density(parts, rate_hz)
    inside = (frequency >= FLOOR_BAND[0] * rate_hz / 2) & (frequency <= FLOOR_BAND[1] * rate_hz / 2)
    floor = float(np.median(density[inside]))
    sunk = np.flatnonzero(density[1:] <= MIN_SIGNAL_TO_FLOOR * floor) + 1
    return float(frequency[sunk[0]]) if len(sunk) else float(frequency[-1])


def _power_density(parts: Sequence[Array], rate_hz: float) -> tuple[Array, Array]:
    """Return the power density of the parts that are long enough."""
    return power_density(parts, rate_hz, min(MAX_WELCH_ROWS, max(map(len, parts))), BLACKMAN_HARRIS, 1)


HEAD_ROWS: Final = 200_000
"""Rows of each log from which settings are selected, so that a stream and a whole log select the same values."""
MAX_JITTER_FRACTION: Final = 0.05
"""Largest variation of the steps of uniform stamps, relative to the period."""
MIN_REGULAR_FRACTION: Final = 0.95
RATE_TOLERANCE: Final = 0.02
"""Relative difference below which rates are equal."""
MAX_RATE_RATIO: Final = 10.0
"""Largest ratio of the rates of logs: at a tenth of its rate, a log has lost most of its information."""
NON_GAP_QUANTILE: Final = 0.995
"""Fraction of the steps between stamps that are not gaps, if stamps come in bursts."""
MAX_EVEN_ERROR_RATIO: Final = 0.7
"""Largest ratio of the position error predicted from evenly spaced rows to that from stamps, if rows are even."""


def resolve_conditioning(
    c: Conditioning, logs: Sequence[Log | LogScan], cutoff_rule: CutoffRule
) -> tuple[Conditioning, tuple[Finding, ...]]:
    """Resolve "auto" settings, with a finding on each choice, the name of the setting as its detail."""
    if c.is_resolved:
        return c, ()
    heads = [read_first_rows(log) for log in logs]
    c, findings = _resolve_time_base(c, heads)
    parts = uniform_segments(c, heads)
    if c.motion_hz == "auto":
        c = replace(c, motion_hz=cutoff_rule(parts, require_resolved(c.rate_hz, "rate_hz")))
        findings.append(cutoff_finding(c, "from the data"))
    if c.edge_s == "auto":
        c = replace(c, edge_s=edge_duration_s(motion_cutoff(c)))
        cut = f"{require_resolved(c.edge_s, 'edge_s'):.4g} s cut at both ends of every segment"
        findings.append(info(Kind.LOG_SETTING, cut, "edge_s"))
    if c.delay_s == "auto":
        c = replace(c, delay_s=estimate_delay_without_model(parts, c))
        findings.append(delay_finding(c, "estimated from the data"))
    return c, tuple(findings)


def cutoff_finding(c: Conditioning, how: str) -> Finding:
    """Return the finding on the cut-off of the motion."""
    cutoff = "no filter" if c.motion_hz is None else f"{require_resolved(c.motion_hz, 'the cut-off'):.4g} Hz"
    return info(Kind.LOG_SETTING, f"position cut-off selected {how}: {cutoff}", "motion_hz")


def delay_finding(c: Conditioning, how: str) -> Finding:
    """Return the finding on the delay of the torque."""
    delays = c.delay_s if isinstance(c.delay_s, tuple) else (c.motion_delay_s,)
    return info(
        Kind.LOG_SETTING, f"delay of the torque {how}: {', '.join(f'{1e3 * d:.3g}' for d in delays)} ms", "delay_s"
    )


def read_first_rows(log: Log | LogScan) -> Log:
    """Return the first `HEAD_ROWS` usable rows of a log."""
    if isinstance(log, Log):
        return log.take(slice(0, HEAD_ROWS))
    chunks: list[Log] = []
    for chunk in log:
        chunks.append(chunk)
        if sum(map(len, chunks)) >= HEAD_ROWS:
            break
    if not chunks:
        raise LogError(f"{log.path.name} has no usable rows", code=Code.TOO_LITTLE_DATA, subject=log.path.name)
    return join_logs(chunks).take(slice(0, HEAD_ROWS))


def _resolve_time_base(c: Conditioning, heads: Sequence[Log]) -> tuple[Conditioning, list[Finding]]:
    if any(len(log) < 2 for log in heads):
        message = "too few rows: the rate needs at least 2 rows of each log"
        raise LogError(message, code=Code.TOO_LITTLE_DATA, subject="rate_hz")
    steps = [np.diff(log.time) for log in heads]
    pauses = _find_burst_step(heads, steps) if c.stamps == "auto" else None
    bursts = pauses
    if bursts is not None:
        rates = [1 / estimate_even_step(step) for step in steps]
        wanted = min(rates) if c.rate_hz == "auto" else require_resolved(c.rate_hz, "rate_hz")
        if any(abs(wanted / rate - 1) > RATE_TOLERANCE for rate in rates):
            bursts = None  # resampling needs the stamps
    periods = [estimate_period(step) if pauses is None else estimate_even_step(step) for step in steps]
    findings = []
    if c.rate_hz == "auto":
        log_rate = _round_rate(1.0 / periods[0])
        if max(periods) > (1 + RATE_TOLERANCE) * min(periods):
            log_rate = _round_rate(1.0 / max(periods))
            findings.append(info(Kind.LOG_SETTING, _describe_common_rate(periods, log_rate), "rate_hz"))
        c = replace(c, rate_hz=log_rate)
    rate = require_resolved(c.rate_hz, "rate_hz")
    if pauses is not None:
        c = replace(c, longest_gap_rows=max(c.longest_gap_rows, pauses * rate))
    if bursts is not None:
        c = replace(c, stamps="uniform")
        message = (
            "stamps come in bursts, as if rows waited for a network, but the positions are evenly spaced: rows are "
            f"assumed to be 1 / {rate:.6g} s apart"
        )
        findings.append(info(Kind.STAMPS, message))
    if c.stamps == "auto":
        within = [s[s <= c.longest_gap_rows * p] for s, p in zip(steps, periods, strict=True)]
        uniform = all((np.abs(s * rate - 1) <= MAX_JITTER_FRACTION).all() for s in within)
        c = replace(c, stamps="uniform" if uniform else "measured")
        if not uniform:
            message = f"stamps jitter or differ from {rate:.6g} Hz: rows are interpolated to uniform times"
            findings.append(info(Kind.STAMPS, message))
    return c, findings


def _describe_common_rate(periods: Sequence[float], rate_hz: float) -> str:
    """Return why all logs are resampled at the lowest rate; raise `LogError` if the rates differ too much.

    At a higher rate, interpolated rows of a slow log would count as independent measurements.
    """
    rates = ", ".join(f"{1 / period:.6g}" for period in periods)
    if max(periods) > MAX_RATE_RATIO * min(periods):
        raise LogError(
            f"the rates of the logs differ by a factor of more than {MAX_RATE_RATIO:g} ({rates} Hz)",
            hint="set rate_hz in the settings to sample all logs at one rate, or exclude the slow logs",
            code=Code.DISAGREEMENT,
            subject="rate_hz",
        )
    return f"the logs have different rates ({rates} Hz): all are interpolated to the lowest, {rate_hz:.6g} Hz"


def _find_burst_step(heads: Sequence[Log], steps: Sequence[Array]) -> float | None:
    """Return the longest step (s) between stamps that come in bursts although the rows are even; None otherwise.

    Each position is predicted from its two neighbours, once with their stamps and once with equal steps.
    """
    if not all(map(has_bursts, steps)):
        return None
    by_stamps = evenly = 0.0
    for log, step in zip(heads, steps, strict=True):
        good = np.maximum(step[:-1], step[1:]) < 3 * np.quantile(step, NON_GAP_QUANTILE)
        share = (step[:-1] / np.maximum(step[:-1] + step[1:], 1e-300))[:, None]
        before, here, after = log.q[:-2], log.q[1:-1], log.q[2:]
        by_stamps += float(((here - before - share * (after - before))[good] ** 2).sum())
        evenly += float(((here - (before + after) / 2)[good] ** 2).sum())
    if not evenly < MAX_EVEN_ERROR_RATIO**2 * by_stamps:
        return None
    return 1.5 * max(float(np.quantile(step, NON_GAP_QUANTILE)) for step in steps)


def estimate_period(steps: Array) -> float:
    """Return the mean of the steps near the median, if nearly all are; otherwise the mean of all steps but gaps."""
    median = float(np.median(steps))
    usual = np.abs(steps - median) <= MAX_JITTER_FRACTION * median
    return float(steps[usual if usual.mean() > MIN_REGULAR_FRACTION else steps <= MIN_GAP_PERIODS * median].mean())


def _round_rate(rate_hz: float) -> float:
    """Round the rate to a whole number of Hz if it is within 1e-4 of it."""
    whole = round(rate_hz)
    return float(whole) if whole and abs(rate_hz / whole - 1) < 1e-4 else rate_hz


def uniform_segments(c: Conditioning, heads: Sequence[Log]) -> list[Log]:
    """Return the uniform segments of the first rows of the logs."""
    rate = require_resolved(c.rate_hz, "rate_hz")
    segments: list[Log] = []
    for log in heads:
        parts: Sequence[SegmentPiece] = list(split_at_gaps([log], c.longest_gap_rows / rate))
        uniform = resample_pieces(parts, rate) if c.stamps == "measured" else parts
        segments.extend(part.rows for part in uniform if len(part.rows) > 1)
    if not segments:
        message = "too few rows: no segment of the log has two rows without a gap between them"
        raise LogError(message, code=Code.TOO_LITTLE_DATA, subject="rows")
    return segments
