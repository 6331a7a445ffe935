"""Read mindyn's TOML format (docs/robot-format.md): DH rows or axes, parameters, drives, loops, limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import radians
from typing import Any

import numpy as np

from mindyn.algebra.inertia import phi_about_origin, tensor_from_entries
from mindyn.algebra.poses import IDENTITY, Pose, rot_x, rot_z, rotation_from_quaternion
from mindyn.algebra.values import Array, frozen_array
from mindyn.errors import Code, InputError, RobotFileError, list_names, require_choice, suggest_name
from mindyn.findings import summarise
from mindyn.reading import parse_toml
from mindyn.robots.description import Description, FixedJoint
from mindyn.robots.files import MAX_FILE_NUMBER
from mindyn.robots.parts import Drive, ExtraTorque, Frame, Joint, Limits, Link, Loop, Mimic, Shape
from mindyn.robots.robot import require_unique
from mindyn.robots.snapping import SNAP_SUMMARIES, Snapper
from mindyn.schemas import quote_value

ROBOT_FORMAT = "mindyn-robot-1"
CONVENTIONS = ("axes", "modified_dh", "standard_dh")

_POSE_KEYS = {"xyz", "rpy", "quaternion", "rotation"}
_COMMON_JOINT_KEYS = {"name", "type", "parent", "child", "limits"}
_JOINT_KEYS = {
    "axes": _COMMON_JOINT_KEYS | {"origin", "axis", "tip"},
    "modified_dh": _COMMON_JOINT_KEYS | {"gamma", "b", "alpha", "a", "theta", "d"},
    "standard_dh": _COMMON_JOINT_KEYS | {"theta", "d", "a", "alpha"},
}
_MIMIC_DEFAULTS = {"multiplier": 1.0, "offset": 0.0}
_TOP_KEYS = {
    *("format", "name", "source", "convention", "angles", "inertia", "gravity", "root"),
    *("joint", "link", "drive", "loop", "frame", "extra", "mimic", "home"),
}
_REQUIRED_KEYS = ("format", "name", "convention", "angles", "gravity", "root", "joint")


def read_toml(text: str, snap: Snapper) -> Description:
    """Read the description of a TOML text."""
    return read_table(parse_toml(text, "the file", RobotFileError), snap)


def read_table(table: Mapping[str, Any], snap: Snapper) -> Description:
    """Read the description of a parsed TOML table; unknown keys raise an error, to catch typing errors."""
    _require_keys(table, _TOP_KEYS, "the robot file")
    for key in _REQUIRED_KEYS:
        _require_key(table, key, "the robot file")
    if table["format"] != ROBOT_FORMAT:
        message = f"format is {table['format']!r}; this version of mindyn reads {ROBOT_FORMAT!r}"
        raise RobotFileError(message, code=Code.WRONG_FORMAT, subject="format")
    return _TomlReader(table, snap).description()


def read_drives(text: str) -> tuple[Drive, ...]:
    """Read the drives of a TOML text that contains only [[drive]] tables, written as in a robot file."""
    table = parse_toml(text, "the file", RobotFileError)
    _require_keys(table, {"drive"}, "the file of drives")
    reader = _TomlReader(table, Snapper(active=False))
    drives = tuple(reader.drive(entry) for entry in _require_tables(table, "drive", "the file of drives"))
    require_unique((drive.joint for drive in drives), "a joint can have only one drive", RobotFileError)
    return drives


def _require_keys(table: Mapping[str, Any], known: set[str], what: str) -> None:
    if not isinstance(table, Mapping):
        raise RobotFileError(f"{what} must be a table, got {quote_value(table)}", code=Code.WRONG_TYPE, subject=what)
    if unknown := sorted(set(table) - known):
        raise RobotFileError(
            f"{what} has unknown keys {list_names(unknown)}; valid: {', '.join(sorted(known))}",
            hint=suggest_name(unknown[0], sorted(known), f"remove {unknown[0]!r}, or use a valid key"),
            code=Code.UNKNOWN_NAME,
            subject=unknown[0],
        )


def _require_key(table: Mapping[str, Any], key: str, what: str) -> Any:
    if key not in table:
        message = f"{what} has no {key!r}, and there is no default"
        example = f'"{ROBOT_FORMAT}"' if key == "format" else "..."
        raise RobotFileError(message, hint=f"add {key} = {example}", code=Code.MISSING_VALUE, subject=key)
    return table[key]


def _require_tables(table: Mapping[str, Any], key: str, what: str) -> list[Mapping[str, Any]]:
    """Return the entries of a list of tables, written [[key]]."""
    entries = table.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        message, hint = f"{key} of {what} must be a list of tables", f"write [[{key}]], with double brackets"
        raise RobotFileError(message, hint=hint, code=Code.WRONG_TYPE, subject=key)
    return entries


def _require_text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise RobotFileError(f"{what} must be a string, got {quote_value(value)}", code=Code.WRONG_TYPE, subject=what)
    return value


def _require_array(value: Any, shape: tuple[int, ...], what: str) -> Array:
    if _holds_other_than_numbers(value):
        raise RobotFileError(f"{what} must be numbers, got {quote_value(value)}", code=Code.WRONG_TYPE, subject=what)
    try:
        array = frozen_array(value, shape, what)
    except (InputError, OverflowError) as error:
        message = error.message if isinstance(error, InputError) else f"{what} is too large for a number"
        code = error.code if isinstance(error, InputError) else Code.OUT_OF_RANGE
        raise RobotFileError(message, code=code, subject=what) from error
    if array.size and np.abs(array).max() > MAX_FILE_NUMBER:
        message = f"{what} must be at most {MAX_FILE_NUMBER:g} in SI units, got {quote_value(value)}"
        raise RobotFileError(message, code=Code.OUT_OF_RANGE, subject=what)
    return array


def _holds_other_than_numbers(value: Any) -> bool:
    """Whether a TOML value contains anything other than numbers, such as texts or booleans."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return any(map(_holds_other_than_numbers, value))
    return isinstance(value, bool) or not isinstance(value, (int, float, np.floating))


