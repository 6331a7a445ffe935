"""Lin & Fang's tables I-V and VII line by line: what is printed, how often it is done, and the traced lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mindyn.papers.counting import Counts
from mindyn.papers.operation_tables import FANG_DENSE
from mindyn.papers.traced_robots import ON_HAND, formulation_chain, moments_chain

Entry = tuple[str, Counts, Callable[[int], int]]
"""A line as printed: what, its operations, and how often it is done at n joints."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of one table that are traced under one label, for one type of manipulator.

    label    of the traced lines; f and t of formulations 1 and 5 are traced as one
    entries  as printed
    saved    what is printed but not counted, at n joints, and why
    """

    table: str
    kind: int
    label: str
    entries: tuple[Entry, ...]
    saved: Callable[[int], Counts] = lambda _: Counts()
    why: str = ""

    def printed(self, n: int) -> Counts:
        """The sum of the entries at n joints."""
        total = Counts()
        for _, each, times in self.entries:
            total = total + times(n) * each
        return total


def _pairs(n: int) -> int:
    return n * (n - 1) // 2


def _far(n: int) -> int:
    """Pairs j, k with k >= j + 2."""
    return _pairs(n - 1)


def _inner(n: int) -> int:
    """i = 4 .. n, j = 2 .. i - 2."""
    return _pairs(n - 2)


COLUMN = "u_i in frame n is charged as a product, but it is a column of the rotation"
FIRST = "for i = n - 1, l_n and V_n are zero, which the printed total uses and the line does not say"
TWICE = "2 sin(beta) is a constant, and its product is charged with every turned tensor"
FLAT = "h x u of the prismatic joint takes 4M 1A, since u_x = 0; 8M 5A are charged"


def _always(times: int) -> Callable[[int], int]:
    return lambda _: times


def _saved(counts: Counts) -> Callable[[int], Counts]:
    return lambda _: counts


def _all_but(fewer: int) -> Callable[[int], int]:
    return lambda n: n - fewer


_once = _always(1)


def _shared() -> tuple[Entry, ...]:
    """What tables I and V end with."""
    return (
        ("f_j,i", Counts(8, 4), _inner),
        ("t_j,i", Counts(12, 8), _inner),
        ("t_1,i", Counts(14, 10), _all_but(2)),
    )


def fang_lines() -> Iterator[Lines]:
    """Every line that costs something, of both types: all rotational, and joint 3 translational."""
    for kind in (1, 2):
        t = kind - 1  # translational joints
        first = [
            ("f_i-1,i", Counts(6, 2), _all_but(2 + t)),
            ("t_i-1,i, K*", Counts(12, 8), _all_but(2 + t)),
            ("t_i-1,i, K", Counts(8, 6), _always(t)),
            ("t_1,2", Counts(12, 8), _once),
        ]
        yield Lines("Table I", kind, "t", (*first, *_shared()))
        yield Lines("Table I", kind, "s_2", (("s in frame 2", Counts(2, 0), _once),))
        turning = lambda n, t=t: _far(n) - t * (n - 4)  # noqa: E731 - lines of joint 3 fall away
        yield Lines("Table II", kind, "u", (("u_j in frame k", Counts(8, 4), _far),))
        yield Lines("Table II", kind, "s", (("s_j in frame k", Counts(8, 6), turning),))
        yield Lines("Table II", kind, "D", _pair_entries(t, Counts(7, 6), Counts(4, 3)))
        swings = (("first s^", Counts(4, 2), _all_but(1 + t)), ("s^_j in frame k", Counts(12, 8), turning))
        yield Lines("Table III", kind, "u", (("u_j in frame k", Counts(8, 4), _far),))
        yield Lines("Table III", kind, "swing", swings)
        yield Lines("Table III", kind, "D", _pair_entries(t, Counts(5, 4), Counts(3, 2)))
        yield from _table_iv(kind, t)
        yield Lines("Table V", kind, "f", (("f_i-1,i", Counts(4, 4), _all_but(1 + t)),))
        moments = (
            ("t_i-1,i, K*", Counts(14, 10), _all_but(1 + t)),
            ("t_i-1,i, K", Counts(8, 5), _always(t)),
        )
        flat = {1: Counts(), 2: Counts(4, 4)}[kind]
        yield Lines("Table V", kind, "t", (*moments, *_shared()), _saved(flat), FLAT if t else "")
        yield from _table_vii(kind, t)


def _pair_entries(t: int, both: Counts, onto: Counts) -> tuple[Entry, ...]:
    """D_ji of two rotational joints; of joint 3 with those behind it and those before it."""
    return (
        ("D, K*_j K*_i", both, lambda n, t=t: _pairs(n - t)),
        ("D, K_j K*_i", Counts(2, 1), lambda n, t=t: t * (n - 3)),
        ("D, K*_j K_i", onto, _always(2 * t)),
    )


def _table_iv(kind: int, t: int) -> Iterator[Lines]:
    yield Lines("Table IV", kind, "iRn", (("iRn", Counts(24, 12), _all_but(2)),))
    charged: Entry = ("u_i in frame n", Counts(8, 4), _all_but(2))
    yield Lines("Table IV", kind, "u", (charged,), lambda n: (n - 2) * Counts(8, 4), COLUMN)
    arms: tuple[Entry, ...] = (("last s", Counts(2, 0), _once), ("s in frame n", Counts(6, 3), _all_but(2)))
    yield Lines("Table IV", kind, "s", arms)
    for label, turns, slides in (("f_ii", Counts(6, 3), Counts(3, 0)), ("t_ii", Counts(9, 6), Counts(6, 3))):
        own: tuple[Entry, ...] = (
            (f"{label}, K*", turns, _all_but(2 + t)),
            (f"{label}, K", slides, _always(t)),
        )
        yield Lines("Table IV", kind, label, own)
    yield Lines("Table IV", kind, "t", (("t_j,i", Counts(6, 6), _pairs),))
    yield Lines("Table IV", kind, "D", (("D_ji", Counts(3, 2), _pairs),))


def _table_vii(kind: int, t: int) -> Iterator[Lines]:
    first_l: tuple[Entry, ...] = (
        ("l, K*", Counts(8, 4), _all_but(1 + t)),
        ("l, K", Counts(9, 5), _always(t)),
    )
    yield Lines("Table VII", kind, "l", first_l, lambda _: Counts(2, 2), FIRST)
    inner: tuple[Entry, ...] = (
        ("X, K*", Counts(3, 6), _all_but(1 + t)),
        ("X, K", Counts(4, 5), _always(t)),
    )
    yield Lines("Table VII", kind, "X", inner, lambda _: Counts(3, 6), FIRST)
    turned: tuple[Entry, ...] = (("Y", Counts(18, 14), _all_but(2)), ("Y_33, i = s - 1", Counts(10, 5), _once))
    yield Lines("Table VII", kind, "Y", turned, lambda n: Counts(n - 2, 0), TWICE)
    shifted: tuple[Entry, ...] = (("V", Counts(3, 4), _all_but(2)), ("V_33, i = s - 1", Counts(1, 1), _once))
    yield Lines("Table VII", kind, "V", shifted)
    sums: tuple[Entry, ...] = (
        ("c^, K*", Counts(0, 2), _all_but(1 + t)),
        ("c^, K", Counts(0, 3), _always(t)),
    )
    yield Lines("Table VII", kind, "c", sums)
    tensors: tuple[Entry, ...] = (("J^", Counts(0, 3), _all_but(2 + t)), ("J^_33, i < s", Counts(0, 1), _once))
    yield Lines("Table VII", kind, "J", tensors)


FORMULATIONS = {"Table I": 1, "Table II": 2, "Table III": 3, "Table IV": 4, "Table V": 5}


def traced_lines(table: str, kind: int, n: int) -> dict[str, Counts]:
    """Counts of the traced equations of a table by label; 2 x is a multiplication, as in the print."""
    slide = None if kind == 1 else 2
    if table == "Table VII":
        tape = moments_chain(n, slide=slide, dense={"X"}).tape
    else:
        tape = formulation_chain(FORMULATIONS[table], n, slide=slide, dense=FANG_DENSE).tape
    return {label: counts for label, counts in tape.by_line("mul").items() if label not in ON_HAND}
