"""`mindyn identify`: estimate parameters from logs, with validation, report and a record of the run."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from mindyn.cli.arguments import (
    JSON_OPTION,
    ROBOT_ARGUMENT,
    VERBOSE_OPTION,
    assignment_error,
    complete_from,
    hold_unlogged_gripper,
    option_group,
    require_companion,
    require_exclusive,
    with_robot_options,
)
from mindyn.cli.choices import ELASTICITY_FILE, METHOD_NAMES, SERVO_METHOD_NAMES
from mindyn.cli.elasticity_command import elasticity_data
from mindyn.cli.exit_codes import ExitCode
from mindyn.cli.log_command import has_columns
from mindyn.cli.next_step import print_next_command
from mindyn.cli.printing import count_messages, print_findings, print_json, print_output, print_status
from mindyn.cli.runs import (
    CALIBRATION_FILE,
    find_missing_velocity,
    print_verdict,
    read_logs,
    require_held_out,
    simulate_first_log,
)
from mindyn.cli.servo_runs import SERVO_RUN_FILES, ServoRun, has_servo_logs, run_servos
from mindyn.foundation.atomic_files import (
    make_output_folder,
    relative_path,
    replace_folder_files,
    write_file_atomically,
)
from mindyn.foundation.errors import Code, InputError, MindynError, require_choice
from mindyn.foundation.findings import Finding, Kind
from mindyn.foundation.hints import Command
from mindyn.foundation.safe_reading import read_settings_toml
from mindyn.logs.locations import FileLocation, expand_locations, strip_credentials

if TYPE_CHECKING:
    from mindyn.applications.validation.validate import Validation
    from mindyn.identification.elasticity.records import Elasticity
    from mindyn.identification.estimators.estimate import Estimate
    from mindyn.identification.estimators.estimator import Estimator
    from mindyn.identification.feasibility.check_feasible import Feasibility
    from mindyn.identification.unknown_gains import Scale
    from mindyn.logs.log import Log
    from mindyn.output.report.verdict import Commands, VerdictData
    from mindyn.robots.loading import RobotOptions
    from mindyn.robots.robot import Robot

RUN_FILES: Final = (
    *("estimate.json", "parameters.parquet", "validation.json", "run.json", "report.html"),
    ELASTICITY_FILE,
)
"""Files of a run folder; those of an earlier run are replaced together, so that the folder describes one run."""
IDENTIFY_PROGRESS_STEPS: Final = 11
"""Approximate number of progress messages of `identify`."""
USUAL_SECONDS: Final = 20.0
"""Default length of the motions of `mindyn excite`."""
_HELD_OUT_HINT: Final = "pass a log of another motion to --validate, or omit it"


@dataclass(frozen=True, slots=True)
class MethodOptions:
    """The options --consistent to --servo: how the parameters are fitted; None: selected by the logs."""

    consistent: bool
    method: str | None
    prior: str | None
    no_offsets: bool
    servo: bool | None


def parse_method_options(
    consistent: Annotated[
        bool, typer.Option("--consistent", help="Fit with physical consistency constraints.")
    ] = False,
    method: Annotated[
        str | None,
        typer.Option(
            help=f"Instead of the selected method: {', '.join(METHOD_NAMES)}; "
            f"for position targets: {', '.join(SERVO_METHOD_NAMES)}.",
            autocompletion=complete_from((*METHOD_NAMES, *SERVO_METHOD_NAMES)),
            metavar="NAME",
        ),
    ] = None,
    prior: Annotated[
        str | None, typer.Option(help="With --consistent: robot with trusted inertials.", metavar="ROBOT")
    ] = None,
    no_offsets: Annotated[bool, typer.Option("--no-offsets", help="With --consistent: fit no torque offsets.")] = False,
    servo: Annotated[
        bool | None,
        typer.Option(
            "--servo/--no-servo",
            help="Estimate position servos by simulation, with the masses of the file. Default: if the logs have "
            "targets, no torques and an unknown kp.",
        ),
    ] = None,
) -> MethodOptions:
    """Return the options of the fit that a command line gives. Raise if they contradict each other."""
    require_companion("--prior", prior is not None, "--consistent", consistent)
    require_companion("--no-offsets", no_offsets, "--consistent", consistent)
    require_exclusive({"--method": method is not None, "--consistent": consistent})
    return MethodOptions(consistent, method, prior, no_offsets, servo)


@dataclass(frozen=True, slots=True)
class GainOptions:
    """The options --scale to --mass: what fixes the common scale of unknown gains."""

    scale: str
    loaded: list[str] | None
    mass: float | None


def parse_gain_options(
    scale: Annotated[
        str,
        typer.Option(
            help="What fixes their common scale: robot (gravity parameters of its file), free, or a known base "
            "parameter NAME=VALUE."
        ),
    ] = "robot",
    loaded: Annotated[list[str] | None, typer.Option(help="Log with a load of known mass. Repeatable.")] = None,
    mass: Annotated[float | None, typer.Option(help="Mass of the load of --loaded, kg.")] = None,
) -> GainOptions:
    """Return the options of unknown gains that a command line gives. Raise if they contradict each other."""
    require_companion("--loaded", loaded is not None, "--mass", mass is not None)
    require_companion("--mass", mass is not None, "--loaded", loaded is not None)
    require_exclusive({"--loaded": loaded is not None, "--scale": scale != "robot"})
    return GainOptions(scale, loaded, mass)


@with_robot_options
@option_group("fit", parse_method_options, "Method")
@option_group("gains", parse_gain_options, "Unknown gains")
def identify(
    robot: Annotated[str, ROBOT_ARGUMENT],
    logs: Annotated[
        list[str],
        typer.Argument(
            help="Training logs: files, URLs (s3://...) or patterns; a sidecar .toml describes the columns of each."
        ),
    ],
    held_out: Annotated[
        list[str] | None, typer.Option("--validate", help="Held-out log for validation. Repeatable.")
    ] = None,
    hold_out: Annotated[float, typer.Option(help="Fraction at the end of every log that is held out, as 0.3.")] = 0.0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder for estimate and report; replaces an earlier run.", rich_help_panel="Output"
        ),
    ] = None,
    conditioning: Annotated[Path | None, typer.Option(help=".toml file with conditioning settings.")] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Read training logs in blocks, if memory is short.")] = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write report.html into --out.", rich_help_panel="Output")
    ] = True,
    *,
    fit: MethodOptions,
    drives: Annotated[
        Path | None, typer.Option(help=".toml file with drive tables, for robot files without drives.")
    ] = None,
    gains: GainOptions,
    as_json: Annotated[bool, JSON_OPTION] = False,
    verbose: Annotated[bool, VERBOSE_OPTION] = False,
    options: RobotOptions,
) -> None:
    """Identify the dynamic parameters of a robot from its logs."""
    from mindyn.logs.conditioning import Conditioning
    from mindyn.logs.read_log import scan_log
    from mindyn.robots.loading import load_matching
    from mindyn.robots.safe_robot_files import read_text
    from mindyn.robots.toml_format import read_drives

    fixed_scale = _parse_scale(gains.scale)
    of_masses = {
        "--method": fit.method is not None,
        "--consistent": fit.consistent,
        "--loaded": gains.loaded is not None,
        "--scale": gains.scale != "robot",
        "--conditioning": conditioning is not None,
        "--stream": stream,
    }
    for option, is_set in of_masses.items():
        require_exclusive({option: is_set, "--servo": fit.servo is True})
    require_exclusive({"--hold-out": hold_out, "--validate": held_out})
    for option, given in {"--method": fit.method is not None, "--hold-out": hold_out}.items():
        require_exclusive({option: given, "--stream": stream})
    if fit.method is not None:
        from mindyn.identification.method_names import METHODS, SERVO_METHODS

        require_choice(fit.method, {**METHODS, **SERVO_METHODS}, "--method")
    places, apart, weighed = (expand_locations(given or ()) for given in (logs, held_out, gains.loaded))
    resolved = [place.resolve() if isinstance(place, Path) else place for place in places]
    if twice := [str(path) for k, path in enumerate(places) if resolved[k] in resolved[:k]]:
        raise InputError(
            f"logs are given more than once: {', '.join(twice)}",
            hint="pass each log once",
            code=Code.DUPLICATE,
            subject=twice[0],
        )
    start = perf_counter()
    given_drives, settings = () if drives is None else read_drives(read_text(drives)), None
    arm, options = hold_unlogged_gripper(
        options.load(robot, given_drives),
        options,
        lambda changed: changed.load(robot, given_drives),
        lambda candidate: has_columns(places[0], candidate),
    )
    if conditioning is not None:
        content = read_settings_toml(conditioning, "file of settings", InputError, "such as motion_hz = 20.0")
        settings = Conditioning.from_dict(content)
    prior_model: Robot | Literal["robot"] = "robot" if fit.prior is None else load_matching(fit.prior, arm)
    whole, others = [] if stream else read_logs(places, arm, are_training=True), read_logs(apart, arm)
    training = [scan_log(place, arm) for place in places] if stream else whole
    from mindyn.regression.gathered_log import sources_of

    require_held_out([source for log in training for source in sources_of(log)], others, _HELD_OUT_HINT)
    if hold_out:
        training, others = _split_logs(whole, hold_out)
        whole = training
    if fit.servo or (fit.servo is None and not any(of_masses.values()) and has_servo_logs([*training, *others])):
        described = {"given": robot, **options.to_dict()}
        files = [*places, *apart, *([Path(robot)] if Path(robot).is_file() else [])]
        obsolete = (*RUN_FILES, CALIBRATION_FILE)
        with nullcontext() if out is None else make_output_folder(out):
            run_servos(ServoRun(arm, whole, others, files, described, out, obsolete, verbose=verbose, as_json=as_json))
        return
    if any(log.metadata.phases for log in others):
        message, hint = "logs with phases cannot be validated", "identify prints their error on held-out blocks"
        raise InputError(message, hint=hint, code=Code.UNSUPPORTED, subject="phases")
    whole = [log for log in whole if not log.metadata.phases]  # unknown contact forces leave no torque to predict

    # Imported after the logs are read, so that errors of logs come at once.
    from mindyn.applications.validation.validate import validate
    from mindyn.identification.diagnostics.diagnose import explain
    from mindyn.identification.feasibility.check_feasible import check_feasible
    from mindyn.identification.feasibility.fits.physically_consistent import PhysicallyConsistent
    from mindyn.identification.identify import identify as identify_logs
    from mindyn.identification.method_names import METHODS, SERVO_METHODS
    from mindyn.identification.prediction.prediction import predict_log
    from mindyn.identification.unknown_gains import WeighedLoad
    from mindyn.output.export.write_checks import choose_format
    from mindyn.output.report.verdict import Commands, build_verdict, refit_words
    from mindyn.output.report.write_report import write_report
    from mindyn.regression.settings import EquationSettings

    estimator: Estimator | None = None if fit.method is None else {**METHODS, **SERVO_METHODS}[fit.method]
    if fit.consistent:
        dropped = ("offset",) if fit.no_offsets else ()
        estimator = PhysicallyConsistent(prior=prior_model, covariance="correlated", dropped=dropped)
    with nullcontext() if out is None else make_output_folder(out):
        with count_messages("identifying", IDENTIFY_PROGRESS_STEPS, verbose=verbose) as talk:
            estimate = identify_logs(
                arm,
                training,
                estimator,
                EquationSettings.automatic(settings),
                progress=talk,
                scale=fixed_scale if gains.mass is None else WeighedLoad(read_logs(weighed, arm), gains.mass),
            )
        elasticity = _identify_elasticity(estimate, whole)
        verdict, feasibility = validate(estimate, others) if others else None, check_feasible(estimate)
        findings = explain(
            (
                *estimate.findings,
                *feasibility.findings(estimate),
                *find_missing_velocity(estimate.settings.conditioning, others),
            )
        )
        robots = [Path(name) for name in (robot, fit.prior) if name is not None and Path(name).is_file()]
        inputs = [*places, *apart, *(place for place in (conditioning, drives) if place), *robots]
        record = _run_record(
            estimate, inputs, others, {"given": robot, **options.to_dict()}, out, perf_counter() - start
        )
        notes: list[str] = []
        if out is not None:
            with replace_folder_files(out, (*RUN_FILES, *SERVO_RUN_FILES, CALIBRATION_FILE)) as folder:
                _write_run(folder, out, estimate, verdict, record)
                if elasticity is not None:
                    elasticity.save(folder / ELASTICITY_FILE, out)
                if report:
                    write_report(
                        estimate,
                        folder / "report.html",
                        validation_logs=others,
                        validation=verdict,
                        training_logs=whole,
                        feasibility=feasibility,
                        motion=simulate_first_log(estimate, others or whole, notes),
                        run=record,
                        elasticity=elasticity,
                    )
    following = ""
    if verdict is not None:
        predictions = list(verdict.predictions)
    else:  # for patterns, which JSON does not have
        predictions = [] if as_json else [predict_log(estimate, log) for log in whole]
    shown = build_verdict(estimate, verdict, predictions, findings)
    if as_json:
        more = {} if elasticity is None else {"elasticity": elasticity_data(elasticity)}
        print_json(_result_data(estimate, verdict, feasibility, findings) | more)
    else:
        refit = str(Command(*refit_words(record)))
        commands = Commands(robot, "" if out is None else str(out), choose_format(arm), refit)
        seconds = sum(log.duration_s for log in whole) if whole else None
        following = _print_result(estimate, shown, feasibility, commands, seconds, verbose=verbose)
        if elasticity is not None:
            print_output()
            print_output(elasticity.table())
    print_findings(findings, verbose=verbose)
    for note in notes:
        print_status(note)
    if out is not None:
        print_status(f"wrote {out}: {', '.join(name for name in RUN_FILES if (out / name).is_file())}")
        print_next_command(*(shlex.split(following)[1:] or ("check", out)))
    else:
        print_status("not saved; add --out run1")
    if shown.is_unusable:
        raise typer.Exit(ExitCode.NO)


def _identify_elasticity(estimate: Estimate, logs: Sequence[Log]) -> Elasticity | None:
    """Return the elasticity of the joints from the logs with motor positions; None if there are none."""
    from mindyn.identification.elasticity.identify_elasticity import identify_elasticity

    both = [log for log in logs if log.motor_q is not None]
    if not both:
        return None
    try:
        return identify_elasticity(estimate, both)
    except MindynError as error:
        print_status(f"note: no elasticity of the joints: {error.message}")
        return None


def _parse_scale(text: str) -> Scale:
    if text in ("robot", "free"):
        return text  # type: ignore[return-value]
    name, _, value = text.partition("=")
    try:
        return {name.strip(): float(value)}
    except ValueError:
        example = "--scale mcz2R=-0.31; mindyn base --drives lists the parameters"
        raise assignment_error("--scale", "robot, free or NAME=VALUE", text, example) from None


def _split_logs(logs: Sequence[Log], part: float) -> tuple[list[Log], list[Log]]:
    """Split every log into its first part and its held-out end."""
    from mindyn.foundation.algebra.requirements import require_number
    from mindyn.identification.selection.choose import never_moves

    require_number(part, "--hold-out", "(0, 1)", "such as --hold-out 0.3, which holds out the last 30 %")
    ends = [round((1 - part) * len(log)) for log in logs]
    cut = list(zip(logs, ends, strict=True))
    first = [_take_rows(log, slice(0, end)) for log, end in cut]
    last = [_take_rows(log, slice(end, len(log))) for log, end in cut]
    if all(never_moves(log) for log in first) and not all(never_moves(log) for log in last):
        raise InputError(
            f"all motion is in the last {100 * part:g} % of the logs, which --hold-out excludes from training",
            hint="set rows = [first, end] of the motion in the sidecar of the log, or omit --hold-out",
            code=Code.TOO_LITTLE_DATA,
            subject="--hold-out",
        )
    return first, last


def _take_rows(log: Log, part: slice) -> Log:
    """Return a part of a log whose sources name the rows of the file."""
    taken = log.take(part)
    if not len(taken):
        return taken
    rows = int(taken.rows[0]), int(taken.rows[-1]) + 1
    return replace(taken, sources=tuple(replace(source, rows=rows) for source in taken.sources))


def _print_result(
    estimate: Estimate,
    verdict: VerdictData,
    feasibility: Feasibility,
    commands: Commands,
    seconds: float | None,
    *,
    verbose: bool,
) -> str:
    """Print quality, use and next steps, with `verbose` also all parameters and reasons; return the next command.

    seconds  duration of the training logs, if it is known
    """
    from mindyn.output.report.parameter_rows import parameter_rows
    from mindyn.output.report.verdict import summarize_verdict

    summary = summarize_verdict(verdict, parameter_rows(estimate), feasibility.answers, commands)
    if verbose:
        print_output(estimate.table())
        print_output()
    length = "" if seconds is None else f" The logs of the fit have {seconds:.3g} s{_describe_length(seconds)}."
    for sentence in (f"{summary.headline} {summary.reason}", summary.physical, f"{summary.data}{length}"):
        print_output(sentence)
    print_output()
    print_verdict(verdict)
    print_output()
    for gain in (line for f in estimate.findings if f.kind is Kind.ESTIMATED_GAINS for line in f.details):
        print_output(f"gain of {gain}")
    for item in summary.advice:
        print_output(f"-> {item.sentence}")
    if verbose:
        print_output(f"\nPhysically consistent?\n{feasibility}")
    return next((item.command for item in summary.advice if item.command), "")


def _describe_length(seconds: float) -> str:
    """Return how logs compare with the motions that `mindyn excite` designs, if they are shorter."""
    return f", which is short: mindyn excite designs {USUAL_SECONDS:g} s" if seconds < USUAL_SECONDS / 2 else ""


def _result_data(
    estimate: Estimate, verdict: Validation | None, feasibility: Feasibility, findings: Sequence[Finding]
) -> dict[str, Any]:
    from mindyn.identification.estimators.estimate import columns_of

    return {
        "parameters": columns_of(estimate),
        "status": estimate.status,
        "settings": _settings_data(estimate),
        "cross_validated": None if estimate.data.cross_validated is None else asdict(estimate.data.cross_validated),
        "friction_curves": [curve.to_dict() for curve in estimate.uncertainty.friction_curves],
        "identifiable": estimate.data.identifiable and asdict(estimate.data.identifiable),
        "findings": [finding.to_dict() for finding in findings],
        "validation": None if verdict is None else verdict.to_dict(),
        "feasibility": feasibility.to_dict(),
    }


def _settings_data(estimate: Estimate) -> dict[str, Any]:
    return {
        "method": estimate.provenance.method,
        **estimate.settings.to_dict(),
        "dropped": list(estimate.values.dropped),
    }


def _write_run(
    folder: Path, out: Path, estimate: Estimate, verdict: Validation | None, record: Mapping[str, Any]
) -> None:
    """Write the files of a run into a folder that will become `out`, with paths as seen from there."""
    estimate.save(folder / "estimate.json", out)
    table = BytesIO()
    estimate.to_frame().write_parquet(table)
    write_file_atomically(folder / "parameters.parquet", table.getvalue())
    if verdict is not None:
        write_file_atomically(folder / "validation.json", json.dumps(verdict.to_dict(), indent=1) + "\n")
    files = {
        key: [{**entry, "path": relative_path(entry["path"], out)} for entry in record[key]]
        for key in ("inputs", "held_out")
    }
    write_file_atomically(folder / "run.json", json.dumps({**record, **files}, indent=1) + "\n")


def _run_record(
    estimate: Estimate,
    inputs: Sequence[FileLocation],
    held_out: Sequence[Log],
    robot: Mapping[str, Any],
    out: Path | None,
    seconds: float,
) -> dict[str, Any]:
    """Return the record with which the run can be repeated."""
    from mindyn.logs.log import hash_sources
    from mindyn.output.report.provenance_section import package_versions
    from mindyn.regression.gathered_log import sources_of

    return {
        "command": [strip_credentials(word) for word in sys.argv],
        "folder": None if out is None else str(out),
        "robot": dict(robot),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "inputs": [{"path": s.path, "sha256": s.sha256} for path in inputs for s in hash_sources(path)],
        "held_out": [asdict(source) for log in held_out for source in sources_of(log)],
        "versions": package_versions(),
        "settings": _settings_data(estimate),
        "status": estimate.status,
    }
