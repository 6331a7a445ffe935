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
            lines = [f"{k}. {one.message}" + (f"\n   {one.hint}" if one.hint else "") for k, one in _numbered(self)]
            several = f"{len(lines)} things are wrong with what is stated of {where}:"
            raise LogError("\n".join([several, *lines]), hint="mindyn log LOG ROBOT drafts a sidecar file")


def _numbered(faults: Faults) -> list[tuple[int, MindynError]]:
    return list(enumerate(faults.found, 1))
