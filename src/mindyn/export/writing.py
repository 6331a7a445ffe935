"""What every writer of a robot asks first, and the parts that writers share."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.inertia import entries_of_tensor, mass_com_inertia
from mindyn.errors import ExportError
from mindyn.escaping import xml_comment
from mindyn.robots.parts import Drive, Link, LoopKind
from mindyn.robots.robot import Robot


def written(values: ArrayLike) -> str:
    """Numbers as XML attributes hold them, each with the digits that give it back."""
    return " ".join(repr(float(value) + 0.0) for value in np.ravel(values))


def comment_text(notes: Sequence[str]) -> str:
    """Sentences as the text of an XML comment."""
    return xml_comment(" ".join(notes))


def require_exportable(robot: Robot, file_format: str, lost: list[str], *, force: bool) -> None:
    """Refuse, unless forced, what the format would lose and links that no body can be."""
    if force:
        return
    robot.phi  # noqa: B018 - raises the error that names the links without parameters
    impossible = [f"{name} ({verdict.reason})" for name, verdict in robot.consistency().items() if not verdict.possible]
    if impossible:
        raise ExportError(
            f"links of {robot.name!r} are not physically consistent: {'; '.join(impossible)}",
            hint="force=True (--force) writes them as they are",
        )
    if lost:
        raise ExportError(
            f"{file_format} cannot express: {'; '.join(lost)}",
            hint="force=True (--force) leaves them out, TOML keeps everything",
        )


def losses(robot: Robot, *, armature: bool, closing: Sequence[LoopKind] = ()) -> list[str]:
    """What a format with joint-side damping and friction alone (and armature) cannot say of a robot.

    closing  the kinds of loops that it can close
    """
    lost = [f"loop {loop.name!r}" for loop in robot.loops if loop.kind not in closing]
    lost += [f"the extra torque {extra.name!r}" for extra in robot.extras]
    of_drives: dict[str, list[str]] = {}
    for drive in robot.drives:
        if drive.coupling and (drive.rotor_inertia or (drive.side == "motor" and (drive.viscous or drive.coulomb))):
            of_drives.setdefault("coupling", []).append(repr(drive.joint))
        if drive.offset:
            of_drives.setdefault("torque offset", []).append(repr(drive.joint))
        if drive.rotor_inertia and not armature:
            of_drives.setdefault("rotor inertia", []).append(repr(drive.joint))
    return [*lost, *(f"the {what} of the drives of {', '.join(joints)}" for what, joints in of_drives.items())]


def joint_side(drive: Drive) -> tuple[float, float, float]:
    """Armature, damping and dry friction that a drive shows at its own joint."""
    ratio = drive.ratio if drive.side == "motor" else 1.0
    return drive.ratio**2 * drive.rotor_inertia, ratio**2 * drive.viscous, abs(ratio) * drive.coulomb


def inertial_of(link: Link) -> Element:
    """URDF's <inertial> of a link: mass, centre of mass, tensor about it along the link frame's axes."""
    assert link.phi is not None
    mass, com, inertia = mass_com_inertia(link.phi)
    if mass == 0 and link.phi[1:4].any():
        raise ExportError(f"URDF cannot express link {link.name!r}: no mass, but a first moment")
    inertial = Element("inertial")
    SubElement(inertial, "origin", xyz=written(com), rpy=written(np.zeros(3)))
    SubElement(inertial, "mass", value=repr(float(mass)))
    names = ("ixx", "ixy", "iyy", "ixz", "iyz", "izz")
    values = entries_of_tensor(inertia)
    SubElement(inertial, "inertia", {k: repr(float(v)) for k, v in zip(names, values, strict=True)})
    return inertial
