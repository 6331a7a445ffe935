"""`Faults`: all that is wrong with what is stated of a log, told at once instead of one run after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mindyn.errors import MindynError
from mindyn.logs.findings import LogError

T = TypeVar("T")


class Faults:
    """Errors of steps that do not depend on each other; one is raised as it is, several as one."""

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
            raise LogError("\n".join([several, *_lines(self.found)]), hint="mindyn log LOG ROBOT drafts a sidecar file")


def _lines(found: list[MindynError]) -> list[str]:
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
