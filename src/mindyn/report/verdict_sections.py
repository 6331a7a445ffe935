"""The first sections: is the model good, and the torques that show it."""

from __future__ import annotations

from math import isfinite
from typing import Final

from mindyn.feasibility.answer import combine_answers
from mindyn.findings import Finding, Severity
from mindyn.pages.markup import (
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
from mindyn.report.headlines import GRADE_LABELS, choose_headline
from mindyn.report.summary import WEAK_GRADES, Advice, Summary, find_weakest_joint, summarize_verdict
from mindyn.validation.errors import EDGE_S
from mindyn.validation.validate import GRADE_LIMITS, Grade

NO_HELD_OUT_NOTE: Final = "No held-out log was given. The errors below are those of the fit itself, and flatter."
EARLIER_VALIDATION_NOTE: Final = (
    "When the model was made it missed {} of the torque of held-out logs, which this report was not given: "
    "mindyn report RUN --validate LOG shows them. The errors below are those of the fit itself, and flatter."
)
FEASIBILITY_UNCHECKED: Final = "Whether an arm can have these values was not checked."
ERROR_DEFINITION: Final = (
    "Torque missed: root mean square of measured less predicted torque, as part of that of the measured torque; over "
    "all joints together, strong joints weigh most."
)
BETTER_MODEL_RATIO: Final = 0.95
"""Another model is said to predict better when its error is less than this part."""
SHADED_NOTE: Final = (
    f" Shaded: not scored, {EDGE_S:g} s at the ends of every stretch, where a filter has one side alone; the residual "
    "is cut there to its range elsewhere."
)


def report_headline(data: ReportData) -> tuple[str, Grade]:
    """The headline of a report and the grade that colours it."""
    return choose_headline(data.verdict, _is_feasible(data))


def _is_feasible(data: ReportData) -> bool | None:
    return combine_answers({one["question"]: one["holds"] for one in data.feasibility})


def verdict_section(data: ReportData) -> Section:
    """The first screen: is the model good and why, what next, can it exist, what the log told; then each joint."""
    found, said = data.verdict, summarize_report(data)
    lead = class_tag(
        "div", f"lead grade-{said.grade}", p(tag("strong", {}, said.headline), f" {_describe_report_errors(data)}")
    )
    serious = [one for one in found.findings if one.explained_by is None and one.severity is not Severity.INFO]
    findings = [
        class_tag("p", "note", tag("strong", {}, one.severity), f" {typeset(_format_finding(one))}") for one in serious
    ]
    warnings = [] if found.held_out else [class_tag("p", "note", _no_validation_note(found))]
    warnings += _feasibility_notes(data) + _better_model_note(data)
    cards = [
        card("What next", [_advice_item(one) for one in said.advice]),
        card("Can such a robot exist?", [p(said.physical)]),
        card("What the log told", [p(said.data)]),
    ]
    rows = [_joint_item(joint) for joint in found.joints]
    listed = tag("ul", {"class": "verdicts", "aria-label": "Verdict for each joint"}, rows)
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
    """What a reader wants to know first."""
    answers = {one["question"]: one["holds"] for one in data.feasibility}
    names = [joint.name for joint in data.joints]
    place = (data.robot_given, data.folder, data.file_format)
    return summarize_verdict(data.verdict, names, data.parameters, answers, combine_answers(answers), *place)


def _format_finding(finding: Finding) -> str:
    text = str(finding)
    return f"{text[:1].upper()}{text[1:]}."


def _advice_item(one: Advice) -> Html:
    if not one.command:
        return p(one.sentence)
    command = tag("code", {"class": "command"}, one.command)
    return class_tag("div", "advice", p(one.sentence), command)


def _joint_item(one: JointVerdict) -> Html:
    cause = class_tag("span", "cause", typeset(one.cause)) if one.cause and one.grade in WEAK_GRADES else ""
    words = class_tag("span", "words", typeset(one.sentence), " ", cause)
    meter = tag(
        "span", {"class": "meter", "aria-hidden": "true"}, _meter(1.0 if one.grade == "floor" else 1 - one.relative)
    )
    return tag("li", {"class": f"grade-{one.grade}"}, class_tag("span", "badge", GRADE_LABELS[one.grade]), words, meter)


def _no_validation_note(found: VerdictData) -> str:
    return NO_HELD_OUT_NOTE if found.before is None else EARLIER_VALIDATION_NOTE.format(format_percent(found.before))


def _describe_report_errors(data: ReportData) -> str:
    """The errors over all joints, in the mean and at the weakest."""
    found, parts = data.verdict, [joint.relative for joint in data.verdict.joints]
    seen = "motion that it was not fitted to" if found.held_out else "the motion that it was fitted to"
    worst = find_weakest_joint(parts)
    noise = " (flat sensor noise)" if found.joints[worst].grade == "floor" else ""
    judged = [part for part in parts if isfinite(part)] or parts
    several = f" over all joints together, {format_percent(sum(judged) / len(judged))} in the mean over joints, and "
    weakest = (
        f"{several}{format_percent(parts[worst])} at {data.joints[worst].name}, the weakest{noise}"
        if len(parts) > 1
        else ""
    )
    return f"On {seen} it misses {format_percent(found.total)} of the torque{weakest}."


def _describe_grades(data: ReportData) -> str:
    bounds = ", ".join(f"{GRADE_LABELS[grade]} up to {format_percent(bound)}" for bound, grade in GRADE_LIMITS)
    scored = f"Scored: {format_plural(data.verdict.rows, 'sample')}."
    return f"{ERROR_DEFINITION} It is {bounds}, {GRADE_LABELS['not']} beyond, where predicting zero would do better. {scored}"


def _feasibility_notes(data: ReportData) -> list[Html]:
    """What the questions of feasibility add, or that they were not asked."""
    if not data.feasibility:
        return [class_tag("p", "fine", FEASIBILITY_UNCHECKED)]
    exists = _is_feasible(data)
    if exists:
        return []
    link = tag("a", {"href": "#feasibility"}, "Can such a robot exist?")
    if exists is None:
        return [class_tag("p", "note", "Whether an arm can have these values could not be decided: see ", link)]
    quiet = class_tag(
        "p", "fine", "Mend it before it is simulated: values that an arm can have are as likely. See ", link
    )
    loud = class_tag("p", "note", "Do not simulate with it, or control by it, before it is mended: see ", link)
    return [quiet if data.verdict.within else loud]


def _better_model_note(data: ReportData) -> list[Html]:
    """Says so when another model in the comparison predicts better."""
    if not data.comparison:
        return []
    best = min(data.comparison, key=lambda column: column.total)
    if best.total >= BETTER_MODEL_RATIO * data.comparison[0].total:
        return []
    link = tag("a", {"href": "#comparison"}, "another model")
    return [
        class_tag(
            "p", "note", "On the same samples ", link, f", {best.name}, misses less: {format_percent(best.total)}."
        )
    ]


def _meter(explained: float) -> Html:
    """A bar as long as the part of the torque that is explained."""
    bar = tag("rect", {"width": f"{100 * max(0.0, min(1.0, explained)):.1f}", "height": "1"})
    return tag("svg", {"viewBox": "0 0 100 1", "preserveAspectRatio": "none", "aria-hidden": "true"}, bar)


def torque_section(data: ReportData) -> Section | None:
    """Measured and predicted torque of every joint over time, and what is left."""
    if not data.traces:
        return None
    plots = {
        f"torque-{k}-{joint}": _torque_plot(k, trace, one, data.joints[joint].torque_unit)
        for k, trace in enumerate(data.traces)
        for joint, one in enumerate(trace.joints)
    }
    panels: list[tuple[str, Content]] = [
        (joint.name, [_torque_figure(data, k, i) for k in range(len(data.traces))])
        for i, joint in enumerate(data.joints)
    ]
    panels += [("All joints", _all_joints(data))] if len(data.joints) > 1 else []
    keys = class_tag("p", "fine", "Drag across a plot to zoom, double-click to see all. Keys: + − ← → 0.")
    body = to_html([_log_choice(data), tabs("torque", "Joint", panels), keys])
    shared = {f"time-{k}": trace.time for k, trace in enumerate(data.traces)}
    return Section("torque", "Measured and predicted torque", body, {**plots, "shared": shared})


def _all_joints(data: ReportData) -> Html:
    """Every joint at a glance; they are zoomed together."""
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


def _torque_plot(k: int, trace: TorqueTrace, one: JointTrace, unit: str) -> object:
    time = f"time-{k}"
    both = [series("measured", "measured", time, one.measured), series("predicted", "predicted", time, one.predicted)]
    left = [series("measured − predicted", "residual", time, one.residual)]
    panes = [pane(axis("torque", unit), both, height=250), pane(axis("residual", unit), left, height=110, zero=True)]
    return plot(axis("time", "s"), panes, group=time, shaded=trace.unscored)


def _torque_figure(data: ReportData, k: int, joint: int) -> Html:
    trace, unit, name = data.traces[k], data.joints[joint].torque_unit, data.joints[joint].name
    one = trace.joints[joint]
    thinned = (
        f" Shown: least and greatest of every {format_plural(trace.bucket, 'sample')}." if trace.bucket > 1 else ""
    )
    shaded = SHADED_NOTE if trace.unscored else ""
    caption = (
        f"{name} in {trace.name} ({trace.role}): the torque runs from {format_number(one.low, 3)} to "
        f"{format_quantity(one.high, unit)}; the prediction misses {format_quantity(one.rms_error, unit)} rms, at most "
        f"{format_quantity(one.largest_error, unit)} (at {format_quantity(one.largest_error_s, 's', 4)}).{shaded}{thinned}"
    )
    return figure(f"torque-{k}-{joint}", f"Torque of {name} over time, {trace.name}", caption, log=k)
