"""`mindyn demo`: the whole road on a simulated PUMA 560, from an exciting motion to a report, a URDF and C code."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Annotated, Final

import numpy as np
import typer

from mindyn.cli.arguments import JSON, VERBOSE
from mindyn.cli.printing import say, show
from mindyn.cli.progress_bars import Spoken, spoken_progress
from mindyn.cli.runs import judged_report
from mindyn.errors import MindynError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.instrumental_variables import InstrumentalVariables
from mindyn.excitation.design import design_motion
from mindyn.export.ros2_package import CONTROL
from mindyn.export.urdf_writer import write_urdf
from mindyn.feasibility.answer import can_exist
from mindyn.feasibility.check import check_feasible, make_feasible
from mindyn.feasibility.full_model import full_model
from mindyn.feasibility.physically_consistent import PhysicallyConsistent
from mindyn.files import folder_for, replacing
from mindyn.identification.identify import identify
from mindyn.kernels.model import compile_model
from mindyn.logs.log import Log, log_of_arrays
from mindyn.report.summary import PHYSICAL
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Drive
from mindyn.robots.robot import Robot
from mindyn.robots.table import text_table
from mindyn.simulation.controllers import ComputedTorque, ReferenceRows, SineMotion, Tabulated
from mindyn.simulation.sensors import Sensors
from mindyn.simulation.simulate import simulate
from mindyn.validation.validate import Verdict, comparison_table, validate

FILES: Final = ("report.html", "estimate.json", "puma560.urdf", "puma560.c", "puma560.h")
"""What the demonstration writes."""
STEPS: Final = 15
"""Lines that its parts say on the way, about; a bar counts them."""
SECONDS: Final = 10.0
RATE_HZ: Final = 200.0
WRIST: Final = {"joint5": {"joint4": 0.981}, "joint6": {"joint4": 1.005, "joint5": 13.89}}
"""Turns of the wrist's motors with the joints before theirs [Yoshida 1996, chapter 3]."""
COUNTS: Final = 4000
TORQUE_NOISE: Final = 0.002
"""N m at the motors."""


def demo(
    out: Annotated[Path, typer.Option(help="Folder for what the demonstration writes.")] = Path("mindyn-demo"),
    as_json: Annotated[bool, JSON] = False,
    verbose: Annotated[bool, VERBOSE] = False,
) -> None:
    """Simulate a PUMA 560, identify it by three estimators, judge, mend and validate it, and write a report."""
    start = perf_counter()
    truth = with_wrist_coupling(load_robot("puma560"))
    with folder_for(out), spoken_progress("demonstration", STEPS, verbose=verbose) as talk:
        _demonstrate(truth, out, talk, start, as_json=as_json, verbose=verbose)


def _demonstrate(truth: Robot, out: Path, talk: Spoken, start: float, *, as_json: bool, verbose: bool) -> None:
    say(f"1 of 4: designing a motion of {SECONDS:g} s that reveals the parameters")
    # All parameters equally clear: in 10 s the fastest motion has many reversals, whose rows mislead the timing.
    design = design_motion(
        truth, seconds=SECONDS, criterion="condition", speed=1.0, acceleration=1.0, floor=None, starts=1, progress=talk
    )
    say("2 of 4: simulating it and another motion, with friction and sensor noise")
    training = recorded(truth, design.motion, "the designed motion", seed=1)
    other = recorded(truth, sines(truth), "another motion", seed=2)
    say("3 of 4: identifying the arm from the first log, by three methods")
    estimates = identified(without_parameters(truth), training, talk)
    found = estimates["physically consistent"]
    say("4 of 4: judging it on the second log, and writing report, URDF and C code")
    judged = {name: validate(one, other) for name, one in estimates.items()}
    with replacing(out, FILES) as folder:
        write_all(folder, out, found, estimates, training, other, judged["physically consistent"])
    if as_json:
        errors = {name: verdict.to_dict() for name, verdict in judged.items()}
        said = {"files": [str(out / name) for name in FILES], "status": found.status, "second_motion": errors}
        typer.echo(json.dumps(said, indent=1))
        return
    if verbose:
        typer.echo(parameter_table(truth, estimates))
        for name, one in estimates.items():
            show(f"\n{name}: is such an arm possible?\n{check_feasible(one)}")
        errors_beside = comparison_table({name: verdict.error for name, verdict in judged.items()})
        typer.echo(f"\n{found.status}\n\nOn the second motion, which none was trained on:\n{errors_beside}\n")
    _close(out, found, judged["physically consistent"], perf_counter() - start)


