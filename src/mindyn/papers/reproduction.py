"""Tables with the paper's number, ours and the difference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from textwrap import wrap
from typing import Literal

from mindyn.foundation.escaping import TERMINAL_COLUMNS
from mindyn.papers.counting import Counts
from mindyn.robots.table import wrap_rows

Verdict = Literal["within", "OUTSIDE", "as printed", "unpublished", "erratum", "ours"]
"""Within the stated tolerance; outside it; a competitor's row, as the paper gives it; not reproducible, for the reason
in the note; a statement that the paper itself contradicts; a number of ours that the paper does not print.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a printed table, or a number of a paper's text."""

    name: str
    printed: str
    ours: str
    difference: str
    verdict: Verdict
    note: str = ""

    @staticmethod
    def decide(name: str, printed: str, ours: str, difference: str, holds: bool, note: str = "") -> Row:
        """Return a row that is within its tolerance or outside."""
        return Row(name, printed, ours, difference, "within" if holds else "OUTSIDE", note)

    @staticmethod
    def compare(name: str, printed: float, ours: float, tolerance: float, note: str = "", *, form: str) -> Row:
        """Compare a number with the printed one."""
        is_near = abs(ours - printed) <= tolerance
        return Row.decide(name, f"{printed:{form}}", f"{ours:{form}}", f"{ours - printed:+.2g}", is_near, note)

    @staticmethod
    def count(name: str, printed: Counts, counted: Counts, explained: Counts, note: str = "", formula: str = "") -> Row:
        """Compare operations with the printed ones; they agree if the note explains the difference."""
        difference = printed - counted
        shown = f"{formula} = {printed}" if formula else str(printed)
        return Row.decide(name, shown, str(counted), signed(difference), difference == explained, note)

    @staticmethod
    def quote(name: str, printed: str, note: str = "not implemented here; as the paper gives it") -> Row:
        """Return a competitor's row."""
        return Row(name, printed, "", "", "as printed", note)

    @staticmethod
    def leave_open(name: str, printed: str, why: str, ours: str = "") -> Row:
        """Return a row that cannot be reproduced, with the reason."""
        return Row(name, printed, ours, "", "unpublished", why)

    @staticmethod
    def correct(name: str, printed: str, ours: str, why: str) -> Row:
        """Return a row for a statement that the paper contradicts elsewhere."""
        return Row(name, printed, ours, "differs", "erratum", why)

    @staticmethod
    def report(name: str, ours: str, note: str = "") -> Row:
        """Return a row for a number that the paper does not print."""
        return Row(name, "", ours, "", "ours", note)

    @staticmethod
    def check(name: str, printed: str, ours: str, holds: bool, note: str = "") -> Row:
        """Return a row for a statement of the paper, and whether it holds."""
        return Row.decide(name, printed, ours, "" if holds else "differs", holds, note)


@dataclass(frozen=True, slots=True)
class PaperTable:
    """Rows of a printed table, with the tolerance within which a row counts as reproduced."""

    title: str
    tolerance: str
    rows: tuple[Row, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """All tables of a paper."""

    paper: str
    citation: str
    tables: tuple[PaperTable, ...]

    @property
    def outside(self) -> list[str]:
        """Rows that are not within their tolerance, by table and name."""
        return [f"{table.title}: {row.name}" for table in self.tables for row in table.rows if row.verdict == "OUTSIDE"]


def signed(counts: Counts) -> str:
    """Return printed minus counted: `+1M -2A`, or 0."""
    if counts == Counts():
        return "0"
    return f"{counts.multiplications:+d}M {counts.additions:+d}A"


TABLE_HEADER = ("", "paper", "ours", "difference", "")


def format_text(reproduction: Reproduction) -> str:
    """Format a reproduction for a terminal."""
    parts = [reproduction.citation]
    for table in reproduction.tables:
        rows = [TABLE_HEADER, *((r.name, r.printed, r.ours, r.difference, r.verdict) for r in table.rows)]
        head, *lines = wrap_rows(rows, indent=2)
        rule = "-" * max(len(line) for block in (head, *lines) for line in block)
        parts += ["", table.title, *_wrap_text(f"tolerance: {table.tolerance}", "  ")]
        parts += [*(f"  {line}".rstrip() for line in head), f"  {rule}"]
        for row, block in zip(table.rows, lines, strict=True):
            parts += [*(f"  {line}".rstrip() for line in block), *_wrap_text(row.note, "      ")]
        parts += _wrap_text(table.note, "  ")
    return "\n".join(parts)


def _wrap_text(text: str, indent: str) -> list[str]:
    return wrap(text, TERMINAL_COLUMNS.get() or 110, initial_indent=indent, subsequent_indent=indent)


def format_markdown(reproductions: Sequence[Reproduction]) -> str:
    """Format a page of the documentation."""
    parts = ["---", "hide:", "  - toc", "---", "", "# Tables of the five papers", "", *INTRODUCTION]
    for reproduction in reproductions:
        parts += ["", f"## {reproduction.citation}"]
        for table in reproduction.tables:
            parts += ["", f"### {table.title}", "", *_table(table)]
    return "\n".join([*parts, ""])


INTRODUCTION = (
    "Written by `mindyn papers --all --out docs`. *within*: the difference is within the tolerance stated with the",
    "table, or the note explains it; *as printed*: a competitor's row that is not implemented here; *unpublished*:",
    "the paper does not say enough to repeat it; *erratum*: the print contradicts itself; *ours*: not printed in the",
    "paper. M and A are multiplications and additions.",
)


def _table(table: PaperTable) -> Iterable[str]:
    yield f"Tolerance: {table.tolerance}."
    yield ""
    yield "| | paper | ours | difference | | |"
    yield "|---|---|---|---|---|---|"
    for row in table.rows:
        cells = (row.name, row.printed, row.ours, row.difference, row.verdict, row.note)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    if table.note:
        yield ""
        yield table.note


def to_data(reproduction: Reproduction) -> dict[str, object]:
    """Return a reproduction as data for JSON."""
    return {**asdict(reproduction), "outside": reproduction.outside}
