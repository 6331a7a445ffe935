"""The sentence and the word that a verdict gets."""

from __future__ import annotations

from typing import Final

from mindyn.findings import Severity
from mindyn.identification.diagnostics.diagnose import WRONG_INPUT
from mindyn.report.data import VerdictData
from mindyn.validation.validate import Grade

HEADLINES: Final[dict[Grade, str]] = {
    "well": "The model is good.",
    "floor": "The model is as good as its sensors can show.",
    "roughly": "The model is usable, with care.",
    "hardly": "The model is poor.",
    "not": "The model does not explain the torque.",
}
USABLE_GRADES: Final = ("well", "floor", "roughly")
UNINFORMATIVE_LOG: Final = "This log cannot identify this robot."
SUSPECT_INPUT: Final = "Something that was stated of the robot or of its logs seems wrong."
SOME_JOINTS_GOOD: Final = "The model is good for some joints, not for all."
SOME_JOINTS_USABLE: Final = "The model is usable for some joints, with care, and not for all."
NOT_VALIDATED: Final = "Fits its own training data; not yet judged on other motion."
VALIDATED_EARLIER: Final = "Fits its own training data; judged on other motion when it was made."
INCONSISTENT: Final = "It predicts the torque, but no arm can have these values."
INCONSISTENT_SOME_JOINTS: Final = "It predicts the torque of some joints only, and no arm can have these values."
INCONSISTENT_FIT: Final = "Fits its own training data, but no arm can have these values."
CONSISTENCY_UNDECIDED: Final = "It predicts the torque; whether an arm can have these values could not be decided."
GRADE_LABELS: Final[dict[Grade, str]] = {
    "well": "good",
    "floor": "at the noise floor",
    "roughly": "rough",
    "hardly": "poor",
    "not": "none",
}


def has_wrong_input(found: VerdictData) -> bool:
    """Return whether something that the user gave about robot or logs seems wrong."""
    return any(one.kind in WRONG_INPUT and one.explained_by is None for one in found.findings)


def choose_headline(found: VerdictData, exists: bool | None) -> tuple[str, Grade]:
    """The headline of a verdict, and whether an arm can have the values, and the grade that colours it.

    The rule: the grade of the total torque error; but no better than "roughly", with a sentence that says why, where
    (1) no arm can have the values, or that could not be decided, (2) no held-out log was given, (3) some joint is
    hardly explained or not at all. Logs that cannot identify the robot come before all else, then what seems wrong in
    what was stated; values that no arm has are no surprise where ones that an arm can have are as likely.
    """
    if any(one.severity is Severity.ERROR for one in found.findings):
        return UNINFORMATIVE_LOG, "not"
    if has_wrong_input(found):
        return SUSPECT_INPUT, found.grade if found.grade not in USABLE_GRADES else "roughly"
    exists = True if found.within and exists is False else exists
    if found.grade not in USABLE_GRADES:
        return HEADLINES[found.grade], found.grade
    even = all(joint.grade in USABLE_GRADES for joint in found.joints)
    if not found.held_out:
        unjudged = NOT_VALIDATED if found.before is None else VALIDATED_EARLIER
        return INCONSISTENT_FIT if exists is False else unjudged, "roughly"
    if not even:
        uneven = (
            SOME_JOINTS_GOOD if any(joint.grade in ("well", "floor") for joint in found.joints) else SOME_JOINTS_USABLE
        )
        return INCONSISTENT_SOME_JOINTS if exists is False else uneven, "roughly"
    if exists:
        return HEADLINES[found.grade], found.grade
    return CONSISTENCY_UNDECIDED if exists is None else INCONSISTENT, "roughly"
