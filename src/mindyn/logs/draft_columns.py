"""Choose the columns of each signal of a log: as the user gives them, by name, by file, or by their numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mindyn.errors import Code, list_names, suggest_name
from mindyn.logs.checks import expand_pattern
from mindyn.logs.draft import UNANSWERED, SidecarDraft, format_toml_value
from mindyn.logs.draft_blocks import Candidates, recognise_signals
from mindyn.logs.draft_head import LogHead, read_log_head
from mindyn.logs.draft_names import (
    JOINT_WORDS,
    MEASURED_WORDS,
    MOTOR_WORDS,
    SIGNAL_WORDS,
    UNMEASURED_WORDS,
    ColumnGroup,
    Order,
    group_columns,
    guess_signal,
    guess_target,
    has_joint_name,
    is_measured,
    split_words,
)
from mindyn.logs.draft_numbers import Clock
from mindyn.logs.errors import LogError
from mindyn.logs.metadata import SIGNALS, LogMetadata
from mindyn.robots.robot import Robot


def add_unit_words(group: ColumnGroup, head: LogHead) -> ColumnGroup:
    """Add the words of a line of units to a group."""
    unit_words = split_words(head.units.get(group.columns[0], ""))
    return replace(group, words=(*group.words, *unit_words), ending=(*group.ending, *unit_words))


def group_given_columns(
    path: Path, metadata: LogMetadata, head: LogHead, joints: Sequence[str]
) -> dict[str, ColumnGroup]:
    """Return the groups of columns that the user gives for signals of this file."""
    order = list(metadata.joints or joints)
    times = metadata.columns.get("time", ())
    groups, wanted = {}, [times] if isinstance(times, str) else list(times)
    for signal in (name for name in SIGNALS if name in metadata.columns and name not in metadata.files):
        entry = metadata.columns[signal]
        if isinstance(entry, str) and "{" in entry:
            names = [expand_pattern(entry, signal, k, joint) for k, joint in enumerate(order or head.columns)]
            names = names if order else [name for name in names if name in head.columns]
        else:
            names = [entry] if isinstance(entry, str) else list(entry.values() if isinstance(entry, Mapping) else entry)
        wanted += names
        known = [head.columns[name] for name in names if name in head.columns]
        count = known[0].shape[1] if len(known) == 1 and known[0].ndim == 2 else len(names)
        if joints and len(known) == len(names) and count < len(joints):
            message = f"columns.{signal} has {count} columns, but the robot has the joints {list_names(joints)}"
            raise LogError(message, code=Code.WRONG_SHAPE, subject=f"columns.{signal}")
        kind: Order = "array" if known and known[0].ndim == 2 else "numbers" if "{i" in str(entry) else "names"
        words = split_words(names[0]) if names and head.is_named else ()
        groups[signal] = ColumnGroup(str(entry), tuple(names), count, words, kind, words[-2:])
    if unknown := [name for name in wanted if name not in head.columns]:
        message = f"{path.name} has no column {list_names(unknown)}; its columns are: {list_names(head.columns)}"
        hint = suggest_name(unknown[0], head.columns)
        raise LogError(message, hint=hint, code=Code.UNKNOWN_NAME, subject=unknown[0])
    return groups


def group_torques_and_forces(head: LogHead, robot: Robot | None) -> ColumnGroup | None:
    """Group torques of revolute joints and forces of prismatic joints by joint name; None if a joint has none."""
    columns = []
    single = {name: set(split_words(name)) for name, values in head.columns.items() if values.ndim == 1}
    for joint in () if robot is None else robot.primary_joints:
        words = ("force", "forces") if joint.kind == "prismatic" else SIGNAL_WORDS["torque"]
        measured = [name for name, spelled in single.items() if spelled & set(words) and not spelled & UNMEASURED_WORDS]
        matches = [name for name in measured if has_joint_name(joint.name, name)]
        if len(matches) != 1:
            return None
        columns += matches
    return ColumnGroup(tuple(columns), tuple(columns), len(columns), ("torque",), "names") if columns else None


def choose_groups(groups: Sequence[ColumnGroup], joint_count: int, file_words: Sequence[str]) -> dict[str, ColumnGroup]:
    """Choose the most likely group of each signal."""
    chosen: dict[str, ColumnGroup] = {}
    for signal in ("position", "velocity", "acceleration", "torque"):
        ranked = []
        for place, group in enumerate(groups):
            words = group.words if guess_signal(group.words) else (*group.words, *file_words)
            meant = guess_signal(words)
            if meant is None or meant[0] != signal or not is_measured(words) or group.count < max(joint_count, 1):
                continue
            shared = len(set(group.words) & set(chosen["position"].words)) if "position" in chosen else 0
            measured = bool(set(words) & MEASURED_WORDS)
            ranked.append(((not measured, group.count != joint_count, meant[1], -shared, place), group))
        if ranked:
            chosen[signal] = min(ranked, key=lambda entry: entry[0])[1]
    return chosen


def choose_targets(
    groups: Sequence[ColumnGroup], chosen: Mapping[str, ColumnGroup], joint_count: int
) -> dict[str, ColumnGroup]:
    """Choose the targets of position servos, which replace the torque, if the log has positions."""
    count = chosen["position"].count if "position" in chosen else -1
    targets = [(guess_target(group.words), group) for group in groups if group.count in (joint_count, count)]
    by_signal = {signal: group for signal, group in reversed(targets) if signal is not None}
    return by_signal if count > 0 and "target" in by_signal else {}


def find_signal_files(
    path: Path, groups: Sequence[ColumnGroup], chosen: dict[str, ColumnGroup], joint_count: int
) -> tuple[dict[str, ColumnGroup], dict[str, str]]:
    """Find signals in separate files by the names of the files, such as pos.csv and current.csv."""
    chosen = {**choose_groups(groups, joint_count, split_words(path.stem)), **chosen}
    files: dict[str, str] = {}
    for other in sorted(path.parent.glob(f"*{path.suffix}")):
        meant = guess_signal(split_words(other.stem))
        if other == path or meant is None or meant[0] in ("position", *chosen) or not other.is_file():
            continue
        if _recording_words(other.stem) != _recording_words(path.stem):
            continue
        groups_of_file = group_columns(read_log_head(other, None).columns, ())
        if group := choose_groups(groups_of_file, joint_count, split_words(other.stem)).get(meant[0]):
            chosen[meant[0]] = replace(group, words=(*group.words, *split_words(other.stem)))
            files[meant[0]] = other.name
    return chosen, files


def _recording_words(stem: str) -> list[str]:
    """Return the words of a file name without its signal; run1_pos and run1_current of one recording share them."""
    known = [word for words in SIGNAL_WORDS.values() for word in words] + [*MEASURED_WORDS, *MOTOR_WORDS, *JOINT_WORDS]
    return [word for word in re.findall(r"[a-z]+|[0-9]+", stem.lower()) if word not in known]


def recognise_missing(
    draft: SidecarDraft,
    chosen: Mapping[str, ColumnGroup],
    missing: Sequence[str],
    groups: Sequence[ColumnGroup],
    head: LogHead,
    robot: Robot | None,
    clock: Clock,
) -> tuple[dict[str, ColumnGroup], SidecarDraft]:
    """Choose missing signals by their numbers, ask for those with several candidates, and note unused candidates."""
    count = 1 if robot is None else len(robot.primary_names)
    wide = [group for group in groups if group.count >= count]
    named = {id(group): meant[0] for group in wide if (meant := guess_signal(group.words))}
    unknown = [group for group in wide if id(group) not in named and is_measured(group.words)]
    known = [group for signal, group in chosen.items() if signal != "torque"]
    candidates: Candidates = {}
    if missing and (unknown or not head.is_named):
        used = {name for group in chosen.values() for name in group.columns}
        candidates = recognise_signals(head, [*known, *unknown] if head.is_named else (), robot, clock.columns, used)
    found = dict(chosen)
    for signal in ("position", "velocity", "torque"):
        taken = {name for group in found.values() for name in group.columns}
        free = [group for group in candidates.get(signal, ()) if not taken & set(group.columns)]
        if signal not in found and len(free) == 1:
            found[signal] = free[0]
        elif signal not in found and signal in missing:
            free += [group for group in wide if named.get(id(group)) == signal]  # commanded, or of a model
            draft = draft.with_line(f"columns.{signal}", UNANSWERED, _describe_candidates(free, head))
    taken = {name for group in found.values() for name in group.columns}
    asked = draft.questions
    others = [(group, named[id(group)]) for group in wide if id(group) in named]
    others += [(group, signal) for signal, listed in candidates.items() for group in listed]
    unused = {_describe_group(g): s for g, s in others if not taken & set(g.columns) and f"columns.{s}" not in asked}
    if unused:
        listing = list_names(f"{name} ({signal})" for name, signal in unused.items())
        draft = draft.with_notes(f"columns that are not used: {listing}")
    return {signal: found[signal] for signal in SIGNALS if signal in found}, draft


def _describe_candidates(groups: Sequence[ColumnGroup], head: LogHead) -> str:
    listed = [format_toml_value(group.entry if isinstance(group.entry, str) else list(group.entry)) for group in groups]
    if listed:
        return f"one of {', or '.join(listed)}?"
    return f"a list with a column for each joint; the columns are: {list_names(head.columns)}"


def _describe_group(group: ColumnGroup) -> str:
    return group.entry if isinstance(group.entry, str) else f"{group.columns[0]} to {group.columns[-1]}"
