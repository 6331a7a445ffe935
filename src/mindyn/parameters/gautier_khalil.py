"""Gautier and Khalil's base set of serial and tree arms: kept standard parameters, plus combinations of eliminated
ones.

K = [I X] P: every base parameter is a standard parameter in a DH frame plus a combination of eliminated parameters
[Gautier & Khalil 1990, in the closed form of Khalil & Dombre]. For prismatic joints with an oblique parent axis, and
for coaxial joints, the textbook counts too many parameters; the rules here correct this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from mindyn.foundation.algebra.inertia import tensor_entries
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.notation import LINK_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.parameters.axis_groups import note_far_joints, require_no_loops
from mindyn.parameters.base_parameters import BaseParameters, remove_rounding
from mindyn.parameters.lin import LinJoint, classify_joints
from mindyn.parameters.linear_forms import (
    Moments,
    link_moments,
    move_moments,
    outer,
    rotate_tensor,
    rotation_invariant_part,
    shift_tensor,
    zero_moments,
)
from mindyn.robots.joint_frames import modified_dh
from mindyn.robots.robot import Robot

KHALIL_NAMES: Final = dict(
    zip(LINK_PARAMETERS, ("M", "MX", "MY", "MZ", "XX", "XY", "YY", "XZ", "YZ", "ZZ"), strict=True)
)
SPATIAL: Final = ("mcx", "mcy", "Ixx", "Ixy", "Ixz", "Iyz", "Izz")
SPATIAL_WITHOUT_MOMENT: Final = SPATIAL[2:]
FIRST_MOMENTS: Final = ("mcx", "mcy", "mcz")


def _survivors(joint: LinJoint) -> tuple[str, ...]:
    """Return the standard parameters that stay, in the order of phi."""
    if joint.kind == "prismatic":
        if joint.group == "spatial":
            return ("m", *FIRST_MOMENTS)
        if not joint.sigma:
            return ("m",)
        return ("m", *(name for k, name in enumerate(FIRST_MOMENTS) if k != _find_lost_moment(joint)))
    if joint.group == "spatial":
        return SPATIAL if joint.from_centre is None else SPATIAL_WITHOUT_MOMENT
    return ("mcx", "mcy", "Izz") if joint.delta else ("Izz",)


def _find_lost_moment(joint: LinJoint) -> int:
    """Return the first moment that an oblique prismatic joint loses: along the largest of u_z, u_y, u_x."""
    assert joint.u is not None
    return 2 - int(np.argmax(np.round(np.abs(joint.u[::-1]), 9)))


def gautier_khalil_base(robot: Robot) -> BaseParameters:
    """Return Gautier and Khalil's set of a serial or tree robot.

    It has `survivors` if every source link frame is the DH frame of its joint, because columns then stay in place.
    """
    require_no_loops(robot, "gautier")
    dh = modified_dh(robot)
    joints = classify_joints(robot, dh)
    moments = link_moments(dh.links)
    rows, names, survivors = [], [], []
    for i, regrouped in enumerate(_regroup_links(robot.parents, joints, moments)):
        plain = _entries(moments[i])
        entries = _entries(regrouped)
        for name in _survivors(joints[i]):
            rows.append(entries[name])
            names.append(_name(name, i, alone=np.array_equal(entries[name], plain[name])))
            survivors.append(PARAMETERS_PER_LINK * i + LINK_PARAMETERS.index(name))
    in_place = all(X.is_identity for X in dh.links)
    matrix = remove_rounding(robot, np.array(rows))
    kept = tuple(survivors) if in_place else None
    return BaseParameters(robot, "gautier", False, matrix, tuple(names), kept, note_far_joints(dh.far))


def _name(parameter: str, joint: int, *, alone: bool) -> str:
    """Return Khalil's name: `XZ3`, or `XXR3` if other parameters are regrouped into it."""
    return f"{KHALIL_NAMES[parameter]}{'' if alone else 'R'}{joint + 1}"


def _entries(body: Moments) -> dict[str, Array]:
    """Return the linear forms of the ten parameters by name."""
    return dict(zip(LINK_PARAMETERS, [body.mass, *body.first, *tensor_entries(body.tensor)], strict=True))


def _regroup_links(parents: tuple[int, ...], joints: Sequence[LinJoint], moments: list[Moments]) -> list[Moments]:
    """Process links from the last to the first, and move parameters that have no effect at a joint to its parent
    link.
    """
    totals = list(moments)
    for i in reversed(range(len(joints))):
        regroup = _regroup_revolute if joints[i].kind == "revolute" else _regroup_prismatic
        totals[i], handed = regroup(joints[i], totals[i])
        if parents[i] >= 0:
            totals[parents[i]] = totals[parents[i]] + handed
    return totals


def _regroup_revolute(joint: LinJoint, body: Moments) -> tuple[Moments, Moments]:
    """Move Iyy, mcz and m to the parent; Ixx becomes Ixx - Iyy.

    Without gravity and with all axes through C, the tensor about C remains: Ixz - dl mcx, Iyz - dl mcy.
    """
    R, s = joint.row.pose.rotation, joint.row.pose.translation
    handed = move_moments(R, s, rotation_invariant_part(body))
    kept = body.tensor - outer(np.diag([1.0, 0.0, 0.0]), body.tensor[1, 1])
    if joint.from_centre is not None:
        kept = kept + shift_tensor(
            np.array([0.0, 0.0, joint.from_centre]), body.first * np.array([[1.0], [1.0], [0.0]])
        )
    return Moments(body.mass, body.first, kept), handed


def _regroup_prismatic(joint: LinJoint, body: Moments) -> tuple[Moments, Moments]:
    """Move the tensor to the parent; between r and s, also first moments without effect for the single rotation
    direction.
    """
    R, z = joint.row.pose.rotation, joint.row.pose.rotation[:, 2]
    empty = zero_moments(body.mass.size)
    handed = Moments(empty.mass, empty.first, rotate_tensor(R, body.tensor))
    if joint.group != "parallel":
        return body, handed
    if joint.sigma:
        return Moments(body.mass, _eliminate_dropped(joint, body.first), body.tensor), handed
    h = R @ (body.first * np.array([[1.0], [1.0], [0.0]]))
    p = joint.row.pose.translation - joint.row.d * z
    return body, Moments(empty.mass, h, handed.tensor + shift_tensor(p, h))


def _eliminate_dropped(joint: LinJoint, first: Array) -> Array:
    """Return mc - (u / u_k) mc_k: columns of an oblique joint satisfy u_x D(mcx) + u_y D(mcy) + u_z D(mcz) = 0."""
    assert joint.u is not None
    k = _find_lost_moment(joint)
    return first - outer(joint.u / joint.u[k], first[k])
