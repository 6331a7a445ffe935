"""Write URDF, either as a new file or by editing the inertials and joint friction of an existing one.

If the frame of a link is not the frame of its joint, a new file has a carrier link and a fixed joint between them.
Links behind fixed joints are part of the link that carries them, and mindyn identifies their sum. Editing writes this
sum on the carrier and removes the inertials of the fixed links, so that no reader counts them twice. Links on joints
that the robot holds still move in the file: they keep the inertials of the file, and their carrier gets the rest of the
sum. If the file has no inertials for them, or the rest is not a physical body, these joints become fixed joints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree.ElementTree import Comment, Element, SubElement

import numpy as np

from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.rotations import rpy_from_rotation
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.atomic_files import write_file_atomically
from mindyn.foundation.errors import ExportError
from mindyn.foundation.escaping import xml_document
from mindyn.foundation.notation import STANDARD_GRAVITY
from mindyn.identification.estimators.estimate import Estimate
from mindyn.output.export.write_checks import (
    Prior,
    comment_text,
    describe_held_joints,
    describe_omissions,
    describe_rotors,
    find_held_links,
    find_held_poses,
    find_unsupported,
    format_numbers,
    inertial_element,
    joint_side_values,
    require_exportable,
    require_same_arm,
    resolve_model,
    subtract_held_bodies,
    without_negligible,
)
from mindyn.robots.assembly import assemble_robot
from mindyn.robots.parts import Drive, Joint, Link, Shape
from mindyn.robots.robot import Robot
from mindyn.robots.safe_robot_files import find_leading_comments, parse_xml, read_text
from mindyn.robots.snapping import Snapper
from mindyn.robots.urdf_reader import DRAKE_DRIVE, URDF_SHAPES, read_urdf

URDF_COMMENT = (
    "Inertials, damping and friction by mindyn; parts on fixed joints are included in the link that carries them."
)


def robot_to_urdf(robot: Robot, *, force: bool = False, notes: Sequence[str] = (), meshes: bool = True) -> str:
    """Return the URDF text of a robot, with `notes` as a comment.

    URDF has no gravity, acceleration limits and jerk limits. `meshes=False` omits mesh collision shapes.
    """
    require_exportable(
        robot, "URDF", [*find_unsupported(robot, armature=False), *_incomplete_limits(robot)], force=force
    )
    root = Element("robot", name=robot.name)
    if notes:
        root.append(Comment(comment_text(notes)))
    _add_link(root, robot.root, meshes)
    for joint, link in zip(robot.joints, robot.links, strict=True):
        carrier = joint.child
        if not joint.tip.is_identity:
            carrier = f"{joint.child}__joint_frame"
            SubElement(root, "link", name=carrier)
        _add_moving_joint(root, robot, joint, carrier)
        if carrier != joint.child:
            _add_joint(root, f"{joint.child}__tip", "fixed", carrier, joint.child, joint.tip)
        _add_link(root, link, meshes)
    for frame in robot.frames:
        SubElement(root, "link", name=frame.name)
        _add_joint(root, f"{frame.name}__fixed", "fixed", frame.link, frame.name, frame.pose)
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
) -> Path:
    """Write a robot, or the full model of an estimate, as URDF.

    Parts of an estimate that URDF cannot express (rotor inertia, torque offsets, extra torques, loops) are omitted, and
    a comment in the file lists them.

    Parameters
    ----------
    model : Robot or Estimate
        Robot or estimate to write.
    path : str or Path
        File to write.
    source : str, Path or None
        URDF file from which the robot was loaded. Its inertials, damping and friction are replaced, the rest stays.
    prior : Robot, "robot" or None
        Determines what an estimate leaves open, as in `build_full_model`.
    force : bool
        Write links that are not physical bodies, and omit parts of a robot that URDF cannot express.
    meshes : bool
        Keep visuals and collision shapes that are meshes. MuJoCo looks for mesh files next to the URDF, by file name.

    Returns
    -------
    Path
        The written file.

    Raises
    ------
    ExportError
        If a link is not physical, if URDF cannot express the robot, or if `source` is another robot.

    Examples
    --------
    >>> mindyn.write_urdf(mindyn.load_robot("panda"), "panda.urdf", force=True).name
    'panda.urdf'
    """
    text, _ = render_urdf(model, source, prior, force=force, meshes=meshes)
    return write_file_atomically(path, text)


def render_urdf(
    model: Robot | Estimate, source: str | Path | None, prior: Prior, *, force: bool, meshes: bool = True
) -> tuple[str, tuple[str, ...]]:
    """Return the text of `write_urdf` and the notes in its comment."""
    robot = resolve_model(model, prior, force=force)
    lost = find_unsupported(without_negligible(model, robot), armature=False)
    lossy = isinstance(model, Estimate)
    notes = describe_omissions(model, robot, [*lost, *_unusual_gravity(robot)], _rotor_advice(robot))
    if source is None:
        return robot_to_urdf(robot, force=force or lossy, notes=notes, meshes=meshes), tuple(notes)
    require_exportable(robot, "URDF", [] if lossy else lost, force=force)
    return edit_urdf(robot, source, notes, meshes=meshes), tuple(notes)


def _rotor_advice(robot: Robot) -> str:
    """Return advice for simulators that read the file without rotor inertia."""
    if not describe_rotors(robot):
        return ""
    return (
        "Without rotor inertia, simulators other than Drake, which has tags for it, underestimate the inertia of these "
        "joints: set it there as armature, or write MJCF or C, which have it."
    )


def _unusual_gravity(robot: Robot) -> list[str]:
    """Return gravity as omitted text if it is not the standard value that readers assume."""
    usual = np.allclose(robot.gravity, STANDARD_GRAVITY)
    return [] if usual else [f"gravity {' '.join(f'{g:g}' for g in robot.gravity)} m/s^2"]


def _incomplete_limits(robot: Robot) -> list[str]:
    """List joints with limits that URDF cannot express: <limit> needs lower, upper, velocity and effort."""
    incomplete = []
    for joint in robot.joints:
        needed = ("velocity", "effort") if joint.limits.continuous else ("lower", "upper", "velocity", "effort")
        stated = [getattr(joint.limits, name) is not None for name in needed]
        if (any(stated) and not all(stated)) or (joint.kind == "prismatic" and not all(stated)):
            incomplete.append(
                f"limits of joint {joint.name!r}, because not all of lower, upper, velocity and effort are given"
            )
    return incomplete


def _add_origin(parent: Element, pose: Pose) -> None:
    SubElement(
        parent, "origin", xyz=format_numbers(pose.translation), rpy=format_numbers(rpy_from_rotation(pose.rotation))
    )


def _add_joint(root: Element, name: str, kind: str, parent: str, child: str, pose: Pose) -> Element:
    element = SubElement(root, "joint", name=name, type=kind)
    _add_origin(element, pose)
    SubElement(element, "parent", link=parent)
    SubElement(element, "child", link=child)
    return element


def _add_moving_joint(root: Element, robot: Robot, joint: Joint, child: str) -> None:
    limits = joint.limits
    endless = joint.kind == "revolute" and limits.lower is None and limits.upper is None
    kind = "continuous" if endless else joint.kind
    element = _add_joint(root, joint.name, kind, joint.parent, child, joint.origin)
    SubElement(element, "axis", xyz=format_numbers(joint.axis))
    stated = {
        key: value for key in ("lower", "upper", "velocity", "effort") if (value := getattr(limits, key)) is not None
    }
    if stated or joint.kind == "prismatic":
        stated = dict.fromkeys(("velocity", "effort"), 0.0) | stated  # required by URDF; 0 means not given
        SubElement(element, "limit", {key: repr(float(value)) for key, value in stated.items()})
    for mimic in robot.mimics:
        if mimic.joint == joint.name:
            numbers = {"multiplier": repr(float(mimic.multiplier)), "offset": repr(float(mimic.offset))}
            SubElement(element, "mimic", numbers, joint=mimic.of)
    for drive in robot.drives:
        if drive.joint == joint.name and any(joint_side_values(drive)[1:]):
            _set_dynamics(element, drive)


def _set_dynamics(joint: Element, drive: Drive) -> None:
    _, damping, friction = joint_side_values(drive)
    dynamics = joint.find("dynamics")
    if dynamics is None:
        dynamics = SubElement(joint, "dynamics")
        dynamics.tail = "\n  "
    dynamics.set("damping", repr(float(damping)))
    dynamics.set("friction", repr(float(friction)))


def _add_link(root: Element, link: Link, meshes: bool) -> None:
    element = SubElement(root, "link", name=link.name)
    if link.phi is not None:
        element.append(inertial_element(link))
    for shape in link.shapes:
        if meshes or shape.kind != "mesh":
            _add_shape(SubElement(element, "collision"), shape)


def _add_rotors(root: Element, robot: Robot) -> None:
    """Add gear ratios and rotor inertias of uncoupled drives in Drake's tags; other readers ignore them."""
    for drive in robot.drives:
        if drive.rotor_inertia and not drive.coupling:
            root.set("xmlns:drake", "http://drake.mit.edu")
            element = SubElement(root, "transmission", name=f"{drive.joint}__transmission")
            SubElement(element, "type").text = "transmission_interface/SimpleTransmission"
            SubElement(element, "joint", name=drive.joint)
            actuator = SubElement(element, "actuator", name=f"{drive.joint}__motor")
            for key, tag in DRAKE_DRIVE.items():
                SubElement(actuator, tag, value=repr(float(getattr(drive, key))))


