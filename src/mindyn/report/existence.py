"""The section on whether such a robot can exist: three answers, and the numbers that each rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mindyn.pages.markup import Html, Section, classed, count, number, percent, quantity, tag, typeset
from mindyn.report.data import ReportData

TINY: Final = 1e-9
"""Parts and entries of unit vectors below this are what rounding leaves of zero."""
SAMPLED: Final = "It rests on configurations that were drawn and searched, and is no proof."
GRADES: Final = {True: ("yes", "well"), False: ("no", "hardly"), None: ("undecided", "roughly")}


def feasibility_section(data: ReportData) -> Section | None:
    """Answers to whether such a robot can exist, each with what it rests on."""
    if not data.feasibility:
        return None
    items = [_answer(answer) for answer in data.feasibility]
    return Section("feasibility", "Can such a robot exist?", tag("ul", {"class": "verdicts answers"}, items))


def _answer(answer: Mapping[str, Any]) -> Html:
    word, grade = GRADES[answer["holds"]]
    question, said = answer["question"], typeset(answer["reason"]).rstrip(".")
    asked = tag("strong", {}, f"{question[:1].upper()}{question[1:]}? ")
    drawn = f" {SAMPLED}" if answer["holds"] and "configurations" in answer["witness"] else ""
    words = classed("span", "words", asked, f"{said[:1].upper()}{said[1:]}.{drawn}")
    return tag("li", {"class": f"grade-{grade}"}, classed("span", "badge", word), words, _details(answer["witness"]))


def _details(witness: Mapping[str, Any]) -> Html:
    facts = [(LABELS.get(key, _spelt(key)), _fact(key, value)) for key, value in witness.items() if key not in SILENT]
    shown = [tag("div", {}, tag("dt", {}, label), tag("dd", {}, text)) for label, text in facts if text]
    if not shown:
        return Html("")
    return tag("details", {}, tag("summary", {}, "Details"), tag("dl", {"class": "witness"}, shown))


def _fact(key: str, value: Any) -> str:
    return str(FACTS.get(key, _plain)(value))


def _spelt(key: str) -> str:
    return f"{key[:1].upper()}{key[1:]}".replace("_", " ")


def _plain(value: Any) -> str:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return typeset(str(value))
    if isinstance(value, int):
        return count(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(one)}" for key, one in value.items())
    return ", ".join(map(_plain, value))


def _configuration(places: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(f"{name} {quantity(one['position'], one['unit'], 4)}" for name, one in places.items())


def _shares(parts: Mapping[str, float]) -> str:
    """Entries of a unit vector, those that matter."""
    return ", ".join(f"{name} {number(value, 2)}" for name, value in parts.items() if abs(value) >= SHARE)


def _failing(minors: Mapping[str, Sequence[float]]) -> str:
    """For each kind of minor the orders that fail, and where; nothing where none does."""
    told = []
    for kind, parts in minors.items():
        orders = [f"order {k} at {percent(part)}" for k, part in enumerate(parts, 1) if part > 0]
        told += [f"{kind}: {', '.join(orders)}"] if orders else []
    return "; ".join(told)


def _small(part: float) -> str:
    return "0 (to rounding)" if abs(part) < TINY else percent(part)


def _masses(masses: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {quantity(value if value > MILLIGRAM else 0.0, 'kg')}" for name, value in masses.items())


MILLIGRAM: Final = 1e-6
"""kg; what a solver leaves of a link without mass is less."""
SHARE: Final = 0.05
"""Entries of a unit vector that are told."""
SILENT: Final = ("certificate", "braking", "value", "slack", "nearest", "physical")
"""Numbers for programs, which check certificates; what matters of nearest values is in the sentence, and of the ten
physical parameters of every link the masses are shown."""
LABELS: Final[Mapping[str, str]] = {
    "inertia_matrix": "Inertia matrix",
    "smallest_eigenvalue": "Its smallest eigenvalue",
    "configuration": "There",
    "joints": "Joints that move",
    "direction": "Their speeds, as a unit vector",
    "failing_part": "Configurations that fail",
    "configurations": "Configurations drawn",
    "failing_minors": "Principal minors that fail",
    "smallest_diagonal": "Smallest inertia of each joint, kg m² or kg",
    "distance": "Distance to consistent values (rms)",
    "margin": "Room to the edge of what is physical",
    "masses": "Masses of one such arm, of many that move alike",
    "contradicting": "Values that contradict",
    "most": "Values that move most",
}
FACTS: Final[Mapping[str, Callable[[Any], str]]] = {
    "smallest_eigenvalue": lambda value: quantity(value, "kg m²"),
    "configuration": _configuration,
    "direction": _shares,
    "failing_part": percent,
    "failing_minors": _failing,
    "distance": _small,
    "margin": lambda value: "none (to rounding)" if abs(value) < TINY else quantity(value, "kg"),
    "masses": _masses,
}
