"""What one more column would explain: friction that drifts through a log, a joint whose torque is scaled.

Neither is a parameter of an arm, and both hide in the parameters that are: friction that falls while drives warm up is
fitted by its mean, a torque of one joint that is 1 + d times what it should be by masses in between. Each is a column
beside those of the fit,

    drift    t_b F_j beta     t_b the time of block b, -1/2 to 1/2 through the logs; F_j columns of joint j's friction
    gain     Y_j beta         in the rows of joint j alone

whose coefficient d is a part of the friction, or of the torque. How sure it is, blocks tell, left out in turn (as in
`block_spread`): the residuals of an arm depend on each other over whole motions. Of gains only the ratios show, and
only as far as joints share links and inertias: factors on all torques alike are other masses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from mindyn.algebra.values import Array
from mindyn.estimators.estimate import Estimate
from mindyn.regression.block_gathering import Block

FEWEST_BLOCKS: Final = 12
"""Below this, blocks say little of how sure a coefficient is."""
DRIFTS: Final = (0.07, 5.0)
"""Part of its mean by which friction drifts through the logs, and deviations: in sound logs of measured and random arms
at most 3.6 deviations where it is more than 7 %; friction that has fallen by a fifth or more, 5 to 29 in most."""
SCALED: Final = (0.03, 10.0)
"""Part by which a torque is off beside the others', and deviations: at most 5 in most sound logs of random arms, 9 in
one of 100 whose friction grows with the load, 7.2 in those of measured ones; 20 % make 12 to 45 in most, 5 % in few."""
ALSO: Final = 3.0
"""Deviations from which a joint is named beside the drift of all."""
ALIKE: Final = 0.7
"""Part of what the best gain explains from which another joint's is named beside it."""
SEPARATE: Final = 1e-9
"""Part of a column's square that the others must leave of it."""
SMALLEST: Final = 1e-12
"""Eigenvalues of the scaled normal matrix below this part of the largest count as zero."""

_Columns = Callable[[int, Array], Array]


class Added(NamedTuple):
    """A coefficient: its value, its standard deviation by blocks, and the sum of squares that it explains."""

    value: float
    deviation: float
    explained: float

    def beyond(self, least: tuple[float, float]) -> bool:
        """Whether value and value over deviation are both above what is given."""
        return abs(self.value) > least[0] and abs(self.value) > least[1] * self.deviation


def drift_doubts(found: Estimate, parts: Sequence[Block]) -> list[str]:
    """A sentence where friction drifts through the logs; `parts` of them are in the order of time."""
    blocks = _judged(found, parts)
    if len(blocks) < FEWEST_BLOCKS:
        return []
    joints = found.regressor.joint_names
    friction = np.array([[one.brakes and one.link_or_joint == j for one in found.parameters] for j in joints])
    times = (np.arange(len(blocks)) + 0.5) / len(blocks) - 0.5
    shapes = np.vstack([friction, friction.any(axis=0)]) * found.beta  # of every joint, and of all together

    def columns(number: int, R: Array) -> Array:
        return np.asarray(times[number] * (R @ shapes.T))

    *each, whole = _added(found, blocks, columns)
    if whole is None or not whole.beyond(DRIFTS):
        return []
    way = "falls" if whole.value < 0 else "rises"
    most = [
        f"{name} {100 * one.value:+.0f} %"
        for name, one in zip(joints, each, strict=True)
        if one is not None and one.beyond((DRIFTS[0], ALSO))
    ]
    where = f" ({', '.join(most)})" if most else ""
    why = ", as while drives warm up" if whole.value < 0 else ""
    return [
        f"friction {way} by {100 * abs(whole.value):.0f} % from the beginning of the logs to their end{where}{why}: "
        "its values are means over the logs, and friction of other runs may differ as much; move the arm until "
        "its friction stays, then record"
    ]


