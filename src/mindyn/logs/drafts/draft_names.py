"""Guess from column names which columns form a group (one column per joint), and the signal and unit of each group.

Examples of names: `actual_q_0`, `state.tau_J[3]`, `/joint_states/elbow/position`, `field.effort2`,
`rec.act_vel_mot_deg_per_s`, `q1_rad`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os.path import commonprefix
from typing import Any, Final, Literal

from numpy.typing import NDArray

Order = Literal["names", "numbers", "array", "block"]

SIGNAL_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "acceleration": ("qdd", "ddq", "qacc", "acceleration", "accelerations", "acc", "accel"),
    "velocity": ("qd", "dq", "qvel", "velocity", "velocities", "vel", "speed", "speeds", "v", "dtheta", "omega"),
    "position": ("q", "qpos", "position", "positions", "pos", "angle", "angles", "theta", "phi", "enc", "encoder"),
    "torque": (
        *("tau", "torque", "torques", "trq", "effort", "efforts", "moment", "moments", "qfrc"),
        *("current", "currents", "curr", "cur", "amps", "i", "eff"),
    ),
}
"""Words of each signal, the most likely first."""
CURRENT_WORDS: Final = ("current", "currents", "curr", "cur", "amps", "i")
POSITION_FALLBACK_WORDS: Final = ("state", "axis")
"""Words that mean positions if a name has no other signal word: `observation.state` of LeRobot, `AxisAct` of KUKA."""
TARGET_WORDS: Final = frozenset(
    [
        *("target", "targets", "desired", "des", "cmd", "command", "commanded", "commands", "ref", "reference"),
        *("setpoint", "sp", "goal", "action", "actions", "nominal"),
    ]
)
"""Words of targets, such as `action` of LeRobot."""
UNMEASURED_WORDS: Final = TARGET_WORDS | {
    *("ff", "feedforward", "fwd", "error", "err", "model", "ode", "predicted", "sim", "cmptd", "computed", "calc")
}
UNRELATED_WORDS: Final = frozenset(
    [
        *("temperature", "temperatures", "temp", "voltage", "voltages", "mode", "modes", "status", "limit"),
        *("limits", "min", "max", "tcp", "ee", "cartesian", "pose", "tool", "ext", "external", "hat", "wrench"),
        *("force", "imu", "base", "digital", "analog", "gripper", "camera", "image", "index", "task"),
        *("episode", "frame", "momentum", "safety", "payload", "cog", "para", "init", "rel"),
    ]
)
MEASURED_WORDS: Final = frozenset(
    [
        *("actual", "act", "meas", "measured", "msr", "real", "feedback", "fb", "observation", "state", "rec"),
        *("read",),
    ]
)
MOTOR_WORDS: Final = frozenset(["motor", "mot", "motors", "drive", "rotor"])
JOINT_WORDS: Final = frozenset(["link", "joint", "joints", "j", "se", "load"])
_WORD: Final = re.compile(r"(?<![A-Za-z])m(?:A|Nm)(?![A-Za-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_GERMAN_STARTS: Final = {"ist": "actual", "soll": "target", "motor": "motor"}
_GERMAN_ENDS: Final = {
    **{"zeit": "time", "position": "position", "winkel": "angle", "geschwindigkeit": "velocity", "drehzahl": "speed"},
    **{"beschleunigung": "acceleration", "moment": "torque", "strom": "current", "ist": "actual", "soll": "target"},
}
_GERMAN: Final = re.compile(rf"({'|'.join(_GERMAN_STARTS)})?(?:gelenk|achs|dreh|winkel)?({'|'.join(_GERMAN_ENDS)})")
_DIGITS: Final = re.compile(r"\d+")
_OWN_NAME: Final = re.compile(r"([A-Za-z][A-Za-z0-9]*)([_. /-].+)")
"""Pattern of a column name that begins with a name of a joint, which the user may have chosen."""


@dataclass(frozen=True, slots=True)
class ColumnGroup:
    """Columns of the same quantity, one for each joint.

    entry    value of `columns.SIGNAL` in a sidecar: a pattern, a list in the robot's order, or the name of an array
    columns  the columns, in the robot's order if they are matched by joint name; one column for an array
    count    number of joints
    words    words of the name without number and joint
    ending   words after the number or joint, or the last words of an array's name, which may give the unit
    order    source of the order of the joints; "block" means adjacent columns without names
    reason why the group belongs to its signal, if its name does not say so
    """

    entry: str | tuple[str, ...]
    columns: tuple[str, ...]
    count: int
    words: tuple[str, ...]
    order: Order
    ending: tuple[str, ...] = ()
    reason: str = ""

    @property
    def signal(self) -> str | None:
        """Signal that the words of the name mean; None if they mean none."""
        meant = guess_signal(self.words)
        return meant[0] if meant else None

    @property
    def is_current(self) -> bool:
        """Whether the words mean a current."""
        return any(word in CURRENT_WORDS for word in self.words) and not {"torque", "nm"} & set(self.words)


def split_words(name: str) -> tuple[str, ...]:
    """Split a name into lower-case words without numbers: `act_pos_motDeg1` gives act, pos, mot, deg.

    German words are translated: `Istdrehmoment [Nm]` gives actual, torque, nm.
    """
    words = [word.lower() for word in _WORD.findall(name.replace("°", " deg ")) if not word.isdigit()]
    return tuple(part for word in words for part in _translate(word))


def _translate(word: str) -> list[str]:
    """Return the English words for a German compound; other words are returned unchanged."""
    parts = _GERMAN.fullmatch(word)
    if parts is None:
        return [word]
    return [*([_GERMAN_STARTS[parts[1]]] if parts[1] else []), _GERMAN_ENDS[parts[2]]]


def guess_signal(words: Sequence[str]) -> tuple[str, int] | None:
    """Return the signal that the words mean, and the rank of the word among the words of that signal; None if unknown.

    `current_position` is a position: "current" names a signal only if no other signal is named.
    """
    without_units = [word for word in words if word not in ("per",)]
    ranks = [
        (signal, known.index(word))
        for signal, known in SIGNAL_WORDS.items()
        for word in without_units
        if word in known and (len(word) > 1 or len(words) == 1 or word == "q")
    ]
    other_than_current = [(signal, k) for signal, k in ranks if SIGNAL_WORDS[signal][k] not in CURRENT_WORDS]
    if ranks:
        return (other_than_current or ranks)[0]
    text = f" {' '.join(without_units)} "
    for signal, units in _UNITS_OF_SIGNALS.items():
        if any(f" {unit} " in text for unit in units):
            return signal, 98
    return ("position", 99) if any(word in POSITION_FALLBACK_WORDS for word in words) else None


def is_measured(words: Sequence[str]) -> bool:
    """Return whether no word means a reference, an output of a model, or a quantity that is not a joint's motion or
    torque.
    """
    return not (set(words) & (UNMEASURED_WORDS | UNRELATED_WORDS)) and (len(words) < 2 or words[-1] not in ("d", "c"))


def guess_target(words: Sequence[str]) -> str | None:
    """Return the signal of a group of targets, "target" or "target_velocity"; None if the group is not a target."""
    others = set(words) - TARGET_WORDS
    if others == set(words) or others & (UNMEASURED_WORDS | UNRELATED_WORDS):
        return None
    meant = guess_signal([word for word in words if word in others])
    known = {None: "target", "position": "target", "velocity": "target_velocity"}
    return known.get(meant[0] if meant else None)


def guess_unit(signal: str, words: Sequence[str], ending: Sequence[str]) -> str | None:
    """Return the unit that the words mean, or a single letter at the end of them; None if they mean none."""
    text = f" {' '.join(word for word in words if word != 'per' and (len(word) > 1 or word in ending))} "
    for unit, spellings in _UNIT_WORDS[signal].items():
        if any(f" {spelling} " in text for spelling in spellings):
            return unit
    return None


_UNITS_OF_SIGNALS: Final = {
    "velocity": ("deg s", "rad s", "degps", "radps", "rpm"),
    "position": ("deg", "degrees", "rad", "radians"),
    "torque": ("nm", "mnm", "ma"),
}
"""Units that determine the signal if a name has no word for a signal, as in `ax1_act_deg`."""
_UNIT_WORDS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "time": {
        "ns": ("ns", "nsec", "nsecs", "nanoseconds", "nanosec"),
        "us": ("us", "usec", "microseconds"),
        "ms": ("ms", "msec", "milliseconds", "millis"),
        "s": ("s", "sec", "secs", "seconds"),
    },
    "position": {
        "rad": ("rad", "rads", "radian", "radians"),
        "deg": ("deg", "degs", "degree", "degrees"),
        "mm": ("mm",),
        "m": ("m",),
    },
    "velocity": {
        "rad/s": ("rad s", "rads", "radps", "rad"),
        "deg/s": ("deg s", "degps", "degs", "deg"),
        "rpm": ("rpm",),
        "mm/s": ("mm s",),
        "m/s": ("m s",),
    },
    "acceleration": {"rad/s^2": ("rad s", "rad"), "deg/s^2": ("deg s", "deg"), "m/s^2": ("m s",)},
    "torque": {
        "mN m": ("mnm", "m nm"),
        "N m": ("nm", "n m", "newton"),
        "mA": ("ma", "milliamp", "milliamps"),
        "A": ("a", "amp", "amps", "ampere", "amperes"),
    },
}


def group_columns(columns: Mapping[str, NDArray[Any]], joints: Sequence[str]) -> list[ColumnGroup]:
    """Group the columns of a log: arrays, columns by joint name, and columns by number."""
    arrays = [
        ColumnGroup(n, (n,), v.shape[1], split_words(n), "array", split_words(n)[-3:])
        for n, v in columns.items()
        if v.ndim == 2
    ]
    single = [name for name, values in columns.items() if values.ndim == 1]
    by_name = _group_by_joint(single, joints)
    taken = {column for group in by_name for column in group.columns}
    rest = [name for name in single if name not in taken]
    own = _group_by_own_names(rest, len(joints))
    taken = {column for group in own for column in group.columns}
    return [*arrays, *by_name, *own, *_group_by_number([name for name in rest if name not in taken])]


def has_joint_name(joint: str, name: str) -> bool:
    """Return whether a column's name contains the complete name of the joint: `joint10_pos` does not contain joint1."""
    return _find_spelling(joint, name) is not None


