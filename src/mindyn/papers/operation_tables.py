"""The papers' operation counts compared with those of the traced equations, with the reasons for differences.

printed(n) = counted(n) + the sum of differences(n): `counted` comes from tracing the equations under the paper's
convention, and each difference is a statement about the print with the number of operations that it explains. The
remainder is zero in every row but one, whose note says what the print leaves open.

Lin's table II: operations of a joint, line by line, in all seven columns, compared with the traced lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from mindyn.equations.mlc_links import mlc_links
from mindyn.papers.counting import Counts
from mindyn.papers.traced_robots import (
    Kind,
    formulation_chain,
    kane_chain,
    lin_chain,
    lin_groups_chain,
    lin_robot,
    moments_chain,
)
from mindyn.parameters.lin import lin_base, lin_structure
from mindyn.robots.loading import load_robot


@dataclass(frozen=True, slots=True)
class CountFormula:
    """Counts as printed: `10n^2 - 18n + 10 M, 6n^2 - 10n + 4 A`."""

    text: str

    def __call__(self, n: int) -> Counts:
        """Return the counts of n joints."""
        sums = [part[:-2].replace(" - ", " + -").split(" + ") for part in self.text.split(", ")]
        return Counts(*(round(sum(_evaluate_term(term, n) for term in terms)) for terms in sums))

    def __str__(self) -> str:
        return self.text


def _evaluate_term(term: str, n: int) -> float:
    factor, symbol, power = term.partition("n")
    degree = int(power.removeprefix("^") or 1) if symbol else 0
    return float(factor) * float(n) ** degree


def linear(m1: int, m0: int, a1: int, a0: int) -> Callable[[int], Counts]:
    """Return m1 n + m0 multiplications, a1 n + a0 additions."""
    return lambda n: Counts(m1 * n + m0, a1 * n + a0)


def fixed(multiplications: int, additions: int) -> Callable[[int], Counts]:
    """Return counts that do not depend on n."""
    return linear(0, multiplications, 0, additions)


@dataclass(frozen=True, slots=True)
class CountDifference:
    """Why a printed count differs from the counted one, and by how much (printed minus counted)."""

    why: str
    worth: Callable[[int], Counts]


@dataclass(frozen=True, slots=True)
class PaperRow:
    """A printed count.

    counted  the traced equations under the paper's convention, at n joints
    size     n of a robot; 0 for a formula in n
    note     why a row is not reproduced
    """

    table: str
    name: str
    printed: Callable[[int], Counts]
    counted: Callable[[int], Counts]
    differences: tuple[CountDifference, ...] = ()
    size: int = 0
    note: str = ""

    def explained(self, n: int) -> Counts:
        """Return the sum of the differences."""
        return sum((difference.worth(n) for difference in self.differences), Counts())

    def unexplained(self, n: int) -> Counts:
        """Return printed - counted - differences."""
        return self.printed(n) - self.counted(n) - self.explained(n)


LIN_DENSE = frozenset({"D", "motion before"})
"""Lin counts D_22 = 0 as an entry, and the motion of joint 1 as a general one when joint 2 uses it."""
FANG_DENSE = frozenset({"t_ii", "f_ii", "f", "u", "s", "swing", "R_n"})
"""Lin & Fang count every line with dense operands, except f_ii, whose zeros the next line uses."""


def lin_rows() -> Iterator[PaperRow]:
    """Return Lin 1995, table III."""
    yield PaperRow(
        "Lin 1995, Table III",
        "n revolute joints, general",
        CountFormula("89n - 82 M, 77n - 71 A"),
        lambda n: lin_chain(n, wrench=True, dense=LIN_DENSE).counts(),
        (CountDifference("cos(beta_1) g of a_1 is a constant and still charged", fixed(1, 0)),),
    )
    robot = load_robot("stanford")
    structure, base = lin_structure(robot), lin_base(robot)
    general = lin_robot(structure, mlc_links(structure, np.ones(base.count)))
    yield PaperRow(
        "Lin 1995, Table III",
        "Stanford arm, general (33 MLC)",
        fixed(231, 219),
        lambda _: general.counts(),
        (
            CountDifference("Omega_3 is a permutation of Omega_2 and is not counted again", fixed(-6, -9)),
            CountDifference("d_3 W_3, which D_2 needs, is not counted", fixed(-4, -4)),
            CountDifference("the three differences of Psi_3 are counted although joint 3 slides", fixed(0, 3)),
            CountDifference("mu_2 in frame 1 is not needed because b_2 = 0", fixed(-4, -2)),
        ),
        6,
    )
    symmetric = lin_robot(structure, mlc_links(structure, base.values))
    yield PaperRow(
        "Lin 1995, Table III",
        f"Stanford arm, simplified ({int(np.count_nonzero(base.values))} MLC)",
        fixed(139, 101),
        lambda _: symmetric.live(),
        (),
        6,
        "not reproduced: the print does not say which inertias vanish; counted with those of Angeles' Stanford arm, "
        f"without dead code ({symmetric.live(shared=True)} with common subexpressions computed once)",
    )


SLIP_F2 = CountDifference("the lines of Table II add up to 57 M and 43 A: the print is 3 too high in both", fixed(3, 3))
SLIP_F4 = CountDifference("the lines of Table IV add up to -104 M (type 2: -110): the print is 4 too low", fixed(-4, 0))
COLUMN_CHARGED = CountDifference(
    "u_i in frame n is charged as a product, but it is a column of the rotation", linear(8, -16, 4, -8)
)
SLIDE_F5 = CountDifference("h x u of the prismatic joint takes 4M 1A, since u_x = 0; 8M 5A are charged", fixed(4, 4))
TWICE = CountDifference(
    "2 sin(beta) is a constant, and its product is charged with every rotated tensor", linear(1, -2, 0, 0)
)
FIRST_C = CountDifference("c^_1, 2A in Table VII, is missing in the total", fixed(0, -2))

TABLE_VI: dict[tuple[int, int], tuple[CountFormula, tuple[CountDifference, ...]]] = {
    (1, 1): (CountFormula("10n^2 - 18n + 10 M, 6n^2 - 10n + 4 A"), ()),
    (1, 2): (CountFormula("10n^2 - 18n M, 6n^2 - 10n A"), ()),
    (2, 1): (CountFormula("11.5n^2 - 27.5n + 16 M, 8n^2 - 18n + 10 A"), ()),
    (2, 2): (CountFormula("11.5n^2 - 40.5n + 60 M, 8n^2 - 29n + 46 A"), (SLIP_F2,)),
    (3, 1): (CountFormula("12.5n^2 - 28.5n + 16 M, 8n^2 - 18n + 10 A"), ()),
    (3, 2): (CountFormula("12.5n^2 - 43.5n + 65 M, 8n^2 - 29n + 45 A"), ()),
    (4, 1): (CountFormula("4.5n^2 + 48.5n - 108 M, 4n^2 + 24n - 56 A"), (COLUMN_CHARGED, SLIP_F4)),
    (4, 2): (CountFormula("4.5n^2 + 48.5n - 114 M, 4n^2 + 24n - 62 A"), (COLUMN_CHARGED, SLIP_F4)),
    (5, 1): (CountFormula("10n^2 - 18n + 14 M, 6n^2 - 6n + 2 A"), ()),
    (5, 2): (CountFormula("10n^2 - 18n + 4 M, 6n^2 - 6n - 7 A"), (SLIDE_F5,)),
}
"""Printed counts of formulations 1-5 by (formulation, type), with their differences from the traced lines."""

TABLE_VI_SIZES = {1: (4, 6, 11), 2: (6, 8, 9)}
"""n at which table VI prints its formulas, by type."""
TABLE_VI_MISPRINTS = {("formulation 5, type 1", 11): Counts(1016, 662)}
"""Numbers of table VI that its own formulas contradict, by row and n."""

TABLE_VIII: dict[tuple[int, int], CountFormula] = {
    (1, 1): CountFormula("10n^2 + 14n - 37 M, 6n^2 + 23n - 53 A"),
    (1, 2): CountFormula("10n^2 + 14n - 45 M, 6n^2 + 23n - 59 A"),
    (2, 1): CountFormula("11.5n^2 + 4.5n - 31 M, 8n^2 + 15n - 47 A"),
    (2, 2): CountFormula("11.5n^2 - 8.5n + 15 M, 8n^2 + 4n - 13 A"),
}


def table_vi_rows() -> Iterator[PaperRow]:
    """Return Lin & Fang 1999, table VI, with given m^, c^, J^."""
    for (number, kind), (printed, differences) in TABLE_VI.items():
        yield PaperRow(
            "Lin & Fang 1999, Table VI",
            f"formulation {number}, type {kind}",
            printed,
            partial(_by_lines, number, kind),
            differences,
        )


def _by_lines(number: int, kind: int, n: int) -> Counts:
    """Count every line as written; 2 x is a multiplication, as in Lin & Fang's tables."""
    return formulation_chain(number, kind, n, dense=FANG_DENSE).counts(twice="mul")


