"""`mindyn fleet`: identify many robots of one type and find those that differ or drift."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mindyn import __version__
from mindyn.cli.arguments import JSON_OPTION, ROBOT_ARGUMENT, VERBOSE_OPTION, require_exclusive, with_robot_options
from mindyn.cli.choices import STUDY_FILES
from mindyn.cli.printing import print_findings, print_json, print_output, print_status, print_table, progress_bar
from mindyn.cli.runs import load_run_estimate
from mindyn.foundation.atomic_files import finish_replacement, make_output_folder
from mindyn.foundation.errors import Code, InputError, MissingExtraError, pluralise
from mindyn.foundation.hints import install_command
from mindyn.logs.locations import strip_credentials

if TYPE_CHECKING:
    from mindyn.applications.fleet.study_fleet import FleetStudy
    from mindyn.robots.loading import RobotOptions

RETRIES = 3
"""Retries of a log on another worker if a worker of the cluster dies."""


@with_robot_options
def fleet(
    robot: Annotated[str, ROBOT_ARGUMENT],
    pattern: Annotated[
        str,
        typer.Argument(help="Pattern of the logs with fields in braces: 's3://bucket/{robot_id}/{date}/*.parquet'."),
    ],
    out: Annotated[
        Path, typer.Option("--out", help=f"Folder for {', '.join(STUDY_FILES)} and a factor file for each log.")
    ],
    group_by: Annotated[
        str,
        typer.Option(
            help="Comma-separated fields, constant columns, or year, month, week, day; the first one identifies the "
            "robot."
        ),
    ] = "",
    workers: Annotated[int, typer.Option(help="Number of local processes that read logs.")] = 1,
    cluster: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler (tcp://...) whose workers read the logs.")
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(help="Run of `mindyn identify` whose settings to use; default: select settings.")
    ] = None,
    without: Annotated[list[str] | None, typer.Option(help="Pattern of names of logs to exclude. Repeatable.")] = None,
    as_json: Annotated[bool, JSON_OPTION] = False,
    verbose: Annotated[bool, VERBOSE_OPTION] = False,
    *,
    options: RobotOptions,
) -> None:
    """Identify many robots of one type from all their logs, and find robots that differ or drift."""
    from mindyn.applications.fleet.study_files import summarise_study, write_study
    from mindyn.applications.fleet.study_fleet import study_fleet
    from mindyn.foundation.algebra.requirements import require_count

    require_count(workers, "--workers")
    require_exclusive({"--cluster": cluster is not None, "--workers": workers > 1})
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
            study = study_fleet(
                arm,
                pattern,
                out,
                group_by=[name.strip() for name in group_by.split(",") if name.strip()],
                settings=equation_settings,
                exclude_logs=without or (),
                executor=executor,
                workers=workers,
                progress=lambda done, total: advance(1000 * done // max(1, total)),
                **({"say": print_status} if verbose else {}),
            )
    except KeyboardInterrupt as stop:
        if not out.is_dir():
            raise
        raise KeyboardInterrupt(f"factors of the logs read so far are in {out}; the same command continues") from stop
    record: dict[str, Any] = {
        "command": [strip_credentials(word) for word in sys.argv],
        "robot": {"given": robot, **options.to_dict()},
        "logs": strip_credentials(pattern),
        "version": __version__,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(perf_counter() - start, 3),
    }
    write_study(study, out, record)
    print_findings(study.findings)
    for log in study.excluded[:20]:
        print_status(f"note: {log.name} is excluded: {log.reason}")
    if len(study.excluded) > 20:
        print_status(f"{len(study.excluded) - 20} more logs are excluded: see {out / 'excluded.parquet'}")
    if as_json:
        print_json(summarise_study(study))
    else:
        _print_study(study)
    print_status(f"wrote {out}: open {out / 'report.html'} in a browser")


@contextmanager
def _connect_cluster(cluster: str | None) -> Iterator[Executor | None]:
    """Connect to a Dask scheduler; yield None without an address."""
    if cluster is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtraError(
            "--cluster needs Dask, which is not installed", hint=install_command("dask"), subject="dask"
        ) from error
    try:
        client = Client(cluster, timeout=20)
    except OSError as error:
        raise InputError(
            f"no Dask scheduler answers at {cluster!r}",
            hint="pass the address that `dask scheduler` prints, such as tcp://HOST:8786",
            code=Code.INVALID_VALUE,
            subject=cluster,
        ) from error
    with client:
        yield client.get_executor(retries=RETRIES)


def _print_study(study: FleetStudy) -> None:
    from mindyn.applications.fleet.study_files import explain_no_difference, format_probability

    counts = f"{pluralise(len(study.robots), 'robot')}, {pluralise(study.logs, 'log')}, {study.rows} rows"
    print_output(f"{counts}; {pluralise(study.gathered, 'log')} read in this run")
    if not study.differences:
        print_output(explain_no_difference(study))
        return
    lines = [("robot", "difference", "deviations", "p")]
    for entry in study.differences:
        lines.append(
            (entry.robot, entry.sentence, f"{abs(entry.size) / entry.deviation:.1f}", format_probability(entry.p))
        )
    print_table(lines)
