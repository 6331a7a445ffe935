"""`mindyn compare`: compare identification methods on recorded logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindyn.applications.comparison.log_comparison import compare_on_logs, comparison_page
from mindyn.applications.comparison.log_sets import read_sets
from mindyn.applications.comparison.methods import LOG_METHODS, require_methods
from mindyn.cli.arguments import JSON_OPTION, complete_from, split_assignment
from mindyn.cli.printing import print_json, print_output, print_status
from mindyn.foundation.files import write_file_atomically


def compare(
    logs: Annotated[Path, typer.Option(help="Folder of recorded logs; its splits.json lists sets and rows.")],
    method: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Method: {', '.join(LOG_METHODS)}, or a Python file with a method. Repeatable; default: all.",
            autocompletion=complete_from(LOG_METHODS),
        ),
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Only this set. Repeatable.")] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Use another robot file for a set. Repeatable.", metavar="SET=FILE")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="HTML file to write.")] = None,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Compare identification methods on recorded logs: errors on held-out rows, time, repeatability."""
    methods = method or list(LOG_METHODS)
    require_methods(methods)
    pairs = [split_assignment("--model", "SET=FILE", text, "--model set1=arm.urdf") for text in model or ()]
    splits = read_sets(logs, set_, {name: Path(file) for name, file in pairs})
    comparison = compare_on_logs(splits, methods, logs, print_status)
    if out is not None:
        write_file_atomically(out, comparison_page(comparison))
    if as_json:
        print_json(comparison.to_dict())
    else:
        print_output(comparison.table(), "    ")
    print_status(f"wrote {out}: open it in a browser" if out is not None else "write a page with --out compared.html")
