"""Read sensor_msgs/JointState from a rosbag2 (.db3, .mcap, or a folder with such files) as a `LogTable`, without
ROS.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, Final

from mindyn.foundation.errors import Code, list_names
from mindyn.foundation.hints import Command
from mindyn.foundation.safe_reading import InputBudget, are_limits_active, require_file
from mindyn.logs.formats.cdr import (
    JOINT_STATE_FIELDS,
    MAX_MESSAGE_BYTES,
    MESSAGE_TYPES,
    JointState,
    decode_joint_state,
    stack_messages,
)
from mindyn.logs.formats.mcap_records import list_losses, read_mcap_messages, read_mcap_topics
from mindyn.logs.formats.tables import Chunk, LogTable
from mindyn.logs.log_errors import LogError
from mindyn.logs.metadata import si_units
from mindyn.robots.robot import Robot

_SAMPLED_MESSAGES: Final = 200
"""Messages from which the joint names are collected, because several publishers may share a topic."""
_MIN_SQL_STEPS, _SQL_STEPS_PER_BYTE, _SQL_STEPS_PER_CHECK = 10**7, 8, 10**5
"""Steps of SQLite's virtual machine that a query may take; a row of a hundred bytes takes 60."""


class BagTable(LogTable):
    """Messages of one JointState topic that hold every joint of the robot; other messages are skipped.

    Columns: stamp (ns, from the header) and {joint}.position, {joint}.velocity, {joint}.effort.
    """

    def __init__(self, path: Path, robot: Robot, topic: str | None) -> None:
        self.path = path
        self.name = path.name
        self.joints = robot.primary_names
        self.topic, self.notes = _select_topic(path, topic, self.joints)
        self.losses = tuple(loss for part in _list_parts(path) if part.suffix == ".mcap" for loss in list_losses(part))
        messages = list(islice(_iterate_messages(path, self.topic), _SAMPLED_MESSAGES))
        named = dict.fromkeys(name for message in messages for name in message.names)
        self.names = ("stamp", *(f"{name}.{kind}" for name in named for kind in JOINT_STATE_FIELDS))
        whole = next((m for m in messages if set(self.joints) <= set(m.names)), None)
        filled = [
            kind for kind in JOINT_STATE_FIELDS if whole is not None and len(getattr(whole, kind)) == len(whole.names)
        ]
        signals = {"position": "position", "velocity": "velocity", "effort": "torque"}
        self.metadata = {
            "columns": {"time": "stamp", **{signals[kind]: f"{{joint}}.{kind}" for kind in filled}},
            "units": {"time": "ns", **si_units(robot)},
            "side": dict.fromkeys((signals[kind] for kind in filled), "joint"),  # as the message type defines
        }

    def read_chunks(self, names: Collection[str], rows: int) -> Iterator[Chunk]:
        """Yield `rows` messages at a time with the joints in the order of `names`."""
        wanted = {name.rpartition(".")[0] for name in names if name != "stamp"}
        fitting = (message for message in _iterate_messages(self.path, self.topic) if wanted <= set(message.names))
        while batch := list(islice(fitting, rows)):
            yield stack_messages(batch, names, self.name)


def _folder_hint(path: Path) -> str:
    """Return how to correct a folder without a bag: a compressed bag, a run of mindyn, a folder of logs, or empty."""
    names = sorted(entry.name for entry in path.iterdir())
    if any(name.endswith((".db3.zstd", ".mcap.zstd", ".db3.zst", ".mcap.zst")) for name in names):
        return "its files are compressed: decompress the bag with `ros2 bag convert`"
    if "run.json" in names or "estimate.json" in names:
        return "it is a run of mindyn; pass the log that it was made of, or another log"
    if not names:
        return "it is empty; pass a log, or the folder of a rosbag2, LeRobot dataset or SAGE motion"
    return f"pass a log, or the folder of a rosbag2, LeRobot dataset or SAGE motion; it has {list_names(names, 5)}"


def _list_parts(path: Path) -> list[Path]:
    """List the files of a bag in recording order: bag_2.db3 before bag_10.db3."""
    if path.is_file():
        return [path]
    parts = [entry for entry in path.iterdir() if entry.suffix in (".db3", ".mcap")]
    if not parts:
        message, hint = f"folder {path.name} has no .db3 or .mcap file: it is not a rosbag2", _folder_hint(path)
        raise LogError(message, hint=hint, code=Code.WRONG_FORMAT, subject=path.name)
    for part in parts:
        require_file(part, "part of a bag", LogError)
    return sorted(parts, key=lambda entry: [int(w) if w.isdigit() else w for w in re.split(r"(\d+)", entry.stem)])


