"""Yoshida 1996: counts of chapter 3, identified values judged, convergence and trajectories of sections 3.5 and 3.6."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mindyn.algebra.values import Array
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.least_squares import LeastSquares
from mindyn.estimators.recursive import RecursiveLeastSquares
from mindyn.estimators.recursive_instruments import RecursiveInstruments
from mindyn.estimators.step_by_step import StepByStep
from mindyn.excitation.step_planner import plan_tests
from mindyn.excitation.step_simulation import simulate_tests
from mindyn.feasibility.inertia_family import find_member
from mindyn.feasibility.yoshida_projection import TwoLinks, project_two_links
from mindyn.kernels.model import compile_model
from mindyn.logs.samples import Samples
from mindyn.papers.drawing import Curve, draw_lines
from mindyn.papers.reproduction import (
    Figure,
    PaperTable,
    Reproduction,
    Row,
    claim_row,
    computed_row,
    erratum_row,
    number_row,
    printed_row,
    unpublished_row,
)
from mindyn.papers.yoshida_values import VALUE_TABLES, yoshida_load, yoshida_puma, yoshida_symbols, yoshida_values
from mindyn.parameters.structural import structural_base
from mindyn.regression.rows import build_rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.drive_matrices import gear_matrix
from mindyn.robots.robot import Robot
from mindyn.simulation.sensors import Sensors
from mindyn.validation.step_checks import MAX_UNCERTAINTY_RATIO, MIN_RELATIVE_MISS, StepChecks, check_steps
from mindyn.validation.trajectories import Trajectories, compare_trajectories

CITATION = "K. Yoshida, Studies on dynamics of robot manipulators, doctoral thesis, Osaka University, 1996"
INERTIAS = ("J1z", "J2z", "J3z")
PRINTED_ITERATIONS = {"J1z": "LS about 40000, IV about 30000", "J5z": "LS about 80000, IV about 50000"}
"""The parameters that figure 3.6.1 shows, with the iterations until they converge."""
SETTLING_TOLERANCE = 0.02
"""Part of its last value within which a parameter that has converged stays."""
MAX_INERTIA_ERROR = 0.03
"""Part by which the instrumental variables may miss an inertia."""
MAX_DEVIATIONS = 4.0
"""Deviations by which they may miss any value of 52."""
TESTED_CONFIGURATIONS = 20_000
COMPARED_METHODS = ("step by step", "least squares", "instrumental variables")
METHOD_ABBREVIATIONS = dict(zip(COMPARED_METHODS, ("steps", "LS", "IV"), strict=True))
STEP_S = 0.005
ENCODER_COUNT_RAD = 2 * np.pi / 1000
"""Radians of the motor for each count of its encoder."""
ACCELERATION_DEVIATIONS = (3.0, 3.0, 7.0, 23.0, 23.0, 24.0)
"""Standard deviation of every joint's acceleration, rad/s^2."""
ACCELERATION_SCALE, SINE_COUNT = 0.8, 12
IDENTIFICATION_ROWS, FIRST_CONVERGENCE_ROW, CONVERGENCE_STEP_ROWS, TRAJECTORY_ROWS = 3000, 750, 150, 600
"""Samples of the identification; from which on every joint has turned back, so that friction is told; between two
points of the convergence; of the motions that models are judged by."""


def reproduce() -> Reproduction:
    """What of chapters 3 and 4 has numbers."""
    robot = yoshida_puma("table3")
    found = estimate_recursively(robot)
    steps, checked = estimate_step_by_step(robot)
    estimates = dict(zip(COMPARED_METHODS, (steps, found.least_squares, found.instruments), strict=True))
    return Reproduction(
        "yoshida",
        CITATION,
        (
            _counts(),
            _identified_values(found),
            _load(found),
            *_convergence(found),
            _step_checks(checked),
            *_trajectories(estimates),
            _test_tables(),
            _two_links(),
        ),
    )


def _counts() -> PaperTable:
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
        erratum_row(
            "static tests (section 3.4)",
            "6",
            str(kinds.get("static", 0)),
            "the first axis is vertical: joint 1 tells nothing",
        ),
    )
    return PaperTable("Chapter 3: parameters and tests of the PUMA 560", "exact", rows)


