"""Lin 1995: tables I to III, the savings of section III, and the identification of a Stanford arm (section IV)."""

from __future__ import annotations

import numpy as np

from mindyn.equations.dh_joints import rotate_symmetric, shift_symmetric
from mindyn.equations.scalar_vectors import Symmetric, Triple
from mindyn.foundation.algebra.values import Array
from mindyn.identification.estimators.last_link_first import fit_backwards
from mindyn.kernels.model import compile_model
from mindyn.logs.samples import Samples
from mindyn.motions.simulation.controllers import SineMotion
from mindyn.papers.counting import Counts, Tape
from mindyn.papers.operation_tables import LIN_DENSE, PaperRow, lin_rows, table_ii
from mindyn.papers.reproduction import PaperTable, Reproduction, Row, signed
from mindyn.papers.traced_robots import constants, general_joint, lin_chain, variables
from mindyn.parameters.gautier_khalil import gautier_khalil_base
from mindyn.parameters.lin import lin_base, lin_structure
from mindyn.regression.build_rows import build_rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.loading import load_robot
from mindyn.robots.robot import Robot

CITATION = "S.-K. Lin, Minimal linear combinations of the inertia parameters of a manipulator, 1995"
NOTED_TOLERANCE = "exact, except for operations that the note lists"
SAME_SET_TOLERANCE = 1e-12
JOINT_COUNT = 6
"""n at which formulas in n are compared."""
SAMPLES, SECONDS, MOTIONS, HARMONICS = 200, 10.0, 4, 3
MAX_NOISELESS_ERROR = 1e-9
"""Largest relative error that counts as "matched the true values very closely" without noise."""


def reproduce() -> Reproduction:
    """Reproduce every table of the paper."""
    return Reproduction(
        "lin",
        CITATION,
        (_table_i(), _table_ii(), _table_iii(), _composites(), _savings(), stanford_identification()),
    )


def _table_i() -> PaperTable:
    """Compare the sets: Lin's constants of a prismatic joint include the mass after it, Gautier's do not."""
    robot = load_robot("stanford")
    lin, gautier = lin_base(robot), gautier_khalil_base(robot)
    T = lin.transform_to(gautier)
    gap = float(np.abs(T @ lin.matrix - gautier.matrix).max())
    text = f"a map of rank {np.linalg.matrix_rank(T)} between sets of {lin.count}, to {gap:.0e}"
    row = Row.check("the sets differ, their span is the same", "formulas", text, gap < SAME_SET_TOLERANCE)
    return PaperTable(
        "Table I: the set compared with that of Gautier et al.",
        f"{SAME_SET_TOLERANCE:g} between one set and the other mapped to it, on the Stanford arm",
        (row,),
        "The table prints formulas, no numbers; both are implemented (`lin`, `gautier`) and tested on random chains.",
    )


def _table_ii() -> PaperTable:
    return PaperTable(
        "Table II: operations of a joint, in all seven columns and the footnotes",
        NOTED_TOLERANCE,
        tuple(map(explained_row, table_ii())),
    )


def _table_iii() -> PaperTable:
    rows = [
        Row.quote("Khalil & Kleinfinger", "101n-129 M, 90n-118 A; Stanford 240M 227A, simplified 142M 99A"),
        Row.quote("Balafoutis et al.", "93n-69 M, 81n-66 A; no Stanford arm"),
        Row.quote("Gautier & Khalil", "92n-127 M, 81n-117 A; Stanford 232M 218A, simplified 142M 99A"),
        *(explained_row(row) for row in lin_rows()),
    ]
    return PaperTable("Table III: operations of inverse dynamics", NOTED_TOLERANCE, tuple(rows))


def explained_row(row: PaperRow) -> Row:
    """Return a row of a table of counts, at n = 6 if it is a formula."""
    n = row.size or JOINT_COUNT
    if row.note:
        return Row.leave_open(f"present: {row.name}", str(row.printed(n)), row.note, str(row.counted(n)))
    reasons = [difference.why for difference in row.differences]
    if len(reasons) > 1:
        reasons = [f"{difference.why} ({signed(difference.worth(n))})" for difference in row.differences]
    explained, formula = row.explained(n), "" if row.size else str(row.printed)
    return Row.count(row.name, row.printed(n), row.counted(n), explained, "; ".join(reasons), formula)


def _composites() -> PaperTable:
    """Compare section III: c^_i and J^_i if joint i turns and joint i + 1 slides, in Lin's and Gautier's sets."""
    lin_c, lin_J, gautier_c, gautier_J = slide_operations()
    left_out = "m^ d and its sum with l_z are omitted; Lin & Fang's table VII charges them (l: 9M 5A)"
    missing = (
        "{} is not available, and the paper does not say how R X R^T is computed; counted with Lin & Fang's eq. 41-54"
    )
    saved = f"by {gautier_c - lin_c} and {gautier_J - lin_J}"
    rows = (
        Row.count("c^_i, present set: (11)", Counts(8, 7), lin_c, Counts(-1, -1), left_out),
        Row.count("c^_i, set of Gautier et al.", Counts(11, 9), gautier_c, Counts()),
        Row.leave_open("J^_i, present set", "50M 40A", missing.format("(36) of [23]"), str(lin_J)),
        Row.leave_open("J^_i, set of Gautier et al.", "55M 41A", missing.format("(A8) of [21]"), str(gautier_J)),
        Row.check("the present set is more efficient", "by 3M 2A and 5M 1A", saved, "-" not in saved),
    )
    return PaperTable("Section III: composite bodies of a joint before a sliding one", NOTED_TOLERANCE, rows)


