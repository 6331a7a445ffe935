"""`draft_sidecar`: propose a sidecar for a log without one, with evidence for every line and `?` for unknown values.

A draft is not used until a person has read and confirmed it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, list_names, pluralise
from mindyn.foundation.escaping import format_toml_value
from mindyn.logs.drafts.draft import UNANSWERED, SidecarDraft
from mindyn.logs.drafts.draft_columns import (
    LogContents,
    add_unit_words,
    choose_groups,
    choose_targets,
    find_missing_joints,
    find_signal_files,
    group_given_columns,
    group_torques_and_forces,
    recognise_missing,
    round_rate,
    stack_values,
)
from mindyn.logs.drafts.draft_head import (
    DRAFT_ROWS,
    LONG_DRAFT_ROWS,
    MIN_SQUARED_CORRELATION,
    Clock,
    Guess,
    LogHead,
    detect_clock,
    fitting_velocity_units,
    guess_position_side,
    guess_position_unit,
    is_normalised,
    is_register,
    is_still,
    largest_magnitude,
    read_lerobot_names,
    read_log_head,
)
from mindyn.logs.drafts.draft_names import (
    JOINT_WORDS,
    MOTOR_WORDS,
    ColumnGroup,
    group_columns,
    guess_unit,
    split_words,
)
from mindyn.logs.log_errors import LogError
from mindyn.logs.metadata import UNKNOWN, LogMetadata, si_units
from mindyn.logs.number_checks import velocity_slope
from mindyn.logs.servo_presets import TICK, find_preset, guess_robot_servo
from mindyn.logs.units import CURRENT_UNITS, UNIT_FACTORS
from mindyn.robots.robot import Robot

MAX_DRIVE_CURRENT_A: Final = 200.0
"""Largest plausible drive current; larger numbers are mA."""
MIN_REVERSAL: Final = 0.3
"""Steps in the other direction that make a reversal, relative to the largest step."""
MIN_RATE_AGREEMENT: Final = 0.95
"""Smallest squared correlation of velocities and changes of positions that determine the rate of a log without time."""


def draft_sidecar(
    path: Path, robot: Robot | None, given: Mapping[str, Any] = MappingProxyType({}), assumed: str | None = None
) -> SidecarDraft:
    """Draft the sidecar of a log from column names and values.

    The robot gives the joints, their order and their limits.

    given    values from the user by key (columns.position, units.torque, topic), which are used and never replaced
    assumed  unit of the positions if neither names nor numbers determine it
    """
    joints = () if robot is None else robot.primary_names
    draft = SidecarDraft(path.name, ()).with_given(given)
    metadata = LogMetadata().merge_with(draft.to_metadata())
    for rows in (DRAFT_ROWS, LONG_DRAFT_ROWS):
        head = read_log_head(path, robot, rows, metadata)
        asked = group_given_columns(path, metadata, head, joints)
        taken = {name for group in asked.values() for name in group.columns}
        groups = [add_unit_words(group, head) for group in group_columns(head.columns, joints)]
        groups = [group for group in groups if not taken & set(group.columns)]
        if not head.is_named:  # several signals have no names: only a file with one signal is a group
            groups = [group for group in groups if group.count == len(joints)]
        chosen = {**choose_groups(groups, len(joints), ()), **asked}
        if "position" not in chosen:
            break
        if not (q := stack_values(chosen["position"], head)).size:
            raise LogError(f"{path.name} has no rows of position", code=Code.TOO_LITTLE_DATA, subject="position")
        if not is_still(q) and _find_silent_torque(chosen, asked, head) is None:
            break
    while (silent := _find_silent_torque(chosen, asked, head)) is not None:  # another group may have the torque
        left = {name: values for name, values in head.columns.items() if name not in silent.columns}
        head, groups = replace(head, columns=left), [group for group in groups if group is not silent]
        chosen = {**choose_groups(groups, len(joints), ()), **asked}
        draft = draft.with_notes(f"no torque in {list_names(silent.columns)}: every value is zero or missing")
    if (targets := choose_targets(groups, chosen, len(joints))) and _has_lost_sign(chosen, asked, head):
        unsigned = chosen.pop("torque")
        chosen |= targets
        note = f"{list_names(unsigned.columns)} is never negative while the joint reverses: the sign is lost"
        draft = draft.with_notes(f"{note}, and it does not give a torque; position targets are used instead")
    files: dict[str, str] = {}
    if not {"torque", "target"} & set(chosen) and (forces := group_torques_and_forces(head, robot)) is not None:
        chosen["torque"] = forces
    if "position" not in chosen or not {"torque", "target"} & set(chosen):
        chosen, files = find_signal_files(path, groups, chosen, len(joints))
    if not {"torque", "target"} & set(chosen):
        chosen |= choose_targets(groups, chosen, len(joints))
    log = LogContents(head, chosen, files, _detect_clock(head, metadata), robot)
    empty = (f"columns without any value: {list_names(head.empty)}",) if head.empty else ()
    draft = draft.with_notes(*head.notes, *empty)
    if missing := [signal for signal in ("position", "torque") if signal not in chosen and "target" not in chosen]:
        counts = {signal: group.count for signal, group in choose_groups(groups, 1, ()).items()}
        if error := find_missing_joints(path, head, missing, joints, counts):
            raise error
    log, draft = recognise_missing(draft, log, missing, groups)
    if not log.clock.columns:
        log = replace(log, clock=_estimate_clock(log, metadata))
    return _add_units(_add_columns(_add_time(draft, log.clock), path, log, joints), log, assumed)


def _find_silent_torque(
    chosen: Mapping[str, ColumnGroup], asked: Mapping[str, ColumnGroup], head: LogHead
) -> ColumnGroup | None:
    """Return the torque columns if all their values are zero or missing, unless the user gave them."""
    group = chosen.get("torque")
    if group is None or "torque" in asked or "position" not in chosen:
        return None
    return group if largest_magnitude(stack_values(group, head)) == 0 else None


def _has_lost_sign(chosen: Mapping[str, ColumnGroup], asked: Mapping[str, ColumnGroup], head: LogHead) -> bool:
    """Return whether a torque is never negative at several joints although all of them reverse: then its sign is
    lost.
    """
    if "torque" not in chosen or "torque" in asked or "position" not in chosen:
        return False
    q, signal = stack_values(chosen["position"], head), stack_values(chosen["torque"], head)
    if q.shape != signal.shape or q.shape[1] < 2 or len(q) < 2:
        return False
    steps = np.diff(q, axis=0)
    swing = MIN_REVERSAL * np.nanmax(np.abs(steps), axis=0)
    reverses = (np.nanmax(steps, axis=0) > swing) & (np.nanmin(steps, axis=0) < -swing)
    moves = np.nanmax(np.abs(steps), axis=0) > 0
    return bool(
        moves.sum() > 1 and reverses[moves].all() and np.nanmin(signal[:, moves]) >= 0 and np.nanmax(signal) > 0
    )


def _detect_clock(head: LogHead, metadata: LogMetadata) -> Clock:
    """Return the clock that the user gives, or that names and values of the columns determine."""
    if metadata.rate_hz is not None:
        return Clock()
    times, unit = metadata.columns.get("time"), metadata.units.get("time")
    given = times if isinstance(times, str) or times is None else next(iter(times))
    clock = detect_clock(head, given)
    if isinstance(unit, str) and len(clock.columns) == 1:
        stamps = head.columns[clock.columns[0]]
        return replace(clock, unit=unit, seconds=np.asarray((stamps - stamps[0]) * UNIT_FACTORS["time"][unit]))
    return clock


def _estimate_clock(log: LogContents, metadata: LogMetadata) -> Clock:
    """Return the clock of a log without time: the given rate, or the rate at which the velocity is the derivative of
    the position.
    """
    rate, evidence, columns = metadata.rate_hz, log.clock.evidence, log.head.columns
    rows = len(next(iter(columns.values()), ()))
    motion = [log.chosen[signal] for signal in ("position", "velocity") if signal in log.chosen]
    if rate is None and len(motion) == 2 and set(motion[1].columns) <= set(columns):
        count = min(group.count for group in motion)
        q, v = (stack_values(group, log.head)[:, :count] for group in motion)
        slope, agreement = velocity_slope(q, v, np.arange(float(rows)))
        units = [guess_unit(s, g.words, g.ending) for s, g in zip(("position", "velocity"), motion, strict=True)]
        if units[0] is not None and units[1] is not None:
            slope *= UNIT_FACTORS["velocity"][units[1]] / UNIT_FACTORS["position"][units[0]]
        evidence += f"; in the same unit, the velocity is {slope:.5g}/s times the change of the position per row, "
        evidence += f"correlation {sqrt(agreement):.3f}"
        alike = (units[0] is None) == (units[1] is None)
        rate = round_rate(slope) if alike and agreement > MIN_RATE_AGREEMENT else None
    return Clock((), "s" if rate else None, np.arange(rows) / rate if rate else None, evidence, rate)


def _add_time(draft: SidecarDraft, clock: Clock) -> SidecarDraft:
    if not clock.columns and clock.rate_hz is not None:
        return draft.with_line("rate_hz", clock.rate_hz, clock.evidence)
    if not clock.columns:
        return draft.with_line("rate_hz", UNANSWERED, f"{clock.evidence}: how many rows per second?")
    column = clock.columns[0] if len(clock.columns) == 1 else list(clock.columns)
    draft = draft.with_line("columns.time", column, clock.evidence)
    if len(clock.columns) == 1:
        options = f"one of {', '.join(UNIT_FACTORS['time'])}: " if clock.unit is None else ""
        draft = draft.with_line("units.time", clock.unit or UNANSWERED, options + clock.evidence)
    if clock.restarts:
        times = "once" if clock.restarts == 1 else f"{clock.restarts} times"
        back = f"the time goes back {times}: a new recording begins there, or the clock was set back"
        draft = draft.with_line("accept", ["restarts"], back)
    return draft


def _add_columns(draft: SidecarDraft, path: Path, log: LogContents, joints: Sequence[str]) -> SidecarDraft:
    counted = [group for group in log.chosen.values() if group.order in ("numbers", "array")]
    named = None
    if counted and joints:
        named = log.head.metadata.get("joints") or _read_joint_order(log.head, max(group.count for group in counted))
        if named is None and counted[0].order == "array":
            named = read_lerobot_names(path, counted[0].columns[0], joints)
    for signal, group in log.chosen.items():
        entry = group.entry if isinstance(group.entry, str) else list(group.entry)
        is_assumed = bool(joints) and named is None
        draft = draft.with_line(f"columns.{signal}", entry, _describe_order(group, is_assumed=is_assumed))
    for signal, file in log.files.items():
        draft = draft.with_line(f"files.{signal}", file, "from its name; it has a column for each joint")
    if not counted or not joints:
        return draft
    if named is not None:
        return draft.with_line("joints", named, "the order of the joint names in the file")
    further = [f"column {k + 1}" for k in range(len(joints), max(group.count for group in counted))]
    if any(group.order == "array" for group in counted) or further:
        order = "assumed to be the robot's" + (f"; the log has {len(further)} more" if further else "")
        draft = draft.with_line("joints", [*joints, *further], order)
    return draft


def _describe_order(group: ColumnGroup, *, is_assumed: bool) -> str:
    if group.order == "names":
        return group.reason or "by joint name"
    if group.order == "block":
        return f"{group.reason}; assumed to be in the robot's order"
    where = "the columns of the array" if group.order == "array" else "the numbers"
    order = f"; {where} are assumed to be in the robot's order" if is_assumed else ""
    return f"{pluralise(group.count, 'joint')}{order}{f'; {group.reason}' if group.reason else ''}"


def _read_joint_order(head: LogHead, count: int) -> list[str] | None:
    """Return the joints that a file lists in columns of words, such as field.name0, field.name1, ... of a ROS topic."""
    named = [name for name in head.words if "name" in split_words(name)]
    return [head.words[name] for name in named] if len(named) == count else None


def _reorder_columns(values: Array, draft: SidecarDraft, robot: Robot | None) -> Array:
    """Return the columns in the robot's order."""
    joints = draft.value("joints")
    if robot is None or joints is None or not set(robot.primary_names) <= set(joints):
        return values
    return np.asarray(values[:, [list(joints).index(name) for name in robot.primary_names]])


