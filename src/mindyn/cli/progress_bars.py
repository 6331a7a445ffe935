"""Progress bars on stderr; nothing is printed if stderr is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from mindyn.cli.printing import print_status

Advance = Callable[[int], None]
"""Called with the number of finished steps."""


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Advance]:
    """Show a bar of `total` steps with the remaining time until the work ends."""
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
    """Progress callback that counts each message as a step, and prints it if `verbose`."""

    advance: Advance
    verbose: bool
    count: int = field(default=0)

    def __call__(self, line: str) -> None:
        """Count one step."""
        self.count += 1
        self.advance(self.count)
        if self.verbose:
            print_status(line)


@contextmanager
def count_messages(label: str, steps: int, *, verbose: bool) -> Iterator[MessageProgress]:
    """Yield a callback for `progress=` of functions that send about `steps` messages."""
    with progress_bar(label, steps) as advance:
        yield MessageProgress(advance, verbose)
