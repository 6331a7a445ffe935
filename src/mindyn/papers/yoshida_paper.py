"""Yoshida 1996: counts of chapter 3, tests of identified values, convergence and trajectories (3.5, 3.6)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mindyn.applications.step_tests.step_by_step import StepByStep
from mindyn.applications.validation.trajectories import Trajectories, compare_trajectories
from mindyn.foundation.algebra.values import Array
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.estimators.recursive_instruments import RecursiveInstruments
from mindyn.identification.estimators.recursive_least_squares import RecursiveLeastSquares
from mindyn.identification.feasibility.projections.yoshida_projection import project_by_cones
from mindyn.kernels.model import compile_model
from mindyn.logs.samples import Samples
from mindyn.motions.simulation.controllers import SineMotion
from mindyn.motions.simulation.sensors import Sensors
from mindyn.motions.step_plans.planner import plan_tests
from mindyn.motions.step_plans.simulated_tests import simulate_tests
from mindyn.papers.reproduction import PaperTable, Reproduction, Row
from mindyn.papers.yoshida_robot import VALUE_TABLES, yoshida_load, yoshida_puma, yoshida_symbols, yoshida_values
from mindyn.parameters.structural import structural_base
from mindyn.regression.build_rows import build_rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.drive_matrices import gear_matrix
from mindyn.robots.loading import load_robot
from mindyn.robots.robot import Robot

CITATION = "K. Yoshida, Studies on dynamics of robot manipulators, doctoral thesis, Osaka University, 1996"
INERTIAS = ("J1z", "J2z", "J3z")
PRINTED_ITERATIONS = {"J1z": "LS about 40000, IV about 30000", "J5z": "LS about 80000, IV about 50000"}
"""The parameters of figure 3.6.1, with the iterations until they converge."""
SETTLING_TOLERANCE = 0.02
"""Relative distance from its last value within which a converged parameter stays."""
MAX_INERTIA_ERROR = 0.03
"""Largest relative error of an inertia by instrumental variables."""
MAX_DEVIATIONS = 4.0
"""Largest error of any of the 52 values, in standard deviations."""
COMPARED_METHODS = ("step by step", "least squares", "instrumental variables")
STEP_S = 0.005
ENCODER_COUNT_RAD = 2 * np.pi / 1000
"""Angle of the motor for each count of its encoder."""
ACCELERATION_DEVIATIONS = (3.0, 3.0, 7.0, 23.0, 23.0, 24.0)
"""Standard deviation of every joint's acceleration, rad/s^2."""
ACCELERATION_SCALE, SINE_COUNT = 0.8, 12
IDENTIFICATION_ROWS, FIRST_CONVERGENCE_ROW, CONVERGENCE_STEP_ROWS, TRAJECTORY_ROWS = 3000, 750, 150, 600
"""Samples of the identification; the first sample after which every joint has reversed, so that friction is
identifiable; samples between two points of the convergence; samples of the motions that models are tested on.
"""


def reproduce() -> Reproduction:
    """Reproduce the numbers of chapters 3 and 4."""
    recursive, estimates = identify_by_all_methods()
    return Reproduction(
        "yoshida",
        CITATION,
        (
            _counts(),
            _identified_values(recursive),
            _load(recursive),
            _batch_agreement(recursive),
            _iterations(recursive),
            _trajectories(estimates),
            _two_links(),
        ),
    )


@lru_cache(maxsize=1)
def identify_by_all_methods() -> tuple[Convergence, dict[str, Estimate]]:
    """Identify a simulated arm with the values of table 3 by the three methods of section 3.6."""
    robot = yoshida_puma("table3")
    recursive = estimate_recursively(robot)
    steps = estimate_step_by_step(robot)
    return recursive, dict(zip(COMPARED_METHODS, (steps, recursive.least_squares, recursive.instruments), strict=True))


def simulate_models(estimates: dict[str, Estimate]) -> dict[str, Trajectories]:
    """Return the motion of every model under the recorded torque of another motion."""
    measured = make_clean_samples(next(iter(estimates.values())).robot, TRAJECTORY_ROWS, 5)
    return {method: compare_trajectories(estimate, measured) for method, estimate in estimates.items()}