def _add_units(draft: SidecarDraft, log: LogContents, assumed: str | None) -> SidecarDraft:
    """Add the units, per joint if the robot has revolute and prismatic joints."""
    draft, robot = _guess_units(draft, log, assumed), log.robot
    if robot is None or len({kind == "prismatic" for kind in log.kinds}) < 2:
        return draft
    open_units = []
    for signal, table in si_units(robot).items():
        key = f"units.{signal}"
        for line in [line for line in draft.lines if line.key == key and isinstance(line.value, str)]:
            if line.value == next(iter(UNIT_FACTORS[signal])):
                draft = draft.with_line(key, table, line.evidence)
            elif line.value not in CURRENT_UNITS:
                open_units.append(f"{key} = {format_toml_value(table)}")
    example = f"the robot has revolute and prismatic joints: set units per joint, as in {' and '.join(open_units)}"
    return draft.with_notes(example) if open_units else draft


def _guess_units(draft: SidecarDraft, log: LogContents, assumed: str | None) -> SidecarDraft:
    chosen, robot = log.chosen, log.robot
    known = _standard_units(chosen)
    if "position" not in chosen:
        return draft
    position = chosen["position"]
    q = _reorder_columns(log.values("position"), draft, robot)
    named_unit = guess_unit("position", position.words, position.ending)
    guess = guess_position_unit(q, robot, log.kinds)
    if "observation.state" in log.head.columns:  # positions beyond the limits are then not those of motors
        assumed = assumed or "deg"
    unit = draft.value("units.position") or named_unit or known.get("position") or guess.value or assumed
    unit = unit if isinstance(unit, str) else None
    if unit == TICK or (unit in (None, assumed) and is_register(q) and _guess_servo(draft, log) is not None):
        return _add_register_units(draft, log)
    if is_normalised(q) and named_unit is None and not draft.is_given("units.position"):
        return _add_normalised_units(draft, log)
    why = "from the name" if named_unit else "defined by the format" if known.get("position") else ""
    options = f"one of {', '.join(UNIT_FACTORS['position'])}: " if unit is None else ""
    evidence = options + "; ".join(filter(None, [why, guess.evidence]))
    draft = _add_velocity(draft.with_line("units.position", unit or UNANSWERED, evidence), log, unit)
    if "acceleration" in chosen:
        per_second = f"{unit}/s^2" if unit in ("rad", "deg", "m", "mm") else UNANSWERED
        draft = draft.with_line("units.acceleration", per_second, "as for the position")
    if "target" in chosen and "torque" not in chosen:
        draft = _add_targets(draft, log, unit)
        return _add_side(draft, {s: g for s, g in chosen.items() if s in ("position", "velocity")}, q, unit, robot)
    if "torque" in chosen:
        draft = _add_torque(draft, log, known)
    excluded = () if draft.value("columns.velocity") is not None else ("velocity",)
    used = {signal: group for signal, group in chosen.items() if signal not in excluded}
    return _add_side(draft, used, q, unit, robot)


