"""`mindyn simulate`: a robot under computed torque on a sine motion, its sensors, written as a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from mindyn.algebra.values import Array
from mindyn.cli.arguments import JSON, ROBOT, takes_robot
from mindyn.equations.loop_closure import affine_closure
from mindyn.errors import ExportError, InputError
from mindyn.logs.writing import write_log
from mindyn.robots.loading import RobotOptions
from mindyn.robots.parts import Limits
from mindyn.robots.robot import Robot
from mindyn.simulation.controllers import ComputedTorque, SineMotion
from mindyn.simulation.results import Measurement
from mindyn.simulation.sensors import Sensors
from mindyn.simulation.simulate import simulate as run_simulation


@takes_robot
def simulate(
    robot: Annotated[str, ROBOT],
    out: Annotated[Path, typer.Option(help="The log to write: .csv or .parquet; a sidecar .toml goes beside it.")],
    seconds: Annotated[float, typer.Option(help="Length of the motion.")] = 10.0,
    rate_hz: Annotated[float, typer.Option(help="Rate of the log.")] = 200.0,
    drives: Annotated[bool, typer.Option(help="With rotor inertia and friction.")] = False,
    torque_noise: Annotated[
        float,
        typer.Option(help="Standard deviation of the torque reading, N m; at the motors if all have drives."),
    ] = 0.0,
    position_noise: Annotated[
        float, typer.Option(help="Standard deviation of the position reading, rad or m; likewise.")
    ] = 0.0,
    counts: Annotated[
        float | None, typer.Option(help="Counts of the encoders for each motor turn, joint turn without drives.")
    ] = None,
    torque_resolution: Annotated[
        float | None, typer.Option(help="Step of the torque reading, N m; likewise at the motor.")
    ] = None,
    position_delay_s: Annotated[float, typer.Option(help="By which position readings are late.")] = 0.0,
    torque_delay_s: Annotated[float, typer.Option(help="By which torque readings are late.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Of noise and motion.")] = 0,
    as_json: Annotated[bool, JSON] = False,
    *,
    options: RobotOptions,
) -> None:
    """Simulate a motion and write what sensors would have logged."""
    if out.suffix not in (".csv", ".parquet"):
        raise InputError(f"--out {str(out)!r} must end with .csv or .parquet", hint="--out run1.parquet")
    if not out.parent.is_dir():
        raise ExportError(
            f"there is no folder {str(out.parent)!r} to write {out.name} into", hint="make the folder first"
        )
    loaded = options.load(robot)
    sensors = Sensors(
        rate_hz=rate_hz,
        counts_per_revolution=counts,
        position_noise=position_noise,
        torque_noise=torque_noise,
        torque_resolution=torque_resolution,
        position_delay_s=position_delay_s,
        torque_delay_s=torque_delay_s,
        seed=seed,
    )
    reference = sine_reference(loaded, seed)
    start = reference(0.0)
    controller = ComputedTorque(loaded, reference, 100.0, 20.0, drives=drives)
    run = run_simulation(loaded, controller, seconds=seconds, q0=start[0], qd0=start[1], drives=drives, sensors=sensors)
    assert run.measured is not None
    write_measurement(run.measured, loaded, out)
    typer.echo(f"{len(run.measured.t)} samples of {len(run.measured.joint_names)} joints in {out}", err=True)
    if as_json:
        joints = list(run.measured.joint_names)
        said = {"log": str(out), "samples": len(run.measured.t), "rate_hz": rate_hz, "joints": joints, "drives": drives}
        typer.echo(json.dumps(said, indent=2))


def sine_reference(robot: Robot, seed: int) -> SineMotion:
    """Every primary joint on a sine of its own from the middle of its range: see `_range`."""
    rng = np.random.default_rng(seed)
    joints = robot.primary_joints
    lower, upper = np.array([_range(joint.limits) for joint in joints]).T
    centre, reach = (lower + upper) / 2, np.minimum((upper - lower) / 4, 0.8)
    reach = _share_of_reach(robot, centre, reach) * reach
    frequency = 0.15 + 0.25 * rng.random(len(joints))
    return SineMotion(centre, reach, frequency, np.zeros(len(joints)))


def _range(limits: Limits) -> tuple[float, float]:
    """The stated ends; 2 rad or m from the one that is stated; about zero where none is."""
    if limits.lower is None:
        return (-1.0, 1.0) if limits.upper is None else (limits.upper - 2.0, limits.upper)
    return limits.lower, limits.lower + 2.0 if limits.upper is None else limits.upper


def _share_of_reach(robot: Robot, centre: Array, reach: Array) -> float:
    """How much of the sines keeps the dependent joints within their ranges too."""
    affine, share = affine_closure(robot), 1.0
    middles, reaches = affine.matrix @ centre + affine.offset, np.abs(affine.matrix) @ reach
    for joint, middle, wanted in zip(robot.joints, middles, reaches, strict=True):
        if joint.name in robot.primary_names:
            continue
        lower, upper = joint.limits.lower, joint.limits.upper
        room = min(np.inf if lower is None else middle - lower, np.inf if upper is None else upper - middle)
        if room <= 0:
            raise InputError(
                f"the dependent joint {joint.name!r} would be at {middle:g}, outside its range, with the others in the "
                "middle of theirs",
                hint="mindyn.simulate, in Python, takes any motion",
            )
        share = min(share, room / wanted)
    return float(share)


def write_measurement(measured: Measurement, robot: Robot, path: Path) -> None:
    """The log and its sidecar: columns by joint name, units and side stated."""
    signals = {"position": measured.position, "torque": measured.torque}
    sides = {"position": measured.position_side, "torque": measured.torque_side}
    write_log(path, robot, measured.t, signals, sides)
