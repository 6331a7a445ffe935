"""Operation counts of a Program.

Conventions: a square is a multiplication; 2 x is an addition (x + x); a subtraction is an addition; a multiplication or
division by +-1 and whatever follows from constants alone costs nothing; a sign change is counted apart, since the next
addition absorbs it; the sine and the cosine of one angle are one `sincos`. Equal expressions are computed, and
counted, once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from mindyn.kernels.program import Op, Program

_UNCOUNTED_OPERATIONS = frozenset({Op.CONST, Op.INPUT, Op.SIN, Op.COS})


@dataclass(frozen=True, slots=True)
class OperationCounts:
    """How many of each operation one evaluation takes; `other` are comparisons, absolute values, exponentials, ..."""

    multiplications: int
    additions: int
    divisions: int
    square_roots: int
    sincos: int
    negations: int
    other: int

    @property
    def total(self) -> int:
        """All operations but sign changes."""
        return sum((self.multiplications, self.additions, self.divisions, self.square_roots, self.sincos, self.other))

    def __str__(self) -> str:
        named = {
            "multiplications": self.multiplications,
            "additions": self.additions,
            "divisions": self.divisions,
            "square roots": self.square_roots,
            "sincos": self.sincos,
            "sign changes": self.negations,
            "other": self.other,
        }
        return ", ".join(f"{count} {name}" for name, count in named.items() if count) or "no operations"


def operation_counts(program: Program) -> OperationCounts:
    """Counts over the instructions of `program`, which holds no dead code."""
    found = Counter(one.op for one in program.instructions if one.op not in _UNCOUNTED_OPERATIONS)
    return OperationCounts(
        multiplications=found.pop(Op.MUL, 0),
        additions=found.pop(Op.ADD, 0) + found.pop(Op.SUB, 0),
        divisions=found.pop(Op.DIV, 0),
        square_roots=found.pop(Op.SQRT, 0),
        sincos=found.pop(Op.SINCOS, 0),
        negations=found.pop(Op.NEG, 0),
        other=sum(found.values()),
    )
