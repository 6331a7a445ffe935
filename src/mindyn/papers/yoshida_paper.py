"""Yoshida 1996: counts of chapter 3, identified values judged, convergence and trajectories of sections 3.5 and 3.6."""

from __future__ import annotations

import numpy as np

from mindyn.estimators.estimate import Estimate
from mindyn.excitation.step_planner import plan_tests
from mindyn.feasibility.inertia_family import member_of
from mindyn.feasibility.yoshida_mending import TwoLinks, mend_two_links
from mindyn.papers.drawing import line_drawing
from mindyn.papers.reproduction import (
    Figure,
    Reproduction,
    Row,
    Table,
    claim_row,
    erratum,
    not_told,
    number_row,
    of_ours,
)
from mindyn.papers.yoshida_experiment import (
    TRAJECTORY_ROWS,
    Convergence,
    clean_samples,
    convergence,
    step_estimate,
)
from mindyn.papers.yoshida_values import TABLES, yoshida_puma, yoshida_values
from mindyn.parameters.structural import structural_base
from mindyn.validation.trajectories import Trajectories, simulated_against_measured

CITATION = "K. Yoshida, Studies on dynamics of robot manipulators, doctoral thesis, Osaka University, 1996"
INERTIAS = ("J1z", "J2z", "J3z")
NAMES = ("Izz1R", "Izz2R", "Izz3R")
"""Of the same parameters in the structural set with drives."""
CLOSE = 0.03
"""Part by which the instrumental variables may miss an inertia."""
CONFIGURATIONS = 20_000
METHODS = ("step by step", "least squares", "instrumental variables")


def reproduced() -> Reproduction:
    """What of chapters 3 and 4 has numbers."""
    robot = yoshida_puma("table3")
    found = convergence(robot)
    estimates = dict(zip(METHODS, (step_estimate(robot), found.least_squares, found.instruments), strict=True))
    return Reproduction(
        "yoshida",
        CITATION,
        (
            _counts(),
            _identified(found),
            *_convergence(found),
            *_trajectories(estimates),
            _judged(),
            _two_links(),
        ),
    )


def _counts() -> Table:
    robot = yoshida_puma("table1")
    plan = plan_tests(robot, weakest=0.0)
    kinds = plan.counts()
    chain, whole = structural_base(robot), structural_base(robot, drives=True)
    offsets = len(robot.drives)
    tests = kinds.get("accelerated", 0)
    rows: tuple[Row, ...] = (
        number_row("base parameters of the chain (3.2)", 36, chain.count, 0, form=".0f"),
        number_row("with rotors and friction (3.3), without offsets", 52, whole.count - offsets, 0, form=".0f"),
        number_row("accelerated tests (section 3.4)", 13, tests, 0, form=".0f"),
        erratum(
            "static tests (section 3.4)",
            "6",
            str(kinds.get("static", 0)),
            "the first axis is vertical: joint 1 tells nothing",
        ),
    )
    return Table("Chapter 3: parameters and tests of the PUMA 560", "exact", rows)


def _identified(found: Convergence) -> Table:
    """Tables 2 and 3 are of a real arm; what is reproduced is what their difference shows."""
    names = found.least_squares.names
    truth = found.least_squares.base.values
    rows: list[Row] = []
    for symbol, name in zip(INERTIAS, NAMES, strict=True):
        k = names.index(name)
        printed = ", ".join(f"{yoshida_values(table)[symbol]:.3g}" for table in TABLES)
        ls, iv = found.least_squares.beta[k], found.instruments.beta[k]
        rows.append(
            not_told(f"{symbol}, tables 1, 2, 3 (steps, LS, IV)", printed, "the logs of the arm are not at hand")
        )
        said = f"LS {ls:.3g}, IV {iv:.3g} of {truth[k]:.3g}"
        near = abs(iv - truth[k]) <= CLOSE * abs(truth[k])
        rows.append(claim_row(f"{symbol} in simulation: IV has no bias", "(3.27)", said, near))
    worst = min(found.least_squares.beta[names.index(n)] / truth[names.index(n)] for n in NAMES)
    rows.append(claim_row("LS makes inertias too small", "table 2", f"down to {100 * worst:.0f} %", worst < 0.7))
    note = "Simulated: the arm with table 3's values, encoders of 1000 counts a turn, differences over 5 ms."
    return Table(
        "Tables 1 to 3: identified values",
        f"IV within {100 * CLOSE:g} % of the truth, LS below 70 %",
        tuple(rows),
        note,
    )


