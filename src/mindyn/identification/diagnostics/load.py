"""Diagnose the payload: logs of one robot with different payloads, or a payload that changes within a log.

A payload on the last link changes its ten parameters, and by them the base values: beta + K_last phi in one log, beta
in the others. Both are fitted to every second block and tried on the blocks between: if phi explains far more of the
log's torque than common values do, in block after block, the log was recorded with another payload than the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.findings import Finding, Kind, Severity
from mindyn.identification.diagnostics import thresholds as limit
from mindyn.identification.diagnostics.data import DiagnosticData
from mindyn.identification.selection.scores import Gain, TrialScore, gain_of
from mindyn.loads.from_runs import load_columns
from mindyn.regression.gather_blocks import Block
from mindyn.regression.information import solve
from mindyn.regression.triangles import triangle_of
from mindyn.robots.edits import find_load_carrier

SPLIT_STEP: Final = 2
"""Blocks between the places at which a payload is tried to change within a log."""


class _Change(NamedTuple):
    """Payload of some blocks relative to the others: the gain of knowing it, its mass in kg and its deviation."""

    where: str
    gain: Gain
    mass: float
    deviation: float

    @property
    def is_significant(self) -> bool:
        return self.gain.mean > max(limit.MIN_LOAD_GAIN, limit.SIGNIFICANT * self.gain.deviation)

    @property
    def has_mass(self) -> bool:
        """Whether its mass is significant; an LWR4+ that repeats one motion gains 0.16 by a payload without mass."""
        return abs(self.mass) > limit.SIGNIFICANT * self.deviation and abs(self.mass) >= limit.MIN_LOAD_KG


def run(data: DiagnosticData) -> list[Finding]:
    """Return a finding if a log, or a log from somewhere on, asks for another payload than the rest."""
    try:
        carrier = find_load_carrier(data.estimate.robot, None)
    except InputError:  # loops leave open which link carries
        return []
    change = _Changes(data, carrier).largest() if data.blocks else None
    if change is None:
        return []
    mass = f"{change.mass:+.2g} kg on {carrier}" if change.has_mass else "or the same payload held otherwise"
    message, remedy = (
        f"{change.where} ({mass})",
        "Identify logs of one payload at a time; mindyn payload finds a payload",
    )
    return [Finding(Kind.PAYLOAD_CHANGE, Severity.WARNING, message, remedy, (), change.mass, "kg")]


class _Changes:
    def __init__(self, data: DiagnosticData, carrier: str) -> None:
        self.estimate, self.blocks, self.carrier = data.estimate, data.blocks, carrier

    def largest(self) -> _Change | None:
        logs = sorted({block.log for block in self.blocks})
        masks = [[block.log == log for block in self.blocks] for log in logs] if len(logs) > 1 else []
        changes = [
            self._change(loaded, f"log {log + 1} was recorded with another payload than the rest")
            for log, loaded in zip(logs, masks, strict=False)
            if sum(loaded) >= limit.MIN_LOAD_BLOCKS
        ]
        significant = [one for one in changes if one.is_significant]
        if significant and len(logs) == 2:  # each has another payload than the other: name the one that carries more
            return max(significant, key=lambda one: one.mass)
        if not significant:
            within = [change for log in logs for change in self._changes_within(log)]
            significant = [one for one in within if one.is_significant and one.has_mass]
        return max(significant, key=lambda one: one.gain.mean, default=None)

    def _changes_within(self, log: int) -> Iterator[_Change]:
        """Try changes from a block of the log on to its end; the other logs have the payload of its beginning."""
        own = [k for k, block in enumerate(self.blocks) if block.log == log]
        last = self.blocks[own[-1]].span[1] if own else 0
        for k in own[limit.MIN_LOAD_BLOCKS : len(own) - limit.MIN_LOAD_BLOCKS + 1 : SPLIT_STEP]:
            part = 100 * self.blocks[k].span[0] / last
            loaded = [block.log == log and j >= k for j, block in enumerate(self.blocks)]
            yield self._change(loaded, f"the payload changes at about {part:.0f} % of log {log + 1}")

    def _change(self, loaded: Sequence[bool], where: str) -> _Change:
        power, common, changed = [], [], []
        for half in (0, 1):
            beta, phi, _ = self._fit(self.blocks[half::2], loaded[half::2])
            alone, _, _ = self._fit(self.blocks[half::2], None)
            for block, is_loaded in zip(self.blocks[1 - half :: 2], loaded[1 - half :: 2], strict=True):
                if is_loaded:
                    power.append(block.information.torques())
                    common.append(block.information.residuals(alone))
                    changed.append(block.information.residuals(beta + self._columns @ phi))
        gain = gain_of(
            [TrialScore(np.array(common), np.array(power))], [TrialScore(np.array(changed), np.array(power))]
        )
        _, phi, deviation = self._fit(self.blocks, loaded)
        return _Change(where, gain, float(phi[0]), deviation)

    def _fit(self, blocks: Sequence[Block], loaded: Sequence[bool] | None) -> tuple[Array, Array, float]:
        """Fit common base values (p,) and the payload (10,) of some blocks; return the deviation of its mass too."""
        kept = np.array([name not in self.estimate.dropped for name in self.estimate.names])
        parts = []
        for block, is_loaded in zip(blocks, loaded or [False] * len(blocks), strict=True):
            R, z = block.information.stacked(self.estimate.joint_weights)
            parts.append(np.column_stack([R[:, kept], R @ self._columns if is_loaded else np.zeros((len(R), 10)), z]))
        whole = triangle_of(np.vstack(parts))
        step = solve(whole[:, :-1], whole[:, -1])
        beta = np.zeros(len(kept))
        beta[kept] = step.beta[:-10]
        return beta, step.beta[-10:], float(np.sqrt(max(0.0, step.inverse[-10, -10])))

    @cached_property
    def _columns(self) -> Array:
        """Change (p, 10) of the values by a payload on the last link."""
        base, columns = self.estimate.regressor.base, np.zeros((len(self.estimate.beta), 10))
        columns[: base.count] = base.matrix[:, load_columns(self.estimate.robot, self.carrier)]
        return columns
