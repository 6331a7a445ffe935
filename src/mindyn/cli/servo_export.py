"""`mindyn export` of runs on servos: MJCF, URDF, TOML and Isaac Lab, with a replay in MuJoCo as the check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from mindyn.cli.choices import SERVO_FILE
from mindyn.cli.exit_codes import ExitCode
from mindyn.cli.printing import print_json, print_notes, print_output, print_status
from mindyn.foundation.atomic_files import finish_replacement, write_file_atomically
from mindyn.foundation.errors import Code, InputError, require_choice

if TYPE_CHECKING:
    from mindyn.identification.servos.servo_estimate import ServoEstimate
    from mindyn.output.export.servo_replay import ExportedReplay

SERVO_FORMATS: Final = ("mjcf", "urdf", "toml", "isaac-lab")


@dataclass(frozen=True, slots=True)
class ServoExport:
    """What `mindyn export` was given."""

    to: str
    out: Path
    source: Path | None
    check: Path | None
    force: bool
    meshes: bool
    as_json: bool
    samples: int | None = None
    seed: int = 0


def find_servo_run(run: Path) -> Path | None:
    """Return the file of a servo estimate in a run folder, or the given file itself; None for other runs."""
    finish_replacement(run if run.is_dir() else run.parent)
    path = run / SERVO_FILE if run.is_dir() else run
    return path if path.name == SERVO_FILE and path.is_file() else None


def export_servos(file: Path, export: ServoExport, inapplicable: Mapping[str, bool]) -> None:
    """Write the servos of a run, or samples of them, and replay a log in MuJoCo if asked.

    inapplicable  options that servo runs do not have, and whether they were given
    """
    from mindyn.identification.servos.servo_estimate import load_servo_estimate
    from mindyn.logs.read_log import read_log
    from mindyn.output.export.servo_replay import replay_in_mujoco

    require_choice(export.to, SERVO_FORMATS, "--to")
    for option, is_given in inapplicable.items():
        if is_given:
            message = f"{option} does not apply to servos, whose masses are those of the robot file"
            raise InputError(message, hint=f"omit {option}", code=Code.UNSUPPORTED, subject=option)
    estimate = load_servo_estimate(file)
    log = None if export.check is None else read_log(export.check, estimate.robot)
    notes = _write_samples(estimate, export) if export.samples is not None else _write(estimate, export)
    print_notes(notes)
    print_status(f"wrote {export.out}")
    replay = None if log is None else replay_in_mujoco(estimate, export.out, [log])
    if export.as_json:
        print_json(_summary(estimate, export, notes, replay))
    elif replay is not None:
        print_output(_format_replay(replay))
    if replay is not None and not replay.is_faithful:
        print_status("MuJoCo replays the exported file more than 1.2 times worse than the estimate's own simulation")
        raise typer.Exit(ExitCode.NO)


def _write(estimate: ServoEstimate, export: ServoExport) -> list[str]:
    """Write the file and return notes."""
    from mindyn.output.export.mjcf_writer import render_mjcf
    from mindyn.output.export.servo_actuators import servo_ranges, write_isaac_lab_servos
    from mindyn.output.export.toml_writer import write_toml
    from mindyn.output.export.urdf_writer import render_urdf

    if export.to == "mjcf":
        text, notes = render_mjcf(estimate, export.out, export.source, "robot", force=export.force)
        write_file_atomically(export.out, text)
        return list(notes[1:])
    robot = estimate.to_robot()
    if export.to == "urdf":
        # URDF has no armature: the note of the writer says so.
        text, notes = render_urdf(robot, export.source, "robot", force=True, meshes=export.meshes)
        write_file_atomically(export.out, text)
        return [*notes, "URDF has no servos: kp is not in the file"]
    if export.to == "toml":
        write_toml(robot, export.out, force=export.force)
        return ["robot files have no servos: kp is not in the file"]
    return list(write_isaac_lab_servos(robot, estimate.servo, export.out, servo_ranges(estimate)))


def _write_samples(estimate: ServoEstimate, export: ServoExport) -> list[str]:
    """Write a folder of samples and return notes."""
    from mindyn.output.export.sampled_models import write_model_samples

    assert export.samples is not None
    write_model_samples(estimate.sample(export.samples, export.seed), export.out, export.to)
    fixed = [
        name for name, matrix in zip(estimate.joint_names, estimate.log_covariance, strict=True) if not matrix[0, 0]
    ]
    notes = [f"kp of {', '.join(fixed)} is given or assumed, and does not vary"] if fixed else []
    return [*notes, *(["URDF has no servos: kp is in ranges.csv only"] if export.to == "urdf" else [])]


def _format_replay(replay: ExportedReplay) -> str:
    from mindyn.robots.table import format_table

    rows: list[tuple[str, ...]] = [("joint", "own simulation", "MuJoCo", "ratio", "position = target")]
    ours = replay.internal
    for j, name in enumerate(ours.joint_names):
        errors = (ours.errors[j], replay.mujoco.errors[j])
        unit = ours.units[j]
        cells = [f"{1e3 * error:.2f} {unit}" for error in errors]
        rows.append((name, *cells, f"{replay.ratios[j]:.2f}", f"{1e3 * ours.target_errors[j]:.2f} {unit}"))
    return format_table(rows)


def _summary(
    estimate: ServoEstimate, export: ServoExport, notes: list[str], replay: ExportedReplay | None
) -> dict[str, Any]:
    return {
        "format": export.to,
        "files": sorted(map(str, export.out.iterdir())) if export.samples is not None else [str(export.out)],
        "robot": estimate.robot.name,
        "notes": notes,
        "replay": None
        if replay is None
        else {
            "own": replay.internal.to_dict(),
            "mujoco": replay.mujoco.to_dict(),
            "ratios": replay.ratios.tolist(),
            "is_faithful": replay.is_faithful,
        },
    }
