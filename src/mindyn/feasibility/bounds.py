"""`Bounds`: what is plausible of an arm: masses, centres of mass, total mass, planes of symmetry."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.feasibility.conic import ConeRows
from mindyn.feasibility.physical_space import PhysicalSpace
from mindyn.notation import LINK_PARAMETERS
from mindyn.reading import read_toml
from mindyn.robots.parts import Shape
from mindyn.robots.robot import Robot

Range = tuple[float, float]
CentreBox = tuple[tuple[float, float, float], tuple[float, float, float]]
ZERO_IF_SYMMETRIC: Final = {
    "yz": ("mcx", "Ixy", "Ixz"),
    "xz": ("mcy", "Ixy", "Iyz"),
    "xy": ("mcz", "Ixz", "Iyz"),
}
"""Parameters that vanish when a link is symmetric about a plane of its frame."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What link parameters must keep to.

    masses      link: least and greatest mass, kg
    centres     link: two opposite corners of a box in its frame that holds its centre of mass, m
    total_mass  least and greatest sum of all links' masses, kg
    symmetric   link: "xy", "xz" or "yz", the plane of its frame that it is symmetric about
    """

    masses: Mapping[str, Range] = field(default_factory=dict)
    centres: Mapping[str, CentreBox] = field(default_factory=dict)
    total_mass: Range | None = None
    symmetric: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        named = {f"mass of {k}": v for k, v in self.masses.items()}
        if self.total_mass is not None:
            named["total mass"] = self.total_mass
        for what, (low, high) in named.items():
            if not (np.isfinite([low, high]).all() and 0 <= low <= high):
                raise InputError(f"{what}: {low} to {high} kg is no range of masses")
        for link, box in self.centres.items():
            corners = np.array(box, dtype=np.float64)
            if corners.shape != (2, 3) or not (np.isfinite(corners).all() and (corners[0] <= corners[1]).all()):
                raise InputError(f"centre of {link}: {box} is no box; it is two finite corners, the least first")
        for link, plane in self.symmetric.items():
            if plane not in ZERO_IF_SYMMETRIC:
                raise InputError(
                    f"link {link} cannot be symmetric about {plane!r}; planes are: {', '.join(ZERO_IF_SYMMETRIC)}"
                )

    def rows(self, space: PhysicalSpace) -> tuple[ConeRows, ...]:
        """The bounds as conditions on x."""
        not_negative, offsets, zero = [], [], []
        for link, (low, high) in self.masses.items():
            mass = self._unit_row(space, link, 0)
            not_negative += [mass, -mass]
            offsets += [-low, high]
        for link, (corner, other) in self.centres.items():
            mass = self._unit_row(space, link, 0)
            for k in range(3):
                moment = self._unit_row(space, link, 1 + k)
                not_negative += [moment - corner[k] * mass, other[k] * mass - moment]
                offsets += [0.0, 0.0]
        if self.total_mass is not None:
            total = np.zeros(space.size)
            total[space.masses] = 1.0
            not_negative += [total, -total]
            offsets += [-self.total_mass[0], self.total_mass[1]]
        for link, plane in self.symmetric.items():
            zero += [self._unit_row(space, link, LINK_PARAMETERS.index(name)) for name in ZERO_IF_SYMMETRIC[plane]]
        made = [ConeRows("nonnegative", np.array(not_negative), np.array(offsets))] if not_negative else []
        return (*made, *([ConeRows("zero", np.array(zero), np.zeros(len(zero)))] if zero else ()))

    def are_satisfied(self, space: PhysicalSpace, x: Array) -> bool:
        """Whether x keeps to them all."""
        kept = [(one.kind, one.matrix @ x + one.offset) for one in self.rows(space)]
        return all((values >= 0).all() if kind == "nonnegative" else np.allclose(values, 0.0) for kind, values in kept)

    def _unit_row(self, space: PhysicalSpace, link: str, k: int) -> Array:
        i = space.robot.link_index(link)
        if i < 0:
            raise InputError(f"the root {link!r} does not move: it has no parameters to bound")
        row = np.zeros(space.size)
        row[space.link(i).start + k] = 1.0
        return row

    @property
    def is_empty(self) -> bool:
        """Whether nothing is bounded."""
        return not (self.masses or self.centres or self.total_mass or self.symmetric)


def bounds_from_shapes(robot: Robot) -> Bounds:
    """Centres of mass within the boxes about the links' collision shapes, of links all of whose shapes have a size."""
    boxes = {}
    for link in robot.links:
        if link.shapes and all(shape.kind != "mesh" for shape in link.shapes):
            corners = np.concatenate([_box_corners(shape) for shape in link.shapes])
            boxes[link.name] = (tuple(corners.min(axis=0).tolist()), tuple(corners.max(axis=0).tolist()))
    return Bounds(centres=boxes)


def _box_corners(shape: Shape) -> Array:
    """(8, 3) corners, in the link frame, of the box about a shape along its own axes."""
    size = shape.dimensions
    if shape.kind == "box":
        half = np.array(size) / 2
    elif shape.kind == "sphere":
        half = np.full(3, size[0])
    else:
        half = np.array([size[0], size[0], size[1] / 2 + (size[0] if shape.kind == "capsule" else 0.0)])
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    return np.asarray(signs * half @ shape.pose.rotation.T + shape.pose.translation)


BOUND_TABLES = ("masses", "centres", "total_mass", "symmetric")


def read_bounds(path: str | Path) -> Bounds:
    """The bounds of a TOML file: total_mass = [5, 20]; tables masses, centres and symmetric by link name."""
    hint = "a line of it is like: total_mass = [20.0, 30.0]"
    stated = read_toml(Path(path), "file of bounds", InputError, hint)
    unknown = [name for name in stated if name not in BOUND_TABLES]
    if unknown:
        raise InputError(f"{path} states {', '.join(unknown)}; bounds are: {', '.join(BOUND_TABLES)}")
    try:
        return _parse_bounds(stated)
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path} does not state bounds as numbers: {error}",
            hint="total_mass = [5, 20]; [masses] link1 = [1, 3]; [centres] link1 = [[-0.1, -0.1, 0], [0.1, 0.1, 0.3]]",
        ) from error


def _parse_bounds(stated: dict[str, Any]) -> Bounds:
    total = stated.get("total_mass")
    return Bounds(
        {link: _parse_range(pair) for link, pair in stated.get("masses", {}).items()},
        {link: (_parse_corner(a), _parse_corner(b)) for link, (a, b) in stated.get("centres", {}).items()},
        None if total is None else _parse_range(total),
        {link: str(plane) for link, plane in stated.get("symmetric", {}).items()},
    )


def _parse_range(values: Any) -> tuple[float, float]:
    low, high = _parse_numbers(values)
    return low, high


def _parse_corner(values: Any) -> tuple[float, float, float]:
    x, y, z = _parse_numbers(values)
    return x, y, z


def _parse_numbers(values: Any) -> list[float]:
    if not isinstance(values, list) or not all(isinstance(value, (int, float)) for value in values):
        raise TypeError(f"{values!r} is no list of numbers")
    return [float(value) for value in values]
