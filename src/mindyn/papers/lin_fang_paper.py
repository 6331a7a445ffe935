"""Lin & Fang 1999: the counts of tables I to VIII, most line by line, and the cheapest formulation for each n."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, replace
from functools import cache, partial

from mindyn.papers.counting import Counts
from mindyn.papers.lin_paper import JOINT_COUNT, NOTED_TOLERANCE, explained_row
from mindyn.papers.operation_tables import (
    COLUMN_CHARGED,
    FANG_DENSE,
    SLIDE_F5,
    TABLE_VI,
    TABLE_VI_MISPRINTS,
    TABLE_VI_SIZES,
    TWICE,
    CountDifference,
    PaperRow,
    fixed,
    live_counts,
    table_vi_rows,
    table_viii_rows,
)
from mindyn.papers.reproduction import PaperTable, Reproduction, Row
from mindyn.papers.traced_robots import formulation_chain, moments_chain

CITATION = (
    "S.-K. Lin, C.-J. Fang, Efficient formulations for the manipulator inertia matrix in terms of minimal linear "
    "combinations of inertia parameters, 1999"
)
SIZES = range(3, 13)
TABLE_VIII_SIZES = (4, 6, 8)
CONTRADICTED_CLAIMS = {(2, 3): "table VI gives formulation 1 60 operations and formulation 2 73 at n = 3"}


def reproduce() -> Reproduction:
    """Reproduce every table of the paper, and the choice of the best formulation."""
    return Reproduction("lin-fang", CITATION, (*_line_tables(), _table_vi(), _winners(), _table_viii()))


def _line_tables() -> list[PaperTable]:
    tables: dict[str, list[Row]] = {}
    for row in fang_lines():
        tables.setdefault(row.table, []).append(explained_row(row))
    titles = {"Table VII": "first moments and inertia tensors"}
    note = (
        f"Lines as printed, with their number of executions at n = {JOINT_COUNT}; lines without operations are omitted."
    )
    return [
        PaperTable(
            f"{name}: {titles.get(name, f'formulation {number}')}, line by line", NOTED_TOLERANCE, tuple(rows), note
        )
        for number, (name, rows) in enumerate(tables.items(), start=1)
    ]


def _row_at(paper_row: PaperRow, n: int) -> Row:
    return replace(explained_row(replace(paper_row, size=n)), name=f"{paper_row.name}, n = {n}")


def _formulas(rows: Iterable[PaperRow]) -> str:
    return "Formulas as printed: " + "; ".join(f"{row.name}: {row.printed}" for row in rows)


def _table_vi() -> PaperTable:
    """Compare every printed number with the traced lines; a number that its own formula contradicts is an erratum."""
    compared: list[Row] = []
    for paper_row, (_, kind) in zip(table_vi_rows(), TABLE_VI, strict=True):
        for n in TABLE_VI_SIZES[kind]:
            row = _row_at(paper_row, n)
            if misprint := TABLE_VI_MISPRINTS.get((paper_row.name, n)):
                why = f"the printed formula, {paper_row.printed}, gives {row.printed}"
                row = Row.correct(row.name, str(misprint), row.ours, why)
            compared.append(row)
    title = "Table VI: the five formulations, with given m^, c^ and J^"
    return PaperTable(title, NOTED_TOLERANCE, tuple(compared), f"{_formulas(table_vi_rows())}.")


def _table_viii() -> PaperTable:
    """Compare the formulas, which the table also prints at three sizes."""
    others = {
        "Kawasaki et al. I, type 1": "11n^2+15n-41 M, 7n^2+32n-66 A; n = 4, 6, 8: 194M 174A, 445M 378A, 783M 638A",
        "Kawasaki et al. II, type 1": "11n^2+9n-35 M, 7n^2+23n-57 A; n = 4, 6, 8: 177M 147A, 415M 333A, 741M 575A",
    }
    rows = [_row_at(paper_row, n) for paper_row in table_viii_rows() for n in TABLE_VIII_SIZES]
    rows += [Row.quote(name, printed) for name, printed in others.items()]
    note = f"{_formulas(table_viii_rows())}. Kawasaki's first formula gives 195, not 194, multiplications at n = 4."
    return PaperTable(
        "Table VIII: including first moments and inertia tensors from MLC", NOTED_TOLERANCE, tuple(rows), note
    )


def _cheapest(kind: int, counts: dict[tuple[int, int], Counts]) -> list[int]:
    totals = {number: sum(astuple(counts[number, kind])) for number in range(1, 6)}
    least = min(totals.values())
    return [number for number, total in totals.items() if total == least]


def _winners() -> PaperTable:
    """Check the paper's statements on the best formulation, by its own formulas and by the traced equations."""
    printed = {n: {key: formula(n) for key, (formula, _) in TABLE_VI.items()} for n in SIZES}
    claims = {
        **{(1, n): 2 if n <= 4 else 1 for n in SIZES if n <= 11},
        **{(2, n): 2 if n <= 8 else 1 for n in SIZES if n <= 11},
    }
    results = []
    for (kind, n), claimed in claims.items():
        by_print = _cheapest(kind, printed[n])
        by_trace = _cheapest(kind, live_counts(n))
        note = f"by the traced equations without dead code: {', '.join(map(str, by_trace))}"
        name, text = f"type {kind}, n = {n}", f"formulation {claimed}"
        shown = f"formulation {', '.join(map(str, by_print))}"
        if (kind, n) in CONTRADICTED_CLAIMS:
            results.append(Row.correct(name, text, shown, CONTRADICTED_CLAIMS[kind, n]))
        else:
            results.append(Row.check(name, text, shown, claimed in by_print, note))
    return PaperTable(
        "Section 2: the formulation with the fewest operations",
        "the formulation that the text names has the fewest operations by the printed formulas",
        tuple(results),
    )


