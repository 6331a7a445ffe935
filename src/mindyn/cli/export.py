"""`mindyn export`: what an estimate found as a robot model, as code, or as numbers for MATLAB."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mindyn.cli.arguments import JSON_OPTION, complete_from
from mindyn.cli.next_step import print_next_command
from mindyn.cli.printing import print_status, print_status_lines
from mindyn.cli.runs import RUN_ARGUMENT, load_run_estimate
from mindyn.contact.guiding import hand_guiding
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.export.controller_code import write_hand_guiding_c
from mindyn.export.mat_writer import write_mat
from mindyn.export.mjcf_writer import write_mjcf
from mindyn.export.models import Prior, model_notes
from mindyn.export.mujoco_replay import compare_with_mujoco
from mindyn.export.ros2_package import CONTROL_FUNCTIONS, write_ros2_package
from mindyn.export.toml_writer import write_toml
from mindyn.export.urdf_writer import write_urdf
from mindyn.feasibility.consistent_projection import project_to_consistent
from mindyn.feasibility.full_model import full_model
from mindyn.kernels.model import Model, compile_model
from mindyn.kernels.source_text import Facts
from mindyn.logs.reading import read_log
from mindyn.reading import read_json
from mindyn.robots.loading import load_matching
from mindyn.robots.table import format_table
from mindyn.validation.validate import comparison_table


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """An estimate, where it goes, and how: what every writer is given."""

    estimate: Estimate
    out: Path
    source: Path | None
    prior: Prior
    prefix: str | None
    force: bool
    meshes: bool
    facts: Facts


ExportResult = tuple[Sequence[str], Sequence[Path]]
"""Sentences about what was left out, and the files, or the folder, that were written."""


def _write_urdf_file(o: ExportRequest) -> ExportResult:
    said = write_urdf(o.estimate, o.out, source=o.source, prior=o.prior, force=o.force, meshes=o.meshes)
    return said[1:], [o.out]


def _write_toml_file(order: ExportRequest) -> ExportResult:
    full = full_model(order.estimate, order.prior, force=order.force)
    write_toml(full, order.out, force=order.force)
    return model_notes(order.estimate, full), [order.out]


def _write_code(order: ExportRequest, write: Callable[[Model], Sequence[Path]]) -> ExportResult:
    """Code turns friction over as the fit did, so that it gives the estimate's torques."""
    full = full_model(order.estimate, order.prior, friction="fitted", force=order.force)
    files = write(compile_model(full, drives=True))
    return model_notes(order.estimate, full), files


def _write_c_files(model: Model, order: ExportRequest, path: Path) -> Sequence[Path]:
    return model.write_c(path, CONTROL_FUNCTIONS, prefix=order.prefix, facts=order.facts)


def _write_ros2_files(model: Model, order: ExportRequest, *, solver: bool) -> Sequence[Path]:
    write_ros2_package(model, order.out, facts=order.facts, solver=solver)
    return [order.out]


def _write_hand_guiding(order: ExportRequest) -> ExportResult:
    part = hand_guiding(order.estimate)
    notes, files = _write_code(order, lambda model: write_hand_guiding_c(model, part, order.out, order.facts))
    rows: list[tuple[str, ...]] = [("joint", "sure friction", "holding, +-", "compensated", "viscous, compensated")]
    for j, name in enumerate(part.joint_names):
        numbers = (part.friction[j], part.holding_uncertainty[j], part.coulomb[j], part.viscous[j])
        rows.append((name, *(f"{value:.3g}" for value in numbers)))
    print_status("torques in N m or N, viscous ones for each rad/s or m/s")
    print_status_lines(format_table(rows))
    return (*notes, *map(str, part.findings)), files


def _write_mat_file(order: ExportRequest) -> ExportResult:
    write_mat(order.estimate, order.out)
    return (), [order.out]


FORMAT_WRITERS: Mapping[str, Callable[[ExportRequest], ExportResult]] = {
    "urdf": _write_urdf_file,
    "mjcf": lambda o: (write_mjcf(o.estimate, o.out, source=o.source, prior=o.prior, force=o.force)[1:], [o.out]),
    "toml": _write_toml_file,
    "c": lambda o: _write_code(o, lambda model: _write_c_files(model, o, o.out)),
    "cpp": lambda o: _write_code(o, lambda model: _write_c_files(model, o, o.out.with_suffix(".hpp"))),
    "cuda": lambda o: _write_code(o, lambda model: [model.write_cuda(o.out, CONTROL_FUNCTIONS)]),
    "ros2": lambda o: _write_code(o, lambda model: _write_ros2_files(model, o, solver=False)),
    "ros2-solver": lambda o: _write_code(o, lambda model: _write_ros2_files(model, o, solver=True)),
    "gravity-compensation": _write_hand_guiding,
    "mat": _write_mat_file,
}
"""How each format is written."""