def live_counts(n: int) -> dict[tuple[int, int], Counts]:
    """Count the formulations of table VI at n joints with constants folded and without dead code."""
    return {key: formulation_chain(*key, n, dense=()).live() for key in TABLE_VI}


def _with_moments(number: int, kind: int, n: int) -> Counts:
    """Return the lines of tables VI and VII, added as in the paper."""
    return _by_lines(number, kind, n) + moments_chain(kind, n).counts(twice="mul")


def table_viii_rows() -> Iterator[PaperRow]:
    """Return Lin & Fang 1999, table VIII, including first moments and tensors from MLC."""
    for (number, kind), printed in TABLE_VIII.items():
        yield PaperRow(
            "Lin & Fang 1999, Table VIII",
            f"formulation {number} in MLC, type {kind}",
            printed,
            partial(_with_moments, number, kind),
            (*TABLE_VI[number, kind][1], TWICE, FIRST_C),
        )


def angeles_rows() -> Iterator[PaperRow]:
    """Return Angeles, Ma & Rojas 1988, table 1."""
    yield PaperRow(
        "Angeles et al. 1988, Table 1",
        "n revolute joints, general",
        CountFormula("105n - 109 M, 90n - 105 A"),
        lambda n: kane_chain(n, dense={"motion before"}, gravity="any").counts(),
        (
            CountDifference("a_i - rho_{i-1} is a constant and still charged", linear(0, 0, 3, -3)),
            CountDifference("p_1'' is charged an addition of zero", fixed(0, 1)),
            CountDifference("stage 2 subtracts 10 of the 13M 13A that w_1 along z saves", fixed(-10, -10)),
            CountDifference("the last pass of stage 3 needs one component: 15M 10A", fixed(-24, -18)),
            CountDifference("stage 3 is printed 4A too low: its own lines give 44n - 54", fixed(0, -4)),
        ),
    )


