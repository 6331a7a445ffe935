"""Operation counts of a `Program`.

A square is a multiplication; 2 x is an addition (x + x); a subtraction is an addition. A multiplication or division by
+-1 and all results that depend only on constants cost nothing. A sign change is counted separately, because the next
addition absorbs it. The sine and the cosine of one angle are one `sincos`. Equal expressions are computed and counted
once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields

from mindyn.kernels.program import Op, Program

_UNCOUNTED_OPERATIONS = frozenset({Op.CONST, Op.INPUT, Op.SIN, Op.COS})


@dataclass(frozen=True, slots=True)
class OperationCounts:
    """Number of each operation in one evaluation.

    `other` counts comparisons, absolute values, exponentials and so on.
    """

    multiplications: int
    additions: int
    divisions: int
    square_roots: int
    sincos: int
    negations: int
    other: int

    @property
    def total(self) -> int:
        """All operations except sign changes."""
        return sum((self.multiplications, self.additions, self.divisions, self.square_roots, self.sincos, self.other))

    def __str__(self) -> str:
        names = {"square_roots": "square roots", "negations": "sign changes"}
        counts = [(getattr(self, field.name), names.get(field.name, field.name)) for field in fields(self)]
        return ", ".join(f"{count} {name}" for count, name in counts if count) or "no operations"


def operation_counts(program: Program) -> OperationCounts:
    """Count the instructions of `program`, which has no dead code."""
    counts = Counter(
        instruction.op for instruction in program.instructions if instruction.op not in _UNCOUNTED_OPERATIONS
    )
    return OperationCounts(
        multiplications=counts.pop(Op.MUL, 0),
        additions=counts.pop(Op.ADD, 0) + counts.pop(Op.SUB, 0),
        divisions=counts.pop(Op.DIV, 0),
        square_roots=counts.pop(Op.SQRT, 0),
        sincos=counts.pop(Op.SINCOS, 0),
        negations=counts.pop(Op.NEG, 0),
        other=sum(counts.values()),
    )
