"""Choose the columns of each signal of a log: as the user gives them, by name, by file, or by their values.

A velocity is the derivative of a position times a factor, the sample rate, which is equal for all joints. A torque may
also follow a velocity or an acceleration, but then the factor (friction or inertia) differs from joint to joint.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, permutations
from pathlib import Path
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, list_names, pluralise, suggest_name
from mindyn.foundation.escaping import format_toml_value
from mindyn.logs.column_selection import expand_pattern
from mindyn.logs.drafts.draft import UNANSWERED, SidecarDraft
from mindyn.logs.drafts.draft_head import Clock, LogHead, read_log_head
from mindyn.logs.drafts.draft_names import (
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
from mindyn.logs.log_errors import NO_TORQUE_HINT, LogError
from mindyn.logs.metadata import SIGNALS, LogMetadata
from mindyn.logs.number_checks import reachable_positions
from mindyn.robots.robot import Robot

MIN_DERIVATIVE_FIT: Final = 0.8
"""Smallest squared correlation of a velocity with the change of its position, at each joint."""
MAX_FACTOR_RATIO: Final = 1.5
"""Largest ratio between joints of the factor of a velocity and the change of its position."""
WINDOW_ROWS: Final = (1, 8, 64)
"""Rows over which changes are compared; long windows average quantisation and noise."""
MAX_STEP_RATIO: Final = 5.0
"""Changes of more than this many times the 99th percentile are wraps and restarts, and are ignored."""
RATE_TOLERANCE: Final = 0.003

Candidates = Mapping[str, Sequence[ColumnGroup]]


def recognise_signals(
    head: LogHead,
    groups: Sequence[ColumnGroup],
    robot: Robot | None,
    excluded: Collection[str],
    used: Collection[str],
    *,
    is_motion_known: bool,
) -> Candidates:
    """Return for each signal the groups whose values fit it. Groups without motion are torques.

    groups    named groups to recognise; if there are none, blocks of adjacent columns are searched
    excluded  columns of time
    used      columns of known signals
    is_motion_known  whether one of the used columns is the position or a derivative of it; then all remaining groups
    are torques
    """
    values = {
        name: np.asarray(column, dtype=np.float64).reshape(len(column), -1)
        for name, column in head.columns.items()
        if name not in excluded and len(column) > 2 and np.isfinite(column).all()
    }
    if groups:
        groups = [group for group in groups if set(group.columns) <= set(values)]
        candidates = _sort_by_derivatives(groups, values, robot)
        is_known = any(candidates[signal] for signal in _MOTION) or is_motion_known
        return candidates if is_known else _sort_by_limits(candidates["torque"], values, robot)
    singles = [name for name, column in values.items() if column.shape[1] == 1]
    for count in range(len(singles) // 2, 1, -1) if robot is None else [robot.joint_count]:
        windows = [_adjacent(singles[k : k + count]) for k in range(len(singles) - count + 1)]
        candidates = _sort_by_derivatives(windows, values, robot)
        motions = {name for signal in _MOTION for group in candidates[signal] for name in group.columns}
        rest = _split_into_blocks(singles, {*motions, *used}, count)
        if motions or is_motion_known:
            return {**candidates, "torque": rest}
        if robot is not None:
            return _sort_by_limits(rest, values, robot)
    return {}


_MOTION: Final = ("position", "velocity", "acceleration")


def _adjacent(names: Sequence[str]) -> ColumnGroup:
    return ColumnGroup(tuple(names), tuple(names), len(names), (), "block")


def _sort_by_derivatives(
    groups: Sequence[ColumnGroup], values: Mapping[str, Array], robot: Robot | None
) -> dict[str, list[ColumnGroup]]:
    """Sort groups into positions (groups that have a derivative but are not a derivative), derivatives of positions,
    and the rest.
    """
    names = list(dict.fromkeys(name for group in groups for name in group.columns))
    ends = np.cumsum([0, *(values[name].shape[1] for name in names)])
    places = {name: range(start, end) for name, start, end in zip(names, ends[:-1], ends[1:], strict=True)}
    count = None if robot is None else robot.joint_count
    indices = [[k for name in group.columns for k in places[name]][:count] for group in groups]
    if not groups:
        return {signal: [] for signal in (*_MOTION, "torque")}
    fits, factors = _compare_derivatives(np.column_stack([values[name] for name in names]))
    pairs = set()
    for (a, first), (b, second) in permutations(enumerate(indices), 2):
        if len(first) == len(second) and not set(first) & set(second):
            fit, factor = fits[first, second], factors[first, second]
            if fit.min() > MIN_DERIVATIVE_FIT and 0 < factor.max() < MAX_FACTOR_RATIO * factor.min():
                pairs.add((a, b))
    # If blocks overlap, a block that begins within a position contains a derivative.
    derived = {k for _, b in pairs for k in indices[b]}
    positions = {a for a, _ in pairs if not derived & set(indices[a])}
    velocities = {b for a, b in pairs if a in positions}
    accelerations = {b for a, b in pairs if a in velocities}
    rest = set(range(len(groups))) - positions - velocities - accelerations
    chosen = {"position": positions, "velocity": velocities, "acceleration": accelerations, "torque": rest}
    return {
        signal: [replace(groups[k], reason=_REASONS[signal]) for k in sorted(those)] for signal, those in chosen.items()
    }


_REASONS: Final = {
    "position": "by its numbers: other columns are its derivative",
    "velocity": "by its numbers: the derivative of the position",
    "acceleration": "by its numbers: the derivative of the velocity",
    "torque": "by its numbers: neither a position nor its derivative",
}


def _compare_derivatives(X: Array) -> tuple[Array, Array]:
    """Return the squared correlation and the factor between each column b and the change per row of each column a: [a,
    b].
    """
    fits, factors = np.zeros((2, X.shape[1], X.shape[1]))
    total = np.vstack([np.zeros(X.shape[1]), np.cumsum(X, axis=0)])
    for rows in WINDOW_ROWS:
        if len(X) < 4 * rows:
            break
        change = X[rows:] - X[:-rows]
        change = np.where(np.abs(change) > MAX_STEP_RATIO * np.quantile(np.abs(change), 0.99, axis=0), 0.0, change)
        passed = 0.5 * (total[rows:-1] - total[: -rows - 1] + total[rows + 1 :] - total[1:-rows])  # trapezoidal rule
        power, other = (change**2).sum(axis=0)[:, None], (passed**2).sum(axis=0)[None, :]
        together = change.T @ passed
        with np.errstate(divide="ignore", invalid="ignore"):
            fit, factor = np.nan_to_num(together**2 / (power * other)), np.nan_to_num(together / power)
        factors, fits = np.where(fit > fits, factor, factors), np.maximum(fit, fits)
    return fits, factors


def _split_into_blocks(names: Sequence[str], used: Collection[str], count: int) -> list[ColumnGroup]:
    """Split sequences of unused adjacent columns into blocks with one column for each joint.

    A sequence of another length gives no blocks.
    """
    runs = [list(run) for is_used, run in groupby(names, key=lambda name: name in used) if not is_used]
    whole = [run for run in runs if len(run) % count == 0]
    blocks = [_adjacent(run[k : k + count]) for run in whole for k in range(0, len(run), count)]
    return [replace(block, reason=_REASONS["torque"]) for block in blocks]


def _sort_by_limits(
    blocks: Sequence[ColumnGroup], values: Mapping[str, Array], robot: Robot | None
) -> dict[str, Sequence[ColumnGroup]]:
    """Use the only block within the robot's limits in rad or m as position; if there are several, each block may be any
    signal.
    """
    left: Sequence[ColumnGroup] = [replace(block, reason="the only columns that are left") for block in blocks]
    unknown = dict.fromkeys(_MOTION, left[:0]) | {"position": left, "torque": left}
    if robot is None:
        return unknown
    reach = reachable_positions(robot)
    peaks = [np.abs(np.column_stack([values[name] for name in block.columns])).max(axis=0) for block in blocks]
    within = [block for block, peak in zip(blocks, peaks, strict=True) if (peak[: len(reach)] <= reach).all()]
    if len(within) != 1:
        return unknown
    position = replace(within[0], reason="by its numbers: the only block within the limits in rad or m")
    return {**unknown, "position": [position], "torque": [block for block in blocks if block is not within[0]]}


def round_rate(rate_hz: float) -> float | None:
    """Return the usual rate (a whole number of ms, or a known rate) within 0.3 % of this rate; None if there is
    none.
    """
    usual = [*(1000 / k for k in range(1, 101)), 30.0, 60.0, 120.0, 240.0, 2000.0, 4000.0, 5000.0, 8000.0]
    nearest = min(usual, key=lambda rate: abs(rate - rate_hz))
    return nearest if abs(rate_hz / nearest - 1) < RATE_TOLERANCE else None


@dataclass(frozen=True, slots=True, eq=False)
class LogContents:
    """First rows of a log, the columns of each signal, the signals in other files, the clock, and the robot."""

    head: LogHead
    chosen: Mapping[str, ColumnGroup]
    files: Mapping[str, str]
    clock: Clock
    robot: Robot | None

    @property
    def kinds(self) -> list[str]:
        """Return the kinds of the robot's joints."""
        return [] if self.robot is None else [joint.kind for joint in self.robot.primary_joints]

    def values(self, signal: str) -> Array:
        """Return the values (rows, k) of a signal."""
        return stack_values(self.chosen[signal], self.head)


