"""`mindyn demo`: the whole road on a simulated PUMA 560, from an exciting motion to a report, a URDF and C code."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Annotated, Final

import numpy as np
import typer

from mindyn.cli.arguments import JSON
from mindyn.cli.runs import judged_report
from mindyn.errors import MindynError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.instrumental_variables import InstrumentalVariables
from mindyn.excitation.design import design_motion
from mindyn.export.ros2_package import CONTROL
from mindyn.export.urdf_writer import write_urdf
from mindyn.feasibility.check import check_feasible, make_feasible
from mindyn.feasibility.full_model import full_model
from mindyn.feasibility.physically_consistent import PhysicallyConsistent
from mindyn.files import make_folder, replacing
from mindyn.identification.identify import identify
from mindyn.kernels.model import compile_model
from mindyn.logs.log import Log, log_of_arrays
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Drive
from mindyn.robots.robot import Robot
from mindyn.robots.table import text_table
from mindyn.simulation.controllers import ComputedTorque, Reference, SineMotion
from mindyn.simulation.sensors import Sensors
from mindyn.simulation.simulate import simulate
from mindyn.validation.validate import comparison_table, validate

FILES: Final = ("report.html", "estimate.json", "puma560.urdf", "puma560.c", "puma560.h")
"""What the demonstration writes."""
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
) -> None:
    """Simulate a PUMA 560, identify it by three estimators, judge, mend and validate it, and write a report."""
    start = perf_counter()
    make_folder(out)
    truth = with_wrist_coupling(load_robot("puma560"))
    _talk(f"designing a motion of {SECONDS:g} s that tells the parameters, within the robot's limits")
    # All parameters equally clear: in 10 s the fastest motion has many reversals, whose rows mislead the timing.
    design = design_motion(
        truth, seconds=SECONDS, criterion="condition", speed=1.0, acceleration=1.0, floor=None, starts=1, progress=_talk
    )
    _talk("recording it, and another motion: friction, coupled wrist, encoder counts, torque noise")
    training, other = recorded(truth, design.reference, seed=1), recorded(truth, sines(truth), seed=2)
    estimates = identified(without_parameters(truth), training)
    found = estimates["physically consistent"]
    for name, one in estimates.items():
        _talk(f"{name}: is such an arm possible?\n{check_feasible(one)}")
    judged = {name: validate(one, other) for name, one in estimates.items()}
    with replacing(out, FILES) as folder:
        write_all(folder, found, estimates, training, other)
    if as_json:
        errors = {name: verdict.to_dict() for name, verdict in judged.items()}
        said = {"files": [str(out / name) for name in FILES], "status": found.status, "second_motion": errors}
        typer.echo(json.dumps(said, indent=1))
    else:
        typer.echo(parameter_table(truth, estimates))
        errors_beside = comparison_table({name: verdict.error for name, verdict in judged.items()})
        typer.echo(f"\n{found.status}\n\nOn the second motion, which none was trained on:\n{errors_beside}\n")
        typer.echo(f"written to {out}/: {', '.join(FILES)}")
        typer.echo(f"Open {out / 'report.html'} in a browser. ({perf_counter() - start:.0f} s)")


def _talk(line: str) -> None:
    typer.echo(line, err=True)


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


def recorded(robot: Robot, reference: Reference, seed: int) -> Log:
    """What encoders and torque sensors log while the robot follows a reference."""
    q0, qd0, _ = reference(0.0)
    sensors = Sensors(rate_hz=RATE_HZ, counts_per_revolution=COUNTS, torque_noise=TORQUE_NOISE, seed=seed)
    controller = ComputedTorque(robot, reference, 400.0, 40.0, drives=True)
    run = simulate(robot, controller, seconds=SECONDS, q0=q0, qd0=qd0, drives=True, method="fixed", sensors=sensors)
    assert run.measured is not None
    return log_of_arrays(robot.joint_names, run.measured.t, run.measured.position, run.measured.torque)


def identified(robot: Robot, log: Log) -> dict[str, Estimate]:
    """Least squares with everything chosen from the log; two other fits with the same choices; the first one mended."""
    _talk("identifying: least squares")
    plain = identify(robot, log, progress=_talk)
    _talk("identifying: physically consistent, without any prior")
    consistent = identify(robot, log, PhysicallyConsistent(prior=None, covariance="correlated"), plain.treatment)
    found = {"least squares": plain, "mended": make_feasible(plain), "physically consistent": consistent}
    _talk("identifying: instrumental variables")
    every_row = replace(plain.treatment, decimation=1)
    try:
        instruments = InstrumentalVariables(instrument_model=consistent)
        return found | {"instrumental variables": identify(robot, log, instruments, every_row)}
    except MindynError as refused:
        _talk(f"instrumental variables: {refused}")
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


def write_all(out: Path, found: Estimate, estimates: dict[str, Estimate], training: Log, other: Log) -> None:
    """Report, estimate, URDF and C code: `FILES`."""
    others = {name: one for name, one in estimates.items() if one is not found}
    judged_report(
        out / "report.html", found, check_feasible(found), [other], [training], {"command": ["mindyn", "demo"]}, others
    )
    found.save(out / "estimate.json")
    write_urdf(found, out / "puma560.urdf")
    compile_model(full_model(found, friction="fitted"), drives=True).write_c(out / "puma560.c", CONTROL)
