"""Base parameters with symbolic geometry: `mcx2 + a3 m3 + ...` instead of `mcx2 + 0.4318 m3 + ...`.

With fixed angles, every coefficient is a polynomial of degree two in the lengths. Interpolation finds it exactly: the
set is computed again for robots with other lengths and the same zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import numpy as np

from mindyn.algebra.poses import IDENTITY, tidy
from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.notation import PARAMETERS_PER_LINK
from mindyn.parameters.base import BaseParameters, format_sum
from mindyn.parameters.structural import structural_base
from mindyn.robots.edits import change_link_frames
from mindyn.robots.joint_frames import modified_dh
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True)
class Lengths:
    """Nonzero lengths of a robot by symbol, and a function that returns the robot with other lengths."""

    values: dict[str, float]
    with_values: Callable[[dict[str, float]], Robot]


def find_lengths(robot: Robot) -> Lengths:
    """Return a_i, b_i, d_i of a robot whose link frames are modified DH frames."""
    dh = modified_dh(robot)
    if not all(link.is_identity for link in dh.links):
        raise InputError(
            f"formulas with symbols need modified DH frames, and the link frames of {robot.name!r} are not",
            hint="convert the robot first: convert_to_dh_frames(robot)",
            code=Code.UNSUPPORTED,
            subject=robot.name,
        )
    values = {
        f"{name}{i + 1}": getattr(row, name) for i, row in enumerate(dh.rows) for name in "abd" if getattr(row, name)
    }

    def with_values(new: dict[str, float]) -> Robot:
        joints = []
        for i, (joint, row, parent) in enumerate(zip(robot.joints, dh.rows, dh.parents, strict=True)):
            changed = replace(row, **{name: new.get(f"{name}{i + 1}", getattr(row, name)) for name in "abd"})
            joints.append(replace(joint, origin=dh.base @ changed.pose if parent < 0 else changed.pose))
        return replace(robot, joints=tuple(joints))

    return Lengths(values, with_values)


def convert_to_dh_frames(robot: Robot) -> Robot:
    """Return the robot with its modified DH frames as link frames and joint frames."""
    dh = modified_dh(robot)
    moved = change_link_frames(robot, dh.links)
    joints = [
        replace(
            joint,
            origin=dh.base @ row.pose if parent < 0 else row.pose,
            axis=np.array([0.0, 0.0, 1.0]),
            tip=IDENTITY,
        )
        for joint, row, parent in zip(moved.joints, dh.rows, dh.parents, strict=True)
    ]
    return replace(moved, joints=tuple(joints))


def symbolic_expressions(base: BaseParameters) -> tuple[str, ...]:
    """Return every parameter of a structural set as a formula with symbolic lengths."""
    if base.survivors is None or base.form != "structural":
        raise InputError(
            f"formulas with symbolic geometry exist for structural sets only, not for form {base.form!r}",
            code=Code.UNSUPPORTED,
            subject=base.form,
        )
    links = PARAMETERS_PER_LINK * len(base.robot.joints)
    kept = [k for k in base.survivors if k < links]
    lengths = find_lengths(base.robot)
    symbols = tuple(lengths.values)
    monomials = [(), *((k,) for k in range(len(symbols))), *combinations_with_replacement(range(len(symbols)), 2)]
    samples = np.random.default_rng(0).uniform(0.5, 2.0, (len(monomials) + 2, len(symbols)))
    matrices = []
    for sample in samples:
        robot = lengths.with_values(dict(zip(symbols, sample, strict=True)))
        variant = structural_base(robot, drives=base.drives, survivors=kept)
        if variant.names != base.names:
            raise InputError(
                "other values of these lengths give another base set, so there is no common formula",
                code=Code.UNSUPPORTED,
                subject=base.robot.name,
            )
        matrices.append(variant.matrix)
    powers = np.array([[np.prod(sample[list(m)]) for m in monomials] for sample in samples])
    stack = np.stack(matrices).reshape(len(samples), -1)
    solution, *_ = np.linalg.lstsq(powers, stack, rcond=None)
    if np.abs(powers @ solution - stack).max() > 1e-8 * np.abs(stack).max():
        raise InputError(
            "the coefficients are not polynomials in the lengths; choose other survivors",
            code=Code.UNSUPPORTED,
            subject=base.robot.name,
        )
    coefficients = tidy(solution, 1e-8).reshape(len(monomials), *base.matrix.shape)
    names = [" ".join(_power(symbols, m)) for m in monomials]
    return tuple(_expression(base.labels, names, coefficients[:, row]) for row in range(base.count))


def _power(symbols: tuple[str, ...], monomial: tuple[int, ...]) -> list[str]:
    if len(monomial) == 2 and monomial[0] == monomial[1]:
        return [f"{symbols[monomial[0]]}^2"]
    return [symbols[k] for k in monomial]


def _expression(labels: tuple[str, ...], names: list[str], coefficients: Array) -> str:
    """Return a sum of products (number, lengths, link parameter), plain parameters first."""
    parts = []
    for name, row in sorted(zip(names, coefficients, strict=True), key=lambda pair: pair[0] != ""):
        parts += [(factor, f"{name} {label}".strip()) for label, factor in zip(labels, row, strict=True) if factor]
    return format_sum(parts, " ")
