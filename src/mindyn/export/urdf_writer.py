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
from mindyn.algebra.rotations import to_rpy
from mindyn.algebra.values import Array
from mindyn.errors import ExportError
from mindyn.escaping import xml_document
from mindyn.estimators.estimate import Estimate
from mindyn.export.held_bodies import held_places, less_held, on_held_joints
from mindyn.export.models import Prior, left_out_notes, model_of
from mindyn.export.writing import (
    comment_text,
    held_joints,
    inertial_of,
    joint_side,
    losses,
    require_exportable,
    require_same_arm,
    written,
)
from mindyn.files import write_whole
from mindyn.notation import STANDARD_GRAVITY
from mindyn.robots.assembly import assemble
from mindyn.robots.files import comments_above, parse_xml, read_text
from mindyn.robots.parts import Joint, Link, Shape
from mindyn.robots.robot import Robot
from mindyn.robots.snapping import Snapper
from mindyn.robots.urdf_reader import GEAR_RATIO, ROTOR_INERTIA, read_urdf

URDF_SUMMED = "Inertials, damping and friction by mindyn; parts on fixed joints are counted with the link they are on."


def robot_to_urdf(robot: Robot, *, force: bool = False, notes: Sequence[str] = (), meshes: bool = True) -> str:
    """The URDF text of a robot; gravity, acceleration and jerk limits are not part of URDF; `notes` become a comment.

    meshes  False leaves out collision shapes that are meshes

    A link frame away from its joint (standard DH) is written as a carrier link with a fixed joint to the link.
    """
    require_exportable(robot, "URDF", [*losses(robot, armature=False), *_unstated_limits(robot)], force=force)
    root = Element("robot", name=robot.name)
    if notes:
        root.append(Comment(comment_text(notes)))
    _link(root, robot.root, meshes)
    for joint, link in zip(robot.joints, robot.links, strict=True):
        if joint.tip.is_identity:
            _joint(root, robot, joint, joint.child)
            _link(root, link, meshes)
        else:
            carrier = f"{joint.child}__joint_frame"
            SubElement(root, "link", name=carrier)
            _joint(root, robot, joint, carrier)
            _fixed(root, f"{joint.child}__tip", carrier, joint.child, joint.tip)
            _link(root, link, meshes)
    for frame in robot.frames:
        SubElement(root, "link", name=frame.name)
        _fixed(root, f"{frame.name}__fixed", frame.link, frame.name, frame.pose)
    _rotors(root, robot)
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
    robot = model_of(model, prior, force=force)
    lost = losses(robot, armature=False)
    lossy = isinstance(model, Estimate)
    notes = left_out_notes(model, robot, [*lost, *_unusual_gravity(robot)], _remedy(robot))
    if source is None:
        write_whole(path, robot_to_urdf(robot, force=force or lossy, notes=notes, meshes=meshes))
    else:
        require_exportable(robot, "URDF", [] if lossy else lost, force=force)
        write_whole(path, edited_urdf(robot, source, notes, meshes=meshes))
    return tuple(notes)


def _remedy(robot: Robot) -> str:
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


def _unstated_limits(robot: Robot) -> list[str]:
    """Joints whose range URDF cannot say: a <limit> needs both ends, a speed and an effort."""
    found = []
    for joint in robot.joints:
        needed = ("velocity", "effort") if joint.limits.continuous else ("lower", "upper", "velocity", "effort")
        stated = [getattr(joint.limits, name) is not None for name in needed]
        if (any(stated) and not all(stated)) or (joint.kind == "prismatic" and not all(stated)):
            found.append(f"a range of joint {joint.name!r} without both ends, speed and effort")
    return found


def _origin(parent: Element, pose: Pose) -> None:
    SubElement(parent, "origin", xyz=written(pose.translation), rpy=written(to_rpy(pose.rotation)))


def _fixed(root: Element, name: str, parent: str, child: str, pose: Pose) -> None:
    element = SubElement(root, "joint", name=name, type="fixed")
    _origin(element, pose)
    SubElement(element, "parent", link=parent)
    SubElement(element, "child", link=child)


def _joint(root: Element, robot: Robot, joint: Joint, child: str) -> None:
    limits = joint.limits
    endless = joint.kind == "revolute" and limits.lower is None and limits.upper is None
    element = SubElement(root, "joint", name=joint.name, type="continuous" if endless else joint.kind)
    _origin(element, joint.origin)
    SubElement(element, "parent", link=joint.parent)
    SubElement(element, "child", link=child)
    SubElement(element, "axis", xyz=written(joint.axis))
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
            _, damping, friction = joint_side(drive)
            if damping or friction:
                SubElement(element, "dynamics", damping=repr(float(damping)), friction=repr(float(friction)))


