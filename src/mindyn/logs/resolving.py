"""Settings left "auto" become numbers chosen from the head of the training logs, and are reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.findings import Finding, Kind, info
from mindyn.logs.conditioning import Conditioning, motion_cutoff, require_resolved, torque_cutoff
from mindyn.logs.cutoffs import CutoffRule
from mindyn.logs.delay import estimate_delay_without_model
from mindyn.logs.errors import LogError
from mindyn.logs.filters import edge_duration_s
from mindyn.logs.log import Log, join_logs
from mindyn.logs.reading import LogScan
from mindyn.logs.segments import SegmentPiece, resample_pieces, split_at_gaps
from mindyn.logs.stamps import estimate_even_step, has_bursts

HEAD_ROWS: Final = 200_000
"""Rows of each log from which settings are chosen, so that a stream chooses as the whole log does."""
MAX_JITTER_FRACTION: Final = 0.05
"""Stamps whose steps vary by less than this part of the period are uniform."""
MIN_REGULAR_FRACTION: Final = 0.95
MIN_GAP_PERIODS: Final = 2.5
RATE_TOLERANCE: Final = 0.02
"""Rates that differ by less, relative, are the same."""
MAX_RATE_RATIO: Final = 10.0
"""Times by which rates of logs may differ: at a tenth of its rate a log has lost most of what it tells."""
NON_GAP_QUANTILE: Final = 0.995
"""Share of the steps between stamps that are no gaps, where stamps come in bursts."""
MAX_EVEN_ERROR_RATIO: Final = 0.7
"""Error of positions foreseen from evenly spaced rows, over that by stamps, below which rows are even."""


def resolve_conditioning(
    c: Conditioning, logs: Sequence[Log | LogScan], cutoff_rule: CutoffRule
) -> tuple[Conditioning, tuple[Finding, ...]]:
    """Resolve "auto" settings, with a finding on each choice, the name of the setting as its detail."""
    if c.is_resolved:
        return c, ()
    heads = [read_first_rows(log) for log in logs]
    c, findings = _resolve_time_base(c, heads)
    parts = uniform_segments(c, heads)
    if c.position_cutoff_hz == "auto":
        c = replace(c, position_cutoff_hz=cutoff_rule(parts, require_resolved(c.rate_hz, "rate_hz")))
        findings.append(cutoff_finding(c, "from the data"))
    if c.edge_s == "auto":
        c = replace(c, edge_s=edge_duration_s(motion_cutoff(c), torque_cutoff(c)))
        cut = f"{require_resolved(c.edge_s, 'edge_s'):.4g} s cut at both ends of every segment"
        findings.append(info(Kind.LOG_SETTING, cut, "edge_s"))
    if c.delay_s == "auto":
        c = c.with_delay(estimate_delay_without_model(parts, c))
        findings.append(delay_finding(c, "estimated from the data"))
    return c, tuple(findings)


def cutoff_finding(c: Conditioning, how: str) -> Finding:
    """Return the finding on the cut-off of the motion."""
    cutoff = (
        "no filter"
        if c.position_cutoff_hz is None
        else f"{require_resolved(c.position_cutoff_hz, 'the cut-off'):.4g} Hz"
    )
    return info(Kind.LOG_SETTING, f"position cut-off selected {how}: {cutoff}", "position_cutoff_hz")


def delay_finding(c: Conditioning, how: str) -> Finding:
    """Return the finding on the delay of the torque."""
    return info(
        Kind.LOG_SETTING, f"delay of the torque {how}: {1e3 * require_resolved(c.delay_s, 'delay_s'):.3g} ms", "delay_s"
    )


def read_first_rows(log: Log | LogScan) -> Log:
    """The first `HEAD_ROWS` usable rows of a log."""
    if isinstance(log, Log):
        return log.take(slice(0, HEAD_ROWS))
    chunks: list[Log] = []
    for chunk in log:
        chunks.append(chunk)
        if sum(map(len, chunks)) >= HEAD_ROWS:
            break
    if not chunks:
        raise LogError(f"{log.path.name} has no usable rows")
    return join_logs(chunks).take(slice(0, HEAD_ROWS))


def _resolve_time_base(c: Conditioning, heads: Sequence[Log]) -> tuple[Conditioning, list[Finding]]:
    if any(len(log) < 2 for log in heads):
        raise LogError("too few rows: a log with fewer than 2 rows has no rate")
    steps = [np.diff(log.time) for log in heads]
    pauses = _find_burst_step(heads, steps) if c.stamps == "auto" else None
    bursts = pauses
    if bursts is not None:
        rates = [1 / estimate_even_step(step) for step in steps]
        wanted = min(rates) if c.rate_hz == "auto" else require_resolved(c.rate_hz, "rate_hz")
        if any(abs(wanted / rate - 1) > RATE_TOLERANCE for rate in rates):
            bursts = None  # rows are to be resampled: they need their stamps
    periods = [estimate_period(step) if pauses is None else estimate_even_step(step) for step in steps]
    findings = []
    if c.rate_hz == "auto":
        own = _round_rate(1.0 / periods[0])
        if max(periods) > (1 + RATE_TOLERANCE) * min(periods):
            own = _round_rate(1.0 / max(periods))
            findings.append(info(Kind.LOG_SETTING, _describe_common_rate(periods, own), "rate_hz"))
        c = replace(c, rate_hz=own)
    rate = require_resolved(c.rate_hz, "rate_hz")
    if pauses is not None:
        c = replace(c, longest_gap_rows=max(c.longest_gap_rows, pauses * rate))
    if bursts is not None:
        c = replace(c, stamps="uniform")
        found = (
            "stamps come in bursts, as of rows that wait for a network, while the positions are even: rows are taken "
            f"to be 1 / {rate:.6g} s apart"
        )
        findings.append(info(Kind.STAMPS, found))
    if c.stamps == "auto":
        within = [s[s <= c.longest_gap_rows * p] for s, p in zip(steps, periods, strict=True)]
        uniform = all((np.abs(s * rate - 1) <= MAX_JITTER_FRACTION).all() for s in within)
        c = replace(c, stamps="uniform" if uniform else "measured")
        if not uniform:
            found = f"stamps jitter or differ from {rate:.6g} Hz: rows are interpolated to uniform times"
            findings.append(info(Kind.STAMPS, found))
    return c, findings


def _describe_common_rate(periods: Sequence[float], rate_hz: float) -> str:
    """Why the logs are sampled anew at the lowest of their rates; refuses rates too far apart.

    Rows between those of a slow log would be counted as evidence that nobody recorded.
    """
    rates = ", ".join(f"{1 / period:.6g}" for period in periods)
    if max(periods) > MAX_RATE_RATIO * min(periods):
        raise LogError(
            f"the logs have rates that are more than {MAX_RATE_RATIO:g} times apart ({rates} Hz)",
            hint="state rate_hz in the settings to sample them all at one, or leave the slow ones out",
        )
    return f"the logs have different rates ({rates} Hz): all are interpolated to the lowest, {rate_hz:.6g} Hz"


def _find_burst_step(heads: Sequence[Log], steps: Sequence[Array]) -> float | None:
    """The longest step (s) between stamps that come in bursts of rows that are even; None where they do not.

    Each position is foreseen by the two beside it, by their stamps and as if all were evenly apart.
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
    """Mean of the usual steps: those near the median if nearly all are, else all but the gaps."""
    median = float(np.median(steps))
    usual = np.abs(steps - median) <= MAX_JITTER_FRACTION * median
    return float(steps[usual if usual.mean() > MIN_REGULAR_FRACTION else steps <= MIN_GAP_PERIODS * median].mean())


def _round_rate(rate_hz: float) -> float:
    """The rate as its maker meant it: a whole number of Hz when it is one to 1e-4."""
    whole = round(rate_hz)
    return float(whole) if whole and abs(rate_hz / whole - 1) < 1e-4 else rate_hz


def uniform_segments(c: Conditioning, heads: Sequence[Log]) -> list[Log]:
    """The uninterrupted, uniform stretches of the heads."""
    rate = require_resolved(c.rate_hz, "rate_hz")
    found: list[Log] = []
    for log in heads:
        parts: Sequence[SegmentPiece] = list(split_at_gaps([log], c.longest_gap_rows / rate))
        made = resample_pieces(parts, rate) if c.stamps == "measured" else parts
        found.extend(part.rows for part in made if len(part.rows) > 1)
    if not found:
        raise LogError("too few rows: no stretch of the log has two rows without a gap between")
    return found
