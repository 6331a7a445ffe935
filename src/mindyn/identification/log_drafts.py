"""`draft_log`: the sidecar that a log seems to need, its torque compared with the inertials of the robot's file."""

from __future__ import annotations

from itertools import islice
from math import sqrt
from pathlib import Path
from typing import Final

import numpy as np

from mindyn.errors import MindynError
from mindyn.identification.diagnostics.file_comparison import compare_with_file
from mindyn.identification.diagnostics.robot_file import find_correction, is_about_1000
from mindyn.identification.diagnostics.thresholds import FILE_EXPLAINS, MAX_SCALE
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.draft import UNANSWERED, DraftLine, SidecarDraft
from mindyn.logs.draft_head import DRAFT_ROWS, LONG_DRAFT_ROWS
from mindyn.logs.draft_numbers import is_still
from mindyn.logs.drafting import draft_sidecar
from mindyn.logs.errors import ACCEPTABLE_FINDINGS
from mindyn.logs.pipeline import condition
from mindyn.logs.reading import LogScan
from mindyn.logs.samples import Samples
from mindyn.robots.robot import Robot


def draft_log(path: str | Path, robot: Robot | None = None, topic: str | None = None) -> SidecarDraft:
    """What the columns of a log seem to mean, each line with its evidence, "?" where only the user can know.

    robot  gives joints, their order, limits and inertials; without it less is told
    topic  of a bag with several that name its joints

    Nothing is read by a draft: `SidecarDraft.toml` is the text of a sidecar file that `read_log` refuses until it is
    confirmed.
    """
    file = Path(path)
    draft = draft_sidecar(file, robot, topic=topic)
    if robot is None:
        return draft
    if draft.value("units.position") == UNANSWERED:
        degrees = _compare_with_robot(file, draft_sidecar(file, robot, "deg", topic), robot)
        if degrees.value("side.torque") == "joint" and not degrees.questions:
            return degrees
    return _compare_with_robot(file, draft, robot)


UNKNOWN_ZERO: Final = (
    "whether the joints' zeros and directions are those of the robot's file is not told by this log: state "
    "position_offset, or negative gears, where they are not"
)


def _compare_with_robot(path: Path, draft: SidecarDraft, robot: Robot) -> SidecarDraft:
    """The draft with what the file's inertials say of the torque."""
    if draft.value("units.torque") in ("A", "mA"):
        return draft.noting(UNKNOWN_ZERO)
    try:
        samples = _samples(path, robot, draft)
    except MindynError as error:
        return draft.noting(f"the torque was not compared with the file's inertials: {error.message}", UNKNOWN_ZERO)
    return draft.noting(UNKNOWN_ZERO) if samples is None else _compare_with_inertials(draft, robot, samples)


def _samples(path: Path, robot: Robot, draft: SidecarDraft) -> Samples | None:
    """Samples of the log's head, a torque of unknown unit and side taken as N m at the joint."""
    assumed = {"units.torque": "N m", "side.torque": "joint"}
    left = [key for key in draft.questions if key not in (*assumed, "gears")]
    if left or draft.value("side.torque") == "motor" or draft.value("side.position") != "joint":
        return None
    stated = draft.stated()
    units = {"torque": "N m", **stated["units"]}
    side = {"torque": "joint", **stated["side"]}
    said = {**stated, "units": units, "side": side, "accept": ACCEPTABLE_FINDINGS}
    blocks = islice(LogScan(path, robot, said, DRAFT_ROWS, sidecar={}), LONG_DRAFT_ROWS // DRAFT_ROWS)
    log = next((block for block in blocks if not is_still(block.q)), None)
    return None if log is None else condition(log, robot, Conditioning()).samples


def _compare_with_inertials(draft: SidecarDraft, robot: Robot, samples: Samples) -> SidecarDraft:
    compared = compare_with_file(robot, samples)
    if compared is None:
        return draft.noting("the robot's file states no inertials to compare the torque with", UNKNOWN_ZERO)
    T = compared.file_torque()
    misfit, slopes, correction = float(compared.misfit(T)[0]), compared.slopes(T), find_correction(compared)
    wrong = () if correction is None else (str(correction),)
    factor = float(np.exp(np.log(np.maximum(slopes, 1e-12)).mean())) if len(slopes) else 0.0
    explained = f"{factor:.3g} times that of the file's inertials, which leave {100 * sqrt(misfit):.0f} % of it open"
    shape = sqrt(misfit) < FILE_EXPLAINS
    if shape and slopes.max() >= 1 / MAX_SCALE and slopes.min() <= MAX_SCALE:
        for key, value in (("units.torque", "N m"), ("side.torque", "joint")):
            if draft.value(key) in (UNANSWERED, value):
                draft = draft.stating(DraftLine(key, value, explained))
        sides = [one.value for one in draft.beliefs if one.key.startswith("side.")]
        if set(sides) == {"joint"}:
            draft = draft.without("gears")
        return draft.noting(*wrong)
    if shape and is_about_1000(factor) and draft.value("units.torque") == UNANSWERED:
        draft = draft.without("gears").stating(DraftLine("units.torque", "mN m", explained))
        return draft.stating(DraftLine("side.torque", "joint", "as the unit"))
    unclear = f"the torque is {explained}: no zero, sign, unit or gravity that is stated wrong would explain that"
    return draft.noting(*(wrong or (unclear,)))
