"""`mindyn elasticity`: stiffness and damping of elastic joints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mindyn.cli.arguments import JSON_OPTION
from mindyn.cli.printing import print_json, print_output, print_status
from mindyn.cli.runs import RUN_ARGUMENT, load_run_estimate, read_logs, require_held_out
from mindyn.logs.locations import expand_locations

if TYPE_CHECKING:
    from mindyn.foundation.algebra.values import Array
    from mindyn.identification.elasticity.records import Elasticity


def elasticity(
    run: Annotated[Path, RUN_ARGUMENT],
    logs: Annotated[
        list[str],
        typer.Argument(help="Logs with positions of motors and links (columns.motor_position in their sidecars)."),
    ],
    held_out: Annotated[
        list[str] | None, typer.Option("--validate", help="Held-out log for the error of the deflection. Repeatable.")
    ] = None,
    save: Annotated[
        bool,
        typer.Option("--save", help="Write elasticity.json into the folder of the run, for its report and export."),
    ] = False,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Estimate stiffness and damping of elastic joints from logs with positions of motors and links."""
    from mindyn.identification.elasticity.identify_elasticity import identify_elasticity, predict_deflection
    from mindyn.identification.elasticity.records import ELASTICITY_FILE

    estimate = load_run_estimate(run)
    training = read_logs(expand_locations(logs), estimate.robot, estimate.settings.conditioning)
    others = read_logs(expand_locations(held_out or ()), estimate.robot, estimate.settings.conditioning)
    sources = [source for log in training for source in log.sources]
    require_held_out(sources, others, "pass a log of another motion to --validate, or omit it")
    result = identify_elasticity(estimate, training)
    errors = {log.name: predict_deflection(result, estimate, log).error for log in others}
    if save:
        path = result.save((run if run.is_dir() else run.parent) / ELASTICITY_FILE)
        print_status(f"wrote {path}")
    if as_json:
        print_json(elasticity_data(result) | {"validation": {name: list(error) for name, error in errors.items()}})
    else:
        print_output(result.table())
        if errors:
            print_output()
            print_output(_format_errors(result, errors))


def elasticity_data(result: Elasticity) -> dict[str, Any]:
    """Return the values as JSON, without the curves."""
    return {key: value for key, value in result.to_dict().items() if key != "curves"}


def _format_errors(result: Elasticity, errors: dict[str, Array]) -> str:
    """Return a table of the error of the deflection of each joint in each held-out log."""
    from mindyn.robots.table import format_table

    rows: list[tuple[str, ...]] = [("deflection error", *errors)]
    for k, joint in enumerate(result.joints):
        cells = (f"{100 * error[k]:.3g} %" if joint.state != "unusable" else "-" for error in errors.values())
        rows.append((joint.joint, *cells))
    return format_table(rows)
