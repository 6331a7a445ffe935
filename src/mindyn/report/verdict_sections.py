"""Report sections on the validation result and the torques over time."""

from __future__ import annotations

from typing import Final

from mindyn.escaping import keep_units_together
from mindyn.feasibility.answer import combine_answers
from mindyn.findings import Finding
from mindyn.pages.document import (
    Content,
    Html,
    Section,
    card,
    class_tag,
    figure,
    format_count,
    format_number,
    format_percent,
    format_plural,
    format_quantity,
    legend,
    p,
    tabs,
    tag,
    to_html,
    typeset,
)
from mindyn.pages.plots import axis, pane, plot, series
from mindyn.report.data import JointTrace, JointVerdict, ReportData, TorqueTrace, VerdictData
from mindyn.report.headlines import GRADE_LABELS
from mindyn.report.summary import (
    FEASIBILITY_NOT_CHECKED,
    WEAK_GRADES,
    Advice,
    Summary,
    summarize_verdict,
)
from mindyn.validation.errors import EDGE_S, MAX_EDGE_FRACTION
from mindyn.validation.validate import GRADE_LIMITS

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
SHADED_NOTE: Final = (
    f" Shaded: {EDGE_S:g} s, or {100 * MAX_EDGE_FRACTION:g} % of a short segment, at the ends of each segment, which "
    "the errors exclude because filters are one-sided there; the residual is clipped there."
)


def verdict_section(data: ReportData) -> Section:
    """Return the first section: headline, findings, next steps, physical consistency, identifiability, joints."""
    verdict, summary = data.verdict, summarize_report(data)
    lead = class_tag(
        "div",
        f"lead grade-{summary.grade}",
        p(tag("strong", {}, summary.headline), f" {typeset(summary.reason)}"),
    )
    serious = [item for item in verdict.findings if item.is_on_first_screen]
    findings = [
        class_tag("p", "note", tag("strong", {}, item.severity), f" {typeset(_format_finding(item))}")
        for item in serious
    ]
    warnings = [] if verdict.held_out else [class_tag("p", "note", _no_validation_note(verdict))]
    warnings += _feasibility_notes(data) + _better_model_note(data)
    cards = [
        card("Next steps", [_advice_item(item) for item in summary.advice]),
        card("Is it physically consistent?", [p(summary.physical)]),
        card("What the log determines", [p(summary.data)]),
    ]
    rows = [_joint_item(joint) for joint in verdict.joints]
    listed = tag("ul", {"class": "verdicts", "aria-label": "Result of each joint"}, rows)
    body = [
        lead,
        *findings,
        *warnings,
        class_tag("div", "cards", cards),
        listed,
        class_tag("p", "fine", _describe_grades(data)),
    ]
    return Section("verdict", "Is the model good?", to_html(body))


def summarize_report(data: ReportData) -> Summary:
    """Return the summary at the top of the report."""
    answers = {answer["question"]: answer["holds"] for answer in data.feasibility}
    names = [joint.name for joint in data.joints]
    place = (data.robot_given, data.folder, data.file_format)
    return summarize_verdict(data.verdict, names, data.parameters, answers, combine_answers(answers), *place)


def _format_finding(finding: Finding) -> str:
    text = str(finding)
    return f"{text[:1].upper()}{text[1:]}."


def _advice_item(advice: Advice) -> Html:
    if not advice.command:
        return p(advice.sentence)
    command = tag("code", {"class": "command", "tabindex": "0"}, advice.command)
    return class_tag("div", "advice", p(advice.sentence), command)


def _joint_item(joint: JointVerdict) -> Html:
    pattern = ""
    if joint.pattern is not None and joint.grade in WEAK_GRADES:
        pattern = class_tag("span", "cause", typeset(joint.pattern.message))
    words = class_tag("span", "words", typeset(keep_units_together(joint.sentence)), " ", pattern)
    meter = tag("span", {"class": "meter", "aria-hidden": "true"}, _meter(1 - joint.relative))
    return tag(
        "li", {"class": f"grade-{joint.grade}"}, class_tag("span", "badge", GRADE_LABELS[joint.grade]), words, meter
    )


def _no_validation_note(verdict: VerdictData) -> str:
    return (
        NO_HELD_OUT_NOTE
        if verdict.earlier_total is None
        else EARLIER_VALIDATION_NOTE.format(format_percent(verdict.earlier_total))
    )


def _describe_grades(data: ReportData) -> str:
    bounds = ", ".join(f"{GRADE_LABELS[grade]} up to {format_percent(bound)}" for bound, grade in GRADE_LIMITS)
    samples = format_plural(data.verdict.rows, "sample")
    worst = f"{GRADE_LABELS['unusable']} above, where predicting zero would be better"
    return f"{ERROR_DEFINITION} Grades: {bounds}, {worst}. Based on {samples}."


