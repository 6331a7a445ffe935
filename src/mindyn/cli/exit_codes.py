"""How the program ends, as a shell or a script sees it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """The exit codes of all commands; `STATE_MEANINGS` says each in words."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    NO = 3
    INTERRUPTED = 130


EXIT_CODE_MEANINGS: Final[Mapping[ExitCode, str]] = {
    ExitCode.DONE: "done; of check, doctor and papers: the answer is yes",
    ExitCode.ERROR: "an error in what was given or done, said with a hint",
    ExitCode.USAGE: "wrong usage: no such command or option, or one is missing",
    ExitCode.NO: "the answer of check, doctor or papers is no; identify: the log cannot identify the robot; "
    "excite, tests plan: the motion is not safe; tests plan: no test determines some parameters",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
}

EXIT_CODES_HELP: Final = (
    "Exit codes: " + "; ".join(f"{code.value} {says}" for code, says in EXIT_CODE_MEANINGS.items()) + "."
)
"""For the end of every command's help."""