def slide_operations() -> tuple[Counts, Counts, Counts, Counts]:
    """Count c^_i and J^_i from body i + 1: with Lin's k, U, l, V [eq. 11, 26], then from first moments and tensors."""
    tape = Tape()
    step, mass = general_joint(tape, True), tape.constant()
    l, c, k, w = variables(tape), variables(tape), constants(tape), variables(tape)  # noqa: E741 - Lin's symbol
    tensor, constant_tensor = (Symmetric(*(new() for _ in range(6))) for new in (tape.variable, tape.constant))
    along = Triple(0.0, 0.0, mass * step.d)
    grown, shift = step.d * (along + 2.0 * c).z, (2.0 * step.b) * w.x
    X = tensor + Symmetric(grown, grown, 0.0, 0.0, -(step.d * c.x), -(step.d * c.y))
    V = rotate_symmetric(step, X) + Symmetric(0.0, shift, shift, -(step.b * w.y), -(step.b * w.z), 0.0)
    J = rotate_symmetric(step, tensor) + shift_symmetric(step.s_before, w + 0.5 * mass * step.s_before)

    def needed(*vectors: Triple) -> Counts:
        return tape.count_needed([scalar for vector in vectors for scalar in vector.scalars])

    return (
        needed(k + step.to_parent(l + along)),
        needed(*(constant_tensor + V).rows),
        needed(k + step.to_parent(c) + step.to_parent(along)),
        needed(*(constant_tensor + J).rows),
    )


def _savings() -> PaperTable:
    """Compare savings for parallel or perpendicular axes: products with R take 4M 2A instead of 8M 4A."""
    rows = []
    for n in (4, 6, 8):
        printed = 5 * (n - 1) * Counts(4, 2) + Counts(2, 1)
        general = lin_chain(n, wrench=True, dense=LIN_DENSE).counts()
        square = lin_chain(n, wrench=True, dense=LIN_DENSE, right_angles=True).counts()
        more = Counts(3 * n - 8, 3 * n - 5)
        why = (
            f"the rule counts products with R; beta = 90 deg also makes s_z = 0 in Omega s, which saves another {more}"
        )
        rows.append(Row.count(f"n = {n}: 5(n-1)(4M+2A) + 2M+1A", printed, general - square, Counts() - more, why))
    return PaperTable("Section III: savings by parallel or perpendicular axes", NOTED_TOLERANCE, tuple(rows))


def stanford_identification() -> PaperTable:
    """Compare identified with true MLC without noise."""
    robot = load_robot("stanford")
    rows = [_row(seed, *identify_mlc(robot, seed)) for seed in range(MOTIONS)]
    return PaperTable(
        "Section IV: the Stanford arm identified from the last link to the first",
        f"relative error of every MLC below {MAX_NOISELESS_ERROR:g} (the paper: 'matched the true values very "
        "closely')",
        tuple(rows),
        "The report with the paper's trajectories [22] is not available: these are sums of three sinusoids per joint.",
    )


def _row(seed: int, errors: Array, conditions: Array) -> Row:
    shown = ", ".join(f"{value:.3g}" for value in conditions)
    name, text = f"motion {seed + 1}", f"largest relative error {errors.max():.0e}"
    return Row.check(
        name, "very closely", text, bool(errors.max() <= MAX_NOISELESS_ERROR), f"cond(A_i), i = 1 .. 6: {shown}"
    )


def sine_motion(joint_count: int, seed: int) -> SineMotion:
    """Return three harmonics per joint, drawn from a seed."""
    rng, n = np.random.default_rng(seed), joint_count
    draws = [
        (k / SECONDS * rng.uniform(0.8, 1.6, n), rng.uniform(0.2, 0.8, n), rng.uniform(0, 2 * np.pi, n))
        for k in range(1, HARMONICS + 1)
    ]
    frequency_hz, amplitude, phase = np.array(draws).transpose(1, 0, 2)
    return SineMotion((amplitude * np.sin(phase)).sum(axis=0), amplitude, frequency_hz, phase)


def identify_mlc(robot: Robot, seed: int) -> tuple[Array, Array]:
    """Return the relative error of each joint's MLC, and cond(A_i) with columns of unit length [eq. 94-116]."""
    times = np.linspace(0, SECONDS, SAMPLES)
    motion = sine_motion(len(robot.joints), seed).rows(times)
    tau, rate_hz = compile_model(robot).inverse_dynamics(*motion), 1 / float(times[1])
    samples = Samples(robot.joint_names, *motion, tau, rate_hz, np.zeros(SAMPLES, dtype=np.int64))
    rows = build_rows(robot, samples, EquationSettings(base_form="lin", drive_parameters="stated"))
    beta, _, conditions, _ = fit_backwards(rows.information)
    joints, expected = np.array([joint for joint, _ in lin_structure(robot).layout]), rows.regressor.base.values
    misses, sizes = np.abs(beta - expected), np.abs(expected)
    errors = [misses[joints == i].max() / sizes[joints == i].max() for i in range(len(robot.joints))]
    return np.array(errors), np.array([conditions[name] for name in robot.joint_names])
