"""What a log can have wrong with it: the error, and the findings a caller may accept by name."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from mindyn.errors import MindynError

FINDINGS: Final = ("degrees", "milli", "velocity", "stamps", "rate", "restarts")
"""Suspicions that refuse a log unless the caller accepts them: positions that look like degrees, torques a thousand
times too large or too small, velocities that are not the derivative of the positions, many repeated stamps, a rate that
no robot is logged at, a time that goes back because a new recording begins there."""


class LogError(MindynError):
    """A log cannot be used: not the format it claims, columns that do not match, impossible time, wrong units, ..."""


def refuse_unless_accepted(finding: str, accepted: Collection[str], message: str, hint: str) -> str:
    """The message as a note when the finding is accepted; a `LogError` otherwise."""
    if finding in accepted:
        return f"accepted: {message}"
    raise LogError(message, hint=f'{hint}; if the log is right as it is, state accept = ["{finding}"]')
