"""Errors of logs: `LogError`, findings that a caller may accept by name, and a collector of several errors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final, TypeVar

from mindyn.errors import Code, MindynError
from mindyn.findings import Finding, Kind, info
from mindyn.hints import Command

ACCEPTABLE_FINDINGS: Final = ("degrees", "milli", "velocity", "target", "stamps", "rate", "restarts")
"""Names of findings that raise an error unless the caller accepts them: positions that look like degrees, torques a
thousand times too large or too small, velocities that are not the derivative of the positions, targets in another unit
than the positions, many repeated stamps, an implausible rate, and a time that goes back because a new recording
begins."""

T = TypeVar("T")


class LogError(MindynError):
    """A log cannot be used: wrong format, columns that do not match, invalid time stamps, wrong units, ..."""


def require_accepted(name: str, accepted: Collection[str], message: str, hint: str) -> Finding:
    """Return the message as a finding if the user accepts it by name; raise `LogError` otherwise."""
    if name in accepted:
        return info(Kind.ACCEPTED, f"accepted: {message}")
    code = Code.DUPLICATE if name == "stamps" else Code.WRONG_UNIT
    raise LogError(message, hint=f'{hint}; if the log is correct, set accept = ["{name}"]', code=code, subject=name)


class FaultCollector:
    """Collector of the errors of independent steps.

    A single error is raised unchanged; several errors are raised as one, so that a user can fix them all at once.
    """

    def __init__(self, errors: Iterable[MindynError] = ()) -> None:
        self.errors = list(errors)

    def collect(self, step: Callable[[], T]) -> T | None:
        """Return the result of a step; if it raises, keep the error and return None."""
        try:
            return step()
        except MindynError as error:
            is_known = error.message in [known.message for known in self.errors]
            missing = [known.subject for known in self.errors if known.code is Code.MISSING_VALUE]
            if not (is_known or (error.code is Code.MISSING_VALUE and error.subject in missing)):
                self.errors.append(error)
            return None

    def raise_all(self, where: str, log: object = "LOG") -> None:
        """Raise the collected errors, if any; `where` names the sidecar file or the call."""
        for error in self.errors:
            error.fill_command(LOG=log)
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            first = self.errors[0]
            raise LogError(
                "\n".join([f"the metadata of {where} has {len(self.errors)} errors:", *_format_faults(self.errors)]),
                hint="draft what is missing",
                command=Command("log", log, "ROBOT"),
                code=first.code,
                subject=first.subject,
            )


def _format_faults(errors: list[MindynError]) -> list[str]:
    """Number the errors and add their hints; print a list of columns that several errors share only once."""
    lines, ends, hints = [], [], []
    for k, error in enumerate(errors, 1):
        message, mark, end = error.message.partition("; the file has: ")
        lines.append(f"{k}. {message}")
        if error.hint and error.hint not in hints:
            lines.append(f"   {error.hint}")
            hints.append(error.hint)
        if mark and end not in ends:
            ends.append(end)
    return [*lines, *(f"The file has: {end}" for end in ends)]
