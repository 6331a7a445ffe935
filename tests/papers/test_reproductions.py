"""Every number of the papers that is said to be reproduced is within its tolerance, and the page shows all of them."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from mindyn.cli.papers_command import PAGE_FILE, papers
from mindyn.equations import decoupling_rows
from mindyn.equations.identifiability.numeric import numeric_base
from mindyn.equations.identifiability.regressor_rows import Regressors
from mindyn.foundation.algebra.inertia import mass_com_inertia, pseudo_inertia
from mindyn.papers.counting import Counts
from mindyn.papers.lin_fang_paper import fang_lines
from mindyn.papers.lin_paper import slide_operations
from mindyn.papers.paper_catalogue import PAPERS
from mindyn.papers.reproduction import format_markdown
from mindyn.papers.yoshida_paper import samples_needed
from mindyn.papers.yoshida_robot import VALUE_TABLES, yoshida_load, yoshida_values
from mindyn.robots.loading import load_robot

DOCS = Path(__file__).parents[2] / "docs"
OVERVIEW = (DOCS / "papers.md").read_text()


@cache
def reproductions():
    """All papers, reproduced once."""
    return {name: paper.reproduce() for name, paper in PAPERS.items()}


@cache
def page_text():
    """The page of the documentation."""
    return format_markdown(list(reproductions().values()))


@pytest.fixture(params=PAPERS)
def reproduction(request):
    return reproductions()[request.param]


def test_every_number_is_within_its_tolerance(reproduction):
    assert not reproduction.outside
    assert all(
        row.note for table in reproduction.tables for row in table.rows if row.verdict in ("unpublished", "erratum")
    )


def test_the_page_has_every_paper_and_nothing_outside():
    assert all(f"## {paper.citation}" in page_text() for paper in PAPERS.values())
    assert "OUTSIDE" not in page_text()


ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII")


def numbers(text):
    """`tables 1–3, 5` -> the tables, one by one."""
    claimed, kind = set(), ""
    for part in text.split(", "):
        match = re.fullmatch(r"(?:(table)s? )?((?:\d+\.)*)([IVX]+|\d+)(?:–([IVX]+|\d+))?", part)
        kind = match[1] or kind
        order = ROMAN if match[3] in ROMAN else [str(k) for k in range(20)]
        listed = order[order.index(match[3]) : order.index(match[4] or match[3]) + 1]
        claimed |= {(kind, f"{match[2]}{number}") for number in listed}
    return claimed


@pytest.mark.parametrize("paper", PAPERS)
def test_tables_that_the_overview_claims_are_on_the_page(paper):
    """And those of the page are claimed; inputs (ranges, masses, an order of removal) are said to be such."""
    module = f"mindyn/papers/{PAPERS[paper].tables}"
    rows = re.findall(r"^\| (tables? [^|]*) \| [^|]* \| `(\w+)` in `src/([\w/]+)", OVERVIEW, re.MULTILINE)
    claimed = set().union(*(numbers(cell) for cell, _, home in rows if home == module))
    section = page_text().split(f"## {PAPERS[paper].citation}\n")[1].split("\n## ")[0]
    shown = {(kind.lower(), number) for kind, number in re.findall(r"^### (Table) ([\w.]+):", section, re.MULTILINE)}
    ranges = re.findall(r"^### Tables (\d+) to (\d+):", section, re.MULTILINE)
    shown |= {
        ("table", str(number_in_range))
        for first, last in ranges
        for number_in_range in range(int(first), int(last) + 1)
    }
    inputs = re.findall(r"^Tables ([\d, and]+) are inputs", section, re.MULTILINE)
    shown |= {("table", number) for listed in inputs for number in re.findall(r"\d+", listed)}
    assert claimed
    assert claimed == shown


def test_every_value_of_yoshida_s_tables_is_on_the_page():
    tables = [yoshida_values(table) for table in VALUE_TABLES]
    assert len(tables[0]) == 52
    for symbol in tables[0]:
        printed = ", ".join(f"{table[symbol]:.3g}" for table in tables)
        assert f"| {symbol} | {printed} | LS " in page_text()


@pytest.mark.parametrize("n", [4, 7, 11])
def test_lines_of_lin_and_fang_hold_for_every_n(n):
    for line in fang_lines():
        assert line.unexplained(n) == Counts(), f"{line.table}, {line.name}"


def command(*arguments: str):
    app = typer.Typer()
    app.command()(papers)
    return CliRunner().invoke(app, arguments)


def test_the_command_lists_prints_and_writes(tmp_path):
    listed = command()
    assert all(name in listed.stdout for name in PAPERS)
    done = command("angeles", "--out", str(tmp_path))
    assert done.exit_code == 0
    assert "Hollerbach [3], Euler-Lagrange" in done.stdout
    assert (tmp_path / PAGE_FILE).exists()
    data = json.loads(command("angeles", "--json").stdout)
    assert data[0]["outside"] == []
    assert command("nonsense").exit_code != 0
    assert command("lin", "--all").exit_code != 0
    assert command("angeles", "--out", str(tmp_path / "new" / "folder")).exit_code == 0
    assert (tmp_path / "new" / "folder" / PAGE_FILE).exists()


def rows_of_table(title):
    """Cells of a table on the page, whose rows are compared with the command's above."""
    text = page_text().split(f"### {title}")[1].split("\n### ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| |")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


