"""Tables with the paper's number, ours and the difference, and redrawn figures.

Line drawings as SVG: axes with round numbers, and curves with their names at the end; no external resources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from math import ceil, floor, log10
from textwrap import wrap
from typing import Literal

import numpy as np

from mindyn.algebra.values import Array
from mindyn.escaping import TERMINAL_COLUMNS
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
    def compare(name: str, printed: float, ours: float, tolerance: float, note: str = "", *, form: str) -> Row:
        """Compare a number with the printed one."""
        within = abs(ours - printed) <= tolerance
        difference = f"{ours - printed:+.2g}"
        return Row(name, f"{printed:{form}}", f"{ours:{form}}", difference, "within" if within else "OUTSIDE", note)

    @staticmethod
    def count(name: str, printed: Counts, counted: Counts, explained: Counts, note: str = "", formula: str = "") -> Row:
        """Compare operations with the printed ones; they agree if the note explains the difference."""
        difference = printed - counted
        shown = f"{formula} = {printed}" if formula else str(printed)
        verdict: Verdict = "within" if difference == explained else "OUTSIDE"
        return Row(name, shown, str(counted), signed(difference), verdict, note)

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
        return Row(name, printed, ours, "" if holds else "differs", "within" if holds else "OUTSIDE", note)


@dataclass(frozen=True, slots=True)
class PaperTable:
    """Rows of a printed table, with the tolerance within which a row counts as reproduced."""

    title: str
    tolerance: str
    rows: tuple[Row, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A redrawn figure: `name` is its file without suffix, `svg` its text."""

    name: str
    title: str
    svg: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """All tables and figures of a paper."""

    paper: str
    citation: str
    parts: tuple[PaperTable | Figure, ...]

    @property
    def tables(self) -> list[PaperTable]:
        """The tables."""
        return [part for part in self.parts if isinstance(part, PaperTable)]

    @property
    def figures(self) -> list[Figure]:
        """The figures."""
        return [part for part in self.parts if isinstance(part, Figure)]

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
    figures = [f"  {figure.name}.svg: {figure.title}" for figure in reproduction.figures]
    return "\n".join([*parts, *(["", "Figures (written with --out)", *figures] if figures else [])])


def _wrap_text(text: str, indent: str) -> list[str]:
    return wrap(text, TERMINAL_COLUMNS.get() or 110, initial_indent=indent, subsequent_indent=indent)


def format_markdown(reproductions: Sequence[Reproduction], figures: str) -> str:
    """Format a page of the documentation; `figures` is the folder of the drawings."""
    parts = ["---", "hide:", "  - toc", "---", "", "# Tables and figures of the five papers", "", *INTRODUCTION]
    for reproduction in reproductions:
        parts += ["", f"## {reproduction.citation}"]
        for part in reproduction.parts:
            parts += ["", f"### {part.title}", ""]
            parts += _figure(part, figures) if isinstance(part, Figure) else _table(part)
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


def _figure(figure: Figure, folder: str) -> Iterable[str]:
    yield f"![{figure.title}]({folder}/{figure.name}.svg)"
    if figure.note:
        yield ""
        yield figure.note


def to_data(reproduction: Reproduction) -> dict[str, object]:
    """Return a reproduction as data for JSON."""
    figures = [{"name": figure.name, "title": figure.title, "note": figure.note} for figure in reproduction.figures]
    return {
        "paper": reproduction.paper,
        "citation": reproduction.citation,
        "tables": [asdict(table) for table in reproduction.tables],
        "figures": figures,
        "outside": reproduction.outside,
    }


WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 360, 74, 150, 14, 44
CURVE_COLOURS = ("#1f6fb2", "#c5512d", "#2f8f4e", "#7d4fa3", "#b38a00", "#4a4a4a", "#d1478c", "#0f8b8d")
MOST_POINTS = 400
"""Points of a curve: more would not be visible."""

Curve = tuple[Array, Array]
"""x and y."""


