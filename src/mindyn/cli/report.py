"""`mindyn report`: a finished run, or an estimate, as one HTML file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mindyn.cli.arguments import JSON_OPTION, MESHES_OPTION
from mindyn.cli.printing import print_status
from mindyn.cli.runs import load_run_estimate, read_logs, require_held_out, write_run_report
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.feasibility.check import check_feasible
from mindyn.reading import read_json
from mindyn.robots.loading import load_matching
from mindyn.robots.meshes import Meshes, read_meshes
from mindyn.robots.robot import Robot
from mindyn.validation.validate import validate

_TRAINING_LOG_HINT: Final = "--train LOG shows it as what it is; give --validate a log of another motion"


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Folders that `mindyn identify --out` wrote, or estimate.json files: a report of the first, with the "
            "others beside it by the names of their folders.",
        ),
    ],
    held_out: Annotated[list[Path] | None, typer.Option("--validate", help="A log that was not trained on.")] = None,
    training: Annotated[list[Path] | None, typer.Option("--train", help="A log that was trained on.")] = None,
    compare: Annotated[
        list[str] | None, typer.Option(help="NAME=ESTIMATE.json: another estimate, judged alike.")
    ] = None,
    prior: Annotated[str | None, typer.Option(help="The robot before: a bundled name or a file.")] = None,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("report.html"),
    meshes: Annotated[bool, MESHES_OPTION] = False,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Write a report: is the model good, and why. One file that opens from disk and loads nothing."""
    run, estimate = runs[0], load_run_estimate(runs[0])
    (name, _), *beside = _name_runs(runs)
    others = {other: load_run_estimate(path) for other, path in beside} | dict(
        _parse_comparison(entry) for entry in compare or ()
    )
    judged_on = read_logs(held_out or (), estimate.robot, estimate.conditioning)
    trained_on = read_logs(training or (), estimate.robot)
    of_fit = estimate.sources
    require_held_out(
        [*of_fit, *(source for log in trained_on for source in log.sources)], judged_on, _TRAINING_LOG_HINT
    )
    before = None if prior is None else load_matching(prior, estimate.robot)
    feasibility = check_feasible(estimate)
    earlier = None if judged_on else _read_validation(run)
    record = {**_read_run_file(run / "run.json", "record"), "validation": earlier, "folder": str(run)}
    record |= {"name": name} if others else {}
    drawn = _find_meshes(record, prior, estimate.robot) if meshes else None
    verdict = validate(estimate, judged_on) if judged_on else None
    write_run_report(out, estimate, feasibility, judged_on, trained_on, record, verdict, others, before, drawn)
    print_status(f"written to {out}: open it in a browser")
    if as_json:
        told = earlier if verdict is None else verdict.to_dict()
        said = {"report": str(out), "feasibility": feasibility.to_dict(), "validation": told}
        typer.echo(json.dumps(said, indent=1))


def _find_meshes(record: Mapping[str, Any], prior: str | None, robot: Robot) -> Meshes | None:
    """What the robot looks like, by the file that the run was made with, else by --prior; what is missing is said."""
    stated = record.get("robot")
    given = str(stated.get("given", "")) if isinstance(stated, Mapping) else ""
    source = given if Path(given).is_file() else prior or given
    if not source:
        print_status("note: no meshes are drawn: nothing says which file the robot is of; --prior FILE does")
        return None
    found = read_meshes(source, robot)
    for finding in found.findings:
        print_status(f"note: {finding}")
    return found


def _name_runs(runs: Sequence[Path]) -> list[tuple[str, Path]]:
    """Estimates by the shortest names that tell them apart."""
    short = [(path.parent if path.name == "estimate.json" else path).absolute().name for path in runs]
    if len(set(short)) < len(short):
        short = [str(path) for path in runs]
    if len(set(short)) < len(short):
        raise InputError("an estimate is given more than once", hint="give each once")
    return list(zip(short, runs, strict=True))


def _read_run_file(path: Path, what: str) -> dict[str, Any]:
    """The table in a file of a run; empty where there is no file."""
    if not path.is_file():
        return {}
    return read_json(path, f"{what} of a run", InputError)


def _read_validation(run: Path) -> dict[str, Any] | None:
    """What held-out logs said when the run was made, also told on stderr; None where nothing is known."""
    path = run / "validation.json"
    said = _read_run_file(path, "validation")
    if not said:
        return None
    if not isinstance(said.get("total"), float):
        raise InputError(f"{path} is not the validation of a run: it has no number `total`")
    print_status(
        f"note: when the run was made it missed {100 * said['total']:.3g} % of the torque of held-out logs; "
        "--validate LOG shows them in the report"
    )
    return said


def _parse_comparison(entry: str) -> tuple[str, Estimate]:
    name, mark, path = entry.partition("=")
    if not (name and mark and path):
        raise InputError(f"--compare {entry!r} has no name", hint="--compare ordinary=other/estimate.json")
    return name, load_run_estimate(Path(path))
