"""`summarise_study`: is the model good, can it be used, and what next, in a few sentences for page and terminal."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final

from mindyn.errors import list_names
from mindyn.export.writing import ROBOT_FILES, RobotFormat
from mindyn.findings import Severity
from mindyn.report.data import ParameterRow, ParameterState, VerdictData
from mindyn.report.headlines import choose_headline, has_wrong_input
from mindyn.validation.validate import Grade

MAX_SUMMARY_NAMES: Final = 6
"""Parameters and joints that a sentence names at most."""
WEAK_GRADES: Final = ("roughly", "hardly", "not")
FEASIBILITY_NOT_CHECKED: Final = "It was not asked whether an arm can have these values."
FEASIBILITY_ANSWERS: Final[Mapping[bool | None, str]] = {
    True: "An arm can have these values.",
    False: "No arm can have these values.",
    None: "Whether an arm can have these values could not be decided.",
}
FEASIBLE_WITHIN_UNCERTAINTY: Final = (
    "No arm has just these values, but values that one can have are as likely: --consistent, or mend them."
)
"""In place of a no where the nearest values of an arm are within the uncertainty."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do next and the command for it, as it is typed; empty where there is none."""

    sentence: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a reader wants to know first.

    headline  is the model good
    grade     of the headline
    reason    what it missed, over all joints and at the weakest
    physical  whether an arm can have the values
    data      what the log told, and what it could not
    advice    what next, the most important first
    """

    headline: str
    grade: Grade
    reason: str
    physical: str
    data: str
    advice: tuple[Advice, ...]


def summarize_verdict(
    verdict: VerdictData,
    joints: Sequence[str],
    parameters: Sequence[ParameterRow],
    answers: Mapping[str, bool | None],
    exists: bool | None,
    robot: str = "",
    folder: str = "",
    file_format: RobotFormat = "urdf",
) -> Summary:
    """The summary of a verdict and of what was found.

    answers        to the questions of feasibility; empty where they were not asked
    exists         whether an arm can have the values (`combine_answers`)
    robot, folder  of the run as they were typed; empty: it was made from Python
    file_format    that the model is exported to
    """
    said, grade = choose_headline(verdict, exists)
    physical = FEASIBILITY_ANSWERS[exists] if answers else FEASIBILITY_NOT_CHECKED
    if answers and exists is False and verdict.within:
        physical = FEASIBLE_WITHIN_UNCERTAINTY
    advice = _choose_advice(verdict, joints, parameters, exists, _Commands(robot, folder, file_format))
    return Summary(said, grade, describe_errors(verdict, joints), physical, describe_parameters(parameters), advice)


def describe_errors(verdict: VerdictData, joints: Sequence[str]) -> str:
    """The errors over all joints, and at the weakest."""
    parts = [joint.relative for joint in verdict.joints]
    seen = "motion that it was not fitted to" if verdict.held_out else "the motion that it was fitted to"
    worst = find_weakest_joint(parts)
    weakest = f"; at {joints[worst]}, the weakest, {_format_percent(parts[worst])}" if len(parts) > 1 else ""
    noise = " (flat sensor noise)" if verdict.joints[worst].grade == "floor" and weakest else ""
    return f"On {seen} it misses {_format_percent(verdict.total)} of the torque{weakest}{noise}."


def find_weakest_joint(parts: Sequence[float]) -> int:
    """The joint of which most is missed, among those that have a torque."""
    return max(range(len(parts)), key=lambda joint: parts[joint] if isfinite(parts[joint]) else -1.0)


def describe_parameters(parameters: Sequence[ParameterRow]) -> str:
    """How many parameters are clear, and which the data could not tell."""
    counts = Counter(row.state for row in parameters)
    clear = f"{counts['clear']} of {len(parameters)} parameters are clear"
    others = [f"{counts[state]} {words}" for state, words in _STATE_LABELS.items() if counts[state]]
    untold = [row.name for row in parameters if row.state == "unidentifiable"]
    open_ones = f" The log could not tell {list_names(untold, MAX_SUMMARY_NAMES)}." if untold else ""
    return f"{', '.join([clear, *others])}.{open_ones}"


_STATE_LABELS: Final[Mapping[ParameterState, str]] = {
    "rough": "rough",
    "near zero": "near zero",
    "from the prior": "from the prior",
    "left out": "left out as not needed",
    "unidentifiable": "unpublished",
}


@dataclass(frozen=True, slots=True)
class _Commands:
    """Robot and folder of a run as they were typed, empty: it was made from Python; the format to export to."""

    robot: str
    folder: str
    file_format: RobotFormat

    def command(self, *words: str) -> str:
        return shlex.join(["mindyn", *words])

    def on_run(self, verb: str, *words: str) -> str:
        return self.command(verb, self.folder, *words) if self.folder else ""

    def export(self, *, mend: bool = False) -> str:
        name = ROBOT_FILES[self.file_format]
        model = "mindyn.make_feasible(found)" if mend else "found"
        return (
            self.on_run("export", "--to", self.file_format, "--out", name, *(["--feasible"] if mend else []))
            or f'mindyn.write_{self.file_format}({model}, "{name}")'
        )

    def excite(self, *words: str) -> str:
        return self.command("excite", self.robot, *words) if self.robot else ""


def _choose_advice(
    verdict: VerdictData,
    joints: Sequence[str],
    parameters: Sequence[ParameterRow],
    exists: bool | None,
    words: _Commands,
) -> tuple[Advice, ...]:
    if any(one.severity is Severity.ERROR for one in verdict.findings):
        again = words.excite("--seconds", "30", "--out", "motion")
        return (Advice("Do not use it, however well it fits: record another log first.", again),)
    if has_wrong_input(verdict):
        return (Advice("Do not use it yet, however well it fits: settle that, and identify again."),)
    weak = [name for name, one in zip(joints, verdict.joints, strict=True) if one.grade in WEAK_GRADES]
    untold = [row.name for row in parameters if row.state == "unidentifiable"]
    found = []
    if not verdict.held_out and verdict.before is None:
        judge = words.on_run("report", "--validate", "other.csv")
        found.append(Advice("Judge it on a log of another motion before it is trusted.", judge))
    if exists is False:
        mend = "Mend it before it is simulated or used for control: the nearest values an arm can have."
        found.append(Advice(mend, words.export(mend=True)))
    elif verdict.grade in ("well", "floor", "roughly"):
        where = "all joints" if len(weak) == len(joints) else list_names(weak, MAX_SUMMARY_NAMES)
        care = f"Use it, with care at {where}" if weak else "Use it"
        found.append(Advice(f"{care}: for control, simulation and contact detection.", words.export()))
    else:
        found.append(Advice("Do not use it yet: check units, signs and side in the log's sidecar, and gear ratios."))
    if weak:
        again = words.excite("--seconds", "30", "--speed", "1.0", "--out", "motion")
        where = "all joints" if len(weak) == len(joints) else list_names(weak, MAX_SUMMARY_NAMES)
        sentence = f"For {where}, record 30 s at a higher speed, in which their torque stands out more."
        found.append(Advice(sentence, again))
    elif untold:
        again = words.excite("--seconds", "30", "--out", "motion")
        found.append(Advice("For what the log could not tell, record a richer motion.", again))
    return tuple(found)


def _format_percent(part: float) -> str:
    return f"{100 * part:.3g} %"
