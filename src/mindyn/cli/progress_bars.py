"""Bars on stderr that say how far a command is and how long it will take; nothing where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from mindyn.cli.printing import print_status

Advance = Callable[[int], None]
"""Told how many steps are done."""


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Advance]:
    """A bar of `total` steps with the time that is left; it goes when the work has ended."""
    if not sys.stderr.isatty():
        yield lambda done: None  # noqa: ARG005
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    shown = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn())
    left = (TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=False))
    with Progress(*shown, *left, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=min(done, total))


@dataclass(slots=True)
class MessageProgress:
    """A progress that is told sentences: each counts as one step; with `verbose` it is said as well."""

    advance: Advance
    verbose: bool
    count: int = field(default=0)

    def __call__(self, line: str) -> None:
        """One more step."""
        self.count += 1
        self.advance(self.count)
        if self.verbose:
            print_status(line)


@contextmanager
def count_messages(label: str, steps: int, *, verbose: bool) -> Iterator[MessageProgress]:
    """For `progress=` of functions that say a line now and then, about `steps` in all."""
    with progress_bar(label, steps) as advance:
        yield MessageProgress(advance, verbose)
