"""`replay_servos`: how well simulated servos follow logs, next to position = target and a delayed target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.blas import run_on_one_blas_thread
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, pluralise
from mindyn.foundation.json_values import to_json_value
from mindyn.identification.servos.contact_rows import choose_tip, free_rows
from mindyn.identification.servos.joint_tables import ServoRows
from mindyn.identification.servos.mjcf_simulation import simulate_own_servos
from mindyn.identification.servos.servo_estimate import ServoEstimate
from mindyn.identification.servos.simulation import simulate_servo_rows
from mindyn.kernels.model import compile_model
from mindyn.logs.log import Log
from mindyn.regression.experiment import require_logs
from mindyn.regression.rows import Logs
from mindyn.robots.table import format_table

ReplayGrade = Literal["good", "fair", "unusable"]
GOOD_RATIO: Final = 0.25
"""Largest error of a good joint, relative to that of position = target."""
DELAYS_S: Final = np.arange(0.0, 0.4, 0.01)
"""Delays of the target that are compared."""
SAME_TARGETS: Final = 1e-6
"""Largest difference of the targets (rad, m) of repeated motions."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ServoReplay:
    """Rms position errors (n,) of simulated servos over logs, in rad or m, and what they are compared with.

    Each log has the same weight: an error is the root of the mean, over logs, of the mean square in a log.

    Parameters
    ----------
    joint_names : tuple of str
        Names of the n joints.
    units : tuple of str
        "mrad" or "mm": the unit of each joint in tables.
    errors : array of shape (n,)
        Errors of the simulation, which begins at the measured state and then sees targets only.
    target_errors : array of shape (n,)
        Errors of position = target.
    delayed_errors, delays_s : array of shape (n,)
        Errors of the target with the delay and the constant that fit these logs best, and this delay.
    file_errors : array of shape (n,) or None
        Errors of the robot file as it is, in MuJoCo; None unless it is an MJCF file with position servos.
    repeatability : array of shape (n,) or None
        Rms deviation of a log from another with the same targets; None if no motion repeats.
    left_out : array of shape (n,)
        Part of the rows that is in contact and does not count.
    tip_error_m : float
        Rms distance of the simulated tip from the measured one, in rows without contact.
    """

    joint_names: tuple[str, ...]
    units: tuple[str, ...]
    errors: Array
    target_errors: Array
    delayed_errors: Array
    delays_s: Array
    file_errors: Array | None
    repeatability: Array | None
    left_out: Array
    tip_error_m: float

    def __repr__(self) -> str:
        return f"ServoReplay({pluralise(len(self.joint_names), 'joint')})"

    @property
    def grades(self) -> tuple[ReplayGrade, ...]:
        """Grade of each joint by the error of its simulated positions.

        good      at most a quarter of the error of the assumption position = target
        fair      less than the error of the assumption position = delayed target
        unusable  otherwise
        """
        result: list[ReplayGrade] = []
        for error, target, delayed in zip(self.errors, self.target_errors, self.delayed_errors, strict=True):
            is_good = error <= GOOD_RATIO * target
            result.append("good" if is_good else "fair" if error < delayed else "unusable")
        return tuple(result)

    @property
    def grade(self) -> ReplayGrade:
        """The worst grade of a joint."""
        order: tuple[ReplayGrade, ...] = ("unusable", "fair", "good")
        return min(self.grades, key=order.index)

    def format(self) -> str:
        """Return the errors as a table.

        Returns
        -------
        str
            A line per joint.
        """
        more = {"robot file": self.file_errors, "repeatability": self.repeatability}
        others = {name: values for name, values in more.items() if values is not None}
        rows: list[tuple[str, ...]] = [
            ("joint", "error", "position = target", "delayed target", *others, "left out", "grade")
        ]
        for j, name in enumerate(self.joint_names):
            unit = self.units[j]
            delayed = f"{1e3 * self.delayed_errors[j]:.1f} ({1e3 * self.delays_s[j]:.0f} ms)"
            cells = [f"{1e3 * self.errors[j]:.1f} {unit}", f"{1e3 * self.target_errors[j]:.1f}", delayed]
            cells += [f"{1e3 * values[j]:.1f}" for values in others.values()]
            rows.append((name, *cells, f"{100 * self.left_out[j]:.0f} %", self.grades[j]))
        return format_table(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the replay as JSON values, in rad, m and s."""
        arrays = ("errors", "target_errors", "delayed_errors", "delays_s", "left_out")
        return {
            "joints": list(self.joint_names),
            **{name: getattr(self, name).tolist() for name in arrays},
            "file_errors": to_json_value(self.file_errors),
            "repeatability": None if self.repeatability is None else self.repeatability.tolist(),
            "tip_error_m": self.tip_error_m,
            "grades": list(self.grades),
            "grade": self.grade,
        }


@run_on_one_blas_thread
def replay_servos(estimate: ServoEstimate, logs: Logs) -> ServoReplay:
    """Simulate the servos of an estimate under the targets of logs, and compare the positions.

    Rows in contact with the table of the estimate, at hard stops, and after them until the target has moved by
    60 mrad (60 mm), do not count.

    Parameters
    ----------
    estimate : ServoEstimate
        From `identify_servos`.
    logs : Log or a sequence of them
        With position targets; best those of other motions than in the fit. If the robot file is an MJCF file with
        position servos, MuJoCo replays it too.

    Returns
    -------
    ServoReplay
        Errors, references and grades.

    Raises
    ------
    InputError
        If a log has no targets, or no row is free of contact.
    """
    listed = [log for log in require_logs(logs) if isinstance(log, Log)]
    own = simulate_own_servos(estimate.robot, listed)
    return score_positions(estimate, listed, *simulate_servo_rows(estimate, listed), own)


def score_positions(
    estimate: ServoEstimate, logs: Sequence[Log], rows: ServoRows, q: Array, own: Array | None = None
) -> ServoReplay:
    """Return the errors of simulated positions (N, n) at the rows of logs; `own` are those of the robot file."""
    free = free_rows(estimate.robot, rows, estimate.table)
    if not free.any(axis=0).all():
        raise InputError(
            "the logs have joints that are in contact in all rows",
            hint="replay a log of free motion",
            code=Code.TOO_LITTLE_DATA,
            subject="logs",
        )
    delayed, delays = _best_delayed(rows, free)
    kinds = [joint.kind for joint in estimate.robot.primary_joints]
    return ServoReplay(
        joint_names=estimate.joint_names,
        units=tuple("mm" if kind == "prismatic" else "mrad" for kind in kinds),
        errors=_pooled_rms(np.where(np.isfinite(q), q - rows.q, np.inf), free, rows),
        file_errors=None if own is None else _pooled_rms(own - rows.q, free, rows),
        target_errors=_pooled_rms(rows.target - rows.q, free, rows),
        delayed_errors=delayed,
        delays_s=delays,
        repeatability=_repeatability(logs),
        left_out=1 - free.mean(axis=0),
        tip_error_m=_tip_error(estimate, rows.q[free.all(axis=1)], q[free.all(axis=1)]),
    )


def _tip_error(estimate: ServoEstimate, measured: Array, simulated: Array) -> float:
    """Return the rms distance of the simulated tip from the measured one, m; infinity if the simulation diverges."""
    if not np.isfinite(simulated).all():
        return float("inf")
    tip = choose_tip(estimate.robot, None if estimate.table is None else estimate.table.tip)
    model = compile_model(estimate.robot)
    apart = [model.forward_kinematics(x, tip)[:, :3, 3] for x in (measured, simulated)]
    squares = ((apart[1] - apart[0]) ** 2).sum(axis=1)
    return float(np.sqrt(squares.mean())) if len(squares) else float("nan")


def _pooled_rms(errors: Array, free: NDArray[np.bool_], rows: ServoRows) -> Array:
    """Return the rms (n,) over the free rows, in which each log has the same weight."""
    squares = []
    for log in range(int(rows.log[-1]) + 1):
        inside = rows.log == log
        counts = (free & inside[:, None]).sum(axis=0)
        total = np.where(free[inside], errors[inside] ** 2, 0.0).sum(axis=0)
        squares.append(np.where(counts > 0, total / np.maximum(counts, 1), np.nan))
    return np.asarray(np.sqrt(np.nanmean(squares, axis=0)))


def _best_delayed(rows: ServoRows, free: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return the errors (n,) of the target with the best delay and constant for each joint, and the delays (n,)."""
    tries = []
    for delay in DELAYS_S:
        late = np.empty_like(rows.target)
        for log in range(int(rows.log[-1]) + 1):
            inside = rows.log == log
            time, target = rows.time[inside], rows.target[inside]
            late[inside] = np.column_stack([np.interp(time - delay, time, column) for column in target.T])
        error = late - rows.q
        tries.append(_pooled_rms(error - np.ma.array(error, mask=~free).mean(axis=0).filled(0.0), free, rows))
    best = np.argmin(tries, axis=0)
    return np.min(tries, axis=0), DELAYS_S[best]


def _repeatability(logs: Sequence[Log]) -> Array | None:
    """Return how much positions differ between logs with the same targets: rms (n,) divided by sqrt(2), or None."""
    squares = []
    for k, log in enumerate(logs):
        for other in logs[:k]:
            if len(log) != len(other) or log.target is None or other.target is None:
                continue
            if np.abs(log.target - other.target).max() < SAME_TARGETS:
                squares.append(((log.q - other.q) ** 2).mean(axis=0) / 2)
    return np.sqrt(np.mean(squares, axis=0)) if squares else None
