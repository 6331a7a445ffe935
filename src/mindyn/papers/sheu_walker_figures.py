"""Figures 3, 4 and 6 of Sheu & Walker 1991, computed for our robots and motions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from mindyn.equations.identifiability.reduction import Reduction
from mindyn.equations.identifiability.regressor_rows import Regressors
from mindyn.foundation.algebra.values import Array
from mindyn.papers.line_drawings import Figure, draw_lines
from mindyn.papers.sheu_walker_paper import MOTION_RATE_RAD_S, ReducedArm, reduce_arms
from mindyn.robots.robot import Robot

PUMA_SIZES: Final = (10, 25, 36)
FIVE_BAR_SIZES: Final = (10, 20, 26)
"""Numbers of components of the reduced models of figures 4 and 6."""


def draw_figures() -> tuple[Figure, ...]:
    """Draw the energy missed over the components kept, and the torques of reduced models."""
    puma, five_bar = reduce_arms()
    return (
        _energies({"PUMA 560": puma.reduction, "five-bar arm": five_bar.reduction}),
        _torques(puma, PUMA_SIZES, 0, "figure-4", "Figure 4: torque of joint 1, PUMA 560"),
        _torques(five_bar, FIVE_BAR_SIZES, 1, "figure-6", "Figure 6: torque of joint 2, five-bar arm"),
    )


def _energies(reductions: dict[str, Reduction]) -> Figure:
    curves = {}
    for name, reduction in reductions.items():
        error = 100 * reduction.energy_error[:-1]
        curves[name] = (np.arange(len(error), dtype=float), error)
    drawing = draw_lines(curves, "components kept", "energy missed, %")
    return Figure("sheu-walker-figure-3", "Figure 3: energy missed over the components kept", drawing)


def _torques(arm: ReducedArm, sizes: Sequence[int], joint: int, name: str, title: str) -> Figure:
    t = np.linspace(0, 2 * np.pi / MOTION_RATE_RAD_S, len(arm.motion[0]))
    curves = {"all parameters": (t, reduced_torque(arm.robot, arm.motion, arm.robot.phi, joint))}
    for k in sizes:
        phi = arm.reduction.coordinates[:k] @ arm.reduction.components[:k]
        tau = reduced_torque(arm.robot, arm.motion, phi, joint)
        error = float(((tau - curves["all parameters"][1]) ** 2).mean())
        curves[f"{k}, ms {error:.1e}"] = (t, tau)
    return Figure(f"sheu-walker-{name}", title, draw_lines(curves, "t, s", "torque, N m"))


def reduced_torque(robot: Robot, motion: tuple[Array, Array, Array], phi: Array, joint: int) -> Array:
    """Return the torque (N,) of a joint along a motion for the parameters phi."""
    return np.asarray(Regressors(robot).torque_rows(*motion)[:, joint] @ phi)
