"""`summarize_verdict`: summarize quality, use and next steps in a few sentences for page and terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final, get_args

from mindyn.errors import list_names
from mindyn.export.writing import ROBOT_FILES, RobotFormat
from mindyn.findings import Severity
from mindyn.hints import Command
from mindyn.report.data import ParameterRow, ParameterState, VerdictData
from mindyn.report.headlines import USABLE_GRADES, choose_headline, has_wrong_input
from mindyn.validation.validate import Grade

MAX_SUMMARY_NAMES: Final = 6
"""Most parameters and joints that a sentence names."""
WEAK_GRADES: Final = ("fair", "poor", "unusable")
FEASIBILITY_NOT_CHECKED: Final = "Physical consistency was not checked."
FEASIBILITY_ANSWERS: Final[Mapping[bool | None, str]] = {
    True: "The values are physically consistent.",
    False: "The values are not physically consistent.",
    None: "Physical consistency could not be decided.",
}
FEASIBLE_WITHIN_UNCERTAINTY: Final = (
    "The values are not physically consistent, but consistent values lie within their uncertainty: identify with "
    "--consistent, or make them feasible."
)
"""Replaces a no if the nearest consistent values lie within the uncertainty."""
OTHER_STATES: Final = tuple(state for state in get_args(ParameterState) if state != "well determined")


@dataclass(frozen=True, slots=True)
class Advice:
    """A next step and the command for it; the command is empty if there is none."""

    sentence: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a result.

    headline  quality of the model
    grade     grade of the headline
    reason    torque errors over all joints and at the weakest joint
    physical  physical consistency
    data      identifiable and unidentifiable parameters
    advice    next steps, the most important first
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
    """Summarize a validation result and the parameters.

    answers        answers about physical consistency; empty if it was not checked
    exists         whether the values are physically consistent (`combine_answers`)
    robot, folder  robot and folder of the run as typed; empty for results from Python
    file_format    format of the suggested export
    """
    headline, grade = choose_headline(verdict, exists)
    physical = FEASIBILITY_ANSWERS[exists] if answers else FEASIBILITY_NOT_CHECKED
    if answers and exists is False and verdict.consistent_nearby:
        physical = FEASIBLE_WITHIN_UNCERTAINTY
    advice = _choose_advice(verdict, joints, parameters, exists, _Commands(robot, folder, file_format))
    return Summary(headline, grade, describe_errors(verdict, joints), physical, describe_parameters(parameters), advice)


def describe_errors(verdict: VerdictData, joints: Sequence[str]) -> str:
    """Describe the error over all joints, its mean over joints, and the weakest joint."""
    parts = [joint.relative for joint in verdict.joints]
    seen = "motion that was not used in the fit" if verdict.held_out else "the motion used in the fit"
    worst = find_weakest_joint(parts)
    finite = [part for part in parts if isfinite(part)] or parts
    several = (
        f" over all joints, {_format_percent(sum(finite) / len(finite))} on average over joints, and "
        f"{_format_percent(parts[worst])} at {joints[worst]}, the weakest joint"
    )
    noise = " (sensor noise)" if verdict.joints[worst].grade == "noise" else ""
    return (
        f"On {seen}, the torque error is {_format_percent(verdict.total)}{describe_ends(verdict)}"
        f"{several + noise if len(parts) > 1 else ''}."
    )


def describe_ends(verdict: VerdictData) -> str:
    """Return the error with the ends of segments in parentheses; "" if no ends were cut."""
    ends = "the ends of its segments, which are not scored"
    return "" if verdict.with_ends is None else f" ({_format_percent(verdict.with_ends)} with {ends})"


def find_weakest_joint(parts: Sequence[float]) -> int:
    """Return the joint with the largest relative error among those that have a torque."""
    return max(range(len(parts)), key=lambda joint: parts[joint] if isfinite(parts[joint]) else -1.0)


def describe_parameters(parameters: Sequence[ParameterRow]) -> str:
    """Count the well-determined parameters and name those that the log does not determine."""
    counts = Counter(row.state for row in parameters)
    determined = f"{counts['well determined']} of {len(parameters)} parameters are well determined"
    others = [f"{counts[state]} {state}" for state in OTHER_STATES if counts[state]]
    unidentifiable = [row.name for row in parameters if row.state == "unidentifiable"]
    unknown = f" The log does not determine {list_names(unidentifiable, MAX_SUMMARY_NAMES)}." if unidentifiable else ""
    return f"{', '.join([determined, *others])}.{unknown}"


@dataclass(frozen=True, slots=True)
class _Commands:
    """Robot and folder of a run as typed (empty for results from Python), and the export format."""

    robot: str
    folder: str
    file_format: RobotFormat

    def on_run(self, verb: str, *words: str) -> str:
        return str(Command(verb, self.folder, *words)) if self.folder else ""

    def export(self, *, feasible: bool = False) -> str:
        name = ROBOT_FILES[self.file_format]
        model = "mindyn.make_feasible(estimate)" if feasible else "estimate"
        return (
            self.on_run("export", "--to", self.file_format, "--out", name, *(["--feasible"] if feasible else []))
            or f'mindyn.write_{self.file_format}({model}, "{name}")'
        )

    def excite(self, *words: str) -> str:
        return str(Command("excite", self.robot, *words)) if self.robot else ""


def _choose_advice(
    verdict: VerdictData,
    joints: Sequence[str],
    parameters: Sequence[ParameterRow],
    exists: bool | None,
    words: _Commands,
) -> tuple[Advice, ...]:
    if any(finding.severity is Severity.ERROR for finding in verdict.findings):
        again = words.excite("--seconds", "30", "--out", "motion")
        return (Advice("Do not use this model, even if it fits well: record another log first.", again),)
    if has_wrong_input(verdict):
        return (Advice("Do not use this model yet, even if it fits well: correct the input, then identify again."),)
    named = [
        (name, joint.grade) for name, joint in zip(joints, verdict.joints, strict=True) if isfinite(joint.relative)
    ]
    by_grade = {grade: [name for name, given in named if given == grade] for grade in WEAK_GRADES}
    unidentifiable = [row.name for row in parameters if row.state == "unidentifiable"]
    advice = []
    is_validated = verdict.held_out or verdict.earlier_total is not None
    if not is_validated:
        command = words.on_run("report", "--validate", "other.csv")
        advice.append(Advice("Validate it on a log of another motion before you trust it.", command))
    unusable = by_grade["unusable"] + ([] if verdict.grade in USABLE_GRADES else by_grade["poor"])
    if unusable or verdict.grade not in USABLE_GRADES:
        where = _name_joints(unusable, joints) if unusable else "this motion"
        advice.append(Advice(f"Do not use it yet: it does not explain the torque of {where}."))
    elif exists is False:
        sentence = "Make it feasible before you use it for simulation or control (nearest consistent values)."
        advice.append(Advice(sentence, words.export(feasible=True)))
    elif is_validated:
        cautions = [
            *([f"not at {_name_joints(by_grade['poor'], joints)}"] if by_grade["poor"] else []),
            *([f"with care at {_name_joints(by_grade['fair'], joints)}"] if by_grade["fair"] else []),
        ]
        use = ", ".join(["Use it for control, simulation and contact detection", *cautions])
        advice.append(Advice(f"{use}.", words.export()))
    if any(by_grade.values()):
        advice.append(_explain_largest_residual(verdict, words))
    elif unidentifiable:
        again = words.excite("--seconds", "30", "--out", "motion")
        advice.append(
            Advice("Record a more exciting trajectory for the parameters that the log does not determine.", again)
        )
    return tuple(advice)


def _name_joints(names: Sequence[str], joints: Sequence[str]) -> str:
    return "all joints" if len(names) == len(joints) else list_names(names, MAX_SUMMARY_NAMES)


def _explain_largest_residual(verdict: VerdictData, words: _Commands) -> Advice:
    """Return the cause of the largest relative residual and its remedy, which is seldom another motion."""
    weak = [joint for joint in verdict.joints if joint.grade in WEAK_GRADES]
    worst = weak[find_weakest_joint([joint.relative for joint in weak])]
    if worst.pattern is None:
        return Advice(
            "The largest residual has no evident cause: compare it with position, speed and torque in the report."
        )
    cause, remedy = worst.pattern.message, worst.pattern.remedy
    again = words.excite("--seconds", "30", "--speed", "1.0", "--out", "motion")
    return Advice(f"{cause[:1].upper()}{cause[1:]}. {remedy}.", again if "noise" in worst.pattern.details else "")


def _format_percent(part: float) -> str:
    return f"{100 * part:.3g} %"
