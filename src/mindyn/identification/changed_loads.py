"""Logs of one robot that carried different loads, or took one up on the way: a fit of all is a model of none.

A load on the last link changes its ten parameters, and by them the base values: beta + K_last phi in one log, beta in
the others. Both are fitted to every second block and tried on the blocks between: where phi explains far more of the
log's torque than common values do, in block after block, the log was recorded with another load than the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.identification.scores import Gain, Score, gain_of
from mindyn.loads.from_runs import load_columns
from mindyn.regression.block_gathering import Block
from mindyn.regression.information import solve
from mindyn.regression.rows import Rows
from mindyn.regression.triangles import triangle_of
from mindyn.robots.edits import carrier_of

FEWEST_BLOCKS: Final = 4
"""Of a log that is asked for its load."""
NOTICEABLE: Final = 0.1
"""Gain, ln of the errors' ratio, of values with another load on blocks that they were not fitted to: below zero on
simulated arms whose logs have the same load, however warm, soft and unevenly scaled their drives."""
SURE: Final = 3.0
"""Standard deviations of the gain, told by the blocks, that it must have at least."""


SPLITS: Final = 2
"""Blocks from one place to the next at which a load is asked to change within a log."""
LEAST_KG: Final = 0.05
"""A smaller difference is told of how a load is held rather than of its mass."""


class _Change(NamedTuple):
    """The load that blocks have beside the others: where, the gain of knowing it, mass in kg and its deviation."""

    where: str
    gain: Gain
    mass: float
    deviation: float

    @property
    def is_sure(self) -> bool:
        """Whether the load explains noticeably more, in block after block."""
        return self.gain.mean > max(NOTICEABLE, SURE * self.gain.deviation)

    @property
    def has_mass(self) -> bool:
        """Whether its mass is told; of a change within a log it must be: an LWR4+ that repeats one motion asks for
        another load of no mass by a gain of 0.16.
        """
        return abs(self.mass) > SURE * self.deviation and abs(self.mass) >= LEAST_KG


def load_doubts(found: Estimate, rows: Rows) -> list[str]:
    """A sentence where one log, or a log from somewhere on, asks for another load on the last link than the rest.

    rows  those of the fit
    """
    blocks = [block for block in rows.blocks if sum(block.information.counts)]
    weights = found.joint_weights
    if not blocks or found.residual_of != "torque" or weights is None:
        return []
    if len(weights) != len(blocks[0].information.factors) or _carrier(found) is None:
        return []
    logs = sorted({block.log for block in blocks})
    of_logs = [[block.log == log for block in blocks] for log in logs] if len(logs) > 1 else []
    changes = [
        _change(found, blocks, loaded, f"log {log + 1} was recorded with another load than the rest")
        for log, loaded in zip(logs, of_logs, strict=False)
        if sum(loaded) >= FEWEST_BLOCKS
    ]
    # Of two logs each has another load than the other: the one that carries more is named.
    by_mass = len(logs) == 2
    sure = [one for one in changes if one.is_sure]
    most = max(sure, key=lambda one: one.mass if by_mass else one.gain.mean, default=None)
    if most is None:
        within = [change for log in logs for change in _changes_within(found, blocks, log)]
        most = max((one for one in within if one.is_sure and one.has_mass), key=lambda one: one.gain.mean, default=None)
    if most is None:
        return []
    mass = f"{most.mass:+.2g} kg on {_carrier(found)}" if most.has_mass else "or the same held otherwise"
    return [f"{most.where} ({mass}): identify logs of one load at a time, and find a load by mindyn payload"]


def _changes_within(found: Estimate, blocks: Sequence[Block], log: int) -> Iterator[_Change]:
    """Changes from one of the log's blocks on to its end; the other logs have the load of its beginning."""
    own = [k for k, block in enumerate(blocks) if block.log == log]
    last = blocks[own[-1]].span[1] if own else 0
    for k in own[FEWEST_BLOCKS : len(own) - FEWEST_BLOCKS + 1 : SPLITS]:
        part = 100 * blocks[k].span[0] / last
        loaded = [block.log == log and j >= k for j, block in enumerate(blocks)]
        where = f"from about {part:.0f} % of log {log + 1} on the arm had another load than before"
        yield _change(found, blocks, loaded, where)


def _change(found: Estimate, blocks: Sequence[Block], loaded: Sequence[bool], where: str) -> _Change:
    power, common, changed = [], [], []
    for half in (0, 1):
        beta, phi, _ = _fitted(found, blocks[half::2], loaded[half::2])
        alone, _, _ = _fitted(found, blocks[half::2], None)
        for block, is_loaded in zip(blocks[1 - half :: 2], loaded[1 - half :: 2], strict=True):
            if is_loaded:
                power.append(block.information.torques())
                common.append(block.information.residuals(alone))
                changed.append(block.information.residuals(beta + _load(found) @ phi))
    gain = gain_of([Score(np.array(common), np.array(power))], [Score(np.array(changed), np.array(power))])
    _, phi, deviation = _fitted(found, blocks, loaded)
    return _Change(where, gain, float(phi[0]), deviation)


def _fitted(found: Estimate, blocks: Sequence[Block], loaded: Sequence[bool] | None) -> tuple[Array, Array, float]:
    """Common base values (p,), the load (10,) that some blocks have beside them, and the deviation of its mass."""
    kept = np.array([name not in found.left_out for name in found.names])
    load, parts = _load(found), []
    for block, is_loaded in zip(blocks, loaded or [False] * len(blocks), strict=True):
        R, z = block.information.stacked(found.joint_weights)
        parts.append(np.column_stack([R[:, kept], R @ load if is_loaded else np.zeros((len(R), 10)), z]))
    whole = triangle_of(np.vstack(parts))
    step = solve(whole[:, :-1], whole[:, -1])
    beta = np.zeros(len(kept))
    beta[kept] = step.beta[:-10]
    return beta, step.beta[-10:], float(np.sqrt(max(0.0, step.inverse[-10, -10])))


def _load(found: Estimate) -> Array:
    """(p, 10) by how much a load on the last link changes the values."""
    columns = np.zeros((len(found.beta), 10))
    base = found.regressor.base
    carrier = _carrier(found)
    assert carrier is not None
    columns[: base.count] = base.matrix[:, load_columns(found.robot, carrier)]
    return columns


def _carrier(found: Estimate) -> str | None:
    """The link that loads are looked for on; None where loops leave open which it is."""
    try:
        return carrier_of(found.robot, None)
    except InputError:
        return None
