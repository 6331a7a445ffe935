"""Editing a URDF: inertials and joint friction replaced, all else (visuals, meshes, limits, frames) left as it is.

mindyn takes links behind fixed joints as parts of the link that carries them, and identifies their sum. That sum is
written on the carrier, and inertials of links fixed to it are taken out: no reader can then count them twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Comment, Element, SubElement

import numpy as np

from mindyn.errors import ExportError
from mindyn.export.writing import comment_text, inertial_of, joint_side
from mindyn.robots.files import parse_xml, read_text
from mindyn.robots.parts import Link
from mindyn.robots.robot import Robot
from mindyn.robots.snapping import Snapper
from mindyn.robots.urdf_reader import read_urdf

SUMMED = "Inertials, damping and friction by mindyn; parts on fixed joints are counted with the link they are on."
SAME_PLACE = 1e-4
"""rad or m by which joints of robot and source may differ: snapping moves rotations by 1e-5."""


def edited_urdf(robot: Robot, source: str | Path, notes: Sequence[str] = ()) -> str:
    """The text of the source with the robot's inertials, damping and friction; `notes` become a comment."""
    text = read_text(Path(source))
    parse_xml(text, str(source))  # refuses document types and entities
    _require_same(robot, read_urdf(text, Snapper(active=True)), str(source))
    builder = ElementTree.TreeBuilder(insert_comments=True)
    root = ElementTree.fromstring(text.removeprefix("\ufeff"), ElementTree.XMLParser(target=builder))
    _edit_links(root, robot)
    _edit_joints(root, robot)
    root.insert(0, Comment(comment_text([SUMMED, *notes])))
    root[0].tail = "\n  "
    return '<?xml version="1.0"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _require_same(robot: Robot, stated: Robot, source: str) -> None:
    """Refuse a source of another arm: the inertials would stand in the wrong frames."""
    named = (("joints", stated.joint_names, robot.joint_names), ("links", stated.link_names, robot.link_names))
    for what, theirs, ours in named:
        if theirs != ours:
            raise ExportError(
                f"{source} has the {what} {', '.join(theirs)}; the robot has {', '.join(ours)}",
                hint="give the file that the robot was loaded from; joints that were locked cannot be unlocked so",
            )
    for one, other in zip(robot.joints, stated.joints, strict=True):
        pairs = ((one.origin.matrix, other.origin.matrix), (one.axis, other.axis), (one.tip.matrix, other.tip.matrix))
        if one.kind != other.kind or not all(np.allclose(a, b, rtol=0, atol=SAME_PLACE) for a, b in pairs):
            raise ExportError(f"joint {one.name!r} stands elsewhere in {source} than in the robot")


def _edit_links(root: Element, robot: Robot) -> None:
    carried = {
        frame.name for frame in read_urdf(ElementTree.tostring(root, encoding="unicode"), Snapper(active=True)).frames
    }
    bodies = {link.name: link for link in robot.links}
    on_root = _fixed_to(root, robot.root.name)
    for element in root.findall("link"):
        name = element.get("name", "")
        if name in bodies:
            _replace_inertial(element, bodies[name])
        elif name in carried and name not in on_root:
            for inertial in element.findall("inertial"):
                element.remove(inertial)


def _fixed_to(root: Element, name: str) -> set[str]:
    """Links that fixed joints hold to `name`, which does not move: nothing is known of them, so they stay."""
    held, grown = {name}, True
    joints = [
        (p.get("link", ""), c.get("link", ""))
        for joint in root.findall("joint")
        if joint.get("type") == "fixed"
        and (p := joint.find("parent")) is not None
        and (c := joint.find("child")) is not None
    ]
    while grown:
        more = {child for parent, child in joints if parent in held} | {
            parent for parent, child in joints if child in held
        }
        grown = not more <= held
        held |= more
    return held


def _replace_inertial(element: Element, link: Link) -> None:
    """The link's <inertial>, in the place of the old one or first."""
    old = element.find("inertial")
    place = 0 if old is None else list(element).index(old)
    if old is not None:
        element.remove(old)
    inertial = inertial_of(link)
    inertial.tail = "\n    "
    element.insert(place, inertial)


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
