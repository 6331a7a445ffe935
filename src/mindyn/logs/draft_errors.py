"""What a log that cannot be drafted lacks, and what to do about it: columns, joints, torques of some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mindyn.errors import list_names
from mindyn.logs.draft_head import LogHead
from mindyn.logs.draft_names import guess_signal, has_joint_name, split_words
from mindyn.logs.errors import LogError


def missing_columns_error(
    path: Path, head: LogHead, missing: Sequence[str], joints: Sequence[str], counts: Mapping[str, int]
) -> LogError:
    """The error of a log without columns for some signals.

    counts  of the columns that would be taken for each signal, were they as many as the joints
    """
    has = f"its columns are: {list_names(head.columns)}" if head.columns else "it has no column of numbers"
    has += f"; empty are: {list_names(head.empty)}" if head.empty else ""
    of = f" for each of the joints {list_names(joints)}" if joints else ""
    message = f"no columns of {path.name} look like {' and '.join(missing)}{of}; {has}"
    if not head.is_named:
        hint = "without names nobody can tell them: write a first line such as t,q1,q2,tau1,tau2"
    elif fewer := _hint_for_missing_joints(head, joints, counts):
        hint = fewer
    else:
        hint = "state them in a sidecar file, columns.position = [...], or is it the log of another robot?"
    return LogError(message, hint=hint)


def _hint_for_missing_joints(head: LogHead, joints: Sequence[str], counts: Mapping[str, int]) -> str:
    """What to do about joints that the log does not hold, such as those of a gripper; empty where it is not that."""
    named = [joint for joint in joints if any(has_joint_name(joint, name) for name in head.columns)]
    if len(named) == len(joints):
        return _hint_for_missing_torques(head, joints)
    if named:
        unlogged = [joint for joint in joints if joint not in named]
        held = " ".join(f"--lock {joint}=0" for joint in unlogged)
        return f"the log names no column for {list_names(unlogged)}: hold what it did not move where it stood, {held}"
    count = counts.get("position", 0)
    if not 1 < count < len(joints) or counts.get("torque") != count:
        return ""
    held = " ".join(f"--lock {joint}=0" for joint in joints[count:])
    return (
        f"the log has {count} joints, the robot {len(joints)}: hold those that it does not have where they stood, such "
        f"as {held}"
    )


def _hint_for_missing_torques(head: LogHead, joints: Sequence[str]) -> str:
    """What to do about joints whose torque alone the log does not hold; empty where it is not that."""
    torques = [name for name in head.columns if (meant := guess_signal(split_words(name))) and meant[0] == "torque"]
    logged = [joint for joint in joints if any(has_joint_name(joint, name) for name in torques)]
    if not logged or len(logged) == len(joints):
        return ""
    missing = [joint for joint in joints if joint not in logged]
    return (
        f"the log has no torque of {list_names(missing)}: where these stood still hold them, --lock {missing[0]}=0; where "
        "they moved, add a column of zeros for each, which counts as no torque, so that the other joints' are fitted"
    )