def _identified_values(found: Convergence) -> PaperTable:
    """The tables are of a real arm; what is reproduced is what their difference shows, on an arm with table 3's."""
    symbols = yoshida_symbols(found.least_squares.parameters)
    truth, deviations = found.least_squares.base.values, found.instruments.deviations
    printed = [yoshida_values(table) for table in VALUE_TABLES]
    rows: list[Row] = []
    for symbol in printed[0]:
        k = symbols[symbol]
        ls, iv = found.least_squares.beta[k], found.instruments.beta[k]
        told = ", ".join(f"{table[symbol]:.3g}" for table in printed)
        near = abs(iv - truth[k]) <= (
            MAX_INERTIA_ERROR * abs(truth[k]) if symbol in INERTIAS else MAX_DEVIATIONS * deviations[k]
        )
        rows.append(claim_row(symbol, told, f"LS {ls:.3g}, IV {iv:.3g} of {truth[k]:.3g}", near))
    worst = min(found.least_squares.beta[symbols[one]] / truth[symbols[one]] for one in INERTIAS)
    words = f"LS makes inertias too small ({', '.join(INERTIAS)})"
    rows.append(claim_row(words, "tables 2 and 3", f"down to {100 * worst:.0f} %", worst < 0.7))
    note = (
        "Paper: steps, LS, IV on the arm itself, whose logs are not at hand. Ours: LS and IV on a simulated arm with "
        "table 3's values, encoders of 1000 counts a turn, differences over 5 ms."
    )
    limits = (
        f"IV within {MAX_DEVIATIONS:g} of its deviations of the simulated arm's value, {', '.join(INERTIAS)} within"
    )
    return PaperTable(
        "Tables 1 to 3: identified values", f"{limits} {100 * MAX_INERTIA_ERROR:g} %, LS below 70 %", tuple(rows), note
    )


def _convergence(found: Convergence) -> list[PaperTable | Figure]:
    symbols, truth = yoshida_symbols(found.least_squares.parameters), found.least_squares.base.values
    curves = {}
    for symbol in PRINTED_ITERATIONS:
        k = symbols[symbol]
        curves[f"{symbol}, IV"] = (found.samples, found.iv[:, k] / truth[k])
        curves[f"{symbol}, LS"] = (found.samples, found.ls[:, k] / truth[k])
    drawing = draw_lines(curves, "samples", "value / true value")
    gap = float(np.abs(found.ls[-1] - found.least_squares.beta).max() / np.abs(truth).max())
    row = claim_row("recursive LS ends where the batch does", "(3.22)", f"difference {gap:.0e}", gap < 1e-8)
    note = (
        "The thesis's iterations are data points of one pass; the recursive IV is compared with the batch by its test."
    )
    return [
        Figure("yoshida-figure-3-6-1", "Figure 3.6.1: convergence of LS and IV", drawing, note),
        PaperTable("Section 3.5: the iterative formulas", "1e-8 of the largest value", (row,)),
        _iterations(found, symbols),
    ]


def _iterations(found: Convergence, symbols: dict[str, int]) -> PaperTable:
    """Section 3.6: the data points after which a parameter has converged."""
    why = "the torques commanded, the encoders' noise and the test of convergence are not told"
    rows = [printed_row("all parameters", "LS 120000, some not converged, in 36 hours; IV 80000", why)]
    for symbol, printed in PRINTED_ITERATIONS.items():
        ls, iv = (samples_needed(found.samples, values[:, symbols[symbol]]) for values in (found.ls, found.iv))
        rows.append(unpublished_row(symbol, printed, why, f"LS {ls:.0f}, IV {iv:.0f}"))
        rows.append(claim_row(f"{symbol}: IV needs fewer than LS", "in words", f"{iv:.0f} < {ls:.0f}", iv < ls))
    note = (
        f"Ours: samples, counted from {FIRST_CONVERGENCE_ROW}, until a value stays within {100 * SETTLING_TOLERANCE:g} % of that after {IDENTIFICATION_ROWS}; LS "
        "still moves there. In the thesis J5z needs more than J1z; our motion moves the wrist faster, and it does not."
    )
    return PaperTable(
        "Section 3.6: iterations until the parameters converge", "IV needs fewer than LS", tuple(rows), note
    )


def samples_needed(samples: Array, values: Array) -> float:
    """Return the first of `samples` (k,) from which on `values` (k,) stay within SETTLED of the last."""
    away = np.flatnonzero(np.abs(values / values[-1] - 1) > SETTLING_TOLERANCE)
    return float(samples[away[-1] + 1 if len(away) else 0])


def _load(found: Convergence) -> PaperTable:
    """Section 3.2: what the load alone adds to the base parameters, beside the identified values."""
    base, symbols = found.least_squares.base, yoshida_symbols(found.least_squares.parameters)
    last, tables = len(base.robot.links), [yoshida_values(table) for table in VALUE_TABLES]
    added = base.matrix[:, 10 * last - 10 : 10 * last] @ yoshida_load()
    load = {one: float(added[k]) for one, k in symbols.items() if abs(added[k]) > 1e-9}
    tensor = [one for one in load if one.startswith("J6")]
    gaps = [np.sqrt(np.mean([(table[one] - load[one]) ** 2 for one in tensor])) for table in tables]
    rows = (
        *(Row(one, ", ".join(f"{t[one]:.3g}" for t in tables), f"{load[one]:.3g}", "", "ours") for one in load),
        computed_row(f"rms distance of {', '.join(tensor)}", ", ".join(f"{gap:.2g}" for gap in gaps)),
    )
    note = (
        "Paper: tables 1 to 3, arm and load together; ours: the load alone, from its printed mass, centre and tensor. "
        "Values of link 6 without the load are not printed, so that the load itself cannot be found from the tables."
    )
    return PaperTable("Section 3.2: the load on link 6", "no comparison is printed", rows, note)


