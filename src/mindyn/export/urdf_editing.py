"""Editing a URDF: inertials and joint friction replaced, all else (visuals, meshes, limits, frames) left as it is.

mindyn takes links behind fixed joints as parts of the link that carries them, and identifies their sum. That sum is
written on the carrier, and inertials of links fixed to it are taken out: no reader can then count them twice. Links on
joints that the robot holds still move in the file: they keep the file's inertials, and their carrier has the rest of
the sum. Where the file states none, or no body would be left, those joints become fixed ones where they are held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree.ElementTree import Comment, Element, SubElement

from mindyn.algebra.poses import Pose
from mindyn.algebra.rotations import to_rpy
from mindyn.algebra.values import Array
from mindyn.errors import ExportError
from mindyn.escaping import xml_document
from mindyn.export.held_bodies import held_places, less_held, on_held_joints
from mindyn.export.writing import comment_text, held_joints, inertial_of, joint_side, require_same_arm, written
from mindyn.robots.assembly import assemble
from mindyn.robots.files import comments_above, parse_xml, read_text
from mindyn.robots.parts import Link
from mindyn.robots.robot import Robot
from mindyn.robots.snapping import Snapper
from mindyn.robots.urdf_reader import read_urdf

SUMMED = "Inertials, damping and friction by mindyn; parts on fixed joints are counted with the link they are on."


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
    root.insert(0, Comment(comment_text([SUMMED, *said, *notes])))
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
