"""The section on whether such a robot can exist: three answers, and the numbers that each rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mindyn.pages.markup import (
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
from mindyn.report.data import ReportData

ROUNDING_LIMIT: Final = 1e-9
"""Parts and entries of unit vectors below this are what rounding leaves of zero."""
SAMPLED_NOTE: Final = "It rests on configurations that were drawn and searched, and is no proof."
ANSWER_GRADES: Final = {True: ("yes", "well"), False: ("no", "hardly"), None: ("undecided", "roughly")}


def feasibility_section(data: ReportData) -> Section | None:
    """Answers to whether such a robot can exist, each with what it rests on."""
    if not data.feasibility:
        return None
    items = [_answer_item(answer) for answer in data.feasibility]
    return Section("feasibility", "Can such a robot exist?", tag("ul", {"class": "verdicts answers"}, items))


def _answer_item(answer: Mapping[str, Any]) -> Html:
    word, grade = ANSWER_GRADES[answer["holds"]]
    question, said = answer["question"], typeset(answer["reason"]).rstrip(".")
    asked = tag("strong", {}, f"{question[:1].upper()}{question[1:]}? ")
    drawn = f" {SAMPLED_NOTE}" if answer["holds"] and "configurations" in answer["witness"] else ""
    words = class_tag("span", "words", asked, f"{said[:1].upper()}{said[1:]}.{drawn}")
    return tag(
        "li", {"class": f"grade-{grade}"}, class_tag("span", "badge", word), words, _witness_details(answer["witness"])
    )


def _witness_details(witness: Mapping[str, Any]) -> Html:
    facts = [
        (WITNESS_LABELS.get(key, _spell_key(key)), _format_fact(key, value))
        for key, value in witness.items()
        if key not in HIDDEN_WITNESS_KEYS
    ]
    shown = [tag("div", {}, tag("dt", {}, label), tag("dd", {}, text)) for label, text in facts if text]
    if not shown:
        return Html("")
    return tag("details", {}, tag("summary", {}, "Details"), tag("dl", {"class": "witness"}, shown))


def _format_fact(key: str, value: Any) -> str:
    return str(WITNESS_FORMATTERS.get(key, _format_value)(value))


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
        return ", ".join(f"{key} {_format_value(one)}" for key, one in value.items())
    return ", ".join(map(_format_value, value))


def _format_configuration(places: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(f"{name} {format_quantity(one['position'], one['unit'], 4)}" for name, one in places.items())


def _format_direction(parts: Mapping[str, float]) -> str:
    """Entries of a unit vector, those that matter."""
    return ", ".join(
        f"{name} {format_number(value, 2)}" for name, value in parts.items() if abs(value) >= MIN_SHOWN_ENTRY
    )


def _format_failing_minors(minors: Mapping[str, Sequence[float]]) -> str:
    """For each kind of minor the orders that fail, and where; nothing where none does."""
    told = []
    for kind, parts in minors.items():
        orders = [f"order {k} at {format_percent(part)}" for k, part in enumerate(parts, 1) if part > 0]
        told += [f"{kind}: {', '.join(orders)}"] if orders else []
    return "; ".join(told)


def _format_distance(part: float) -> str:
    return "0 (to rounding)" if abs(part) < ROUNDING_LIMIT else format_percent(part)


def _format_masses(masses: Mapping[str, float]) -> str:
    return ", ".join(
        f"{name} {format_quantity(value if value > MIN_SHOWN_MASS_KG else 0.0, 'kg')}" for name, value in masses.items()
    )


MIN_SHOWN_MASS_KG: Final = 1e-6
"""kg; what a solver leaves of a link without mass is less."""
MIN_SHOWN_ENTRY: Final = 0.05
"""Entries of a unit vector that are told."""
HIDDEN_WITNESS_KEYS: Final = ("certificate", "braking", "value", "slack", "nearest", "physical")
"""Numbers for programs, which check certificates; what matters of nearest values is in the sentence, and of the ten
physical parameters of every link the masses are shown."""
WITNESS_LABELS: Final[Mapping[str, str]] = {
    "inertia_matrix": "Inertia matrix",
    "smallest_eigenvalue": "Its smallest eigenvalue",
    "configuration": "There",
    "joints": "Joints that move",
    "direction": "Their speeds, as a unit vector",
    "failing_fraction": "Configurations that fail",
    "configurations": "Configurations drawn",
    "failing_minors": "Principal minors that fail",
    "smallest_diagonal": "Smallest inertia of each joint, kg m² or kg",
    "distance": "Distance to consistent values (rms)",
    "margin": "Room to the edge of what is physical",
    "masses": "Masses of one such arm, of many that move alike",
    "contradicting": "Values that contradict",
    "most": "Values that move most",
}
WITNESS_FORMATTERS: Final[Mapping[str, Callable[[Any], str]]] = {
    "smallest_eigenvalue": lambda value: format_quantity(value, "kg m²"),
    "configuration": _format_configuration,
    "direction": _format_direction,
    "failing_fraction": format_percent,
    "failing_minors": _format_failing_minors,
    "distance": _format_distance,
    "margin": lambda value: "none (to rounding)" if abs(value) < ROUNDING_LIMIT else format_quantity(value, "kg"),
    "masses": _format_masses,
}
