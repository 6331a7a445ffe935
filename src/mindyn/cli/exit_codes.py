"""Exit codes of the program."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """Exit codes of all commands; `EXIT_CODE_MEANINGS` and `VERDICTS` describe them."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    NO = 3
    INTERRUPTED = 130


EXIT_CODE_MEANINGS: Final[Mapping[ExitCode, str]] = {
    ExitCode.DONE: "success",
    ExitCode.ERROR: "error with a message and a hint",
    ExitCode.USAGE: "wrong usage",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
}
"""Meaning of the codes that every command has."""

VERDICTS: Final[Mapping[str, str]] = {
    "start": "the model must not be used",
    "excite": "no safe motion was found",
    "identify": "the model must not be used",
    "step-by-step": "the plan is not safe, or some parameters are not identifiable",
    "check": "not physically consistent, or not decided",
    "payload": "the readings of the sensor contradict their metadata",
    "papers": "a result differs from the paper",
    "export": "the model is not plausible, or MuJoCo does not confirm it",
    "doctor": "something that mindyn needs does not work",
}
"""Meaning of code 3 (`ExitCode.NO`) for each command that gives a verdict."""


def list_exit_codes(command: str) -> dict[ExitCode, str]:
    """Return the exit codes of a command with their meaning."""
    verdict = {ExitCode.NO: VERDICTS[command]} if command in VERDICTS else {}
    return dict(sorted({**EXIT_CODE_MEANINGS, **verdict}.items()))
