"""`mindyn export`: write an estimate as a robot model or as code."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mindyn.cli.arguments import JSON_OPTION, complete_from, require_companion, require_exclusive
from mindyn.cli.next_step import print_next_command
from mindyn.cli.output_files import ROBOT_ENDINGS, list_run_inputs, require_output_file
from mindyn.cli.printing import print_json, print_notes, print_status
from mindyn.cli.projection_errors import ErrorChange, compare_errors
from mindyn.cli.runs import RUN_ARGUMENT, load_run_elasticity, load_run_estimate
from mindyn.cli.servo_export import ServoExport, export_servos, find_servo_run
from mindyn.foundation.atomic_files import write_file_atomically
from mindyn.foundation.errors import Code, ExportError, InputError, require_choice
from mindyn.foundation.safe_reading import read_json
from mindyn.kernels.source_text import Facts

if TYPE_CHECKING:
    from mindyn.identification.elasticity.records import Elasticity
    from mindyn.identification.estimators.estimate import Estimate
    from mindyn.kernels.model import Model
    from mindyn.output.export.write_checks import Prior


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """Arguments of every writer: the estimate, the target and options."""

    estimate: Estimate
    out: Path
    source: Path | None
    prior: Prior
    prefix: str | None
    force: bool
    meshes: bool
    facts: Facts
    elasticity: Elasticity | None = None


ExportResult = tuple[Sequence[str], Sequence[Path]]
"""Notes about omitted parts, and the written files or folder."""


def _write_text(out: Path, text: str, notes: Sequence[str]) -> ExportResult:
    """Write a robot file; the first note is in its header only."""
    write_file_atomically(out, text)
    return notes[1:], [out]


def _write_urdf(request: ExportRequest) -> ExportResult:
    from mindyn.output.export.urdf_writer import render_urdf

    o = request
    return _write_text(o.out, *render_urdf(o.estimate, o.source, o.prior, force=o.force, meshes=o.meshes))


def _write_mjcf(request: ExportRequest) -> ExportResult:
    from mindyn.output.export.mjcf_writer import render_mjcf

    o = request
    written = render_mjcf(o.estimate, o.out, o.source, o.prior, force=o.force, elasticity=o.elasticity)
    return _write_text(o.out, *written)


def _write_actuators(request: ExportRequest) -> ExportResult:
    from mindyn.output.export.servo_actuators import write_isaac_lab

    o = request
    return write_isaac_lab(o.estimate, o.out, prior=o.prior, force=o.force), [o.out]


def _write_toml_file(request: ExportRequest) -> ExportResult:
    from mindyn.output.export.toml_writer import write_toml
    from mindyn.output.export.write_checks import model_notes, resolve_model

    full = resolve_model(request.estimate, request.prior, force=request.force)
    return model_notes(request.estimate, full), [write_toml(full, request.out, force=request.force)]


def _write_code(request: ExportRequest, write: Callable[[Model], Sequence[Path]]) -> ExportResult:
    """Write code of the full model, with the friction of the fit, so that its torques equal those of the estimate."""
    from mindyn.kernels.model import compile_model
    from mindyn.output.export.write_checks import model_notes, resolve_model

    full = resolve_model(request.estimate, request.prior, friction="fitted", force=request.force)
    files = write(compile_model(full, with_drives=True))
    return model_notes(request.estimate, full), files


def _write_ros2(request: ExportRequest) -> ExportResult:
    """Write the package with the plugin of inverse_dynamics_solver, or without it if the robot does not fit it."""
    from mindyn.kernels.model import compile_model
    from mindyn.output.export.ros2_package import write_ros2_package
    from mindyn.output.export.write_checks import model_notes, resolve_model

    full = resolve_model(request.estimate, request.prior, friction="fitted", force=request.force)
    model, notes = compile_model(full, with_drives=True), model_notes(request.estimate, full)
    try:
        return notes, [write_ros2_package(model, request.out, facts=request.facts, solver=True)]
    except ExportError as error:
        if error.code is not Code.UNSUPPORTED:
            raise
        files = [write_ros2_package(model, request.out, facts=request.facts)]
        return (*notes, f"without the plugin of inverse_dynamics_solver: {error.message}"), files


def _write_c_files(model: Model, request: ExportRequest, path: Path) -> Sequence[Path]:
    from mindyn.output.export.ros2_package import CONTROL_FUNCTIONS

    return model.write_c(path, CONTROL_FUNCTIONS, prefix=request.prefix, facts=request.facts)


def _write_cuda(model: Model, request: ExportRequest) -> Sequence[Path]:
    from mindyn.output.export.ros2_package import CONTROL_FUNCTIONS

    return [model.write_cuda(request.out, CONTROL_FUNCTIONS)]


FORMAT_WRITERS: Mapping[str, Callable[[ExportRequest], ExportResult]] = {
    "urdf": _write_urdf,
    "mjcf": _write_mjcf,
    "isaac-lab": _write_actuators,
    "toml": _write_toml_file,
    "c": lambda o: _write_code(o, lambda model: _write_c_files(model, o, o.out)),
    "cpp": lambda o: _write_code(o, lambda model: _write_c_files(model, o, o.out.with_suffix(".hpp"))),
    "python": lambda o: _write_code(o, lambda model: _write_c_files(model, o, o.out.with_suffix(".py"))),
    "cuda": lambda o: _write_code(o, lambda model: _write_cuda(model, o)),
    "ros2": _write_ros2,
}
"""Writer of each format."""


def export(
    run: Annotated[Path, RUN_ARGUMENT],
    to: Annotated[
        str,
        typer.Option(
            "--to", help=f"Format: {', '.join(FORMAT_WRITERS)}.", autocompletion=complete_from(FORMAT_WRITERS)
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="File to write; for ros2, the folder of the package.")],
    source: Annotated[
        Path | None, typer.Option(help="URDF or MJCF file to edit: only inertials, friction and armature change.")
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            help="Robot (bundled name or file) whose inertials determine what the base parameters leave open, or "
            "'none' for the smallest masses. Default: the robot of the estimate."
        ),
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(help="Prefix of C function names, such as arm_ ('' for none). Default: the name of the file."),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            help="Log on which to compare the torques of MuJoCo and of the estimate (MJCF only); with position "
            "targets, also the positions of MuJoCo's servos."
        ),
    ] = None,
    feasible: Annotated[
        bool,
        typer.Option("--feasible", help="First project the estimate onto the nearest physically consistent values."),
    ] = False,
    strip_meshes: Annotated[
        bool, typer.Option("--strip-meshes", help="Remove meshes from a URDF, so that it loads without mesh files.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write values even if they are not physically consistent.")
    ] = False,
    elastic: Annotated[
        bool,
        typer.Option("--elastic", help="With the stiffness that `mindyn elasticity` wrote into the run (MJCF only)."),
    ] = False,
    samples: Annotated[
        int | None,
        typer.Option(
            help="Write this many models drawn from the posterior, and their ranges as CSV and YAML, into the folder "
            "--out (urdf, mjcf, isaac-lab)."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of --samples; default: 0.")] = None,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Write an estimate as a robot (URDF, MJCF, TOML), actuators or code (C, C++, Python, CUDA, ROS 2)."""
    from mindyn.applications.validation.validate import comparison_table
    from mindyn.identification.feasibility.projections.consistent_projection import make_feasible
    from mindyn.identification.uncertainty.model_samples import sample_models
    from mindyn.logs.read_log import read_log
    from mindyn.output.export.mujoco_comparison import compare_positions, compare_with_mujoco
    from mindyn.output.export.sampled_models import SAMPLE_FORMATS, write_model_samples
    from mindyn.robots.loading import load_matching
    from mindyn.robots.robot import Robot
    from mindyn.robots.table import format_table

    require_choice(to, FORMAT_WRITERS, "--to")
    require_companion("--source", source is not None, "--to urdf or --to mjcf", to in ("urdf", "mjcf"))
    require_companion("--check", check is not None, "--to mjcf", to == "mjcf")
    require_companion("--elastic", elastic, "--to mjcf", to == "mjcf")
    require_exclusive({"--elastic": elastic, "--check": check})
    require_exclusive({"--elastic": elastic, "--samples": samples})
    require_companion("--strip-meshes", strip_meshes, "--to urdf", to == "urdf")
    require_companion("--prefix", prefix is not None, "--to c, cpp or python", to in ("c", "cpp", "python"))
    require_companion("--samples", samples is not None, "--to urdf, mjcf or isaac-lab", to in SAMPLE_FORMATS)
    require_companion("--seed", seed is not None, "--samples", samples is not None)
    if samples is not None:
        require_exclusive({"--samples": True, "--source": source, "--check": check})
    if source is not None and source.resolve() == out.resolve():
        raise InputError(
            f"--out {out} would overwrite --source",
            hint="pass another name with --out",
            code=Code.DISAGREEMENT,
            subject="--out",
        )
    if prefix and not (prefix.isascii() and prefix.isidentifier()):
        raise InputError(
            f"--prefix {prefix!r} is not valid at the start of a C function name",
            hint="such as --prefix arm_",
            code=Code.INVALID_VALUE,
            subject="--prefix",
        )
    require_output_file(out, ROBOT_ENDINGS.get(to, ()), list_run_inputs(run))
    if (servo_file := find_servo_run(run)) is not None:
        request = ServoExport(
            to,
            out,
            source,
            check,
            force=force,
            meshes=not strip_meshes,
            as_json=as_json,
            samples=samples,
            seed=seed or 0,
        )
        export_servos(servo_file, request, {"--prior": prior is not None, "--feasible": feasible})
        return
    estimate = load_run_estimate(run)
    prior_model: Prior = "robot" if prior is None else None if prior == "none" else load_matching(prior, estimate.robot)
    log = None if check is None else read_log(check, estimate.robot)
    changes: tuple[ErrorChange, ...] = ()
    if feasible:
        given, estimate = estimate, make_feasible(estimate)
        changes = compare_errors(run, given, estimate)
        for change in changes:
            print_status(str(change))
    if samples is None:
        raw_notes, written = FORMAT_WRITERS[to](
            ExportRequest(
                estimate,
                out,
                source,
                prior_model,
                prefix,
                force,
                not strip_meshes,
                _read_facts(run),
                load_run_elasticity(run) if elastic else None,
            )
        )
    else:
        known_prior = prior_model if isinstance(prior_model, Robot) else None
        models = sample_models(estimate, samples, seed or 0, prior=known_prior)
        raw_notes, written = (), [write_model_samples(models, out, to)]
    notes = [note.removeprefix("Note: ") for note in raw_notes]
    print_notes(notes)
    print_status(f"wrote {', '.join(map(str, written))}")
    errors = {} if log is None else compare_with_mujoco(estimate, out, log)
    positions = {} if log is None or log.target is None else compare_positions(estimate, out, log)
    if errors and not as_json:
        typer.echo(comparison_table(errors))
    if positions and not as_json:
        rows = [("rms position error, rad or m", *positions)]
        for k, name in enumerate(estimate.robot.primary_names):
            rows.append((name, *(f"{rms[k]:.3g}" for rms in positions.values())))
        typer.echo(format_table(rows))
    if as_json:
        files = sorted(str(path) for place in written for path in (place, *place.rglob("*")) if path.is_file())
        summary = {
            "format": to,
            "files": files,
            "robot": estimate.robot.name,
            "projected": feasible,
            "errors": {change.rows: {"before": change.before, "after": change.after} for change in changes},
            "status": estimate.status,
            "notes": notes,
            "check": {who: {"relative": e.relative.tolist(), "total": e.total} for who, e in errors.items()} or None,
            "position_check": {who: rms.tolist() for who, rms in positions.items()} or None,
        }
        print_json(summary)
    if to in ("urdf", "mjcf", "toml") and samples is None:
        print_next_command("robots", out)


def _read_facts(run: Path) -> Facts:
    """Return facts for headers: the hash of the estimate, and the date if its folder has a run record."""
    folder, file = (run, run / "estimate.json") if run.is_dir() else (run.parent, run)
    facts: list[tuple[str, int | str]] = [("ESTIMATE_SHA256", hashlib.sha256(file.read_bytes()).hexdigest())]
    record = folder / "run.json"
    if file.name == "estimate.json" and record.is_file():
        facts.append(("ESTIMATE_DATE", str(read_json(record, "record of a run", InputError).get("finished", ""))))
    return facts