def _counts() -> PaperTable:
    robot = yoshida_puma("table1")
    plan = plan_tests(robot, weakest=0.0)
    kinds = plan.counts()
    chain, whole = structural_base(robot), structural_base(robot, with_drives=True)
    offsets = len(robot.drives)
    tests = kinds.get("accelerated", 0)
    rows: tuple[Row, ...] = (
        Row.compare("base parameters of the chain (3.2)", 36, chain.count, 0, form=".0f"),
        Row.compare("with rotors and friction (3.3), without offsets", 52, whole.count - offsets, 0, form=".0f"),
        Row.compare("accelerated tests (section 3.4)", 13, tests, 0, form=".0f"),
        Row.correct(
            "static tests (section 3.4)",
            "6",
            str(kinds.get("static", 0)),
            "the first axis is vertical: joint 1 provides no information",
        ),
    )
    return PaperTable("Chapter 3: parameters and tests of the PUMA 560", "exact", rows)


def _identified_values(recursive: Convergence) -> PaperTable:
    """Reproduce the difference between the tables, which belong to a real arm, on an arm with the values of table 3."""
    symbols = yoshida_symbols(recursive.least_squares.parameters)
    truth, deviations = recursive.least_squares.base.values, recursive.instruments.deviations
    printed = [yoshida_values(table) for table in VALUE_TABLES]
    rows: list[Row] = []
    for symbol in printed[0]:
        k = symbols[symbol]
        ls, iv = recursive.least_squares.beta[k], recursive.instruments.beta[k]
        theirs = ", ".join(f"{table[symbol]:.3g}" for table in printed)
        near = abs(iv - truth[k]) <= (
            MAX_INERTIA_ERROR * abs(truth[k]) if symbol in INERTIAS else MAX_DEVIATIONS * deviations[k]
        )
        rows.append(Row.check(symbol, theirs, f"LS {ls:.3g}, IV {iv:.3g} of {truth[k]:.3g}", near))
    worst = min(recursive.least_squares.beta[symbols[inertia]] / truth[symbols[inertia]] for inertia in INERTIAS)
    words = f"LS underestimates inertias ({', '.join(INERTIAS)})"
    rows.append(Row.check(words, "tables 2 and 3", f"down to {100 * worst:.0f} %", worst < 0.7))
    note = (
        "Paper: steps, LS, IV on the real arm, whose logs are not available. Ours: LS and IV on a simulated arm with "
        "table 3's values, encoders of 1000 counts a turn, differences over 5 ms."
    )
    limits = (
        f"IV within {MAX_DEVIATIONS:g} of its deviations of the simulated arm's value, {', '.join(INERTIAS)} within"
    )
    return PaperTable(
        "Tables 1 to 3: identified values", f"{limits} {100 * MAX_INERTIA_ERROR:g} %, LS below 70 %", tuple(rows), note
    )


def _batch_agreement(recursive: Convergence) -> PaperTable:
    plain = recursive.least_squares
    gap = float(np.abs(recursive.ls[-1] - plain.beta).max() / np.abs(plain.base.values).max())
    row = Row.check("recursive LS ends at the batch result", "(3.22)", f"difference {gap:.0e}", gap < 1e-8)
    return PaperTable("Section 3.5: the iterative formulas", "1e-8 of the largest value", (row,))


def _iterations(recursive: Convergence) -> PaperTable:
    """Compare section 3.6: the data points after which a parameter has converged."""
    symbols = yoshida_symbols(recursive.least_squares.parameters)
    why = "the commanded torques, the encoder noise and the convergence test are not published"
    rows = [Row.quote("all parameters", "LS 120000, some not converged, in 36 hours; IV 80000", why)]
    for symbol, printed in PRINTED_ITERATIONS.items():
        ls, iv = (
            samples_needed(recursive.samples, values[:, symbols[symbol]]) for values in (recursive.ls, recursive.iv)
        )
        rows.append(Row.leave_open(symbol, printed, why, f"LS {ls:.0f}, IV {iv:.0f}"))
        rows.append(Row.check(f"{symbol}: IV needs fewer than LS", "in words", f"{iv:.0f} < {ls:.0f}", iv < ls))
    note = (
        f"Ours: samples, counted from {FIRST_CONVERGENCE_ROW}, until a value stays within "
        f"{100 * SETTLING_TOLERANCE:g} % of that after {IDENTIFICATION_ROWS}; LS "
        "still moves there. In the thesis J5z needs more than J1z; our motion moves the wrist faster, and J5z needs "
        "fewer."
    )
    return PaperTable(
        "Section 3.6: iterations until the parameters converge", "IV needs fewer than LS", tuple(rows), note
    )


