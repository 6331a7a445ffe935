"""`Finding`: one fact about a robot, a log, a motion or an estimate that the user should know."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How much a finding matters: an error makes the result wrong, a warning may, an info explains it."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Kind(StrEnum):
    """What a finding is about; programs compare kinds, never messages."""

    MISSING_MESH = "missing mesh"
    GUESSED_VOLUME = "guessed volume"
    GUESSED_PAYLOAD = "guessed volume of the payload"
    UNCHECKED_PAIR = "unchecked pair of links"
    NARROW_PAIR = "pair nearer than the tracking error"
    GUESSED_FLOOR = "guessed floor"
    GUESSED_LIMIT = "guessed limit"
    GUESSED_NOISE = "guessed torque noise"
    COARSE_CHECK = "coarse check"
    UNCHECKED_APPROACH = "unchecked approach"
    HELD_JOINT = "held joint"
    DISTANCE_VIOLATED = "distance violated"
    LIMIT_VIOLATED = "limit violated"
    NEGATIVE_INERTIA = "negative inertia"
    BIASED_INSTRUMENTS = "biased instruments"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact that the user should know, with its size and what to do about it.

    joints, value, unit  which joints (or links) it concerns, and its size: a delay of 0.018 s, a factor of -1
    message, remedy      sentences for people; `str(finding)` joins them
    """

    kind: Kind
    severity: Severity
    message: str
    remedy: str = ""
    joints: tuple[str, ...] = ()
    value: float | None = None
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.message}. {self.remedy}" if self.remedy else self.message

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON can hold it."""
        return {**asdict(self), "joints": list(self.joints)}


def name_warnings(findings: Iterable[Finding]) -> str:
    """Return "; warning: guessed floor, guessed limit" for the end of a headline; "" without warnings."""
    kinds = dict.fromkeys(one.kind.value for one in findings if one.severity is Severity.WARNING)
    return f"; warning: {', '.join(kinds)}" if kinds else ""
