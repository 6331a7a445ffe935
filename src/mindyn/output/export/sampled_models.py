"""Write sampled models of an estimate: a folder of robot files and a table of ranges, for domain randomisation."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from mindyn.foundation.atomic_files import write_folder_atomically
from mindyn.foundation.errors import Code, ExportError, require_choice
from mindyn.identification.servos.servo_estimate import ServoEstimate
from mindyn.identification.servos.servo_samples import ServoSamples, list_servo_ranges
from mindyn.identification.uncertainty.model_samples import ModelSamples, parameter_ranges
from mindyn.output.export.mjcf_writer import robot_to_mjcf
from mindyn.output.export.servo_actuators import isaac_lab_text
from mindyn.output.export.urdf_writer import robot_to_urdf
from mindyn.robots.robot import Robot

RANGES_CSV: Final = "ranges.csv"
RANGES_YAML: Final = "ranges.yaml"
COLUMNS: Final = ("name", "parameter", "unit", "value", "low", "high")
SAMPLE_NOTE: Final = "Drawn from the posterior of an estimate by mindyn, for domain randomisation."

Ranges = Sequence[tuple[str, str, str, float, float, float]]


def _isaac_lab(models: ModelSamples, robot: Robot) -> str:
    servo = models.estimate.data.servo
    if servo is None:
        raise ExportError(
            "the estimate is not from logs with position targets, so the gains of its servos are unknown",
            hint="write --to urdf or --to mjcf, or identify logs with columns.target and kp",
            code=Code.MISSING_VALUE,
            subject="servo",
        )
    return isaac_lab_text(robot, servo)


SAMPLE_FORMATS: Final[Mapping[str, tuple[str, Callable[[ModelSamples, Robot], str]]]] = {
    "urdf": (".urdf", lambda _, robot: robot_to_urdf(robot, force=True, notes=(SAMPLE_NOTE,), meshes=False)),
    "mjcf": (".xml", lambda _, robot: robot_to_mjcf(robot, force=True, notes=(SAMPLE_NOTE,))),
    "isaac-lab": (".yaml", _isaac_lab),
}
"""Suffix and writer of each format."""
SERVO_WRITERS: Final[Mapping[str, Callable[[ServoEstimate], str]]] = {
    "urdf": lambda draw: robot_to_urdf(draw.to_robot(), force=True, notes=(SAMPLE_NOTE,), meshes=False),
    "mjcf": lambda draw: robot_to_mjcf(draw.to_robot(), force=True, notes=(SAMPLE_NOTE,), servo=draw.servo),
    "isaac-lab": lambda draw: isaac_lab_text(draw.to_robot(), draw.servo),
}
"""Writer of position servos in each format; URDF has no kp."""


def write_model_samples(models: ModelSamples | ServoSamples, folder: str | Path, file_format: str) -> Path:
    """Write sampled models and their ranges into a new folder.

    Parameters
    ----------
    models : ModelSamples or ServoSamples
        Result of `sample_models`, or of `ServoEstimate.sample`.
    folder : str or Path
        Folder to write; it must be empty or not exist.
    file_format : {"urdf", "mjcf", "isaac-lab"}
        Format of the models, `model_000` and so on. "isaac-lab" writes actuators as `mindyn export --to isaac-lab`.

    Returns
    -------
    Path
        The folder. `ranges.csv` and `ranges.yaml` contain the value of the full model, and the 5 and 95 % quantiles of
        the samples, of each mass, centre, inertia about the centre, armature, damping and friction, and of the torque
        at each joint that no parameter explains; of servos those of stiffness, damping, friction and armature.

    Raises
    ------
    ExportError
        If the folder is not empty, or the format cannot express the robot.
    """
    require_choice(file_format, SAMPLE_FORMATS, "format")
    suffix, write = SAMPLE_FORMATS[file_format]
    if isinstance(models, ServoSamples):
        texts = [SERVO_WRITERS[file_format](draw) for draw in models.estimates]
        ranges: Ranges = list_servo_ranges(models)
    else:
        texts = [write(models, robot) for robot in models.robots]
        ranges = parameter_ranges(models)
    digits = max(3, len(str(len(models) - 1)))
    files = {f"model_{k:0{digits}d}{suffix}": text for k, text in enumerate(texts)}
    write_folder_atomically(folder, {**files, RANGES_CSV: _as_csv(ranges), RANGES_YAML: _as_yaml(models, ranges)})
    return Path(folder)


def _as_csv(ranges: Ranges) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(ranges)
    return text.getvalue()


def _as_yaml(models: ModelSamples | ServoSamples, ranges: Ranges) -> str:
    """Return the ranges as YAML; JSON strings and numbers are valid YAML."""
    contents = (
        "# Stiffness (kp), damping of servo and joint together, friction and armature, at the joint side."
        if isinstance(models, ServoSamples)
        else "# Links: mass, centre of mass, inertia about it along the axes of the link. Joints: at the joint side;\n"
        "# unexplained_torque: residual of the fit, a disturbance that no parameter causes."
    )
    lines = [
        f"# [5 %, 95 %] of {len(models)} models of {json.dumps(models.estimate.robot.name)} by mindyn, SI units.",
        contents,
        "# Samples of one model vary together: ranges that are drawn one by one give a wider spread of torques.",
    ]
    by_name: dict[str, list[str]] = {}
    for name, parameter, unit, _, low, high in ranges:
        by_name.setdefault(name, []).append(f"  {parameter}: [{low!r}, {high!r}]  # {unit}")
    for name, entries in by_name.items():
        lines += [f"{json.dumps(name)}:", *entries]
    return "\n".join(lines) + "\n"
