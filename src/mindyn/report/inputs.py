"""`ReportInputs`: what a report is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.feasibility.answer import Answer
from mindyn.findings import Finding
from mindyn.logs.log import Log
from mindyn.robots.meshes import Meshes
from mindyn.robots.robot import Robot
from mindyn.validation.validate import Validation


@dataclass(frozen=True, slots=True, eq=False)
class MotionComparison:
    """Measured joint positions (N, n), rad or m, and those of a simulation, at the same times (N,), s.

    how  a sentence on how it was simulated: in open or closed loop, under which torque
    """

    time: Array
    measured: Array
    simulated: Array
    how: str = ""

    def __post_init__(self) -> None:
        if self.measured.ndim != 2 or self.measured.shape != self.simulated.shape or not len(self.measured):
            raise InputError(
                f"measured {self.measured.shape} and simulated {self.simulated.shape} must both be (rows, n)"
            )
        if self.time.shape != self.measured.shape[:1]:
            raise InputError(f"{self.time.shape} times are given for {len(self.measured)} rows")


@dataclass(frozen=True, slots=True, eq=False)
class ReportInputs:
    """An estimate and what bears on it; see `write_report`."""

    estimate: Estimate
    validation_logs: Sequence[Log] = ()
    training_logs: Sequence[Log] = ()
    feasibility: Sequence[Answer] = ()
    motion: MotionComparison | None = None
    comparison: Mapping[str, Estimate] = field(default_factory=dict)
    prior: Robot | None = None
    run: Mapping[str, Any] = field(default_factory=dict)
    meshes: Meshes | None = None
    validation: Validation | None = None
    findings: Sequence[Finding] = ()

    def __post_init__(self) -> None:
        joints = len(self.estimate.robot.primary_names)
        if self.motion is not None and self.motion.measured.shape[1] != joints:
            raise InputError(f"the motion has {self.motion.measured.shape[1]} joints, the robot {joints}")
        if self.validation is not None and len(self.validation.predictions) != len(self.validation_logs):
            raise InputError(
                f"the verdict is on {len(self.validation.predictions)} logs, but {len(self.validation_logs)} are given",
                hint="give the logs that `validate` was asked about, or leave the verdict out",
            )
