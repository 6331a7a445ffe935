"""Lin & Fang 1999: the counts of tables I to VIII, most line by line, and the cheapest formulation for each n."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from mindyn.papers.counting import Counts
from mindyn.papers.lin_paper import JOINT_COUNT, NOTED_TOLERANCE, explained_row
from mindyn.papers.operation_tables import (
    COLUMN_NOTE,
    FANG_DENSE,
    SLIDE_F5,
    TABLE_VI,
    TABLE_VI_MISPRINTS,
    TABLE_VI_SIZES,
    TWICE,
    PaperRow,
    live_counts,
    table_vi_rows,
    table_viii_rows,
)
from mindyn.papers.reproduction import PaperTable, Reproduction, Row
from mindyn.papers.traced_robots import GIVEN_LINES, formulation_chain, moments_chain

CITATION = (
    "S.-K. Lin, C.-J. Fang, Efficient formulations for the manipulator inertia matrix in terms of minimal linear "
    "combinations of inertia parameters, 1999"
)
SIZES = range(3, 13)
TABLE_VIII_SIZES = (4, 6, 8)
CONTRADICTED_CLAIMS = {(2, 3): "table VI gives formulation 1 60 operations and formulation 2 73 at n = 3"}
Entry = tuple[str, Counts, Callable[[int], int]]
"""A line as printed: its name, its operations, and how often it is executed at n joints."""


def reproduce() -> Reproduction:
    """Reproduce every table of the paper, and the choice of the best formulation."""
    rows = list(table_vi_rows())
    return Reproduction("lin-fang", CITATION, (*_line_tables(), _table_vi(rows), _winners(), _table_viii()))


def _line_tables() -> list[PaperTable]:
    tables: dict[str, list[Row]] = {}
    traced: dict[tuple[str, int], dict[str, Counts]] = {}
    for lines in fang_lines():
        key = (lines.table, lines.kind)
        if key not in traced:
            traced[key] = traced_lines(*key, JOINT_COUNT)
        entries = ", ".join(
            f"{what} {each} x {times(JOINT_COUNT)}" for what, each, times in lines.entries if times(JOINT_COUNT)
        )
        name = f"type {lines.kind}: {entries}"
        counted = traced[key].get(lines.label, Counts())
        tables.setdefault(lines.table, []).append(
            Row.count(name, lines.printed(JOINT_COUNT), counted, lines.saved(JOINT_COUNT), lines.why)
        )
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


def _table_vi(rows: list[PaperRow]) -> PaperTable:
    """Compare every printed number with the traced lines; a number that its own formula contradicts is an erratum."""
    compared: list[Row] = []
    for paper_row, (_, kind) in zip(rows, TABLE_VI, strict=True):
        for n in TABLE_VI_SIZES[kind]:
            row = replace(explained_row(replace(paper_row, size=n)), name=f"{paper_row.name}, n = {n}")
            if misprint := TABLE_VI_MISPRINTS.get((paper_row.name, n)):
                why = f"the printed formula, {paper_row.printed}, gives {row.printed}"
                row = Row.correct(row.name, str(misprint), row.ours, why)
            compared.append(row)
    formulas = "; ".join(f"{paper_row.name}: {paper_row.printed}" for paper_row in rows)
    title = "Table VI: the five formulations, with given m^, c^ and J^"
    return PaperTable(title, NOTED_TOLERANCE, tuple(compared), f"Formulas as printed: {formulas}.")


def _table_viii() -> PaperTable:
    """Compare the formulas, which the table also prints at three sizes."""
    rows: list[Row] = []
    for paper_row in table_viii_rows():
        rows += [
            replace(explained_row(replace(paper_row, size=n)), name=f"{paper_row.name}, n = {n}")
            for n in TABLE_VIII_SIZES
        ]
    formulas = "; ".join(f"{paper_row.name}: {paper_row.printed}" for paper_row in table_viii_rows())
    others = {
        "Kawasaki et al. I, type 1": "11n^2+15n-41 M, 7n^2+32n-66 A; n = 4, 6, 8: 194M 174A, 445M 378A, 783M 638A",
        "Kawasaki et al. II, type 1": "11n^2+9n-35 M, 7n^2+23n-57 A; n = 4, 6, 8: 177M 147A, 415M 333A, 741M 575A",
    }
    rows += [Row.quote(name, printed) for name, printed in others.items()]
    note = f"Formulas as printed: {formulas}. Kawasaki's first formula gives 195, not 194, multiplications at n = 4."
    return PaperTable(
        "Table VIII: including first moments and inertia tensors from MLC", NOTED_TOLERANCE, tuple(rows), note
    )


def _total(counts: Counts) -> int:
    return counts.multiplications + counts.additions


def _cheapest(kind: int, counts: dict[tuple[int, int], Counts]) -> list[int]:
    totals = {number: _total(counts[number, kind]) for number in range(1, 6)}
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
        name, text, shown = (
            f"type {kind}, n = {n}",
            f"formulation {claimed}",
            f"formulation {', '.join(map(str, by_print))}",
        )
        if (kind, n) in CONTRADICTED_CLAIMS:
            results.append(Row.correct(name, text, shown, CONTRADICTED_CLAIMS[kind, n]))
        else:
            results.append(Row.check(name, text, shown, claimed in by_print, note))
    return PaperTable(
        "Section 2: the formulation with the fewest operations",
        "the formulation that the text names has the fewest operations by the printed formulas",
        tuple(results),
    )


@dataclass(frozen=True, slots=True)
class TableLines:
    """Lines of a table that are traced under one label, for one type of manipulator.

    label    of the traced lines; f and t of formulations 1 and 5 are traced as one
    entries  as printed
    saved    operations that are printed but not counted, at n joints, and why
    """

    table: str
    kind: int
    label: str
    entries: tuple[Entry, ...]
    saved: Callable[[int], Counts] = lambda _: Counts()
    why: str = ""

    def printed(self, n: int) -> Counts:
        """Return the sum of the entries at n joints."""
        total = Counts()
        for _, each, times in self.entries:
            total = total + times(n) * each
        return total


def _pairs(n: int) -> int:
    return n * (n - 1) // 2


def _far(n: int) -> int:
    """Return the number of pairs j, k with k >= j + 2."""
    return _pairs(n - 1)


def _inner(n: int) -> int:
    """Return the number of pairs i = 4 .. n, j = 2 .. i - 2."""
    return _pairs(n - 2)


FIRST_STEP_NOTE = "for i = n - 1, l_n and V_n are zero: the printed total uses this, the line does not"


def _always(times: int) -> Callable[[int], int]:
    return lambda _: times


def _saved(counts: Counts) -> Callable[[int], Counts]:
    return lambda _: counts


def _all_but(fewer: int) -> Callable[[int], int]:
    return lambda n: n - fewer


_once = _always(1)


def _common_lines() -> tuple[Entry, ...]:
    """Return the last lines of tables I and V."""
    return (
        ("f_j,i", Counts(8, 4), _inner),
        ("t_j,i", Counts(12, 8), _inner),
        ("t_1,i", Counts(14, 10), _all_but(2)),
    )


def fang_lines() -> Iterator[TableLines]:
    """Return every line with operations, for both types: all rotational, and joint 3 translational."""
    for kind in (1, 2):
        t = kind - 1  # translational joints
        first = [
            ("f_i-1,i", Counts(6, 2), _all_but(2 + t)),
            *_by_kind("t_i-1,i", Counts(12, 8), Counts(8, 6), t, fewer=2),
            ("t_1,2", Counts(12, 8), _once),
        ]
        yield TableLines("Table I", kind, "t", (*first, *_common_lines()))
        yield TableLines("Table I", kind, "s_2", (("s in frame 2", Counts(2, 0), _once),))
        turning = lambda n, t=t: _far(n) - t * (n - 4)  # noqa: E731 - lines of joint 3 fall away
        yield TableLines("Table II", kind, "u", (("u_j in frame k", Counts(8, 4), _far),))
        yield TableLines("Table II", kind, "s", (("s_j in frame k", Counts(8, 6), turning),))
        yield TableLines("Table II", kind, "D", _pair_entries(t, Counts(7, 6), Counts(4, 3)))
        swings = (("first s^", Counts(4, 2), _all_but(1 + t)), ("s^_j in frame k", Counts(12, 8), turning))
        yield TableLines("Table III", kind, "u", (("u_j in frame k", Counts(8, 4), _far),))
        yield TableLines("Table III", kind, "swing", swings)
        yield TableLines("Table III", kind, "D", _pair_entries(t, Counts(5, 4), Counts(3, 2)))
        yield from _table_iv(kind, t)
        yield TableLines("Table V", kind, "f", (("f_i-1,i", Counts(4, 4), _all_but(1 + t)),))
        moments = _by_kind("t_i-1,i", Counts(14, 10), Counts(8, 5), t)
        flat = {1: Counts(), 2: Counts(4, 4)}[kind]
        yield TableLines("Table V", kind, "t", (*moments, *_common_lines()), _saved(flat), SLIDE_F5 if t else "")
        yield from _table_vii(kind, t)


def _by_kind(name: str, turns: Counts, slides: Counts, t: int, fewer: int = 1) -> tuple[Entry, ...]:
    """Return a line of all rotational joints but some, and of the translational ones."""
    return (f"{name}, K*", turns, _all_but(fewer + t)), (f"{name}, K", slides, _always(t))


def _pair_entries(t: int, both: Counts, onto: Counts) -> tuple[Entry, ...]:
    """Return D_ji of two rotational joints, and of joint 3 with later and with earlier joints."""
    return (
        ("D, K*_j K*_i", both, lambda n, t=t: _pairs(n - t)),
        ("D, K_j K*_i", Counts(2, 1), lambda n, t=t: t * (n - 3)),
        ("D, K*_j K_i", onto, _always(2 * t)),
    )


def _table_iv(kind: int, t: int) -> Iterator[TableLines]:
    yield TableLines("Table IV", kind, "iRn", (("iRn", Counts(24, 12), _all_but(2)),))
    charged: Entry = ("u_i in frame n", Counts(8, 4), _all_but(2))
    yield TableLines("Table IV", kind, "u", (charged,), lambda n: (n - 2) * Counts(8, 4), COLUMN_NOTE)
    arms: tuple[Entry, ...] = (("last s", Counts(2, 0), _once), ("s in frame n", Counts(6, 3), _all_but(2)))
    yield TableLines("Table IV", kind, "s", arms)
    for label, turns, slides in (("f_ii", Counts(6, 3), Counts(3, 0)), ("t_ii", Counts(9, 6), Counts(6, 3))):
        yield TableLines("Table IV", kind, label, _by_kind(label, turns, slides, t, fewer=2))
    yield TableLines("Table IV", kind, "t", (("t_j,i", Counts(6, 6), _pairs),))
    yield TableLines("Table IV", kind, "D", (("D_ji", Counts(3, 2), _pairs),))


def _table_vii(kind: int, t: int) -> Iterator[TableLines]:
    first_l = _by_kind("l", Counts(8, 4), Counts(9, 5), t)
    yield TableLines("Table VII", kind, "l", first_l, lambda _: Counts(2, 2), FIRST_STEP_NOTE)
    inner = _by_kind("X", Counts(3, 6), Counts(4, 5), t)
    yield TableLines("Table VII", kind, "X", inner, lambda _: Counts(3, 6), FIRST_STEP_NOTE)
    turned: tuple[Entry, ...] = (("Y", Counts(18, 14), _all_but(2)), ("Y_33, i = s - 1", Counts(10, 5), _once))
    yield TableLines("Table VII", kind, "Y", turned, lambda n: Counts(n - 2, 0), TWICE)
    shifted: tuple[Entry, ...] = (("V", Counts(3, 4), _all_but(2)), ("V_33, i = s - 1", Counts(1, 1), _once))
    yield TableLines("Table VII", kind, "V", shifted)
    yield TableLines("Table VII", kind, "c", _by_kind("c^", Counts(0, 2), Counts(0, 3), t))
    tensors: tuple[Entry, ...] = (("J^", Counts(0, 3), _all_but(2 + t)), ("J^_33, i < s", Counts(0, 1), _once))
    yield TableLines("Table VII", kind, "J", tensors)


FORMULATION_OF_TABLE = {"Table I": 1, "Table II": 2, "Table III": 3, "Table IV": 4, "Table V": 5}


def traced_lines(table: str, kind: int, n: int) -> dict[str, Counts]:
    """Count the traced equations of a table by label; 2 x is a multiplication, as in the print."""
    slide = None if kind == 1 else 2
    if table == "Table VII":
        tape = moments_chain(n, slide=slide, dense={"X"}).tape
    else:
        tape = formulation_chain(FORMULATION_OF_TABLE[table], n, slide=slide, dense=FANG_DENSE).tape
    return {label: counts for label, counts in tape.by_line("mul").items() if label not in GIVEN_LINES}