def _add_shape(collision: Element, shape: Shape) -> None:
    _add_origin(collision, shape.pose)
    geometry = SubElement(collision, "geometry")
    element = SubElement(geometry, shape.kind, {"filename": shape.filename} if shape.kind == "mesh" else {})
    sizes = list(shape.dimensions)
    for key, count in URDF_SHAPES[shape.kind].items():
        element.set(key, format_numbers([sizes.pop(0) for _ in range(count)]))


def edit_urdf(robot: Robot, source: str | Path, notes: Sequence[str] = (), *, meshes: bool = True) -> str:
    """Return the source text with the inertials, damping and friction of the robot, and `notes` as a comment.

    `meshes=False` removes visuals and collision shapes that are meshes.
    """
    text = read_text(Path(source))
    root = parse_xml(text, str(source), comments=True)
    described = read_urdf(text, Snapper(active=True))
    stated = assemble_robot(described.select(robot.selection))
    require_same_arm(robot, stated, str(source))
    changes = describe_held_joints(robot)
    held = find_held_links(described, robot.selection.lock)
    try:
        bodies = subtract_held_bodies(robot, described, held, str(source))
    except ExportError as error:
        bodies, held = subtract_held_bodies(robot, described, {}, str(source)), {}
        places = find_held_poses(described, robot.selection.lock)
        _fix_joints(root, places)
        changes = [f"These joints became fixed joints, because {error.message}: {', '.join(places)}."]
    # Parts fixed to the root do not move, so the model has no values for them.
    carried = {frame.name for frame in stated.frames if frame.link != stated.root.name}
    _edit_links(root, bodies, carried - set(held))
    _edit_joints(root, robot)
    if not meshes:
        _remove_meshes(root)
    root.insert(0, Comment(comment_text([URDF_COMMENT, *changes, *notes])))
    root[0].tail = "\n  "
    return xml_document(root, declaration=True, keep_whitespace=True, above=find_leading_comments(text))


