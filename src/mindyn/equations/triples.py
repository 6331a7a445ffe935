"""Vectors and symmetric tensors of plain scalars, for formulas that numbers, CasADi and the operation counter all run.

A scalar is whatever has +, - and *: float, casadi.SX, or `TracedScalar` of papers/counting.py. The seeds' recursions
are written on these, so that the equations that are evaluated and the equations that are counted are one text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

Scalar = Any
"""float, casadi.SX or Traced."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Triple:
    """A vector (x, y, z)."""

    x: Scalar
    y: Scalar
    z: Scalar

    def __add__(self, other: Triple) -> Triple:
        return Triple(self.x + other.x, self.y + other.y, self.z + other.z)

    def __sub__(self, other: Triple) -> Triple:
        return Triple(self.x - other.x, self.y - other.y, self.z - other.z)

    def __neg__(self) -> Triple:
        return Triple(-self.x, -self.y, -self.z)

    def scaled(self, factor: Scalar) -> Triple:
        """factor v."""
        return Triple(factor * self.x, factor * self.y, factor * self.z)

    def __rmul__(self, factor: Scalar) -> Triple:
        return self.scaled(factor)

    @property
    def scalars(self) -> tuple[Scalar, Scalar, Scalar]:
        """(x, y, z) as a tuple."""
        return self.x, self.y, self.z


ZERO = Triple(0.0, 0.0, 0.0)


def dot(a: Triple, b: Triple) -> Scalar:
    """a.b."""
    return a.x * b.x + a.y * b.y + a.z * b.z


def cross(a: Triple, b: Triple) -> Triple:
    """A x b."""
    return Triple(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x)


@dataclass(frozen=True, slots=True)
class Symmetric:
    """A symmetric tensor by its six entries."""

    xx: Scalar
    yy: Scalar
    zz: Scalar
    xy: Scalar
    xz: Scalar
    yz: Scalar

    def __add__(self, other: Symmetric) -> Symmetric:
        return Symmetric(
            *(self.xx + other.xx, self.yy + other.yy, self.zz + other.zz),
            *(self.xy + other.xy, self.xz + other.xz, self.yz + other.yz),
        )

    def __matmul__(self, v: Triple) -> Triple:
        return Triple(*(dot(row, v) for row in self.rows))

    @property
    def rows(self) -> tuple[Triple, Triple, Triple]:
        """Rows, which are the columns too."""
        return (
            Triple(self.xx, self.xy, self.xz),
            Triple(self.xy, self.yy, self.yz),
            Triple(self.xz, self.yz, self.zz),
        )


ZERO_TENSOR = Symmetric(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Matrix:
    """A 3 x 3 matrix by its rows."""

    x: Triple
    y: Triple
    z: Triple

    def __matmul__(self, v: Triple) -> Triple:
        return Triple(dot(self.x, v), dot(self.y, v), dot(self.z, v))


def map_scalars(value: T, change: Callable[[Scalar], Scalar]) -> T:
    """`value` with every scalar in it changed: of a scalar, a triple, a tensor, a matrix, a tuple or a dataclass."""
    if value is None:
        return value
    if isinstance(value, tuple):
        return tuple(map_scalars(one, change) for one in value)  # type: ignore[return-value]
    names = getattr(type(value), "__dataclass_fields__", None)
    if names is None or hasattr(value, "tape"):
        return change(value)  # type: ignore[no-any-return]
    return type(value)(*(map_scalars(getattr(value, name), change) for name in names))


class Line(Protocol):
    """Called with the name and the value of every line of an algorithm; a counter labels it, or puts new symbols."""

    def __call__(self, name: str, value: T, /) -> T:
        """The value to go on with."""
        ...


def keep_value(name: str, value: T, /) -> T:  # noqa: ARG001 - the counter's hook takes the name
    """The line hook that changes nothing."""
    return value
