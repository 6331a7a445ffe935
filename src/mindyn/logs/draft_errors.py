"""Errors for a log without a draft: columns for only some of the joints, with hints on how to continue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mindyn.errors import Code, list_names
from mindyn.logs.draft_head import LogHead
from mindyn.logs.draft_names import guess_signal, has_joint_name, split_words
from mindyn.logs.errors import LogError


def find_missing_joints(
    path: Path, head: LogHead, missing: Sequence[str], joints: Sequence[str], counts: Mapping[str, int]
) -> LogError | None:
    """Return the error for a log without numbers, or with columns for only some of the joints; None for other logs.

    counts  number of candidate columns of each signal, which differs from the number of joints
    """
    hint = _hint_for_missing_joints(head, joints, counts) if head.columns and head.is_named else ""
    if head.columns and not hint:
        return None
    has = f"its columns are: {list_names(head.columns)}" if head.columns else "it has no column of numbers"
    has += f"; columns without values: {list_names(head.empty)}" if head.empty else ""
    of = f" for each of the joints {list_names(joints)}" if joints else ""
    message = f"no columns of {path.name} look like {' and '.join(missing)}{of}; {has}"
    return LogError(message, hint=hint, code=Code.MISSING_VALUE, subject=f"columns.{missing[0]}")


def _hint_for_missing_joints(head: LogHead, joints: Sequence[str], counts: Mapping[str, int]) -> str:
    """Return a hint for joints that the log does not contain, such as a gripper; empty if that is not the cause."""
    named = [joint for joint in joints if any(has_joint_name(joint, name) for name in head.columns)]
    if len(named) == len(joints):
        return _hint_for_missing_torques(head, joints)
    if named:
        unlogged = [joint for joint in joints if joint not in named]
        held = " ".join(f"--lock {joint}=0" for joint in unlogged)
        return f"the log has no column for {list_names(unlogged)}: lock joints that did not move, {held}"
    count = counts.get("position", 0)
    if not 1 < count < len(joints) or counts.get("torque") != count:
        return ""
    held = " ".join(f"--lock {joint}=0" for joint in joints[count:])
    return (
        f"the log has {count} joints, but the robot has {len(joints)}: lock joints that are not in the log, such as "
        f"{held}"
    )


def _hint_for_missing_torques(head: LogHead, joints: Sequence[str]) -> str:
    """Return a hint for joints without a logged torque; empty if that is not the cause."""
    torques = [name for name in head.columns if (meant := guess_signal(split_words(name))) and meant[0] == "torque"]
    logged = [joint for joint in joints if any(has_joint_name(joint, name) for name in torques)]
    if not logged or len(logged) == len(joints):
        return ""
    missing = [joint for joint in joints if joint not in logged]
    return (
        f"the log has no torque of {list_names(missing)}: lock joints that did not move, --lock {missing[0]}=0; for "
        "joints that moved, add a column of zeros, which means no torque, so that the other joints can be fitted"
    )
