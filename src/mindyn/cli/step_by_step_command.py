"""`mindyn step-by-step`: Yoshida's step-by-step tests on the command line: planned, simulated and identified."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mindyn.cli.arguments import (
    JSON_OPTION,
    ROBOT_ARGUMENT,
    VERBOSE_OPTION,
    complete_from,
    load_and_hold,
    with_robot_options,
)
from mindyn.cli.exit_codes import ExitCode
from mindyn.cli.limits_file import MotionOptions, read_limits_file, with_motion_options
from mindyn.cli.next_step import format_robot_options, print_next_command
from mindyn.cli.printing import print_json, print_output, print_problems, print_status
from mindyn.foundation.atomic_files import replace_folder_files
from mindyn.foundation.errors import Code, InputError, pluralise, require_choice
from mindyn.foundation.findings import Severity, name_warnings
from mindyn.foundation.hints import Command

if TYPE_CHECKING:
    from mindyn.robots.loading import RobotOptions

ACTIONS = ("plan", "simulate", "identify")


@with_robot_options
@with_motion_options
def step_by_step(
    action: Annotated[str, typer.Argument(help="plan, simulate or identify.", autocompletion=complete_from(ACTIONS))],
    robot: Annotated[str, ROBOT_ARGUMENT],
    folder: Annotated[Path, typer.Argument(help="Folder of the plan, the motions and the logs; plan creates it.")],
    rate_hz: Annotated[float, typer.Option("--rate", help="Sample rate of motions and simulated logs, Hz.")] = 200.0,
    seconds: Annotated[float, typer.Option(help="plan: length of an accelerated motion, s.")] = 2.0,
    counts: Annotated[int | None, typer.Option(help="simulate: encoder counts per motor turn; default: exact.")] = None,
    torque_noise: Annotated[float, typer.Option(help="simulate: standard deviation at the motors, N m.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the held configurations (plan) or of the noise (simulate).")] = 0,
    through: Annotated[str | None, typer.Option(help="identify: use only the tests up to this one.")] = None,
    *,
    motion: MotionOptions,
    as_json: Annotated[bool, JSON_OPTION] = False,
    verbose: Annotated[bool, VERBOSE_OPTION] = False,
    options: RobotOptions,
) -> None:
    """Plan Yoshida's simple tests, simulate them, or identify a robot from their logs."""
    from mindyn.applications.step_tests.step_by_step import StepByStep
    from mindyn.applications.step_tests.step_checks import check_steps
    from mindyn.motions.excitation.limits import with_limits
    from mindyn.motions.simulation.sensors import Sensors
    from mindyn.motions.step_plans.folders import PLAN, read_test_logs, write_motions, write_test_logs
    from mindyn.motions.step_plans.plan import load_plan
    from mindyn.motions.step_plans.safe_tests import plan_safe_tests
    from mindyn.motions.step_plans.simulated_tests import simulate_tests

    require_choice(action, ACTIONS, "the action of mindyn step-by-step")
    loaded, options, held = load_and_hold(options, robot, motion.move)
    words = format_robot_options(options)
    if action == "plan":
        given = read_limits_file(motion.limits, loaded, held)
        around = replace(motion.safety, **given.surroundings)
        stated = with_limits(loaded, given.bounds)
        plan, check = plan_safe_tests(stated, around, home=given.home, seconds=seconds, seed=seed)
        folder.mkdir(parents=True, exist_ok=True)
        paths = "straight paths between the motions checked"
        first = next(iter(plan.motions.values())).trajectory(rate_hz).q[0]
        start = ", ".join(f"{name} = {q:.3f}" for name, q in zip(loaded.primary_names, first, strict=True))
        paths += ", also from and to home" if given.home is not None else f"; approach not checked: begins at {start}"
        errors = [finding.message for finding in check.findings if finding.severity is Severity.ERROR]
        headline = f"{'; '.join([*errors, check.headline])}; {paths}{name_warnings(check.findings)}."
        write_motions(plan, folder, rate_hz=rate_hz, comments=[headline, *check.lines()])
        if as_json:
            print_json({**plan.to_dict(), "check": check.to_dict()})
        else:
            print_output(headline)
            print_output(f"Largest speed of any point of the arm {check.speed:.3g} m/s ({check.fastest}).")
            print_output(plan.table(), "  ")
        print_problems((*held, *check.findings), verbose=verbose)
        print_status(
            f"wrote {pluralise(len(plan.motions), 'motion')} and {PLAN} to {folder}: record on the robot, or simulate"
        )
        if plan.unidentifiable:
            print_status(
                f"no test determines: {', '.join(plan.unidentifiable)}; wider limits or a longer --seconds may help"
            )
            raise typer.Exit(ExitCode.NO)
        print_next_command("step-by-step", "simulate", robot, folder, *words)
        return
    if not (folder / PLAN).is_file():
        raise InputError(
            f"no {PLAN} in '{folder}'",
            hint="plan the tests first",
            command=Command("step-by-step", "plan", robot, folder),
            code=Code.MISSING_FILE,
            subject=PLAN,
        )
    if action == "simulate":
        sensors = None
        if counts is not None or torque_noise:
            sensors = Sensors(counts_per_revolution=counts, torque_noise=torque_noise)
        logs = simulate_tests(loaded, load_plan(folder / PLAN), rate_hz=rate_hz, sensors=sensors, rng=seed)
        write_test_logs(logs, folder, loaded, load_plan(folder / PLAN))
        if as_json:
            print_json({"logs": sorted(logs)})
        print_status(f"wrote {pluralise(len(logs), 'log')} to {folder}")
        print_next_command("step-by-step", "identify", robot, folder, *words)
        return
    plan, logs = read_test_logs(folder, loaded)
    if through is not None:
        plan = plan.through(through)
        logs = {name: log for name, log in logs.items() if name in plan.motions}
    estimate = StepByStep().fit(loaded, plan, logs)
    checked = check_steps(estimate, plan, logs)
    estimate = estimate.with_notes(simulated=checked.to_dict())
    with replace_folder_files(folder, ["estimate.json"]) as target:
        estimate.save(target / "estimate.json")
    if as_json:
        print_json(estimate.to_dict())
    else:
        print_output(f"{estimate.table()}\n\n{checked.table()}", "  ")
    print_status(f"wrote {folder / 'estimate.json'}")
    print_next_command("check", folder)