def _feasibility_notes(data: ReportData) -> list[Html]:
    """Return notes about physical consistency, or that it was not checked."""
    if not data.feasibility:
        return [class_tag("p", "fine", FEASIBILITY_NOT_CHECKED)]
    exists = combine_answers({answer["question"]: answer["holds"] for answer in data.feasibility})
    if exists:
        return []
    link = tag("a", {"href": "#feasibility"}, "Is it physically consistent?")
    if exists is None:
        return [class_tag("p", "note", "Physical consistency could not be decided: see ", link)]
    nearby = class_tag(
        "p", "fine", "Make it feasible before you simulate: consistent values lie within its uncertainty. See ", link
    )
    far = class_tag("p", "note", "Make it feasible before you use it for simulation or control: see ", link)
    return [nearby if data.verdict.consistent_nearby else far]


def _better_model_note(data: ReportData) -> list[Html]:
    """Return a note if another model in the comparison predicts better."""
    if not data.comparison:
        return []
    best = min(data.comparison, key=lambda column: column.total)
    if best.total >= BETTER_MODEL_RATIO * data.comparison[0].total:
        return []
    link = tag("a", {"href": "#comparison"}, "another model")
    return [
        class_tag(
            "p",
            "note",
            "On the same samples, ",
            link,
            f" has a smaller error: {best.name}, {format_percent(best.total)}.",
        )
    ]


def _meter(explained: float) -> Html:
    """Return a bar whose length is the explained fraction of the torque."""
    bar = tag("rect", {"width": f"{100 * max(0.0, min(1.0, explained)):.1f}", "height": "1"})
    return tag("svg", {"viewBox": "0 0 100 1", "preserveAspectRatio": "none", "aria-hidden": "true"}, bar)


def torque_section(data: ReportData) -> Section | None:
    """Return the section with measured torque, predicted torque and residual of every joint over time."""
    if not data.traces:
        return None
    plots = {
        f"torque-{k}-{joint}": _torque_plot(k, trace, joint_trace, data.joints[joint].torque_unit)
        for k, trace in enumerate(data.traces)
        for joint, joint_trace in enumerate(trace.joints)
    }
    panels: list[tuple[str, Content]] = [
        (joint.name, [_torque_figure(data, k, i) for k in range(len(data.traces))])
        for i, joint in enumerate(data.joints)
    ]
    panels += [("All joints", _all_joints(data))] if len(data.joints) > 1 else []
    keys = class_tag("p", "fine", "Drag across a plot to zoom; double-click to reset. Keys: + − ← → 0.")
    body = to_html([_log_choice(data), tabs("torque", "Joint", panels), keys])
    shared = {f"time-{k}": trace.time for k, trace in enumerate(data.traces)}
    return Section("torque", "Measured and predicted torque", body, {**plots, "shared": shared})


def _all_joints(data: ReportData) -> Html:
    """Return small plots of all joints, which zoom together."""
    keys = legend(
        ("measured", "measured", "line"), ("predicted", "predicted", "line"), ("residual", "residual", "line")
    )
    figures = [
        figure(f"torque-{k}-{i}", f"Torque of {joint.name}, {trace.name}, small", joint.name, shape="small", log=k)
        for k, trace in enumerate(data.traces)
        for i, joint in enumerate(data.joints)
    ]
    return class_tag("div", "glance", keys, class_tag("div", "grid", figures))


def _log_choice(data: ReportData) -> Html:
    options = [
        tag(
            "option",
            {"value": str(k)},
            f"{trace.name}, {trace.role}: {format_count(trace.rows)} samples, {trace.seconds:.4g} s",
        )
        for k, trace in enumerate(data.traces)
    ]
    if len(options) > 1:
        return class_tag("label", "choice", "Log", tag("select", {"id": "log"}, options))
    only = data.traces[0]
    return p(f"{only.name} ({only.role}): {format_count(only.rows)} samples over {only.seconds:.4g} s.")


def _torque_plot(k: int, trace: TorqueTrace, joint_trace: JointTrace, unit: str) -> object:
    time = f"time-{k}"
    both = [
        series("measured", "measured", time, joint_trace.measured),
        series("predicted", "predicted", time, joint_trace.predicted),
    ]
    left = [series("measured − predicted", "residual", time, joint_trace.residual)]
    panes = [pane(axis("torque", unit), both, height=250), pane(axis("residual", unit), left, height=110, zero=True)]
    return plot(axis("time", "s"), panes, group=time, shaded=trace.unscored)


def _torque_figure(data: ReportData, k: int, joint: int) -> Html:
    trace, unit, name = data.traces[k], data.joints[joint].torque_unit, data.joints[joint].name
    joint_trace = trace.joints[joint]
    thinned = (
        f" The plot shows minimum and maximum of every {format_plural(trace.bucket, 'sample')}."
        if trace.bucket > 1
        else ""
    )
    shaded = SHADED_NOTE if trace.unscored else ""
    caption = (
        f"{name} in {trace.name} ({trace.role}): the torque ranges from {format_number(joint_trace.low, 3)} to "
        f"{format_quantity(joint_trace.high, unit)}; the prediction error is "
        f"{format_quantity(joint_trace.rms_error, unit)} rms and at most "
        f"{format_quantity(joint_trace.largest_error, unit)} (at "
        f"{format_quantity(joint_trace.largest_error_s, 's', 4)}).{shaded}{thinned}"
    )
    return figure(f"torque-{k}-{joint}", f"Torque of {name} over time, {trace.name}", caption, log=k)
