"""Progress bars on stderr; nothing is printed if stderr is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

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
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=min(done, total))


@contextmanager
def count_messages(label: str, steps: int, *, verbose: bool) -> Iterator[Callable[[str], None]]:
    """Yield a callback for `progress=` of functions that send about `steps` messages; print them if `verbose`."""
    with progress_bar(label, steps) as advance:
        numbers = count(1)

        def talk(line: str) -> None:
            advance(next(numbers))
            if verbose:
                print_status(line)

        yield talk
