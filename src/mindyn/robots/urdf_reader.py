"""Read URDF: kinematics, inertials, limits, joint friction and collision shapes; mesh files are not opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from xml.etree.ElementTree import Element

import numpy as np

from mindyn.foundation.algebra.inertia import phi_about_origin, tensor_entries, tensor_from_entries
from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, MindynError, RobotError, RobotFileError, shorten_text, suggest_name
from mindyn.foundation.findings import Kind, info, summarise
from mindyn.foundation.notation import STANDARD_GRAVITY
from mindyn.robots.description import AnyJoint, Description, FixedJoint, UnsupportedJoint
from mindyn.robots.parts import Drive, Joint, Limits, Link, Mimic, Shape, ShapeKind
from mindyn.robots.safe_robot_files import XACRO_HINT, parse_number, parse_numbers, parse_xml, require_root
from mindyn.robots.snapping import LIMIT_SUMMARIES, Snapper

_JOINT_KINDS: Final = {"revolute": "revolute", "continuous": "revolute", "prismatic": "prismatic"}
_MIMIC_ATTRIBUTES: Final = {"multiplier": "1", "offset": "0"}
_FREE_JOINT_KINDS: Final = ("floating", "planar")
DRAKE_ACCELERATION: Final = "drake:acceleration"
DRAKE_DRIVE: Final = {"rotor_inertia": "drake:rotor_inertia", "ratio": "drake:gear_ratio"}
"""Drake's tags of an actuator by the field of `Drive`."""
URDF_INERTIA: Final = ("ixx", "ixy", "iyy", "ixz", "iyz", "izz")
"""Attributes of <inertia> in the order of our tensor entries."""
URDF_SHAPES: Final[Mapping[ShapeKind, Mapping[str, int]]] = {
    "box": {"size": 3},
    "sphere": {"radius": 1},
    "cylinder": {"radius": 1, "length": 1},
    "capsule": {"radius": 1, "length": 1},
    "mesh": {"scale": 3},
}
"""Attributes of each shape and how many numbers they have, in the order of `Shape.dimensions`."""
_URDF_SUMMARIES: Final = {
    Kind.UNREADABLE_SHAPE: "{count} unreadable collision shapes were dropped",
    **LIMIT_SUMMARIES,
}


def read_urdf(text: str, snap: Snapper) -> Description:
    """Read the description of a URDF text."""
    return _UrdfReader(snap).description(parse_xml(text, "the URDF"))


def read_visual_shapes(text: str, snap: Snapper) -> Description:
    """Read the description with <visual> shapes instead of <collision> shapes, for links that have any."""
    root = parse_xml(text, "the URDF")
    for link in root.findall("link"):
        if link.find("visual") is not None:
            for collision in link.findall("collision"):
                link.remove(collision)
            for visual in link.findall("visual"):
                visual.tag = "collision"
    return _UrdfReader(snap).description(root)


