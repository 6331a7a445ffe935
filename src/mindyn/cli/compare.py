"""`mindyn compare`: identification methods side by side on one robot, by Monte Carlo."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, cast

import typer

from mindyn.cli.arguments import JSON, ROBOT, one_of, takes_robot
from mindyn.errors import InputError
from mindyn.robots.loading import RobotOptions
from mindyn.validation.bench_methods import METHODS
from mindyn.validation.bench_setting import BenchSetting, Differentiation
from mindyn.validation.method_bench import Progress, compare_methods

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAIN = BenchSetting()


@takes_robot
def compare(
    robot: Annotated[str, ROBOT],
    method: Annotated[
        list[str] | None,
        typer.Option(
            help=f"One of: {', '.join(METHODS)}. May be repeated; all if left out.", autocompletion=one_of(METHODS)
        ),
    ] = None,
    repetitions: Annotated[int, typer.Option(help="Recordings with other noise each.")] = PLAIN.repetitions,
    seconds: Annotated[float, typer.Option(help="Length of a recording.")] = PLAIN.seconds,
    rate_hz: Annotated[float, typer.Option(help="Rate of the recording.")] = PLAIN.rate_hz,
    control_rate_hz: Annotated[
        float, typer.Option(help="Rate of the controller: a whole multiple of --rate-hz for methods that replay it.")
    ] = PLAIN.control_rate_hz,
    counts: Annotated[
        float, typer.Option(help="Counts of the encoders for each motor turn.")
    ] = PLAIN.counts_per_revolution,
    torque_noise: Annotated[float, typer.Option(help="As part of the rms torque of each joint.")] = PLAIN.torque_noise,
    differentiation: Annotated[
        str, typer.Option(help="central: of positions as read; filtered: after a low pass at --filter-hz.")
    ] = PLAIN.differentiation,
    filter_hz: Annotated[float, typer.Option(help="Cut-off of filtered differentiation.")] = PLAIN.filter_hz,
    friction_error: Annotated[
        float, typer.Option(help="Stribeck friction that the model has not, as part of the Coulomb friction.")
    ] = PLAIN.friction_error,
    top_hz: Annotated[float, typer.Option(help="Highest frequency of the motion.")] = PLAIN.top_hz,
    seed: Annotated[int, typer.Option(help="Of motions and noise.")] = PLAIN.seed,
    workers: Annotated[int, typer.Option(help="Processes; 0: one for each processor.")] = 0,
    as_json: Annotated[bool, JSON] = False,
    *,
    options: RobotOptions,
) -> None:
    """Compare identification methods on a simulated robot: bias, spread, time, number of tests."""
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
    with _shown(repetitions) as progress:
        found = compare_methods(arm, setting, method, workers=shared, progress=progress)
    if all(one.failed == repetitions for one in found.results):
        reasons = "\n".join(f"  {one.method}: {one.reason}" for one in found.results)
        raise InputError(
            f"no method gave a result in any of {repetitions} repetitions:\n{reasons}",
            hint="mend what these reasons say, or take other methods (--method)",
        )
    typer.echo(json.dumps(found.to_dict(), indent=1) if as_json else found.table())
    typer.echo(f"{repetitions} repetitions of {len(found.results)} methods in {found.seconds:.0f} s", err=True)


@contextmanager
def _shown(total: int) -> Iterator[Progress]:
    """A bar on stderr."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("repetitions", total=total)
        yield lambda done, _total: bar.update(task, completed=done)