def _require_choice(table: Mapping[str, Any], key: str, valid: tuple[str, ...], what: str) -> str:
    value = _require_key(table, key, what)
    require_choice(value, valid, f"{key} of {what}", RobotFileError)
    return str(value)


@dataclass(slots=True)
class _TomlReader:
    table: Mapping[str, Any]
    snap: Snapper

    def description(self) -> Description:
        convention = _require_choice(self.table, "convention", CONVENTIONS, "the robot file")
        _require_choice(self.table, "angles", ("rad", "deg"), "the robot file")
        joints = self.joints(convention)
        links = [self.link(entry) for entry in _require_tables(self.table, "link", "the robot file")]
        require_unique((link.name for link in links), "[[link]] names must be unique", RobotFileError)
        stated = {link.name: link for link in links}
        names = [_require_text(self.table["root"], "root"), *(joint.child for joint in joints)]
        if unknown := sorted(set(stated) - set(names)):
            message = f"no joint moves [[link]] {list_names(map(repr, unknown))}; the joints move: {list_names(names)}"
            raise RobotFileError(message, code=Code.UNKNOWN_NAME, subject=unknown[0])
        return Description(
            self.table["name"],
            tuple(stated.get(name, Link(name)) for name in names),
            tuple(joints),
            _require_array(self.table["gravity"], (3,), "gravity"),
            frames=tuple(self.frame(entry) for entry in _require_tables(self.table, "frame", "the robot file")),
            drives=tuple(self.drive(entry) for entry in _require_tables(self.table, "drive", "the robot file")),
            loops=tuple(self.loop(entry) for entry in _require_tables(self.table, "loop", "the robot file")),
            extras=tuple(self.extra(entry) for entry in _require_tables(self.table, "extra", "the robot file")),
            mimics=tuple(self.mimic(entry) for entry in _require_tables(self.table, "mimic", "the robot file")),
            home=self.home({joint.name for joint in joints}),
            source=str(self.table.get("source", "")),
            findings=summarise(self.snap.findings, SNAP_SUMMARIES),
            keep_order=True,
        )

    def angle(self, value: Any, what: str) -> float:
        number = float(_require_array(value, (), what))
        return radians(number) if self.table["angles"] == "deg" else number

    def joints(self, convention: str) -> list[Joint | FixedJoint]:
        previous = _require_text(self.table["root"], "root")
        joints: list[Joint | FixedJoint] = []
        for entry in _require_tables(self.table, "joint", "the robot file"):
            _require_keys(entry, _JOINT_KEYS[convention], f"joint {entry.get('name')!r}")
            joint = self.joint(entry, convention, previous)
            previous = joint.child
            joints.append(joint)
        return joints

    def joint(self, entry: Mapping[str, Any], convention: str, previous: str) -> Joint | FixedJoint:
        name = str(_require_key(entry, "name", "a joint"))
        what = f"joint {name!r}"
        kind = _require_choice(entry, "type", ("revolute", "prismatic", "fixed"), what)
        build: Callable[[Mapping[str, Any], str], tuple[Pose, Array, Pose]] = {
            "axes": self.axes_geometry,
            "modified_dh": self.modified_geometry,
            "standard_dh": self.standard_geometry,
        }[convention]
        origin, axis, tip = build(entry, what)
        parent, child = str(entry.get("parent", previous)), str(_require_key(entry, "child", what))
        if kind == "fixed":
            return FixedJoint(name, parent, child, origin @ tip)
        limits = self.limits(entry.get("limits", {}), kind, what)
        return Joint(name, "prismatic" if kind == "prismatic" else "revolute", parent, child, origin, axis, tip, limits)

    def axes_geometry(self, entry: Mapping[str, Any], what: str) -> tuple[Pose, Array, Pose]:
        axis = np.array([0.0, 0.0, 1.0])
        if entry["type"] != "fixed":
            axis = self.snap.axis(
                _require_array(_require_key(entry, "axis", what), (3,), f"axis of {what}"), f"axis of {what}"
            )
        origin = self.pose(entry.get("origin", {}), f"{what} origin")
        return origin, axis, self.pose(entry.get("tip", {}), f"{what} tip")

    def dh(self, entry: Mapping[str, Any], what: str) -> tuple[Array, Array, float, float]:
        """Return Rz(theta), Rx(alpha), d, a of a row; all four are required."""
        theta, alpha = (
            self.snap.cos_sin(self.angle(_require_key(entry, key, what), f"{key} of {what}"), f"{what} {key}")
            for key in ("theta", "alpha")
        )
        d, a = (float(_require_array(_require_key(entry, key, what), (), f"{key} of {what}")) for key in ("d", "a"))
        return rot_z(*theta), rot_x(*alpha), d, a

    def modified_geometry(self, entry: Mapping[str, Any], what: str) -> tuple[Pose, Array, Pose]:
        """Return the step Rz(gamma) Tz(b) Rx(alpha) Tx(a) Rz(theta) Tz(d); the joint adds to theta or d."""
        Rz, Rx, d, a = self.dh(entry, what)
        gamma = self.snap.cos_sin(self.angle(entry.get("gamma", 0.0), f"gamma of {what}"), f"{what} gamma")
        branch = Pose(rot_z(*gamma), (0, 0, float(_require_array(entry.get("b", 0.0), (), f"b of {what}"))))
        step = Pose(Rx) @ Pose(None, (a, 0, 0)) @ Pose(Rz) @ Pose(None, (0, 0, d))
        return branch @ step, np.array([0.0, 0.0, 1.0]), IDENTITY

    def standard_geometry(self, entry: Mapping[str, Any], what: str) -> tuple[Pose, Array, Pose]:
        """Return the tip Rz(theta) Tz(d) Tx(a) Rx(alpha): the joint moves first, its link frame is at the far end."""
        Rz, Rx, d, a = self.dh(entry, what)
        tip = Pose(Rz) @ Pose(None, (0, 0, d)) @ Pose(None, (a, 0, 0)) @ Pose(Rx)
        return IDENTITY, np.array([0.0, 0.0, 1.0]), tip

    def pose(self, entry: Mapping[str, Any], what: str) -> Pose:
        _require_keys(entry, _POSE_KEYS, what)
        xyz = _require_array(entry.get("xyz", (0.0, 0.0, 0.0)), (3,), f"{what} xyz")
        if len(set(entry) & {"rpy", "quaternion", "rotation"}) > 1:
            message = f"{what} defines its rotation more than once; use one of rpy, quaternion and rotation"
            raise RobotFileError(message, code=Code.DUPLICATE, subject=what)
        if "rpy" in entry:
            rpy = [self.angle(value, f"{what} rpy") for value in _require_array(entry["rpy"], (3,), f"{what} rpy")]
            return Pose(self.snap.rpy(np.array(rpy), what), xyz)
        if "quaternion" in entry:
            quaternion = _require_array(entry["quaternion"], (4,), f"{what} quaternion (w, x, y, z)")
            if not quaternion.any():
                message = f"the quaternion of {what} is zero; 1, 0, 0, 0 is the identity"
                raise RobotFileError(message, code=Code.INVALID_VALUE, subject=what)
            return Pose(self.snap.rotation(rotation_from_quaternion(*quaternion), what), xyz)
        R = _require_array(entry.get("rotation", np.eye(3)), (3, 3), f"{what} rotation")
        try:
            return Pose(self.snap.rotation(R, what), xyz)
        except InputError as error:
            raise RobotFileError(f"{what}: {error.message}", code=error.code, subject=what) from error

    def limits(self, entry: Mapping[str, Any], kind: str, what: str) -> Limits:
        keys = ("lower", "upper", "velocity", "acceleration", "jerk", "effort")
        _require_keys(entry, {*keys, "continuous"}, f"limits of {what}")
        continuous = entry.get("continuous", False)
        if not isinstance(continuous, bool):
            message = f"limit 'continuous' of {what} must be true or false, got {continuous!r}"
            raise RobotFileError(message, code=Code.WRONG_TYPE, subject="continuous")
        turns = kind == "revolute" and self.table["angles"] == "deg"
        return Limits(
            **{
                key: radians(value) if turns and key != "effort" else value
                for key in keys
                if key in entry
                and (value := float(_require_array(entry[key], (), f"limit {key!r} of {what}"))) is not None
            },
            continuous=continuous,
        )

    def link(self, entry: Mapping[str, Any]) -> Link:
        _require_keys(entry, {"name", "mass", "com", "first_moment", "inertia", "shapes"}, "a link")
        name = _require_text(_require_key(entry, "name", "a link"), "the name of a link")
        if "mass" not in entry and (given := sorted({"com", "first_moment", "inertia"} & set(entry))):
            message = f"link {name!r} has {', '.join(given)} but no mass"
            raise RobotFileError(message, code=Code.MISSING_VALUE, subject="mass")
        shapes = tuple(self.shape(shape, name) for shape in _require_tables(entry, "shapes", f"link {name!r}"))
        return Link(name, self.phi(entry, f"link {name!r}") if "mass" in entry else None, shapes)

    def phi(self, entry: Mapping[str, Any], what: str) -> Array:
        about = _require_choice(self.table, "inertia", ("com", "origin"), "the robot file")
        mass = float(_require_array(entry["mass"], (), f"mass of {what}"))
        inertia = np.atleast_1d(np.array(_require_key(entry, "inertia", what), dtype=object))
        if inertia.shape == (3,):
            xx, yy, zz = _require_array(inertia, (3,), f"inertia of {what}")
            entries = np.array([xx, 0, yy, 0, 0, zz])
        else:
            entries = _require_array(inertia, (6,), f"inertia of {what} (xx, yy, zz or xx, xy, yy, xz, yz, zz)")
        if ("com" in entry) == ("first_moment" in entry):
            message = f"{what} must have either com or first_moment"
            raise RobotFileError(message, code=Code.DISAGREEMENT, subject="com")
        if about == "com":
            com = _require_array(_require_key(entry, "com", what), (3,), f"com of {what}")
            return phi_about_origin(mass, com, tensor_from_entries(entries))
        com = _require_array(entry.get("com", (0, 0, 0)), (3,), f"com of {what}")
        moment = _require_array(entry.get("first_moment", mass * com), (3,), f"first_moment of {what}")
        return np.concatenate([[mass], moment, entries])

    def shape(self, entry: Mapping[str, Any], link: str) -> Shape:
        what = f"shape of link {link!r}"
        _require_keys(entry, {"kind", "dimensions", "filename", *_POSE_KEYS}, what)
        given = _require_key(entry, "dimensions", what)
        if not isinstance(given, list):
            message = f"dimensions of the {what} must be a list, got {quote_value(given)}"
            raise RobotFileError(message, code=Code.WRONG_TYPE, subject="dimensions")
        dimensions = tuple(float(_require_array(value, (), what)) for value in given)
        pose = _TomlReader(self.table, Snapper(active=False)).pose({k: entry[k] for k in _POSE_KEYS & set(entry)}, what)
        return Shape(_require_key(entry, "kind", what), dimensions, pose, entry.get("filename", ""))

    def frame(self, entry: Mapping[str, Any]) -> Frame:
        _require_keys(entry, {"name", "link", *_POSE_KEYS}, "a frame")
        name = str(_require_key(entry, "name", "a frame"))
        pose = self.pose({k: entry[k] for k in _POSE_KEYS & set(entry)}, f"frame {name!r}")
        return Frame(name, str(_require_key(entry, "link", f"frame {name!r}")), pose)

    def drive(self, entry: Mapping[str, Any]) -> Drive:
        keys = {"joint", "ratio", "coupling", "rotor_inertia", "viscous", "coulomb", "offset", "side"}
        _require_keys(entry, keys, "a drive")
        if not isinstance(entry.get("coupling", {}), Mapping):
            message = f"coupling of a drive must be a table joint = ratio, got {entry['coupling']!r}"
            raise RobotFileError(message, code=Code.WRONG_TYPE, subject="coupling")
        _require_key(entry, "side", f"the drive of joint {_require_key(entry, 'joint', 'a drive')!r}")
        return Drive(**entry)

    def extra(self, entry: Mapping[str, Any]) -> ExtraTorque:
        _require_keys(entry, {"name", "joint", "formula", "coefficient"}, "an extra torque")
        name = str(_require_key(entry, "name", "an extra torque"))
        for key in ("joint", "formula", "coefficient"):
            _require_key(entry, key, f"the extra torque {name!r}")
        return ExtraTorque(**entry)

    def loop(self, entry: Mapping[str, Any]) -> Loop:
        _require_keys(entry, {"name", "first", "second", "dependent", "kind"}, "a loop")
        name = str(_require_key(entry, "name", "a loop"))
        ends = []
        for role in ("first", "second"):
            end = _require_key(entry, role, f"loop {name!r}")
            _require_keys(end, {"link", *_POSE_KEYS}, f"loop {name!r}, {role}")
            pose = self.pose({k: end[k] for k in _POSE_KEYS & set(end)}, f"loop {name!r} {role}")
            ends.append((str(_require_key(end, "link", f"loop {name!r}, {role}")), pose))
        (first, X1), (second, X2) = ends
        dependent = entry.get("dependent", [])
        if not isinstance(dependent, list) or not all(isinstance(joint, str) for joint in dependent):
            message = f"dependent of loop {name!r} must be a list of joint names, got {quote_value(dependent)}"
            raise RobotFileError(message, code=Code.WRONG_TYPE, subject="dependent")
        return Loop(name, first, second, X1, X2, tuple(dependent), entry.get("kind", "pin"))

    def mimic(self, entry: Mapping[str, Any]) -> Mimic:
        _require_keys(entry, {"joint", "of", "multiplier", "offset"}, "a mimic")
        joint = _require_text(_require_key(entry, "joint", "a mimic"), "the joint of a mimic")
        what = f"the mimic of joint {joint!r}"
        of = _require_text(_require_key(entry, "of", what), f"of in {what}")
        return Mimic(
            joint,
            of,
            *(float(_require_array(entry.get(k, v), (), f"{k} of {what}")) for k, v in _MIMIC_DEFAULTS.items()),
        )

    def home(self, joints: set[str]) -> dict[str, float]:
        """Return the positions of joints, rad or m, independent of the angle unit of the file."""
        positions = self.table.get("home", {})
        _require_keys(positions, joints, "home")
        return {name: float(_require_array(value, (), f"home of {name!r}")) for name, value in positions.items()}
