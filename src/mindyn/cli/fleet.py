"""`mindyn fleet`: all logs of many robots of one type, wherever they lie; estimates of each, and who differs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from mindyn import __version__
from mindyn.cli.arguments import JSON_OPTION, ROBOT_ARGUMENT, VERBOSE_OPTION, with_robot_options
from mindyn.cli.printing import print_findings, print_output, print_status, print_table
from mindyn.cli.progress_bars import progress_bar
from mindyn.cli.runs import load_run_estimate
from mindyn.errors import InputError, MissingExtraError
from mindyn.files import finish_replacement, make_output_folder
from mindyn.fleet.fleet import FleetStudy, study_fleet
from mindyn.fleet.page import explain_no_difference
from mindyn.fleet.writing import STUDY_FILES, summarise_study, write_study
from mindyn.logs.locations import strip_credentials
from mindyn.robots.loading import RobotOptions
from mindyn.simulation.inputs import require_count

RETRIES = 3
"""Times that a cluster gives a log to another worker where one died."""


@with_robot_options
def fleet(
    robot: Annotated[str, ROBOT_ARGUMENT],
    pattern: Annotated[
        str, typer.Argument(help="Places of the logs, fields in braces: 's3://bucket/{robot_id}/{date}/*.parquet'.")
    ],
    out: Annotated[
        Path, typer.Option("--out", help=f"Folder for {', '.join(STUDY_FILES)} and a factor file for each log.")
    ],
    group_by: Annotated[
        str,
        typer.Option(help="Fields, constant columns, or year, month, week, day; the first names the robot."),
    ] = "",
    workers: Annotated[int, typer.Option(help="Processes of this machine that read logs.")] = 1,
    cluster: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, tcp://...; its workers read the logs.")
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(help="A run of `mindyn identify` whose settings are taken; else they are chosen.")
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option(help="A pattern of names of logs that do not count. Repeatable.")
    ] = None,
    as_json: Annotated[bool, JSON_OPTION] = False,
    verbose: Annotated[bool, VERBOSE_OPTION] = False,
    *,
    options: RobotOptions,
) -> None:
    """Study all logs of many robots of one type: estimates of each, who differs from the type, who drifts."""
    require_count(workers, "--workers")
    if cluster is not None and workers > 1:
        raise InputError("--cluster and --workers exclude each other", hint="leave one of them out")
    start = perf_counter()
    arm = options.load(robot)
    equation_settings = None if settings is None else load_run_estimate(settings).settings
    if out.is_dir():
        finish_replacement(out)
    try:
        with (
            make_output_folder(out),
            _connect_cluster(cluster) as executor,
            progress_bar("reading logs", 1000) as advance,
        ):
            found = study_fleet(
                arm,
                pattern,
                out,
                group_by=[name.strip() for name in group_by.split(",") if name.strip()],
                settings=equation_settings,
                exclude_logs=without or (),
                executor=executor,
                workers=workers,
                progress=lambda done, total: advance(1000 * done // max(1, total)),
                say=print_status if verbose else _ignore_message,
            )
    except KeyboardInterrupt as stop:
        if not out.is_dir():
            raise
        raise KeyboardInterrupt(f"logs that were read have their factors in {out}; the same command goes on") from stop
    record: dict[str, Any] = {
        "command": [strip_credentials(word) for word in sys.argv],
        "robot": {"given": robot, **options.to_dict()},
        "version": __version__,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(perf_counter() - start, 3),
    }
    write_study(out, found, record)
    print_findings(found.findings)
    for one in found.excluded[:20]:
        print_status(f"note: {one.name} does not count: {one.reason}")
    if len(found.excluded) > 20:
        print_status(f"{len(found.excluded) - 20} more logs do not count: {out / 'excluded.parquet'} has them all")
    if as_json:
        typer.echo(json.dumps(summarise_study(found), indent=1))
    else:
        _print_study(found)
    print_status(f"written to {out}: open {out / 'report.html'} in a browser")


@contextmanager
def _connect_cluster(cluster: str | None) -> Iterator[Executor | None]:
    """Dask's executor of a scheduler; None without one."""
    if cluster is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtraError(
            "--cluster needs Dask, which is not installed", hint="pip install 'mindyn[dask]'"
        ) from error
    try:
        client = Client(cluster, timeout=20)
    except OSError as error:
        raise InputError(
            f"no Dask scheduler answers at {cluster!r}", hint="dask scheduler prints its address: tcp://HOST:8786"
        ) from error
    with client:
        yield client.get_executor(retries=RETRIES)


def _ignore_message(_: str) -> None:
    """What is done on the way is said with --verbose alone."""


def _print_study(found: FleetStudy) -> None:
    logs, rows = sum(one.logs for one in found.robots), sum(one.rows for one in found.robots)
    print_output(f"{len(found.robots)} robots, {logs} logs, {rows} rows; {found.gathered} logs were read now")
    if not found.differences:
        print_output(explain_no_difference(found))
        return
    lines = [("robot", "what", "deviations", "p")]
    for one in found.differences:
        lines.append((one.robot, one.sentence, f"{abs(one.size) / one.deviation:.1f}", f"{one.p:.0e}"))
    print_table(lines, numbers=(2, 3))
