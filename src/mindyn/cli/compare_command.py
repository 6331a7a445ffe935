"""`mindyn compare`: compare identification methods on a simulated robot or on recorded logs."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

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
from mindyn.cli.choices import BENCH_METHOD_NAMES, LOG_METHOD_NAMES, BenchDefaults
from mindyn.cli.output_files import HTML_ENDINGS, require_output_file
from mindyn.cli.printing import print_json, print_output, print_status, progress_bar
from mindyn.foundation.atomic_files import write_file_atomically
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.hints import Command
from mindyn.foundation.processes.executors import process_pool

if TYPE_CHECKING:
    from mindyn.applications.comparison.simulated_comparison import MethodComparison
    from mindyn.applications.comparison.simulated_recordings import BenchSetting
    from mindyn.robots.loading import RobotOptions

DEFAULT_SETTING: Final = BenchDefaults()


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
    given = locals()
    from mindyn.applications.comparison.simulated_recordings import BenchSetting

    return BenchSetting(**given)


@with_robot_options
@option_group("setting", parse_setting)
def compare(
    robot: Annotated[str | None, ROBOT_ARGUMENT] = None,
    logs: Annotated[
        Path | None,
        typer.Option(help="Folder of recorded logs, instead of a robot; its splits.json lists sets and rows."),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Method: {', '.join(BENCH_METHOD_NAMES)}; with --logs: {', '.join(LOG_METHOD_NAMES)}, or a "
            "Python file with a method. Repeatable; default: all.",
            autocompletion=complete_from((*BENCH_METHOD_NAMES, *LOG_METHOD_NAMES)),
        ),
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="With --logs: only this set. Repeatable.")] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="With --logs: use another robot file for a set. Repeatable.", metavar="SET=FILE"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="With --logs: HTML file to write.")] = None,
    *,
    setting: BenchSetting,
    workers: Annotated[int, typer.Option(help="Number of processes for a simulated robot.")] = 1,
    as_json: Annotated[bool, JSON_OPTION] = False,
    options: RobotOptions,
) -> None:
    """Compare identification methods on a simulated robot, or with --logs on recorded logs.

    On a simulated robot: bias and deviation of the torque, simulated motion, time, number of tests. On logs: errors on
    held-out rows, time, repeatability.
    """
    from mindyn.foundation.algebra.requirements import require_count

    require_exclusive({"a robot": robot, "--logs": logs})
    if logs is not None:
        if setting != type(setting)():
            message = "--logs compares recordings; settings of simulated recordings have no effect"
            hint = "omit them, or name a robot instead of --logs"
            raise InputError(message, hint=hint, code=Code.DISAGREEMENT, subject="--logs")
        _compare_on_logs(logs, set_, model, method, out, as_json=as_json)
        return
    if robot is None:
        raise InputError(
            "neither a robot nor --logs is given",
            hint="name a robot, or pass --logs DIR",
            command=Command("compare", "puma560"),
            code=Code.MISSING_VALUE,
            subject="robot",
        )
    for option, given in {"--set": set_, "--model": model, "--out": out}.items():
        require_companion(option, given, "--logs DIR", present=False)
    comparison = _simulate_and_compare(options, robot, setting, method, require_count(workers, "workers"))
    if as_json:
        print_json(comparison.to_dict())
    else:
        print_output(comparison.table(), "  ")
    print_status(
        f"{setting.repetitions} repetitions of {len(comparison.results)} methods in {comparison.seconds:.0f} s"
    )


def _simulate_and_compare(
    options: RobotOptions, robot: str, setting: BenchSetting, methods: list[str] | None, workers: int
) -> MethodComparison:
    """Compare the methods on a simulated robot; raise if no method gives a result."""
    from mindyn.applications.comparison.simulated_comparison import compare_methods

    arm = options.load(robot)
    with (
        progress_bar("repetitions", setting.repetitions) as advance,
        nullcontext() if workers == 1 else process_pool(min(workers, setting.repetitions)) as pool,
    ):
        comparison = compare_methods(arm, setting, methods, executor=pool, progress=lambda done, _: advance(done))
    if all(result.failed == setting.repetitions for result in comparison.results):
        reasons = "\n".join(f"  {result.method}: {result.reason}" for result in comparison.results)
        raise InputError(
            f"no method gave a result in any of {setting.repetitions} repetitions:\n{reasons}",
            hint="correct what these reasons name, or choose other methods (--method)",
            code=Code.NOT_CONVERGED,
            subject="--method",
        )
    return comparison


def _compare_on_logs(
    folder: Path,
    sets: list[str] | None,
    models: list[str] | None,
    methods: list[str] | None,
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    """Compare the methods on recorded logs, and write a page if `out` is given."""
    from mindyn.applications.comparison.log_comparison import compare_on_logs, comparison_page
    from mindyn.applications.comparison.log_methods import require_methods
    from mindyn.applications.comparison.log_sets import read_sets

    names = methods or list(LOG_METHOD_NAMES)
    require_methods(names)
    pairs = [split_assignment("--model", "SET=FILE", text, "--model set1=arm.urdf") for text in models or ()]
    splits = read_sets(folder, sets, {name: Path(file) for name, file in pairs})
    comparison = compare_on_logs(splits, names, folder, print_status)
    if out is not None:
        require_output_file(out, HTML_ENDINGS)
        write_file_atomically(out, comparison_page(comparison))
    if as_json:
        print_json(comparison.to_dict())
    else:
        print_output(comparison.table(), "    ")
    print_status(f"wrote {out}: open it in a browser" if out is not None else "write a page with --out compared.html")
