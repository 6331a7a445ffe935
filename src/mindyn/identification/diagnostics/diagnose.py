"""`diagnose`: run every diagnostic, and mark findings that another finding explains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, Protocol

from mindyn.foundation.findings import Finding, Kind, Severity
from mindyn.identification.diagnostics import (
    contact_segments,
    dependent_residuals,
    implausible_weight,
    motion_quality,
    payload_differences,
    time_offsets,
    torque_signals,
    zeros_and_gravity,
)
from mindyn.identification.diagnostics.diagnostic_data import DiagnosticData


class Diagnostic(Protocol):
    """A module that diagnoses one subject, with the function `run`."""

    def run(self, data: DiagnosticData) -> list[Finding]:
        """Return the findings about this subject."""
        ...


DIAGNOSTICS: Final[tuple[Diagnostic, ...]] = (
    motion_quality,
    torque_signals,
    time_offsets,
    zeros_and_gravity,
    implausible_weight,
    payload_differences,
    contact_segments,
    dependent_residuals,
)
POOR_FIT: Final = frozenset(
    {
        Kind.UNEXPLAINED_TORQUE,
        Kind.FAST_RESIDUAL,
        Kind.DEPENDENT_RESIDUAL,
        Kind.CONTACT,
        Kind.SCALED_TORQUE,
        Kind.FRICTION_DRIFT,
        Kind.PAYLOAD_CHANGE,
        Kind.INCONSISTENT_DATA,
        Kind.NARROW_INTERVALS,
    }
)
"""Findings that a wrong torque of one joint can cause at any joint, because it changes the parameters of every link
that the joint carries.
"""
ANYWHERE: Final = POOR_FIT | {Kind.DELAYED_TORQUE}
"""Consequences that may appear at other joints than their cause. For example, a wrong zero rotates the weight of all
links beyond the joint, which looks like a delay.
"""
WRONG_VALUES: Final = POOR_FIT | {Kind.WRONG_TORQUE_SIGN, Kind.INFEASIBLE_VALUES, Kind.IMPLAUSIBLE_WEIGHT}
INPUTS: Final = frozenset(
    {Kind.WRONG_TORQUE_UNIT, Kind.MOTOR_CURRENT, Kind.WRONG_GRAVITY, Kind.ABSENT_GRAVITY, Kind.WRONG_JOINT_ZERO}
)
WRONG_INPUT: Final = INPUTS | {
    Kind.WRONG_TORQUE_SIGN,
    Kind.SWAPPED_TORQUES,
    Kind.PAYLOAD_CHANGE,
    Kind.IMPLAUSIBLE_WEIGHT,
}
"""Kinds of findings about the user's input on robot and logs."""
GEOMETRY: Final = {Kind.WRONG_GRAVITY, Kind.ABSENT_GRAVITY, Kind.WRONG_JOINT_ZERO}
NO_FIT: Final = WRONG_VALUES | GEOMETRY | {Kind.POOR_MOTION, Kind.UNRELATED_TORQUE, Kind.DELAYED_TORQUE}
EXPLAINS: Final[Mapping[Kind, frozenset[Kind]]] = {
    Kind.STILL_JOINT: NO_FIT,
    Kind.CONSTANT_TORQUE: NO_FIT,
    Kind.SATURATED_TORQUE: NO_FIT,
    Kind.UNRELATED_TORQUE: NO_FIT - {Kind.UNRELATED_TORQUE},
    Kind.POOR_MOTION: WRONG_VALUES - {Kind.WRONG_TORQUE_SIGN},
    Kind.FEW_EQUATIONS: WRONG_VALUES - {Kind.WRONG_TORQUE_SIGN} | {Kind.POOR_MOTION, Kind.UNRELATED_TORQUE},
    Kind.DELAYED_TORQUE: WRONG_VALUES,
    Kind.WRONG_TORQUE_SIGN: POOR_FIT | {Kind.INFEASIBLE_VALUES, Kind.IMPLAUSIBLE_WEIGHT, Kind.POOR_MOTION},
    Kind.IMPLAUSIBLE_WEIGHT: frozenset({Kind.INFEASIBLE_VALUES}),
    **dict.fromkeys(INPUTS, WRONG_VALUES),
    **dict.fromkeys(GEOMETRY, WRONG_VALUES | {Kind.DELAYED_TORQUE}),
    Kind.SWAPPED_TORQUES: WRONG_VALUES | {Kind.UNRELATED_TORQUE, Kind.DELAYED_TORQUE},
    Kind.PAYLOAD_CHANGE: POOR_FIT - {Kind.PAYLOAD_CHANGE} | {Kind.INFEASIBLE_VALUES},
    Kind.FREE_SCALE: frozenset({Kind.WRONG_TORQUE_UNIT, Kind.MOTOR_CURRENT, Kind.IMPLAUSIBLE_WEIGHT}),
    Kind.CONTACT: frozenset({Kind.UNEXPLAINED_TORQUE, Kind.DEPENDENT_RESIDUAL}),
    Kind.UNEXPLAINED_TORQUE: frozenset({Kind.INCONSISTENT_DATA, Kind.INFEASIBLE_VALUES, Kind.DEPENDENT_RESIDUAL}),
    Kind.SCALED_TORQUE: frozenset({Kind.DEPENDENT_RESIDUAL}),
    Kind.FRICTION_DRIFT: frozenset({Kind.DEPENDENT_RESIDUAL}),
    Kind.INCONSISTENT_DATA: frozenset({Kind.INFEASIBLE_VALUES}),
}
"""Kinds of findings that a finding of each kind may cause."""


