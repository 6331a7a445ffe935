"""`mindyn report`: write a report about a run or an estimate as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mindyn.cli.arguments import JSON_OPTION, MESHES_OPTION, split_assignment
from mindyn.cli.output_files import HTML_ENDINGS, list_run_inputs, require_output_file
from mindyn.cli.printing import print_json, print_notes, print_status
from mindyn.cli.runs import load_run_estimate, read_logs, require_held_out, simulate_first_log
from mindyn.foundation.atomic_files import locate_beside
from mindyn.foundation.errors import Code, InputError, list_names
from mindyn.foundation.safe_reading import read_json

if TYPE_CHECKING:
    from mindyn.applications.validation.validate import Validation
    from mindyn.identification.elasticity.records import Elasticity
    from mindyn.robots.meshes import Meshes
    from mindyn.robots.robot import Robot

_TRAINING_LOG_HINT: Final = "pass it with --train, and a log of another motion with --validate"


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Folders of `mindyn identify --out`, or estimate.json files. The report is about the first one and "
            "compares it with the others.",
        ),
    ],
    held_out: Annotated[
        list[Path] | None, typer.Option("--validate", help="Held-out log for validation. Repeatable.")
    ] = None,
    training: Annotated[
        list[Path] | None, typer.Option("--train", help="Training log, to show its torques and motion. Repeatable.")
    ] = None,
    compare: Annotated[
        list[str] | None, typer.Option(help="NAME=ESTIMATE.json: another estimate for the comparison. Repeatable.")
    ] = None,
    prior: Annotated[str | None, typer.Option(help="Prior robot for the comparison: bundled name or file.")] = None,
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    meshes: Annotated[bool, MESHES_OPTION] = False,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Write a report about the quality of an estimate, as a single self-contained HTML file."""
    from mindyn.applications.validation.validate import validate
    from mindyn.identification.feasibility.check_feasible import check_feasible
    from mindyn.output.report.write_report import write_report
    from mindyn.robots.loading import load_matching

    run, estimate = runs[0], load_run_estimate(runs[0])
    require_output_file(out, HTML_ENDINGS, list_run_inputs(run))
    (name, _), *other_runs = _name_runs(runs)
    example = "--compare ordinary=other/estimate.json"
    pairs = [split_assignment("--compare", "NAME=FILE", entry, example) for entry in compare or ()]
    named = [*other_runs, *((other, Path(file)) for other, file in pairs)]
    others = {other: load_run_estimate(path) for other, path in named}
    validation_logs = read_logs(held_out or (), estimate.robot, estimate.settings.conditioning)
    training_logs = read_logs(training or (), estimate.robot)
    trained = [*estimate.data.sources, *(source for log in training_logs for source in log.sources)]
    require_held_out(trained, validation_logs, _TRAINING_LOG_HINT)
    before = None if prior is None else load_matching(prior, estimate.robot)
    feasibility = check_feasible(estimate)
    earlier = None if validation_logs else _read_validation(run)
    record = {**_read_run_file(run / "run.json", "record"), "validation": earlier, "folder": str(run)}
    record["inputs"] = [{**entry, "path": locate_beside(entry["path"], run)} for entry in record.get("inputs", ())]
    record |= {"name": name} if others else {}
    drawn = _find_meshes(record, prior, estimate.robot) if meshes else None
    verdict = validate(estimate, validation_logs) if validation_logs else None
    write_report(
        estimate,
        out,
        validation_logs=validation_logs,
        validation=verdict,
        training_logs=training_logs,
        feasibility=feasibility,
        motion=simulate_first_log(estimate, validation_logs or training_logs),
        comparison=others,
        prior=before,
        run=record,
        meshes=drawn,
        elasticity=_load_elasticity(run),
    )
    if verdict is not None and not as_json:
        print_status(f"the torque error on {list_names([log.name for log in validation_logs])} is {_format(verdict)}")
    print_status(f"wrote {out}: open it in a browser")
    if as_json:
        validation = earlier if verdict is None else verdict.to_dict()
        summary = {"report": str(out), "feasibility": feasibility.to_dict(), "validation": validation}
        print_json(summary)


def _format(validation: Validation) -> str:
    """Return the error over all joints and that of the weakest joint."""
    import numpy as np

    error = validation.error
    weakest = int(np.nanargmax(np.where(np.isfinite(error.relative), error.relative, -1.0)))
    at_weakest = f"{100 * error.relative[weakest]:.3g} % at {error.joint_names[weakest]}, the weakest joint"
    total = f"{100 * error.total:.3g} % over all joints, {at_weakest}"
    return total + (": predicting zero would be better" if error.total > 1 else "")


def _load_elasticity(run: Path) -> Elasticity | None:
    """Load the elasticity of the joints of a run; None if it has none."""
    from mindyn.identification.elasticity.records import ELASTICITY_FILE, load_elasticity

    path = (run if run.is_dir() else run.parent) / ELASTICITY_FILE
    return load_elasticity(path) if path.is_file() else None


def _find_meshes(record: Mapping[str, Any], prior: str | None, robot: Robot) -> Meshes | None:
    """Read the meshes of the robot file of the run, or of --prior; print notes about missing files."""
    from mindyn.robots.meshes import read_meshes

    stated = record.get("robot")
    given = str(stated.get("given", "")) if isinstance(stated, Mapping) else ""
    mesh_source = locate_beside(given, Path(record["folder"])) if given else ""
    source = mesh_source if Path(mesh_source).is_file() else prior or given
    if not source:
        print_status("note: no meshes are drawn, because the robot file is not known; pass it with --prior FILE")
        return None
    drawn = read_meshes(source, robot)
    print_notes(drawn.findings)
    return drawn


def _name_runs(runs: Sequence[Path]) -> list[tuple[str, Path]]:
    """Name runs by their folders or, if those are equal, by their paths."""
    short = [(path.parent if path.name == "estimate.json" else path).absolute().name for path in runs]
    if len(set(short)) < len(short):
        short = [str(path) for path in runs]
    if len(set(short)) < len(short):
        raise InputError(
            "an estimate is given more than once", hint="pass each estimate once", code=Code.DUPLICATE, subject="RUN"
        )
    return list(zip(short, runs, strict=True))


def _read_run_file(path: Path, what: str) -> dict[str, Any]:
    """Read a JSON file of a run; empty if the file does not exist."""
    if not path.is_file():
        return {}
    return read_json(path, f"{what} of a run", InputError)


def _read_validation(run: Path) -> dict[str, Any] | None:
    """Read the validation of the run and print a note about it; None without one."""
    path = run / "validation.json"
    record = _read_run_file(path, "validation")
    if not record:
        return None
    if not isinstance(record.get("total"), float):
        raise InputError(
            f"{path} is not the validation of a run: it has no number `total`",
            code=Code.WRONG_FORMAT,
            subject=path.name,
        )
    print_status(
        f"note: without --validate LOG, this report draws no held-out motion; {run / 'report.html'} draws that of the "
        f"run, with a torque error of {100 * record['total']:.3g} %"
    )
    return record