def stack_values(group: ColumnGroup, head: LogHead) -> Array:
    """Return the values (rows, k) of a group of columns."""
    if group.order == "array":
        return np.asarray(head.columns[group.columns[0]], dtype=np.float64)
    return np.column_stack([np.asarray(head.columns[name], dtype=np.float64) for name in group.columns])


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
            message = (
                f"columns.{signal} has {pluralise(count, 'column')}, but the robot has the joints {list_names(joints)}"
            )
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
    """Group torques of revolute joints and forces of prismatic joints by joint name; None if a joint has neither."""
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
    """Choose the most likely group of each signal.

    If there are several groups of torques, the user is asked, unless exactly one is called measured: the other groups
    may come from a model.
    """
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
        if signal == "torque" and _is_ambiguous([entry[:-1] for entry, _ in ranked]):
            continue
        if ranked:
            chosen[signal] = min(ranked, key=lambda entry: entry[0])[1]
    return chosen


def _is_ambiguous(ranks: Sequence[tuple[bool, bool, int, int]]) -> bool:
    """Return whether names do not decide between groups: neither "measured" nor the number of joints does."""
    best = min(ranks, default=None)
    return best is not None and sum(rank[:2] == best[:2] for rank in ranks) > 1


def choose_targets(
    groups: Sequence[ColumnGroup], chosen: Mapping[str, ColumnGroup], joint_count: int
) -> dict[str, ColumnGroup]:
    """Choose the targets of position servos, if the log has positions; torques are then computed from the targets."""
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
    draft: SidecarDraft, log: LogContents, missing: Sequence[str], groups: Sequence[ColumnGroup]
) -> tuple[LogContents, SidecarDraft]:
    """Choose missing signals by their values.

    If a signal has several candidates, ask the user; note candidates that are not used.
    """
    head, robot = log.head, log.robot
    count = 1 if robot is None else robot.joint_count
    wide = [group for group in groups if group.count >= count]
    named = [group for group in wide if group.signal]
    unknown = [group for group in wide if not group.signal and is_measured(group.words)]
    known = [group for signal, group in log.chosen.items() if signal != "torque"]
    candidates: Candidates = {}
    if missing and (unknown or not head.is_named):
        used = {name for group in log.chosen.values() for name in group.columns}
        searched = [*known, *unknown] if head.is_named else ()
        candidates = recognise_signals(head, searched, robot, log.clock.columns, used, is_motion_known=bool(known))
    found = dict(log.chosen)
    for signal in ("position", "velocity", "torque"):
        taken = {name for group in found.values() for name in group.columns}
        free = [group for group in candidates.get(signal, ()) if not taken & set(group.columns)]
        if signal not in found and len(free) == 1:
            found[signal] = free[0]
        elif signal not in found and signal in missing:
            free += [group for group in named if group.signal == signal]  # commanded, or of a model
            free += [group for group in wide if not group.signal and group not in [*unknown, *free]]
            draft = draft.with_line(f"columns.{signal}", UNANSWERED, _describe_candidates(signal, free, head))
    taken = {name for group in found.values() for name in group.columns}
    asked = draft.questions
    others = [(group, group.signal) for group in named]
    others += [(group, signal) for signal, listed in candidates.items() for group in listed]
    unused = {_describe_group(g): s for g, s in others if not taken & set(g.columns) and f"columns.{s}" not in asked}
    if unused:
        listing = list_names(f"{name} ({signal})" for name, signal in unused.items())
        draft = draft.with_notes(f"columns that are not used: {listing}")
    return replace(log, chosen={signal: found[signal] for signal in SIGNALS if signal in found}), draft


