"""Headline and grade labels of a validation result."""

from __future__ import annotations

from typing import Final

from mindyn.findings import Severity
from mindyn.identification.diagnostics.diagnose import WRONG_INPUT
from mindyn.report.data import VerdictData
from mindyn.validation.validate import Grade

HEADLINES: Final[dict[Grade, str]] = {
    "good": "The model is good.",
    "noise": "The model is good: its error is at the noise floor of the sensors.",
    "fair": "The model is usable with care.",
    "poor": "The model is poor.",
    "unusable": "The model does not explain the torque.",
}
USABLE_GRADES: Final = ("good", "noise", "fair")
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
GRADE_LABELS: Final[dict[Grade, str]] = {
    "good": "good",
    "noise": "at the noise floor",
    "fair": "fair",
    "poor": "poor",
    "unusable": "unusable",
}


def has_wrong_input(verdict: VerdictData) -> bool:
    """Return whether information from the user about robot or logs seems to be wrong."""
    return any(finding.kind in WRONG_INPUT and finding.explained_by is None for finding in verdict.findings)


def choose_headline(verdict: VerdictData, exists: bool | None) -> tuple[str, Grade]:
    """Return the headline of a verdict and the grade that colours it.

    The grade is that of the total torque error, but at best "fair", with the reason as headline, if (1) the values
    are not physically consistent or that could not be decided, (2) there is no held-out log, or (3) the error of a
    joint is large. Logs that cannot identify the robot come first, then findings about wrong input. Inconsistent values
    are ignored if consistent values lie within their uncertainty.
    """
    if any(finding.severity is Severity.ERROR for finding in verdict.findings):
        return UNINFORMATIVE_LOG, "unusable"
    if has_wrong_input(verdict):
        return SUSPECT_INPUT, verdict.grade if verdict.grade not in USABLE_GRADES else "fair"
    exists = True if verdict.consistent_nearby and exists is False else exists
    if verdict.grade not in USABLE_GRADES:
        return HEADLINES[verdict.grade], verdict.grade
    even = all(joint.grade in USABLE_GRADES for joint in verdict.joints)
    if not verdict.held_out:
        unvalidated = NOT_VALIDATED if verdict.earlier_total is None else VALIDATED_EARLIER
        return INCONSISTENT_FIT if exists is False else unvalidated, "fair"
    if not even:
        uneven = (
            SOME_JOINTS_GOOD
            if any(joint.grade in ("good", "noise") for joint in verdict.joints)
            else SOME_JOINTS_USABLE
        )
        return INCONSISTENT_SOME_JOINTS if exists is False else uneven, "fair"
    if exists:
        return HEADLINES[verdict.grade], verdict.grade
    return CONSISTENCY_UNDECIDED if exists is None else INCONSISTENT, "fair"
