"""`mindyn compare`: compare identification methods on a simulated robot or on recorded logs."""

from __future__ import annotations

import os
from math import inf
from pathlib import Path
from typing import Annotated, Final

import typer

from mindyn.cli.arguments import (
    JSON_OPTION,
    ROBOT_ARGUMENT,
    complete_from,
    option_group,
    require_companion,
    require_exclusive,
    split_assignment,
    with_robot_options,
)
from mindyn.cli.next_step import format_robot_options, print_next_command
from mindyn.cli.printing import print_json, print_output, print_status
from mindyn.cli.progress_bars import progress_bar
from mindyn.comparison.bench_setting import BenchSetting
from mindyn.comparison.method_bench import BENCH_METHODS, compare_methods
from mindyn.comparison.methods import LOG_METHODS, require_methods
from mindyn.errors import Code, InputError
from mindyn.files import write_file_atomically
from mindyn.hints import Command
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
"""Options of `mindyn identify` for its methods; the other methods are only available in Python."""


def parse_setting(
    repetitions: Annotated[
        int, typer.Option(help="Number of simulated recordings, each with new noise.")
    ] = DEFAULT_SETTING.repetitions,
    seconds: Annotated[float, typer.Option(help="Length of a recording, s.")] = DEFAULT_SETTING.seconds,
    rate_hz: Annotated[float, typer.Option(help="Sample rate of the recording, Hz.")] = DEFAULT_SETTING.rate_hz,
    control_rate_hz: Annotated[
        float,
        typer.Option(help="Rate of the controller, Hz; methods that replay it need an integer multiple of --rate-hz."),
    ] = DEFAULT_SETTING.control_rate_hz,
    counts_per_revolution: Annotated[
        float, typer.Option("--counts", help="Encoder counts per motor turn.")
    ] = DEFAULT_SETTING.counts_per_revolution,
    torque_noise: Annotated[
        float, typer.Option(help="Torque noise relative to the rms torque of each joint.")
    ] = DEFAULT_SETTING.torque_noise,
    differentiation: Annotated[
        str, typer.Option(help="central: raw positions; filtered: after a low pass at --filter-hz.")
    ] = DEFAULT_SETTING.differentiation,
    filter_hz: Annotated[
        float, typer.Option(help="Cutoff frequency of filtered differentiation, Hz.")
    ] = DEFAULT_SETTING.filter_hz,
    friction_error: Annotated[
        float, typer.Option(help="Unmodelled Stribeck friction relative to the Coulomb friction.")
    ] = DEFAULT_SETTING.friction_error,
    top_hz: Annotated[float, typer.Option(help="Highest frequency of the motion, Hz.")] = DEFAULT_SETTING.top_hz,
    seed: Annotated[int, typer.Option(help="Seed of motions and noise.")] = DEFAULT_SETTING.seed,
) -> BenchSetting:
    """Return the settings of simulated recordings that a command line gives; `BenchSetting` validates them."""
    return BenchSetting(**locals())


@with_robot_options
@option_group("setting", parse_setting)
def compare(
    robot: Annotated[str | None, ROBOT_ARGUMENT] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Method: {', '.join(BENCH_METHODS)}; with --logs: {', '.join(LOG_METHODS)}, or a Python file with a "
            "method. Repeatable; default: all.",
            autocompletion=complete_from({**BENCH_METHODS, **LOG_METHODS}),
        ),
    ] = None,
    logs: Annotated[
        Path | None,
        typer.Option(help="Folder of recorded logs, instead of a robot; its splits.json lists sets and rows."),
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="With --logs: only this set. Repeatable.")] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="With --logs: use another robot file for a set. Repeatable.", metavar="SET=FILE"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="With --logs: HTML file to write.")] = None,
    *,
    setting: BenchSetting,
    workers: Annotated[int, typer.Option(help="Number of processes; 0: one per processor.")] = 0,
    as_json: Annotated[bool, JSON_OPTION] = False,
    options: RobotOptions,
) -> None:
    """Compare identification methods on a simulated robot, or with --logs on recorded logs.

    On a simulated robot: bias, standard deviation, time, number of tests. On logs: errors on held-out rows, time,
    agreement of repeated runs.
    """
    if logs is not None:
        require_exclusive({"a robot": robot, "--logs": True})
        _compare_on_logs(logs, set_, model, method, out, as_json=as_json)
        return
    if robot is None:
        raise InputError(
            "no robot is given",
            hint="name a robot, or pass --logs DIR",
            command=Command("compare", "ROBOT"),
            code=Code.MISSING_VALUE,
            subject="robot",
        )
    for option, given in {"--set": set_, "--model": model, "--out": out}.items():
        require_companion(option, given, "--logs DIR", present=False)
    repetitions = setting.repetitions
    arm = options.load(robot)
    shared = min(workers or os.cpu_count() or 1, repetitions)
    with progress_bar("repetitions", repetitions) as advance:
        comparison = compare_methods(arm, setting, method, workers=shared, progress=lambda done, _: advance(done))
    if all(result.failed == repetitions for result in comparison.results):
        reasons = "\n".join(f"  {result.method}: {result.reason}" for result in comparison.results)
        raise InputError(
            f"no method gave a result in any of {repetitions} repetitions:\n{reasons}",
            hint="correct what these reasons name, or choose other methods (--method)",
            code=Code.NOT_CONVERGED,
            subject="--method",
        )
    if as_json:
        print_json(comparison.to_dict())
    else:
        print_output(comparison.table(), "  ")
    print_status(f"{repetitions} repetitions of {len(comparison.results)} methods in {comparison.seconds:.0f} s")
    least = min(
        comparison.results, key=lambda result: result.total_bias if result.total_bias == result.total_bias else inf
    )
    print_status(f"smallest torque bias: {least.method}, {100 * least.total_bias:.3g} %")
    known = [
        result
        for result in comparison.results
        if result.method in IDENTIFY_OPTIONS and result.total_bias == result.total_bias
    ]
    if known:
        best = min(known, key=lambda result: result.total_bias)
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

    taken = methods or list(LOG_METHODS)
    require_methods(taken)
    pairs = [split_assignment("--model", "SET=FILE", text, "--model set1=arm.urdf") for text in models or ()]
    splits = read_sets(folder, sets, {name: Path(file) for name, file in pairs})
    comparison = compare_on_logs(splits, taken, folder, print_status)
    if out is not None:
        write_file_atomically(out, comparison_page(comparison))
    if as_json:
        print_json(comparison.to_dict())
    else:
        print_output(comparison.table(), "    ")
    print_status(f"wrote {out}: open it in a browser" if out is not None else "write a page with --out compared.html")