def diagnose(data: DiagnosticData) -> list[Finding]:
    """Return every finding about the logs of a fit, the most serious first. A consequence names its cause.

    A wrong input of a joint is detected in several ways and reported once. The torques alone only show that the signs
    of two joints disagree. If the masses of the robot file determine which of the two signs is wrong, the finding that
    names it is reported.
    """
    found: dict[object, Finding] = {}
    for finding in (finding for diagnostic in DIAGNOSTICS for finding in diagnostic.run(data)):
        found.setdefault((finding.kind, finding.joints) if finding.kind in WRONG_INPUT else finding, finding)
    signs = [finding for finding in found.values() if finding.kind is Kind.WRONG_TORQUE_SIGN]
    decided = any(finding.value == -1 for finding in signs)
    return explain(finding for finding in found.values() if not decided or finding not in signs or finding.value == -1)


def explain(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings with `explained_by` set, the most serious first.

    A finding of severity error may cause consequences at every joint. Other findings cause consequences at their own
    joints, and those in `ANYWHERE` at any joint. If a poor fit has a cause, the consequences of the poor fit have the
    same cause.
    """
    given = [replace(finding, explained_by=None) for finding in findings]
    roots = [_root_cause(finding, given) for finding in given]
    explained = [
        replace(finding, explained_by=None if root is finding else root.kind)
        for finding, root in zip(given, roots, strict=True)
    ]
    return sorted(
        explained, key=lambda finding: (finding.explained_by is not None, list(Severity).index(finding.severity))
    )


def _root_cause(finding: Finding, findings: list[Finding]) -> Finding:
    """Return the finding that causes this one and has no cause itself; if there is none, return this finding."""
    causes = [cause for cause in findings if cause is not finding and _explains(cause, finding)]
    return next((root for cause in causes if (root := _root_cause(cause, findings)) is not finding), finding)


def _explains(cause: Finding, effect: Finding) -> bool:
    if effect.kind not in EXPLAINS.get(cause.kind, ()):
        return False
    reaches_all = cause.severity is Severity.ERROR or effect.kind in ANYWHERE or not cause.joints or not effect.joints
    return reaches_all or bool({*cause.joints} & {*effect.joints})
