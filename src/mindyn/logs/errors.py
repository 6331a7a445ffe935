"""Errors of logs: what is wrong with one, doubts that a caller may accept by name, all faults at once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, TypeVar

from mindyn.errors import MindynError
from mindyn.findings import Finding, Kind, info

ACCEPTABLE_FINDINGS: Final = ("degrees", "milli", "velocity", "stamps", "rate", "restarts")
"""Doubts that reject a log unless the caller accepts them: positions that look like degrees, torques a thousand
times too large or too small, velocities that are not the derivative of the positions, many repeated stamps, a rate that
no robot is logged at, a time that goes back because a new recording begins there."""

T = TypeVar("T")


class LogError(MindynError):
    """A log cannot be used: not the format it claims, columns that do not match, impossible time, wrong units, ..."""


def require_accepted(holding_uncertainty: str, accepted: Collection[str], message: str, hint: str) -> Finding:
    """Return the message as a finding if the user accepts the doubt; raise `LogError` otherwise."""
    if holding_uncertainty in accepted:
        return info(Kind.ACCEPTED, f"accepted: {message}")
    raise LogError(message, hint=f'{hint}; if the log is right as it is, state accept = ["{holding_uncertainty}"]')


class FaultCollector:
    """All that is wrong with what is stated of a log: errors of steps that do not depend on each other.

    One is raised as it is, several as one, instead of one run after another.
    """

    def __init__(self) -> None:
        self.found: list[MindynError] = []

    def of(self, step: Callable[[], T]) -> T | None:
        """What the step gives; None where it refuses, and its error is kept."""
        try:
            return step()
        except MindynError as error:
            if error.message not in [one.message for one in self.found]:
                self.found.append(error)
            return None

    def raise_all(self, where: str) -> None:
        """Nothing where no step refused; else the error of `where`, a sidecar file or a call."""
        if len(self.found) == 1:
            raise self.found[0]
        if self.found:
            several = f"{len(self.found)} things are wrong with what is stated of {where}:"
            raise LogError(
                "\n".join([several, *_format_faults(self.found)]), hint="mindyn log LOG ROBOT drafts a sidecar file"
            )


def _format_faults(found: list[MindynError]) -> list[str]:
    """Numbered, each with its hint; what several of them end with, such as the columns that there are, is said once."""
    lines, ends, hints = [], [], []
    for k, one in enumerate(found, 1):
        message, mark, end = one.message.partition("; the file has: ")
        lines.append(f"{k}. {message}")
        if one.hint and one.hint not in hints:
            lines.append(f"   {one.hint}")
            hints.append(one.hint)
        if mark and end not in ends:
            ends.append(end)
    return [*lines, *(f"The file has: {end}" for end in ends)]