def _add_normalised_units(draft: SidecarDraft, log: LogContents) -> SidecarDraft:
    """Add the conversion from -100 ... 100 to the range of each joint, if the robot has limits."""
    why = "a position reaches 100 and none exceeds it: normalised to -100 ... 100"
    limits = [] if log.robot is None else [(j.limits.lower, j.limits.upper) for j in log.robot.primary_joints]
    ends = [(low, high) for low, high in limits if low is not None and high is not None and high > low]
    answers: tuple[Any, Any] = (UNANSWERED, UNANSWERED)
    if ends and len(ends) == len(limits):
        answers = [200 / (high - low) for low, high in ends], [(high + low) / 2 for low, high in ends]
        why += " of the limits of the robot file, which may differ from the calibrated range"
        why += " (range_max - range_min ticks in LeRobot's calibration file)"
    unit = "m" if log.kinds[:1] == ["prismatic"] else "rad"
    draft = draft.with_line("units.position", unit, why)
    draft = draft.with_line("side", "motor", "gears convert from -100 ... 100")
    draft = draft.with_line("gears", answers[0], f"200 / range of each joint in {unit}")
    draft = draft.with_line("position_offset", answers[1], f"middle of the range of each joint in {unit}")
    return _add_targets(draft, log, unit) if "target" in log.chosen else draft


