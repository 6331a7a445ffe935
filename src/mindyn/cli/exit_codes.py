"""Exit codes of the program."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """Exit codes of all commands; `EXIT_CODE_MEANINGS` describes them."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    NO = 3
    INTERRUPTED = 130


EXIT_CODE_MEANINGS: Final[Mapping[ExitCode, str]] = {
    ExitCode.DONE: "success; check, doctor, papers: the answer is yes",
    ExitCode.ERROR: "error, with a message and a hint",
    ExitCode.USAGE: "wrong usage: unknown or missing command, argument or option",
    ExitCode.NO: "check, doctor, papers: the answer is no; identify: the model must not be used (the log cannot "
    "identify the robot, an input seems wrong, or the torque is not explained); "
    "excite, step-by-step plan: the motion is not safe; export: the model is not plausible; "
    "step-by-step plan: some parameters are not identifiable; "
    "payload --wrench: the readings contradict their metadata",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
}

EXIT_CODES_HELP: Final = (
    "Exit codes: " + "; ".join(f"{code.value} {meaning}" for code, meaning in EXIT_CODE_MEANINGS.items()) + "."
)
"""Last paragraph of the help of every command."""