def samples_needed(samples: Array, values: Array) -> float:
    """Return the first of `samples` (k,) from which on `values` (k,) stay within SETTLING_TOLERANCE of the last."""
    away = np.flatnonzero(np.abs(values / values[-1] - 1) > SETTLING_TOLERANCE)
    return float(samples[away[-1] + 1 if len(away) else 0])


def _load(recursive: Convergence) -> PaperTable:
    """Compare section 3.2: the effect of the load on the base parameters, with the identified values."""
    base, symbols = recursive.least_squares.base, yoshida_symbols(recursive.least_squares.parameters)
    last, tables = len(base.robot.links), [yoshida_values(table) for table in VALUE_TABLES]
    added = base.matrix[:, 10 * last - 10 : 10 * last] @ yoshida_load()
    load = {symbol: float(added[k]) for symbol, k in symbols.items() if abs(added[k]) > 1e-9}
    tensor = [symbol for symbol in load if symbol.startswith("J6")]
    gaps = [np.sqrt(np.mean([(table[symbol] - load[symbol]) ** 2 for symbol in tensor])) for table in tables]
    rows = (
        *(
            Row(symbol, ", ".join(f"{t[symbol]:.3g}" for t in tables), f"{load[symbol]:.3g}", "", "ours")
            for symbol in load
        ),
        Row.report(f"rms distance of {', '.join(tensor)}", ", ".join(f"{gap:.2g}" for gap in gaps)),
    )
    note = (
        "Paper: tables 1 to 3, arm and load together; ours: the load alone, from its printed mass, centre and tensor. "
        "Values of link 6 without the load are not printed, so the tables do not determine the load itself."
    )
    return PaperTable("Section 3.2: the load on link 6", "no comparison is printed", rows, note)


def _trajectories(estimates: dict[str, Estimate]) -> PaperTable:
    """Compare figures 3.6.2 to 3.6.4: the joints moved by every model under the recorded torque."""
    trajectories = simulate_models(estimates)
    rows: list[Row] = []
    for method, trajectory in trajectories.items():
        text = ", ".join(f"{value:.1e}" for value in trajectory.rms)
        rows.append(Row.report(f"{method}: rms of joints 1 .. 6", f"{text} rad"))
    errors = {method: float(np.max(trajectory.rms)) for method, trajectory in trajectories.items()}
    best = min(errors, key=lambda name: errors[name])
    words = "models by IV and step by step move like the arm; the model by LS does not"
    holds = errors["least squares"] > 5 * max(errors["instrumental variables"], errors["step by step"])
    rows.append(Row.check(words, "figures 3.6.2-4", f"the nearest is {best}", holds))
    return PaperTable(
        "Section 3.6: simulated compared with measured motion",
        "the error of LS is five times that of the others",
        tuple(rows),
    )


def _two_links() -> PaperTable:
    """Reproduce the worked case of a planar two-link arm: an impossible set and its modification."""
    base = structural_base(load_robot("planar2"))  # L = 1 m
    values = np.array([0.0, 0.0, 0.30, 0.14, 0.05, 0.05])  # mcx1R, mcy1, J1, Rx, Ry, J2
    modified = project_by_cones(base, values)
    before, after = (bool(v[2] * v[5] > v[3] ** 2 + v[4] ** 2) for v in (values, modified))
    rows = (
        Row.check(
            "J1 J2 > L^2 rho^2 fails before, holds after", "(4.49), (4.51)", f"{before}, {after}", after and not before
        ),
        Row.report(
            "modified J1, J2, Rx, Ry",
            ", ".join(f"{modified[k]:.4f}" for k in (2, 5, 3, 4)),
            "for an estimate: `mindyn check --method yoshida`",
        ),
    )
    return PaperTable(
        "Sections 4.3 and 4.4: two links by the cones", "the condition holds after the modification", rows
    )


