"""Recognise the signals of a log by their numbers, if it has no names or names that say nothing.

A velocity is the derivative of a position with the same factor, the sample rate, for all joints. Torques that follow a
velocity or an acceleration have another factor, friction or inertia, for each joint.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.logs.checks import reachable_positions
from mindyn.logs.draft_head import LogHead
from mindyn.logs.draft_names import ColumnGroup
from mindyn.robots.robot import Robot

MIN_DERIVATIVE_FIT: Final = 0.8
"""Smallest squared correlation of a velocity with the change of its position, at each joint."""
MAX_FACTOR_RATIO: Final = 1.5
"""Largest ratio between joints of the factor of a velocity and the change of its position."""
WINDOW_ROWS: Final = (1, 8, 64)
"""Rows over which changes are compared; long windows average quantisation and noise."""
MAX_STEP_RATIO: Final = 5.0
"""Changes of more than this many times the 99th percentile are wraps and restarts, and are ignored."""
RATE_TOLERANCE: Final = 0.003

Candidates = Mapping[str, Sequence[ColumnGroup]]


def recognise_signals(
    head: LogHead, groups: Sequence[ColumnGroup], robot: Robot | None, excluded: Collection[str], used: Collection[str]
) -> Candidates:
    """Return the groups that may be each signal by their numbers; torques are those that are no motion.

    groups    named groups to recognise; without any, blocks of adjacent columns are searched
    excluded  columns of time
    used      columns of known signals
    """
    values = {
        name: np.asarray(column, dtype=np.float64).reshape(len(column), -1)
        for name, column in head.columns.items()
        if name not in excluded and len(column) > 2 and np.isfinite(column).all()
    }
    if groups:
        groups = [group for group in groups if set(group.columns) <= set(values)]
        candidates = _sort_by_derivatives(groups, values, robot)
        is_known = any(candidates[signal] for signal in _MOTION) or bool(used)
        return candidates if is_known else _sort_by_limits(candidates["torque"], values, robot)
    singles = [name for name, column in values.items() if column.shape[1] == 1]
    for count in range(len(singles) // 2, 1, -1) if robot is None else [len(robot.primary_names)]:
        windows = [_adjacent(singles[k : k + count]) for k in range(len(singles) - count + 1)]
        candidates = _sort_by_derivatives(windows, values, robot)
        motions = {name for signal in _MOTION for group in candidates[signal] for name in group.columns}
        rest = _split_into_blocks(singles, {*motions, *used}, count)
        if motions or used:
            return {**candidates, "torque": rest}
        if robot is not None:
            return _sort_by_limits(rest, values, robot)
    return {}


_MOTION: Final = ("position", "velocity", "acceleration")


def _adjacent(names: Sequence[str]) -> ColumnGroup:
    return ColumnGroup(tuple(names), tuple(names), len(names), (), "block")


def _sort_by_derivatives(
    groups: Sequence[ColumnGroup], values: Mapping[str, Array], robot: Robot | None
) -> dict[str, list[ColumnGroup]]:
    """Sort groups into positions, which have a derivative but are none, their derivatives, and the rest."""
    names = list(dict.fromkeys(name for group in groups for name in group.columns))
    ends = np.cumsum([0, *(values[name].shape[1] for name in names)])
    places = {name: range(start, end) for name, start, end in zip(names, ends[:-1], ends[1:], strict=True)}
    count = None if robot is None else len(robot.primary_names)
    indices = [[k for name in group.columns for k in places[name]][:count] for group in groups]
    if not groups:
        return {signal: [] for signal in (*_MOTION, "torque")}
    fits, factors = _compare_derivatives(np.column_stack([values[name] for name in names]))
    pairs = set()
    for (a, first), (b, second) in permutations(enumerate(indices), 2):
        if len(first) == len(second) and not set(first) & set(second):
            fit, factor = fits[first, second], factors[first, second]
            if fit.min() > MIN_DERIVATIVE_FIT and 0 < factor.max() < MAX_FACTOR_RATIO * factor.min():
                pairs.add((a, b))
    # Of overlapping blocks, those that begin within a position contain a derivative.
    derived = {k for _, b in pairs for k in indices[b]}
    positions = {a for a, _ in pairs if not derived & set(indices[a])}
    velocities = {b for a, b in pairs if a in positions}
    accelerations = {b for a, b in pairs if a in velocities}
    moving = positions | velocities | accelerations
    chosen = {"position": positions, "velocity": velocities, "acceleration": accelerations}
    sorted_groups = {
        signal: [replace(groups[k], reason=_REASONS[signal]) for k in sorted(those)] for signal, those in chosen.items()
    }
    rest = [group for k, group in enumerate(groups) if k not in moving]
    return {**sorted_groups, "torque": [replace(group, reason=_REASONS["torque"]) for group in rest]}


_REASONS: Final = {
    "position": "by its numbers: other columns are its derivative",
    "velocity": "by its numbers: the derivative of the position",
    "acceleration": "by its numbers: the derivative of the velocity",
    "torque": "by its numbers: neither a position nor its derivative",
}


def _compare_derivatives(X: Array) -> tuple[Array, Array]:
    """Return squared correlation and factor of each column b and the change per row of each column a: [a, b]."""
    fits, factors = np.zeros((2, X.shape[1], X.shape[1]))
    total = np.vstack([np.zeros(X.shape[1]), np.cumsum(X, axis=0)])
    for rows in WINDOW_ROWS:
        if len(X) < 4 * rows:
            break
        change = X[rows:] - X[:-rows]
        change = np.where(np.abs(change) > MAX_STEP_RATIO * np.quantile(np.abs(change), 0.99, axis=0), 0.0, change)
        passed = 0.5 * (total[rows:-1] - total[: -rows - 1] + total[rows + 1 :] - total[1:-rows])  # trapezoidal rule
        power, other = (change**2).sum(axis=0)[:, None], (passed**2).sum(axis=0)[None, :]
        together = change.T @ passed
        with np.errstate(divide="ignore", invalid="ignore"):
            fit, factor = np.nan_to_num(together**2 / (power * other)), np.nan_to_num(together / power)
        factors, fits = np.where(fit > fits, factor, factors), np.maximum(fit, fits)
    return fits, factors


def _split_into_blocks(names: Sequence[str], used: Collection[str], count: int) -> list[ColumnGroup]:
    """Split runs of unused adjacent columns into blocks with a column for each joint; other runs have no blocks."""
    runs: list[list[str]] = [[]]
    for name in names:
        runs = [*runs, []] if name in used else [*runs[:-1], [*runs[-1], name]]
    whole = [run for run in runs if run and len(run) % count == 0]
    blocks = [_adjacent(run[k : k + count]) for run in whole for k in range(0, len(run), count)]
    return [replace(block, reason=_REASONS["torque"]) for block in blocks]


def _sort_by_limits(
    blocks: Sequence[ColumnGroup], values: Mapping[str, Array], robot: Robot | None
) -> dict[str, Sequence[ColumnGroup]]:
    """Take the only block within the robot's limits in rad or m as position; otherwise any block may be any signal."""
    unknown = dict.fromkeys((*_MOTION, "torque"), ()) | {"position": blocks, "torque": blocks}
    if robot is None:
        return unknown
    reach = reachable_positions(robot)
    peaks = [np.abs(np.column_stack([values[name] for name in block.columns])).max(axis=0) for block in blocks]
    within = [block for block, peak in zip(blocks, peaks, strict=True) if (peak[: len(reach)] <= reach).all()]
    if len(within) != 1:
        return unknown
    position = replace(within[0], reason="by its numbers: the only block within the limits in rad or m")
    return {**unknown, "position": [position], "torque": [block for block in blocks if block is not within[0]]}


def round_rate(rate_hz: float) -> float | None:
    """Return the usual rate, a whole number of ms or a known rate, within 0.3 % of this one; None without one."""
    usual = [*(1000 / k for k in range(1, 101)), 30.0, 60.0, 120.0, 240.0, 2000.0, 4000.0, 5000.0, 8000.0]
    nearest = min(usual, key=lambda rate: abs(rate - rate_hz))
    return nearest if abs(rate_hz / nearest - 1) < RATE_TOLERANCE else None