@dataclass(slots=True)
class _UrdfReader:
    snap: Snapper
    drives: dict[str, Drive] = field(default_factory=dict)
    mimics: list[Mimic] = field(default_factory=list)
    unsupported_links: dict[str, RobotError] = field(default_factory=dict)
    moving_names: set[str] = field(default_factory=set)

    def description(self, root: Element) -> Description:
        require_root(root, "robot", "a URDF")
        links = tuple(self.link(element) for element in root.findall("link"))
        if macros := sum(element.tag.startswith("xacro:") for element in root):
            if not links or any(element.tag in ("xacro:include", "xacro:macro") for element in root):
                message = f"the file is xacro, not URDF: it has {macros} macros to expand"
                raise RobotFileError(message, hint=XACRO_HINT, code=Code.WRONG_FORMAT, subject="xacro")
            self.note(Kind.DROPPED_PART, f"{macros} <xacro:...> elements that are not expanded were dropped")
        if not links:
            hint = "do other files include this one? pass the complete robot"
            raise RobotFileError("the URDF has no <link>", hint=hint, code=Code.MISSING_VALUE, subject="link")
        joints = tuple(self.joint(element) for element in root.findall("joint"))
        for element in root.findall("transmission"):
            self.add_rotor(element)
        links += self.mounting_link(links, joints)
        return Description(
            (root.get("name") or "").strip() or "robot",
            links,
            joints,
            np.array(STANDARD_GRAVITY),
            drives=tuple(self.drives.values()),
            mimics=tuple(self.mimics),
            findings=summarise(self.snap.findings, _URDF_SUMMARIES),
            unsupported_links=self.unsupported_links,
        )

    def mounting_link(self, links: Sequence[Link], joints: Sequence[AnyJoint]) -> tuple[Link, ...]:
        """Return the link on which a partial robot is mounted: a link that the file names only as a parent."""
        known, children = {link.name for link in links}, {joint.child for joint in joints}
        missing = dict.fromkeys(joint.parent for joint in joints if joint.parent not in known)
        if len(missing) != 1 or not known <= children or set(missing) & children:
            return ()
        (name,) = missing
        self.note(
            Kind.ASSUMED_PART, f"link {name!r} is not defined: it is assumed to be the root, which carries the part"
        )
        return (Link(name),)

    def note(self, kind: Kind, message: str) -> None:
        self.snap.findings.append(info(kind, message))

    def name(self, element: Element) -> str:
        name = element.get("name")
        if not name or not name.strip():
            raise RobotFileError(f"a <{element.tag}> has no name", code=Code.MISSING_VALUE, subject=element.tag)
        return name

    def pose(self, parent: Element, what: str, snap: Snapper) -> Pose:
        origin = parent.find("origin")
        if origin is None:
            return IDENTITY
        xyz = parse_numbers(origin.get("xyz", "0 0 0"), 3, f"{what} origin xyz")
        rpy = parse_numbers(origin.get("rpy", "0 0 0"), 3, f"{what} origin rpy")
        return Pose(snap.rpy(rpy, f"{what} origin"), xyz)

    def link(self, element: Element) -> Link:
        name = self.name(element)
        shapes = tuple(self.shapes(element, f"collision shape of link {name!r}"))
        inertials = element.findall("inertial")
        if len(inertials) > 1:
            self.note(Kind.ASSUMED_PART, f"link {name!r} has {len(inertials)} <inertial>: the first one is used")
        try:
            return Link(name, self.inertial(inertials[0], name) if inertials else None, shapes)
        except RobotError as error:
            hint = f"correct the <inertial> of link {name!r}, or cut the chain before it: tip=, --tip"
            self.unsupported_links[name] = error.with_hint(hint)
            return Link(name, None, shapes)

    def inertial(self, element: Element, link: str) -> Array:
        what = f"inertial of link {link!r}"
        mass, inertia = element.find("mass"), element.find("inertia")
        if mass is None or inertia is None:
            raise RobotFileError(
                f"the {what} needs <mass> and <inertia>, which have no defaults",
                hint="add them, or remove the <inertial>: the parameters of the link are then unknown",
                code=Code.MISSING_VALUE,
                subject=link,
            )
        # An inertial frame is a measured pose, not a constructed one: it is not snapped.
        X = self.pose(element, what, Snapper(active=False))
        entries = [parse_number(inertia.get(k), f"{what}, {k}") for k in URDF_INERTIA]
        J = X.rotation @ tensor_from_entries(np.array(entries)) @ X.rotation.T
        J = tensor_from_entries(tensor_entries(J))
        return phi_about_origin(parse_number(mass.get("value"), f"{what}, mass"), X.translation, J)

    def shapes(self, link: Element, what: str) -> Iterator[Shape]:
        """Yield the collision shapes; drop unreadable ones with a finding, because dynamics needs no shapes."""
        for element in link.findall("collision"):
            try:
                yield self.shape(element, what)
            except MindynError as error:
                self.note(Kind.UNREADABLE_SHAPE, f"{what} was dropped: {error.message}")

    def shape(self, element: Element, what: str) -> Shape:
        solid = element.find("geometry/*")
        if solid is None:
            raise RobotFileError("it has no geometry", code=Code.MISSING_VALUE, subject=what)
        if (kind := next((kind for kind in URDF_SHAPES if kind == solid.tag), None)) is None:
            message = f"unknown shape <{shorten_text(solid.tag, 60)}>"
            raise RobotFileError(message, code=Code.UNSUPPORTED, subject=solid.tag)
        given = {"scale": "1 1 1", **solid.attrib}
        sizes = [parse_numbers(given.get(key), count, key) for key, count in URDF_SHAPES[kind].items()]
        pose = self.pose(element, what, Snapper(active=False))
        return Shape(kind, tuple(np.concatenate(sizes).tolist()), pose, solid.get("filename", ""))

    def joint(self, element: Element) -> AnyJoint:
        name, kind = self.name(element), element.get("type", "")
        what = f"joint {name!r}"
        parent, child = (self.end(element, role, what) for role in ("parent", "child"))
        origin = self.pose(element, f"{what}", self.snap)
        if kind == "fixed":
            return FixedJoint(name, parent, child, origin)
        if kind in _FREE_JOINT_KINDS:
            self.note(
                Kind.HELD_JOINT, f"{what} is {kind}: mindyn holds it at its origin, {child!r} is fixed to {parent!r}"
            )
            return FixedJoint(name, parent, child, origin, held=True)
        try:
            return self.moving(element, kind, Joint(name, "revolute", parent, child, origin))
        except RobotError as error:
            hint = f"correct the file, or hold the joint: lock={{{name!r}: 0.0}}, --lock {name}=0"
            return UnsupportedJoint(name, parent, child, origin, error.with_hint(hint))

    def moving(self, element: Element, kind: str, plain: Joint) -> Joint:
        """Return the joint of an element that is neither fixed nor free; `plain` has its name, links and origin."""
        what = f"joint {plain.name!r}"
        if kind not in _JOINT_KINDS:
            known = [*_JOINT_KINDS, "fixed", *_FREE_JOINT_KINDS]
            raise RobotFileError(
                f"{what} has type {shorten_text(kind, 60)!r}; mindyn supports: {', '.join(known)}",
                hint=suggest_name(kind.lower(), known, f"hold it: lock={{{plain.name!r}: 0.0}}, --lock {plain.name}=0"),
                code=Code.UNSUPPORTED,
                subject=plain.name,
            )
        axis = element.find("axis")
        direction = parse_numbers("1 0 0" if axis is None else axis.get("xyz"), 3, f"axis of {what}")
        joint = replace(
            plain,
            kind="prismatic" if kind == "prismatic" else "revolute",
            axis=self.snap.axis(direction, f"axis of {what}"),
            limits=self.limits(element, what, ranged=kind != "continuous"),
        )
        self.moving_names.add(plain.name)
        self.add_friction(element.find("dynamics"), plain.name)
        self.add_mimic(element.find("mimic"), plain.name)
        return joint

    def end(self, element: Element, role: str, what: str) -> str:
        end = element.find(role)
        if end is None or not end.get("link"):
            raise RobotFileError(f"{what} has no {role} link", code=Code.MISSING_VALUE, subject=role)
        return end.get("link", "")

    def limits(self, element: Element, what: str, *, ranged: bool) -> Limits:
        limit = element.find("limit")
        keys = ("lower", "upper", "velocity", "effort") if ranged else ("velocity", "effort")
        stated = {} if limit is None else {key: text for key in keys if (text := limit.get(key)) is not None}
        if limit is not None and (text := limit.get(DRAKE_ACCELERATION)) is not None:
            stated["acceleration"] = text
        numbers = {key: _parse_float(text) for key, text in stated.items()}
        shown = {key: repr(shorten_text(text, 40)) for key, text in stated.items()}
        return self.snap.limits(numbers, shown, what, continuous=not ranged)

    def add_mimic(self, mimic: Element | None, name: str) -> None:
        if mimic is None:
            return
        if not (of := mimic.get("joint")):
            message = f"the <mimic> of joint {name!r} names no joint"
            raise RobotFileError(message, code=Code.MISSING_VALUE, subject=name)
        what = f"of the mimic of joint {name!r}"
        numbers = (parse_number(mimic.get(k, v), f"{k} {what}") for k, v in _MIMIC_ATTRIBUTES.items())
        self.mimics.append(Mimic(name, of, *numbers))

    def add_friction(self, dynamics: Element | None, name: str) -> None:
        if dynamics is None:
            return
        what = f"dynamics of joint {name!r}"
        viscous, coulomb = (parse_number(dynamics.get(key, "0"), f"{what}, {key}") for key in ("damping", "friction"))
        if viscous or coulomb:
            self.drives[name] = Drive(name, viscous=viscous, coulomb=coulomb, side="joint")

    def add_rotor(self, element: Element) -> None:
        """Add gear ratio and rotor inertia of a <transmission> with Drake's tags to the drive of its joint."""
        tags = {key: child for key, tag in DRAKE_DRIVE.items() for child in element.iter(tag)}
        names = [joint.get("name", "") for joint in element.findall("joint")]
        what = f"transmission {element.get('name')!r}"
        if tags and len(names) != 1:
            message = f"{what} has {len(names)} joints: its rotor inertia and gear ratio were dropped"
            self.note(Kind.DROPPED_PART, message)
        elif tags:
            values: dict[str, Any] = {
                key: parse_number(tag.get("value"), f"{what}, {tag.tag}") for key, tag in tags.items()
            }
            if names[0] in self.moving_names:
                drive = self.drives.get(names[0], Drive(names[0], side="joint"))
                self.drives[names[0]] = replace(drive, **values)


def _parse_float(text: str) -> float:
    """Return the number of a text, NaN if it is not a number."""
    try:
        return float(text)
    except ValueError:
        return float("nan")
