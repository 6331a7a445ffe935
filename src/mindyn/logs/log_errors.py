"""Errors of logs: `LogError`, findings that the user may accept by name, and several errors raised as one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from mindyn.foundation.errors import Code, MindynError
from mindyn.foundation.findings import Finding, Kind, info
from mindyn.foundation.hints import Command

ACCEPTABLE_FINDINGS: Final = ("degrees", "milli", "velocity", "target", "stamps", "rate", "restarts")
"""Names of findings that raise an error unless the caller accepts them: positions that look like degrees, torques a
thousand times too large or too small, velocities that are not the derivative of the positions, targets in another unit
than the positions, many repeated stamps, an implausible rate, and a time that goes back because a new recording
begins."""

NO_TORQUE_HINT: Final = (
    "logs need torques, motor currents or position targets; docs/guides/no-torque-sensor.md explains logs without "
    "torque"
)


class LogError(MindynError):
    """A log cannot be used: wrong format, columns that do not match, invalid time stamps, wrong units, ..."""


def require_accepted(name: str, accepted: Collection[str], message: str, hint: str) -> Finding:
    """Return the message as a finding if the user accepts it by name; raise `LogError` otherwise."""
    if name in accepted:
        return info(Kind.ACCEPTED, f"accepted: {message}")
    code = Code.DUPLICATE if name == "stamps" else Code.WRONG_UNIT
    raise LogError(message, hint=f'{hint}; if the log is correct, set accept = ["{name}"]', code=code, subject=name)


def raise_together(errors: Sequence[LogError], where: str, log: object = "LOG") -> None:
    """If there are errors, raise them as one, so that a user can correct all of them at once.

    A single error is raised unchanged.

    where  names the sidecar file or the call
    """
    for error in errors:
        error.fill_command(LOG=log)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        lines = [f"the metadata of {where} has {len(errors)} errors:"]
        for k, error in enumerate(errors, 1):
            lines.append(f"{k}. {error.message}")
            lines += [f"   {error.hint}"] if error.hint and f"   {error.hint}" not in lines else []
        raise LogError(
            "\n".join(lines),
            hint="draft what is missing",
            command=Command("log", log, "ROBOT"),
            code=errors[0].code,
            subject=errors[0].subject,
        )