def _step_checks(checked: StepChecks) -> PaperTable:
    """Section 3.6: every test repeated with the values that the steps found."""
    rows = [
        claim_row(
            f"{one.test}, {one.compared} of {one.joint}",
            "examined",
            f"rms {one.rms:.2g}, {100 * one.rms / one.size:.2g} % of the measured",
            not one.suspect,
            f"uncertainty of the values explains {one.explained:.2g}",
        )
        for one in checked.checks
    ]
    limit = f"{MAX_UNCERTAINTY_RATIO:g} times what the values' uncertainty explains, or {100 * MIN_RELATIVE_MISS:g} % of the measured"
    note = "The thesis prints no numbers. Accelerated tests: rad; others: N m. `check_steps`, `mindyn tests identify`."
    return PaperTable("Section 3.6: the values of each test examined by a small simulation", limit, tuple(rows), note)


def _trajectories(estimates: dict[str, Estimate]) -> list[PaperTable | Figure]:
    """Figures 3.6.2 to 3.6.4: two joints each, moved by every model under the recorded torque."""
    measured = make_clean_samples(next(iter(estimates.values())).robot, TRAJECTORY_ROWS, 5)
    found = {method: compare_trajectories(estimate, measured) for method, estimate in estimates.items()}
    rows: list[Row] = []
    for method, one in found.items():
        said = ", ".join(f"{value:.1e}" for value in one.rms)
        rows.append(computed_row(f"{method}: rms of joints 1 .. 6", f"{said} rad"))
    errors = {method: float(np.max(one.rms)) for method, one in found.items()}
    best = min(errors, key=lambda name: errors[name])
    words = "IV and the steps give models that move as the arm does; LS does not"
    holds = errors["least squares"] > 5 * max(errors["instrumental variables"], errors["step by step"])
    rows.append(claim_row(words, "figures 3.6.2-4", f"the nearest is {best}", holds))
    table = PaperTable(
        "Section 3.6: simulated beside measured motion", "LS misses by five times what the others do", tuple(rows)
    )
    return [table, *(_trajectory(2 + k, (2 * k, 2 * k + 1), found) for k in range(3))]


def _trajectory(number: int, joints: tuple[int, int], found: dict[str, Trajectories]) -> Figure:
    curves: dict[str, Curve] = {}
    for j in joints:
        first = next(iter(found.values()))
        curves[f"joint {j + 1}, measured"] = (first.t, first.measured[:, j])
        curves |= {
            f"joint {j + 1}, {METHOD_ABBREVIATIONS[name]}": (one.t, one.simulated[:, j]) for name, one in found.items()
        }
    title = f"Figure 3.6.{number}: simulated and measured trajectories of joints {joints[0] + 1} and {joints[1] + 1}"
    return Figure(f"yoshida-figure-3-6-{number}", title, draw_lines(curves, "t, s", "position, rad"))


def _test_tables() -> PaperTable:
    """The smallest eigenvalue over random configurations: the thesis applies no judgement to its own tables."""
    rows: list[Row] = []
    rng = np.random.default_rng(0)
    q = rng.uniform(-np.pi, np.pi, (TESTED_CONFIGURATIONS, 6))
    for table in VALUE_TABLES:
        for drives, what in ((False, "the chain"), (True, "with rotors")):
            member = find_member(yoshida_puma(table), drives=drives)
            least = np.linalg.eigvalsh(member.family.matrices(q, member.values))[:, 0]
            share = 100 * float((least <= 0).mean())
            said = f"not positive definite at {share:.1f} %, smallest eigenvalue {least.min():.3f}"
            rows.append(computed_row(f"{table}, {what}", said))
    note = "`check_positive_definite` adds a local descent. With the rotors tables 1 and 3 are possible."
    return PaperTable(
        "Chapter 4: tables 1 to 3 judged", "not printed: the thesis judges none of its tables", tuple(rows), note
    )


