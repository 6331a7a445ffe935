"""Lin's table II, line by line, beside the traced lines of a general joint."""

from __future__ import annotations

from dataclasses import dataclass

from mindyn.papers.counting import Counts
from mindyn.papers.operation_tables import LIN_DENSE
from mindyn.papers.traced_robots import lin_chain

LINES = ("w", "wd", "Omega", "Psi", "h", "a", "rho", "mub", "zetab", "mu", "zeta", "tau")

REVOLUTE: dict[str, Counts] = {
    **{"w": Counts(8, 5), "wd": Counts(10, 7), "Omega": Counts(6, 9), "Psi": Counts(0, 3), "a": Counts(17, 13)},
    **{"mub": Counts(6, 3), "zetab": Counts(22, 19), "mu": Counts(8, 7), "zeta": Counts(12, 11)},
}
SLIDING: dict[str, Counts] = {
    **{"w": Counts(8, 4), "wd": Counts(8, 4), "Omega": Counts(6, 9), "Psi": Counts(0, 3), "h": Counts(5, 4)},
    **{"a": Counts(14, 10), "rho": Counts(4, 3), "mub": Counts(3, 0), "zetab": Counts(9, 5), "mu": Counts(8, 7)},
    **{"zeta": Counts(12, 11), "tau": Counts(0, 1)},
}
FIRST: dict[str, Counts] = {
    **{"Omega": Counts(1, 0), "a": Counts(3, 0), "zetab": Counts(3, 2), "mu": Counts(8, 4)},
    # The entry 2M 3A and the footnote's 3M 2A for joint s - 1.
    **{"zeta": Counts(5, 5)},
}

WORDS: dict[tuple[str, str], str] = {
    ("joint 1", "a"): "cos(beta_1) g is a constant and still charged",
    ("joint 1", "zeta"): "the entry is 1M 1A short of its formulas, eq. 88 and 90; the printed total is not",
    ("sliding", "Psi"): "no tensor meets Psi where the joint slides",
    ("sliding", "a"): "the formula takes 11M; the print seems to charge the 3M of Omega (0, 0, d) here and in h",
}


@dataclass(frozen=True, slots=True)
class TableLine:
    """One entry of table II: printed and counted, and why they differ where they do."""

    column: str
    line: str
    printed: Counts
    counted: Counts
    why: str


def table_ii() -> list[TableLine]:
    """Entries of a revolute and a prismatic joint behind s, and of joint 1 (r = 1, s = 2)."""
    columns = {"revolute": (REVOLUTE, _revolute()), "sliding": (SLIDING, _sliding()), "joint 1": (FIRST, _first())}
    return [
        TableLine(column, name, *_pair(printed, counted, name), WORDS.get((column, name), ""))
        for column, (printed, counted) in columns.items()
        for name in LINES
        if _pair(printed, counted, name) != (Counts(), Counts())
    ]


def _pair(printed: dict[str, Counts], counted: dict[str, Counts], name: str) -> tuple[Counts, Counts]:
    return printed.get(name, Counts()), counted.get(name, Counts())


def _lines(count: int, slide: int | None = None) -> dict[str, Counts]:
    found = lin_chain(count, slide=slide, wrench=True, dense=LIN_DENSE).tape.by_line()
    return {name: found.get(name, Counts()) for name in LINES}


def _revolute() -> dict[str, Counts]:
    """What one more joint adds."""
    more, less = _lines(5), _lines(4)
    return {name: more[name] - less[name] for name in LINES}


def _sliding() -> dict[str, Counts]:
    """What a joint costs when it slides in place of turning."""
    sliding, turning, own = _lines(5, slide=2), _lines(5), _revolute()
    return {name: sliding[name] - turning[name] + own[name] for name in LINES}


def _first() -> dict[str, Counts]:
    """Joint 1 of two: the rest is joint 2, whose mu and zeta take the wrench at the end."""
    both, own = _lines(2), _revolute()
    last = own | {"mu": Counts(0, 3), "zeta": Counts(6, 9)}
    return {name: both[name] - last[name] for name in LINES}
