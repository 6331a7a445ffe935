"""`mindyn identify`: logs to an estimate, with what was chosen, how it validates, and where it all came from."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, Final, Literal

import typer

from mindyn.cli.arguments import JSON, ROBOT, VERBOSE, one_of, takes_robot
from mindyn.cli.exit_codes import ExitCode
from mindyn.cli.next_step import say_next
from mindyn.cli.printing import say, say_findings, show
from mindyn.cli.progress_bars import spoken_progress
from mindyn.cli.runs import judged_report, read_logs, require_unseen, show_verdict, unlike_the_fit
from mindyn.errors import InputError, require_choice
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimate_columns import columns_of
from mindyn.estimators.estimator import Estimator
from mindyn.feasibility.answer import can_exist
from mindyn.feasibility.check import Feasibility, check_feasible
from mindyn.feasibility.physically_consistent import PhysicallyConsistent
from mindyn.files import folder_for, replacing, write_whole
from mindyn.findings import Finding, Severity
from mindyn.identification.diagnostics.diagnose import explain
from mindyn.identification.identify import identify as identify_logs
from mindyn.identification.methods import METHODS
from mindyn.identification.selection.choosing import never_moves
from mindyn.kernels.gpu import require_cuda_device
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.log import Log, source_of
from mindyn.logs.mounting import mounted_as_logged
from mindyn.logs.places import Place, given_places, without_credentials
from mindyn.logs.reading import LogScan, scan_log
from mindyn.reading import read_toml
from mindyn.regression.log_gathering import sources_of
from mindyn.regression.treatment import Treatment
from mindyn.report.making import package_versions
from mindyn.report.results import parameter_rows, verdict_data
from mindyn.report.summary import summary_of
from mindyn.robots.files import read_text
from mindyn.robots.loading import RobotOptions, load_like
from mindyn.robots.parts import Drive
from mindyn.robots.robot import Robot
from mindyn.robots.toml_reader import read_drives
from mindyn.validation.validate import Verdict, fit_verdict, validate

FILES: Final = ("estimate.json", "parameters.parquet", "validation.json", "run.json", "report.html")
"""What a run may write into its folder; all of an earlier run are replaced at once: the folder describes one run."""
STEPS: Final = 11
"""Lines that `identify` says on the way, about; a bar counts them."""
_OTHER_MOTION: Final = "give --validate a log of another motion, or leave it out"


@takes_robot
def identify(
    robot: Annotated[str, ROBOT],
    logs: Annotated[
        list[str],
        typer.Argument(help="Training logs: files, URLs (s3://...) or patterns; a sidecar .toml says what is in each."),
    ],
    held_out: Annotated[list[str] | None, typer.Option("--validate", help="A log that is not trained on.")] = None,
    hold_out: Annotated[
        float,
        typer.Option(help="Part of every log, at its end, that is judged by, not trained on: such as 0.3."),
    ] = 0.0,
    out: Annotated[
        Path | None, typer.Option("--out", help=f"Folder for {', '.join(FILES)}; those of an earlier run are replaced.")
    ] = None,
    conditioning: Annotated[Path | None, typer.Option(help="A .toml with settings of the conditioning.")] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Read the training logs block by block: for logs larger than memory.")
    ] = False,
    gpu: Annotated[
        bool, typer.Option("--gpu", help="Turn rows into equations on a GPU, through CuPy: the same estimate.")
    ] = False,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html into the folder.")] = True,
    consistent: Annotated[bool, typer.Option("--consistent", help="Only values that a physical arm can have.")] = False,
    method: Annotated[
        str | None,
        typer.Option(
            help=f"In place of weighted least squares: {', '.join(METHODS)}.",
            autocompletion=one_of(METHODS),
        ),
    ] = None,
    prior: Annotated[
        str | None, typer.Option(help="A robot with trusted inertials, for --consistent: a bundled name or a file.")
    ] = None,
    no_offsets: Annotated[
        bool, typer.Option("--no-offsets", help="With --consistent: no torque offsets, which simulators do not have.")
    ] = False,
    drives: Annotated[Path | None, typer.Option(help="A .toml with drive tables, for a robot file without.")] = None,
    as_json: Annotated[bool, JSON] = False,
    verbose: Annotated[bool, VERBOSE] = False,
    *,
    options: RobotOptions,
) -> None:
    """Identify the dynamic parameters of a robot from its logs."""
    if prior is not None and not consistent:
        raise InputError("--prior is used only with --consistent", hint="add --consistent, or leave --prior out")
    if no_offsets and not consistent:
        raise InputError("--no-offsets is used only with --consistent", hint="add --consistent")
    if method is not None:
        require_choice(method, METHODS, "--method")
        _require_apart(f"--method {method}", {"--consistent": consistent, "--stream": stream})
    if hold_out:
        _require_apart("--hold-out", {"--validate": bool(held_out), "--stream": stream})
    if gpu:
        _require_apart("--gpu", {"--stream": stream})
        require_cuda_device()  # before any log is read
    places, apart = given_places(logs), given_places(held_out or ())
    resolved = [one.resolve() if isinstance(one, Path) else one for one in places]
    if twice := [str(path) for k, path in enumerate(places) if resolved[k] in resolved[:k]]:
        raise InputError(f"given more than once: {', '.join(twice)}", hint="a log counts once")
    start = perf_counter()
    arm, settings = options.load(robot, _drives(drives)), _conditioning(conditioning)
    if options.gravity is None and options.mount is None:
        arm = mounted_as_logged(arm, [*places, *apart])
    believed: Robot | Literal["robot"] = "robot" if prior is None else load_like(prior, arm)
    whole, others = [] if stream else read_logs(places, arm, are_training=True), read_logs(apart, arm)
    training = _scanned(places, arm) if stream else whole
    require_unseen([source for log in training for source in sources_of(log)], others, _OTHER_MOTION)
    if hold_out:
        training, others = _split(whole, hold_out)
        whole = training
    estimator: Estimator | None = None if method is None else METHODS[method]
    if consistent:
        left_out = ("offset",) if no_offsets else ()
        estimator = PhysicallyConsistent(prior=believed, covariance="correlated", left_out=left_out)
    with nullcontext() if out is None else folder_for(out):
        with spoken_progress("identifying", STEPS, verbose=verbose) as talk:
            found = identify_logs(arm, training, estimator, Treatment.automatic(settings), gpu=gpu, progress=talk)
        verdict, feasibility = validate(found, others) if others else None, check_feasible(found)
        findings = explain((*found.findings, *feasibility.findings(found), *unlike_the_fit(found.conditioning, others)))
        inputs = [
            *places,
            *apart,
            *(one for one in (conditioning, drives) if one),
            *_robot_files(robot, prior),
        ]
        record = _run(found, inputs, {"given": robot, **options.to_dict()}, out, perf_counter() - start)
        if out is not None:
            with replacing(out, FILES) as folder:
                _write(folder, found, verdict, record)
                if report:
                    judged_report(folder / "report.html", found, feasibility, others, whole, record, verdict)
    say_findings(findings, verbose=verbose)
    if as_json:
        typer.echo(json.dumps(_data(found, verdict, feasibility, findings), indent=1))
    else:
        _show(found, verdict, feasibility, findings, record, verbose=verbose)
    if out is not None:
        say(f"written to {out}: {', '.join(name for name in FILES if (out / name).is_file())}")
        say_next("check", out)
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise typer.Exit(ExitCode.NO)


def _drives(path: Path | None) -> tuple[Drive, ...]:
    return () if path is None else read_drives(read_text(path))


def _require_apart(one: str, others: Mapping[str, bool]) -> None:
    for other, given in others.items():
        if given:
            raise InputError(f"{one} and {other} exclude each other", hint="leave one of them out")


def _split(logs: Sequence[Log], part: float) -> tuple[list[Log], list[Log]]:
    """Every log without its last part, and those parts."""
    if not 0 < part < 1:
        raise InputError(
            f"--hold-out {part:g} is no share of a log, which is between 0 and 1",
            hint="--hold-out 0.3 keeps the last 30 % apart",
        )
    ends = [round((1 - part) * len(log)) for log in logs]
    cut = list(zip(logs, ends, strict=True))
    first, last = [log.take(slice(0, end)) for log, end in cut], [log.take(slice(end, len(log))) for log, end in cut]
    if all(never_moves(log) for log in first) and not all(never_moves(log) for log in last):
        raise InputError(
            f"all motion is in the last {100 * part:g} % of the logs, which --hold-out keeps apart",
            hint="state rows = [first, end] of the motion in the log's sidecar, or leave --hold-out out",
        )
    return first, last


def _scanned(paths: Sequence[Place], robot: Robot) -> list[LogScan]:
    return [scan_log(path, robot) for path in paths]


def _conditioning(path: Path | None) -> Conditioning | None:
    if path is None:
        return None
    hint = "a line of it is like: position_cutoff_hz = 20.0"
    return Conditioning.from_dict(read_toml(path, "file of settings", InputError, hint))


def _robot_files(*robots: str | None) -> list[Path]:
    return [Path(one) for one in robots if one is not None and Path(one).is_file()]


def _show(
    found: Estimate,
    verdict: Verdict | None,
    feasibility: Feasibility,
    findings: Sequence[Finding],
    record: Mapping[str, Any],
    *,
    verbose: bool,
) -> None:
    """Is the model good, can it be used, what next; with `verbose` every parameter and every reason too."""
    rows = parameter_rows(found, None)
    answers = {one.question: one.holds for one in feasibility.answers}
    data = verdict_data(
        fit_verdict(found) if verdict is None else verdict,
        held_out=verdict is not None,
        within=feasibility.consistent.as_likely,
        findings=findings,
    )
    joints = found.regressor.joint_names
    summary = summary_of(
        data, joints, rows, answers, can_exist(answers), str(record["robot"]["given"]), str(record["folder"] or "")
    )
    if verbose:
        show(found.table())
        show()
    for sentence in (f"{summary.headline} {summary.reason}", summary.physical, summary.data):
        show(sentence)
    show()
    show_verdict(found, data)
    show()
    for one in summary.advice:
        show(f"-> {one.sentence}")
    if verbose:
        show(f"\nCan an arm have these values?\n{feasibility}")


def _data(
    found: Estimate, verdict: Verdict | None, feasibility: Feasibility, findings: Sequence[Finding]
) -> dict[str, Any]:
    return {
        "parameters": columns_of(found),
        "status": found.status,
        "settings": _settings(found),
        "cross_validated": None if found.cross_validated is None else asdict(found.cross_validated),
        "identifiable": found.identifiable and asdict(found.identifiable),
        "findings": [finding.to_dict() for finding in findings],
        "validation": None if verdict is None else verdict.to_dict(),
        "feasibility": feasibility.to_dict(),
    }


def _settings(found: Estimate) -> dict[str, Any]:
    return {"method": found.method, **found.treatment.to_dict(), "left_out": list(found.left_out)}


def _write(out: Path, found: Estimate, verdict: Verdict | None, record: dict[str, Any]) -> None:
    found.save(out / "estimate.json")
    table = BytesIO()
    found.to_frame().write_parquet(table)
    write_whole(out / "parameters.parquet", table.getvalue())
    if verdict is not None:
        write_whole(out / "validation.json", json.dumps(verdict.to_dict(), indent=1) + "\n")
    write_whole(out / "run.json", json.dumps(record, indent=1) + "\n")


def _run(
    found: Estimate, inputs: Sequence[Place], robot: Mapping[str, Any], out: Path | None, seconds: float
) -> dict[str, Any]:
    """What is needed to repeat the run."""
    return {
        "command": [without_credentials(word) for word in sys.argv],
        "folder": None if out is None else str(out),
        "robot": dict(robot),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "inputs": [{"path": s.path, "sha256": s.sha256} for path in inputs for s in source_of(path)],
        "versions": package_versions(),
        "settings": _settings(found),
        "status": found.status,
    }