LINES = ("w", "wd", "Omega", "Psi", "h", "a", "rho", "mub", "zetab", "mu", "zeta", "tau")

PRINTED_COLUMNS = {
    "i < r": "a 8 5, rho 1 0, mub 1 0, tau 0 1",
    "i = r = 1": "Omega 1 0, a 3 0, zetab 3 2, mu 8 4, zeta 2 3",
    "i = r > 1": "Omega 1 0, a 8 4, mub 4 2, zetab 3 2, mu 8 7, zeta 2 3",
    "r < i < s, R": "w 0 1, wd 0 1, Omega 1 0, a 12 8, mub 4 2, zetab 3 2, mu 8 7, zeta 3 4",
    "r < i < s, T": "w 3 0, wd 3 0, Omega 6 9, h 5 4, a 14 10, rho 4 2, mub 3 0, zetab 6 3, mu 8 7, zeta 4 5, tau 0 1",
    "i >= s, R": "w 8 5, wd 10 7, Omega 6 9, Psi 0 3, a 17 13, mub 6 3, zetab 22 19, mu 8 7, zeta 12 11",
    "i >= s, T": "w 8 4, wd 8 4, Omega 6 9, Psi 0 3, h 5 4, a 14 10, rho 4 3, mub 3 0, zetab 9 5, mu 8 7, zeta 12 11, "
    "tau 0 1",
    "i = n, R": "mu 0 3, zeta 6 9",
    "footnote: i = s - 1, R": "zeta 6 6",
    "footnote: i = s - 1, T": "zeta 15 11",
}
"""The printed entries: line, multiplications, additions; for joint s - 1, the entry plus the footnote: 3M 2A (R) or 11M
6A (T).
"""

