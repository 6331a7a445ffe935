"""Editing a URDF: inertials and joint friction replaced, all else (visuals, meshes, limits, frames) left as it is.

mindyn takes links behind fixed joints as parts of the link that carries them, and identifies their sum. That sum is
written on the carrier, and inertials of links fixed to it are taken out: no reader can then count them twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Comment, Element, SubElement

import numpy as np

from mindyn.escaping import xml_document
from mindyn.export.writing import comment_text, held_joints, inertial_of, joint_side, require_same_arm
from mindyn.notation import PARAMETERS_PER_LINK
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
    stated = assemble(read_urdf(text, Snapper(active=True)).selected(robot.selection))
    require_same_arm(robot, stated, str(source))
    # What is fixed to the root does not move: nothing is known of it, so it stays.
    _edit_links(root, robot, {frame.name for frame in stated.frames if frame.link != stated.root.name})
    _edit_joints(root, robot)
    if not meshes:
        _take_out_meshes(root)
    root.insert(0, Comment(comment_text([SUMMED, *held_joints(robot), *notes])))
    root[0].tail = "\n  "
    return xml_document(root, declaration=True, as_it_stands=True, above=comments_above(text))


def _edit_links(root: Element, robot: Robot, carried: set[str]) -> None:
    """New inertials on the moving links; none on the links that they carry, since the sum counts those."""
    bodies = {link.name: link for link in robot.links}
    held = {
        child.get("link")
        for joint in root.findall("joint")
        if joint.get("name") in robot.selection.lock
        for child in joint.findall("child")
    }
    for element in root.findall("link"):
        name = element.get("name", "")
        if name in bodies:
            _replace_inertial(element, bodies[name])
        elif name in carried & held:
            # Without a word on its mass a body that moves in the file would be unknown.
            _replace_inertial(element, Link(name, np.zeros(PARAMETERS_PER_LINK)))
        elif name in carried:
            for inertial in element.findall("inertial"):
                element.remove(inertial)


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
