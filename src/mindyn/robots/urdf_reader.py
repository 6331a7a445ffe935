"""Reading URDF: kinematics, inertials, limits, joint friction and collision shapes; meshes are not opened."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree.ElementTree import Element

import numpy as np

from mindyn.algebra.inertia import entries_of_tensor, phi_about_origin, tensor_from_entries
from mindyn.algebra.poses import IDENTITY, Pose
from mindyn.algebra.values import Array
from mindyn.errors import RobotFileError
from mindyn.notation import STANDARD_GRAVITY
from mindyn.robots.assembly import FixedJoint, assemble
from mindyn.robots.files import number, numbers, parse_xml
from mindyn.robots.parts import Drive, Joint, Limits, Link, Shape
from mindyn.robots.robot import Robot
from mindyn.robots.snapping import Snapper

_KINDS = {"revolute": "revolute", "continuous": "revolute", "prismatic": "prismatic"}


def read_urdf(text: str, snap: Snapper) -> Robot:
    """The robot of a URDF text: fixed joints merged, their links kept as frames."""
    return _UrdfReader(snap).robot(parse_xml(text, "the URDF"))


@dataclass(slots=True)
class _UrdfReader:
    snap: Snapper

    def robot(self, root: Element) -> Robot:
        if root.tag != "robot":
            raise RobotFileError(f"a URDF starts with <robot>, this file with <{root.tag}>")
        links = [self.link(element) for element in root.findall("link")]
        if not links:
            raise RobotFileError("the URDF has no <link>")
        elements = root.findall("joint")
        joints = [self.joint(element) for element in elements]
        drives = [drive for element in elements if (drive := self.friction(element))]
        moving = {joint.name for joint in joints if isinstance(joint, Joint)}
        return assemble(
            root.get("name") or "robot",
            links,
            joints,
            gravity=np.array(STANDARD_GRAVITY),
            drives=[drive for drive in drives if drive.joint in moving],
            notes=self.snap.notes,
        )

    def name(self, element: Element) -> str:
        name = element.get("name")
        if not name:
            raise RobotFileError(f"a <{element.tag}> has no name")
        return name

    def pose(self, parent: Element, what: str) -> Pose:
        origin = parent.find("origin")
        if origin is None:
            return IDENTITY
        xyz = numbers(origin.get("xyz", "0 0 0"), 3, f"{what} origin xyz")
        rpy = numbers(origin.get("rpy", "0 0 0"), 3, f"{what} origin rpy")
        return Pose(self.snap.rpy(rpy, f"{what} origin"), xyz)

    def link(self, element: Element) -> Link:
        name = self.name(element)
        inertial = element.find("inertial")
        phi = None if inertial is None else self.inertial(inertial, name)
        shapes = [self.shape(collision, name) for collision in element.findall("collision")]
        return Link(name, phi, tuple(shape for shape in shapes if shape is not None))

    def inertial(self, element: Element, link: str) -> Array:
        what = f"inertial of link {link!r}"
        mass, inertia = element.find("mass"), element.find("inertia")
        if mass is None or inertia is None:
            raise RobotFileError(f"the {what} needs <mass> and <inertia>; nothing is assumed in their place")
        # An inertial frame is a measured pose, not drawn geometry: it is read as written.
        X = _UrdfReader(Snapper(active=False)).pose(element, what)
        entries = [number(inertia.get(k), f"{what}, {k}") for k in ("ixx", "ixy", "iyy", "ixz", "iyz", "izz")]
        J = X.rotation @ tensor_from_entries(np.array(entries)) @ X.rotation.T
        J = tensor_from_entries(entries_of_tensor(J))
        return phi_about_origin(number(mass.get("value"), f"{what}, mass"), X.translation, J)

    def shape(self, element: Element, link: str) -> Shape | None:
        what = f"collision shape of link {link!r}"
        geometry = element.find("geometry")
        if geometry is None or len(geometry) == 0:
            raise RobotFileError(f"the {what} has no geometry")
        solid = geometry[0]
        pose = _UrdfReader(Snapper(active=False)).pose(element, what)
        if solid.tag == "box":
            return Shape("box", tuple(numbers(solid.get("size"), 3, f"{what}, size")), pose)
        if solid.tag == "sphere":
            return Shape("sphere", (number(solid.get("radius"), f"{what}, radius"),), pose)
        if solid.tag in ("cylinder", "capsule"):
            size = (number(solid.get("radius"), f"{what}, radius"), number(solid.get("length"), f"{what}, length"))
            return Shape("cylinder" if solid.tag == "cylinder" else "capsule", size, pose)
        if solid.tag == "mesh":
            scale = tuple(numbers(solid.get("scale", "1 1 1"), 3, f"{what}, scale"))
            return Shape("mesh", scale, pose, solid.get("filename", ""))
        self.snap.notes.append(f"{what}: <{solid.tag}> is not known and was left out")
        return None

    def joint(self, element: Element) -> Joint | FixedJoint:
        name, kind = self.name(element), element.get("type", "")
        what = f"joint {name!r}"
        parent, child = (self.end(element, role, what) for role in ("parent", "child"))
        if element.find("mimic") is not None:
            raise RobotFileError(
                f"{what} mimics another joint, which a tree of independent joints cannot express",
                hint=f"remove its <mimic> element, load the robot and hold the joint: robot.lock({{{name!r}: 0.0}})",
            )
        origin = self.pose(element, what)
        if kind == "fixed":
            return FixedJoint(name, parent, child, origin)
        if kind not in _KINDS:
            raise RobotFileError(f"{what} has type {kind!r}; mindyn knows: {', '.join([*_KINDS, 'fixed'])}")
        axis = element.find("axis")
        direction = numbers("1 0 0" if axis is None else axis.get("xyz"), 3, f"axis of {what}")
        return Joint(
            name,
            "prismatic" if kind == "prismatic" else "revolute",
            parent,
            child,
            origin,
            self.snap.axis(direction, f"axis of {what}"),
            limits=self.limits(element, what, ranged=kind != "continuous"),
        )

    def end(self, element: Element, role: str, what: str) -> str:
        end = element.find(role)
        if end is None or not end.get("link"):
            raise RobotFileError(f"{what} names no {role} link")
        return end.get("link", "")

    def limits(self, element: Element, what: str, *, ranged: bool) -> Limits:
        limit = element.find("limit")
        if limit is None:
            return Limits(continuous=not ranged)
        stated = {
            key: number(limit.get(key), f"limit {key!r} of {what}")
            for key in ("lower", "upper", "velocity", "effort")
            if limit.get(key) is not None and (ranged or key in ("velocity", "effort"))
        }
        return Limits(**stated, continuous=not ranged)

    def friction(self, element: Element) -> Drive | None:
        dynamics = element.find("dynamics")
        if dynamics is None:
            return None
        what = f"dynamics of joint {element.get('name')!r}"
        viscous, coulomb = (number(dynamics.get(key, "0"), f"{what}, {key}") for key in ("damping", "friction"))
        if viscous == coulomb == 0:
            return None
        return Drive(self.name(element), viscous=viscous, coulomb=coulomb, side="joint")