def gain_doubts(found: Estimate, parts: Sequence[Block]) -> list[str]:
    """A sentence where the torque of one joint is scaled beside the others'; `parts` are `evidence` of the fit."""
    blocks = _judged(found, parts)
    if len(blocks) < FEWEST_BLOCKS or len(found.regressor.joint_names) < 2:
        return []
    ends = np.cumsum([len(factor) for factor in blocks[0].information.factors])[:-1]

    def columns(_: int, R: Array) -> Array:
        torques = np.split(R @ found.beta, ends)
        made = np.zeros((len(R), len(torques)))
        for joint, (one, start) in enumerate(zip(torques, [0, *ends], strict=True)):
            made[start : start + len(one), joint] = one
        return made

    told = dict(zip(found.regressor.joint_names, _added(found, blocks, columns), strict=True))
    sure = {name: one for name, one in told.items() if one is not None and one.beyond(SCALED)}
    if not sure:
        return []
    first, *others = sorted(sure, key=lambda name: -sure[name].explained)
    near = [name for name in others if sure[name].explained > ALIKE * sure[first].explained]
    alike = f", or that of {' or '.join(f'{name} ({_size(sure[name])})' for name in near)}" if near else ""
    return [
        f"the torque of joint {first} is {_size(sure[first])} than the torques of the other joints ask for{alike}: "
        "check its torque constant, gear ratio or sensor gain (of gains, only their ratios show)"
    ]


def _size(one: Added) -> str:
    return f"{100 * abs(one.value):.0f} % {'larger' if one.value > 0 else 'smaller'}"


def _judged(found: Estimate, parts: Sequence[Block]) -> list[Block]:
    """Those with rows; none where the fit is not one of torques with a weight for every joint."""
    blocks = [block for block in parts if all(block.information.counts)]
    weights = found.joint_weights
    if found.residual_of != "torque" or weights is None or not blocks:
        return []
    return blocks if len(weights) == len(blocks[0].information.factors) else []


def _added(found: Estimate, blocks: Sequence[Block], columns: _Columns) -> list[Added | None]:
    """For each column, added by itself to those of the fit; None: nothing is left of it, or of the torque.

    columns  of a block's number and its weighted R (rows, p), (rows, k)
    """
    kept = np.array([name not in found.left_out for name in found.names])
    squares = []
    for number, block in enumerate(blocks):
        R, z = block.information.stacked(found.joint_weights)
        whole = np.column_stack([R[:, kept], columns(number, R), z])
        squares.append(whole.T @ whole)
    scales = np.sqrt(np.maximum(np.sum(squares, axis=0).diagonal(), 1e-300))
    parts = np.array(squares) / np.outer(scales, scales)
    total, count, m = parts.sum(axis=0), int(kept.sum()), len(blocks)
    whole = _alone(total, count)
    values = _values(whole)
    without = np.array([_values(_alone(total - one, count)) for one in parts])
    told = np.isfinite(values)
    units = scales[-1] / scales[count:-1]
    apart = without - np.where(told, values, 0.0)
    deviations = np.sqrt((m - 1) / m * (apart**2).sum(axis=0)) * units
    explained = whole[-1, :-1] * np.where(told, values, 0.0) * scales[-1] ** 2
    return [
        Added(*map(float, one)) if finite else None
        for finite, *one in zip(told, values * units, deviations, explained, strict=True)
    ]


def _alone(squares: Array, count: int) -> Array:
    """Sums of squares of what the first `count` columns leave of the others."""
    first, beside = squares[:count, :count], squares[:count, count:]
    values, vectors = np.linalg.eigh(first)
    turned = vectors.T @ beside
    large = values > SMALLEST * values[-1]
    return np.asarray(squares[count:, count:] - (turned[large].T / values[large]) @ turned[large])


def _values(alone: Array) -> Array:
    """The coefficient of every column but the last, each by itself; infinite where nothing is left of it."""
    left = np.diag(alone)[:-1]
    return np.asarray(np.where(left > SEPARATE, alone[-1, :-1] / np.maximum(left, SEPARATE), np.inf))
