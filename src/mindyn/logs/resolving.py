"""Replace "auto" settings by values selected from the first rows of the training logs, and report them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code
from mindyn.foundation.findings import Finding, Kind, info
from mindyn.logs.conditioning import Conditioning, motion_cutoff, require_resolved
from mindyn.logs.delay_scan import estimate_delay_without_model
from mindyn.logs.filters import edge_duration_s
from mindyn.logs.log import Log, join_logs
from mindyn.logs.log_errors import LogError
from mindyn.logs.noise_cutoff import CutoffRule
from mindyn.logs.read_log import LogScan
from mindyn.logs.segments import SegmentPiece, resample_pieces, split_at_gaps
from mindyn.logs.time_stamps import MIN_GAP_PERIODS, estimate_even_step, has_bursts

HEAD_ROWS: Final = 200_000
"""Number of first rows of each log from which settings are selected. The number is limited so that a stream and a log
in memory select the same values.
"""
MAX_JITTER_FRACTION: Final = 0.05
"""Largest variation of the steps of uniform stamps, relative to the period."""
MIN_REGULAR_FRACTION: Final = 0.95
RATE_TOLERANCE: Final = 0.02
"""Relative difference below which rates are equal."""
MAX_RATE_RATIO: Final = 10.0
"""Largest ratio between the rates of logs: resampled at a tenth of its rate, a log would lose most of its information.
"""
NON_GAP_QUANTILE: Final = 0.995
"""Fraction of the steps between stamps that are not gaps, if stamps come in bursts."""
MAX_EVEN_ERROR_RATIO: Final = 0.7
"""Rows count as even if positions predicted with equal steps have an error of at most this, relative to the error with
the stamps.
"""


def resolve_conditioning(
    c: Conditioning, logs: Sequence[Log | LogScan], cutoff_rule: CutoffRule
) -> tuple[Conditioning, tuple[Finding, ...]]:
    """Resolve "auto" settings. Each choice gives a finding with the name of the setting as its detail."""
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
    """Return the longest step (s) between stamps that come in bursts although the rows are even; None if this is not
    the case.

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
    """Return the mean of the steps near the median, if nearly all steps are near it; otherwise the mean of all steps
    except gaps.
    """
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