def export(
    run: Annotated[Path, RUN_ARGUMENT],
    to: Annotated[
        str,
        typer.Option("--to", help=f"One of {', '.join(FORMAT_WRITERS)}.", autocompletion=complete_from(FORMAT_WRITERS)),
    ],
    out: Annotated[Path, typer.Option("--out", help="The file to write; for ros2 the folder of the package.")],
    source: Annotated[
        Path | None, typer.Option(help="The URDF or MJCF to edit: all but inertials, friction and armature stays.")
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            help="Where the values leave open which link has what: near the inertials of this robot (a bundled name or "
            "a file), or 'none' for the least mass. Left out: near the estimate's own robot."
        ),
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(help="Of the names of C functions, such as arm_; the name of the file if left out, '' for none."),
    ] = None,
    check: Annotated[
        Path | None, typer.Option(help="A log whose torques MuJoCo predicts with the MJCF, beside the estimate.")
    ] = None,
    mend: Annotated[
        bool, typer.Option("--feasible", help="Move the values to the nearest consistent ones first.")
    ] = False,
    strip_meshes: Annotated[
        bool, typer.Option("--strip-meshes", help="Of a URDF: without meshes, so that simulators load it anywhere.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Write values that no arm can have.")] = False,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Write a full robot model that has the estimate's dynamics, its code, or its numbers."""
    if to not in FORMAT_WRITERS:
        raise InputError(f"--to {to!r} is not known; it may be {', '.join(FORMAT_WRITERS)}", hint="--to urdf")
    if source is not None and to not in ("urdf", "mjcf"):
        raise InputError("--source is edited only with --to urdf and --to mjcf", hint="leave --source out")
    if check is not None and to != "mjcf":
        raise InputError("--check replays a log in MuJoCo, with --to mjcf", hint="leave --check out")
    if source is not None and source.resolve() == out.resolve():
        raise InputError(f"--out {out} would replace the --source it is made from", hint="give --out another name")
    if strip_meshes and to != "urdf":
        raise InputError("--strip-meshes goes with --to urdf alone", hint="leave --strip-meshes out")
    if prefix is not None and to not in ("c", "cpp"):
        raise InputError("--prefix is of C functions, with --to c and --to cpp", hint="leave --prefix out")
    if prefix and not (prefix.isascii() and prefix.isidentifier()):
        raise InputError(f"--prefix {prefix!r} cannot begin the name of a C function", hint="--prefix arm_")
    found = load_run_estimate(run)
    believed: Prior = "robot" if prior is None else None if prior == "none" else load_matching(prior, found.robot)
    found = project_to_consistent(found) if mend else found
    said_of_it, written = FORMAT_WRITERS[to](
        ExportRequest(found, out, source, believed, prefix, force, not strip_meshes, _read_facts(run))
    )
    notes = [note.removeprefix("Note: ") for note in said_of_it]
    for note in notes:
        print_status(f"note: {note}")
    print_status(f"written: {', '.join(map(str, written))}")
    errors = {} if check is None else compare_with_mujoco(found, out, read_log(check, found.robot))
    if errors and not as_json:
        typer.echo(comparison_table(errors))
    if as_json:
        files = sorted(str(path) for place in written for path in (place, *place.rglob("*")) if path.is_file())
        said = {
            "format": to,
            "files": files,
            "robot": found.robot.name,
            "projected": mend,
            "status": found.status,
            "notes": notes,
            "check": {who: {"relative": e.relative.tolist(), "total": e.total} for who, e in errors.items()} or None,
        }
        typer.echo(json.dumps(said, indent=1))
    if to in ("urdf", "mjcf", "toml"):
        print_next_command("robots", out)


def _read_facts(run: Path) -> Facts:
    """What headers define of an estimate: its hash, and when it was made where the run's record stands beside it."""
    folder, file = (run, run / "estimate.json") if run.is_dir() else (run.parent, run)
    facts: list[tuple[str, int | str]] = [("ESTIMATE_SHA256", hashlib.sha256(file.read_bytes()).hexdigest())]
    record = folder / "run.json"
    if file.name == "estimate.json" and record.is_file():
        facts.append(("ESTIMATE_DATE", str(read_json(record, "record of a run", InputError).get("finished", ""))))
    return facts
