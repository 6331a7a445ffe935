"""`mindyn export`: what an estimate found as a robot model, as code, or as numbers for MATLAB."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from mindyn.cli.arguments import JSON
from mindyn.cli.runs import RUN, estimate_of
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.export.mat_writer import write_mat
from mindyn.export.mjcf_writer import write_mjcf
from mindyn.export.models import model_of
from mindyn.export.ros2_package import CONTROL, write_ros2_package
from mindyn.export.toml_writer import write_toml
from mindyn.export.urdf_writer import write_urdf
from mindyn.feasibility.make_consistent import mend_consistent
from mindyn.kernels.model import Model, compile_model


def _code(found: Estimate, force: bool) -> Model:
    return compile_model(model_of(found, force=force), drives=True)


WRITERS: Mapping[str, Callable[[Estimate, Path, bool], None]] = {
    "urdf": lambda found, out, force: write_urdf(found, out, force=force),
    "mjcf": lambda found, out, force: write_mjcf(found, out, force=force),
    "toml": lambda found, out, force: write_toml(found, out, force=force),
    "c": lambda found, out, force: _code(found, force).write_c(out, CONTROL),
    "cuda": lambda found, out, force: _code(found, force).write_cuda(out, CONTROL),
    "ros2": lambda found, out, force: write_ros2_package(_code(found, force), out),
    "mat": lambda found, out, force: write_mat(found, out),  # noqa: ARG005 - values as found need no force
}
"""How each format is written: the estimate, the file (a folder for ros2), and whether impossible values may go out."""


def export(
    run: Annotated[Path, RUN],
    to: Annotated[str, typer.Option("--to", help=f"One of {', '.join(WRITERS)}.")],
    out: Annotated[Path, typer.Option("--out", help="The file to write; for ros2 the folder of the package.")],
    source: Annotated[
        Path | None, typer.Option(help="The URDF to edit: visuals, meshes, limits and frames stay.")
    ] = None,
    mend: Annotated[bool, typer.Option("--mend", help="Move the values to the nearest consistent ones first.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write values that no arm can have.")] = False,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Write a full robot model that has the estimate's dynamics, its code, or its numbers."""
    if to not in WRITERS:
        raise InputError(f"--to {to}: it may be {', '.join(WRITERS)}", hint="--to urdf")
    if source is not None and to != "urdf":
        raise InputError("--source is edited only with --to urdf", hint="leave --source out, or write a URDF")
    found = estimate_of(run)
    found = mend_consistent(found) if mend else found
    if source is not None:
        write_urdf(found, out, source=source, force=force)
    else:
        WRITERS[to](found, out, force)
    typer.echo(f"written: {out}", err=True)
    if as_json:
        files = sorted(str(path) for path in out.rglob("*") if path.is_file()) if out.is_dir() else [str(out)]
        said = {"format": to, "files": files, "robot": found.robot.name, "mended": mend, "status": found.status}
        typer.echo(json.dumps(said, indent=1))
