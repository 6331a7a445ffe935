"""Simulate the joints of a log under its targets alone, each with the load of the simulated motion of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.identification.servos.joint_tables import ServoRows, build_servo_rows
from mindyn.identification.servos.rollout import simulate_joint
from mindyn.identification.servos.servo_estimate import ServoEstimate
from mindyn.logs.log import Log

PASSES: Final = 4
"""Number of simulations. Each takes its loads along the previous one, the first along the targets."""
SETTLED: Final = 1e-5
"""Largest change of a position (rad, m) at which the passes end."""


def simulate_servo_rows(estimate: ServoEstimate, logs: Sequence[Log]) -> tuple[ServoRows, Array]:
    """Return the measured rows of logs, and the simulated positions (N, n) at these rows.

    The simulation sees the measured state at the beginning of each segment, and targets only after that. If the passes
    do not settle, because links are heavy and armatures small, loads are those along the measured motion.
    """
    measured = build_servo_rows(estimate.robot, logs, estimate.delay_s)
    guesses = [replace(log, q=log.target) for log in logs if log.target is not None]
    before, changes = measured.target, list[float]()
    for _ in range(PASSES):
        loads = build_servo_rows(estimate.robot, guesses, estimate.delay_s)
        rows = replace(measured, load=loads.load, inertia=loads.inertia)
        q = _simulate(rows, estimate)
        changes.append(float(np.abs(q - before).max()))
        if not changes[-1] > SETTLED:
            break
        if not changes[-1] <= (changes[-2] if len(changes) > 1 else np.inf):
            return measured, _simulate(measured, estimate)
        before = q
        guesses = _with_positions(guesses, rows, q)
    return measured, q


def _simulate(rows: ServoRows, estimate: ServoEstimate) -> Array:
    """Return the positions (N, n) of each joint with the loads of the rows."""
    values = estimate.values
    if estimate.has_limit:
        count = len(values)
        values = np.column_stack([values, np.zeros((count, 2)), estimate.limit, estimate.limits_damping])
    return np.column_stack([simulate_joint(rows.table(j), v[None])[:, 0] for j, v in enumerate(values)])


def _with_positions(logs: Sequence[Log], rows: ServoRows, q: Array) -> list[Log]:
    """Return the logs with simulated positions at the rows that were simulated."""
    result = []
    for number, log in enumerate(logs):
        inside = rows.log == number
        positions = log.q.copy()
        positions[np.isin(log.time, rows.time[inside])] = q[inside]
        result.append(replace(log, q=positions))
    return result
