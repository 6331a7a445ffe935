"""Logs of one robot that carried different loads: a fit of all of them is a model of none.

A load on the last link changes its ten parameters, and by them the base values: beta + K_last phi in one log, beta in
the others. Both are fitted to every second block and tried on the blocks between: where phi explains far more of the
log's torque than common values do, in block after block, the log was recorded with another load than the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.loads import load_columns
from mindyn.identification.scores import Gain, Score, gain_of
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


LEAST_KG: Final = 0.05
"""A smaller difference is told of how a load is held rather than of its mass."""


class _Change(NamedTuple):
    """The load that a log has beside the others: its number, the gain of knowing it, mass in kg and its deviation."""

    log: int
    gain: Gain
    mass: float
    deviation: float


def load_doubts(found: Estimate, rows: Rows) -> list[str]:
    """A sentence where one log asks for another load on the last link than the rest; rows are those of the fit."""
    blocks = [block for block in rows.blocks if sum(block.information.counts)]
    logs = sorted({block.log for block in blocks})
    weights = found.joint_weights
    if len(logs) < 2 or found.residual_of != "torque" or weights is None:
        return []
    if len(weights) != len(blocks[0].information.factors) or _carrier(found) is None:
        return []
    changes = [_change(found, blocks, log) for log in logs if sum(one.log == log for one in blocks) >= FEWEST_BLOCKS]
    sure = [one for one in changes if one.gain.mean > max(NOTICEABLE, SURE * one.gain.deviation)]
    if not sure:
        return []
    # Of two logs each has another load than the other: the one that carries more is named.
    most = max(sure, key=lambda one: one.mass if len(logs) == 2 else one.gain.mean)
    told = abs(most.mass) > SURE * most.deviation and abs(most.mass) >= LEAST_KG
    mass = f"{most.mass:+.2g} kg on {_carrier(found)}" if told else "or the same held otherwise"
    return [
        f"log {most.log + 1} was recorded with another load than the rest ({mass}): identify logs of one load at a "
        "time, and find a load by mindyn payload"
    ]


def _change(found: Estimate, blocks: Sequence[Block], log: int) -> _Change:
    power, common, changed = [], [], []
    for half in (0, 1):
        beta, phi, _ = _fitted(found, blocks[half::2], log)
        alone, _, _ = _fitted(found, blocks[half::2], None)
        for block in blocks[1 - half :: 2]:
            if block.log == log:
                power.append(block.information.torques())
                common.append(block.information.residuals(alone))
                changed.append(block.information.residuals(beta + _load(found) @ phi))
    gain = gain_of([Score(np.array(common), np.array(power))], [Score(np.array(changed), np.array(power))])
    _, phi, deviation = _fitted(found, blocks, log)
    return _Change(log, gain, float(phi[0]), deviation)


def _fitted(found: Estimate, blocks: Sequence[Block], log: int | None) -> tuple[Array, Array, float]:
    """Common base values (p,), the load (10,) that a log has beside them, and the deviation of its mass."""
    kept = np.array([name not in found.left_out for name in found.names])
    load, parts = _load(found), []
    for block in blocks:
        R, z = block.information.stacked(found.joint_weights)
        parts.append(np.column_stack([R[:, kept], R @ load if block.log == log else np.zeros((len(R), 10)), z]))
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
