"""`draft_sidecar`: the sidecar of a log that has none, with the evidence for every line and a `?` for what nobody told.

A draft states nothing: it is read by a person, and used when that person has confirmed it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import list_names
from mindyn.logs.draft import UNANSWERED, DraftLine, SidecarDraft
from mindyn.logs.draft_errors import missing_columns_error
from mindyn.logs.draft_head import DRAFT_ROWS, LONG_DRAFT_ROWS, LogHead, read_lerobot_names, read_log_head
from mindyn.logs.draft_names import (
    JOINT_WORDS,
    MEASURED_WORDS,
    MOTOR_WORDS,
    SIGNAL_WORDS,
    UNMEASURED_WORDS,
    ColumnGroup,
    group_columns,
    guess_signal,
    guess_unit,
    has_joint_name,
    is_measured,
    split_words,
)
from mindyn.logs.draft_numbers import (
    MIN_SQUARED_CORRELATION,
    Clock,
    detect_clock,
    fitting_velocity_units,
    guess_position_side,
    guess_position_unit,
    is_still,
    largest_magnitude,
    velocity_slope,
)
from mindyn.logs.units import UNIT_FACTORS
from mindyn.robots.robot import Robot

MAX_DRIVE_CURRENT_A: Final = 200.0
"""Currents of robots' drives stay below, in A; in mA they are above."""


def draft_sidecar(
    path: Path, robot: Robot | None, assumed: str | None = None, topic: str | None = None
) -> SidecarDraft:
    """The draft of a log by its names and numbers; the robot gives joints, their order and their limits.

    assumed  the unit of the positions where neither names nor numbers tell it
    topic    of a bag with several
    """
    joints = () if robot is None else robot.primary_names
    for rows in (DRAFT_ROWS, LONG_DRAFT_ROWS):
        head = read_log_head(path, robot, rows, topic)
        groups = [_add_unit_words(group, head) for group in group_columns(head.columns, joints)]
        chosen = _choose_groups(groups, len(joints), ())
        if "position" not in chosen or not is_still(_stack_values(chosen["position"], head)):
            break
    files: dict[str, str] = {}
    if "torque" not in chosen and (forces := _group_torques_and_forces(head, robot)) is not None:
        chosen["torque"] = forces
    if not {"position", "torque"} <= set(chosen):
        chosen, files = _find_signal_files(path, groups, chosen, len(joints))
    empty = (f"columns without any value: {list_names(head.empty)}",) if head.empty else ()
    draft = SidecarDraft(path.name, (), (*head.notes, *empty))
    if missing := [signal for signal in ("position", "torque") if signal not in chosen]:
        counts = {signal: group.count for signal, group in _choose_groups(groups, 1, ()).items()}
        raise missing_columns_error(path, head, missing, joints, counts)
    if topic is not None:
        draft = draft.stating(DraftLine("topic", topic, "as you stated"))
    clock = detect_clock(head.columns, head.units)
    draft = _add_time(draft, clock)
    draft = _add_columns(draft, path, chosen, files, joints, head)
    return _add_units(draft, chosen, files, head, clock, robot, assumed)


def _add_unit_words(group: ColumnGroup, head: LogHead) -> ColumnGroup:
    """The group with the words that a line of units has for it."""
    said = split_words(head.units.get(group.columns[0], ""))
    return replace(group, words=(*group.words, *said), ending=(*group.ending, *said)) if said else group


def _group_torques_and_forces(head: LogHead, robot: Robot | None) -> ColumnGroup | None:
    """Torques of joints that turn and forces of those that slide, by the joints' names; None where one has none."""
    columns = []
    for joint in () if robot is None else robot.primary_joints:
        words = ("force", "forces") if joint.kind == "prismatic" else SIGNAL_WORDS["torque"]
        own = [
            name for name in head.columns if has_joint_name(joint.name, name) and set(split_words(name)) & set(words)
        ]
        own = [name for name in own if head.columns[name].ndim == 1 and not set(split_words(name)) & UNMEASURED_WORDS]
        if len(own) != 1:
            return None
        columns += own
    return ColumnGroup(tuple(columns), tuple(columns), len(columns), ("torque",), "names") if columns else None


def _choose_groups(
    groups: Sequence[ColumnGroup], joint_count: int, file_words: Sequence[str]
) -> dict[str, ColumnGroup]:
    """For each signal the group that measures it most likely."""
    made: dict[str, ColumnGroup] = {}
    for signal in ("position", "velocity", "acceleration", "torque"):
        ranked = []
        for place, group in enumerate(groups):
            words = group.words if guess_signal(group.words) else (*group.words, *file_words)
            meant = guess_signal(words)
            if meant is None or meant[0] != signal or not is_measured(words) or group.count < max(joint_count, 1):
                continue
            shared = len(set(group.words) & set(made["position"].words)) if "position" in made else 0
            measured = bool(set(words) & MEASURED_WORDS)
            ranked.append(((not measured, group.count != joint_count, meant[1], -shared, place), group))
        if ranked:
            made[signal] = min(ranked, key=lambda one: one[0])[1]
    return made


