"""Diagnose the payload: logs with different payloads, or a payload that changes within a log.

A payload on the last link changes the ten parameters of the link, and thus the base values: beta + K_last phi in one
log, beta in the others. Models with and without phi are fitted to every second block, and validated on the other
blocks. Both models have separate friction and offsets for that log, because friction differs between logs for other
reasons too. If phi explains significantly more of the log's torque, consistently from block to block, the log has a
different payload.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import InputError
from mindyn.foundation.findings import Finding, Kind, warning
from mindyn.identification.diagnostics import thresholds as limit
from mindyn.identification.diagnostics.diagnostic_data import DiagnosticData
from mindyn.identification.load_regressor import payload_columns
from mindyn.identification.selection.scores import Gain, TrialScore, gain_of
from mindyn.regression.information import Information, add_information, solve, triangle_of
from mindyn.robots.edits import find_load_carrier

SPLIT_STEP: Final = 2
"""Number of blocks between the positions at which a change of payload within a log is tried."""


class _Change(NamedTuple):
    """Payload of some blocks relative to the others.

    gain             mean over these blocks of the gain in error
    mass, deviation  kg, with its standard deviation
    blocks           number of these blocks
    """

    where: str
    gain: Gain
    mass: float
    deviation: float
    blocks: int

    @property
    def is_significant(self) -> bool:
        return self.gain.mean > max(limit.MIN_LOAD_GAIN, limit.SIGNIFICANT * self.gain.deviation)

    @property
    def has_mass(self) -> bool:
        """Whether the mass is significant. (An LWR4+ that repeats one motion gains 0.16 by a payload without mass.)"""
        return abs(self.mass) > limit.SIGNIFICANT * self.deviation and abs(self.mass) >= limit.MIN_LOAD_KG


def run(data: DiagnosticData) -> list[Finding]:
    """Return a finding if a log, or the part of a log after some instant, has a different payload."""
    try:
        carrier = find_load_carrier(data.estimate.robot, None)
    except InputError:  # with loops, the link that carries the payload is ambiguous
        return []
    change = _Changes(data, carrier).largest() if data.blocks else None
    if change is None:
        return []
    mass = f"{change.mass:+.2g} kg on {carrier}" if change.has_mass else "or the same payload in another grasp"
    remedy = "Identify logs of one payload at a time; mindyn payload finds a payload"
    return [warning(Kind.PAYLOAD_CHANGE, f"{change.where} ({mass})", remedy, (), change.mass, "kg")]


class _PayloadFit(NamedTuple):
    """Values (p,) in the loaded blocks, and the first additional value (the mass of a payload) with its deviation."""

    loaded: Array
    mass: float
    deviation: float


Parts = list[tuple[bool, Information]]
"""Whether the rows of an information are of loaded blocks; at most one of each."""


def _add(parts: Iterable[tuple[bool, Information]]) -> Parts:
    """Sum the information of the loaded parts, and of the parts without the load."""
    groups: dict[bool, list[Information]] = {}
    for is_loaded, information in parts:
        groups.setdefault(is_loaded, []).append(information)
    return [(is_loaded, add_information(group)) for is_loaded, group in sorted(groups.items())]


class _Changes:
    def __init__(self, data: DiagnosticData, carrier: str) -> None:
        self.estimate, self.blocks, self.carrier = data.estimate, data.blocks, carrier
        self.log_name = data.rows.log_name

    def largest(self) -> _Change | None:
        logs = sorted({block.log for block in self.blocks})
        masks = [[block.log == log for block in self.blocks] for log in logs] if len(logs) > 1 else []
        changes = [
            self._change(
                loaded,
                f"{self.log_name(log)} fits other values of the last link than the rest, as with another payload",
            )
            for log, loaded in zip(logs, masks, strict=False)
            if sum(loaded) >= limit.MIN_LOAD_BLOCKS
        ]
        significant = [candidate for candidate in changes if candidate.is_significant]
        if significant and len(logs) == 2:  # both logs differ from each other: report the larger payload
            return max(significant, key=lambda candidate: candidate.mass)
        if not significant:
            within = [change for log in logs for change in self._changes_within(log)]
            significant = [candidate for candidate in within if candidate.is_significant and candidate.has_mass]
        return max(significant, key=lambda candidate: candidate.gain.mean * candidate.blocks, default=None)

    def _changes_within(self, log: int) -> Iterator[_Change]:
        """Try a change from each block of the log to its end; other logs are assumed to have the payload of the log's
        beginning.
        """
        numbers = [k for k, block in enumerate(self.blocks) if block.log == log]
        last = self.blocks[numbers[-1]].span[1] if numbers else 0
        for k in numbers[limit.MIN_LOAD_BLOCKS : len(numbers) - limit.MIN_LOAD_BLOCKS + 1 : SPLIT_STEP]:
            part = 100 * self.blocks[k].span[0] / last
            loaded = [block.log == log and j >= k for j, block in enumerate(self.blocks)]
            yield self._change(
                loaded,
                (f"the last link changes at about {part:.0f} % of {self.log_name(log)}, as with another payload"),
            )

    def _change(self, loaded: Sequence[bool], where: str) -> _Change:
        power, common, changed, halves = [], [], [], Parts()
        for half in (0, 1):
            parts = _add(zip(loaded[half::2], (block.information for block in self.blocks[half::2]), strict=True))
            halves += parts
            with_load = self._fit(parts, self._columns)
            alone = self._fit(parts, self._columns[:, :0])
            for block, is_loaded in zip(self.blocks[1 - half :: 2], loaded[1 - half :: 2], strict=True):
                if is_loaded:
                    power.append(block.information.torques())
                    common.append(block.information.residuals(alone.loaded))
                    changed.append(block.information.residuals(with_load.loaded))
        gain = gain_of(
            [TrialScore(np.array(common), np.array(power))], [TrialScore(np.array(changed), np.array(power))]
        )
        whole = self._fit(_add(halves), self._columns)
        return _Change(where, gain, whole.mass, whole.deviation, sum(loaded))

    def _fit(self, parts: Parts, columns: Array) -> _PayloadFit:
        """Fit common values, and changes of friction and along `columns` (p, k) in the loaded part."""
        kept = np.array([name not in self.estimate.values.dropped for name in self.estimate.names])
        own = np.eye(len(kept))[:, kept & [parameter.is_friction for parameter in self.estimate.parameters]]
        changes = np.hstack([columns, own])
        rows = []
        for is_loaded, information in parts:
            R, z = information.stacked(self.estimate.data.joint_weights)
            rows.append(np.column_stack([R[:, kept], is_loaded * (R @ changes), z]))
        whole = triangle_of(np.vstack(rows))
        step = solve(whole[:, :-1], whole[:, -1])
        first = int(kept.sum())
        beta = changes @ step.beta[first:]
        beta[kept] += step.beta[:first]
        if not columns.shape[1]:
            return _PayloadFit(beta, 0.0, 0.0)
        return _PayloadFit(beta, float(step.beta[first]), float(np.sqrt(max(0.0, step.inverse[first, first]))))

    @cached_property
    def _columns(self) -> Array:
        """Change (p, 10) of the values by a payload on the last link."""
        base, columns = self.estimate.regressor.base, np.zeros((len(self.estimate.beta), 10))
        columns[: base.count] = base.matrix[:, payload_columns(self.estimate.robot, self.carrier)]
        return columns
