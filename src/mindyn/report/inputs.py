"""Inputs of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mindyn.errors import Code, InputError
from mindyn.estimators.estimate import Estimate
from mindyn.feasibility.answer import Answer
from mindyn.findings import Finding
from mindyn.logs.log import Log
from mindyn.robots.meshes import Meshes
from mindyn.robots.robot import Robot
from mindyn.validation.trajectories import Trajectories
from mindyn.validation.validate import Validation


@dataclass(frozen=True, slots=True, eq=False)
class ReportInputs:
    """Inputs of a report; see `write_report`."""

    estimate: Estimate
    validation_logs: Sequence[Log] = ()
    training_logs: Sequence[Log] = ()
    feasibility: Sequence[Answer] = ()
    motion: Trajectories | None = None
    comparison: Mapping[str, Estimate] = field(default_factory=dict)
    prior: Robot | None = None
    run: Mapping[str, Any] = field(default_factory=dict)
    meshes: Meshes | None = None
    validation: Validation | None = None
    findings: Sequence[Finding] = ()

    def __post_init__(self) -> None:
        joints = self.estimate.robot.joint_count
        if self.motion is not None and self.motion.measured.shape[1] != joints:
            raise InputError(
                f"the motion must have the {joints} joints of the robot, got {self.motion.measured.shape[1]}",
                code=Code.WRONG_SHAPE,
                subject="motion",
            )
        if self.validation is not None and len(self.validation.predictions) != len(self.validation_logs):
            raise InputError(
                f"the validation is of {len(self.validation.predictions)} logs, but {len(self.validation_logs)} are "
                "given",
                hint="pass the logs of the validation, or omit the validation",
                code=Code.DISAGREEMENT,
                subject="validation",
            )
