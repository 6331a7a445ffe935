"""Torque of position servos from their targets: tau = kp (target - q) + kd (target_velocity - qd), within a limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code
from mindyn.logs.conversion import array_per_joint, gains_per_joint
from mindyn.logs.log import Log, join_logs, log_from_arrays
from mindyn.logs.log_errors import LogError
from mindyn.logs.metadata import LogMetadata, PerJointGain

TYPICAL_RATIOS: Final = (0.06, 0.03, 0.0015)
"""kd/kp (s), fc/kp (rad or m) and Ia/kp (s^2) of small servos."""


@dataclass(frozen=True, slots=True, eq=False)
class Servo:
    """Gains of the position servos of a robot, at the joints in SI units.

    kp, kd   (n,) gains; if kp is unknown, kp = 1 and kd = 0, and the torque is a signal with an unknown gain
    delay_s  time from the stamp of a target to its effect, s
    limit    (n,) largest |tau|; infinity without a limit
    is_held  whether targets are held until the next row; delay_s then does not include the half row by which this
             delays them
    """

    kp: Array
    kd: Array
    delay_s: float
    limit: Array
    is_held: bool = False

    @staticmethod
    def from_metadata(metadata: LogMetadata, joints: Sequence[str]) -> Servo:
        """Return the servo of a log; raise `LogError` if its gains are missing."""
        if metadata.kp is None:
            raise LogError(
                "the log has position targets instead of torques, but kp is missing",
                hint='set kp in N m/rad (N/m) and kd in N m s/rad (N s/m) for each joint, or kp = "unknown"',
                code=Code.MISSING_VALUE,
                subject="kp",
            )
        n, (kp, kd) = len(joints), _gains(metadata, joints)
        kp, kd = np.where(np.isnan(kp), 1.0, kp), np.where(np.isnan(kp) | np.isnan(kd), 0.0, kd)
        limit = np.full(n, np.inf)
        if metadata.torque_limit is not None:
            limit = array_per_joint(metadata.torque_limit, joints, "torque_limit")
        return Servo(kp, kd, metadata.target_delay_s, limit)

    def to_dict(self) -> dict[str, Any]:
        """Return the servo as JSON values, without infinite limits."""
        limit = self.limit.tolist() if np.isfinite(self.limit).all() else None
        return {"kp": self.kp.tolist(), "kd": self.kd.tolist(), "delay_s": self.delay_s, "limit": limit}

    @staticmethod
    def from_dict(saved: Mapping[str, Any]) -> Servo:
        """Return the servo that `to_dict` saved."""
        kp, kd = np.array(saved["kp"], dtype=np.float64), np.array(saved["kd"], dtype=np.float64)
        limit = np.full(len(kp), np.inf) if saved["limit"] is None else np.array(saved["limit"], dtype=np.float64)
        return Servo(kp, kd, float(saved["delay_s"]), limit)

    def torque(self, rows: Log) -> Array:
        """Return the torque (N, n) of rows.

        If velocities were not logged, they are computed as differences of neighbouring rows.
        """
        assert rows.target is not None
        target, feed = self.reference(rows, rows.time)
        tau = self.kp * (target - rows.q) + self.kd * (feed - self._speeds(rows))
        return np.asarray(np.clip(tau, -self.limit, self.limit))

    def reference(self, rows: Log, times: Array) -> tuple[Array, Array]:
        """Return the target and the target velocity (N, n) that act at these times (s); the velocity is zero if it was
        not logged.
        """
        assert rows.target is not None
        fed = np.zeros_like(rows.target) if rows.target_velocity is None else rows.target_velocity
        if times is rows.time and not self.delay_s:
            return rows.target, fed
        target, feed = (
            np.column_stack([np.interp(times - self.delay_s, rows.time, column) for column in values.T])
            for values in (rows.target, fed)
        )
        return target, feed

    def _speeds(self, rows: Log) -> Array:
        if rows.qd is not None or not self.kd.any():
            return np.zeros_like(rows.q) if rows.qd is None else rows.qd
        before, after = np.maximum(np.arange(len(rows)) - 1, 0), np.minimum(np.arange(len(rows)) + 1, len(rows) - 1)
        steps = rows.time[after] - rows.time[before]
        return np.asarray((rows.q[after] - rows.q[before]) / np.where(steps > 0, steps, np.inf)[:, None])


def add_servo_torques(servo: Servo, chunks: Iterable[Log]) -> Iterator[Log]:
    """Yield the rows of consecutive chunks with the servo's torque.

    The last row of a chunk is yielded with the next chunk.
    """
    known: Log | None = None
    done = 0
    for chunk in chunks:
        known = chunk if known is None else join_logs([known, chunk])
        last = len(known) - 1
        yield replace(known.take(slice(done, last)), tau=servo.torque(known)[done:last])
        first = int(np.searchsorted(known.time, known.time[-1] - servo.delay_s)) - 2
        first = min(max(first, 0), max(last - 1, 0))
        known, done = known.take(np.arange(first, len(known))), last - first
    if known is not None:
        yield replace(known.take(slice(done, None)), tau=servo.torque(known)[done:])


def _gains(metadata: LogMetadata, joints: Sequence[str]) -> tuple[Array, Array]:
    """Return kp and kd (n,), NaN where they are unknown; kd is zero if it is not given."""
    kp = gains_per_joint(metadata.kp or "unknown", joints, "kp")
    return kp, np.zeros(len(joints)) if metadata.kd is None else gains_per_joint(metadata.kd, joints, "kd")


def find_unknown_gains(log: Log) -> NDArray[np.bool_]:
    """Return for each joint (n,) whether the gain of its torque is unknown: the gain of its current, or kp of its
    servo.
    """
    gains = log.metadata.current_gains if log.target is None else log.metadata.kp
    if gains is None:
        return np.zeros(len(log.joint_names), dtype=bool)
    return np.isnan(gains_per_joint(gains, log.joint_names, "gains"))


def find_unknown_damping(log: Log) -> NDArray[np.bool_]:
    """Return for each joint (n,) whether the damping gain kd of its target velocity is unknown."""
    if log.target is None or log.target_velocity is None or not len(log):
        return np.zeros(len(log.joint_names), dtype=bool)
    kp, kd = _gains(log.metadata, log.joint_names)
    return np.asarray((np.ptp(log.target_velocity, axis=0) > 0) & (np.isnan(kd) | (np.isnan(kp) & (kd != 0))))


def fill_gains(metadata: LogMetadata, joints: Sequence[str], gains: ArrayLike, *, servo: bool) -> dict[str, Any]:
    """Return the metadata keys with gains (n,) in place of unknown gains. Gains (2 n,) also contain kd of servos."""
    keys = ("kp", "kd") if servo else ("current_gains",)
    filled = {}
    for key, values in zip(keys, np.asarray(gains, dtype=np.float64).reshape(-1, len(joints)), strict=False):
        if (known := getattr(metadata, key)) is not None:
            given = gains_per_joint(known, joints, key)
            filled[key] = np.where(np.isnan(given), values, given).tolist()
    return filled


def apply_gains(log: Log, gains: ArrayLike) -> Log:
    """Return the log with torques in N m or N: signals with unknown gains are multiplied by these gains
    (`fill_gains`).
    """
    unknown, joints, servo = find_unknown_gains(log), log.joint_names, log.target is not None
    if not (unknown | find_unknown_damping(log)).any():
        return log
    known = replace(log, metadata=replace(log.metadata, **fill_gains(log.metadata, joints, gains, servo=servo)))
    tau = Servo.from_metadata(known.metadata, joints).torque(log) if servo else log.tau * np.where(unknown, gains, 1.0)
    return replace(known, tau=tau)


def log_from_targets(
    joint_names: Sequence[str],
    time: ArrayLike,
    q: ArrayLike,
    target: ArrayLike,
    kp: PerJointGain,
    kd: PerJointGain | None = None,
    qd: ArrayLike | None = None,
    target_velocity: ArrayLike | None = None,
    *,
    target_delay_s: float = 0.0,
    torque_limit: Sequence[float] | None = None,
    name: str = "",
) -> Log:
    """Create a log of position servos from joint-side arrays in SI units.

    The torque is kp (target - q) + kd (target_velocity - qd). Rows are cleaned as by `log_from_arrays`.

    Parameters
    ----------
    joint_names : sequence of str
        Names of the n joints, in the order of the columns and of the robot.
    time : array_like of shape (N,)
        Time stamps, in s.
    q, target : array_like of shape (N, n)
        Positions and their targets, in rad or m.
    kp : sequence of n floats, mapping of joint names to floats, or "unknown"
        Gains, in N m/rad or N/m; "unknown" for all or some joints: `identify` estimates them.
    kd : sequence of n floats, mapping of joint names to floats, or "unknown", optional
        Gains, in N m s/rad or N s/m; zero by default.
    qd, target_velocity : array_like of shape (N, n), optional
        Velocities and their targets, in rad/s or m/s. By default, velocities are differences of positions, and their
        targets are zero.
    target_delay_s : float
        Time from the stamp of a target to its effect on the torque, in s.
    torque_limit : sequence of n floats, optional
        Largest torque of each servo, in N m or N.
    name : str, optional
        Name in reports.

    Returns
    -------
    Log
        The log, with torques computed from the targets.

    Raises
    ------
    InputError
        If an array has the wrong shape or type.

    Examples
    --------
    >>> from mindyn.logs import log_from_targets
    >>> log = log_from_targets(["joint1"], [0.0, 0.1], [[0.0], [0.1]], [[0.2], [0.2]], kp=[20.0])
    >>> log.tau.tolist()
    [[4.0], [2.0]]
    """
    lists: dict[str, Any] = {"kp": kp, "kd": kd, "torque_limit": torque_limit}
    lists = {key: gains.tolist() if isinstance(gains, np.ndarray) else gains for key, gains in lists.items()}
    metadata = LogMetadata(**lists, target_delay_s=target_delay_s)
    servo = Servo.from_metadata(metadata, tuple(joint_names))
    # Cleaning needs all signals in one log: targets take the place of torque and acceleration until then.
    log = log_from_arrays(joint_names, time, q, target, qd, target_velocity, name=name)
    log = replace(log, target=log.tau, target_velocity=log.qdd, qdd=None, metadata=metadata)
    return replace(log, tau=servo.torque(log))
