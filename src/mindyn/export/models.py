"""The robot that a writer writes, and notes about the estimate and the parts that a format cannot express."""

from __future__ import annotations

from typing import Literal

from mindyn.estimators.estimate import Estimate
from mindyn.robots.robot import Robot

Prior = Robot | Literal["robot"] | None
"""The prior with which `full_model` completes an estimate."""


def resolve_model(given: Robot | Estimate, prior: Prior, *, force: bool) -> Robot:
    """Return the robot, or the full model of an estimate; an infeasible estimate raises unless `force` is set."""
    if isinstance(given, Robot):
        return given
    from mindyn.feasibility.full_model import full_model

    return full_model(given, prior, force=force)


def describe_omissions(given: Robot | Estimate, model: Robot, lost: list[str], remedy: str = "") -> list[str]:
    """Return sentences for a comment in the file: the origin of an estimate, omitted parts, and advice."""
    left_out = (
        [f"Omitted, because the format cannot express it: {'; '.join(lost)}.{remedy and f' {remedy}'}"] if lost else []
    )
    if isinstance(given, Robot):
        return left_out
    notes = [f"Note: {note}." for note in model_notes(given, model)]
    return [f"Identified: {given.status}", *left_out, *_offset_advice(model), *notes]


def _offset_advice(model: Robot) -> list[str]:
    """Return advice for a model that was fitted with torque offsets and is written without them."""
    if not any(drive.offset for drive in model.drives):
        return []
    return [
        "The other values were fitted together with the offsets. For simulation, a fit without offsets is more accurate: "
        'identify --consistent --no-offsets, or PhysicallyConsistent(left_out=("offset",)).'
    ]


def model_notes(given: Estimate, model: Robot) -> tuple[str, ...]:
    """Return the findings that the full model adds to those of the robot of the estimate."""
    return tuple(map(str, model.findings[len(given.robot.findings) :]))
