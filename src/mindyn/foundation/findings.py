"""`Finding`: one fact about a robot, a log, a motion or an estimate that the user should know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from mindyn.foundation.printable import make_printable


class Severity(StrEnum):
    """Effect of the fact on the result: an error makes the result wrong, a warning may make it wrong, an info only
    explains it.
    """

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Kind(StrEnum):
    """Subject of a finding; programs compare kinds, never messages."""

    # Robots
    ROUNDED_GEOMETRY = "rounded geometry"
    NORMALISED_AXIS = "normalised axis"
    LARGE_ANGLE = "angle above a turn"
    NEARLY_PARALLEL_AXES = "nearly parallel axes"
    DROPPED_PART = "dropped part of a file"
    DROPPED_LIMIT = "dropped limit"
    HELD_JOINT = "held joint"
    SORTED_JOINTS = "sorted joints"
    READ_LOOP = "loop of a file"
    MESH = "mesh"
    UNREADABLE_SHAPE = "unreadable shape"
    ASSUMED_PART = "assumed part of a file"
    COMPLETED_PARAMETERS = "completed parameters"
    # Motions
    MISSING_MESH = "missing mesh"
    GUESSED_VOLUME = "guessed volume"
    GUESSED_PAYLOAD = "guessed volume of the payload"
    UNCHECKED_PAIR = "unchecked pair of links"
    INEXACT_PAIR = "pair of links that the extra collision checks"
    NARROW_PAIR = "pair nearer than the tracking error"
    NEAR_HOME = "home nearer than the required distance"
    NARROWED_RANGE = "narrowed joint range"
    GUESSED_FLOOR = "guessed floor"
    GUESSED_LIMIT = "guessed limit"
    GUESSED_NOISE = "guessed torque noise"
    COARSE_CHECK = "coarse check"
    UNCHECKED_APPROACH = "unchecked approach"
    NOT_CHECKED = "check turned off"
    DISTANCE_VIOLATED = "distance violated"
    LIMIT_VIOLATED = "limit violated"
    # Logs
    UNUSED_COLUMNS = "unused columns"
    FILE_CONTENT = "content of a file"
    ACCEPTED = "accepted by the user"
    DROPPED_ROWS = "dropped rows"
    STAMPS = "time stamps"
    SPLIT_LOG = "log split at gaps"
    ANGLE_WRAPS = "angle wraps around"
    POSITION_JUMP = "position jumps"
    BEYOND_LIMITS = "position beyond limits"
    CONSTANT_VELOCITY = "velocity never changes"
    LOG_SETTING = "setting of a log"
    FOLLOWED_LOOPS = "followed loops"
    GEARS = "gears"
    REPEATED_MOTION = "repeated motion"
    ESTIMATED_GAINS = "estimated gains"
    FREE_SCALE = "common scale of gains"
    POOR_GAIN = "poorly determined gain"
    WRENCH_FRAME = "wrong frame of a wrench"
    WRENCH_SIGN = "sign of a wrench"
    WRENCH_SCALE = "axes of a wrench sensor disagree"
    WRONG_TARGET = "targets do not belong to the positions"
    CONTRADICTED_GAIN = "given gain contradicts gravity"
    SLOW_MOTION = "too slow for damping"
    # Diagnostics of the logs of a fit
    STILL_JOINT = "joint does not move"
    POOR_MOTION = "motion excites too little"
    FEW_EQUATIONS = "few equations for the parameters"
    CONSTANT_TORQUE = "torque never changes"
    SATURATED_TORQUE = "torque saturates"
    UNRELATED_TORQUE = "torque does not follow the motion"
    DELAYED_TORQUE = "delayed torque"
    APPLIED_DELAY = "applied delay"
    WRONG_TORQUE_SIGN = "wrong sign of torque"
    SWAPPED_TORQUES = "swapped torques"
    WRONG_TORQUE_UNIT = "wrong unit of torque"
    MOTOR_CURRENT = "motor current instead of torque"
    WRONG_GRAVITY = "wrong gravity"
    ABSENT_GRAVITY = "torque without gravity"
    IMPLAUSIBLE_WEIGHT = "implausible weight"
    WRONG_JOINT_ZERO = "wrong joint zero"
    UNEXPLAINED_TORQUE = "unexplained torque"
    FAST_RESIDUAL = "residual above the motion"
    DEPENDENT_RESIDUAL = "residual depends on a condition"
    SCALED_TORQUE = "scaled torque"
    FRICTION_DRIFT = "friction drift"
    PAYLOAD_CHANGE = "payload change"
    CONTACT = "contact"
    RESIDUAL_PATTERN = "pattern of a residual"
    # Estimates
    SELECTED_ESTIMATOR = "selected estimator"
    INCONSISTENT_DATA = "data contradict physical consistency"
    INFEASIBLE_VALUES = "infeasible values"
    NEGATIVE_INERTIA = "negative inertia"
    BIASED_INSTRUMENTS = "biased instruments"
    NARROW_INTERVALS = "intervals of noise alone"
    SHORT_LOG = "log too short to select settings"
    NOT_DIAGNOSED = "log not diagnosed"
    MISSING_FRICTION = "friction is missing"
    UNDETERMINED_MASS = "mass not determined"
    # Fleets
    FLEET_COVERAGE = "coverage of a fleet"


FIRST_SCREEN: Final = frozenset({Kind.APPLIED_DELAY})
"""Kinds that are shown with errors and warnings, whatever their severity."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact that the user should know, with its value and a remedy.

    joints, value, unit  joints (or links) that it concerns, and its value: a delay of 0.018 s, a factor of -1
    message, remedy      sentences for people, without control characters; `str(finding)` joins them
    details              individual cases that the message summarises, one line each
    explained_by         kind of the finding that causes this one; only JSON then shows it
    """

    kind: Kind
    severity: Severity
    message: str
    remedy: str = ""
    joints: tuple[str, ...] = ()
    value: float | None = None
    unit: str = ""
    details: tuple[str, ...] = ()
    explained_by: Kind | None = None

    def __post_init__(self) -> None:
        for name in ("message", "remedy"):
            object.__setattr__(self, name, make_printable(getattr(self, name), keep="\n"))
        object.__setattr__(self, "details", tuple(make_printable(line, keep="\n") for line in self.details))

    def __str__(self) -> str:
        return f"{self.message}. {self.remedy}" if self.remedy else self.message

    @property
    def is_on_first_screen(self) -> bool:
        """Whether the finding is shown at once: an error, a warning or an applied delay that no other one explains."""
        return self.explained_by is None and (self.severity is not Severity.INFO or self.kind in FIRST_SCREEN)

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON values."""
        return {**asdict(self), "joints": list(self.joints), "details": list(self.details)}

    @staticmethod
    def from_dict(saved: Mapping[str, Any]) -> Finding:
        """Return the finding that `to_dict` saved."""
        cause = saved["explained_by"]
        tuples = {key: tuple(saved[key]) for key in ("joints", "details")}
        kinds = {"kind": Kind(saved["kind"]), "severity": Severity(saved["severity"])}
        return Finding(**{**saved, **tuples, **kinds, "explained_by": cause and Kind(cause)})