def _find_signal_files(
    path: Path, groups: Sequence[ColumnGroup], chosen: dict[str, ColumnGroup], joint_count: int
) -> tuple[dict[str, ColumnGroup], dict[str, str]]:
    """Signals that stand in files of their own, whose names say which: pos.csv and current.csv."""
    chosen = {**_choose_groups(groups, joint_count, split_words(path.stem)), **chosen}
    files: dict[str, str] = {}
    for other in sorted(path.parent.glob(f"*{path.suffix}")):
        meant = guess_signal(split_words(other.stem))
        if other == path or meant is None or meant[0] in ("position", *chosen) or not other.is_file():
            continue
        if _recording_words(other.stem) != _recording_words(path.stem):
            continue
        beside = read_log_head(other, None)
        found = _choose_groups(group_columns(beside.columns, ()), joint_count, split_words(other.stem))
        if meant[0] in found:
            named = found[meant[0]]
            chosen[meant[0]] = replace(named, words=(*named.words, *split_words(other.stem)))
            files[meant[0]] = other.name
    return chosen, files


def _recording_words(stem: str) -> list[str]:
    """What a file's name says beside its signal: files of one recording share it, as run1_pos and run1_current."""
    said = [word for words in SIGNAL_WORDS.values() for word in words] + [*MEASURED_WORDS, *MOTOR_WORDS, *JOINT_WORDS]
    return [word for word in re.findall(r"[a-z]+|[0-9]+", stem.lower()) if word not in said]


def _add_time(draft: SidecarDraft, clock: Clock) -> SidecarDraft:
    if not clock.columns:
        return draft.stating(DraftLine("rate_hz", UNANSWERED, f"{clock.evidence}: how many rows a second?"))
    column = clock.columns[0] if len(clock.columns) == 1 else list(clock.columns)
    draft = draft.stating(DraftLine("columns.time", column, clock.evidence))
    if len(clock.columns) == 1:
        options = f"one of {', '.join(UNIT_FACTORS['time'])}: " if clock.unit is None else ""
        draft = draft.stating(DraftLine("units.time", clock.unit or UNANSWERED, options + clock.evidence))
    if clock.restarts:
        times = "once" if clock.restarts == 1 else f"{clock.restarts} times"
        back = f"the time goes back {times}: a new recording begins there, or the clock was set back"
        draft = draft.stating(DraftLine("accept", ["restarts"], back))
    return draft


def _add_columns(
    draft: SidecarDraft,
    path: Path,
    chosen: Mapping[str, ColumnGroup],
    files: Mapping[str, str],
    joints: Sequence[str],
    head: LogHead,
) -> SidecarDraft:
    for signal, group in chosen.items():
        stated = group.stated if isinstance(group.stated, str) else list(group.stated)
        draft = draft.stating(DraftLine(f"columns.{signal}", stated, _describe_order(group, joints)))
    for signal, file in files.items():
        draft = draft.stating(
            DraftLine(f"files.{signal}", file, "its name says so, and it has a column for each joint")
        )
    counted = [group for group in chosen.values() if group.order != "names"]
    if not counted or not joints:
        return draft
    named = head.stated.get("joints") or _read_joint_order(head, max(group.count for group in counted))
    if named is None and counted[0].order == "array":
        named = read_lerobot_names(path, counted[0].columns[0], joints)
    if named is not None:
        return draft.stating(DraftLine("joints", named, "the order in which the file itself names the joints"))
    further = [f"column {k + 1}" for k in range(len(joints), max(group.count for group in counted))]
    if any(group.order == "array" for group in counted) or further:
        order = "taken to be the robot's" + (f"; the log has {len(further)} more" if further else "")
        draft = draft.stating(DraftLine("joints", [*joints, *further], order))
    return draft


def _describe_order(group: ColumnGroup, joints: Sequence[str]) -> str:
    if group.order == "names":
        return "by the joints' names"
    where = "the columns of the array" if group.order == "array" else "the numbers"
    return f"{group.count} joints; {where} are taken to follow the robot's order" if joints else f"{group.count} joints"


def _read_joint_order(head: LogHead, count: int) -> list[str] | None:
    """Joints that a file lists in columns of words, as field.name0, field.name1, ... of a ROS topic."""
    named = [name for name in head.words if "name" in split_words(name)]
    return [head.words[name] for name in named] if len(named) == count else None


