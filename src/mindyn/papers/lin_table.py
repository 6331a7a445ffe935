"""Lin's table II: operations of a joint, line by line, in all seven columns, compared with the traced lines."""

from __future__ import annotations

from dataclasses import dataclass

from mindyn.papers.counting import Counts
from mindyn.papers.operation_tables import LIN_DENSE
from mindyn.papers.traced_robots import Kind, lin_groups_chain

LINES = ("w", "wd", "Omega", "Psi", "h", "a", "rho", "mub", "zetab", "mu", "zeta", "tau")

PRINTED_COLUMNS: dict[str, dict[str, Counts]] = {
    "i < r": {"a": Counts(8, 5), "rho": Counts(1, 0), "mub": Counts(1, 0), "tau": Counts(0, 1)},
    "i = r = 1": {
        **{"Omega": Counts(1, 0), "a": Counts(3, 0), "zetab": Counts(3, 2), "mu": Counts(8, 4), "zeta": Counts(2, 3)},
    },
    "i = r > 1": {
        **{"Omega": Counts(1, 0), "a": Counts(8, 4), "mub": Counts(4, 2), "zetab": Counts(3, 2)},
        **{"mu": Counts(8, 7), "zeta": Counts(2, 3)},
    },
    "r < i < s, R": {
        **{"w": Counts(0, 1), "wd": Counts(0, 1), "Omega": Counts(1, 0), "a": Counts(12, 8), "mub": Counts(4, 2)},
        **{"zetab": Counts(3, 2), "mu": Counts(8, 7), "zeta": Counts(3, 4)},
    },
    "r < i < s, T": {
        **{"w": Counts(3, 0), "wd": Counts(3, 0), "Omega": Counts(6, 9), "h": Counts(5, 4), "a": Counts(14, 10)},
        **{"rho": Counts(4, 2), "mub": Counts(3, 0), "zetab": Counts(6, 3), "mu": Counts(8, 7), "zeta": Counts(4, 5)},
        **{"tau": Counts(0, 1)},
    },
    "i >= s, R": {
        **{"w": Counts(8, 5), "wd": Counts(10, 7), "Omega": Counts(6, 9), "Psi": Counts(0, 3), "a": Counts(17, 13)},
        **{"mub": Counts(6, 3), "zetab": Counts(22, 19), "mu": Counts(8, 7), "zeta": Counts(12, 11)},
    },
    "i >= s, T": {
        **{"w": Counts(8, 4), "wd": Counts(8, 4), "Omega": Counts(6, 9), "Psi": Counts(0, 3), "h": Counts(5, 4)},
        **{"a": Counts(14, 10), "rho": Counts(4, 3), "mub": Counts(3, 0), "zetab": Counts(9, 5), "mu": Counts(8, 7)},
        **{"zeta": Counts(12, 11), "tau": Counts(0, 1)},
    },
    "i = n, R": {"mu": Counts(0, 3), "zeta": Counts(6, 9)},
    "footnote: i = s - 1, R": {"zeta": Counts(6, 6)},
    "footnote: i = s - 1, T": {"zeta": Counts(15, 11)},
}
"""The printed entries; for joint s - 1, the entry plus the footnote: 3M 2A (R) or 11M 6A (T)."""

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


@dataclass(frozen=True, slots=True)
class TableLine:
    """An entry of table II: printed and counted, and why they differ."""

    column: str
    line: str
    printed: Counts
    counted: Counts
    why: str


def table_ii() -> list[TableLine]:
    """Return every entry that is printed or counted, column by column."""
    tapes = {chain: lin_groups_chain(chain, LIN_DENSE).tape for chain in (CHAIN, FROM_ROOT)}
    lines: list[TableLine] = []
    for column, printed in PRINTED_COLUMNS.items():
        chain, joint = COLUMN_JOINTS[column]
        counted = tapes[chain].by_line_of(joint)
        partial = column.startswith(("i = n", "footnote"))
        for name in printed if partial else LINES:
            pair = printed.get(name, Counts()), counted.get(name, Counts())
            if pair != (Counts(), Counts()):
                lines.append(TableLine(column, name, *pair, DIFFERENCE_NOTES.get((column, name), "")))
    return lines