def _add_register_units(draft: SidecarDraft, log: LogContents) -> SidecarDraft:
    """Add the units of a position register, whose middle is zero."""
    draft = draft.with_line("units.position", TICK, "whole numbers from 0 to 4095: the middle of the register is zero")
    draft = draft.with_line("side", "joint", "servos are at the joints").without_key("columns.velocity")
    return _add_targets(draft, log, TICK) if "target" in log.chosen else draft


def _standard_units(chosen: Mapping[str, ColumnGroup]) -> dict[str, str]:
    """Return the units of a standard format, recognised by its column names: UR's RTDE, Franka's states, ROS
    JointState.
    """
    if "position" not in chosen:
        return {}
    position, torque = chosen["position"], chosen.get("torque", ColumnGroup("", (), 0, ("",), "names"))
    si = {"position": "rad", "velocity": "rad/s", "acceleration": "rad/s^2"}
    if position.words == ("actual", "q"):
        return {**si, **({"torque": "A"} if torque.words == ("actual", "current") else {})}
    if torque.words[-2:] == ("tau", "j") and position.words[-1] == "q":
        return {**si, "torque": "N m"}
    if position.words[-1:] == ("position",) and torque.words[-1:] == ("effort",):
        return {**si, "torque": "N m"}
    return {}