def _link(root: Element, link: Link, meshes: bool) -> None:
    element = SubElement(root, "link", name=link.name)
    if link.phi is not None:
        element.append(inertial_of(link))
    for shape in link.shapes:
        if meshes or shape.kind != "mesh":
            _shape(SubElement(element, "collision"), shape)


def _rotors(root: Element, robot: Robot) -> None:
    """Gear ratios and rotor inertias of single joints, where Drake looks for them; other readers pass over them."""
    for drive in robot.drives:
        if drive.rotor_inertia and not drive.coupling:
            root.set("xmlns:drake", "http://drake.mit.edu")
            element = SubElement(root, "transmission", name=f"{drive.joint}__transmission")
            SubElement(element, "type").text = "transmission_interface/SimpleTransmission"
            SubElement(element, "joint", name=drive.joint)
            actuator = SubElement(element, "actuator", name=f"{drive.joint}__motor")
            SubElement(actuator, ROTOR_INERTIA, value=repr(float(drive.rotor_inertia)))
            SubElement(actuator, GEAR_RATIO, value=repr(float(drive.ratio)))


def _shape(collision: Element, shape: Shape) -> None:
    _origin(collision, shape.pose)
    geometry = SubElement(collision, "geometry")
    size = shape.dimensions
    if shape.kind == "box":
        SubElement(geometry, "box", size=written(size))
    elif shape.kind == "sphere":
        SubElement(geometry, "sphere", radius=written(size))
    elif shape.kind == "mesh":
        SubElement(geometry, "mesh", filename=shape.filename, scale=written(size))
    else:
        SubElement(geometry, shape.kind, radius=written(size[0]), length=written(size[1]))


def edited_urdf(robot: Robot, source: str | Path, notes: Sequence[str] = (), *, meshes: bool = True) -> str:
    """The text of the source with the robot's inertials, damping and friction; `notes` become a comment.

    meshes  False takes out visuals and collisions that are meshes
    """
    text = read_text(Path(source))
    root = parse_xml(text, str(source), comments=True)
    described = read_urdf(text, Snapper(active=True))
    stated = assemble(described.selected(robot.selection))
    require_same_arm(robot, stated, str(source))
    said = held_joints(robot)
    held = on_held_joints(described, robot.selection.lock)
    try:
        bodies = less_held(robot, described, held, str(source))
    except ExportError as refused:
        bodies, held = less_held(robot, described, {}, str(source)), {}
        places = held_places(described, robot.selection.lock)
        _fix_joints(root, places)
        said = [f"Fixed where they were held, since {refused.message}: {', '.join(places)}."]
    # What is fixed to the root does not move: nothing is known of it, so it stays.
    carried = {frame.name for frame in stated.frames if frame.link != stated.root.name}
    _edit_links(root, bodies, carried - set(held))
    _edit_joints(root, robot)
    if not meshes:
        _take_out_meshes(root)
    root.insert(0, Comment(comment_text([URDF_SUMMED, *said, *notes])))
    root[0].tail = "\n  "
    return xml_document(root, declaration=True, as_it_stands=True, above=comments_above(text))


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
        SubElement(element, "origin", xyz=written(pose.translation), rpy=written(to_rpy(pose.rotation)))


def _replace_inertial(element: Element, link: Link) -> None:
    """The link's <inertial>, in the place of the old one or first."""
    old = element.find("inertial")
    place = 0 if old is None else list(element).index(old)
    if old is not None:
        element.remove(old)
    inertial = inertial_of(link)
    inertial.tail = "\n    "
    element.insert(place, inertial)


def _take_out_meshes(root: Element) -> None:
    for link in root.findall("link"):
        for shown in [*link.findall("visual"), *link.findall("collision")]:
            if shown.find("geometry/mesh") is not None:
                link.remove(shown)


def _edit_joints(root: Element, robot: Robot) -> None:
    drives = {drive.joint: drive for drive in robot.drives}
    for element in root.findall("transmission"):
        drive = drives.get(next((joint.get("name", "") for joint in element.findall("joint")), ""))
        for tag, value in () if drive is None else ((ROTOR_INERTIA, drive.rotor_inertia), (GEAR_RATIO, drive.ratio)):
            for stated in element.iter(tag):
                stated.set("value", repr(float(value)))
    for element in root.findall("joint"):
        drive = drives.get(element.get("name", ""))
        if drive is None:
            continue
        _, damping, friction = joint_side(drive)
        dynamics = element.find("dynamics")
        if dynamics is None:
            dynamics = SubElement(element, "dynamics")
            dynamics.tail = "\n  "
        dynamics.set("damping", repr(float(damping)))
        dynamics.set("friction", repr(float(friction)))