MU_NOTE = "mu-bar of a rotational joint has no z component in the parallel group: two additions, three are charged"
ALONG_NOTE = "u_r is along z here, which leaves one product and two additions of eq. 89 and 90"
ONE_ENTRY_NOTE = "the number depends on the next joint: this for a rotational one, 4M 4A for a sliding one"
TWICE_D_NOTE = "the formula takes 3M fewer; the print seems to charge the 3M of Omega (0, 0, d) here and in h"
DIFFERENCE_NOTES: dict[tuple[str, str], str] = {
    ("i < r", "mu"): "the print has a dash, although tau of the previous joint needs mu (eq. 67, 68)",
    ("i = r = 1", "a"): "cos(beta_1) g is a constant and still charged",
    ("i = r = 1", "zeta"): ALONG_NOTE,
    ("i = r > 1", "mu"): MU_NOTE,
    ("i = r > 1", "zeta"): ALONG_NOTE,
    ("r < i < s, R", "mu"): MU_NOTE,
    ("r < i < s, R", "zeta"): ONE_ENTRY_NOTE,
    (
        "r < i < s, T",
        "a",
    ): f"{TWICE_D_NOTE}; Omega of the previous rotational joint has only the entries of a plane (1M 1A)",
    ("r < i < s, T", "zetab"): "m^ u_r and 2 kappa_2 are constants, which the print folds (1M 1A)",
    ("r < i < s, T", "zeta"): "the next rotational joint needs no d x mu along its own axis (1M 2A)",
    ("i >= s, T", "Psi"): "a sliding joint has no tensor for Psi",
    ("i >= s, T", "a"): TWICE_D_NOTE,
    (
        "footnote: i = s - 1, T",
        "zeta",
    ): "the print charges the whole rotation of the constant u_r into frame s (4M 2A more), and folds b u_r (1M less)",
}
"""Why an entry differs from the count."""

CHAIN: tuple[Kind, ...] = (
    *("sliding", "sliding"),
    *("parallel turn", "parallel turn", "parallel turn", "parallel slide", "parallel turn"),
    *("turn", "turn", "turn", "slide", "turn", "turn"),
)
FROM_ROOT: tuple[Kind, ...] = ("parallel turn", "parallel turn", "parallel slide", "turn", "turn")
COLUMN_JOINTS: dict[str, tuple[tuple[Kind, ...], int]] = {
    **{"i < r": (CHAIN, 1), "i = r = 1": (FROM_ROOT, 0), "i = r > 1": (CHAIN, 2), "r < i < s, R": (CHAIN, 3)},
    **{"r < i < s, T": (CHAIN, 5), "i >= s, R": (CHAIN, 8), "i >= s, T": (CHAIN, 10), "i = n, R": (CHAIN, 12)},
    **{"footnote: i = s - 1, R": (CHAIN, 6), "footnote: i = s - 1, T": (FROM_ROOT, 2)},
}
"""A chain that contains the joint of a column, and the joint's number in it."""


def table_ii() -> list[PaperRow]:
    """Return every entry that is printed or counted, column by column."""
    tapes = {chain: lin_groups_chain(chain, LIN_DENSE) for chain in (CHAIN, FROM_ROOT)}
    rows: list[PaperRow] = []
    for column, text in PRINTED_COLUMNS.items():
        entries = [entry.split() for entry in text.split(", ")]
        printed = {name: Counts(int(multiplications), int(additions)) for name, multiplications, additions in entries}
        chain, joint = COLUMN_JOINTS[column]
        counted = tapes[chain].by_line(joint=joint)
        for line in printed if column.startswith(("i = n", "footnote")) else LINES:
            theirs, ours = printed.get(line, Counts()), counted.get(line, Counts())
            if Counts() != theirs or Counts() != ours:
                rows.append(_table_ii_row(column, line, theirs, ours))
    return rows


def _table_ii_row(column: str, line: str, theirs: Counts, ours: Counts) -> PaperRow:
    why = DIFFERENCE_NOTES.get((column, line))
    differences = () if why is None else (CountDifference(why, lambda _: theirs - ours),)
    return PaperRow(
        "Lin 1995, Table II", f"{column}: {line}", lambda _: theirs, lambda _: ours, differences, len(CHAIN)
    )
