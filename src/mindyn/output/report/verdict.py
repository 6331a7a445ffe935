"""Quality of a model in a few sentences, for page and terminal: errors of all joints, headline and next steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, get_args

from mindyn.applications.validation.validate import Grade, Validation, grade_error, validate_fit
from mindyn.foundation.errors import list_names
from mindyn.foundation.findings import Finding, Severity
from mindyn.foundation.hints import Command
from mindyn.identification.diagnostics.residual_patterns import find_patterns
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.feasibility.checks.answer import Answer, combine_answers
from mindyn.identification.prediction.prediction import TorquePrediction
from mindyn.output.export.write_checks import ROBOT_FILES, RobotFormat
from mindyn.output.report.parameter_rows import ParameterRow, ParameterState

GRADE_LABELS: Final[Mapping[Grade, str]] = {
    "good": "good",
    "noise": "at the noise floor",
    "fair": "fair",
    "poor": "poor",
    "unusable": "unusable",
}
GRADES: Final[tuple[Grade, ...]] = get_args(Grade)
"""From the best to the worst."""
USABLE_GRADES: Final = ("good", "noise", "fair")
WEAK_GRADES: Final = ("fair", "poor", "unusable")
HEADLINES: Final[Mapping[Grade, str]] = {
    "good": "The model is good.",
    "noise": "The model is good: its error is at the noise floor of the sensors.",
    "fair": "The model is usable with care.",
    "poor": "The model is poor.",
    "unusable": "The model does not explain the torque.",
}
UNINFORMATIVE_LOG: Final = "This log cannot identify this robot."
SUSPECT_INPUT: Final = "The information about the robot or its logs seems to be wrong."
SOME_JOINTS_GOOD: Final = "The model is good for some joints, but not for all."
SOME_JOINTS_USABLE: Final = "The model is usable with care for some joints, but not for all."
NOT_VALIDATED: Final = "The model fits its training data; it was not validated on another motion."
VALIDATED_EARLIER: Final = (
    "The model fits its training data; it was validated on another motion when it was identified."
)
INCONSISTENT: Final = "The model predicts the torque, but its values are not physically consistent."
INCONSISTENT_SOME_JOINTS: Final = (
    "The model predicts the torque of some joints only, and its values are not physically consistent."
)
INCONSISTENT_FIT: Final = "The model fits its training data, but its values are not physically consistent."
CONSISTENCY_UNDECIDED: Final = "The model predicts the torque; its physical consistency could not be decided."
FEASIBILITY_NOT_CHECKED: Final = "Physical consistency was not checked."
FEASIBILITY_ANSWERS: Final[Mapping[bool | None, str]] = {
    True: "The values are physically consistent.",
    False: "The values are not physically consistent.",
    None: "Physical consistency could not be decided.",
}
FEASIBLE_WITHIN_UNCERTAINTY: Final = (
    "The values are not physically consistent, but consistent values lie within their uncertainty: identify with "
    "--consistent"
)
"""Beginning of the sentence that replaces a no if the nearest consistent values lie within the uncertainty."""
NOISE_HIDES: Final = (
    "The error is at the noise floor of the sensors, which hides errors of the model: on other motion, the torque is "
    "uncertain by {uncertainty}."
)
MAX_NOISY_UNCERTAINTY: Final = 0.1
"""Largest standard deviation of the torque on other motion, relative to that of the log, up to which an error at the
noise floor counts as good: the limit of a good error. Held-out rows cannot show a smaller error than the noise. Rates:
`make study NAME=plants`, noise and sound."""
GOOD_HERE: Final = (
    "The model is good on motion like that of the log; on other motion, the torque is uncertain by {uncertainty} from "
    "the data alone."
)
MAX_GOOD_UNCERTAINTY: Final = 0.15
"""Largest standard deviation of the torque on other motion up to which a good error counts as good: of 20 sound logs of
MuJoCo's arms, those with two and more sines have at most 0.10, and one with a single sine and 0.17 predicts another
motion to 25 %. Rates: `make study NAME=plants`, sound."""
MAX_SUMMARY_NAMES: Final = 6
"""Most parameters and joints that a sentence names."""
OTHER_STATES: Final = tuple(state for state in get_args(ParameterState) if state != "well determined")


@dataclass(frozen=True, slots=True)
class JointVerdict:
    """Torque errors of one joint, rms and relative, and the pattern in its residual; None if there is none.

    grade  None if the logs cannot identify the robot: a small error on their motion then says nothing about others
    """

    name: str
    unit: str
    grade: Grade | None
    sentence: str
    rmse: float
    relative: float
    pattern: Finding | None


@dataclass(frozen=True, slots=True)
class VerdictData:
    """Torque errors of all joints; `held_out` says whether the samples were excluded from the fit.

    with_ends      total error including the ends of segments, which are not scored; None if none were cut
    earlier_total  total error of an earlier validation on held-out logs, if this one is not held out
    findings       findings about robot, logs and values
    uncertainty    standard deviation of the torque on other motion, relative to that of the log; None if unknown
    """

    held_out: bool
    grade: Grade
    total: float
    with_ends: float | None
    rows: int
    joints: tuple[JointVerdict, ...]
    earlier_total: float | None
    findings: tuple[Finding, ...]
    uncertainty: float | None = None

    @property
    def is_hidden_by_noise(self) -> bool:
        """Return whether the error is at the noise floor, and the log determines the torque no better."""
        return self.grade == "noise" and not (
            self.uncertainty is not None and self.uncertainty <= MAX_NOISY_UNCERTAINTY
        )

    @property
    def is_limited_to_motion(self) -> bool:
        """Return whether the error is good, but the log determines the torque on other motion poorly."""
        return self.grade == "good" and self.uncertainty is not None and self.uncertainty > MAX_GOOD_UNCERTAINTY

    @property
    def is_uninformative(self) -> bool:
        """Return whether the logs cannot identify the robot."""
        return has_uninformative_logs(self.findings)

    @property
    def has_wrong_input(self) -> bool:
        """Return whether information from the user about robot or logs seems to be wrong."""
        from mindyn.identification.diagnostics.diagnose import WRONG_INPUT

        return any(finding.kind in WRONG_INPUT and finding.explained_by is None for finding in self.findings)

    @property
    def is_unusable(self) -> bool:
        """Return whether the model must not be used, even if its values are physically consistent."""
        return self.is_uninformative or self.has_wrong_input or self.grade == "unusable"


def has_uninformative_logs(findings: Sequence[Finding]) -> bool:
    """Return whether a finding says that the logs cannot identify the robot."""
    return any(finding.severity is Severity.ERROR for finding in findings)


def _describe_ungraded_joint(name: str, relative: float) -> str:
    part = f"{_format_percent(relative)} of its torque is missed" if isfinite(relative) else "it has no torque"
    return f"{name} is not graded: {part} on this motion, which cannot identify the robot."


def build_verdict(
    estimate: Estimate,
    validation: Validation | None,
    predictions: Sequence[TorquePrediction],
    findings: Sequence[Finding],
    earlier_total: float | None = None,
) -> VerdictData:
    """Return the errors on held-out logs or, without a validation, those of the fit.

    predictions    of the held-out logs, else of the training logs, in which patterns are searched
    earlier_total  total error of an earlier validation on held-out logs
    """
    scored = validate_fit(estimate) if validation is None else validation
    e, joints = scored.error, estimate.robot.primary_joints
    patterns = find_patterns(predictions) if predictions else [None] * len(joints)
    grades: Sequence[Grade | None] = scored.grades
    sentences = scored.sentences
    if has_uninformative_logs(findings):
        grades = [None] * len(joints)
        sentences = tuple(map(_describe_ungraded_joint, e.joint_names, e.relative.tolist()))
    columns = (grades, sentences, e.rmse.tolist(), e.relative.tolist(), patterns)
    return VerdictData(
        validation is not None,
        # Not worse than the worst joint: the total contains sensor noise, which no model explains.
        min(grade_error(e.total), max(scored.grades, key=GRADES.index), key=GRADES.index),
        e.total,
        scored.total_with_ends,
        e.rows,
        tuple(
            JointVerdict(joint.name, "N" if joint.kind == "prismatic" else "N m", *values)
            for joint, *values in zip(joints, *columns, strict=True)
        ),
        earlier_total if validation is None else None,
        tuple(findings),
        None if estimate.data.identifiable is None else estimate.data.identifiable.uncertainty,
    )


def is_consistent(answers: Sequence[Answer]) -> bool | None:
    """Return whether the values are physically consistent; None if undecided."""
    return combine_answers({answer.question: answer.holds for answer in answers})


def is_nearly_consistent(answers: Sequence[Answer]) -> bool:
    """Return whether consistent values lie within the uncertainty of inconsistent ones."""
    return is_consistent(answers) is False and any(answer.within_uncertainty for answer in answers)


def has_plausible_projections(answers: Sequence[Answer]) -> bool:
    """Return whether `mindyn export --feasible` writes a plausible model, as far as that was examined."""
    return all(answer.has_plausible_projection for answer in answers)


def describe_consistency(answers: Sequence[Answer]) -> str:
    """Return a sentence about physical consistency."""
    if not answers:
        return FEASIBILITY_NOT_CHECKED
    if not is_nearly_consistent(answers):
        return FEASIBILITY_ANSWERS[is_consistent(answers)]
    return FEASIBLE_WITHIN_UNCERTAINTY + (", or make them feasible." if has_plausible_projections(answers) else ".")


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands about a run; their parts are empty for results from Python.

    robot        robot file or name as typed
    folder       folder of the run
    file_format  format that can express the robot
    refit        command that fits the same logs with physical constraints
    """

    robot: str
    folder: str
    file_format: RobotFormat
    refit: str = ""

    def on_run(self, verb: str, *words: str) -> str:
        """Return a command about the run; empty without a run."""
        return str(Command(verb, self.folder, *words)) if self.folder else ""

    def export(self, *, feasible: bool = False) -> str:
        """Return the command that exports the model."""
        name = ROBOT_FILES[self.file_format]
        model = "mindyn.make_feasible(estimate)" if feasible else "estimate"
        return (
            self.on_run("export", "--to", self.file_format, "--out", name, *(["--feasible"] if feasible else []))
            or f'mindyn.write_{self.file_format}({model}, "{name}")'
        )

    def excite(self, *words: str) -> str:
        """Return the command that designs another motion; empty if the robot is not known."""
        return str(Command("excite", self.robot, "--seconds", "30", *words, "--out", "motion")) if self.robot else ""