def _stack_values(group: ColumnGroup, head: LogHead) -> Array:
    if group.order == "array":
        return np.asarray(head.columns[group.columns[0]], dtype=np.float64)
    return np.column_stack([np.asarray(head.columns[name], dtype=np.float64) for name in group.columns])


def _reorder_columns(values: Array, draft: SidecarDraft, robot: Robot | None) -> Array:
    """The columns in the robot's order, where the draft states another."""
    joints = draft.value("joints")
    if robot is None or joints is None or not set(robot.primary_names) <= set(joints):
        return values
    return np.asarray(values[:, [list(joints).index(name) for name in robot.primary_names]])


def _add_units(
    draft: SidecarDraft,
    chosen: Mapping[str, ColumnGroup],
    files: Mapping[str, str],
    head: LogHead,
    clock: Clock,
    robot: Robot | None,
    assumed: str | None,
) -> SidecarDraft:
    kinds = [] if robot is None else [joint.kind for joint in robot.primary_joints]
    if robot is not None and len({kind == "prismatic" for kind in kinds}) > 1:
        draft = draft.noting(
            f"the robot has joints that turn and joints that slide: state {_describe_units_per_joint(robot)}"
        )
    known = _standard_units(chosen)
    position = chosen["position"]
    q = _reorder_columns(_stack_values(position, head), draft, robot)
    said, seen = guess_unit("position", position.words, position.ending), guess_position_unit(q, robot, kinds)
    unit = said or known.get("position") or seen.value or assumed
    why = "the name says so" if said else "by definition of the format" if known.get("position") else ""
    options = f"one of {', '.join(UNIT_FACTORS['position'])}: " if unit is None else ""
    draft = draft.stating(
        DraftLine("units.position", unit or UNANSWERED, options + "; ".join(filter(None, [why, seen.evidence])))
    )
    draft = _add_velocity(draft, chosen, files, head, clock, unit, kinds)
    if "acceleration" in chosen:
        per_second = f"{unit}/s^2" if unit in ("rad", "deg", "m", "mm") else UNANSWERED
        draft = draft.stating(DraftLine("units.acceleration", per_second, "as the position's"))
    draft = _add_torque(draft, chosen["torque"], known, head if "torque" not in files else None)
    if "torque" not in files and (constant := _find_constant_columns(chosen["torque"], head, draft, robot)):
        draft = draft.noting(f"the torque never changes in {list_names(constant)}: is a sensor dead?")
    left_out = () if draft.value("columns.velocity") is not None else ("velocity",)
    used = {signal: group for signal, group in chosen.items() if signal not in left_out}
    return _add_side(draft, used, q, unit, robot)


def _describe_units_per_joint(robot: Robot) -> str:
    """How units of both kinds of joint are stated: rad or deg and N m where it turns, m or mm and N where it slides."""
    stated = []
    for signal, turning, sliding in (("position", "rad", "m"), ("torque", "N m", "N")):
        each = (f'{one.name} = "{sliding if one.kind == "prismatic" else turning}"' for one in robot.primary_joints)
        stated.append(f"units.{signal} = {{{', '.join(each)}}}")
    return f"units joint by joint, as in {' and '.join(stated)}"


def _standard_units(chosen: Mapping[str, ColumnGroup]) -> dict[str, str]:
    """Units that are part of a format's definition, told by its names: UR's RTDE, Franka's states, ROS JointState."""
    position, torque = chosen["position"], chosen["torque"]
    si = {"position": "rad", "velocity": "rad/s", "acceleration": "rad/s^2"}
    if position.words == ("actual", "q"):
        return {**si, **({"torque": "A"} if torque.words == ("actual", "current") else {})}
    if torque.words[-2:] == ("tau", "j") and position.words[-1] == "q":
        return {**si, "torque": "N m"}
    if position.words[-1:] == ("position",) and torque.words[-1:] == ("effort",):
        return {**si, "torque": "N m"}
    return {}


