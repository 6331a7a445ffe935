"""Lin 1995: tables I to III, the savings of section III, and the identification of a Stanford arm (section IV)."""

from __future__ import annotations

import numpy as np

from mindyn.papers.counting import Counts
from mindyn.papers.lin_experiment import stanford_identification
from mindyn.papers.lin_table import table_ii
from mindyn.papers.operation_tables import LIN_DENSE, PaperRow, lin_rows
from mindyn.papers.reproduction import Reproduction, Row, Table, as_printed, claim_row, count_row, not_told
from mindyn.papers.traced_robots import ON_HAND, lin_chain
from mindyn.parameters.gautier_khalil import gautier_khalil_base
from mindyn.parameters.lin import lin_base
from mindyn.robots.loading import load_robot

CITATION = "S.-K. Lin, Minimal linear combinations of the inertia parameters of a manipulator, 1995"
EXACT = "exact, but for operations that the note names"
SAME = 1e-12
SIZE = 6
"""n at which formulas in n are compared."""


def reproduced() -> Reproduction:
    """Every table of the paper."""
    return Reproduction(
        "lin", CITATION, (_table_i(), _table_ii(), _table_iii(), _savings(), *stanford_identification())
    )


def _table_i() -> Table:
    """Lin's constants of a prismatic joint hold the mass behind it, Gautier's do not: one space, two sets."""
    robot = load_robot("stanford")
    one, other = lin_base(robot), gautier_khalil_base(robot)
    T = one.to(other)
    gap = float(np.abs(T @ one.matrix - other.matrix).max())
    said = f"a map of rank {np.linalg.matrix_rank(T)} between sets of {one.count}, to {gap:.0e}"
    row = claim_row("the sets differ, their span does not", "formulas", said, gap < SAME)
    return Table(
        "Table I: the set beside that of Gautier et al.",
        f"{SAME:g} between one set and the other mapped to it, on the Stanford arm",
        (row,),
        "The table prints formulas, no numbers; both are implemented (`lin`, `gautier`) and tested on random chains.",
    )


def _table_ii() -> Table:
    rows = [
        count_row(
            f"{one.column}: {one.line}",
            one.printed,
            one.counted,
            one.printed - one.counted if one.why else Counts(),
            one.why,
        )
        for one in table_ii()
    ]
    return Table("Table II: operations of one joint, in all seven columns and the footnotes", EXACT, tuple(rows))


def _table_iii() -> Table:
    rows = [
        as_printed("Khalil & Kleinfinger", "101n-129 M, 90n-118 A; Stanford 240M 227A, simplified 142M 99A"),
        as_printed("Balafoutis et al.", "93n-69 M, 81n-66 A; no Stanford arm"),
        as_printed("Gautier & Khalil", "92n-127 M, 81n-117 A; Stanford 232M 218A, simplified 142M 99A"),
        *(explained_row(row) for row in lin_rows()),
    ]
    return Table("Table III: operations of inverse dynamics", EXACT, tuple(rows))


def explained_row(row: PaperRow) -> Row:
    """A row of a table of counts, at n = 6 where it is a formula."""
    n = row.size or SIZE
    if row.note:
        return not_told(f"present: {row.name}", str(row.printed(n)), row.note, str(row.counted(n)))
    explained = Counts()
    for one in row.differences:
        explained = explained + one.worth(n)
    why = "; ".join(f"{one.why} ({_short(one.worth(n))})" for one in row.differences)
    return count_row(row.name, row.printed(n), row.counted(n), explained, why, "" if row.size else str(row.printed))


def _short(counts: Counts) -> str:
    return f"{counts.multiplications:+d}M {counts.additions:+d}A"


def _savings() -> Table:
    """Axes parallel or perpendicular: products with R take 4M 2A in place of 8M 4A."""
    rows = []
    for n in (4, 6, 8):
        printed = 5 * (n - 1) * Counts(4, 2) + Counts(2, 1)
        general = lin_chain(n, wrench=True, dense=LIN_DENSE).tape.counts(without=ON_HAND)
        square = lin_chain(n, wrench=True, dense=LIN_DENSE, right_angles=True).tape.counts(without=ON_HAND)
        more = Counts(3 * n - 8, 3 * n - 5)
        why = f"the rule counts products with R; beta = 90 deg also makes s_z = 0 in Omega s, which spares {more} more"
        rows.append(count_row(f"n = {n}: 5(n-1)(4M+2A) + 2M+1A", printed, general - square, Counts() - more, why))
    return Table("Section III: what axes parallel or perpendicular save", EXACT, tuple(rows))