def _select_topic(path: Path, topic: str | None, joints: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the topic and notes.

    If there are several topics, select the topic whose messages name the robot's joints.
    """
    topics: dict[str, str] = {}
    for part in _list_parts(path):
        topics |= read_mcap_topics(part) if part.suffix == ".mcap" else _read_db3_topics(part)
    candidates = [name for name, kind in topics.items() if kind in MESSAGE_TYPES]
    known = list_names(f"{name} ({kind})" for name, kind in topics.items()) or "none"
    if topic is not None and topic not in candidates:
        message = f"{path.name} has no JointState topic {topic!r}; topics: {known}"
        raise LogError(message, code=Code.UNKNOWN_NAME, subject=topic)
    if topic is not None or len(candidates) == 1:
        return topic or candidates[0], ()
    fitting = [name for name in candidates if _names_all_joints(path, name, joints)]
    if len(fitting) == 1:
        others = list_names(name for name in candidates if name != fitting[0])
        return fitting[0], (
            f"topic {fitting[0]} of {path.name} was selected because it names the robot's joints; not used: {others}",
        )
    raise LogError(
        f"{path.name} has {len(candidates)} JointState topics; topics: {known}",
        hint='set topic = "..." in a sidecar file, or name one'
        if candidates
        else "mindyn reads sensor_msgs/JointState",
        command=Command("log", path, "ROBOT", "--state", f"topic={candidates[0]}") if candidates else None,
        code=Code.AMBIGUOUS if candidates else Code.MISSING_VALUE,
        subject="topic",
    )


def _names_all_joints(path: Path, topic: str, joints: Sequence[str]) -> bool:
    """Return whether the first messages on a topic name all joints, with or without a prefix."""
    named = {name for message in islice(_iterate_messages(path, topic), _SAMPLED_MESSAGES) for name in message.names}
    return all(any(name == joint or name.endswith(("_" + joint, "/" + joint)) for name in named) for joint in joints)


def _iterate_messages(path: Path, topic: str) -> Iterator[JointState]:
    for part in _list_parts(path):
        for logged_ns, data in (read_mcap_messages if part.suffix == ".mcap" else _read_db3_messages)(part, topic):
            message = decode_joint_state(data)
            if message.stamp_ns == 0:  # the publisher has no clock: use the stamp of the recorder
                message = JointState(logged_ns, message.names, message.position, message.velocity, message.effort)
            yield message


def _run_query(path: Path, text: str, values: Sequence[str] = ()) -> Iterator[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as base:
        base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_MESSAGE_BYTES)
        base.execute("pragma trusted_schema = off")
        budget = InputBudget(path.name, path.stat().st_size, LogError)
        steps = iter(range((_MIN_SQL_STEPS + _SQL_STEPS_PER_BYTE * budget.size) // _SQL_STEPS_PER_CHECK))
        base.set_progress_handler(lambda: are_limits_active() and next(steps, None) is None, _SQL_STEPS_PER_CHECK)
        _require_tables(base, path.name)
        for row in base.execute(text, values):
            budget.take_bytes(sum(len(cell) for cell in row if isinstance(cell, bytes | str)))
            yield row


def _require_tables(base: sqlite3.Connection, name: str) -> None:
    """Reject views, virtual tables, and computed or default columns, because reading them may never end."""
    tables = base.execute("select type, sql from sqlite_master where lower(name) in ('topics', 'messages')").fetchall()
    columns = [column for table in ("topics", "messages") for column in base.execute(f"pragma table_xinfo({table})")]
    is_filled = any(is_hidden or default is not None for *_, default, _, is_hidden in columns)
    if is_filled or any(kind != "table" or "virtual" in str(sql).lower()[:20] for kind, sql in tables):
        message = f"topics and messages of {name} are not plain tables"
        raise LogError(message, hint="was the bag written by a recorder?", code=Code.UNSAFE_INPUT, subject=name)


def _read_db3_topics(path: Path) -> dict[str, str]:
    rows = list(_run_query(path, "select name, type, serialization_format from topics"))
    foreign = [f"{name} ({form})" for name, _, form in rows if form != "cdr"]
    if foreign:
        message = f"{path.name} has topics that are not serialized as CDR: {list_names(foreign)}"
        raise LogError(message, code=Code.UNSUPPORTED, subject=path.name)
    return {name: kind for name, kind, _ in rows}


def _read_db3_messages(path: Path, topic: str) -> Iterator[tuple[int, bytes]]:
    text = (
        "select messages.timestamp, messages.data from messages join topics on topics.id = messages.topic_id "
        "where topics.name = ? order by messages.timestamp, messages.id"
    )
    for stamp, data in _run_query(path, text, (topic,)):
        if not isinstance(stamp, int) or not isinstance(data, bytes):
            message = f"messages of {path.name} are not stamps and bytes"
            raise LogError(
                message, hint="was the bag written by a recorder?", code=Code.UNSAFE_INPUT, subject=path.name
            )
        yield stamp, data
