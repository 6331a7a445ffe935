"""`mindyn demo`: a PUMA 560 is simulated with friction and noise, identified from its log, and validated."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import typer

from mindyn.estimators.estimate import Estimate
from mindyn.estimators.identify import identify
from mindyn.kernels.model import compile_model
from mindyn.logs.log import Log, log_of_arrays
from mindyn.robots.loading import load_robot
from mindyn.robots.robot import Robot
from mindyn.robots.table import text_table
from mindyn.simulation.controllers import ComputedTorque, SineMotion
from mindyn.simulation.sensors import Sensors
from mindyn.simulation.simulate import simulate
from mindyn.validation.validate import validate

SECONDS, RATE_HZ = 15.0, 200.0
HARMONICS = 4


def demo() -> None:
    """Simulate a PUMA 560 with friction and noise, identify it from the log, print true, found, deviation."""
    robot = load_robot("puma560")
    _talk("simulating two motions with friction, encoder counts and torque noise")
    training, other = recorded(robot, seed=1), recorded(robot, seed=2)
    _talk("identifying from the first")
    start = perf_counter()
    found = identify(robot, training, progress=_talk)
    elapsed = perf_counter() - start
    typer.echo(parameter_table(found))
    typer.echo(f"\n{found.status} ({elapsed:.1f} s)\n")
    typer.echo(f"On the second motion, which it was not trained on:\n{validate(found, other)}\n")
    model = compile_model(robot)
    typer.echo(f"One inverse dynamics takes {model.operation_counts['inverse_dynamics']}: `make bench` says how fast.")


def _talk(line: str) -> None:
    typer.echo(line, err=True)


def recorded(robot: Robot, seed: int) -> Log:
    """What encoders of 4000 counts and torque sensors log while the robot follows a sum of sines."""
    rng = np.random.default_rng(seed)
    n = robot.joint_count
    lower = np.array([-1.0 if joint.limits.lower is None else joint.limits.lower for joint in robot.joints])
    upper = np.array([1.0 if joint.limits.upper is None else joint.limits.upper for joint in robot.joints])
    amplitude = np.minimum((upper - lower) / 8, 0.5) * rng.uniform(0.4, 1.0, (HARMONICS, n)) / 2
    frequency = rng.uniform(0.1, 0.8, (HARMONICS, n))
    reference = SineMotion((lower + upper) / 2, amplitude, frequency, rng.uniform(0, 2 * np.pi, (HARMONICS, n)))
    q0, qd0, _ = reference(0.0)
    sensors = Sensors(rate_hz=RATE_HZ, counts_per_revolution=4000, torque_noise=0.002, seed=seed)
    controller = ComputedTorque(robot, reference, 400.0, 40.0, drives=True)
    run = simulate(robot, controller, seconds=SECONDS, q0=q0, qd0=qd0, drives=True, method="fixed", sensors=sensors)
    assert run.measured is not None
    return log_of_arrays(robot.joint_names, run.measured.t, run.measured.position, run.measured.torque)


def parameter_table(found: Estimate) -> str:
    """True value, found value and stated deviation of every parameter that was told."""
    truth = dict(zip(found.base.names, found.base.values, strict=True))
    rows = [("parameter", "true", "found", "deviation stated")]
    for name, deviation in zip(found.names, found.deviations, strict=True):
        if name in truth and np.isfinite(deviation) and deviation > 0:
            rows.append((name, f"{truth[name]:.4g}", f"{found.value(name):.4g}", f"{deviation:.2g}"))
    return text_table(rows)