def _pairs(n: int) -> int:
    return n * (n - 1) // 2


Entry = tuple[str, Counts, Callable[[int, int], int]]
"""A line as printed: its name, its operations, and how often it is executed with n joints, t of them translational."""

COMMON_LINES: tuple[Entry, ...] = (
    ("f_j,i", Counts(8, 4), lambda n, _: _pairs(n - 2)),
    ("t_j,i", Counts(12, 8), lambda n, _: _pairs(n - 2)),
    ("t_1,i", Counts(14, 10), lambda n, _: n - 2),
)
"""The last lines of tables I and V."""


def _by_kind(name: str, turns: Counts, slides: Counts, fewer: int = 1) -> tuple[Entry, ...]:
    """Return a line of all rotational joints but some, and of the translational ones."""
    return (f"{name}, K*", turns, lambda n, t: n - fewer - t), (f"{name}, K", slides, lambda _, t: t)


def _pair_entries(both: Counts, onto: Counts) -> tuple[Entry, ...]:
    """Return D_ji of two rotational joints, and of joint 3 with later and with earlier joints."""
    return (
        ("D, K*_j K*_i", both, lambda n, t: _pairs(n - t)),
        ("D, K_j K*_i", Counts(2, 1), lambda n, t: t * (n - 3)),
        ("D, K*_j K_i", onto, lambda _, t: 2 * t),
    )


def _turning_pairs(n: int, t: int) -> int:
    """Return the number of pairs j, k with k >= j + 2; lines of joint 3 fall away if it is translational."""
    return _pairs(n - 1) - t * (n - 4)


AXES: Entry = ("u_j in frame k", Counts(8, 4), lambda n, _: _pairs(n - 1))