def _close(out: Path, found: Estimate, verdict: Verdict, seconds: float) -> None:
    """What a newcomer takes home."""
    e = verdict.error
    weakest = int(np.argmax(e.relative))
    physical = PHYSICAL[can_exist({one.question: one.holds for one in check_feasible(found).answers})]
    show(f"\nDone in {seconds:.0f} s: a simulated PUMA 560, identified from {SECONDS:g} s of its motion.")
    show(
        f"The model predicts a motion that it has never seen to {100 * e.total:.2g} % of the torque "
        f"({e.joint_names[weakest]}, the weakest: {100 * e.relative[weakest]:.2g} %). {physical}"
    )
    show(f"  {out / 'report.html'}: how good it is, and why. Open it in a browser.", "    ")
    show(f"  {out / 'puma560.urdf'}, puma560.c: the model, for simulator and controller.", "    ")
    show("Your own arm: mindyn identify arm.urdf run1.csv --hold-out 0.3 --out run1")


def with_wrist_coupling(robot: Robot) -> Robot:
    """The robot with the gears of its wrist coupled."""
    drives = [replace(drive, coupling=WRIST.get(drive.joint, {})) for drive in robot.drives]
    return replace(robot, drives=tuple(drives))


def without_parameters(robot: Robot) -> Robot:
    """What is known before: geometry and gears."""
    links = tuple(replace(link, phi=None) for link in robot.links)
    drives = tuple(Drive(one.joint, one.ratio, one.coupling, side=one.side) for one in robot.drives)
    return replace(robot, links=links, drives=drives)


def sines(robot: Robot, harmonics: int = 4) -> SineMotion:
    """Every joint on a sum of sines of its own, in the middle half of its range."""
    rng, n = np.random.default_rng(2), robot.joint_count
    lower = np.array([joint.limits.lower for joint in robot.joints], dtype=np.float64)
    upper = np.array([joint.limits.upper for joint in robot.joints], dtype=np.float64)
    amplitude = np.minimum((upper - lower) / 8, 0.5) * rng.uniform(0.4, 1.0, (harmonics, n)) / 2
    frequency, phase = rng.uniform(0.1, 0.8, (harmonics, n)), rng.uniform(0, 2 * np.pi, (harmonics, n))
    return SineMotion((lower + upper) / 2, amplitude, frequency, phase)


def recorded(robot: Robot, motion: ReferenceRows, name: str, seed: int) -> Log:
    """What encoders and torque sensors log while the robot follows a reference."""
    reference = Tabulated(motion, SECONDS)
    q0, qd0, _ = reference(0.0)
    sensors = Sensors(rate_hz=RATE_HZ, counts_per_revolution=COUNTS, torque_noise=TORQUE_NOISE, seed=seed)
    controller = ComputedTorque(robot, reference, 400.0, 40.0, drives=True)
    run = simulate(robot, controller, seconds=SECONDS, q0=q0, qd0=qd0, drives=True, method="fixed", sensors=sensors)
    assert run.measured is not None
    return log_of_arrays(robot.joint_names, run.measured.t, run.measured.position, run.measured.torque, name=name)


def identified(robot: Robot, log: Log, talk: Spoken) -> dict[str, Estimate]:
    """Least squares with everything chosen from the log; two other fits with the same choices; the first one mended."""
    plain = identify(robot, log, progress=talk)
    talk("identifying: physically consistent, without any prior")
    consistent = identify(robot, log, PhysicallyConsistent(prior=None, covariance="correlated"), plain.treatment)
    found = {"least squares": plain, "mended": make_feasible(plain), "physically consistent": consistent}
    talk("identifying: instrumental variables")
    every_row = replace(plain.treatment, decimation=1)
    try:
        instruments = InstrumentalVariables(instrument_model=consistent)
        return found | {"instrumental variables": identify(robot, log, instruments, every_row)}
    except MindynError as refused:
        say(f"note: instrumental variables: {refused}")
        return found


def parameter_table(truth: Robot, estimates: dict[str, Estimate]) -> str:
    """True and found values of every base parameter, and the deviation that the last estimate states."""
    *_, last = estimates.values()
    true = replace(last.base, robot=truth).values
    rows = [("parameter", "true", *estimates, "its deviation")]
    for k, name in enumerate(last.base.names):
        found = [f"{one.beta[k]:.4g}" for one in estimates.values()]
        rows.append((name, f"{true[k]:.4g}", *found, f"{last.deviations[k]:.2g}"))
    return text_table(rows)


def write_all(
    out: Path,
    home: Path,
    found: Estimate,
    estimates: dict[str, Estimate],
    training: Log,
    other: Log,
    verdict: Verdict,
) -> None:
    """Report, estimate, URDF and C code: `FILES`, into `out`, which then becomes the folder `home`."""
    others = {name: one for name, one in estimates.items() if one is not found}
    run = {"command": ["mindyn", "demo"], "robot": {"given": "puma560"}, "folder": str(home)}
    judged_report(out / "report.html", found, check_feasible(found), [other], [training], run, verdict, others)
    found.save(out / "estimate.json")
    write_urdf(found, out / "puma560.urdf")
    compile_model(full_model(found, friction="fitted"), drives=True).write_c(out / "puma560.c", CONTROL)
