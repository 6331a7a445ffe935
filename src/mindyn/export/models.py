"""What is written: a robot as it is, or the full model behind an estimate, with what the format will leave out."""

from __future__ import annotations

from typing import Literal

from mindyn.estimators.estimate import Estimate
from mindyn.robots.robot import Robot

Prior = Robot | Literal["robot"] | None
"""What `full_model` completes an estimate with."""


def resolve_model(given: Robot | Estimate, prior: Prior, *, force: bool) -> Robot:
    """The robot itself, or the estimate's full model; an estimate that no arm can have is refused unless forced."""
    if isinstance(given, Robot):
        return given
    from mindyn.feasibility.full_model import full_model

    return full_model(given, prior, force=force)


def describe_omissions(given: Robot | Estimate, model: Robot, lost: list[str], remedy: str = "") -> list[str]:
    """For a comment in the file: where an estimate comes from, what format and model leave out, and what helps."""
    left_out = [f"Not part of this format, and left out: {'; '.join(lost)}.{remedy and f' {remedy}'}"] if lost else []
    if isinstance(given, Robot):
        return left_out
    notes = [f"Note: {note}." for note in model_notes(given, model)]
    return [f"Identified: {given.status}", *left_out, *_offset_advice(model), *notes]


def _offset_advice(model: Robot) -> list[str]:
    """What helps a model that was fitted with torque offsets and must do without."""
    if not any(drive.offset for drive in model.drives):
        return []
    return [
        "The values are the best beside the offsets, not without them: a simulator of this file moves more truly after "
        'a fit without offsets: identify --consistent --no-offsets, or PhysicallyConsistent(left_out=("offset",)).'
    ]


def model_notes(given: Estimate, model: Robot) -> tuple[str, ...]:
    """What a full model says beyond the notes of the estimate's own robot."""
    return tuple(map(str, model.findings[len(given.robot.findings) :]))
