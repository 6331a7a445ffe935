"""Operation counts of equations as they are written: a scalar that records its operations.

Numbers and constants (symbols known before the robot moves) fold: sums and products of constants, and all operations
with 0 or +-1, are free; so is a change of sign. Everything else is one multiplication or one addition each time it is
written. One trace serves every convention: all lines as written, without dead code (results that no output needs), and
with common subexpressions computed once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from mindyn.equations.scalar_vectors import Scalar, map_scalars

T = TypeVar("T")

Kind = Literal["number", "constant", "variable", "add", "mul", "twice"]

GIVEN_LINES = ("R", "R_n", "first moment")
"""Lines that no table charges: the entries of R_i and s_i, and the moments h of formulation 5."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Multiplications and additions."""

    multiplications: int = 0
    additions: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.multiplications + other.multiplications, self.additions + other.additions)

    def __sub__(self, other: Counts) -> Counts:
        return Counts(self.multiplications - other.multiplications, self.additions - other.additions)

    def __rmul__(self, factor: int) -> Counts:
        return Counts(factor * self.multiplications, factor * self.additions)

    def __str__(self) -> str:
        return f"{self.multiplications}M {self.additions}A"


@dataclass(slots=True)
class _Node:
    """A result: `twin` is the first node that computes the same, `costs` says whether it is not a constant."""

    kind: Kind
    operands: tuple[int, ...]
    twin: int
    costs: bool
    line: str = ""
    joint: int = -1


@dataclass
class Tape:
    """The nodes of one trace.

    dense  lines whose results are replaced by new variables, entry by entry: their zeros and constants are unknown to
    the
           next line, as if a table is counted row by row
    outputs  results of the traced equations
    """

    dense: Collection[str] = ()
    outputs: Sequence[Scalar] = ()
    nodes: list[_Node] = field(default_factory=list)
    _known: dict[tuple[object, ...], int] = field(default_factory=dict)
    _labelled: int = 0

    def variable(self) -> TracedScalar:
        """Return a new quantity that changes with the motion."""
        return TracedScalar(self, self.write("variable"), 1)

    def constant(self) -> TracedScalar:
        """Return a new quantity that is constant but unknown."""
        return TracedScalar(self, self.write("constant"), 1)

    def line(self, name: str, value: T, /, *, joint: int = -1) -> T:
        """Label the operations since the last line; return new variables instead of the value of a dense line."""
        for node in self.nodes[self._labelled :]:
            if not node.line:
                node.line, node.joint = name, joint
        self._labelled = len(self.nodes)
        return map_scalars(value, lambda _: self.variable()) if name in self.dense else value

    def counts(self, *, without: Collection[str] = GIVEN_LINES, twice: Literal["mul", "add"] = "add") -> Counts:
        """Count every line as written, except those named in `without`; 2 x is an addition, or a multiplication."""
        return _tally((node for node in self.nodes if node.costs and node.line not in without), twice)

    def by_line(self, twice: Literal["mul", "add"] = "add", joint: int | None = None) -> dict[str, Counts]:
        """Count the operations of each line but the given ones, of one joint or of all."""
        nodes = [node for node in self.nodes if node.costs and joint in (None, node.joint)]
        names = dict.fromkeys(node.line for node in nodes if node.line not in GIVEN_LINES)
        return {name: _tally((node for node in nodes if node.line == name), twice) for name in names}

    def live(self, *, shared: bool = False) -> Counts:
        """Count what the outputs need: constants folded, no dead code; with `shared`, equal expressions count once."""
        return self.count_needed(self.outputs, shared=shared)

    def count_needed(self, outputs: Iterable[Scalar], *, shared: bool = False) -> Counts:
        """Count what results need except given lines; with `shared`, equal expressions count once."""
        marked: set[int] = set()
        waiting = [value.node for value in outputs if isinstance(value, TracedScalar)]
        while waiting:
            number = self.nodes[waiting[-1]].twin if shared else waiting[-1]
            waiting.pop()
            if number not in marked:
                marked.add(number)
                waiting.extend(self.nodes[number].operands)
        live = (self.nodes[number] for number in marked)
        return _tally((node for node in live if node.costs and node.line not in GIVEN_LINES), "add")

    def write(self, kind: Kind, operands: tuple[int, ...] = (), key: tuple[object, ...] | None = None) -> int:
        """Return a new node; it is a constant if all its operands are. Nodes of the same key compute the same."""
        number = len(self.nodes)
        twin = number if key is None else self._known.setdefault(key, number)
        costs = any(self.nodes[k].costs or self.nodes[k].kind == "variable" for k in operands)
        self.nodes.append(_Node(kind, operands, twin, costs))
        return number

    def twin(self, number: int) -> int:
        """Return the first node that computes the same as a node."""
        return self.nodes[number].twin


def _tally(nodes: Iterable[_Node], twice: Literal["mul", "add"]) -> Counts:
    kinds = [twice if node.kind == "twice" else node.kind for node in nodes]
    return Counts(kinds.count("mul"), kinds.count("add"))


@dataclass(frozen=True, slots=True, eq=False)
class TracedScalar:
    """A scalar on a tape: sign times a node."""

    tape: Tape
    node: int
    sign: int

    def __neg__(self) -> TracedScalar:
        return TracedScalar(self.tape, self.node, -self.sign)

    def __add__(self, other: Scalar) -> Scalar:
        if isinstance(other, (int, float)):
            if other == 0:
                return self
            other = TracedScalar(self.tape, self.tape.write("number", key=("number", float(other))), 1)
        tape, relative = self.tape, self.sign * other.sign
        pair = sorted((tape.twin(self.node), tape.twin(other.node)))
        node = tape.write("add", (self.node, other.node), ("add", *pair, relative))
        # a - b and b - a are the same expression, with the sign of the operand with the lower number.
        first = self if tape.twin(self.node) == pair[0] else other
        return TracedScalar(tape, node, first.sign)

    __radd__ = __add__

    def __sub__(self, other: Scalar) -> Scalar:
        return self + (-other)

    def __rsub__(self, other: Scalar) -> Scalar:
        return -self + other

    def __mul__(self, other: Scalar) -> Scalar:
        tape = self.tape
        if isinstance(other, (int, float)):
            if other == 0:
                return 0.0
            sign = self.sign if other > 0 else -self.sign
            size = abs(float(other))
            if size == 1.0:
                return TracedScalar(tape, self.node, sign)
            kind: Kind = "twice" if size == 2.0 else "mul"
            key = (kind, tape.twin(self.node), size)
            return TracedScalar(tape, tape.write(kind, (self.node,), key), sign)
        if not isinstance(other, TracedScalar):
            return NotImplemented  # a vector: use its __rmul__
        pair = sorted((tape.twin(self.node), tape.twin(other.node)))
        node = tape.write("mul", (self.node, other.node), ("mul", *pair))
        return TracedScalar(tape, node, self.sign * other.sign)

    __rmul__ = __mul__
