"""`draft_log`: draft the sidecar file of a log, and compare its torque with the robot file's inertial parameters."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from math import sqrt
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindyn.foundation.errors import MindynError
from mindyn.identification.diagnostics.thresholds import FILE_EXPLAINS, MAX_SCALE
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.drafts.draft import UNANSWERED, SidecarDraft, flatten_metadata
from mindyn.logs.drafts.draft_head import DRAFT_ROWS, LONG_DRAFT_ROWS, is_still
from mindyn.logs.drafts.drafting import draft_sidecar
from mindyn.logs.log_errors import ACCEPTABLE_FINDINGS, NO_TORQUE_HINT
from mindyn.logs.metadata import UNKNOWN, si_torque_unit
from mindyn.logs.pipeline import condition
from mindyn.logs.read_log import LogScan
from mindyn.logs.samples import Samples
from mindyn.logs.units import CURRENT_UNITS
from mindyn.robots.robot import Robot


def draft_log(path: str | Path, robot: Robot | None = None, metadata: Mapping[str, Any] | None = None) -> SidecarDraft:
    """Draft a sidecar file that explains the columns of a log, with the evidence for each line.

    Columns are recognised by their names or, if names do not help, by their values. The draft has "?" where only the
    user can know the answer. Answers that you pass as `metadata` are used unchanged. `SidecarDraft.toml` is the text of
    the sidecar; `read_log` rejects it until you confirm it.

    Parameters
    ----------
    path : str or Path
        The log file.
    robot : Robot, optional
        Robot with the joints, their order, limits and inertial parameters. Without a robot, more lines have "?".
    metadata : mapping, optional
        Known entries of the sidecar, such as {"topic": "/arm/joint_states"} or {"columns": {"position": [...]}}.

    Returns
    -------
    SidecarDraft
        Lines with evidence, open questions and notes.
    """
    file = Path(path)
    given = flatten_metadata(metadata or {})
    draft = draft_sidecar(file, robot, given)
    if robot is None or any(key.startswith("columns.") for key in draft.questions):
        return draft
    if draft.value("units.position") == UNANSWERED:
        degrees = _compare_with_robot(file, draft_sidecar(file, robot, given, "deg"), robot)
        if degrees.value("side.torque") == "joint" and not degrees.questions:
            return degrees
    return _compare_with_robot(file, draft, robot)


UNKNOWN_ZERO: Final = (
    "this log does not determine whether the joints' zeros and directions agree with the robot file: if they differ, "
    "give position_offset, in the unit of the position, or negative gears"
)


def _compare_with_robot(path: Path, draft: SidecarDraft, robot: Robot) -> SidecarDraft:
    """Add the result of comparing the torque with the file's inertial parameters to the draft."""
    if draft.value("units.torque") in CURRENT_UNITS or draft.value("kp") == UNKNOWN:
        return draft.with_notes(UNKNOWN_ZERO)
    try:
        samples = _condition_first_rows(path, robot, draft)
    except MindynError as error:
        message = f"the torque was not compared with the file's inertial parameters: {error.message}"
        return draft.with_notes(message, UNKNOWN_ZERO)
    if samples is None:
        return draft.with_notes(UNKNOWN_ZERO)
    if not samples.tau.any():
        return draft.with_notes(f"no torque: it is zero in every row; {NO_TORQUE_HINT}", UNKNOWN_ZERO)
    return _compare_with_inertials(draft, robot, samples)


def _condition_first_rows(path: Path, robot: Robot, draft: SidecarDraft) -> Samples | None:
    """Return samples from the beginning of the log. A torque of unknown unit and side is taken as SI at the joint."""
    assumed = {"units.torque": si_torque_unit(robot), "side.torque": "joint"}
    left = [key for key in draft.questions if key not in (*assumed, "gears")]
    if left or draft.value("side.torque") == "motor" or draft.value("side.position") != "joint":
        return None
    open_entries = {key: value for key, value in assumed.items() if draft.value(key) in (None, UNANSWERED)}
    metadata = {**draft.with_given(open_entries).to_metadata(), "accept": ACCEPTABLE_FINDINGS}
    blocks = islice(LogScan(path, robot, metadata, DRAFT_ROWS, sidecar={}), LONG_DRAFT_ROWS // DRAFT_ROWS)
    log = next((block for block in blocks if not is_still(block.q)), None)
    return None if log is None else condition(robot, log, Conditioning()).samples


def _compare_with_inertials(draft: SidecarDraft, robot: Robot, samples: Samples) -> SidecarDraft:
    from mindyn.identification.diagnostics.file_comparison import compare_with_file
    from mindyn.identification.diagnostics.robot_file import find_correction, is_about_1000

    compared = compare_with_file(robot, samples)
    if compared is None:
        return draft.with_notes("the robot file has no inertial parameters to compare the torque with", UNKNOWN_ZERO)
    T = compared.file_torque()
    misfit, slopes, correction = float(compared.misfit(T)[0]), compared.slopes(T), find_correction(compared)
    wrong = () if correction is None else (str(correction),)
    factor = float(np.exp(np.log(np.maximum(slopes, 1e-12)).mean())) if len(slopes) else 0.0
    left = f"leave {100 * sqrt(misfit):.0f} % of it unexplained"
    explained = f"{factor:.3g} times the torque of the robot file's inertial parameters, which {left}"
    shape = sqrt(misfit) < FILE_EXPLAINS
    if shape and slopes.max() >= 1 / MAX_SCALE and slopes.min() <= MAX_SCALE:
        for key, value in (("units.torque", si_torque_unit(robot)), ("side.torque", "joint")):
            if draft.value(key) in (UNANSWERED, value):
                draft = draft.with_line(key, value, explained)
        sides = [line.value for line in draft.lines if line.key.startswith("side.")]
        if set(sides) == {"joint"} and not draft.is_given("gears"):
            draft = draft.without_key("gears")
        return draft.with_notes(*wrong)
    if shape and is_about_1000(factor) and draft.value("units.torque") == UNANSWERED:
        draft = draft.without_key("gears").with_line("units.torque", "mN m", explained)
        return draft.with_line("side.torque", "joint", "as the unit")
    seen = f"is {explained}" if shape else f"does not fit the robot file: its inertial parameters {left}"
    unclear = f"the torque {seen}; no wrong zero, sign, unit or gravity would explain that"
    return draft.with_notes(*(wrong or (unclear,)))
