"""Figures 3.6.1 to 3.6.4 of Yoshida 1996, computed for a simulated arm."""

from __future__ import annotations

from typing import Final

from mindyn.applications.validation.trajectories import Trajectories
from mindyn.papers.line_drawings import Curve, Figure, draw_lines
from mindyn.papers.yoshida_paper import (
    COMPARED_METHODS,
    PRINTED_ITERATIONS,
    Convergence,
    identify_by_all_methods,
    simulate_models,
)
from mindyn.papers.yoshida_robot import yoshida_symbols

ABBREVIATIONS: Final = dict(zip(COMPARED_METHODS, ("steps", "LS", "IV"), strict=True))


def draw_figures() -> tuple[Figure, ...]:
    """Draw the convergence of LS and IV, and the motion of the models of three methods, two joints in a figure."""
    recursive, estimates = identify_by_all_methods()
    trajectories = simulate_models(estimates)
    return (_convergence(recursive), *(_trajectory(2 + k, (2 * k, 2 * k + 1), trajectories) for k in range(3)))


def _convergence(recursive: Convergence) -> Figure:
    symbols, truth = yoshida_symbols(recursive.least_squares.parameters), recursive.least_squares.base.values
    curves: dict[str, Curve] = {}
    for symbol in PRINTED_ITERATIONS:
        k = symbols[symbol]
        curves[f"{symbol}, IV"] = (recursive.samples, recursive.iv[:, k] / truth[k])
        curves[f"{symbol}, LS"] = (recursive.samples, recursive.ls[:, k] / truth[k])
    drawing = draw_lines(curves, "samples", "value / true value")
    return Figure("yoshida-figure-3-6-1", "Figure 3.6.1: convergence of LS and IV", drawing)


def _trajectory(number: int, joints: tuple[int, int], trajectories: dict[str, Trajectories]) -> Figure:
    curves: dict[str, Curve] = {}
    for j in joints:
        first = next(iter(trajectories.values()))
        curves[f"joint {j + 1}, measured"] = (first.t, first.measured[:, j])
        curves |= {
            f"joint {j + 1}, {ABBREVIATIONS[name]}": (trajectory.t, trajectory.simulated[:, j])
            for name, trajectory in trajectories.items()
        }
    title = f"Figure 3.6.{number}: simulated and measured trajectories of joints {joints[0] + 1} and {joints[1] + 1}"
    return Figure(f"yoshida-figure-3-6-{number}", title, draw_lines(curves, "t, s", "position, rad"))
