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
from mindyn.identification.feasibility.full_models.full_model import build_full_model
from mindyn.identification.feasibility.full_models.model_samples import ModelSamples, parameter_ranges
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


def write_model_samples(models: ModelSamples, folder: str | Path, file_format: str) -> Path:
    """Write sampled models and their ranges into a new folder.

    Parameters
    ----------
    models : ModelSamples
        Result of `sample_models`.
    folder : str or Path
        Folder to write; it must be empty or not exist.
    file_format : {"urdf", "mjcf", "isaac-lab"}
        Format of the models, `model_000` and so on. "isaac-lab" writes actuators as `mindyn export --to isaac-lab`.

    Returns
    -------
    Path
        The folder. `ranges.csv` and `ranges.yaml` contain the value of the full model, and the 5 and 95 % quantiles of
        the samples, of each mass, centre, inertia about the centre, armature, damping and friction.

    Raises
    ------
    ExportError
        If the folder is not empty, or the format cannot express the robot.
    """
    require_choice(file_format, SAMPLE_FORMATS, "format")
    suffix, write = SAMPLE_FORMATS[file_format]
    digits = max(3, len(str(len(models) - 1)))
    files = {f"model_{k:0{digits}d}{suffix}": write(models, robot) for k, robot in enumerate(models.robots)}
    ranges = parameter_ranges(models.robots, build_full_model(models.estimate, models.prior))
    write_folder_atomically(folder, {**files, RANGES_CSV: _as_csv(ranges), RANGES_YAML: _as_yaml(models, ranges)})
    return Path(folder)


def _as_csv(ranges: Ranges) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(ranges)
    return text.getvalue()


def _as_yaml(models: ModelSamples, ranges: Ranges) -> str:
    """Return the ranges as YAML; JSON strings and numbers are valid YAML."""
    lines = [
        f"# [5 %, 95 %] of {len(models)} models of {json.dumps(models.estimate.robot.name)} by mindyn, SI units.",
        "# Links: mass, centre of mass, inertia about it along the axes of the link. Joints: at the joint side.",
        "# Samples of one model vary together: ranges that are drawn one by one give a wider spread of torques.",
    ]
    last = None
    for name, parameter, unit, _, low, high in ranges:
        if name != last:
            lines.append(f"{json.dumps(name)}:")
            last = name
        lines.append(f"  {parameter}: [{low!r}, {high!r}]  # {unit}")
    return "\n".join(lines) + "\n"
