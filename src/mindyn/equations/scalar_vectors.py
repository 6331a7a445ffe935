"""Vectors and symmetric tensors of plain scalars, for formulas on numbers, CasADi symbols and the operation counter.

A scalar is any value with +, - and *: a float, casadi.SX, or `TracedScalar` of papers/counting.py. The recursions of
the papers use these classes, so that the same code is evaluated and counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

Scalar = Any
"""float, casadi.SX or TracedScalar."""

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

    def scale(self, factor: Scalar) -> Triple:
        """Return factor v."""
        return Triple(factor * self.x, factor * self.y, factor * self.z)

    def __rmul__(self, factor: Scalar) -> Triple:
        return self.scale(factor)

    @property
    def scalars(self) -> tuple[Scalar, Scalar, Scalar]:
        """(x, y, z) as a tuple."""
        return self.x, self.y, self.z


ZERO = Triple(0.0, 0.0, 0.0)


def dot(a: Triple, b: Triple) -> Scalar:
    """Return a.b."""
    return a.x * b.x + a.y * b.y + a.z * b.z


def cross(a: Triple, b: Triple) -> Triple:
    """Return a x b."""
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
        """Rows of the tensor, which are also its columns."""
        return (
            Triple(self.xx, self.xy, self.xz),
            Triple(self.xy, self.yy, self.yz),
            Triple(self.xz, self.yz, self.zz),
        )


ZERO_TENSOR = Symmetric(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Matrix:
    """A 3 x 3 matrix, given by its rows."""

    x: Triple
    y: Triple
    z: Triple

    def __matmul__(self, v: Triple) -> Triple:
        return Triple(dot(self.x, v), dot(self.y, v), dot(self.z, v))


def map_scalars(value: T, change: Callable[[Scalar], Scalar]) -> T:
    """Return `value` (scalar, triple, tensor, matrix, tuple or dataclass) with every scalar in it changed."""
    if value is None:
        return value
    if isinstance(value, tuple):
        return tuple(map_scalars(item, change) for item in value)  # type: ignore[return-value]
    names = getattr(type(value), "__dataclass_fields__", None)
    if names is None or hasattr(value, "tape"):
        return change(value)  # type: ignore[no-any-return]
    return type(value)(*(map_scalars(getattr(value, name), change) for name in names))


class Line(Protocol):
    """Hook that is called with the name and the value of every line of an algorithm, to label the value or to replace
    it.

    `joint` is the joint to which the line belongs, if the algorithm gives it.
    """

    def __call__(self, name: str, value: T, /, *, joint: int = -1) -> T:
        """Return the value with which the algorithm continues."""
        ...


def keep_value(name: str, value: T, /, *, joint: int = -1) -> T:  # noqa: ARG001 - the counter's hook takes them
    """Return the value unchanged: the line hook without an effect."""
    return value