def make_motion(count: int, seed: int) -> tuple[Array, Array, Array]:
    """Return q, qd, qdd (count + 2, 6): sums of sines, with one extra row before and after."""
    rng = np.random.default_rng(seed)
    size = np.array(ACCELERATION_DEVIATIONS)
    w = np.sqrt(size / ACCELERATION_SCALE) * rng.uniform(0.3, 1.3, (SINE_COUNT, 6))
    a, phase = rng.uniform(0.5, 1.0, w.shape), rng.uniform(0, 2 * np.pi, w.shape)
    a = a * size / np.sqrt((a**2 * w**4).sum(axis=0) / 2)
    motion = SineMotion((a * np.sin(phase)).sum(axis=0), a, w / (2 * np.pi), phase)
    return motion.rows(STEP_S * np.arange(-1.0, count + 1))


def make_clean_samples(robot: Robot, count: int, seed: int) -> Samples:
    """Return the exact motion with the robot's own torques."""
    q, qd, qdd = (part[1:-1] for part in make_motion(count, seed))
    return _samples(robot, q, qd, qdd, compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd))


def make_measured_samples(robot: Robot, count: int, seed: int) -> Samples:
    """Return exact torques, motor angles with uniform noise of one count, and velocities and accelerations by
    differences.
    """
    q, qd, qdd = make_motion(count, seed)
    tau = compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)[1:-1]
    G = gear_matrix(robot)
    motors = q @ G.T + ENCODER_COUNT_RAD * np.random.default_rng(1000 + seed).uniform(-0.5, 0.5, q.shape)
    p = motors @ np.linalg.inv(G).T
    qd, qdd = (p[2:] - p[:-2]) / (2 * STEP_S), (p[2:] - 2 * p[1:-1] + p[:-2]) / STEP_S**2
    return _samples(robot, p[1:-1], qd, qdd, tau)


def _samples(robot: Robot, q: Array, qd: Array, qdd: Array, tau: Array) -> Samples:
    return Samples(robot.joint_names, q, qd, qdd, tau, 1 / STEP_S, np.zeros(len(q), dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Convergence:
    """Values of the parameters over the number of samples, by both recursive methods, and their final estimates.

    samples  (k,)
    ls, iv   (k, p)
    """

    samples: Array
    ls: Array
    iv: Array
    least_squares: Estimate
    instruments: Estimate


def estimate_recursively(robot: Robot) -> Convergence:
    """Run recursive least squares and recursive instrumental variables over a log."""
    log = make_measured_samples(robot, IDENTIFICATION_ROWS, 0)
    plain = LeastSquares().fit(build_rows(robot, log, EquationSettings(drive_parameters="stated")))
    counts = range(FIRST_CONVERGENCE_ROW, IDENTIFICATION_ROWS + 1, CONVERGENCE_STEP_ROWS)
    least_squares, by_ls = RecursiveLeastSquares(robot), []
    instruments, by_iv = RecursiveInstruments(plain, largest_acceleration=np.abs(log.qdd).max(axis=0)), []
    for k, sample in enumerate(zip(log.q, log.qd, log.qdd, log.tau, strict=True), 1):
        least_squares.update(*sample)
        instruments.update(*sample)
        if k in counts:
            by_ls.append(least_squares.beta)
            by_iv.append(instruments.beta)
    return Convergence(np.array(counts, dtype=float), np.array(by_ls), np.array(by_iv), plain, instruments.estimate())


def estimate_step_by_step(robot: Robot) -> Estimate:
    """Run the step-by-step method on simulated tests with the same encoders."""
    plan = plan_tests(robot)
    sensors = Sensors(counts_per_revolution=1000, position_noise=0.003, torque_noise=0.001)
    logs = simulate_tests(robot, plan, rate_hz=200.0, sensors=sensors, rng=1)
    return StepByStep().fit(robot, plan, logs)
