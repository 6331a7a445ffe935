"""Print status lines and progress bars on stderr and results on stdout, wrapped to the width of the terminal.

In pipes and files, lines are not wrapped or coloured, tables have their full width, and there are no bars.
"""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, Final, TextIO

import typer

from mindyn.foundation.errors import pluralise
from mindyn.foundation.escaping import HARD_SPACE, keep_units_together
from mindyn.foundation.findings import Finding, Severity
from mindyn.foundation.printable import make_printable

LEAD_COLOURS: Final = {
    **dict.fromkeys(("error:", "error "), "red"),
    **dict.fromkeys(("warning:", "warning ", "note:"), "yellow"),
    **dict.fromkeys(("hint:", "info "), "cyan"),
    "next:": "green",
}
"""First words of status lines and their colours."""
REMEDY_INDENT: Final = " " * 9
"""Indent of the lines of a finding after its first."""
MIN_COLUMNS: Final = 40
NOTHING_WRITTEN: Final = "nothing was written; existing files are unchanged"
_BARS: Final[list[Any]] = []
"""Progress bars on the terminal: status lines are printed above them."""


_LINE_START: Final = re.compile(r"^ *(\d+\. )?")
"""Indent and number of a line in a list: continued lines start below its text."""


def terminal_columns(stream: TextIO) -> int | None:
    """Return the width of the terminal, or of the COLUMNS variable; None if lines need no wrapping."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isdigit() and int(stated) > 0:
        return max(int(stated), MIN_COLUMNS)
    try:
        return max(os.get_terminal_size(stream.fileno()).columns, MIN_COLUMNS) if stream.isatty() else None
    except (OSError, ValueError, AttributeError):
        return None


def wrap_lines(text: str, width: int | None, indent: str = "") -> str:
    """Wrap long lines between words; continued lines start with `indent`."""
    if width is None:
        return text
    blocks = (
        textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]
        for line in keep_units_together(text).splitlines()
    )
    return "\n".join(line.replace(HARD_SPACE, " ") for lines in blocks for line in lines)


def print_status(text: str) -> None:
    """Print a status line on stderr; a first word such as `error:` or `note:` is coloured."""
    for line in make_printable(text, keep="\n").splitlines():
        lead = next((word for word in LEAD_COLOURS if line.startswith(f"{word} ")), "")
        indent = max(2, len(line) - len(_LINE_START.sub("", line)))
        print_status_lines(wrap_lines(line, terminal_columns(sys.stderr), " " * indent), lead)


def print_notes(notes: Iterable[object]) -> None:
    """Print a status line for each note."""
    for note in notes:
        print_status(f"note: {note}")


def print_status_lines(text: str, lead: str = "") -> None:
    """Print lines on stderr without wrapping, above a progress bar; the first word `lead` is coloured."""
    painted = typer.style(lead, fg=LEAD_COLOURS[lead], bold=True) + text.removeprefix(lead) if lead else text
    if _BARS:
        from rich.text import Text

        _BARS[-1].console.print(Text.from_ansi(painted), soft_wrap=True)
    else:
        typer.echo(painted, err=True)  # without colours if stderr is not a terminal


def print_findings(findings: Iterable[Finding], *, verbose: bool = False) -> None:
    """Print errors, warnings and applied delays with their remedy on stderr; infos only if `verbose`.

    A line names the consequences of the printed findings, and another one counts the infos that are not printed.
    """
    unique = list(dict.fromkeys(findings))
    given = [finding for finding in unique if finding.explained_by is None]
    shown = [finding for finding in given if verbose or finding.is_on_first_screen]
    for finding in shown:
        lines = [
            f"{finding.severity:<8} {finding.message}",
            *([REMEDY_INDENT + finding.remedy] if finding.remedy else []),
        ]
        for line in lines:
            wide = wrap_lines(make_printable(line), terminal_columns(sys.stderr), REMEDY_INDENT)
            print_status_lines(wide, f"{finding.severity} " if line is lines[0] else "")
    consequences = [f for f in unique if f.explained_by is not None and f.severity is not Severity.INFO]
    if consequences:
        print_status(f"consequences: {', '.join(dict.fromkeys(finding.kind.value for finding in consequences))}")
    if len(shown) < len(given):
        left = pluralise(len(given) - len(shown), "more finding" if shown else "finding")
        print_status(f"{left} about selected settings and assumptions; pass --verbose to print them")


def print_problems(findings: Iterable[Finding], *, verbose: bool) -> None:
    """Print one line for each kind of warning: what is wrong and how to correct it; errors and `verbose` in full.

    For commands whose kinds of findings say what is wrong, such as "guessed floor".
    """
    unique = list(dict.fromkeys(findings))
    if verbose:
        for finding in unique:
            print_status(f"{finding.severity}: {finding}")
        return
    for finding in (finding for finding in unique if finding.severity is Severity.ERROR):
        print_status(f"error: {finding}")
    lines: dict[tuple[str, str], set[str]] = {}
    for finding in (finding for finding in unique if finding.severity is Severity.WARNING):
        lines.setdefault((finding.kind.value, finding.remedy), set()).update(finding.joints)
    for (kind, remedy), names in lines.items():
        count = f" ({len(names)})" if len(names) > 1 else f" ({next(iter(names))})" if names else ""
        print_status(f"warning: {kind}{count}{f': {remedy}' if remedy else ''}")
    if lines or any(finding.severity is Severity.INFO for finding in unique):
        print_status("pass --verbose for every finding in full")


def print_output(text: str = "", indent: str = "") -> None:
    """Print a result on stdout, wrapped; continued lines start with `indent`."""
    typer.echo(wrap_lines(make_printable(text, keep="\n"), terminal_columns(sys.stdout), indent))


def print_json(value: object, indent: int = 1) -> None:
    """Print a result on stdout as JSON."""
    typer.echo(json.dumps(value, indent=indent))


def print_table(rows: Sequence[Sequence[str]], styles: Sequence[str] = ()) -> None:
    """Print a table on stdout, with cells wrapped to the width of the terminal; the first row is the header.

    styles  styles of the rows on terminals: "green", "yellow", "red", "dim" or empty
    """
    from mindyn.robots.table import wrap_rows

    head, *others = wrap_rows(rows)
    rule = "-" * max(len(line) for lines in (head, *others) for line in lines)
    typer.echo("\n".join([*head, rule]))
    for k, lines in enumerate(others):
        style = styles[k] if k < len(styles) else ""
        how: dict[str, Any] = {"dim": True} if style == "dim" else {"fg": style}
        typer.echo(typer.style("\n".join(lines), **how) if style else "\n".join(lines))


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
        _BARS.append(bar)
        try:
            yield lambda done: bar.update(task, completed=min(done, total))
        finally:
            _BARS.remove(bar)


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
