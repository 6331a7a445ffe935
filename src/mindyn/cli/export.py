"""`mindyn export`: the full model behind an estimate as URDF, MJCF or TOML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindyn.cli.runs import RUN, estimate_of
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.export.mjcf_writer import write_mjcf
from mindyn.export.toml_writer import write_toml
from mindyn.export.urdf_writer import write_urdf
from mindyn.feasibility.make_consistent import mend_consistent

FORMATS = ("urdf", "mjcf", "toml")


def export(
    run: Annotated[Path, RUN],
    to: Annotated[str, typer.Option("--to", help=f"One of {', '.join(FORMATS)}.")],
    out: Annotated[Path, typer.Option("--out", help="The file to write.")],
    source: Annotated[
        Path | None, typer.Option(help="The URDF to edit: visuals, meshes, limits and frames stay.")
    ] = None,
    mend: Annotated[bool, typer.Option("--mend", help="Move the values to the nearest consistent ones first.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write values that no arm can have.")] = False,
) -> None:
    """Write a full robot model that has the estimate's dynamics."""
    if to not in FORMATS:
        raise InputError(f"--to {to}: it may be {', '.join(FORMATS)}")
    if source is not None and to != "urdf":
        raise InputError("--source is edited only with --to urdf")
    found = estimate_of(run)
    _write(mend_consistent(found) if mend else found, to, out, source, force=force)
    typer.echo(f"written: {out}", err=True)


def _write(found: Estimate, to: str, out: Path, source: Path | None, *, force: bool) -> None:
    if to == "urdf":
        write_urdf(found, out, source=source, force=force)
    elif to == "mjcf":
        write_mjcf(found, out, force=force)
    else:
        write_toml(found, out, force=force)
