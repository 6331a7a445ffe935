"""Report section on physical consistency: answers, and the numbers that support them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mindyn.foundation.pages.document import (
    Html,
    Section,
    class_tag,
    format_count,
    format_number,
    format_percent,
    format_quantity,
    tag,
    typeset,
)
from mindyn.identification.feasibility.checks.answer import Answer
from mindyn.output.report.report_data import ReportData

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