def draw_lines(
    curves: Mapping[str, Curve], x_title: str, y_title: str, *, logarithmic: bool = False, marks: Sequence[str] = ()
) -> str:
    """Draw the curves by name; with `logarithmic` y in decades; curves named in `marks` as points."""
    every_x = np.concatenate([x for x, _ in curves.values()])
    every_y = np.concatenate([_height(y, logarithmic) for _, y in curves.values()])
    every_y = every_y[np.isfinite(every_y)]
    x_ticks, y_ticks = _ticks(every_x.min(), every_x.max()), _ticks(every_y.min(), every_y.max())
    x_range = (min(x_ticks[0], every_x.min()), max(x_ticks[-1], every_x.max()))
    y_range = (min(y_ticks[0], every_y.min()), max(y_ticks[-1], every_y.max()))
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def place(x: Array, y: Array) -> tuple[Array, Array]:
        across = LEFT + (x - x_range[0]) / (x_range[1] - x_range[0]) * (right - LEFT)
        down = bottom - (y - y_range[0]) / (y_range[1] - y_range[0]) * (bottom - TOP)
        return across, down

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for value in x_ticks:
        (x,), _ = place(np.array([value]), np.array([y_range[0]]))
        parts.append(f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{_label(value)}</text>')
    for value in y_ticks:
        _, (y,) = place(np.array([x_range[0]]), np.array([value]))
        text = _decade(value) if logarithmic else _label(value)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    ends: list[float] = []
    for k, (name, (x, y)) in enumerate(curves.items()):
        step = max(1, len(x) // MOST_POINTS)
        kept = np.unique(np.append(np.arange(0, len(x), step), len(x) - 1))
        across, down = place(np.asarray(x)[kept], _height(np.asarray(y)[kept], logarithmic))
        colour = CURVE_COLOURS[k % len(CURVE_COLOURS)]
        shown = np.isfinite(down)
        if name in marks:
            parts += [
                f'<circle cx="{a:.1f}" cy="{d:.1f}" r="3" fill="{colour}"/>'
                for a, d in zip(across[shown], down[shown], strict=True)
            ]
        else:
            points = " ".join(f"{a:.1f},{d:.1f}" for a, d in zip(across[shown], down[shown], strict=True))
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        height = _separate_height(float(down[shown][-1]), ends)
        ends.append(height)
        parts.append(f'<text x="{right + 7}" y="{height + 4:.1f}" fill="{colour}">{escape(name)}</text>')
    middle = (TOP + bottom) / 2
    parts += [
        f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#444"/>',
        f'<text x="{(LEFT + right) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_title)}</text>',
        f'<text transform="translate(15 {middle:.0f}) rotate(-90)" text-anchor="middle">{escape(y_title)}</text>',
    ]
    return "\n".join([*parts, "</svg>", ""])


def _height(y: Array, logarithmic: bool) -> Array:
    if not logarithmic:
        return np.asarray(y, dtype=float)
    return np.log10(np.where(np.asarray(y) > 0, y, np.nan))


def _ticks(low: float, high: float) -> list[float]:
    """Return about five round numbers that span the range."""
    width = (high - low) or abs(high) or 1.0
    unit = 10.0 ** floor(log10(width / 5))
    step = next(k * unit for k in (1, 2, 5, 10) if width / (k * unit) <= 6)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [k * step for k in range(first, last + 1)]


def _label(value: float) -> str:
    return f"{value:.6g}".replace("-", "−")


def _decade(value: float) -> str:
    return f"{10.0**value:.0e}".replace("e-0", "e−").replace("e+0", "e").replace("e-", "e−").replace("e+", "e")


def _separate_height(height: float, taken: Sequence[float], distance: float = 15.0) -> float:
    """Return the nearest height at which a name does not cover another."""
    for shift in np.arange(0, 60) * distance / 2:
        for candidate in (height - shift, height + shift):
            if all(abs(candidate - other) >= distance for other in taken) and TOP < candidate < HEIGHT - 4:
                return float(candidate)
    return height
