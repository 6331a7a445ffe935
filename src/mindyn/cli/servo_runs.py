"""Runs of `mindyn identify` on logs that have position targets alone: fit, replay, files and first screen."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import typer

from mindyn.cli.choices import SERVO_FILE
from mindyn.cli.exit_codes import ExitCode
from mindyn.cli.next_step import print_next_command
from mindyn.cli.printing import count_messages, print_findings, print_json, print_output, print_status
from mindyn.foundation.atomic_files import relative_path, replace_folder_files, write_file_atomically
from mindyn.logs.locations import FileLocation, strip_credentials

if TYPE_CHECKING:
    from mindyn.identification.servos.replay import ServoReplay
    from mindyn.identification.servos.servo_estimate import ServoEstimate
    from mindyn.logs.log import Log
    from mindyn.robots.robot import Robot

REPLAY_FILE: Final = "replay.json"
SERVO_RUN_FILES: Final = (SERVO_FILE, REPLAY_FILE, "run.json")
"""Files of a run folder for servos."""
SERVO_PROGRESS_STEPS: Final = 4
HEADLINES: Final = {
    "good": "The servo model is good: every joint follows with at most a quarter of the error of position = target.",
    "fair": "The servo model is fair: every joint follows better than a delayed target.",
    "unusable": "Do not use this servo model: some joints follow no better than a delayed target.",
}


@dataclass(frozen=True, slots=True)
class ServoRun:
    """What a run for servos needs: its logs, where its files go, and how it was called.

    held_out  logs for the replay; the training logs are replayed if there are none
    inputs    files that the record of the run names
    robot     the robot as given, and its options
    """

    arm: Robot
    training: Sequence[Log]
    held_out: Sequence[Log]
    inputs: Sequence[FileLocation]
    robot: Mapping[str, Any]
    out: Path | None
    obsolete: Sequence[str]
    verbose: bool
    as_json: bool


def has_servo_logs(logs: Sequence[object]) -> bool:
    """Return whether all logs have position targets in place of torques, with gains that are unknown."""
    from mindyn.logs.log import Log
    from mindyn.logs.servos import find_unknown_gains

    return bool(logs) and all(
        isinstance(log, Log) and log.target is not None and bool(find_unknown_gains(log).any()) for log in logs
    )


def run_servos(run: ServoRun) -> None:
    """Fit the servos, replay logs, write the files of the run, and print errors and grade."""
    from mindyn.identification.servos.identify_servos import identify_servos
    from mindyn.identification.servos.replay import replay_servos

    start = perf_counter()
    with count_messages("identifying servos", SERVO_PROGRESS_STEPS, verbose=run.verbose) as talk:
        estimate = identify_servos(run.arm, run.training, progress=talk)
    replay = replay_servos(estimate, run.held_out or run.training)
    if run.out is not None:
        with replace_folder_files(run.out, (*SERVO_RUN_FILES, *run.obsolete)) as folder:
            estimate.save(folder / SERVO_FILE, run.out)
            _write_json(folder / REPLAY_FILE, {"held_out": bool(run.held_out), **replay.to_dict()})
            _write_json(folder / "run.json", _run_record(run, estimate, replay, perf_counter() - start))
    print_findings(estimate.findings, verbose=run.verbose)
    if run.as_json:
        findings = [finding.to_dict() for finding in estimate.findings]
        data = {key: value for key, value in estimate.to_dict().items() if key not in ("robot", "sources")}
        print_json({"servo": {**data, "findings": findings}, "replay": replay.to_dict()})
    else:
        _print_result(run, estimate, replay)
    if run.out is not None:
        print_status(f"wrote {run.out}: {', '.join(SERVO_RUN_FILES)}")
        print_next_command("export", run.out, "--to", "mjcf", "--out", "model.xml")
    else:
        print_status("not saved; add --out run1")
    if replay.grade == "unusable":
        raise typer.Exit(ExitCode.NO)


def _print_result(run: ServoRun, estimate: ServoEstimate, replay: ServoReplay) -> None:
    import numpy as np

    print_output(HEADLINES[replay.grade])
    rows = "held-out logs" if run.held_out else "the training logs themselves (hold some out with --hold-out 0.3)"
    print_output(f"Rms position error of a simulation that sees the targets of {rows}:")
    print_output()
    print_output(replay.format())
    if np.isfinite(replay.tip_error_m):
        print_output(f"at the tip: {1e3 * replay.tip_error_m:.1f} mm")
    print_output()
    print_output(estimate.format())
    if not estimate.has_scale.all():
        print_output("~ only ratios to kp are determined; the simulated motion does not depend on kp")


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    write_file_atomically(path, json.dumps(values, indent=1) + "\n")


def _run_record(run: ServoRun, estimate: ServoEstimate, replay: ServoReplay, seconds: float) -> dict[str, Any]:
    """Return the record with which the run can be repeated."""
    from mindyn.logs.log import hash_sources
    from mindyn.output.report.provenance_section import package_versions
    from mindyn.regression.gathered_log import sources_of

    assert run.out is not None
    inputs = [{"path": s.path, "sha256": s.sha256} for path in run.inputs for s in hash_sources(path)]
    held_out = [asdict(source) for log in run.held_out for source in sources_of(log)]
    return {
        "command": [strip_credentials(word) for word in sys.argv],
        "folder": str(run.out),
        "robot": dict(run.robot),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "inputs": [{**entry, "path": relative_path(entry["path"], run.out)} for entry in inputs],
        "held_out": [{**entry, "path": relative_path(entry["path"], run.out)} for entry in held_out],
        "versions": package_versions(),
        "settings": {"method": "servo output error", "delay_s": estimate.delay_s},
        "status": replay.grade,
    }
