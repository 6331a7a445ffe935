"""Print the command for the next step on stderr."""

from __future__ import annotations

import sys
import textwrap
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mindyn.cli.printing import print_status_lines, terminal_columns
from mindyn.foundation.hints import Command

if TYPE_CHECKING:
    from mindyn.robots.loading import RobotOptions


IS_GUIDED: Final[ContextVar[bool]] = ContextVar("IS_GUIDED", default=False)
"""Whether `mindyn start` runs the command, and knows the next one."""


def print_next_command(*words: object) -> None:
    """Print `next: mindyn ...`, wrapped with backslashes so that it can be copied; nothing within `mindyn start`."""
    if IS_GUIDED.get():
        return
    line = f"next: {Command(*words)}"
    width = terminal_columns(sys.stderr)
    if width is not None and len(line) > width:
        pieces = textwrap.wrap(
            line, width - 2, subsequent_indent="      ", break_long_words=False, break_on_hyphens=False
        )
        line = " \\\n".join(pieces)
    print_status_lines(line, "next:")


def format_robot_options(options: RobotOptions, drives: Path | None = None) -> list[str]:
    """Return the robot options as command line words."""
    given = options.to_dict()
    words: list[str] = []
    for key, option in (("lock", "lock"), ("home", "assembly")):
        for name, value in (given[key] or {}).items():
            words += [f"--{option}", f"{name}={value:g}"]
    for name in ("root", "tip"):
        words += [f"--{name}", given[name]] if given[name] is not None else []
    if given["gravity"] is not None:
        words += ["--gravity", *(f"{value:g}" for value in given["gravity"])]
    if given["mount"] is not None:
        mount = given["mount"]
        words += ["--mount", mount if isinstance(mount, str) else " ".join(f"{angle:g}" for angle in mount)]
    words += [] if given["root_joint"] == "fixed" else ["--base", given["root_joint"]]
    words += [] if given["snap"] else ["--no-snap"]
    return [*words, *([] if drives is None else ["--drives", str(drives)])]