LINES: tuple[tuple[str, str, tuple[Entry, ...]], ...] = (
    (
        "Table I",
        "t",
        (
            ("f_i-1,i", Counts(6, 2), lambda n, t: n - 2 - t),
            *_by_kind("t_i-1,i", Counts(12, 8), Counts(8, 6), fewer=2),
            ("t_1,2", Counts(12, 8), lambda *_: 1),
            *COMMON_LINES,
        ),
    ),
    ("Table I", "s_2", (("s in frame 2", Counts(2, 0), lambda *_: 1),)),
    ("Table II", "u", (AXES,)),
    ("Table II", "s", (("s_j in frame k", Counts(8, 6), _turning_pairs),)),
    ("Table II", "D", _pair_entries(Counts(7, 6), Counts(4, 3))),
    ("Table III", "u", (AXES,)),
    (
        "Table III",
        "swing",
        (("first s^", Counts(4, 2), lambda n, t: n - 1 - t), ("s^_j in frame k", Counts(12, 8), _turning_pairs)),
    ),
    ("Table III", "D", _pair_entries(Counts(5, 4), Counts(3, 2))),
    ("Table IV", "iRn", (("iRn", Counts(24, 12), lambda n, _: n - 2),)),
    ("Table IV", "u", (("u_i in frame n", Counts(8, 4), lambda n, _: n - 2),)),
    ("Table IV", "s", (("last s", Counts(2, 0), lambda *_: 1), ("s in frame n", Counts(6, 3), lambda n, _: n - 2))),
    ("Table IV", "f_ii", _by_kind("f_ii", Counts(6, 3), Counts(3, 0), fewer=2)),
    ("Table IV", "t_ii", _by_kind("t_ii", Counts(9, 6), Counts(6, 3), fewer=2)),
    ("Table IV", "t", (("t_j,i", Counts(6, 6), lambda n, _: _pairs(n)),)),
    ("Table IV", "D", (("D_ji", Counts(3, 2), lambda n, _: _pairs(n)),)),
    ("Table V", "f", (("f_i-1,i", Counts(4, 4), lambda n, t: n - 1 - t),)),
    ("Table V", "t", (*_by_kind("t_i-1,i", Counts(14, 10), Counts(8, 5)), *COMMON_LINES)),
    ("Table VII", "l", _by_kind("l", Counts(8, 4), Counts(9, 5))),
    ("Table VII", "X", _by_kind("X", Counts(3, 6), Counts(4, 5))),
    ("Table VII", "Y", (("Y", Counts(18, 14), lambda n, _: n - 2), ("Y_33, i = s - 1", Counts(10, 5), lambda *_: 1))),
    ("Table VII", "V", (("V", Counts(3, 4), lambda n, _: n - 2), ("V_33, i = s - 1", Counts(1, 1), lambda *_: 1))),
    ("Table VII", "c", _by_kind("c^", Counts(0, 2), Counts(0, 3))),
    ("Table VII", "J", (("J^", Counts(0, 3), lambda n, t: n - 2 - t), ("J^_33, i < s", Counts(0, 1), lambda *_: 1))),
)
"""Every line with operations: its table, the label under which it is traced, and its entries; f and t of formulations 1
and 5 are traced as one.
"""

FIRST_STEP_NOTE = "for i = n - 1, l_n and V_n are zero: the printed total uses this, the line does not"
LINE_DIFFERENCES: dict[tuple[str, str], CountDifference] = {
    ("Table IV", "u"): COLUMN_CHARGED,
    ("Table VII", "l"): CountDifference(FIRST_STEP_NOTE, fixed(2, 2)),
    ("Table VII", "X"): CountDifference(FIRST_STEP_NOTE, fixed(3, 6)),
    ("Table VII", "Y"): TWICE,
}
SLIDE_DIFFERENCES = {("Table V", "t"): SLIDE_F5}
"""Operations that are printed but not counted, for both types, and for type 2 only."""


def fang_lines() -> Iterator[PaperRow]:
    """Return every line with operations, for both types: all rotational, and joint 3 translational."""
    for kind in (1, 2):
        differences = LINE_DIFFERENCES | (SLIDE_DIFFERENCES if kind == 2 else {})
        for table, label, entries in LINES:
            shown = [f"{what} {each} x {times(JOINT_COUNT, kind - 1)}" for what, each, times in entries]
            yield PaperRow(
                table,
                f"type {kind}: {', '.join(text for text in shown if not text.endswith(' x 0'))}",
                partial(_sum_entries, entries, kind),
                partial(_count_line, table, label, kind),
                (differences[table, label],) if (table, label) in differences else (),
                JOINT_COUNT,
            )


def _sum_entries(entries: tuple[Entry, ...], kind: int, n: int) -> Counts:
    return sum((times(n, kind - 1) * each for _, each, times in entries), Counts())


def _count_line(table: str, label: str, kind: int, n: int) -> Counts:
    return _traced_lines(table, kind, n).get(label, Counts())


FORMULATION_OF_TABLE = {"Table I": 1, "Table II": 2, "Table III": 3, "Table IV": 4, "Table V": 5}


@cache
def _traced_lines(table: str, kind: int, n: int) -> dict[str, Counts]:
    """Count the traced equations of a table by label; 2 x is a multiplication, as in the print."""
    if table == "Table VII":
        return moments_chain(kind, n).by_line("mul")
    return formulation_chain(FORMULATION_OF_TABLE[table], kind, n, dense=FANG_DENSE).by_line("mul")
