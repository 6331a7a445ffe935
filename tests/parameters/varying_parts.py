"""Varying parts l_i, V_i of composite bodies, with which Lin's constants add up to the whole body.

The private part of a tensor that turns with its joint is the constant's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mindyn.foundation.algebra.poses import cos_sin, rot_z
from mindyn.foundation.algebra.values import Array
from mindyn.parameters.lin import _rotation_invariant_part, constant_translation, inertia_constants
from mindyn.parameters.linear_forms import outer, point_mass_tensor, rotate_tensor, shift_tensor, zero_moments


@dataclass(frozen=True, slots=True)
class VaryingParts:
    """l_i (3, p) and V_i (3, 3, p) of a link at a position q, as linear forms over phi."""

    l: Array  # noqa: E741 - Lin's symbol
    V: Array


def varying_parts(structure, q, version=1999):
    """Return l_i, V_i of every link at q [Lin 1995, eq. 13, 25, 26]."""
    constants = inertia_constants(structure, version)
    end = zero_moments(constants[-1].mass.size)
    parts = [VaryingParts(end.first, end.tensor)]
    for i in reversed(range(1, len(constants))):
        parts.append(_varying_before(structure.joints[i], q[i], constants[i], parts[-1], version))
    return parts[::-1]


def _varying_before(joint, q, constants, after, version):
    """Return l_{i-1}, V_{i-1} from the constants and the varying parts of link i."""
    c, home = constants.first + after.l, joint.row.pose.rotation
    s = constant_translation(joint)
    if joint.kind == "revolute":
        R = home @ rot_z(*cos_sin(q))
        l_before = R @ np.stack([c[0], c[1], after.l[2]])
        V = after.V + constants.tensor - _rotation_invariant_part(constants, version).tensor
    else:
        R, slide = home, np.array([0.0, 0.0, joint.row.d + q])
        l_before = R @ (after.l + outer(slide, constants.mass))
        V = after.V + point_mass_tensor(slide, constants.mass) + shift_tensor(slide, c)
    return VaryingParts(l_before, rotate_tensor(R, V) + shift_tensor(s, l_before))