def _describe_candidates(signal: str, groups: Sequence[ColumnGroup], head: LogHead) -> str:
    listed = [format_toml_value(group.entry if isinstance(group.entry, str) else list(group.entry)) for group in groups]
    if listed:
        return f"one of {', or '.join(listed)}?"
    columns = f"a list with a column for each joint; the columns are: {list_names(head.columns)}"
    return f"no torque found; {NO_TORQUE_HINT}. Otherwise {columns}" if signal == "torque" else columns


def _describe_group(group: ColumnGroup) -> str:
    return group.entry if isinstance(group.entry, str) else f"{group.columns[0]} to {group.columns[-1]}"


def find_missing_joints(
    path: Path, head: LogHead, missing: Sequence[str], joints: Sequence[str], counts: Mapping[str, int]
) -> LogError | None:
    """Return the error for a log that has no numbers, or columns for only some of the joints; None for other logs.

    counts  number of candidate columns of each signal, which differs from the number of joints
    """
    hint = _hint_for_missing_joints(head, joints, counts) if head.columns and head.is_named else ""
    if head.columns and not hint:
        return None
    has = f"its columns are: {list_names(head.columns)}" if head.columns else "it has no column of numbers"
    has += f"; columns without values: {list_names(head.empty)}" if head.empty else ""
    of = f" for each of the joints {list_names(joints)}" if joints else ""
    message = f"no columns of {path.name} look like {' and '.join(missing)}{of}; {has}"
    hint = hint or "is it a log? It has a row of numbers for each sample"
    return LogError(message, hint=hint, code=Code.MISSING_VALUE, subject=f"columns.{missing[0]}")


