"""`mindyn demo`: the whole workflow on a simulated PUMA 560, from an exciting trajectory to report, URDF and C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mindyn.cli.arguments import JSON_OPTION, VERBOSE_OPTION
from mindyn.cli.printing import count_messages, print_json, print_output, print_status
from mindyn.cli.runs import simulate_first_log
from mindyn.foundation.atomic_files import make_output_folder, replace_folder_files
from mindyn.foundation.errors import MindynError
from mindyn.foundation.hints import Command

if TYPE_CHECKING:
    from mindyn.applications.validation.validate import Validation
    from mindyn.identification.estimators.estimate import Estimate
    from mindyn.logs.log import Log
    from mindyn.motions.simulation.controllers import ReferenceRows, SineMotion
    from mindyn.robots.robot import Robot

DEMO_FILES: Final = ("report.html", "estimate.json", "puma560.urdf", "puma560.c", "puma560.h")
"""Files that the demo writes."""
REPORTED_METHOD: Final = "physically consistent"
DEMO_PROGRESS_STEPS: Final = 15
"""Approximate number of progress messages."""
DEMO_SECONDS: Final = 10.0
DEMO_RATE_HZ: Final = 200.0
WRIST_COUPLING: Final = {"joint5": {"joint4": 0.981}, "joint6": {"joint4": 1.005, "joint5": 13.89}}
"""Coupling of the wrist motors with the joints before theirs [Yoshida 1996, chapter 3]."""
ENCODER_COUNTS_PER_TURN: Final = 4000
TORQUE_NOISE_NM: Final = 0.002
"""Standard deviation at the motors."""


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the files of the demo.")] = Path("mindyn-demo"),
    as_json: Annotated[bool, JSON_OPTION] = False,
    verbose: Annotated[bool, VERBOSE_OPTION] = False,
) -> None:
    """Simulate a PUMA 560, identify it with three estimators, check and validate it, and write a report."""
    from mindyn.applications.validation.validate import comparison_table

    start = perf_counter()
    with make_output_folder(out), count_messages("demonstration", DEMO_PROGRESS_STEPS, verbose=verbose) as talk:
        estimate, verdicts = _run_demo(out, talk)
    if as_json:
        errors = {name: verdict.to_dict() for name, verdict in verdicts.items()}
        files = [str(out / name) for name in DEMO_FILES]
        print_json({"files": files, "status": estimate.status, "second_motion": errors})
        return
    if verbose:
        errors_table = comparison_table({name: verdict.error for name, verdict in verdicts.items()})
        typer.echo(f"\n{estimate.status}\n\nOn the second motion, which no method was fitted to:\n{errors_table}\n")
    _print_summary(out, estimate, verdicts[REPORTED_METHOD], perf_counter() - start)


def _run_demo(out: Path, talk: Callable[[str], None]) -> tuple[Estimate, dict[str, Validation]]:
    """Write the files; return the reported estimate, and the validation of every method on the second motion."""
    from mindyn.applications.validation.validate import validate
    from mindyn.identification.feasibility.check_feasible import check_feasible
    from mindyn.identification.feasibility.full_models.full_model import build_full_model
    from mindyn.kernels.model import compile_model
    from mindyn.motions.excitation.design import design_motion
    from mindyn.motions.excitation.design_inputs import MotionSettings, SearchSettings
    from mindyn.motions.excitation.motion_safety import SafetySettings
    from mindyn.output.export.ros2_package import CONTROL_FUNCTIONS
    from mindyn.output.export.urdf_writer import write_urdf
    from mindyn.output.report.write_report import write_report

    truth = couple_wrist(load_demonstrated_arm())
    print_status(f"1 of 4: designing an exciting trajectory of {DEMO_SECONDS:g} s")
    # The condition number: in 10 s the D-optimal motion has many reversals, whose rows bias the estimated delay.
    design = design_motion(
        truth,
        seconds=DEMO_SECONDS,
        motion=MotionSettings(speed=1.0, acceleration=1.0),
        safety=SafetySettings(floor=None),
        search=SearchSettings(starts=1, criterion="condition"),
        progress=talk,
    )
    if design.is_interrupted:
        raise KeyboardInterrupt
    print_status("2 of 4: simulating it and a second motion with friction and sensor noise")
    training = record_motion(truth, design.motion, "designed trajectory", seed=1)
    other = record_motion(truth, sum_of_sines(truth), "second motion", seed=2)
    print_status("3 of 4: identifying the arm from the first log with three methods")
    estimates = identify_by_methods(remove_parameters(truth), training, talk)
    print_status("4 of 4: validating it on the second log and writing report, URDF and C code")
    verdicts = {name: validate(candidate, other) for name, candidate in estimates.items()}
    estimate = estimates.pop(REPORTED_METHOD)
    with replace_folder_files(out, DEMO_FILES) as folder:
        write_report(
            estimate,
            folder / "report.html",
            validation_logs=other,
            validation=verdicts[REPORTED_METHOD],
            training_logs=training,
            feasibility=check_feasible(estimate),
            motion=simulate_first_log(estimate, [other]),
            comparison=estimates,
            run={"command": ["mindyn", "demo"], "robot": {"given": "puma560"}, "folder": str(out)},
        )
        estimate.save(folder / "estimate.json")
        write_urdf(estimate, folder / "puma560.urdf")
        model = compile_model(build_full_model(estimate, friction_at_zero="fitted"), with_drives=True)
        model.write_c(folder / "puma560.c", CONTROL_FUNCTIONS)
    return estimate, verdicts


def _print_summary(out: Path, estimate: Estimate, verdict: Validation, seconds: float) -> None:
    """Print the result and the written files."""
    import numpy as np

    from mindyn.identification.feasibility.check_feasible import check_feasible
    from mindyn.output.report.verdict import describe_consistency

    e = verdict.error
    weakest = int(np.argmax(e.relative))
    physical = describe_consistency(check_feasible(estimate).answers)
    print_output(f"\nDone in {seconds:.0f} s: identified a simulated PUMA 560 from {DEMO_SECONDS:g} s of motion.")
    print_output(
        f"On a second motion, the error of the predicted torque is {100 * e.total:.2g} % "
        f"({e.joint_names[weakest]}, the weakest joint: {100 * e.relative[weakest]:.2g} %). {physical}"
    )
    print_output(f"  {out / 'report.html'}: the report; open it in a browser.", "    ")
    print_output(f"  {out / 'puma560.urdf'}, puma560.c: the model for simulators and controllers.", "    ")
    print_output(f"Identify your own arm: {Command('start', 'ROBOT', 'LOG')}")


def load_demonstrated_arm() -> Robot:
    """Return the arm of the demonstration."""
    from mindyn.robots.loading import load_robot

    return load_robot("puma560")


def couple_wrist(robot: Robot) -> Robot:
    """Return the robot with coupled wrist gears."""
    drives = [replace(drive, coupling=WRIST_COUPLING.get(drive.joint, {})) for drive in robot.drives]
    return replace(robot, drives=tuple(drives))


def remove_parameters(robot: Robot) -> Robot:
    """Return the robot with geometry and gears only, as known before identification."""
    from mindyn.robots.parts import Drive

    links = tuple(replace(link, phi=None) for link in robot.links)
    drives = tuple(Drive(drive.joint, drive.ratio, drive.coupling, side=drive.side) for drive in robot.drives)
    return replace(robot, links=links, drives=drives)


def sum_of_sines(robot: Robot, harmonics: int = 4) -> SineMotion:
    """Return a sum of sines for every joint in the middle half of its range."""
    import numpy as np

    from mindyn.motions.simulation.controllers import SineMotion

    rng, n = np.random.default_rng(2), robot.joint_count
    lower = np.array([joint.limits.lower for joint in robot.joints], dtype=np.float64)
    upper = np.array([joint.limits.upper for joint in robot.joints], dtype=np.float64)
    amplitude = np.minimum((upper - lower) / 8, 0.5) * rng.uniform(0.4, 1.0, (harmonics, n)) / 2
    frequency, phase = rng.uniform(0.1, 0.8, (harmonics, n)), rng.uniform(0, 2 * np.pi, (harmonics, n))
    return SineMotion((lower + upper) / 2, amplitude, frequency, phase)


def record_motion(robot: Robot, motion: ReferenceRows, name: str, seed: int) -> Log:
    """Simulate the log of encoders and torque sensors while the robot follows a reference."""
    from mindyn.logs.log import log_from_arrays
    from mindyn.motions.simulation.controllers import ComputedTorque, TabulatedReference
    from mindyn.motions.simulation.sensors import Sensors
    from mindyn.motions.simulation.simulate import simulate

    reference = TabulatedReference(motion, DEMO_SECONDS)
    q0, qd0, _ = reference(0.0)
    sensors = Sensors(
        rate_hz=DEMO_RATE_HZ, counts_per_revolution=ENCODER_COUNTS_PER_TURN, torque_noise=TORQUE_NOISE_NM, seed=seed
    )
    controller = ComputedTorque(robot, reference, 400.0, 40.0, with_drives=True)
    run = simulate(
        robot, controller, seconds=DEMO_SECONDS, q0=q0, qd0=qd0, with_drives=True, method="fixed", sensors=sensors
    )
    assert run.measured is not None
    return log_from_arrays(robot.joint_names, run.measured.t, run.measured.position, run.measured.torque, name=name)


def identify_by_methods(robot: Robot, log: Log, talk: Callable[[str], None]) -> dict[str, Estimate]:
    """Fit least squares with selected settings, project it, and fit two other methods with the same settings."""
    from mindyn.identification.estimators.instrumental_variables import InstrumentalVariables
    from mindyn.identification.feasibility.fits.physically_consistent import PhysicallyConsistent
    from mindyn.identification.feasibility.projections.consistent_projection import make_feasible
    from mindyn.identification.identify import identify

    plain = identify(robot, log, progress=talk)
    talk("identifying: physically consistent, without any prior")
    consistent = identify(robot, log, PhysicallyConsistent(prior=None, covariance="correlated"), plain.settings)
    estimates = {"least squares": plain, "projected": make_feasible(plain), REPORTED_METHOD: consistent}
    talk("identifying: instrumental variables")
    every_row = replace(plain.settings, keep_every=1)
    try:
        instruments = InstrumentalVariables(instrument_model=consistent)
        return estimates | {"instrumental variables": identify(robot, log, instruments, every_row)}
    except MindynError as error:
        print_status(f"note: instrumental variables: {error}")
        return estimates