def _add_velocity(draft: SidecarDraft, log: LogContents, position: str | None) -> SidecarDraft:
    group = log.chosen.get("velocity")
    if group is None or draft.is_given("units.velocity"):
        return draft
    named_unit = guess_unit("velocity", group.words, group.ending) or _standard_units(log.chosen).get("velocity")
    q, seconds = log.values("position"), log.clock.seconds
    if "velocity" in log.files or seconds is None or position is None or is_still(q):
        why = "from the name" if named_unit else "rad/s, deg/s, rpm, ...?"
        return draft.with_line("units.velocity", named_unit or UNANSWERED, why)
    v = log.values("velocity")
    count = min(q.shape[1], v.shape[1])
    turn = 2 * np.pi / UNIT_FACTORS["position"][position] if position in ("rad", "deg") else np.inf
    slope, agreement = velocity_slope(q[:, :count], v[:, :count], seconds, turn)
    fitting = fitting_velocity_units(position, slope, next(iter(log.kinds), "revolute"))
    if agreement < MIN_SQUARED_CORRELATION or not fitting:
        return draft.without_key("columns.velocity").with_notes(
            f"{group.entry} is called a velocity, but is {slope:.3g} times the derivative of the position "
            f"(agreement {100 * agreement:.0f} %): it is not used"
        )
    unit = named_unit if named_unit in fitting else fitting[0]
    ratio = slope * UNIT_FACTORS["velocity"][unit] / UNIT_FACTORS["position"][position]
    why = f"{ratio:.3f} times the derivative of the position, which explains {100 * agreement:.1f} % of it"
    why += f"; the unit in its name, {named_unit}, does not fit" if named_unit not in (None, unit) else ""
    return draft.with_line("units.velocity", unit, why)


def _add_torque(draft: SidecarDraft, log: LogContents, known: Mapping[str, Any]) -> SidecarDraft:
    group = log.chosen["torque"]
    named_unit = guess_unit("torque", group.words, group.ending)
    unit = draft.value("units.torque") or named_unit or known.get("torque")
    why = "from the name" if named_unit else "defined by the format" if unit else ""
    peak = None if "torque" in log.files else largest_magnitude(log.values("torque"))
    size = "" if peak is None else f"up to {peak:.4g}"
    if unit is None and group.is_current and peak is not None:
        unit, why = ("A" if peak < MAX_DRIVE_CURRENT_A else "mA"), "the name contains current"
    options = f"one of {', '.join(UNIT_FACTORS['torque'])}" if unit is None else ""
    draft = draft.with_line("units.torque", unit or UNANSWERED, "; ".join(filter(None, [options, why, size])))
    if unit in CURRENT_UNITS:
        asked = 'N m/A at each joint, or "unknown": mindyn identify estimates them up to a common scale'
        draft = draft.with_line("current_gains", UNANSWERED, asked)
    return draft


