"""Base parameters with symbolic geometry: `mcx2 + a3 m3 + ...` instead of `mcx2 + 0.4318 m3 + ...`.

With fixed angles, every coefficient is a polynomial of degree two in the lengths. Interpolation determines the
polynomial exactly: base sets are computed for robots with other lengths, where the lengths that are zero stay zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations_with_replacement
from types import MappingProxyType

import numpy as np

from mindyn.foundation.algebra.poses import IDENTITY
from mindyn.foundation.algebra.rotations import tidy
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.notation import PARAMETERS_PER_LINK
from mindyn.parameters.base_parameters import BaseParameters, format_sum
from mindyn.parameters.structural import structural_base
from mindyn.robots.edits import change_link_frames
from mindyn.robots.joint_frames import modified_dh
from mindyn.robots.robot import Robot


def find_lengths(robot: Robot) -> dict[str, float]:
    """Return the nonzero a_i, b_i, d_i of a robot whose link frames are modified DH frames, by symbol."""
    dh = modified_dh(robot)
    if not all(link.is_identity for link in dh.links):
        raise InputError(
            f"formulas with symbols need modified DH frames, and the link frames of {robot.name!r} are not",
            hint="convert the robot first: convert_to_dh_frames(robot)",
            code=Code.UNSUPPORTED,
            subject=robot.name,
        )
    return {
        f"{name}{i + 1}": getattr(row, name) for i, row in enumerate(dh.rows) for name in "abd" if getattr(row, name)
    }


def convert_to_dh_frames(robot: Robot, lengths: Mapping[str, float] = MappingProxyType({})) -> Robot:
    """Return the robot with its modified DH frames as link frames and joint frames, and with other lengths if given."""
    dh = modified_dh(robot)
    moved, z = change_link_frames(robot, dh.links), np.array([0.0, 0.0, 1.0])
    joints = []
    for i, (joint, row, parent) in enumerate(zip(moved.joints, dh.rows, dh.parents, strict=True)):
        X = replace(row, **{name: lengths.get(f"{name}{i + 1}", getattr(row, name)) for name in "abd"}).pose
        joints.append(replace(joint, origin=dh.base @ X if parent < 0 else X, axis=z, tip=IDENTITY))
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
    symbols = tuple(find_lengths(base.robot))
    monomials = [(), *((k,) for k in range(len(symbols))), *combinations_with_replacement(range(len(symbols)), 2)]
    samples = np.random.default_rng(0).uniform(0.5, 2.0, (len(monomials) + 2, len(symbols)))
    matrices = []
    for sample in samples:
        robot = convert_to_dh_frames(base.robot, dict(zip(symbols, sample, strict=True)))
        variant = structural_base(robot, with_drives=base.with_drives, survivors=kept)
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
