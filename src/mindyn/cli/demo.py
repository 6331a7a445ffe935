"""`mindyn demo`: the dynamics of a PUMA 560 along a motion, and how fast they were computed."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import typer

from mindyn.algebra.values import Array
from mindyn.kernels.model import Model, compile_model
from mindyn.robots.loading import load_robot
from mindyn.robots.robot import Robot
from mindyn.robots.table import text_table

SECONDS, RATE_HZ = 10.0, 1000.0


def demo() -> None:
    """Load the bundled PUMA 560, evaluate its dynamics along a motion, say what was computed and how fast."""
    robot = load_robot("puma560")
    typer.echo(f"{robot}\n")
    motion = sine_motion(robot, np.arange(0.0, SECONDS, 1 / RATE_HZ))
    model = compile_model(robot)
    start = perf_counter()
    tau = model.inverse_dynamics(*motion)
    compiled = perf_counter() - start
    typer.echo(f"inverse dynamics at {len(tau)} samples ({SECONDS:g} s at {RATE_HZ:g} Hz):")
    typer.echo(torque_table(robot, tau))
    elapsed = min(timed(model, motion, tau) for _ in range(20))
    typer.echo(f"\n{elapsed / len(tau) * 1e9:.1f} ns per sample on one thread, {compiled:.2f} s to trace and compile;")
    typer.echo(f"one evaluation takes {model.operation_counts['inverse_dynamics']}")


def timed(model: Model, motion: tuple[Array, Array, Array], out: Array) -> float:
    """Seconds of one evaluation of the whole motion."""
    start = perf_counter()
    model.inverse_dynamics(*motion, out=out)
    return perf_counter() - start


def sine_motion(robot: Robot, t: Array) -> tuple[Array, Array, Array]:
    """Positions, velocities, accelerations (samples, n): each joint on its own sine about the middle of its range."""
    lower = np.array([joint.limits.lower or 0.0 for joint in robot.joints])
    upper = np.array([joint.limits.upper or 0.0 for joint in robot.joints])
    frequency = 2 * np.pi * (0.1 + 0.05 * np.arange(robot.joint_count))
    phase = np.outer(t, frequency)
    reach = (upper - lower) / 4
    q = (lower + upper) / 2 + reach * np.sin(phase)
    return q, reach * frequency * np.cos(phase), -reach * frequency**2 * np.sin(phase)


def torque_table(robot: Robot, tau: Array) -> str:
    """Least, greatest and root-mean-square torque of every joint."""
    rows: list[tuple[str, ...]] = [("joint", "least [N m]", "greatest [N m]", "rms [N m]")]
    for name, column in zip(robot.joint_names, tau.T, strict=True):
        values = (column.min(), column.max(), np.sqrt(np.mean(column**2)))
        rows.append((name, *(f"{value:.3f}" for value in values)))
    return text_table(rows)
