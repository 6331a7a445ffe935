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
        "start_up",
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
        "identify_cores",
        "residual_dynamics",
        "go2_legs",
        "servo_methods",
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

    name, title  name of the record, title of the section
    command      command that measures it
    machine      machine, and versions of compared programs
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
        parts = [f"## {self.title}", *map(_wrap, (about, *self.text))]
        if self.table:
            parts.append(_format_table(self.table))
        return "\n\n".join([*parts, *map(_wrap, self.notes)]) + "\n"


def _wrap(paragraph: str) -> str:
    return paragraph if paragraph.startswith("!") else fill(paragraph, 120, break_on_hyphens=False)


def _format_table(rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def arguments(about: str) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the section to docs/benchmarks.md")
    return parser


def publish(section: Section, *, record: bool) -> None:
    """Print the section; write it to the page if `record`."""
    print(section.markdown(), flush=True)
    if record:
        assert section.name in ORDER
        RECORDS.mkdir(exist_ok=True)
        (RECORDS / f"{section.name}.md").write_text(section.markdown(), encoding="utf-8")
        PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page that consists of all records."""
    kept = [RECORDS / f"{name}.md" for name in ORDER]
    return "\n".join([HEAD, *(path.read_text(encoding="utf-8") for path in kept if path.is_file())])


def spaced(count: int) -> str:
    """Format 1000000 as 1 000 000."""
    return f"{count:,}".replace(",", " ")


def ratio(times: float, required: float | None = None) -> str:
    """Format a ratio of times, marked as short if it is below the required one."""
    message = f"{times:.0f}x" if times >= 100 else f"{times:.3g}x"
    return message if required is None or times >= required else f"{message} (short)"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