def refit_words(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the words of the `identify` command of a run with --consistent in place of another method.

    Without a record they contain ROBOT and LOG.
    """
    words = [str(word) for word in record.get("command") or ()]
    typed = words[words.index("identify") + 1 :] if "identify" in words else ["ROBOT", "LOG"]
    kept = [
        word
        for k, word in enumerate(typed)
        if word not in ("--consistent", "--method") and not (k and typed[k - 1] == "--method")
        if not word.startswith("--method=")
    ]
    return ("identify", *kept, "--consistent")


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
    verdict: VerdictData, parameters: Sequence[ParameterRow], answers: Sequence[Answer], commands: Commands
) -> Summary:
    """Summarize a validation result, the parameters, and the answers about consistency (empty if not checked)."""
    headline, grade = _choose_headline(verdict, is_nearly_consistent(answers) or is_consistent(answers))
    return Summary(
        headline,
        grade,
        _describe_errors(verdict),
        describe_consistency(answers),
        _describe_parameters(parameters),
        tuple(_list_advice(verdict, parameters, answers, commands)),
    )


def _choose_headline(verdict: VerdictData, consistent: bool | None) -> tuple[str, Grade]:
    """Return the headline of a verdict and the grade that colours it.

    The grade is that of the total torque error, but at best "fair", with the reason as headline, if (1) the values
    are not physically consistent or that could not be decided, (2) there is no held-out log, (3) the error of a joint
    is large, or (4) noise hides the error, or the log determines the torque on other motion poorly. Logs that cannot
    identify the robot come first, then findings about wrong input. Inconsistent values are ignored if consistent values
    lie within their uncertainty.
    """
    if verdict.is_uninformative:
        return UNINFORMATIVE_LOG, "unusable"
    if verdict.has_wrong_input:
        return SUSPECT_INPUT, verdict.grade if verdict.grade not in USABLE_GRADES else "fair"
    if verdict.grade not in USABLE_GRADES:
        return HEADLINES[verdict.grade], verdict.grade
    grades = {joint.grade for joint in verdict.joints}
    if not verdict.held_out:
        unvalidated = NOT_VALIDATED if verdict.earlier_total is None else VALIDATED_EARLIER
        return INCONSISTENT_FIT if consistent is False else unvalidated, "fair"
    if verdict.is_limited_to_motion:
        return GOOD_HERE.format(uncertainty=_format_uncertainty(verdict.uncertainty)), "fair"
    if verdict.is_hidden_by_noise:
        return NOISE_HIDES.format(uncertainty=_format_uncertainty(verdict.uncertainty)), "fair"
    if not grades <= set(USABLE_GRADES):
        uneven = SOME_JOINTS_GOOD if grades & {"good", "noise"} else SOME_JOINTS_USABLE
        return INCONSISTENT_SOME_JOINTS if consistent is False else uneven, "fair"
    if consistent:
        return HEADLINES[verdict.grade], verdict.grade
    return CONSISTENCY_UNDECIDED if consistent is None else INCONSISTENT, "fair"


def _describe_errors(verdict: VerdictData) -> str:
    """Describe the error over all joints, its mean over joints, and the weakest joint."""
    parts = [joint.relative for joint in verdict.joints]
    seen = "motion that was not used in the fit" if verdict.held_out else "the motion used in the fit"
    worst = find_weakest_joint(verdict.joints)
    finite = [part for part in parts if isfinite(part)] or parts
    total = _format_percent(verdict.total)
    if len(parts) > 1:
        total += (
            f" over all joints, {_format_percent(sum(finite) / len(finite))} on average over joints, and "
            f"{_format_percent(worst.relative)} at {worst.name}, the weakest joint"
        )
        total += " (sensor noise)" if worst.grade == "noise" else ""
    sentence = f"On {seen}, the torque error is {total}."
    if verdict.with_ends is not None:
        ends = _format_percent(verdict.with_ends)
        sentence += f" With the ends of its segments, where filters are one-sided and no row is scored, it is {ends}."
    return sentence


def find_weakest_joint(joints: Sequence[JointVerdict]) -> JointVerdict:
    """Return the joint with the largest relative error among those that have a torque."""
    return max(joints, key=lambda joint: joint.relative if isfinite(joint.relative) else -1.0)


def _describe_parameters(parameters: Sequence[ParameterRow]) -> str:
    """Count the well-determined parameters and name those that the log does not determine."""
    counts = Counter(row.state for row in parameters)
    determined = f"{counts['well determined']} of {len(parameters)} parameters are well determined"
    others = [f"{counts[state]} {state}" for state in OTHER_STATES if counts[state]]
    unidentifiable = [row.name for row in parameters if row.state == "unidentifiable"]
    unknown = f" The log does not determine {list_names(unidentifiable, MAX_SUMMARY_NAMES)}." if unidentifiable else ""
    return f"{', '.join([determined, *others])}.{unknown}"


def _list_advice(
    verdict: VerdictData, parameters: Sequence[ParameterRow], answers: Sequence[Answer], commands: Commands
) -> list[Advice]:
    consistent, has_plausible_projection = is_consistent(answers), has_plausible_projections(answers)
    if verdict.is_uninformative:
        return [Advice("Do not use this model, even if it fits well: record another log first.", commands.excite())]
    if verdict.has_wrong_input:
        return [Advice("Do not use this model yet, even if it fits well: correct the input, then identify again.")]
    by_grade = {
        grade: [joint.name for joint in verdict.joints if joint.grade == grade and isfinite(joint.relative)]
        for grade in WEAK_GRADES
    }

    def name_joints(names: Sequence[str]) -> str:
        return "all joints" if len(names) == len(verdict.joints) else list_names(names, MAX_SUMMARY_NAMES)

    advice = []
    is_validated = verdict.held_out or verdict.earlier_total is not None
    if not is_validated:
        command = commands.on_run("report", "--validate", "other.csv")
        advice.append(Advice("Validate it on a log of another motion before you trust it.", command))
    unusable = by_grade["unusable"] + ([] if verdict.grade in USABLE_GRADES else by_grade["poor"])
    if unusable or verdict.grade not in USABLE_GRADES:
        where = name_joints(unusable) if unusable else "this motion"
        advice.append(Advice(f"Do not use it yet: it does not explain the torque of {where}."))
    elif verdict.is_hidden_by_noise:
        sentence = "Record a longer or faster motion, or a torque with less noise, before you use it for control."
        advice.append(Advice(sentence, commands.excite()))
    elif consistent is False and not has_plausible_projection:
        sentence = "Fit it with physical constraints: the nearest consistent values are not those of a plausible robot."
        advice.append(Advice(sentence, commands.refit))
    elif consistent is False:
        sentence = "Make it feasible before you use it for simulation or control (nearest consistent values)."
        advice.append(Advice(sentence, commands.export(feasible=True)))
    elif is_validated:
        cautions = [
            f", {word} at {name_joints(by_grade[grade])}"
            for grade, word in (("poor", "not"), ("fair", "with care"))
            if by_grade[grade]
        ]
        where = " on motion like that of the log only" if verdict.is_limited_to_motion else ""
        use = f"Use it for control, simulation and contact detection{where}{''.join(cautions)}."
        advice.append(Advice(use, commands.export()))
        if verdict.is_limited_to_motion:
            advice.append(Advice("Record a longer motion that excites all joints for other motion.", commands.excite()))
    if any(by_grade.values()):
        advice.append(_explain_largest_residual(verdict, commands))
    elif any(row.state == "unidentifiable" for row in parameters):
        sentence = "Record a more exciting trajectory for the parameters that the log does not determine."
        advice.append(Advice(sentence, commands.excite()))
    return advice


def _explain_largest_residual(verdict: VerdictData, commands: Commands) -> Advice:
    """Return the cause of the largest relative residual and its remedy, which is seldom another motion."""
    pattern = find_weakest_joint([joint for joint in verdict.joints if joint.grade in WEAK_GRADES]).pattern
    if pattern is None:
        return Advice(
            "The largest residual has no evident cause: compare it with position, speed and torque in the report."
        )
    again = commands.excite("--speed", "1.0") if "noise" in pattern.details else ""
    return Advice(f"{pattern.message[:1].upper()}{pattern.message[1:]}. {pattern.remedy}.", again)


def format_grade(grade: Grade | None) -> str:
    """Return the label of a grade."""
    return "not graded" if grade is None else GRADE_LABELS[grade]


def _format_uncertainty(uncertainty: float | None) -> str:
    return "an unknown amount" if uncertainty is None else _format_percent(uncertainty)


def _format_percent(part: float) -> str:
    return f"{100 * part:.3g} %"
