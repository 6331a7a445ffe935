"""Lin & Fang 1999: the counts of tables I to VIII, and which formulation is the cheapest for which n."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mindyn.papers.counting import Counts
from mindyn.papers.drawing import line_drawing
from mindyn.papers.lin_fang_lines import fang_lines, traced_lines
from mindyn.papers.lin_paper import EXACT, SIZE, explained_row
from mindyn.papers.operation_tables import TABLE_VI, PaperRow, table_vi_rows, table_viii_rows
from mindyn.papers.reproduction import Figure, Reproduction, Row, Table, as_printed, claim_row, count_row, erratum

CITATION = (
    "S.-K. Lin, C.-J. Fang, Efficient formulations for the manipulator inertia matrix in terms of minimal linear "
    "combinations of inertia parameters, 1999"
)
SIZES = range(3, 13)
TABLE_VIII_SIZES = (4, 6, 8)
CONTRADICTED = {(2, 3): "table VI gives formulation 1 60 operations and formulation 2 73 at n = 3"}
TYPES = {1: "all joints rotational", 2: "joint 3 translational"}


def reproduced() -> Reproduction:
    """Every table of the paper, and the choice among the formulations."""
    rows = list(table_vi_rows())
    figures = [_figure(rows, kind) for kind in TYPES]
    return Reproduction(
        "lin-fang", CITATION, (*_line_tables(), _table_vi(rows), _winners(rows), *figures, _table_viii())
    )


def _line_tables() -> list[Table]:
    found: dict[str, list[Row]] = {}
    traced: dict[tuple[str, int], dict[str, Counts]] = {}
    for one in fang_lines():
        key = (one.table, one.kind)
        if key not in traced:
            traced[key] = traced_lines(*key, SIZE)
        entries = ", ".join(f"{what} {each} x {times(SIZE)}" for what, each, times in one.entries if times(SIZE))
        name = f"type {one.kind}: {entries}"
        counted = traced[key].get(one.label, Counts())
        found.setdefault(one.table, []).append(count_row(name, one.printed(SIZE), counted, one.saved(SIZE), one.why))
    titles = {"Table VII": "first moments and inertia tensors"}
    note = f"Lines as printed, with how often they are done at n = {SIZE}; lines without operations are left out."
    return [
        Table(f"{name}: {titles.get(name, f'formulation {number}')}, line by line", EXACT, tuple(rows), note)
        for number, (name, rows) in enumerate(found.items(), start=1)
    ]


def _table_vi(rows: list[PaperRow]) -> Table:
    return Table("Table VI: the five formulations, m^, c^ and J^ on hand", EXACT, tuple(map(explained_row, rows)))


def _table_viii() -> Table:
    """The table prints its formulas at three sizes as well."""
    rows: list[Row] = []
    for one in table_viii_rows():
        rows += [replace(explained_row(replace(one, size=n)), name=f"{one.name}, n = {n}") for n in TABLE_VIII_SIZES]
    formulas = "; ".join(f"{one.name}: {one.printed}" for one in table_viii_rows())
    others = {
        "Kawasaki et al. I, type 1": "11n^2+15n-41 M, 7n^2+32n-66 A; n = 4, 6, 8: 194M 174A, 445M 378A, 783M 638A",
        "Kawasaki et al. II, type 1": "11n^2+9n-35 M, 7n^2+23n-57 A; n = 4, 6, 8: 177M 147A, 415M 333A, 741M 575A",
    }
    rows += [as_printed(name, printed) for name, printed in others.items()]
    note = f"Formulas as printed: {formulas}. Kawasaki's first formula gives 195, not 194, multiplications at n = 4."
    return Table("Table VIII: first moments and inertia tensors from MLC included", EXACT, tuple(rows), note)


def _total(counts: Counts) -> int:
    return counts.multiplications + counts.additions


def _cheapest(kind: int, counts: dict[tuple[int, int], Counts]) -> list[int]:
    totals = {number: _total(counts[number, kind]) for number in range(1, 6)}
    least = min(totals.values())
    return [number for number, total in totals.items() if total == least]


def _counted(rows: list[PaperRow], n: int) -> dict[tuple[int, int], Counts]:
    return {key: row.live(n) for key, row in zip(TABLE_VI, rows, strict=True)}


def _winners(rows: list[PaperRow]) -> Table:
    """The paper's statements on which formulation is the best, by its own formulas; and by the traced equations."""
    printed = {n: {key: formula(n) for key, (formula, _) in TABLE_VI.items()} for n in SIZES}
    said = {
        **{(1, n): 2 if n <= 4 else 1 for n in SIZES if n <= 11},
        **{(2, n): 2 if n <= 8 else 1 for n in SIZES if n <= 11},
    }
    found = []
    for (kind, n), claimed in said.items():
        by_print = _cheapest(kind, printed[n])
        by_trace = _cheapest(kind, _counted(rows, n))
        note = f"by the traced equations without dead code: {', '.join(map(str, by_trace))}"
        name, text, shown = (
            f"type {kind}, n = {n}",
            f"formulation {claimed}",
            f"formulation {', '.join(map(str, by_print))}",
        )
        if (kind, n) in CONTRADICTED:
            found.append(erratum(name, text, shown, CONTRADICTED[kind, n]))
        else:
            found.append(claim_row(name, text, shown, claimed in by_print, note))
    return Table(
        "Section 2: the formulation with the fewest operations",
        "the formulation that the text names has the fewest operations by the printed formulas",
        tuple(found),
    )


def _figure(rows: list[PaperRow], kind: int) -> Figure:
    sizes = np.array(list(SIZES))
    curves = {
        f"formulation {number}": (
            sizes.astype(float),
            np.array([_total(_counted(rows, int(n))[number, kind]) / n for n in sizes]),
        )
        for number in range(1, 6)
    }
    drawing = line_drawing(curves, "n", "multiplications and additions a joint")
    title = f"Operations of the inertia matrix a joint, {TYPES[kind]}"
    return Figure(f"lin-fang-type-{kind}", title, drawing, "Traced equations without dead code, m^, c^ and J^ on hand.")