def _find_spelling(spelling: str, name: str) -> re.Match[str] | None:
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(spelling)}(?![A-Za-z0-9])", name, re.IGNORECASE)


def _group_by_joint(names: Sequence[str], joints: Sequence[str]) -> list[ColumnGroup]:
    """Return groups in which every joint is named, in full or without the common start and end of all joint names."""
    templates: dict[tuple[str, str, bool], dict[str, str]] = defaultdict(dict)
    spelled = [(joint, spelling, spelling == joint) for joint in joints for spelling in _list_spellings(joint, joints)]
    spelled.sort(key=lambda entry: -len(entry[1]))
    for name in names:
        for joint, spelling, in_full in spelled:
            place = _find_spelling(spelling, name)
            if place:
                exact = in_full and place[0] == joint
                templates[name[: place.start()], name[place.end() :], exact].setdefault(joint, name)
                break
    groups = []
    for (before, after, exact), members in templates.items():
        if len(joints) and set(members) == set(joints):
            listed = tuple(members[joint] for joint in joints)
            pattern = f"{_escape_braces(before)}{{joint}}{_escape_braces(after)}"
            groups.append(
                ColumnGroup(
                    pattern if exact else listed,
                    listed,
                    len(joints),
                    split_words(f"{before} {after}"),
                    "names",
                    split_words(after),
                )
            )
    return groups


