"""Report sections on the validation result, the comparison with other models, and physical consistency."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mindyn.applications.validation.validate import GRADE_LIMITS
from mindyn.foundation.escaping import keep_units_together
from mindyn.foundation.findings import Finding
from mindyn.foundation.pages.document import (
    NO_BREAK_SPACE,
    Column,
    Content,
    Html,
    Section,
    card,
    class_tag,
    format_count,
    format_number,
    format_percent,
    format_plural,
    format_quantity,
    p,
    table,
    tag,
    typeset,
)
from mindyn.identification.feasibility.checks.answer import Answer
from mindyn.output.report.data import ReportData
from mindyn.output.report.verdict import (
    FEASIBILITY_NOT_CHECKED,
    GRADE_LABELS,
    WEAK_GRADES,
    Advice,
    JointVerdict,
    Summary,
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
LARGE_ERROR_FRACTION: Final = 10.0
"""Relative error from which on decimals are not shown."""


def verdict_section(data: ReportData) -> Section:
    """Return the first section: headline, findings, next steps, physical consistency, identifiability, joints."""
    verdict, summary = data.verdict, summarize_report(data)
    headline = p(tag("strong", {}, summary.headline), f" {typeset(summary.reason)}")
    cards = [
        card("Next steps", [_advice_item(item) for item in summary.advice]),
        card("Is it physically consistent?", [p(summary.physical)]),
        card("What the log determines", [p(summary.data)]),
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
    return class_tag("p", "note", tag("strong", {}, finding.severity), typeset(f" {text[:1].upper()}{text[1:]}."))


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
    explained = max(0.0, min(1.0, 1 - joint.relative))
    bar = tag("rect", {"width": f"{100 * explained:.1f}", "height": "1"})
    drawn = tag("svg", {"viewBox": "0 0 100 1", "preserveAspectRatio": "none", "aria-hidden": "true"}, bar)
    meter = tag("span", {"class": "meter", "aria-hidden": "true"}, drawn)
    return class_tag("li", f"grade-{joint.grade}", class_tag("span", "badge", GRADE_LABELS[joint.grade]), words, meter)


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


def comparison_section(data: ReportData) -> Section | None:
    """Return the section that compares the errors of this estimate, others and the prior model."""
    models = data.comparison
    if not models:
        return None
    errors = {joint.name: [model.relative[k] for model in models] for k, joint in enumerate(data.joints)}
    errors["all joints together"] = [model.total for model in models]
    errors["mean over joints"] = [sum(model.relative) / len(model.relative) for model in models]
    kind = "the held-out logs" if data.verdict.held_out else "the fits"
    best = min(models, key=lambda model: model.total)
    words = (
        f"Smallest total error on {kind}: {best.name}, with {_format_percent(best.total)}. "
        "The smallest error of each row is bold."
    )
    columns = [Column("Relative error"), *(Column(model.name, number=True) for model in models)]
    rows = [_comparison_row(name, values) for name, values in errors.items()]
    about = [
        tag("li", {}, tag("strong", {}, model.name), f": {model.about}")
        for model in models
        if model.about not in ("", model.name)
    ]
    parts = [p(words), table(columns, rows, f"Relative torque errors on {kind}"), class_tag("ul", "fine", about)]
    return Section("comparison", "Comparison with other models", parts)


def _comparison_row(name: str, values: list[float]) -> list[Content]:
    shown, least = [_format_percent(value) for value in values], _format_percent(min(values))
    return [name, *(tag("strong", {}, text) if text == least else text for text in shown)]


def _format_percent(value: float) -> str:
    """Format a fraction as percent with two decimals, so that similar models differ."""
    return f"{100 * value:.2f}{NO_BREAK_SPACE}%" if value < LARGE_ERROR_FRACTION else format_percent(value)


ROUNDING_LIMIT: Final = 1e-9
"""Smaller fractions and entries of unit vectors are rounding errors of zero."""
SAMPLED_NOTE: Final = "This was checked at sampled and searched configurations; it is not a proof."
ANSWER_GRADES: Final = {True: ("yes", "good"), False: ("no", "poor"), None: ("undecided", "fair")}


def feasibility_section(data: ReportData) -> Section | None:
    """Return the section with the answers about physical consistency and their witnesses."""
    if not data.feasibility:
        return None
    items = class_tag("ul", "verdicts answers", [_answer_item(answer) for answer in data.feasibility])
    return Section("feasibility", "Is it physically consistent?", items)


def _answer_item(answer: Answer) -> Html:
    word, grade = ANSWER_GRADES[answer.holds]
    reason = typeset(answer.reason).rstrip(".")
    asked = tag("strong", {}, f"{_spell_key(answer.question)}? ")
    drawn = f" {SAMPLED_NOTE}" if answer.holds and "configurations" in answer.witness else ""
    words = class_tag("span", "words", asked, f"{reason[:1].upper()}{reason[1:]}.{drawn}")
    badge = class_tag("span", "badge", word)
    return class_tag("li", f"grade-{grade}", badge, words, _witness_details(answer.witness))


def _witness_details(witness: Mapping[str, Any]) -> Html:
    facts = [
        (WITNESS_LABELS.get(key, _spell_key(key)), WITNESS_FORMATTERS.get(key, _format_value)(value))
        for key, value in witness.items()
        if key not in HIDDEN_WITNESS_KEYS
    ]
    shown = [tag("div", {}, tag("dt", {}, label), tag("dd", {}, text)) for label, text in facts if text]
    if not shown:
        return Html("")
    return tag("details", {}, tag("summary", {}, "Details"), tag("dl", {"class": "witness"}, shown))


def _spell_key(key: str) -> str:
    return f"{key[:1].upper()}{key[1:]}".replace("_", " ")


def _format_value(value: Any) -> str:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return typeset(str(value))
    if isinstance(value, int):
        return format_count(value)
    if isinstance(value, float):
        return format_number(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_format_value(item)}" for key, item in value.items())
    return ", ".join(map(_format_value, value))


def _format_configuration(places: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(f"{name} {format_quantity(place['position'], place['unit'], 4)}" for name, place in places.items())


def _format_direction(parts: Mapping[str, float]) -> str:
    """Format the entries of a unit vector that are not small."""
    return ", ".join(
        f"{name} {format_number(value, 2)}" for name, value in parts.items() if abs(value) >= MIN_SHOWN_ENTRY
    )


def _format_failing_minors(minors: Mapping[str, Sequence[float]]) -> str:
    """Format the orders of failing minors by kind; empty if none fails."""
    failures = []
    for kind, parts in minors.items():
        orders = [f"order {k} at {format_percent(part)}" for k, part in enumerate(parts, 1) if part > 0]
        failures += [f"{kind}: {', '.join(orders)}"] if orders else []
    return "; ".join(failures)


def _format_masses(masses: Mapping[str, float]) -> str:
    return ", ".join(
        f"{name} {format_quantity(value if value > MIN_SHOWN_MASS_KG else 0.0, 'kg')}" for name, value in masses.items()
    )


MIN_SHOWN_MASS_KG: Final = 1e-6
"""Smaller masses are solver noise of a massless link."""
MIN_SHOWN_ENTRY: Final = 0.05
"""Smaller entries of a unit vector are not shown."""
HIDDEN_WITNESS_KEYS: Final = ("certificate", "braking", "value", "slack", "nearest", "physical")
"""Numbers for programs only; the reason has what matters of the nearest values, and masses stand for the links."""
WITNESS_LABELS: Final[Mapping[str, str]] = {
    "smallest_eigenvalue": "Its smallest eigenvalue",
    "configuration": "At the configuration",
    "joints": "Moving joints",
    "direction": "Joint velocities (unit vector)",
    "failing_fraction": "Failing configurations",
    "configurations": "Sampled configurations",
    "failing_minors": "Failing principal minors",
    "smallest_diagonal": "Smallest inertia of each joint, kg m² or kg",
    "distance": "Distance to consistent values (rms)",
    "margin": "Margin to the boundary of the consistent set",
    "masses": "Masses of one consistent arm with the same dynamics",
    "contradicting": "Contradicting values",
    "most": "Values that change most",
}
WITNESS_FORMATTERS: Final[Mapping[str, Callable[[Any], str]]] = {
    "smallest_eigenvalue": lambda value: format_quantity(value, "kg m²"),
    "configuration": _format_configuration,
    "direction": _format_direction,
    "failing_fraction": format_percent,
    "failing_minors": _format_failing_minors,
    "distance": lambda part: "0 (to rounding)" if abs(part) < ROUNDING_LIMIT else format_percent(part),
    "margin": lambda value: "none (to rounding)" if abs(value) < ROUNDING_LIMIT else format_quantity(value, "kg"),
    "masses": _format_masses,
}