def _convergence(found: Convergence) -> list[Table | Figure]:
    names, truth = found.least_squares.names, found.least_squares.base.values
    curves = {}
    for symbol, name in zip(INERTIAS[:2], NAMES[:2], strict=True):
        k = names.index(name)
        curves[f"{symbol}, IV"] = (found.samples, found.iv[:, k] / truth[k])
        curves[f"{symbol}, LS"] = (found.samples, found.ls[:, k] / truth[k])
    drawing = line_drawing(curves, "samples", "value / true value")
    gap = float(np.abs(found.ls[-1] - found.least_squares.beta).max() / np.abs(truth).max())
    row = claim_row("recursive LS ends where the batch does", "(3.20)", f"difference {gap:.0e}", gap < 1e-8)
    note = (
        "The thesis's iterations are data points of one pass; the recursive IV is compared with the batch by its test."
    )
    return [
        Figure("yoshida-figure-3-6-1", "Figure 3.6.1: convergence of LS and IV", drawing, note),
        Table("Section 3.5: the iterative formulas", "1e-8 of the largest value", (row,)),
    ]


def _trajectories(estimates: dict[str, Estimate]) -> list[Table | Figure]:
    """Figures 3.6.2 to 3.6.4: the motion of each model under the recorded torque, beside the recorded motion."""
    parts: list[Table | Figure] = []
    rows: list[Row] = []
    errors: dict[str, float] = {}
    for number, (method, estimate) in enumerate(estimates.items(), start=2):
        measured = clean_samples(estimate.robot, TRAJECTORY_ROWS, 5)
        found = simulated_against_measured(estimate, measured)
        errors[method] = float(np.max(found.rms))
        said = ", ".join(f"{value:.1e}" for value in found.rms)
        rows.append(of_ours(f"{method}: rms of joints 1 .. 6", f"{said} rad"))
        parts.append(_trajectory(number, method, found))
    best = min(errors, key=lambda name: errors[name])
    words = "IV and the steps give models that move as the arm does; LS does not"
    holds = errors["least squares"] > 5 * max(errors["instrumental variables"], errors["step by step"])
    rows.append(claim_row(words, "figures 3.6.2-4", f"the nearest is {best}", holds))
    table = Table(
        "Section 3.6: simulated beside measured motion", "LS misses by five times what the others do", tuple(rows)
    )
    return [table, *parts]


def _trajectory(number: int, method: str, found: Trajectories) -> Figure:
    curves = {
        f"joint {j + 1}, {kind}": (found.t, values[:, j])
        for j in (0, 1)
        for kind, values in (("measured", found.measured), ("simulated", found.simulated))
    }
    title = f"Figure 3.6.{number}: motion with the model of {method}"
    return Figure(f"yoshida-figure-3-6-{number}", title, line_drawing(curves, "t, s", "position, rad"))


def _judged() -> Table:
    """The smallest eigenvalue over random configurations: the thesis applies no judgement to its own tables."""
    rows: list[Row] = []
    rng = np.random.default_rng(0)
    q = rng.uniform(-np.pi, np.pi, (CONFIGURATIONS, 6))
    for table in TABLES:
        for drives, what in ((False, "the chain"), (True, "with rotors")):
            member = member_of(yoshida_puma(table), drives=drives)
            least = np.linalg.eigvalsh(member.family.matrices(q, member.values))[:, 0]
            share = 100 * float((least <= 0).mean())
            said = f"not positive definite at {share:.1f} %, smallest eigenvalue {least.min():.3f}"
            rows.append(of_ours(f"{table}, {what}", said))
    note = "`judge_possible` adds a local descent. With the rotors tables 1 and 3 are possible."
    return Table(
        "Chapter 4: tables 1 to 3 judged", "not printed: the thesis judges none of its tables", tuple(rows), note
    )


def _two_links() -> Table:
    """The worked case of a planar two-link arm: an impossible set and its modification."""
    arm = TwoLinks(0.30, 0.05, 0.28, 0.10, 0.5)
    mended = mend_two_links(arm)
    values = (mended.J1, mended.J2, mended.Rx, mended.Ry)
    rows = (
        claim_row(
            "J1 J2 > L^2 rho^2 fails before, holds after",
            "(4.49), (4.51)",
            f"{arm.is_possible}, {mended.is_possible}",
            not arm.is_possible and mended.is_possible,
        ),
        of_ours(
            "modified J1, J2, Rx, Ry",
            ", ".join(f"{value:.4f}" for value in values),
            "for an estimate: `mindyn check --method yoshida`",
        ),
    )
    return Table("Sections 4.3 and 4.4: two links by the cones", "the condition holds after the modification", rows)