TABLE_VI = (
    ((98, 60), (262, 160), (1022, 620)), ((252, 156), (496, 304), (648, 396)),
    ((90, 66), (265, 190), (1105, 780)), ((231, 160), (472, 326), (627, 433)),
    ((102, 66), (295, 190), (1215, 780)), ((254, 159), (517, 325), (686, 432)),
    ((158, 104), (345, 232), (970, 692)), ((339, 226), (562, 386), (687, 478)),
    ((102, 74), (266, 182), (1016, 662)), ((256, 173), (500, 329), (652, 425)),
)  # fmt: skip
"""As printed: formulations 1 to 5, type 1 at n = 4, 6, 11, then type 2 at n = 6, 8, 9; multiplications, additions."""


def test_table_vi_has_all_sixty_numbers_and_one_misprint():
    rows = rows_of_table("Table VI:")
    assert {row[4] for row in rows} == {"within", "erratum"}
    printed_numbers = [tuple(map(int, re.findall(r"\d+", printed))) for _, printed, *_ in rows]
    assert printed_numbers == [pair for row in TABLE_VI for pair in row]
    (misprint,) = (row for row in rows if row[4] == "erratum")
    assert misprint[:3] == ["formulation 5, type 1, n = 11", "1016M 662A", "1026M 662A"]


def test_moments_before_a_sliding_joint_take_the_printed_operations():
    """[Lin 1995, section III]: 8M 7A leaves out m^ d and its sum with l_z; Gautier's 11M 9A is complete."""
    lin_first, _, gautier_first, _ = slide_operations()
    assert lin_first - Counts(1, 1) == Counts(8, 7)
    assert gautier_first == Counts(11, 9)


def test_three_constraints_leave_23_parameters_and_ten_decouple_the_arm():
    """[Sheu & Walker 1991, section 5.3]."""
    arm = load_robot("five_bar")
    rng = np.random.default_rng(1)
    q = np.column_stack([rng.uniform(-2, 2, (40, 2)), np.zeros(40)])
    q[:, 2] = q[:, 1] - rng.uniform(0.6, 2.5, 40)
    C = decoupling_rows(arm, q)
    base = numeric_base(arm)
    for three in (C[:3], rng.normal(size=(3, base.count)) @ base.matrix):
        assert numeric_base(arm, constraints=three).count == 23
    assert len(C) == 10
    energy = Regressors(arm).energy_rows
    unseen = np.eye(C.shape[1]) - C.T @ C
    for i, j in ((0, 1), (0, 2), (1, 2)):
        first, other = np.tile(np.eye(3)[i], (len(q), 1)), np.tile(np.eye(3)[j], (len(q), 1))
        mixed = energy(q, first + other) - energy(q, first) - energy(q, other) + energy(q, 0 * q)
        assert np.abs(mixed).max() > 0.01
        assert np.abs(mixed @ unseen).max() < 1e-9
    assert numeric_base(arm, constraints=C).count == 16


def test_the_load_of_the_thesis_is_a_body_and_the_page_shows_its_effect():
    """R6 = m c; J5z takes over J6y, and R5y takes over -R6z (section 3.2)."""
    load = yoshida_load()
    mass, centre, _ = mass_com_inertia(load)
    assert mass == 1.6
    assert centre == pytest.approx([-0.07, 0.07, 0.11])
    assert np.linalg.eigvalsh(pseudo_inertia(load))[0] > 0
    added = {row[0]: row[2] for row in rows_of_table("Section 3.2:")}
    expected = {"R6x": load[1], "R6y": load[2], "R5y": -load[3], "J5z": load[6], "J5(x-y)": load[6], "J6z": load[9]}
    for symbol, value in expected.items():
        assert float(added[symbol]) == pytest.approx(value, rel=1e-2)


def test_samples_needed_is_the_end_of_the_last_departure():
    samples = np.arange(1.0, 7.0)
    assert samples_needed(samples, np.array([9.0, 1.0, 3.0, 1.01, 0.99, 1.0])) == 4.0
    assert samples_needed(samples, np.ones(6)) == 1.0