def _list_spellings(joint: str, joints: Sequence[str]) -> list[str]:
    """List the joint's name, and its name without the common start and end of all names, such as `_joint`."""
    if len(joints) < 2:
        return [joint]
    before = commonprefix(joints)  # noqa: RUF071 - of characters
    after = commonprefix([name[::-1] for name in joints])  # noqa: RUF071
    short = joint[len(before) : len(joint) - len(after)].strip("_-. ")
    return list(dict.fromkeys([joint, *([short] if len(short) > 2 else [])]))


def _group_by_own_names(names: Sequence[str], joint_count: int) -> list[ColumnGroup]:
    """Return groups with a column for each joint, where all groups use the same names in the same order.

    An example is base_pos, sh_pos, el_pos, base_torque, sh_torque, el_torque. Two groups are needed as evidence. Names
    that are only numbers are handled by `_group_by_number`.
    """
    members: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name in names:
        parts = _OWN_NAME.fullmatch(name)
        if parts is not None:
            members[parts[2]].append((parts[1], name))
    by_owners: dict[tuple[str, ...], list[ColumnGroup]] = defaultdict(list)
    for ending, pairs in members.items():
        owners, listed = tuple(owner for owner, _ in pairs), tuple(name for _, name in pairs)
        stems = {_DIGITS.sub("", owner) for owner in owners}
        words = split_words(ending)
        names_signal = guess_signal(words) is not None  # in pos_1 and torque_1, "_1" is the joint
        if names_signal and joint_count > 1 and len(set(owners)) == len(owners) == joint_count and len(stems) > 1:
            group = ColumnGroup(listed, listed, joint_count, words, "block", words, "the same names for each signal")
            by_owners[owners].append(group)
    return [group for groups in by_owners.values() if len(groups) > 1 for group in groups]


def _group_by_number(names: Sequence[str]) -> list[ColumnGroup]:
    """Return groups whose names differ by a number that counts from 0 or 1."""
    templates: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for name in names:
        for digits in _DIGITS.finditer(name):
            templates[name[: digits.start()], name[digits.end() :]][int(digits[0])] = name
    groups, taken = [], set[str]()
    for (before, after), members in sorted(templates.items(), key=lambda entry: -len(entry[1])):
        numbers = sorted(members)
        listed = tuple(members[number] for number in numbers)
        is_counted = numbers[0] in (0, 1) and all(b - a == 1 for a, b in pairwise(numbers))
        if len(numbers) < 2 or not is_counted or taken & set(listed):
            continue
        taken |= set(listed)
        width = _digit_count(listed, before, after)
        mark = f"{'i' if numbers[0] else 'i0'}{f':0{width}' if width > 1 else ''}"
        pattern = f"{_escape_braces(before)}{{{mark}}}{_escape_braces(after)}"
        groups.append(
            ColumnGroup(pattern, listed, len(listed), split_words(f"{before} {after}"), "numbers", split_words(after))
        )
    position = {name: k for k, name in enumerate(names)}
    return sorted(groups, key=lambda group: position[group.columns[0]])


def _digit_count(names: Iterable[str], before: str, after: str) -> int:
    """Return the number of digits if the numbers have leading zeros; 1 if not."""
    written = [name[len(before) : len(name) - len(after)] for name in names]
    return len(written[0]) if written[0].startswith("0") and len(written[0]) > 1 else 1


def _escape_braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