def _add_targets(draft: SidecarDraft, log: LogContents, position: str | None) -> SidecarDraft:
    """Add the units of targets, compared with the positions, and ask for the gains of the servos."""
    q, target = log.values("position"), log.values("target")
    q, target = (values - np.nanmean(values, axis=0) for values in (q[:, : target.shape[1]], target[:, : q.shape[1]]))
    slope = float(np.nansum(q * target) / max(float(np.nansum(q * q)), 1e-300))
    named = guess_unit("position", log.chosen["target"].words, log.chosen["target"].ending)
    other = {("rad", True): "deg", ("deg", False): "rad"}.get((position or "", slope > 1))
    is_other = other is not None and abs(np.log(abs(slope) or 1e-300)) > np.log(57.3) / 2
    unit = named or (other if is_other else position)
    why = f"from the name; {slope:.3g} times the position" if named else f"{slope:.3g} times the position"
    draft = draft.with_line("units.target", unit or UNANSWERED, why)
    if "target_velocity" in log.chosen:
        draft = draft.with_line("units.target_velocity", f"{unit}/s" if unit else UNANSWERED, "as for the target")
    if (servo := _guess_servo(draft, log)) is not None:
        preset = find_preset(servo)
        why = f"{preset.ticks_per_turn} ticks per turn, {preset.describe_current()}"
        draft = draft.with_line("servo", servo, f"from the type of the robot: {why}")
        return draft.with_line("kp", UNKNOWN, "mindyn identify estimates it; or give N m/rad at each joint")
    asked = "N m/rad at each joint: the torque is kp (target - q) + kd (target_velocity - qd)"
    draft = draft.with_line("kp", UNANSWERED, f'{asked}; or "unknown": mindyn identify estimates them')
    return draft.with_line("kd", UNANSWERED, 'N m s/rad at each joint, or "unknown"')


def _guess_servo(draft: SidecarDraft, log: LogContents) -> str | None:
    """Return the servo that the user gives, or the servo of the robot type that the file or the robot's name
    contains.
    """
    given = draft.value("servo") if draft.is_given("servo") else log.head.metadata.get("servo")
    guessed = given or (None if log.robot is None else guess_robot_servo(log.robot.name))
    return guessed if isinstance(guessed, str) else None


def _add_side(
    draft: SidecarDraft, chosen: Mapping[str, ColumnGroup], q: Array, unit: str | None, robot: Robot | None
) -> SidecarDraft:
    unknown = Guess(None, "motor or joint: the unit is unknown")
    guess = unknown if unit is None else guess_position_side(q, unit, robot)
    where, why, motion = guess.value or UNANSWERED, guess.evidence, set(chosen["position"].words)
    if where == UNANSWERED and motion & MOTOR_WORDS:
        where, why = "motor", f"from the name; {why}"
    elif where == UNANSWERED and motion & JOINT_WORDS and robot is None:
        where, why = "joint", "from the name"
    for signal in chosen:
        if signal != "torque":
            draft = draft.with_line(f"side.{signal}", where, why if signal == "position" else "as the position")
    words = set(chosen["torque"].words) if "torque" in chosen else set()
    if draft.value("units.torque") in CURRENT_UNITS:
        return draft.with_line("side.torque", "joint", "current_gains are then N m per A at the joint")
    if _standard_units(chosen).get("torque") or words & {"effort"}:
        draft = draft.with_line("side.torque", "joint", "defined by the format")
    elif "torque" in chosen and words & MOTOR_WORDS:
        draft = draft.with_line("side.torque", "motor", "from the name")
    elif "torque" in chosen:
        draft = draft.with_line("side.torque", UNANSWERED, "motor or joint: they differ by the gears")
    at_motor = any(line.key.startswith("side.") and line.value in ("motor", UNANSWERED) for line in draft.lines)
    # Robot files without gears have a ratio of 1 at every joint, which cannot convert from the motor side.
    if at_motor and (robot is None or all(drive.ratio == 1 and not drive.coupling for drive in robot.drives)):
        needed = "needed if a side is motor: q_motor = G q_joint; delete the line if all sides are joint"
        draft = draft.with_line("gears", UNANSWERED, needed)
    return draft