def info(kind: Kind, message: str, *details: str) -> Finding:
    """Return a finding that explains a result."""
    return Finding(kind, Severity.INFO, message, details=details)


def warning(
    kind: Kind, message: str, remedy: str, joints: tuple[str, ...] = (), value: float | None = None, unit: str = ""
) -> Finding:
    """Return a finding that may make a result wrong."""
    return Finding(kind, Severity.WARNING, message, remedy, joints, value, unit)


def summarise(findings: Iterable[Finding], summaries: Mapping[Kind, str]) -> tuple[Finding, ...]:
    """Merge findings of the same kind, with their messages as details.

    summaries  message for several findings by kind, with `{count}`; these kinds come last, in this order, so that
               rare findings come first
    """
    given = list(findings)
    others = [finding for finding in given if finding.kind not in summaries]
    for kind, message in summaries.items():
        alike = [finding for finding in given if finding.kind == kind]
        if len(alike) > 1:
            cases = tuple(case for finding in alike for case in finding.details or (finding.message,))
            alike = [Finding(kind, alike[0].severity, message.format(count=len(cases)), details=cases)]
        others += alike
    return tuple(others)


def name_warnings(findings: Iterable[Finding]) -> str:
    """Return "; warning: guessed floor, guessed limit" for the end of a headline; "" without warnings."""
    kinds = dict.fromkeys(finding.kind.value for finding in findings if finding.severity is Severity.WARNING)
    return f"; warning: {', '.join(kinds)}" if kinds else ""
