"""Compute the two parts of composite bodies in Lin's equations as numbers: `lin_constants` and `varying_parts`.

The links i..n of a chain are one composite body. Its first moment c^_i and its tensor J^_i about O_i are sums of a
constant and a part that varies with q: c^_i = k_i + l_i, J^_i = U_i + V_i [Lin 1995, eq. 8-15, 25, 26; Lin & Fang 1999,
eq. 22-26, C1-C3].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mindyn.foundation.algebra.rotations import cos_sin, rot_z
from mindyn.foundation.algebra.values import Array, ShortRepr, frozen_array
from mindyn.parameters.lin import (
    LinJoint,
    Version,
    constant_translation,
    constants_behind_rotation,
    inertia_constants,
    lin_structure,
)
from mindyn.parameters.linear_forms import (
    Moments,
    outer,
    point_mass_tensor,
    rotate_tensor,
    shift_tensor,
    zero_moments,
)
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LinConstants(ShortRepr):
    """Constants of the composite bodies i..n, in the modified DH frame of joint i.

    Attributes
    ----------
    mass : ndarray, shape (n,)
        Mass m^_i of the links i..n, kg.
    k : ndarray, shape (n, 3)
        Constant part of the first moment, kg m.
    U : ndarray, shape (n, 3, 3)
        Constant part of the inertia tensor about the frame's origin, kg m^2.
    """

    mass: Array
    k: Array
    U: Array


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VaryingParts(ShortRepr):
    """Parts of the composite bodies i..n that vary with q, in the modified DH frame of joint i.

    Attributes
    ----------
    l : ndarray, shape (n, 3)
        Varying part of the first moment, kg m.
    V : ndarray, shape (n, 3, 3)
        Varying part of the inertia tensor about the frame's origin, kg m^2.
    """

    l: Array  # noqa: E741 - Lin's symbol
    V: Array


def lin_constants(robot: Robot, *, version: Version = 1999) -> LinConstants:
    """Return Lin's inertia constants m^_i, k_i, U_i of a serial robot.

    Their entries are the base parameters of `base_parameters(robot, form="lin")` [Lin 1995, theorem 2].

    Parameters
    ----------
    robot : Robot
        Serial robot with inertial parameters.
    version : {1999, 1995}
        U of 1999 passes only U_22 to the previous link (eq. C2), U of 1995 also U_33 (eq. 12).

    Returns
    -------
    LinConstants
        Masses, first moments and tensors, one for each joint.

    Raises
    ------
    RobotError
        If the robot has branches, loops or a floating base.
    MissingPhysicsError
        If a link has no inertial parameters.

    Examples
    --------
    >>> import mindyn
    >>> from mindyn.parameters import lin_constants
    >>> robot = mindyn.load_robot("stanford")
    >>> constants = lin_constants(robot)
    >>> base = mindyn.base_parameters(robot, form="lin")
    >>> bool(abs(constants.U[0, 2, 2] - base.values[base.names.index("U33_1")]) < 1e-12)
    True
    """
    phi = robot.phi
    constants = inertia_constants(lin_structure(robot), version)
    return LinConstants(
        np.array([body.mass @ phi for body in constants]),
        np.array([body.first @ phi for body in constants]),
        np.array([body.tensor @ phi for body in constants]),
    )


def varying_parts(robot: Robot, q: ArrayLike, *, version: Version = 1999) -> VaryingParts:
    """Return l_i and V_i of a serial robot at q: the difference between the composite bodies at q and Lin's constants.

    k_i + l_i and U_i + V_i are the first moment and the tensor of the links i..n at q.

    Parameters
    ----------
    robot : Robot
        Serial robot with inertial parameters.
    q : array_like, shape (n,)
        Joint positions, rad or m.
    version : {1999, 1995}
        As in `lin_constants`; V depends on it, because U does.

    Returns
    -------
    VaryingParts
        First moments and tensors, one for each joint.

    Raises
    ------
    RobotError
        If the robot has branches, loops or a floating base.
    MissingPhysicsError
        If a link has no inertial parameters.

    Examples
    --------
    >>> import mindyn
    >>> from mindyn.parameters import varying_parts
    >>> varying_parts(mindyn.load_robot("planar2"), [0.3, 0.0]).l.shape
    (2, 3)
    """
    phi = robot.phi
    structure = lin_structure(robot)
    position = frozen_array(q, (robot.joint_count,), "q")
    constants = inertia_constants(structure, version)
    parts = [zero_moments(phi.size)]
    for i in reversed(range(1, len(constants))):
        parts.append(_varying_before(structure.joints[i], float(position[i]), constants[i], parts[-1], version))
    return VaryingParts(
        np.array([part.first @ phi for part in reversed(parts)]),
        np.array([part.tensor @ phi for part in reversed(parts)]),
    )


def _varying_before(joint: LinJoint, q: float, constants: Moments, after: Moments, version: Version) -> Moments:
    """Return l_{i-1}, V_{i-1} from the constants and the varying parts of link i [Lin 1995, eq. 13, 25, 26]."""
    first, home = constants.first + after.first, joint.row.pose.rotation
    if joint.kind == "revolute":
        R = home @ rot_z(*cos_sin(q))
        before = R @ np.stack([first[0], first[1], after.first[2]])
        tensor = after.tensor + constants.tensor - constants_behind_rotation(constants, version).tensor
    else:
        R, slide = home, np.array([0.0, 0.0, joint.row.d + q])
        before = R @ (after.first + outer(slide, constants.mass))
        tensor = after.tensor + point_mass_tensor(slide, constants.mass) + shift_tensor(slide, first)
    moved = rotate_tensor(R, tensor) + shift_tensor(constant_translation(joint), before)
    return Moments(np.zeros_like(constants.mass), before, moved)
