"""Report sections on the validation result, the comparison with other models, and physical consistency."""

from __future__ import annotations

from typing import Final

from mindyn.applications.validation.validate import GRADE_LIMITS
from mindyn.foundation.findings import Finding
from mindyn.foundation.pages.document import (
    Content,
    Html,
    Section,
    card,
    class_tag,
    format_percent,
    format_plural,
    p,
    tag,
    typeset,
    typeset_sentence,
)
from mindyn.output.report.report_data import ReportData
from mindyn.output.report.verdict import (
    FEASIBILITY_NOT_CHECKED,
    GRADE_LABELS,
    WEAK_GRADES,
    Advice,
    JointVerdict,
    Summary,
    format_grade,
    has_plausible_projections,
    is_consistent,
    is_nearly_consistent,
    summarize_verdict,
)

NO_HELD_OUT_NOTE: Final = (
    "No held-out log was given. The errors below are those of the fit itself, which are optimistic."
)
EARLIER_VALIDATION_NOTE: Final = (
    "When the model was identified, its error on held-out motion was {} of the torque, which the report of that run "
    "shows. The errors below are those of the fit itself, which are optimistic."
)
ERROR_DEFINITION: Final = (
    "Torque error: root mean square of measured minus predicted torque, relative to that of the measured torque. In "
    "the error over all joints, joints with large torques have the largest weight. Bars: 100 % minus the error, from "
    "0 to 100 %."
)
BETTER_MODEL_RATIO: Final = 0.95
"""Another model is mentioned if its error, relative to this one, is smaller."""


def verdict_section(data: ReportData) -> Section:
    """Return the first section: headline, findings, next steps, physical consistency, identifiability, joints."""
    verdict, summary = data.verdict, summarize_report(data)
    headline = p(tag("strong", {}, summary.headline), " ", typeset_sentence(summary.reason))
    cards = [
        card("Next steps", [_advice_item(item) for item in summary.advice]),
        card("Is it physically consistent?", [p(typeset_sentence(summary.physical))]),
        card("What the log determines", [p(typeset_sentence(summary.data))]),
    ]
    rows = [_joint_item(joint) for joint in verdict.joints]
    body: list[Content] = [
        class_tag("div", f"lead grade-{summary.grade}", headline),
        *(_finding_note(item) for item in verdict.findings if item.is_on_first_screen),
        _no_validation_note(data),
        _feasibility_note(data),
        _better_model_note(data),
        class_tag("div", "cards", cards),
        tag("ul", {"class": "verdicts", "aria-label": "Result of each joint"}, rows),
        class_tag("p", "fine", _describe_grades(verdict.rows)),
    ]
    return Section("verdict", "Is the model good?", body)


def summarize_report(data: ReportData) -> Summary:
    """Return the summary at the top of the report."""
    return summarize_verdict(data.verdict, data.parameters, data.feasibility, data.commands)


def _finding_note(finding: Finding) -> Html:
    text = str(finding)
    return class_tag(
        "p", "note", tag("strong", {}, finding.severity), typeset_sentence(f" {text[:1].upper()}{text[1:]}.")
    )


def _advice_item(advice: Advice) -> Html:
    if not advice.command:
        return p(typeset_sentence(advice.sentence))
    command = tag("code", {"class": "command", "tabindex": "0"}, advice.command)
    return class_tag("div", "advice", p(typeset_sentence(advice.sentence)), command)


def _joint_item(joint: JointVerdict) -> Html:
    pattern = ""
    if joint.pattern is not None and joint.grade in WEAK_GRADES:
        pattern = class_tag("span", "cause", typeset(joint.pattern.message))
    words = class_tag("span", "words", typeset_sentence(joint.sentence), " ", pattern)
    explained = max(0.0, min(1.0, 1 - joint.relative))
    bar = tag("rect", {"width": f"{100 * explained:.1f}", "height": "1"})
    drawn = tag("svg", {"viewBox": "0 0 100 1", "preserveAspectRatio": "none", "aria-hidden": "true"}, bar)
    meter = tag("span", {"class": "meter", "aria-hidden": "true"}, drawn)
    badge = class_tag("span", "badge", format_grade(joint.grade))
    return class_tag("li", f"grade-{joint.grade or 'unusable'}", badge, words, meter)


def _no_validation_note(data: ReportData) -> Content:
    if data.verdict.held_out:
        return ""
    earlier = data.verdict.earlier_total
    note = NO_HELD_OUT_NOTE if earlier is None else EARLIER_VALIDATION_NOTE.format(format_percent(earlier))
    return class_tag("p", "note", note)


def _feasibility_note(data: ReportData) -> Content:
    """Return a note about physical consistency, or that it was not checked."""
    if not data.feasibility:
        return class_tag("p", "fine", FEASIBILITY_NOT_CHECKED)
    consistent = is_consistent(data.feasibility)
    link = tag("a", {"href": "#feasibility"}, "Is it physically consistent?")
    if consistent:
        return ""
    if consistent is None:
        return class_tag("p", "note", "Physical consistency could not be decided: see ", link)
    if not has_plausible_projections(data.feasibility):
        words = "Fit it with physical constraints (--consistent) before you use it for simulation or control: see "
        return class_tag("p", "note", words, link)
    if is_nearly_consistent(data.feasibility):
        words = "Make it feasible before you simulate: consistent values lie within its uncertainty. See "
        return class_tag("p", "fine", words, link)
    return class_tag("p", "note", "Make it feasible before you use it for simulation or control: see ", link)


def _better_model_note(data: ReportData) -> Content:
    """Return a note if another model in the comparison predicts better."""
    best = min(data.comparison, key=lambda column: column.total, default=None)
    if best is None or best.total >= BETTER_MODEL_RATIO * data.comparison[0].total:
        return ""
    link = tag("a", {"href": "#comparison"}, "another model")
    words = f" has a smaller error: {best.name}, {format_percent(best.total)}."
    return class_tag("p", "note", "On the same samples, ", link, words)


def _describe_grades(rows: int) -> str:
    bounds = ", ".join(f"{GRADE_LABELS[grade]} up to {format_percent(bound)}" for bound, grade in GRADE_LIMITS)
    worst = f"{GRADE_LABELS['unusable']} above, where predicting zero would be better"
    return f"{ERROR_DEFINITION} Grades: {bounds}, {worst}. Based on {format_plural(rows, 'sample')}."
