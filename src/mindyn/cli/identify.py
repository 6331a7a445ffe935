"""`mindyn identify`: logs to an estimate, with what was chosen, how it validates, and where it all came from."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, Literal

import typer

from mindyn.cli.arguments import JSON, ROBOT
from mindyn.cli.robot_edits import edited_robot
from mindyn.cli.runs import judged_report
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.identify import identify as identify_logs
from mindyn.feasibility.physically_consistent import identify_consistent
from mindyn.files import make_folder, write_whole
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.log import Log, source_of
from mindyn.logs.reading import read_log, scan_log
from mindyn.report.making import package_versions
from mindyn.robots.loading import load_robot
from mindyn.robots.robot import Robot
from mindyn.validation.validate import Verdict, validate


def identify(
    robot: Annotated[str, ROBOT],
    logs: Annotated[list[Path], typer.Argument(help="Training logs; a sidecar .toml beside each says what is in it.")],
    held_out: Annotated[list[Path] | None, typer.Option("--validate", help="A log that is not trained on.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for estimate.json, parameters.parquet, run.json, report.html.")
    ] = None,
    conditioning: Annotated[Path | None, typer.Option(help="A .toml with settings of the conditioning.")] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Read the training logs block by block: for logs larger than memory.")
    ] = False,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html into the folder.")] = True,
    consistent: Annotated[bool, typer.Option("--consistent", help="Only values that a physical arm can have.")] = False,
    prior: Annotated[
        str | None, typer.Option(help="A robot with trusted inertials, for --consistent: a bundled name or a file.")
    ] = None,
    drives: Annotated[
        Path | None, typer.Option(help="A .toml with [[drive]] tables, for a robot file without.")
    ] = None,
    lock: Annotated[
        list[str] | None, typer.Option(help="JOINT=VALUE: hold an unlogged joint there, rad or m. Repeatable.")
    ] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Identify the dynamic parameters of a robot from its logs."""
    if prior is not None and not consistent:
        raise InputError("--prior is used only with --consistent")
    _require_unseen(logs, held_out or ())
    start = perf_counter()
    arm, settings = edited_robot(load_robot(robot), drives, lock or ()), _conditioning(conditioning)
    whole, others = [] if stream else _read(logs, arm), _read(held_out or (), arm)
    training = [scan_log(path, arm) for path in logs] if stream else whole
    if out is not None:
        make_folder(out)
    if consistent:
        believed: Robot | Literal["robot"] = "robot" if prior is None else load_robot(prior)
        found = identify_consistent(arm, training, settings, prior=believed, progress=_talk)
    else:
        found = identify_logs(arm, training, conditioning=settings, progress=_talk)
    said = {note for log in whole for note in log.notes}
    for note in dict.fromkeys(found.provenance["notes"]):
        if note not in said:
            _talk(f"note: {note}")
    verdict = validate(found, others) if others else None
    if out is not None:
        inputs = [
            *logs,
            *(held_out or []),
            *(one for one in (conditioning, drives) if one),
            *_robot_files(robot, prior),
        ]
        record = _run(found, inputs, perf_counter() - start)
        _write(out, found, verdict, record)
        if report:
            judged_report(out / "report.html", found, others, whole, record)
        _talk(f"written to {out}")
    typer.echo(json.dumps(_data(found, verdict), indent=1) if as_json else _text(found, verdict))


def _talk(line: str) -> None:
    typer.echo(line, err=True)


def _read(paths: Sequence[Path], robot: Robot) -> list[Log]:
    made = []
    for path in paths:
        log = read_log(path, robot)
        _talk(f"read {path}: {len(log)} rows")
        for note in log.notes:
            _talk(f"note: {note}")
        made.append(log)
    return made


def _require_unseen(training: Sequence[Path], held_out: Sequence[Path]) -> None:
    seen = {path.resolve() for path in training}
    if both := [str(path) for path in held_out if path.resolve() in seen]:
        raise InputError(
            f"{', '.join(both)} would be trained on and judged by: that says nothing about other motions",
            hint="give --validate a log of another motion, or leave it out",
        )


def _conditioning(path: Path | None) -> Conditioning | None:
    if path is None:
        return None
    import tomllib

    try:
        return Conditioning.from_dict(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(
            f"{path} cannot be read as settings of the conditioning: {error}",
            hint="a line of it is like: position_cutoff_hz = 20.0",
        ) from error


def _robot_files(*robots: str | None) -> list[Path]:
    return [Path(one) for one in robots if one is not None and Path(one).is_file()]


def _text(found: Estimate, verdict: Verdict | None) -> str:
    return found.table() if verdict is None else f"{found.table()}\n\n{verdict}"


def _data(found: Estimate, verdict: Verdict | None) -> dict[str, Any]:
    return {
        "parameters": _columns(found),
        "status": found.status,
        "settings": found.provenance["setting"],
        "cross_validated": found.provenance["cross_validated"],
        "notes": found.provenance["notes"],
        "validation": None if verdict is None else verdict.to_dict(),
    }


def _columns(found: Estimate) -> dict[str, list[Any]]:
    deviations = [float(d) if d < float("inf") else None for d in found.deviations]
    return {"name": list(found.names), "value": found.beta.tolist(), "deviation": deviations}


def _write(out: Path, found: Estimate, verdict: Verdict | None, record: dict[str, Any]) -> None:
    import polars as pl

    found.save(out / "estimate.json")
    table = BytesIO()
    pl.DataFrame(_columns(found)).write_parquet(table)
    write_whole(out / "parameters.parquet", table.getvalue())
    if verdict is not None:
        write_whole(out / "validation.json", json.dumps(verdict.to_dict(), indent=1) + "\n")
    write_whole(out / "run.json", json.dumps(record, indent=1) + "\n")


def _run(found: Estimate, inputs: Sequence[Path], seconds: float) -> dict[str, Any]:
    """What is needed to repeat the run."""
    return {
        "command": sys.argv,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "inputs": [{"path": s.path, "sha256": s.sha256} for path in inputs for s in source_of(path)],
        "versions": package_versions(),
        "settings": found.provenance["setting"],
        "status": found.status,
    }