def _hint_for_missing_joints(head: LogHead, joints: Sequence[str], counts: Mapping[str, int]) -> str:
    """Return a hint for joints that the log does not contain, such as a gripper; empty if that is not the cause."""
    torques = [name for name in head.columns if (meant := guess_signal(split_words(name))) and meant[0] == "torque"]
    zeros = "; for joints that moved, add a column of zeros, which means no torque, so that the others can be fitted"
    for names, what, more in ((head.columns, "column for", ""), (torques, "torque of", zeros)):
        missing = [joint for joint in joints if not any(has_joint_name(joint, name) for name in names)]
        if 0 < len(missing) < len(joints):
            held = " ".join(f"--lock {joint}=0" for joint in missing)
            return f"the log has no {what} {list_names(missing)}: lock joints that did not move, {held}{more}"
    count = counts.get("position", 0)
    if not 1 < count < len(joints) or counts.get("torque") != count:
        return ""
    has = f"the log has {pluralise(count, 'joint')}, but the robot has {len(joints)}"
    positions = [name for name in head.columns if (meant := guess_signal(split_words(name))) and meant[0] == "position"]
    if len(positions) > count:  # others are not numbered: locking the last joints would change what columns mean
        has = f"{count} joints of the log are numbered, others have names of their own"
        return f"{has}: list the columns of each signal in the robot's order, --state columns.position=[...]"
    held = " ".join(f"--lock {joint}=0" for joint in joints[count:])
    return f"{has}: lock joints that are not in the log, such as {held}"
