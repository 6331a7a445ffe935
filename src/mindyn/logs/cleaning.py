"""Rows that cannot be used are left out and counted: not numbers, repeated stamps.

Rows that came late are put in order; a time that goes back otherwise is refused, unless it is said that recordings
begin there. Angles that wrap around are unwrapped.
"""

from __future__ import annotations

from dataclasses import replace
from math import pi
from typing import TYPE_CHECKING, Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.findings import Finding, Kind, info
from mindyn.logs.errors import LogError, require_accepted
from mindyn.logs.stamps import MAX_LATE_ROWS, RESTART_GAP_S, sort_late_rows

if TYPE_CHECKING:
    from mindyn.logs.log import Log

MAX_DROPPED_FRACTION: Final = 0.1
"""Share of rows that may be left out before the log is refused."""
MAX_MAGNITUDE: Final = 1e30
"""Numbers beyond stand for missing values (the largest float, 1e300, ...), and their squares for infinity."""
TURN_RAD: Final = 2 * pi
WRAP_TOLERANCE_RAD: Final = 0.5
"""rad that a jump by a turn may differ from it: the motion within a row. No slide moves so far within one."""
MIN_STAMP_STEP_S: Final = 5e-10
"""Stamps no farther apart are the same: clocks count nanoseconds, and what lies between two of them has no rate."""
DAY_S: Final = 86_400.0
MIDNIGHT_WINDOW_S: Final = 60.0
"""Stamps that go back by a day less at most this are times of the day that pass midnight."""
MAX_STILL_RANGE: Final = 1e-3
"""A joint whose position stays within this range (rad or m) never moves."""


class Cleaner:
    """Cleans the chunks of one log in order, and reports at the end.

    restarts  whether a time that goes back begins a new recording
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
        self._before: tuple[Array, Array] | None = None

    def clean(self, chunk: Log) -> Log:
        """The usable rows of the next chunk; after rows that came late, its last wait for others."""
        self.row_count += len(chunk)
        return self._kept(self._ordered(self._over_midnight(self._finite(chunk))))

    def rest(self) -> Log | None:
        """The rows that still wait; after the last chunk."""
        waiting, self._waiting = self._waiting, None
        return None if waiting is None else self._kept(waiting)

    def _kept(self, chunk: Log) -> Log:
        chunk = self._unwrapped(self._advancing(chunk))
        if len(chunk):
            self.last_time = float(chunk.time[-1])
        self.kept += len(chunk)
        return chunk

    def _finite(self, chunk: Log) -> Log:
        good = np.isfinite(chunk.time)
        signals = {"position": chunk.q, "velocity": chunk.qd, "acceleration": chunk.qdd, "torque": chunk.tau}
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
        """Times of the day as they go on after midnight."""
        if not len(chunk):
            return chunk
        steps = np.diff(chunk.time, prepend=self._stamp)
        self._stamp = float(chunk.time[-1])
        days = self.midnights + np.cumsum((steps >= -DAY_S) & (steps < MIDNIGHT_WINDOW_S - DAY_S))
        self.midnights = int(days[-1])
        return replace(chunk, time=chunk.time + DAY_S * days) if days[-1] else chunk

    def _ordered(self, chunk: Log) -> Log:
        """The rows in the order of their stamps where a few came late: later ones may still belong between the last."""
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

    def _advancing(self, chunk: Log) -> Log:
        if self._later:
            chunk = replace(chunk, time=chunk.time + self._later)
        steps = np.diff(chunk.time, prepend=self.last_time)
        back = steps < 0
        if back.any() and not self.restarts:
            at = int(np.argmax(back))
            raise LogError(
                f"time goes back by {-steps[at]:.6g} s at row {chunk.rows[at]} of {self.name}",
                hint='does a new recording begin there? state accept = ["restarts"], or rows = [first, end] of one, '
                "in its sidecar file or in the call; rows that are out of order: sort them",
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

    def _unwrapped(self, chunk: Log) -> Log:
        """The chunk with whole turns in place of jumps by a turn, at which an angle wraps around."""
        if not len(chunk):
            return chunk
        q, turns = (chunk.q[0], np.zeros(chunk.q.shape[1])) if self._before is None else self._before
        steps = np.diff(chunk.q, axis=0, prepend=q[None])
        jumps = np.where(np.abs(np.abs(steps) - TURN_RAD) < WRAP_TOLERANCE_RAD, -np.sign(steps), 0.0)
        turns = turns + np.cumsum(jumps, axis=0)
        self._before = chunk.q[-1], turns[-1]
        for joint in np.flatnonzero(jumps.any(axis=0)):
            name = chunk.joint_names[joint]
            self.wraps[name] = self.wraps.get(name, 0) + int(np.abs(jumps[:, joint]).sum())
        return replace(chunk, q=chunk.q + TURN_RAD * turns)

    def findings(self, accepted: tuple[str, ...]) -> list[Finding]:
        """Return what was dropped; raise `LogError` if a log lost too much."""
        if self.row_count == 0:
            raise LogError(f"{self.name} has no rows", hint="did the recording fail?")
        found = self.dropped_rows(accepted)
        if self.kept < 2:
            raise LogError(f"{self.name} has too few rows: {self.kept} of {self.row_count} can be used")
        return found

    def dropped_rows(self, accepted: tuple[str, ...] = ()) -> list[Finding]:
        """Return how many rows were dropped and why, and where angles wrapped; raise `LogError` if too many were."""
        wraps = [
            replace(
                info(
                    Kind.ANGLE_WRAPS,
                    f"the angle of joint {name} wraps around: {count} jump{'s' * (count > 1)} by a turn taken out",
                ),
                joints=(name,),
            )
            for name, count in self.wraps.items()
        ]
        return [*self._not_numbers(), *self._order(), *self._repeated(accepted), *wraps]

    def _order(self) -> list[Finding]:
        messages = []
        if self.late:
            rows = "a row" if self.late == 1 else f"{self.late} rows"
            messages.append(f"{rows} of {self.name} came late: put in the order of the stamps")
        if self.midnights:
            messages.append(f"the stamps of {self.name} pass midnight: a day is added to those behind it")
        if self.begun_anew:
            messages.append(f"the time of {self.name} begins anew: {self.begun_anew + 1} recordings in one file")
        return [info(Kind.STAMPS, message) for message in messages]

    def _not_numbers(self) -> list[Finding]:
        if not self.not_number_rows:
            return []
        listed = ", ".join(f"{key} ({count})" for key, count in self.not_numbers.items()) or "time"
        rows = f"{self.not_number_rows} of {self.row_count} rows of {self.name}"
        message = f"{rows} hold NaN, infinity or more than {MAX_MAGNITUDE:g}: {listed}"
        if self.not_number_rows > MAX_DROPPED_FRACTION * self.row_count:
            raise LogError(message, hint="is a sensor missing, or a column of another kind?")
        return [info(Kind.DROPPED_ROWS, f"{message}; left out")]

    def _repeated(self, accepted: tuple[str, ...]) -> list[Finding]:
        if not self.repeated:
            return []
        whole = " and its values" if self.copies == self.repeated else ""
        message = f"{self.repeated} of {self.row_count} rows of {self.name} repeat the stamp{whole} before them"
        if self.repeated - self.copies > MAX_DROPPED_FRACTION * self.row_count:
            hint = "are the stamps rounded? state rate_hz if the rows are uniform"
            return [require_accepted("stamps", accepted, message, hint)]
        return [info(Kind.DROPPED_ROWS, f"{message}; left out")]
