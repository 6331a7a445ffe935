"""Convert mindyn's own format (docs/robot-format.md) to a description, and a robot to this format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import radians
from typing import Any, Final, get_args

import numpy as np

from mindyn.foundation.algebra.inertia import phi_about_origin, tensor_from_entries
from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.foundation.algebra.rotations import rot_x, rot_z, rotation_from_quaternion
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, MindynError, RobotFileError, list_names
from mindyn.foundation.findings import summarise
from mindyn.foundation.notation import DRIVE_PARAMETERS
from mindyn.foundation.safe_reading import parse_toml
from mindyn.foundation.schemas import ANY_TEXT, Schema, list_schema, require_valid, table_schema
from mindyn.robots.assembly import assemble_robot
from mindyn.robots.description import Description, FixedJoint
from mindyn.robots.motors import build_drive
from mindyn.robots.parts import (
    Drive,
    ExtraTorque,
    Frame,
    Joint,
    Limits,
    Link,
    Loop,
    LoopKind,
    Mimic,
    Shape,
    ShapeKind,
    Side,
)
from mindyn.robots.robot import Robot, require_unique
from mindyn.robots.safe_robot_files import MAX_FILE_NUMBER
from mindyn.robots.snapping import SNAP_SUMMARIES, Snapper

ROBOT_FORMAT = "mindyn-robot-1"

_NUMBER: Final[Schema] = {"type": "number", "minimum": -MAX_FILE_NUMBER, "maximum": MAX_FILE_NUMBER}
_NUMBERS: Final = list_schema(_NUMBER)
_VECTOR: Final = list_schema(_NUMBER, minItems=3, maxItems=3)
_NUMBER_BY_JOINT: Final[Schema] = {"type": "object", "additionalProperties": _NUMBER}
_POSE: Final[Mapping[str, Schema]] = {
    "xyz": _VECTOR,
    "rpy": _VECTOR,
    "quaternion": list_schema(_NUMBER, minItems=4, maxItems=4),
    "rotation": list_schema(_VECTOR, minItems=3, maxItems=3),
}
_PLACE: Final = table_schema({}, _POSE)
_SHAPE: Final = table_schema(
    {"kind": {"enum": get_args(ShapeKind)}, "dimensions": _NUMBERS}, {"filename": ANY_TEXT, **_POSE}
)
_LINK: Final = table_schema(
    {"name": ANY_TEXT},
    {"mass": _NUMBER, "com": _VECTOR, "first_moment": _VECTOR, "inertia": _NUMBERS, "shapes": list_schema(_SHAPE)},
)
_DRIVE: Final = table_schema(
    {"joint": ANY_TEXT, "side": {"enum": get_args(Side)}},
    {"ratio": _NUMBER, "coupling": _NUMBER_BY_JOINT, "motor": ANY_TEXT, **dict.fromkeys(DRIVE_PARAMETERS, _NUMBER)},
)
_LOOP: Final = table_schema(
    {"name": ANY_TEXT, **dict.fromkeys(("first", "second"), table_schema({"link": ANY_TEXT}, _POSE))},
    {"dependent": list_schema(ANY_TEXT), "kind": {"enum": get_args(LoopKind)}},
)
_EXTRA: Final = table_schema({"name": ANY_TEXT, "joint": ANY_TEXT, "formula": ANY_TEXT, "coefficient": _NUMBER})
_MIMIC: Final = table_schema({"joint": ANY_TEXT, "of": ANY_TEXT}, {"multiplier": _NUMBER, "offset": _NUMBER})
_FRAME: Final = table_schema({"name": ANY_TEXT, "link": ANY_TEXT}, _POSE)
_ANY_JOINT: Final[Mapping[str, Schema]] = {
    "name": ANY_TEXT,
    "type": {"enum": ("revolute", "prismatic", "fixed")},
    "child": ANY_TEXT,
}
_LIMITS: Final = ("lower", "upper", "velocity", "acceleration", "jerk", "effort")
_CHAIN: Final[Mapping[str, Schema]] = {
    "parent": ANY_TEXT,
    "limits": table_schema({}, {**dict.fromkeys(_LIMITS, _NUMBER), "continuous": {"type": "boolean"}}),
}
_DH_ROW: Final = dict.fromkeys(("theta", "alpha", "d", "a"), _NUMBER)
_JOINTS: Final = {
    "axes": table_schema(_ANY_JOINT, {**_CHAIN, "origin": _PLACE, "axis": _VECTOR, "tip": _PLACE}),
    "modified_dh": table_schema({**_ANY_JOINT, **_DH_ROW}, {**_CHAIN, "gamma": _NUMBER, "b": _NUMBER}),
    "standard_dh": table_schema({**_ANY_JOINT, **_DH_ROW}, _CHAIN),
}
"""Schema of a joint by convention."""
_PARTS: Final = {"link": _LINK, "drive": _DRIVE, "loop": _LOOP, "frame": _FRAME, "extra": _EXTRA, "mimic": _MIMIC}
_ROBOT: Final = table_schema(
    {
        "format": ANY_TEXT,
        "name": ANY_TEXT,
        "convention": {"enum": tuple(_JOINTS)},
        "angles": {"enum": ("rad", "deg")},
        "gravity": _VECTOR,
        "root": ANY_TEXT,
        "joint": {"type": "array", "examples": ["[[joint]], with double brackets"]},
    },
    {
        "source": ANY_TEXT,
        "inertia": {"enum": ("com", "origin")},
        "home": _NUMBER_BY_JOINT,
        **{
            name: {**list_schema(part), "examples": [f"[[{name}]], with double brackets"]}
            for name, part in _PARTS.items()
        },
    },
)
_HINT: Final = "docs/robot-format.md lists the keys and their values"


def read_robot_toml(text: str, snap: Snapper, name: str = "the file") -> Description:
    """Read the description of a TOML text; `name` is that of its file in errors."""
    return read_table(parse_toml(text, name, RobotFileError), snap)


def read_table(table: Mapping[str, Any], snap: Snapper) -> Description:
    """Read the description of a parsed TOML table.

    Unknown keys raise an error, because they are usually typing errors.
    """
    require_valid(table, _ROBOT, "robot", RobotFileError, _HINT)
    if table["format"] != ROBOT_FORMAT:
        message = f"format is {table['format']!r}; this version of mindyn reads {ROBOT_FORMAT!r}"
        raise RobotFileError(message, code=Code.WRONG_FORMAT, subject="format")
    require_valid(table["joint"], list_schema(_JOINTS[table["convention"]]), "robot.joint", RobotFileError, _HINT)
    return _TomlReader(table, snap).description()


def read_drives(text: str) -> tuple[Drive, ...]:
    """Read the drives of a TOML text that contains only [[drive]] tables, written as in a robot file."""
    table = parse_toml(text, "the file", RobotFileError)
    require_valid(table, table_schema({}, {"drive": list_schema(_DRIVE)}), "the file of drives", RobotFileError, _HINT)
    drives = tuple(build_drive(entry) for entry in table.get("drive", ()))
    require_unique((drive.joint for drive in drives), "a joint can have only one drive", RobotFileError)
    return drives


def _require_key(table: Mapping[str, Any], key: str, what: str) -> Any:
    if key not in table:
        raise RobotFileError(f"{what} has no {key!r}", hint=_HINT, code=Code.MISSING_VALUE, subject=key)
    return table[key]


@contextmanager
def _add_place(what: str) -> Iterator[None]:
    """Name the part of the robot in errors about its values."""
    try:
        yield
    except MindynError as error:
        raise RobotFileError(f"{what}: {error.message}", hint=error.hint, code=error.code, subject=what) from error


@dataclass(frozen=True, slots=True)
class _TomlReader:
    """Reader of a table that matches the schema."""

    table: Mapping[str, Any]
    snap: Snapper

    def description(self) -> Description:
        table, joints = self.table, self.joints()
        links = [self.link(entry) for entry in table.get("link", ())]
        require_unique((link.name for link in links), "[[link]] names must be unique", RobotFileError)
        given = {link.name: link for link in links}
        names = [table["root"], *(joint.child for joint in joints)]
        if unknown := sorted(set(given) - set(names)):
            message = f"no joint moves [[link]] {list_names(map(repr, unknown))}; the joints move: {list_names(names)}"
            raise RobotFileError(message, code=Code.UNKNOWN_NAME, subject=unknown[0])
        positions = table_schema({}, {joint.name: _NUMBER for joint in joints})
        require_valid(table.get("home", {}), positions, "robot.home", RobotFileError)
        return Description(
            table["name"],
            tuple(given.get(name, Link(name)) for name in names),
            tuple(joints),
            np.array(table["gravity"], dtype=np.float64),
            frames=tuple(
                Frame(entry["name"], entry["link"], self.pose(entry, f"frame {entry['name']!r}"))
                for entry in table.get("frame", ())
            ),
            drives=tuple(build_drive(entry) for entry in table.get("drive", ())),
            loops=tuple(self.loop(entry) for entry in table.get("loop", ())),
            extras=tuple(ExtraTorque(**entry) for entry in table.get("extra", ())),
            mimics=tuple(Mimic(**entry) for entry in table.get("mimic", ())),
            home=table.get("home", {}),
            source=table.get("source", ""),
            findings=summarise(self.snap.findings, SNAP_SUMMARIES),
            keep_order=True,
        )

    def angle(self, value: float) -> float:
        return radians(value) if self.table["angles"] == "deg" else float(value)

    def joints(self) -> list[Joint | FixedJoint]:
        previous, joints = self.table["root"], list[Joint | FixedJoint]()
        for entry in self.table["joint"]:
            joints.append(self.joint(entry, entry.get("parent", previous)))
            previous = joints[-1].child
        return joints

    def joint(self, entry: Mapping[str, Any], parent: str) -> Joint | FixedJoint:
        name, kind, child, what = entry["name"], entry["type"], entry["child"], f"joint {entry['name']!r}"
        origin, axis, tip = IDENTITY, np.array([0.0, 0.0, 1.0]), IDENTITY
        if self.table["convention"] == "axes":
            if kind != "fixed":
                axis = self.snap.axis(np.array(_require_key(entry, "axis", what), dtype=float), f"axis of {what}")
            origin, tip = (self.pose(entry.get(key, {}), f"{what} {key}") for key in ("origin", "tip"))
        elif self.table["convention"] == "modified_dh":
            origin = self.modified_step(entry, what)
        else:
            tip = self.standard_step(entry, what)
        if kind == "fixed":
            return FixedJoint(name, parent, child, origin @ tip)
        with _add_place(what):
            return Joint(name, kind, parent, child, origin, axis, tip, self.limits(entry.get("limits", {}), kind))

    def turn(self, entry: Mapping[str, Any], key: str, what: str) -> tuple[float, float]:
        """Return cos and sin of an angle of a DH row; 0 is the default."""
        return self.snap.cos_sin(self.angle(entry.get(key, 0.0)), f"{what} {key}")

    def modified_step(self, entry: Mapping[str, Any], what: str) -> Pose:
        """Return the step Rz(gamma) Tz(b) Rx(alpha) Tx(a) Rz(theta) Tz(d); the joint adds to theta or d."""
        Rz, Rx = rot_z(*self.turn(entry, "theta", what)), rot_x(*self.turn(entry, "alpha", what))
        branch = Pose(rot_z(*self.turn(entry, "gamma", what)), (0, 0, entry.get("b", 0.0)))
        return branch @ (Pose(Rx) @ Pose(None, (entry["a"], 0, 0)) @ Pose(Rz) @ Pose(None, (0, 0, entry["d"])))

    def standard_step(self, entry: Mapping[str, Any], what: str) -> Pose:
        """Return the tip Rz(theta) Tz(d) Tx(a) Rx(alpha): the joint moves first, and its link frame is at the far end
        of the link.
        """
        Rz, Rx = rot_z(*self.turn(entry, "theta", what)), rot_x(*self.turn(entry, "alpha", what))
        return Pose(Rz) @ Pose(None, (0, 0, entry["d"])) @ Pose(None, (entry["a"], 0, 0)) @ Pose(Rx)

    def pose(self, entry: Mapping[str, Any], what: str, snap: Snapper | None = None) -> Pose:
        snap, xyz = snap or self.snap, entry.get("xyz", (0.0, 0.0, 0.0))
        if len(set(entry) & {"rpy", "quaternion", "rotation"}) > 1:
            message = f"{what} defines its rotation more than once; use one of rpy, quaternion and rotation"
            raise RobotFileError(message, code=Code.DUPLICATE, subject=what)
        if "rpy" in entry:
            return Pose(snap.rpy(np.array([self.angle(value) for value in entry["rpy"]]), what), xyz)
        if "quaternion" in entry and not any(entry["quaternion"]):
            message = f"the quaternion of {what} is zero; 1, 0, 0, 0 is the identity"
            raise RobotFileError(message, code=Code.INVALID_VALUE, subject=what)
        R = np.array(entry.get("rotation", np.eye(3)), dtype=float)
        R = rotation_from_quaternion(*map(float, entry["quaternion"])) if "quaternion" in entry else R
        with _add_place(what):
            return Pose(snap.rotation(R, what), xyz)

    def limits(self, entry: Mapping[str, Any], kind: str) -> Limits:
        turning = _LIMITS[:-1] if kind == "revolute" else ()
        numbers = {
            key: self.angle(entry[key]) if key in turning else float(entry[key]) for key in _LIMITS if key in entry
        }
        return Limits(**numbers, continuous=entry.get("continuous", False))

    def link(self, entry: Mapping[str, Any]) -> Link:
        what = f"link {entry['name']!r}"
        if "mass" not in entry and (given := sorted({"com", "first_moment", "inertia"} & set(entry))):
            message = f"{what} has {', '.join(given)} but no mass"
            raise RobotFileError(message, code=Code.MISSING_VALUE, subject="mass")
        shapes = tuple(self.shape(shape, f"shape of {what}") for shape in entry.get("shapes", ()))
        return Link(entry["name"], self.phi(entry, what) if "mass" in entry else None, shapes)

    def phi(self, entry: Mapping[str, Any], what: str) -> Array:
        about, entries = _require_key(self.table, "inertia", "robot"), _require_key(entry, "inertia", what)
        if len(entries) not in (3, 6):
            what = f"inertia of {what} (xx, yy, zz or xx, xy, yy, xz, yz, zz)"
            message = f"{what} must be 3 or 6 numbers, got {len(entries)}"
            raise RobotFileError(message, code=Code.WRONG_SHAPE, subject=what)
        xx, xy, yy, xz, yz, zz = entries if len(entries) == 6 else (entries[0], 0, entries[1], 0, 0, entries[2])
        if ("com" in entry) == ("first_moment" in entry):
            message = f"{what} must have either com or first_moment"
            raise RobotFileError(message, code=Code.DISAGREEMENT, subject="com")
        tensor, mass = np.array([xx, xy, yy, xz, yz, zz], dtype=float), float(entry["mass"])
        if about == "com":
            com = np.array(_require_key(entry, "com", what), dtype=float)
            return phi_about_origin(mass, com, tensor_from_entries(tensor))
        moment = entry["first_moment"] if "first_moment" in entry else mass * np.array(entry["com"])
        return np.concatenate([[mass], moment, tensor])

    def shape(self, entry: Mapping[str, Any], what: str) -> Shape:
        pose = self.pose(entry, what, Snapper(active=False))
        with _add_place(what):
            return Shape(entry["kind"], tuple(map(float, entry["dimensions"])), pose, entry.get("filename", ""))

    def loop(self, entry: Mapping[str, Any]) -> Loop:
        name, first, second = entry["name"], entry["first"], entry["second"]
        X1, X2 = self.pose(first, f"loop {name!r} first"), self.pose(second, f"loop {name!r} second")
        dependent, kind = tuple(entry.get("dependent", ())), entry.get("kind", "pin")
        return Loop(name, first["link"], second["link"], X1, X2, dependent, kind)


def toml_table(robot: Robot) -> dict[str, Any]:
    """Return the robot, except findings and selection, as texts, numbers, lists and tables."""
    head = {
        "format": ROBOT_FORMAT,
        "name": robot.name,
        **({"source": robot.source} if robot.source else {}),
        "convention": "axes",
        "angles": "rad",
        "inertia": "origin",
        "gravity": robot.gravity.tolist(),
        "root": robot.root.name,
        **({} if robot.home is None else {"home": dict(zip(robot.joint_names, robot.home.tolist(), strict=True))}),
    }
    links = [link for link in (robot.root, *robot.links) if link.phi is not None or link.shapes]
    lists: dict[str, list[dict[str, Any]]] = {
        "joint": [_joint_table(joint) for joint in robot.joints],
        "link": [_link_table(link) for link in links],
        "drive": [_drive_table(drive) for drive in robot.drives],
        "loop": [_loop_table(loop) for loop in robot.loops],
        "mimic": [asdict(mimic) for mimic in robot.mimics],
        "extra": [asdict(extra) for extra in robot.extras],
        "frame": [{"name": f.name, "link": f.link, **_pose_table(f.pose)} for f in robot.frames],
    }
    return head | {name: entries for name, entries in lists.items() if entries}


def robot_from_table(table: Mapping[str, Any]) -> Robot:
    """Return the robot of a table, the exact inverse of `toml_table`."""
    return assemble_robot(read_table(table, Snapper(active=False)))


def _pose_table(pose: Pose) -> dict[str, Any]:
    rotation = {} if (pose.rotation == np.eye(3)).all() else {"rotation": pose.rotation.tolist()}
    return {"xyz": pose.translation.tolist(), **rotation}


def _joint_table(joint: Joint) -> dict[str, Any]:
    limits = {key: value for key, value in asdict(joint.limits).items() if value is not None and value is not False}
    return {
        "name": joint.name,
        "type": joint.kind,
        "parent": joint.parent,
        "child": joint.child,
        "origin": _pose_table(joint.origin),
        "axis": joint.axis.tolist(),
        **({} if joint.tip.is_identity else {"tip": _pose_table(joint.tip)}),
        **({"limits": limits} if limits else {}),
    }


def _link_table(link: Link) -> dict[str, Any]:
    table: dict[str, Any] = {"name": link.name}
    if link.phi is not None:
        mass, *phi = link.phi.tolist()
        table |= {"mass": mass, "first_moment": phi[:3], "inertia": phi[3:]}
    if link.shapes:
        table["shapes"] = [_shape_table(shape) for shape in link.shapes]
    return table


def _shape_table(shape: Shape) -> dict[str, Any]:
    named = {"filename": shape.filename} if shape.filename else {}
    return {"kind": shape.kind, "dimensions": list(shape.dimensions), **_pose_table(shape.pose), **named}


def _drive_table(drive: Drive) -> dict[str, Any]:
    coupling = {"coupling": dict(drive.coupling)} if drive.coupling else {}
    values = {name: getattr(drive, name) for name in DRIVE_PARAMETERS}
    return {"joint": drive.joint, "ratio": drive.ratio, **coupling, **values, "side": drive.side}


def _loop_table(loop: Loop) -> dict[str, Any]:
    first, second = _pose_table(loop.first_pose), _pose_table(loop.second_pose)
    ends = {"first": {"link": loop.first, **first}, "second": {"link": loop.second, **second}}
    return {"name": loop.name, **ends, "dependent": list(loop.dependent), "kind": loop.kind}
