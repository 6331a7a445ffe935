"""The benchmarks page: each benchmark prints its section, and `--record` writes it to docs/benchmarks.md.

Sections are files in benchmarks/records; the page consists of them in order. The module needs only Python, because the
benchmark of the GPU runs on machines without mindyn.

    python -m benchmarks.sections    writes the page again from the records
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from textwrap import fill

RECORDS = Path(__file__).parent / "records"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
ORDER = (
    *(
        "kernels",
        "calls",
        "joints",
        "kernel_goals",
        "gpu",
        "gpu_bridges",
        "rollouts",
        "regression",
        "streaming",
    ),
    *("consistent_fit", "report", "certificate", "excitation_designs", "excitation_deviations", "excitation_peer"),
    "safe_motions",
    *(
        "automatic_choice",
        "identify_cost",
        "residual_dynamics",
        "go2_legs",
        "mujoco_sysid",
        "frameworks",
    ),
)
"""Names of the records in the order of the page."""
HEAD = """# Benchmarks

The command in each section wrote it (with `--record`), on the given machine and day. Programs that are compared ran in
the same run, on the same inputs. `make bench` prints the first two sections for your machine;
`make study NAME=benchmarks` measures all sections except those of the GPU and writes this page.
"""


@dataclass(frozen=True)
class Section:
    """The result of one benchmark.

    name, title  of the record, and of the section
    command      that measures it
    machine      it ran on, and the versions of what it was compared with
    text         paragraphs before the table
    table        rows of cells, the header first; none if empty
    notes        paragraphs after the table
    """

    name: str
    title: str
    command: str
    machine: str
    text: Sequence[str]
    table: Sequence[Sequence[str]] = ()
    notes: Sequence[str] = ()

    def markdown(self) -> str:
        about = f"`{self.command}`, {date.today():%Y-%m-%d}, {self.machine}."
        parts = [f"## {self.title}", *map(_wrapped, (about, *self.text))]
        if self.table:
            parts.append(_table(self.table))
        return "\n\n".join([*parts, *map(_wrapped, self.notes)]) + "\n"


def _wrapped(paragraph: str) -> str:
    return paragraph if paragraph.startswith("!") else fill(paragraph, 120, break_on_hyphens=False)


def _table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns are aligned for readers of a terminal too."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def arguments(about: str) -> argparse.ArgumentParser:
    """A parser with what every benchmark takes."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="put the section into docs/benchmarks.md")
    return parser


def publish(section: Section, *, record: bool) -> None:
    """Print the section; put it into the page where asked."""
    print(section.markdown(), flush=True)
    if record:
        assert section.name in ORDER
        RECORDS.mkdir(exist_ok=True)
        (RECORDS / f"{section.name}.md").write_text(section.markdown(), encoding="utf-8")
        PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The whole page from the records there are."""
    kept = [RECORDS / f"{name}.md" for name in ORDER]
    return "\n".join([HEAD, *(path.read_text(encoding="utf-8") for path in kept if path.is_file())])


def spaced(count: int) -> str:
    """1000000 as 1 000 000."""
    return f"{count:,}".replace(",", " ")


def ratio(times: float, asked: float | None = None) -> str:
    """How many times faster, said to be short where more was asked."""
    message = f"{times:.0f}x" if times >= 100 else f"{times:.3g}x"
    return message if asked is None or times >= asked else f"{message} (short)"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