def _two_links() -> PaperTable:
    """The worked case of a planar two-link arm: an impossible set and its modification."""
    arm = TwoLinks(0.30, 0.05, 0.28, 0.10, 0.5)
    mended = project_two_links(arm)
    values = (mended.J1, mended.J2, mended.Rx, mended.Ry)
    rows = (
        claim_row(
            "J1 J2 > L^2 rho^2 fails before, holds after",
            "(4.49), (4.51)",
            f"{arm.is_possible}, {mended.is_possible}",
            not arm.is_possible and mended.is_possible,
        ),
        computed_row(
            "modified J1, J2, Rx, Ry",
            ", ".join(f"{value:.4f}" for value in values),
            "for an estimate: `mindyn check --method yoshida`",
        ),
    )
    return PaperTable(
        "Sections 4.3 and 4.4: two links by the cones", "the condition holds after the modification", rows
    )


def make_motion(count: int, seed: int) -> tuple[Array, Array, Array]:
    """q, qd, qdd (count + 2, 6): sums of sines, one row before and one after."""
    rng = np.random.default_rng(seed)
    size = np.array(ACCELERATION_DEVIATIONS)
    w = np.sqrt(size / ACCELERATION_SCALE) * rng.uniform(0.3, 1.3, (SINE_COUNT, 6))
    a, phase = rng.uniform(0.5, 1.0, w.shape), rng.uniform(0, 2 * np.pi, w.shape)
    a = a * size / np.sqrt((a**2 * w**4).sum(axis=0) / 2)
    angle = STEP_S * np.arange(-1, count + 1)[:, None, None] * w + phase
    sin, cos = np.sin(angle), np.cos(angle)
    return (a * sin).sum(axis=1), (a * w * cos).sum(axis=1), -(a * w**2 * sin).sum(axis=1)


def make_clean_samples(robot: Robot, count: int, seed: int) -> Samples:
    """The motion as it is, with the robot's own torques."""
    q, qd, qdd = (part[1:-1] for part in make_motion(count, seed))
    return _samples(robot, q, qd, qdd, compile_model(robot, drives=True).inverse_dynamics(q, qd, qdd))


def make_measured_samples(robot: Robot, count: int, seed: int) -> Samples:
    """Exact torques; motor angles with uniform noise of one count; velocities and accelerations by differences."""
    q, qd, qdd = make_motion(count, seed)
    tau = compile_model(robot, drives=True).inverse_dynamics(q, qd, qdd)[1:-1]
    G = gear_matrix(robot)
    motors = q @ G.T + ENCODER_COUNT_RAD * np.random.default_rng(1000 + seed).uniform(-0.5, 0.5, q.shape)
    p = motors @ np.linalg.inv(G).T
    qd, qdd = (p[2:] - p[:-2]) / (2 * STEP_S), (p[2:] - 2 * p[1:-1] + p[:-2]) / STEP_S**2
    return _samples(robot, p[1:-1], qd, qdd, tau)


def _samples(robot: Robot, q: Array, qd: Array, qdd: Array, tau: Array) -> Samples:
    return Samples(robot.joint_names, q, qd, qdd, tau, 1 / STEP_S, np.zeros(len(q), dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Convergence:
    """Values of the parameters over the samples taken in, by both recursive methods, and their last estimates.

    samples  (k,)
    ls, iv   (k, p)
    """

    samples: Array
    ls: Array
    iv: Array
    least_squares: Estimate
    instruments: Estimate


def estimate_recursively(robot: Robot) -> Convergence:
    """Recursive least squares and recursive instrumental variables over one log."""
    log = make_measured_samples(robot, IDENTIFICATION_ROWS, 0)
    plain = LeastSquares().fit(build_rows(robot, log, EquationSettings(drives="stated")))
    largest = np.abs(log.qdd).max(axis=0)
    ls, iv = RecursiveLeastSquares(robot), RecursiveInstruments(plain, largest_acceleration=largest)
    points: list[tuple[int, Array, Array]] = []
    for k in range(IDENTIFICATION_ROWS):
        sample = (log.q[k], log.qd[k], log.qdd[k], log.tau[k])
        ls.update(*sample)
        iv.update(*sample)
        if k + 1 >= FIRST_CONVERGENCE_ROW and (k + 1) % CONVERGENCE_STEP_ROWS == 0:
            points.append((k + 1, ls.beta, iv.beta))
    counts, by_ls, by_iv = zip(*points, strict=True)
    return Convergence(np.array(counts, dtype=float), np.array(by_ls), np.array(by_iv), plain, iv.estimate())


def estimate_step_by_step(robot: Robot) -> tuple[Estimate, StepChecks]:
    """The step-by-step method on simulated tests with the same encoders, and every test repeated with its values."""
    plan = plan_tests(robot)
    sensors = Sensors(counts_per_revolution=1000, position_noise=0.003, torque_noise=0.001)
    logs = simulate_tests(robot, plan, rate_hz=200.0, sensors=sensors, seed=1)
    found = StepByStep().fit(robot, plan, logs)
    return found, check_steps(found, plan, logs)
