"""`mindyn compare`: identification methods side by side, on a simulated robot or on a folder of recorded logs."""

from __future__ import annotations

import json
import os
from math import inf
from pathlib import Path
from typing import Annotated, Final, cast

import typer

from mindyn.cli.arguments import JSON_OPTION, ROBOT_ARGUMENT, complete_from, with_robot_options
from mindyn.cli.next_step import format_robot_options, print_next_command
from mindyn.cli.printing import print_output, print_status
from mindyn.cli.progress_bars import progress_bar
from mindyn.comparison.bench_methods import BENCH_METHODS
from mindyn.comparison.bench_setting import BenchSetting, Differentiation
from mindyn.comparison.method_bench import compare_methods
from mindyn.comparison.methods import LOG_METHODS, select_methods
from mindyn.errors import InputError
from mindyn.files import write_file_atomically
from mindyn.robots.loading import RobotOptions

DEFAULT_SETTING = BenchSetting()

IDENTIFY_OPTIONS: Final = {
    "least squares": ("--method", "ordinary"),
    "weighted least squares": (),
    "robust least squares": ("--method", "robust"),
    "last link first": ("--method", "last-link-first"),
    "instrumental variables": ("--method", "instruments"),
    "momentum difference": ("--method", "momentum"),
    "total least squares": ("--method", "total"),
}
"""Methods that `mindyn identify` has too, and what it takes for them; the others are of Python."""


@with_robot_options
def compare(
    robot: Annotated[str | None, ROBOT_ARGUMENT] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help=f"One of: {', '.join(BENCH_METHODS)}; with --logs: {', '.join(LOG_METHODS)}, or a Python file with "
            "one. May be repeated; all if left out.",
            autocompletion=complete_from({**BENCH_METHODS, **LOG_METHODS}),
        ),
    ] = None,
    logs: Annotated[
        Path | None,
        typer.Option(help="In place of a robot: a folder of recorded logs whose splits.json names sets and rows."),
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="With --logs: this set alone. Repeatable.")] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="With --logs: another robot file for a set. Repeatable.", metavar="SET=FILE"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="With --logs: write the page here (HTML).")] = None,
    repetitions: Annotated[int, typer.Option(help="Recordings with other noise each.")] = DEFAULT_SETTING.repetitions,
    seconds: Annotated[float, typer.Option(help="Length of a recording.")] = DEFAULT_SETTING.seconds,
    rate_hz: Annotated[float, typer.Option(help="Rate of the recording.")] = DEFAULT_SETTING.rate_hz,
    control_rate_hz: Annotated[
        float, typer.Option(help="Rate of the controller: a whole multiple of --rate-hz for methods that replay it.")
    ] = DEFAULT_SETTING.control_rate_hz,
    counts: Annotated[
        float, typer.Option(help="Counts of the encoders for each motor turn.")
    ] = DEFAULT_SETTING.counts_per_revolution,
    torque_noise: Annotated[
        float, typer.Option(help="As part of the rms torque of each joint.")
    ] = DEFAULT_SETTING.torque_noise,
    differentiation: Annotated[
        str, typer.Option(help="central: of positions as read; filtered: after a low pass at --filter-hz.")
    ] = DEFAULT_SETTING.differentiation,
    filter_hz: Annotated[float, typer.Option(help="Cut-off of filtered differentiation.")] = DEFAULT_SETTING.filter_hz,
    friction_error: Annotated[
        float, typer.Option(help="Stribeck friction that the model has not, as part of the Coulomb friction.")
    ] = DEFAULT_SETTING.friction_error,
    top_hz: Annotated[float, typer.Option(help="Highest frequency of the motion.")] = DEFAULT_SETTING.top_hz,
    seed: Annotated[int, typer.Option(help="Of motions and noise.")] = DEFAULT_SETTING.seed,
    workers: Annotated[int, typer.Option(help="Processes; 0: one for each processor.")] = 0,
    as_json: Annotated[bool, JSON_OPTION] = False,
    *,
    options: RobotOptions,
) -> None:
    """Compare identification methods on a simulated robot, or with --logs on recorded logs.

    Simulated: bias, spread, time, number of tests. On logs: errors on rows held out, time, agreement of repeated runs.
    """
    if logs is not None:
        if robot is not None:
            raise InputError("compare takes a robot to simulate, or --logs with robots of its own; not both")
        _compare_on_logs(logs, set_, model, method, out, as_json=as_json)
        return
    if robot is None:
        raise InputError("no robot was given", hint="mindyn compare ROBOT, or mindyn compare --logs DIR")
    if set_ or model or out:
        raise InputError("--set, --model and --out belong to --logs DIR", hint="mindyn compare --logs DIR")
    setting = BenchSetting(
        repetitions=repetitions,
        seconds=seconds,
        rate_hz=rate_hz,
        control_rate_hz=control_rate_hz,
        counts_per_revolution=counts,
        torque_noise=torque_noise,
        differentiation=cast("Differentiation", differentiation),  # refused by name where it is none
        filter_hz=filter_hz,
        friction_error=friction_error,
        top_hz=top_hz,
        seed=seed,
    )
    arm = options.load(robot)
    shared = min(workers or os.cpu_count() or 1, repetitions)
    with progress_bar("repetitions", repetitions) as advance:
        found = compare_methods(arm, setting, method, workers=shared, progress=lambda done, _: advance(done))
    if all(one.failed == repetitions for one in found.results):
        reasons = "\n".join(f"  {one.method}: {one.reason}" for one in found.results)
        raise InputError(
            f"no method gave a result in any of {repetitions} repetitions:\n{reasons}",
            hint="put right what these reasons name, or take other methods (--method)",
        )
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=1))
    else:
        print_output(found.table(), "  ")
    print_status(f"{repetitions} repetitions of {len(found.results)} methods in {found.seconds:.0f} s")
    least = min(found.results, key=lambda one: one.total_bias if one.total_bias == one.total_bias else inf)
    print_status(f"least bias of the torque: {least.method}, {100 * least.total_bias:.3g} %")
    known = [one for one in found.results if one.method in IDENTIFY_OPTIONS and one.total_bias == one.total_bias]
    if known:
        best = min(known, key=lambda one: one.total_bias)
        print_next_command(
            "identify",
            robot,
            "run1.csv",
            *format_robot_options(options),
            *IDENTIFY_OPTIONS[best.method],
            "--out",
            "run1",
        )


def _compare_on_logs(
    folder: Path,
    sets: list[str] | None,
    models: list[str] | None,
    methods: list[str] | None,
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    from mindyn.comparison.log_comparison import compare_on_logs, comparison_page
    from mindyn.comparison.log_sets import read_sets

    taken = select_methods(methods)
    splits = read_sets(folder, sets, dict(map(_parse_model, models or ())))
    found = compare_on_logs(splits, taken, print_status)
    if out is not None:
        write_file_atomically(out, comparison_page(found))
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=1))
    else:
        print_output(found.table(), "    ")
    print_status(
        f"written to {out}: open it in a browser" if out is not None else "the same as a page: --out compared.html"
    )


def _parse_model(text: str) -> tuple[str, Path]:
    name, _, file = text.partition("=")
    if not name or not file:
        raise InputError(f"--model {text!r} names no set and file", hint="--model SET=FILE")
    return name, Path(file)
