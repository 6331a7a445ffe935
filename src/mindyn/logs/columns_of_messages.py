"""JointState messages laid out as columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.logs.cdr import JointState
from mindyn.logs.findings import LogError

FIELDS: Final = ("position", "velocity", "effort")


def message_columns(messages: Sequence[JointState], names: Collection[str], file: str) -> dict[str, NDArray[Any]]:
    """`stamp` and `{joint}.{field}` columns; joints are found by name in every message."""
    columns: dict[str, NDArray[Any]] = {}
    tables: dict[str, Array] = {}
    joints = list(dict.fromkeys(name.rpartition(".")[0] for name in names if name != "stamp"))
    for name in names:
        if name == "stamp":
            columns[name] = np.array([message.stamp_ns for message in messages], dtype=np.int64)
            continue
        joint, _, field = name.rpartition(".")
        if field not in tables:
            tables[field] = _field_table(messages, joints, field, file)
        columns[name] = tables[field][:, joints.index(joint)]
    return columns


def _field_table(messages: Sequence[JointState], joints: Sequence[str], field: str, file: str) -> Array:
    """(messages, joints); the places of the joints are looked up again only when a message names others."""
    table = np.empty((len(messages), len(joints)))
    known: tuple[str, ...] | None = None
    places: list[int] = []
    for row, message in zip(table, messages, strict=True):
        if message.names != known:
            known, places = message.names, [message.names.index(joint) for joint in joints]
        values = getattr(message, field)
        if len(values) != len(known):
            raise LogError(
                f"a JointState message of {file} at stamp {message.stamp_ns} ns names {len(known)} joints "
                f"but holds {len(values)} values of {field}",
                hint=f"does the driver publish {field}?",
            )
        row[:] = values[places]
    return table
