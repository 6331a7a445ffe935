"""Bodies and joints of a new MJCF file: link frames, joint axes, armature, damping, friction and springs."""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element, SubElement

from mindyn.algebra.inertia import mass_com_inertia
from mindyn.algebra.poses import IDENTITY, Pose, quaternion_from_rotation
from mindyn.algebra.values import Array
from mindyn.errors import Code, ExportError, list_names
from mindyn.export.writing import format_numbers, joint_side_values
from mindyn.robots.parts import Joint, Link
from mindyn.robots.robot import Robot
from mindyn.robots.springs import find_springs

JOINT_ATTRIBUTES: Final = ("armature", "damping", "frictionloss")
"""Attributes of an MJCF joint, in the order of `joint_side_values`."""


def add_bodies(world: Element, robot: Robot) -> dict[str, Element]:
    """Add a body for each link and return the bodies by link name.

    A massless link between two joints gets no body: its joint moves to the next body. MuJoCo accepts several joints on
    one body, but no moving body without mass.
    """
    bodies = {robot.root.name: world}
    between: dict[str, tuple[Element, Pose, list[tuple[Joint, Pose]]]] = {}
    for joint, link in zip(robot.joints, robot.links, strict=True):
        on, X, waiting = between.get(joint.parent) or (bodies[joint.parent], IDENTITY, [])
        X_joint = X @ joint.origin
        X_link = X_joint @ joint.tip
        waiting = [*waiting, (joint, X_joint)]
        if _is_massless_connector(robot, link):
            between[link.name] = on, X_link, waiting
            continue
        body = SubElement(on, "body", pose_attributes(X_link), name=link.name)
        bodies[link.name] = body
        if link.phi is not None and link.phi.any():
            SubElement(body, "inertial", inertial_attributes(link.phi))
        for waiting_joint, X_waiting in waiting:
            _add_joint(body, robot, waiting_joint, X_link.inverse() @ X_waiting)
    return bodies


def _is_massless_connector(robot: Robot, link: Link) -> bool:
    """Return whether a link without mass only connects two joints."""
    if link.phi is None or link.phi.any() or any(link.name in (loop.first, loop.second) for loop in robot.loops):
        return False
    return sum(joint.parent == link.name for joint in robot.joints) == 1


def require_mass(robot: Robot, *, force: bool) -> None:
    """Raise `ExportError` for moving links without mass that MuJoCo does not accept, unless `force` is set."""
    empty = [link for link in robot.links if link.phi is not None and not link.phi.any()]
    massless = [link.name for link in empty if not _is_massless_connector(robot, link)]
    if massless and not force:
        raise ExportError(
            f"MuJoCo does not accept moving bodies without mass: {list_names(massless)}",
            hint="lock their joints (lock=, --lock), give them a mass, or write them as they are with force=True "
            "(--force)",
            code=Code.UNSUPPORTED,
            subject=massless[0],
        )


def _add_joint(body: Element, robot: Robot, joint: Joint, X_link_joint: Pose) -> None:
    kind = "hinge" if joint.kind == "revolute" else "slide"
    element = SubElement(body, "joint", name=joint.name, type=kind)
    element.set("pos", format_numbers(X_link_joint.translation))
    element.set("axis", format_numbers(X_link_joint.rotation @ joint.axis))
    limits = joint.limits
    if limits.lower is not None and limits.upper is not None:
        element.set("range", format_numbers((limits.lower, limits.upper)))
    if limits.effort is not None:
        element.set("actuatorfrcrange", format_numbers((-limits.effort, limits.effort)))
    for drive in robot.drives:
        if drive.joint == joint.name:
            for key, value in zip(JOINT_ATTRIBUTES, joint_side_values(drive), strict=True):
                element.set(key, repr(float(value)))
    if (spring := find_springs(robot.extras).get(joint.name)) is not None:
        element.set("stiffness", repr(float(spring.stiffness)))
        element.set("springref", repr(float(spring.rest)))


def pose_attributes(pose: Pose) -> dict[str, str]:
    """Return the position and orientation attributes of a body or site."""
    return {"pos": format_numbers(pose.translation), "quat": format_numbers(quaternion_from_rotation(pose.rotation))}


def inertial_attributes(phi: Array) -> dict[str, str]:
    """Return the attributes of MJCF's <inertial> for link parameters phi (10,)."""
    mass, com, J = mass_com_inertia(phi)
    stated = {"pos": format_numbers(com), "mass": repr(float(mass))}
    if not phi.any():
        return {**stated, "diaginertia": "0 0 0"}  # MuJoCo diagonalises a full tensor and rejects zero
    # MuJoCo's order: xx yy zz xy xz yz.
    return {**stated, "fullinertia": format_numbers((J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2]))}
