"""What every writer of a robot asks first, and the parts that writers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal
from xml.etree.ElementTree import Element, SubElement

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.inertia import mass_com_inertia, tensor_entries
from mindyn.equations.catalogue import equation
from mindyn.errors import ExportError
from mindyn.escaping import xml_comment
from mindyn.robots.parts import Drive, Link, LoopKind
from mindyn.robots.robot import Robot
from mindyn.robots.springs import is_spring

RobotFormat = Literal["urdf", "mjcf", "toml"]

ROBOT_FILES: Final[Mapping[RobotFormat, str]] = {"urdf": "model.urdf", "mjcf": "model.xml", "toml": "model.toml"}
"""What a file of each format is called in commands that are proposed."""

CLOSABLE_LOOPS: Final[tuple[LoopKind, ...]] = ("pin", "ball", "weld")
"""Loops that <connect> and <weld> of MJCF can close."""

NEGLIGIBLE: Final = 1e-12
"""N m, N, kg m^2 or kg: what rounding leaves of a drive that has none is no loss."""

SAME_PLACE_TOLERANCE = 1e-4
"""rad or m by which joints of robot and source may differ: snapping moves rotations by 1e-5."""


def choose_format(robot: Robot) -> RobotFormat:
    """The most widely read format that can say how a robot's links hang together: URDF says trees alone."""
    if not robot.loops:
        return "urdf"
    return "mjcf" if all(loop.kind in CLOSABLE_LOOPS for loop in robot.loops) else "toml"


def format_numbers(values: ArrayLike) -> str:
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
    impossible = [
        f"{name} ({verdict.reason})" for name, verdict in robot.consistency().items() if not verdict.is_feasible
    ]
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


def find_unsupported(
    robot: Robot, *, armature: bool, closing: Sequence[LoopKind] = (), springs: bool = False
) -> list[str]:
    """What a format with joint-side damping and friction alone (and armature) cannot say of a robot, with numbers.

    closing  the kinds of loops that it can close
    springs  whether its joints can have springs
    """
    lost = [f"loop {loop.name!r}" for loop in robot.loops if loop.kind not in closing]
    lost += [
        f"the extra torque {extra.name!r} ({extra.coefficient:.4g} times {extra.formula})"
        for extra in robot.extras
        if not (springs and is_spring(extra))
    ]
    of_drives: dict[str, list[str]] = {}
    for drive in robot.drives:
        unit = "N" if _is_prismatic(robot, drive) else "N m"
        if drive.coupling and (drive.rotor_inertia or (drive.side == "motor" and (drive.viscous or drive.coulomb))):
            ratios = ", ".join(f"{ratio:.4g} of {joint}" for joint, ratio in drive.coupling.items())
            of_drives.setdefault("coupling", []).append(f"{drive.joint!r} ({ratios})")
        offset = drive.offset * (drive.ratio if drive.side == "motor" else 1.0)
        if abs(offset) > NEGLIGIBLE:
            of_drives.setdefault("torque offset", []).append(f"{drive.joint!r} ({offset:.4g} {unit})")
    rotors = [] if armature else _describe_rotors(robot)
    beside = ", in brackets what the links have there at q = 0" if _has_known_inertia(robot) else ""
    lost += [f"the {what} of the drives of {', '.join(said)}" for what, said in of_drives.items() if said]
    return [*lost, *([f"the rotor inertia at the joints{beside}: {', '.join(rotors)}"] if rotors else [])]


def _is_prismatic(robot: Robot, drive: Drive) -> bool:
    return robot.joints[robot.joint_index(drive.joint)].kind == "prismatic"


def _has_known_inertia(robot: Robot) -> bool:
    """Whether the inertia matrix at q = 0 is known."""
    return robot.has_parameters and not robot.has_dependents


def _describe_rotors(robot: Robot) -> list[str]:
    """For each rotor its inertia at the joint, beside what the links have there (the diagonal of M) at q = 0."""
    turning = [drive for drive in robot.drives if joint_side_values(drive)[0] > NEGLIGIBLE]
    links = None
    if turning and _has_known_inertia(robot):
        M = equation(robot, "inertia_matrix", check=False)(np.zeros(robot.joint_count))
        links = np.diag(np.array(M))
    said = []
    for drive in turning:
        beside = "" if links is None else f" ({links[robot.joint_index(drive.joint)]:.3g})"
        unit = "kg" if _is_prismatic(robot, drive) else "kg m^2"
        said.append(f"{drive.joint!r} {joint_side_values(drive)[0]:.3g} {unit}{beside}")
    return said


def joint_side_values(drive: Drive) -> tuple[float, float, float]:
    """Armature, damping and dry friction that a drive shows at its own joint."""
    ratio = drive.ratio if drive.side == "motor" else 1.0
    return drive.ratio**2 * drive.rotor_inertia, ratio**2 * drive.viscous, abs(ratio) * drive.coulomb


def describe_held_joints(robot: Robot) -> list[str]:
    """A sentence on joints that move in the file and not in the robot."""
    held = ", ".join(f"{name} = {position:g}" for name, position in robot.selection.lock.items())
    return [f"Right where these joints are held: {held}; what they move keeps its inertials."] if held else []


def require_same_arm(robot: Robot, stated: Robot, source: str) -> None:
    """Refuse a source of another arm: the inertials would stand in the wrong frames."""
    named = (("joints", stated.joint_names, robot.joint_names), ("links", stated.link_names, robot.link_names))
    for what, theirs, ours in named:
        if theirs != ours:
            raise ExportError(
                f"{source} has the {what} {', '.join(theirs)}; the robot has {', '.join(ours)}",
                hint="give the file that the robot was loaded from",
            )
    for one, other in zip(robot.joints, stated.joints, strict=True):
        pairs = ((one.origin.matrix, other.origin.matrix), (one.axis, other.axis), (one.tip.matrix, other.tip.matrix))
        if one.kind != other.kind or not all(np.allclose(a, b, rtol=0, atol=SAME_PLACE_TOLERANCE) for a, b in pairs):
            raise ExportError(f"joint {one.name!r} stands elsewhere in {source} than in the robot")


def inertial_element(link: Link) -> Element:
    """URDF's <inertial> of a link: mass, centre of mass, tensor about it along the link frame's axes."""
    assert link.phi is not None
    mass, com, inertia = mass_com_inertia(link.phi)
    if mass == 0 and link.phi[1:4].any():
        raise ExportError(f"URDF cannot express link {link.name!r}: no mass, but a first moment")
    inertial = Element("inertial")
    SubElement(inertial, "origin", xyz=format_numbers(com), rpy=format_numbers(np.zeros(3)))
    SubElement(inertial, "mass", value=repr(float(mass)))
    names = ("ixx", "ixy", "iyy", "ixz", "iyz", "izz")
    values = tensor_entries(inertia)
    SubElement(inertial, "inertia", {k: repr(float(v)) for k, v in zip(names, values, strict=True)})
    return inertial
