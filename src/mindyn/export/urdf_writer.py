"""Writing URDF anew, and editing one: inertials and joint friction replaced, visuals, meshes, limits, frames left.

A link frame that is not its joint's frame gets a fixed joint: a carrier link, then the link itself. In a file that is
edited, mindyn takes links behind fixed joints as parts of the link that carries them, and identifies their sum. That
sum is written on the carrier, and inertials of links fixed to it are taken out: no reader can then count them twice.
Links on joints that the robot holds still move in the file: they keep the file's inertials, and their carrier has the
rest of the sum. Where the file states none, or no body would be left, those joints become fixed ones where they are
held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree.ElementTree import Comment, Element, SubElement

import numpy as np

from mindyn.algebra.poses import Pose
from mindyn.algebra.rotations import rpy_from_rotation
from mindyn.algebra.values import Array
from mindyn.errors import ExportError
from mindyn.escaping import xml_document
from mindyn.estimators.estimate import Estimate
from mindyn.export.held_bodies import find_held_links, find_held_poses, subtract_held_bodies
from mindyn.export.models import Prior, describe_omissions, resolve_model
from mindyn.export.writing import (
    comment_text,
    describe_held_joints,
    find_unsupported,
    format_numbers,
    inertial_element,
    joint_side_values,
    require_exportable,
    require_same_arm,
)
from mindyn.files import write_file_atomically
from mindyn.notation import STANDARD_GRAVITY
from mindyn.robots.assembly import assemble
from mindyn.robots.files import find_leading_comments, parse_xml, read_text
from mindyn.robots.parts import Joint, Link, Shape
from mindyn.robots.robot import Robot
from mindyn.robots.snapping import Snapper
from mindyn.robots.urdf_reader import DRAKE_GEAR_RATIO, DRAKE_ROTOR_INERTIA, read_urdf

URDF_COMMENT = "Inertials, damping and friction by mindyn; parts on fixed joints are counted with the link they are on."


def robot_to_urdf(robot: Robot, *, force: bool = False, notes: Sequence[str] = (), meshes: bool = True) -> str:
    """The URDF text of a robot; gravity, acceleration and jerk limits are not part of URDF; `notes` become a comment.

    meshes  False leaves out collision shapes that are meshes

    A link frame away from its joint (standard DH) is written as a carrier link with a fixed joint to the link.
    """
    require_exportable(
        robot, "URDF", [*find_unsupported(robot, armature=False), *_incomplete_limits(robot)], force=force
    )
    root = Element("robot", name=robot.name)
    if notes:
        root.append(Comment(comment_text(notes)))
    _add_link(root, robot.root, meshes)
    for joint, link in zip(robot.joints, robot.links, strict=True):
        if joint.tip.is_identity:
            _add_joint(root, robot, joint, joint.child)
            _add_link(root, link, meshes)
        else:
            carrier = f"{joint.child}__joint_frame"
            SubElement(root, "link", name=carrier)
            _add_joint(root, robot, joint, carrier)
            _add_fixed_joint(root, f"{joint.child}__tip", carrier, joint.child, joint.tip)
            _add_link(root, link, meshes)
    for frame in robot.frames:
        SubElement(root, "link", name=frame.name)
        _add_fixed_joint(root, f"{frame.name}__fixed", frame.link, frame.name, frame.pose)
    _add_rotors(root, robot)
    return xml_document(root, declaration=True)


def write_urdf(
    model: Robot | Estimate,
    path: str | Path,
    *,
    source: str | Path | None = None,
    prior: Prior = "robot",
    force: bool = False,
    meshes: bool = True,
) -> tuple[str, ...]:
    """Write a robot, or the full model behind an estimate, as URDF.

    Returns the sentences about the estimate, and about what was left out, that stand in the file's comment.

    prior   as in `full_model`
    source  the URDF that the robot was loaded from: its inertials, damping and friction are replaced, the rest stays
    force   writes links that no body can be; of a robot also leaves out what URDF cannot express. Of an estimate that
            is always left out (rotor inertia, offsets, extra torques, loops: the tree is written), and a comment in the
            file says so, as it does of gravity that is not the usual one
    meshes  False takes out visuals and collisions that are meshes (package://..., files that a simulator may not find);
            kept, MuJoCo loads the file where the meshes lie beside it, as it looks for them by their bare names
    """
    robot = resolve_model(model, prior, force=force)
    lost = find_unsupported(robot, armature=False)
    lossy = isinstance(model, Estimate)
    notes = describe_omissions(model, robot, [*lost, *_unusual_gravity(robot)], _rotor_advice(robot))
    if source is None:
        write_file_atomically(path, robot_to_urdf(robot, force=force or lossy, notes=notes, meshes=meshes))
    else:
        require_exportable(robot, "URDF", [] if lossy else lost, force=force)
        write_file_atomically(path, edit_urdf(robot, source, notes, meshes=meshes))
    return tuple(notes)


def _rotor_advice(robot: Robot) -> str:
    """What helps a simulator that reads the file and would move too easily."""
    if not any(drive.rotor_inertia for drive in robot.drives):
        return ""
    return (
        "Without rotor inertia a simulator of this file is too light at those joints (Drake has tags for it): "
        "set it there as armature, or write MJCF or C, which have it."
    )


def _unusual_gravity(robot: Robot) -> list[str]:
    """Gravity that a reader of the file would not assume."""
    usual = np.allclose(robot.gravity, STANDARD_GRAVITY)
    return [] if usual else [f"gravity {' '.join(f'{g:g}' for g in robot.gravity)} m/s^2"]


def _incomplete_limits(robot: Robot) -> list[str]:
    """Joints whose range URDF cannot say: a <limit> needs both ends, a speed and an effort."""
    found = []
    for joint in robot.joints:
        needed = ("velocity", "effort") if joint.limits.continuous else ("lower", "upper", "velocity", "effort")
        stated = [getattr(joint.limits, name) is not None for name in needed]
        if (any(stated) and not all(stated)) or (joint.kind == "prismatic" and not all(stated)):
            found.append(f"a range of joint {joint.name!r} without both ends, speed and effort")
    return found


def _add_origin(parent: Element, pose: Pose) -> None:
    SubElement(
        parent, "origin", xyz=format_numbers(pose.translation), rpy=format_numbers(rpy_from_rotation(pose.rotation))
    )


def _add_fixed_joint(root: Element, name: str, parent: str, child: str, pose: Pose) -> None:
    element = SubElement(root, "joint", name=name, type="fixed")
    _add_origin(element, pose)
    SubElement(element, "parent", link=parent)
    SubElement(element, "child", link=child)


def _add_joint(root: Element, robot: Robot, joint: Joint, child: str) -> None:
    limits = joint.limits
    endless = joint.kind == "revolute" and limits.lower is None and limits.upper is None
    element = SubElement(root, "joint", name=joint.name, type="continuous" if endless else joint.kind)
    _add_origin(element, joint.origin)
    SubElement(element, "parent", link=joint.parent)
    SubElement(element, "child", link=child)
    SubElement(element, "axis", xyz=format_numbers(joint.axis))
    stated = {
        key: value for key in ("lower", "upper", "velocity", "effort") if (value := getattr(limits, key)) is not None
    }
    if stated or joint.kind == "prismatic":
        stated = dict.fromkeys(("velocity", "effort"), 0.0) | stated  # required by URDF; 0 stands for not stated
        SubElement(element, "limit", {key: repr(float(value)) for key, value in stated.items()})
    for mimic in robot.mimics:
        if mimic.joint == joint.name:
            numbers = {"multiplier": repr(float(mimic.multiplier)), "offset": repr(float(mimic.offset))}
            SubElement(element, "mimic", numbers, joint=mimic.of)
    for drive in robot.drives:
        if drive.joint == joint.name:
            _, damping, friction = joint_side_values(drive)
            if damping or friction:
                SubElement(element, "dynamics", damping=repr(float(damping)), friction=repr(float(friction)))


def _add_link(root: Element, link: Link, meshes: bool) -> None:
    element = SubElement(root, "link", name=link.name)
    if link.phi is not None:
        element.append(inertial_element(link))
    for shape in link.shapes:
        if meshes or shape.kind != "mesh":
            _add_shape(SubElement(element, "collision"), shape)


def _add_rotors(root: Element, robot: Robot) -> None:
    """Gear ratios and rotor inertias of single joints, where Drake looks for them; other readers pass over them."""
    for drive in robot.drives:
        if drive.rotor_inertia and not drive.coupling:
            root.set("xmlns:drake", "http://drake.mit.edu")
            element = SubElement(root, "transmission", name=f"{drive.joint}__transmission")
            SubElement(element, "type").text = "transmission_interface/SimpleTransmission"
            SubElement(element, "joint", name=drive.joint)
            actuator = SubElement(element, "actuator", name=f"{drive.joint}__motor")
            SubElement(actuator, DRAKE_ROTOR_INERTIA, value=repr(float(drive.rotor_inertia)))
            SubElement(actuator, DRAKE_GEAR_RATIO, value=repr(float(drive.ratio)))


def _add_shape(collision: Element, shape: Shape) -> None:
    _add_origin(collision, shape.pose)
    geometry = SubElement(collision, "geometry")
    size = shape.dimensions
    if shape.kind == "box":
        SubElement(geometry, "box", size=format_numbers(size))
    elif shape.kind == "sphere":
        SubElement(geometry, "sphere", radius=format_numbers(size))
    elif shape.kind == "mesh":
        SubElement(geometry, "mesh", filename=shape.filename, scale=format_numbers(size))
    else:
        SubElement(geometry, shape.kind, radius=format_numbers(size[0]), length=format_numbers(size[1]))


def edit_urdf(robot: Robot, source: str | Path, notes: Sequence[str] = (), *, meshes: bool = True) -> str:
    """The text of the source with the robot's inertials, damping and friction; `notes` become a comment.

    meshes  False takes out visuals and collisions that are meshes
    """
    text = read_text(Path(source))
    root = parse_xml(text, str(source), comments=True)
    described = read_urdf(text, Snapper(active=True))
    stated = assemble(described.select(robot.selection))
    require_same_arm(robot, stated, str(source))
    said = describe_held_joints(robot)
    held = find_held_links(described, robot.selection.lock)
    try:
        bodies = subtract_held_bodies(robot, described, held, str(source))
    except ExportError as refused:
        bodies, held = subtract_held_bodies(robot, described, {}, str(source)), {}
        places = find_held_poses(described, robot.selection.lock)
        _fix_joints(root, places)
        said = [f"Fixed where they were held, since {refused.message}: {', '.join(places)}."]
    # What is fixed to the root does not move: nothing is known of it, so it stays.
    carried = {frame.name for frame in stated.frames if frame.link != stated.root.name}
    _edit_links(root, bodies, carried - set(held))
    _edit_joints(root, robot)
    if not meshes:
        _remove_meshes(root)
    root.insert(0, Comment(comment_text([URDF_COMMENT, *said, *notes])))
    root[0].tail = "\n  "
    return xml_document(root, declaration=True, keep_whitespace=True, above=find_leading_comments(text))


def _edit_links(root: Element, bodies: Mapping[str, Array], carried: set[str]) -> None:
    """New inertials on the moving links; none on the links that they carry, since the sum counts those."""
    for element in root.findall("link"):
        name = element.get("name", "")
        if name in bodies:
            _replace_inertial(element, Link(name, bodies[name]))
        elif name in carried:
            for inertial in element.findall("inertial"):
                element.remove(inertial)


def _fix_joints(root: Element, places: Mapping[str, Pose]) -> None:
    """Joints as fixed ones, with what a fixed joint has alone: origin, parent, child."""
    for element in root.findall("joint"):
        pose = places.get(element.get("name", ""))
        if pose is None:
            continue
        element.set("type", "fixed")
        for part in list(element):
            if part.tag not in ("parent", "child"):
                element.remove(part)
        SubElement(
            element,
            "origin",
            xyz=format_numbers(pose.translation),
            rpy=format_numbers(rpy_from_rotation(pose.rotation)),
        )


def _replace_inertial(element: Element, link: Link) -> None:
    """The link's <inertial>, in the place of the old one or first."""
    old = element.find("inertial")
    place = 0 if old is None else list(element).index(old)
    if old is not None:
        element.remove(old)
    inertial = inertial_element(link)
    inertial.tail = "\n    "
    element.insert(place, inertial)


def _remove_meshes(root: Element) -> None:
    for link in root.findall("link"):
        for shown in [*link.findall("visual"), *link.findall("collision")]:
            if shown.find("geometry/mesh") is not None:
                link.remove(shown)


def _edit_joints(root: Element, robot: Robot) -> None:
    drives = {drive.joint: drive for drive in robot.drives}
    for element in root.findall("transmission"):
        drive = drives.get(next((joint.get("name", "") for joint in element.findall("joint")), ""))
        for tag, value in (
            () if drive is None else ((DRAKE_ROTOR_INERTIA, drive.rotor_inertia), (DRAKE_GEAR_RATIO, drive.ratio))
        ):
            for stated in element.iter(tag):
                stated.set("value", repr(float(value)))
    for element in root.findall("joint"):
        drive = drives.get(element.get("name", ""))
        if drive is None:
            continue
        _, damping, friction = joint_side_values(drive)
        dynamics = element.find("dynamics")
        if dynamics is None:
            dynamics = SubElement(element, "dynamics")
            dynamics.tail = "\n  "
        dynamics.set("damping", repr(float(damping)))
        dynamics.set("friction", repr(float(friction)))
