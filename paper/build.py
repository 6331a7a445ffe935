"""Draw the figures of the paper from the leaderboard and the benchmarks, and build it as HTML: `make paper`.

The figures stay in this folder; the page goes to build/paper. Needs pandoc (apt-get install pandoc).
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
COLOURS = ("#2563eb", "#94a3b8", "#f59e0b")
LEFT, RIGHT, WIDTH, BAR, GAP = 170, 70, 640, 13, 12
"""Pixels: room for names and values, the whole, a bar, and the space between groups."""


METHODS = {"identify": "identify", "pinocchio": "Pinocchio's regressor", "figaroh": "FIGAROH"}
"""Rows of the leaderboard that the paper shows, and their labels."""


def read_table(path: Path) -> list[list[str]]:
    """Return the cells of the first table of a page, its heading first."""
    (table, *_) = re.findall(r"(?:^\|.*\n)+", path.read_text(), re.MULTILINE)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return [rows[0], *rows[2:]]


def rows_of_record(name: str) -> list[list[str]]:
    """Return the cells of the table of a benchmark's record, without its heading."""
    return read_table(ROOT / "benchmarks" / "records" / f"{name}.md")[1:]


def leaderboard_errors() -> dict[str, dict[str, float]]:
    """Return the held-out error in percent of each method on each set."""
    (_, *titles), *rows = read_table(ROOT / "docs" / "leaderboard.md")
    sets = titles[: titles.index("coverage")]
    return {method: dict(zip(sets, map(number_in, cells), strict=False)) for method, *cells in rows}


def number_in(cell: str) -> float:
    """Return the number that a cell begins with."""
    result = re.match(r"[\d.]+", cell)
    if result is None:
        raise ValueError(f"no number in the cell {cell!r}")
    return float(result[0])


def draw_bars(title: str, unit: str, names: Sequence[str], series: dict[str, list[float]], *, decades: bool) -> str:
    """Return an SVG with a group of bars for each name and a bar for each series; `decades`: logarithmic from 1 on."""
    group = BAR * len(series) + GAP
    top, height = 44, 44 + group * len(names)
    largest = max(value for values in series.values() for value in values)

    def length(value: float) -> float:
        part = math.log10(value) / math.log10(largest) if decades else value / largest
        return (WIDTH - LEFT - RIGHT) * part

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"',
        '     font-family="sans-serif" font-size="12">',
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for k, label in enumerate(series):
        x = LEFT + 150 * k
        lines.append(f'<rect x="{x}" y="12" width="12" height="12" fill="{COLOURS[k]}"/>')
        lines.append(f'<text x="{x + 18}" y="22">{label}</text>')
    for i, name in enumerate(names):
        y = top + i * group
        lines.append(f'<text x="{LEFT - 8}" y="{y + group / 2 - 2:.0f}" text-anchor="end">{name}</text>')
        for k, values in enumerate(series.values()):
            wide, place = length(values[i]), y + k * BAR
            lines.append(f'<rect x="{LEFT}" y="{place}" width="{wide:.1f}" height="{BAR - 2}" fill="{COLOURS[k]}"/>')
            lines.append(f'<text x="{LEFT + wide + 5:.1f}" y="{place + 10}" font-size="10">{values[i]:g} {unit}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def figures() -> dict[str, str]:
    """Return the SVG text of every figure by its file name."""
    errors = leaderboard_errors()
    speeds = [row for row in rows_of_record("kernels") if row[0] == "puma560" and "," not in row[1]]
    return {
        "errors.svg": draw_bars(
            "Held-out torque error on measured robots",
            "%",
            list(errors["identify"]),
            {label: list(errors[method].values()) for method, label in METHODS.items()},
            decades=False,
        ),
        "speed.svg": draw_bars(
            "Processor time of one sample of a PUMA 560",
            "ns",
            [row[1] for row in speeds],
            {label: [number_in(row[k]) for row in speeds] for k, label in ((2, "mindyn"), (3, "Pinocchio in C++"))},
            decades=True,
        ),
    }


def build(out: Path) -> None:
    """Write the paper as HTML, with its figures beside it; any warning of pandoc is an error."""
    text = (HERE / "paper.md").read_text()
    for number, label in enumerate(re.findall(r"\\label\{(fig:\w+)\}", text), 1):  # HTML has no \autoref
        text = text.replace(f"\\autoref{{{label}}}", f"Figure {number}").replace(f"\\label{{{label}}}", "")
    text = re.sub(r" \\label\{tab:\w+\}", "", text)
    out.parent.mkdir(parents=True, exist_ok=True)
    command = ["pandoc", "--from", "markdown", "--standalone", "--citeproc", "--fail-if-warnings", "--output", str(out)]
    subprocess.run(command, input=text, text=True, cwd=HERE, check=True)
    for figure in HERE.glob("*.svg"):
        shutil.copy(figure, out.parent)


def main() -> int:
    """Draw and build; 1 if pandoc is missing."""
    for name, text in figures().items():
        (HERE / name).write_text(text)
    if shutil.which("pandoc") is None:
        print("the paper needs pandoc: apt-get install pandoc, or brew install pandoc", file=sys.stderr)
        return 1
    out = ROOT / "build" / "paper" / "paper.html"
    build(out)
    print(f"wrote {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
