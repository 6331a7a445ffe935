"""Drop and count unusable rows of a log: values that are not numbers, and repeated stamps.

A few late rows are sorted. Any other step back in time raises an error, unless the user accepts restarts of the clock.
Angles that wrap around are unwrapped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import pi
from typing import TYPE_CHECKING, Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, pluralise
from mindyn.foundation.findings import Finding, Kind, Severity, info
from mindyn.logs.log_errors import NO_TORQUE_HINT, LogError, require_accepted
from mindyn.logs.time_stamps import MAX_LATE_ROWS, RESTART_GAP_S, sort_late_rows

if TYPE_CHECKING:
    from mindyn.logs.log import Log


MAX_DROPPED_FRACTION: Final = 0.1
"""Largest fraction of rows that may be dropped."""
MAX_MAGNITUDE: Final = 1e30
"""Numbers above this mark missing values (the largest float, 1e300, ...), and their squares overflow."""
TURN_RAD: Final = 2 * pi
WRAP_TOLERANCE_RAD: Final = 0.5
"""Largest difference between a jump and a whole turn, which is the motion from one row to the next. No prismatic joint
moves a whole turn (6.28 m).
"""
MIN_STAMP_STEP_S: Final = 5e-10
"""Stamps that are closer than this count as equal: clocks count nanoseconds, and a shorter step has no meaningful rate.
"""
DAY_S: Final = 86_400.0
MIDNIGHT_WINDOW_S: Final = 60.0
"""If stamps go back by one day, with a difference of at most this, they are times of day that pass midnight."""
MAX_STILL_RANGE: Final = 1e-3
"""A joint whose position stays within this range (rad or m) does not move."""


class Cleaner:
    """Clean the chunks of a log in order, and report at the end.

    restarts  whether a step back in time begins a new recording
    """

    def __init__(self, name: str, *, restarts: bool = False) -> None:
        self.name = name
        self.restarts = restarts
        self.row_count = 0
        self.kept = 0
        self.not_numbers: dict[str, int] = {}
        self.not_number_rows = 0
        self.repeated = 0
        self.copies = 0
        self.late = 0
        self.begun_anew = 0
        self.midnights = 0
        self._stamp = -np.inf
        self._later = 0.0
        self._waiting: Log | None = None
        self.last_time = -np.inf
        self.wraps: dict[str, int] = {}
        self._before: dict[str, tuple[Array, Array]] = {}

    def clean(self, chunk: Log) -> Log:
        """Return the usable rows of the next chunk.

        After late rows, keep the last rows back, because later rows may belong between them.
        """
        self.row_count += len(chunk)
        return self._clean(self._sort_rows(self._over_midnight(self._keep_finite_rows(chunk))))

    def rest(self) -> Iterator[Log]:
        """Yield the rows that were kept back, after the last chunk."""
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            yield self._clean(waiting)

    def _clean(self, chunk: Log) -> Log:
        chunk = self._unwrap_angles(self._keep_advancing_rows(chunk))
        if len(chunk):
            self.last_time = float(chunk.time[-1])
        self.kept += len(chunk)
        return chunk

    def _keep_finite_rows(self, chunk: Log) -> Log:
        good = np.isfinite(chunk.time)
        signals = {"position": chunk.q, "velocity": chunk.qd, "acceleration": chunk.qdd, "torque": chunk.tau}
        signals |= {"target": chunk.target, "target velocity": chunk.target_velocity, "motor position": chunk.motor_q}
        for signal, array in signals.items():
            if array is None:
                continue
            wrong = ~(np.abs(array) < MAX_MAGNITUDE)
            for joint in np.flatnonzero(wrong.any(axis=0)):
                key = f"{signal} of {chunk.joint_names[joint]}"
                self.not_numbers[key] = self.not_numbers.get(key, 0) + int(wrong[:, joint].sum())
            good &= ~wrong.any(axis=1)
        self.not_number_rows += int((~good).sum())
        return chunk if good.all() else chunk.take(good)

    def _over_midnight(self, chunk: Log) -> Log:
        """Continue times of day after midnight."""
        if not len(chunk):
            return chunk
        steps = np.diff(chunk.time, prepend=self._stamp)
        self._stamp = float(chunk.time[-1])
        days = self.midnights + np.cumsum((steps >= -DAY_S) & (steps < MIDNIGHT_WINDOW_S - DAY_S))
        self.midnights = int(days[-1])
        return replace(chunk, time=chunk.time + DAY_S * days) if days[-1] else chunk

    def _sort_rows(self, chunk: Log) -> Log:
        """Sort a few late rows by their stamps. Keep the last rows back, because later rows may belong between them."""
        if self._waiting is not None:
            chunk, self._waiting = self._waiting.followed_by(chunk), None
        if self.restarts or not len(chunk) or (np.diff(chunk.time) >= 0).all():
            return chunk
        order = sort_late_rows(chunk.time)
        if order is None:
            return chunk
        self.late += int((np.diff(chunk.time) < 0).sum())
        chunk = chunk.take(order)
        end = max(0, len(chunk) - MAX_LATE_ROWS)
        self._waiting = chunk.take(slice(end, None))
        return chunk.take(slice(0, end))

    def _keep_advancing_rows(self, chunk: Log) -> Log:
        if self._later:
            chunk = replace(chunk, time=chunk.time + self._later)
        steps = np.diff(chunk.time, prepend=self.last_time)
        back = steps < 0
        if back.any() and not self.restarts:
            at = int(np.argmax(back))
            raise LogError(
                f"time goes back by {-steps[at]:.6g} s at row {chunk.rows[at]} of {self.name}",
                hint='if a new recording begins there, set accept = ["restarts"], or rows = [first, end] of one '
                "recording, in its sidecar file or in the call; if rows are out of order, sort them",
                code=Code.INVALID_VALUE,
                subject="time",
            )
        if back.any():
            self.begun_anew += int(back.sum())
            later = np.cumsum(np.where(back, RESTART_GAP_S - steps, 0.0))
            self._later += float(later[-1])
            chunk = replace(chunk, time=chunk.time + later)
            steps = np.diff(chunk.time, prepend=self.last_time)
        again = steps < MIN_STAMP_STEP_S
        self.repeated += int(again.sum())
        same = (np.diff(chunk.q, axis=0) == 0).all(axis=1) & (np.diff(chunk.tau, axis=0) == 0).all(axis=1)
        self.copies += int((again[1:] & same).sum())
        return chunk.take(~again) if again.any() else chunk

    def _unwrap_angles(self, chunk: Log) -> Log:
        """Remove jumps by a whole turn, where an angle wraps around, by adding whole turns."""
        if not len(chunk):
            return chunk
        jumps, turns = self._count_turns("position", chunk.q)
        for joint in np.flatnonzero(jumps.any(axis=0)):
            name = chunk.joint_names[joint]
            self.wraps[name] = self.wraps.get(name, 0) + int(np.abs(jumps[:, joint]).sum())
        target = None if chunk.target is None else chunk.target + TURN_RAD * turns
        motor = chunk.motor_q
        if motor is not None:
            motor = motor + TURN_RAD * self._count_turns("motor position", motor)[1]
        return replace(chunk, q=chunk.q + TURN_RAD * turns, target=target, motor_q=motor)

    def _count_turns(self, signal: str, angles: Array) -> tuple[Array, Array]:
        """Return the whole turns (N, n) that remove the jump at each row, and the sums of these turns since the first
        chunk.
        """
        last, turns = self._before.get(signal, (angles[0], np.zeros(angles.shape[1])))
        steps = np.diff(angles, axis=0, prepend=last[None])
        jumps = np.where(np.abs(np.abs(steps) - TURN_RAD) < WRAP_TOLERANCE_RAD, -np.sign(steps), 0.0)
        turns = turns + np.cumsum(jumps, axis=0)
        self._before[signal] = angles[-1], turns[-1]
        return jumps, turns

    def findings(self, accepted: tuple[str, ...]) -> list[Finding]:
        """Return findings on dropped rows; raise `LogError` if too few rows are left."""
        if self.row_count == 0:
            raise LogError(
                f"{self.name} has no rows", hint="did the recording fail?", code=Code.TOO_LITTLE_DATA, subject=self.name
            )
        findings = self.dropped_rows(accepted)
        if self.kept < 2:
            message = f"{self.name} has too few rows: {self.kept} of {self.row_count} can be used"
            hint = "did the recording stop at once? A log needs rows over several seconds of motion"
            raise LogError(message, hint=hint, code=Code.TOO_LITTLE_DATA, subject=self.name)
        return findings

    def dropped_rows(self, accepted: tuple[str, ...] = ()) -> list[Finding]:
        """Return findings on dropped rows and wrapped angles; raise `LogError` if too many rows were dropped."""
        wraps = []
        for name, count in self.wraps.items():
            message = f"the angle of joint {name} wraps around: {pluralise(count, 'jump')} by a turn removed"
            wraps.append(Finding(Kind.ANGLE_WRAPS, Severity.INFO, message, joints=(name,)))
        return [*self._not_numbers(), *self._order(), *self._repetition_findings(accepted), *wraps]

    def _order(self) -> list[Finding]:
        messages = []
        if self.late:
            rows = "a row" if self.late == 1 else f"{self.late} rows"
            messages.append(f"{rows} of {self.name} were delayed: sorted by their stamps")
        if self.midnights:
            messages.append(f"the stamps of {self.name} pass midnight: a day is added to the stamps after it")
        if self.begun_anew:
            messages.append(f"the clock of {self.name} restarts: {self.begun_anew + 1} recordings in one file")
        return [info(Kind.STAMPS, message) for message in messages]

    def _not_numbers(self) -> list[Finding]:
        if not self.not_number_rows:
            return []
        listed = ", ".join(f"{key} ({count})" for key, count in self.not_numbers.items()) or "time"
        rows = f"{self.not_number_rows} of {self.row_count} rows of {self.name}"
        message = f"{rows} hold NaN, infinity or more than {MAX_MAGNITUDE:g}: {listed}"
        if self.not_number_rows > MAX_DROPPED_FRACTION * self.row_count:
            hint = "is a sensor missing, or is this the wrong column?"
            if all(key.startswith("torque") and count == self.row_count for key, count in self.not_numbers.items()):
                message, hint = f"no torque: {message}", NO_TORQUE_HINT
            raise LogError(message, hint=hint, code=Code.NOT_FINITE, subject=next(iter(self.not_numbers), "time"))
        return [info(Kind.DROPPED_ROWS, f"{message}; dropped")]

    def _repetition_findings(self, accepted: tuple[str, ...]) -> list[Finding]:
        if not self.repeated:
            return []
        values = " and values" if self.copies == self.repeated else ""
        message = f"{self.repeated} of {self.row_count} rows of {self.name} repeat the stamp{values} of the row before"
        if self.repeated - self.copies > MAX_DROPPED_FRACTION * self.row_count:
            hint = "are the stamps rounded? set rate_hz if the rows are uniform"
            return [require_accepted("stamps", accepted, message, hint)]
        return [info(Kind.DROPPED_ROWS, f"{message}; dropped")]