def _add_velocity(
    draft: SidecarDraft,
    chosen: Mapping[str, ColumnGroup],
    files: Mapping[str, str],
    head: LogHead,
    clock: Clock,
    position: str | None,
    kinds: Sequence[str],
) -> SidecarDraft:
    group = chosen.get("velocity")
    if group is None:
        return draft
    said = guess_unit("velocity", group.words, group.ending) or _standard_units(chosen).get("velocity")
    still = is_still(_stack_values(chosen["position"], head))
    if "velocity" in files or clock.seconds is None or position is None or still:
        unit = said or UNANSWERED
        return draft.stating(
            DraftLine("units.velocity", unit, "the name says so" if said else "rad/s, deg/s, rpm, ...?")
        )
    q, v = _stack_values(chosen["position"], head), _stack_values(group, head)
    count = min(q.shape[1], v.shape[1])
    turn = 2 * np.pi / UNIT_FACTORS["position"][position] if position in ("rad", "deg") else np.inf
    slope, agreement = velocity_slope(q[:, :count], v[:, :count], clock.seconds, turn)
    fitting = fitting_velocity_units(position, slope, kinds[0] if kinds else "revolute")
    if agreement < MIN_SQUARED_CORRELATION or not fitting:
        kept = tuple(one for one in draft.beliefs if one.key != "columns.velocity")
        return replace(draft, beliefs=kept).noting(
            f"{group.stated} is called a velocity, but is {slope:.3g} times the derivative of the position "
            f"(agreement {100 * agreement:.0f} %): it is left out"
        )
    unit = said if said in fitting else fitting[0]
    ratio = slope * UNIT_FACTORS["velocity"][unit] / UNIT_FACTORS["position"][position]
    seen = f"{ratio:.3f} times the derivative of the position, which explains {100 * agreement:.1f} % of it"
    against = f"; its name says {said}, which does not fit" if said is not None and said != unit else ""
    return draft.stating(DraftLine("units.velocity", unit, seen + against))


def _add_torque(
    draft: SidecarDraft, group: ColumnGroup, known: Mapping[str, Any], head: LogHead | None
) -> SidecarDraft:
    said = guess_unit("torque", group.words, group.ending)
    unit = said or known.get("torque")
    why = "the name says so" if said else "by definition of the format" if unit else ""
    peak = None if head is None else largest_magnitude(_stack_values(group, head))
    size = "" if peak is None else f"up to {peak:.4g}"
    if unit is None and group.is_current and peak is not None:
        unit, why = ("A" if peak < MAX_DRIVE_CURRENT_A else "mA"), "the name says current"
    options = f"one of {', '.join(UNIT_FACTORS['torque'])}" if unit is None else ""
    draft = draft.stating(DraftLine("units.torque", unit or UNANSWERED, "; ".join(filter(None, [options, why, size]))))
    if unit in ("A", "mA"):
        asked = "N m for each ampere at the joint, joint by joint; mindyn.drive_gains finds them with a known load"
        draft = draft.stating(DraftLine("current_gains", UNANSWERED, asked))
    return draft


def _find_constant_columns(group: ColumnGroup, head: LogHead, draft: SidecarDraft, robot: Robot | None) -> list[str]:
    """Columns of the robot's joints in the group that hold one value in every row."""
    values = _stack_values(group, head)
    names = group.columns if group.order != "array" else [f"{group.columns[0]}[{k}]" for k in range(group.count)]
    joints = draft.value("joints")
    used = [joints is None or robot is None or joints[k] in robot.primary_names for k in range(len(names))]
    ends = np.fmin.reduce(values), np.fmax.reduce(values)
    return [
        f"{name} ({low:.4g})" for name, low, high, one in zip(names, *ends, used, strict=True) if one and low == high
    ]


def _add_side(
    draft: SidecarDraft, chosen: Mapping[str, ColumnGroup], q: Array, unit: str | None, robot: Robot | None
) -> SidecarDraft:
    position = guess_position_side(q, unit, robot) if unit is not None else None
    motion = set(chosen["position"].words)
    where = UNANSWERED if position is None or position.value is None else position.value
    why = "motor or joint: the unit is not known" if position is None else position.evidence
    if where == UNANSWERED and motion & MOTOR_WORDS:
        where, why = "motor", f"the name says so; {why}"
    elif where == UNANSWERED and motion & JOINT_WORDS and robot is None:
        where, why = "joint", "the name says so"
    for signal in chosen:
        if signal != "torque":
            draft = draft.stating(
                DraftLine(f"side.{signal}", where, why if signal == "position" else "as the position")
            )
    words = set(chosen["torque"].words)
    if draft.value("units.torque") in ("A", "mA"):
        return draft.stating(DraftLine("side.torque", "joint", "current_gains are then N m per A at the joint"))
    if _standard_units(chosen).get("torque") or words & {"effort"}:
        draft = draft.stating(DraftLine("side.torque", "joint", "by definition of the format"))
    elif words & MOTOR_WORDS:
        draft = draft.stating(DraftLine("side.torque", "motor", "the name says so"))
    else:
        draft = draft.stating(DraftLine("side.torque", UNANSWERED, "motor or joint: they differ by the gears"))
    motors = [one.key for one in draft.beliefs if one.key.startswith("side.") and one.value in ("motor", UNANSWERED)]
    # A ratio of 1 at every joint is what files say that know no gears: behind them motors would turn as joints do.
    if motors and (robot is None or all(one.ratio == 1 and not one.coupling for one in robot.drives)):
        needed = "of the motors, where a side is motor: q_motor = G q_joint; delete the line where all are joint"
        draft = draft.stating(DraftLine("gears", UNANSWERED, needed))
    return draft
