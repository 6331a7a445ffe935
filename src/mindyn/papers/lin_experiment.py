"""Lin 1995, section IV: the MLC of a Stanford arm identified from the last link to the first, on several motions."""

from __future__ import annotations

import numpy as np

from mindyn.algebra.values import Array
from mindyn.kernels.model import compile_model
from mindyn.papers.drawing import line_drawing
from mindyn.papers.reproduction import Figure, Row, Table, claim_row
from mindyn.parameters.lin import lin_base
from mindyn.parameters.lin_structure import lin_structure
from mindyn.robots.loading import load_robot
from mindyn.robots.robot import Robot

SAMPLES, SECONDS, MOTIONS, HARMONICS = 200, 10.0, 4, 3
NOISE = 1e-3
"""Torque noise of the second experiment, as part of each joint's root mean square torque."""
CLOSELY = 1e-9
"""Largest relative error that counts as "matched the true values very closely" without noise."""


def stanford_identification() -> tuple[Table, Figure]:
    """Identified beside true MLC without noise, and the error with noise beside cond(A_i)."""
    robot = load_robot("stanford")
    rows, conditions, errors = [], [], []
    for seed in range(MOTIONS):
        motion = sinusoids(robot, seed)
        clean, found = identified(robot, motion, 0.0, seed)
        noisy, _ = identified(robot, motion, NOISE, seed)
        conditions.append(found)
        errors.append(noisy)
        rows.append(_row(seed, clean, found))
    table = Table(
        "Section IV: the Stanford arm identified from the last link to the first",
        f"relative error of every MLC below {CLOSELY:g} (the paper: 'matched the true values very closely')",
        tuple(rows),
        "The report with the paper's trajectories [22] is not at hand: these are sums of three sinusoids a joint.",
    )
    x, y = np.ravel(conditions), np.ravel(errors)
    order = np.argsort(x)
    drawing = line_drawing(
        {"joints": (np.log10(x[order]), y[order])},
        "log10 of cond(A_i)",
        "relative error of the joint's MLC",
        logarithmic=True,
        marks=("joints",),
    )
    note = (
        f"With torque noise of {100 * NOISE:g} % the error of a joint's MLC grows with cond(A_i), as section IV says."
    )
    return table, Figure(
        "lin-conditions", "Section IV: error of a joint's MLC over the condition of its A_i", drawing, note
    )


def _row(seed: int, errors: Array, conditions: Array) -> Row:
    shown = ", ".join(f"{value:.3g}" for value in conditions)
    name, said = f"motion {seed + 1}", f"largest relative error {errors.max():.0e}"
    return claim_row(name, "very closely", said, bool(errors.max() <= CLOSELY), f"cond(A_i), i = 1 .. 6: {shown}")


def sinusoids(robot: Robot, seed: int) -> tuple[Array, Array, Array]:
    """q, qd, qdd (SAMPLES, n): three harmonics a joint, drawn from a seed."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, SECONDS, SAMPLES)[:, None]
    n = robot.joint_count
    q, qd, qdd = np.zeros((3, SAMPLES, n))
    for k in range(1, HARMONICS + 1):
        w = 2 * np.pi * k / SECONDS * rng.uniform(0.8, 1.6, n)
        size, phase = rng.uniform(0.2, 0.8, n), rng.uniform(0, 2 * np.pi, n)
        q, qd = q + size * np.sin(w * t + phase), qd + size * w * np.cos(w * t + phase)
        qdd = qdd - size * w**2 * np.sin(w * t + phase)
    return q, qd, qdd


def identified(robot: Robot, motion: tuple[Array, Array, Array], noise: float, seed: int) -> tuple[Array, Array]:
    """Relative error of each joint's MLC, and cond(A_i) with columns of unit length [eq. 94-116].

    From i = n to 1: A_i w_i = tau_i - phi_i, phi_i the torque of the links behind with the values found for them.
    """
    base, structure = lin_base(robot), lin_structure(robot)
    Y = compile_model(robot, base=base).regressor(*motion)
    tau = Y @ base.values
    spread = noise * np.sqrt((tau**2).mean(axis=0))
    tau = tau + np.random.default_rng(100 + seed).normal(size=tau.shape) * spread
    found = np.zeros(base.count)
    n = robot.joint_count
    errors, conditions = np.zeros(n), np.zeros(n)
    for i in reversed(range(n)):
        own = [position for (joint, _), position in structure.layout.items() if joint == i]
        A = Y[:, i, own]
        units = np.linalg.norm(A, axis=0)
        w = np.linalg.lstsq(A / units, tau[:, i] - Y[:, i] @ found, rcond=None)[0] / units
        found[own] = w
        errors[i] = np.abs(w - base.values[own]).max() / np.abs(base.values[own]).max()
        conditions[i] = np.linalg.cond(A / units)
    return errors, conditions