def _edit_links(root: Element, bodies: Mapping[str, Array], carried: set[str]) -> None:
    """Set inertials of moving links, and remove those of the links that they carry, which the sum includes."""
    for element in root.findall("link"):
        name, old = element.get("name", ""), element.findall("inertial")
        place = list(element).index(old[0]) if old else 0
        for inertial in old if name in bodies or name in carried else ():
            element.remove(inertial)
        if name in bodies:
            inertial = inertial_element(Link(name, bodies[name]))
            inertial.tail = "\n    "
            element.insert(place, inertial)


def _fix_joints(root: Element, places: Mapping[str, Pose]) -> None:
    """Turn joints into fixed joints, which have only origin, parent and child."""
    for element in root.findall("joint"):
        pose = places.get(element.get("name", ""))
        if pose is None:
            continue
        element.set("type", "fixed")
        for part in list(element):
            if part.tag not in ("parent", "child"):
                element.remove(part)
        _add_origin(element, pose)


def _remove_meshes(root: Element) -> None:
    for link in root.findall("link"):
        for shown in [*link.findall("visual"), *link.findall("collision")]:
            if shown.find("geometry/mesh") is not None:
                link.remove(shown)


def _edit_joints(root: Element, robot: Robot) -> None:
    drives = {drive.joint: drive for drive in robot.drives}
    for element in root.findall("transmission"):
        drive = drives.get(next((joint.get("name", "") for joint in element.findall("joint")), ""))
        for key, tag in () if drive is None else DRAKE_DRIVE.items():
            for given in element.iter(tag):
                given.set("value", repr(float(getattr(drive, key))))
    for element in root.findall("joint"):
        if (drive := drives.get(element.get("name", ""))) is not None:
            _set_dynamics(element, drive)
