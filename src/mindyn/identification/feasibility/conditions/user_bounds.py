"""`Bounds`: limits on the masses, centres of mass, total mass and symmetry of links."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, require_choice
from mindyn.foundation.notation import LINK_PARAMETERS
from mindyn.foundation.safe_reading import read_settings_toml
from mindyn.foundation.schemas import ANY_NUMBER, ANY_TEXT, list_schema, require_valid_file, table_schema
from mindyn.identification.feasibility.conditions.physical_space import PhysicalSpace
from mindyn.identification.feasibility.optimisation.conic_program import ConeRows
from mindyn.robots.parts import Shape
from mindyn.robots.robot import Robot

Range = tuple[float, float]
CentreBox = tuple[tuple[float, float, float], tuple[float, float, float]]
ZERO_IF_SYMMETRIC: Final = {
    "yz": ("mcx", "Ixy", "Ixz"),
    "xz": ("mcy", "Ixy", "Iyz"),
    "xy": ("mcz", "Ixz", "Iyz"),
}
"""Parameters that are zero if a link is symmetric about a plane of its frame."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits that plausible link parameters satisfy.

    Parameters
    ----------
    masses : Mapping of str to (float, float)
        Smallest and largest mass of a link, kg.
    centres : Mapping of str to ((float, float, float), (float, float, float))
        Lower and upper corner of a box in the link frame that contains the centre of mass, m.
    total_mass : (float, float), optional
        Smallest and largest sum of the masses of all moving links, kg.
    symmetric : Mapping of str to {"xy", "xz", "yz"}
        Plane of the link frame about which the link is symmetric.

    Raises
    ------
    InputError
        If a range or a box is not finite or not in order, or a plane is unknown.

    Examples
    --------
    >>> import mindyn
    >>> mindyn.Bounds(masses={"link1": (1.0, 3.0)}, total_mass=(5.0, 20.0)).is_empty
    False
    """

    masses: Mapping[str, Range] = field(default_factory=dict)
    centres: Mapping[str, CentreBox] = field(default_factory=dict)
    total_mass: Range | None = None
    symmetric: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ranges = {f"mass of {k}": v for k, v in self.masses.items()}
        if self.total_mass is not None:
            ranges["total mass"] = self.total_mass
        for what, (low, high) in ranges.items():
            if not (np.isfinite([low, high]).all() and 0 <= low <= high):
                raise InputError(
                    f"{what} must be a range with 0 <= low <= high in kg, got {low} to {high}",
                    code=Code.OUT_OF_RANGE,
                    subject=what,
                )
        for link, box in self.centres.items():
            corners = np.array(box, dtype=np.float64)
            if corners.shape != (2, 3) or not (np.isfinite(corners).all() and (corners[0] <= corners[1]).all()):
                raise InputError(
                    f"centre of {link} must be a box of two finite corners, the lower one first; got {box}",
                    code=Code.INVALID_VALUE,
                    subject=link,
                )
        for link, plane in self.symmetric.items():
            require_choice(plane, ZERO_IF_SYMMETRIC, f"the plane of symmetry of {link}")

    def rows(self, space: PhysicalSpace) -> tuple[ConeRows, ...]:
        """Return the bounds as conditions on x: rows in cones."""
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
        cones = [ConeRows("nonnegative", np.array(not_negative), np.array(offsets))] if not_negative else []
        return (*cones, *([ConeRows("zero", np.array(zero), np.zeros(len(zero)))] if zero else ()))

    def are_satisfied(self, space: PhysicalSpace, x: Array) -> bool:
        """Return whether x satisfies all bounds."""
        values_by_kind = [(rows.kind, rows.matrix @ x + rows.offset) for rows in self.rows(space)]
        return all(
            (values >= 0).all() if kind == "nonnegative" else np.allclose(values, 0.0)
            for kind, values in values_by_kind
        )

    def _unit_row(self, space: PhysicalSpace, link: str, k: int) -> Array:
        i = space.robot.link_index(link)
        if i < 0:
            raise InputError(
                f"the root link {link!r} does not move, so it has no parameters to bound",
                code=Code.INVALID_VALUE,
                subject=link,
            )
        return np.asarray(np.eye(space.size)[space.link(i).start + k])

    @property
    def is_empty(self) -> bool:
        """Return whether there are no bounds."""
        return not (self.masses or self.centres or self.total_mass or self.symmetric)


def bounds_from_shapes(robot: Robot) -> Bounds:
    """Return boxes around the collision shapes of links as bounds on their centres of mass.

    Links without shapes, or with a mesh among their shapes, get no bound.

    Parameters
    ----------
    robot : Robot
        Robot of the logs.

    Returns
    -------
    Bounds
        Bounds with a box for every link that has collision shapes.
    """
    boxes = {}
    for link in robot.links:
        if link.shapes and all(shape.kind != "mesh" for shape in link.shapes):
            corners = np.concatenate([shape_corners(shape) for shape in link.shapes])
            boxes[link.name] = (tuple(corners.min(axis=0).tolist()), tuple(corners.max(axis=0).tolist()))
    return Bounds(centres=boxes)


def shape_corners(shape: Shape) -> Array:
    """Return the corners (8, 3), in the link frame, of the box around a shape along its own axes."""
    size = shape.dimensions
    if shape.kind == "box":
        half = np.array(size) / 2
    elif shape.kind == "sphere":
        half = np.full(3, size[0])
    else:
        half = np.array([size[0], size[0], size[1] / 2 + (size[0] if shape.kind == "capsule" else 0.0)])
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    return np.asarray(signs * half @ shape.pose.rotation.T + shape.pose.translation)


_RANGE: Final = list_schema(ANY_NUMBER, minItems=2, maxItems=2)
_BOX: Final = list_schema(list_schema(ANY_NUMBER, minItems=3, maxItems=3), minItems=2, maxItems=2)
_LINKS: Final = {
    name: {"type": "object", "additionalProperties": schema}
    for name, schema in {"masses": _RANGE, "centres": _BOX, "symmetric": ANY_TEXT}.items()
}
BOUNDS_SCHEMA: Final = table_schema({}, {**_LINKS, "total_mass": _RANGE})
BOUNDS_HINT: Final = (
    "total_mass = [5, 20]; [masses] link1 = [1, 3]; [centres] link1 = [[-0.1, -0.1, 0], [0.1, 0.1, 0.3]]"
)


def read_bounds(path: str | Path) -> Bounds:
    """Read bounds from a TOML file.

    The file has a line such as `total_mass = [5, 20]` and tables `masses`, `centres` and `symmetric` by link name.

    Parameters
    ----------
    path : str or Path
        File to read.

    Returns
    -------
    Bounds

    Raises
    ------
    InputError
        If the file cannot be read, has unknown keys, or contains values that are not numbers.
    """
    hint = "write lines such as: total_mass = [20.0, 30.0]"
    content = read_settings_toml(Path(path), "file of bounds", InputError, hint)
    require_valid_file(content, BOUNDS_SCHEMA, str(path), hint=BOUNDS_HINT)
    total = content.get("total_mass")
    masses, centres, symmetric = (content.get(name, {}) for name in ("masses", "centres", "symmetric"))
    boxes: Any = {link: tuple(tuple(map(float, corner)) for corner in box) for link, box in centres.items()}
    ranges = {link: (float(low), float(high)) for link, (low, high) in masses.items()}
    return Bounds(ranges, boxes, None if total is None else (float(total[0]), float(total[1])), symmetric)
