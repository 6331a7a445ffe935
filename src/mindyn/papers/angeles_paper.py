"""Angeles, Ma & Rojas 1988: table 1, and the two examples with their figures."""

from __future__ import annotations

import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.catalogue import equation
from mindyn.papers.counting import Counts
from mindyn.papers.lin_paper import JOINT_COUNT, NOTED_TOLERANCE, explained_row
from mindyn.papers.operation_tables import angeles_rows
from mindyn.papers.reproduction import Figure, PaperTable, Reproduction, Row, draw_lines
from mindyn.papers.traced_robots import GIVEN_LINES, kane_chain
from mindyn.robots.loading import load_robot

CITATION = (
    "J. Angeles, O. Ma, A. Rojas, An algorithm for the inverse dynamics of n-axis general manipulators using Kane's "
    "equations, 1988"
)
OTHER_ALGORITHMS = (
    ("Hollerbach [3], Euler-Lagrange", "412n-277 M, 320n-201 A; n = 6: 2195M 1719A"),
    ("Luh et al. [2], Newton-Euler", "150n-48 M, 131n-48 A; n = 6: 852M 738A"),
    ("Walker & Orin [20], Newton-Euler", "137n-22 M, 101n-11 A; n = 6: 800M 595A"),
    ("Hollerbach [21], Newton-Euler", "n = 6: 688M 558A"),
    ("Kane & Levinson [13], Kane", "n = 6: 646M 394A"),
    ("Khalil et al. [10], Newton-Euler", "105n-92 M, 94n-86 A; n = 6: 538M 478A"),
)
GRAVITY = 9.81


def reproduce() -> Reproduction:
    """Reproduce table 1 and both examples."""
    return Reproduction("angeles", CITATION, (_table_1(), *_example_1(), *_example_2()))


def _table_1() -> PaperTable:
    rows: list[Row] = [Row.quote(*algorithm) for algorithm in OTHER_ALGORITHMS]
    rows += [explained_row(row) for row in angeles_rows()]
    general = kane_chain(JOINT_COUNT, dense={"motion before"}, gravity="any").tape.counts(without=GIVEN_LINES)
    coincident = kane_chain(JOINT_COUNT, dense={"motion before"}).tape.counts(without=GIVEN_LINES)
    rows.append(
        Row.count(
            "saved with Z_0, Z_1 and their origins coincident (521 - 513, 435 - 432)",
            Counts(8, 3),
            general - coincident,
            Counts(-1, -1),
            "counted with gravity along Z_0, which saves another product and a sum with zero",
        )
    )
    return PaperTable("Table 1: operations of inverse dynamics", NOTED_TOLERANCE, tuple(rows))


def stanford_motion(times: Array) -> tuple[Array, Array, Array]:
    """Return the joint motion of example 1: q, qd, qdd (N, 6); joint 3 is the paper's b3."""
    start = np.array([0, np.pi / 2, 0, 0, 0, 0])
    A, B = np.array([np.pi / 30, -np.pi / 60, 0.01, np.pi / 30, np.pi / 30, np.pi / 30]), 2 * np.pi / 10
    t = times[:, None]
    return start + A * (t - np.sin(B * t) / B), A * (1 - np.cos(B * t)), A * B * np.sin(B * t)


def _torques(name: str, motion: tuple[Array, Array, Array]) -> Array:
    function = equation(load_robot(name), "inverse_dynamics", formulation="kane")
    return np.array([np.array(function(*sample)).ravel() for sample in zip(*motion, strict=True)])


def _example_1() -> list[PaperTable | Figure]:
    times = np.linspace(0, 10, 101)
    motion = stanford_motion(times)
    tau = _torques("stanford", motion)
    half_weight = 6.1 * GRAVITY / 2
    rows = (
        Row.compare(
            "|f3(10)|: half the weight of links 3 .. 6, by statics", half_weight, abs(tau[-1, 2]), 5e-5, form=".4f"
        ),
        Row.compare("|tau4(10)|, the same in every reading of table 2", 0.22938, abs(tau[-1, 3]), 5e-6, form=".5f"),
        Row.compare("|tau5(0)|, the same in every reading of table 2", 0.35316, abs(tau[0, 4]), 5e-6, form=".5f"),
        Row.leave_open(
            "figure 5, the torques", "a figure", "the paper prints no numbers, and table 2 is damaged", "drawn"
        ),
    )
    table = PaperTable(
        "Example 1: Stanford arm", "5 in the last digit", rows, "Reference: recomputed by another program."
    )
    q = motion[0] - motion[0][0]
    names = [f"joint {i + 1}" for i in range(6)]
    moved = {f"{n}, {'m' if i == 2 else 'rad'}": (times, q[:, i]) for i, n in enumerate(names)}
    forces = {f"{n}, {'N' if i == 2 else 'N m'}": (times, tau[:, i]) for i, n in enumerate(names)}
    return [
        table,
        Figure(
            "angeles-figure-4",
            "Figure 4: joint trajectories of example 1, from the start",
            draw_lines(moved, "t, s", "moved"),
        ),
        Figure(
            "angeles-figure-5",
            "Figure 5: driving torques and force of example 1",
            draw_lines(forces, "t, s", "torque, force"),
        ),
    ]


STROKE, CORRECTED_THETA_4 = 0.5, 93.4
TARGET = (1.33, 1.80)


def _example_2() -> list[PaperTable | Figure]:
    """Move Thomas & Tesar's arm along y = s(t), x = 1.33 m, z = 1.80 m with constant orientation."""
    robot = load_robot("thomas_tesar")
    pose, jacobian = (
        equation(robot, "forward_kinematics", place="link6"),
        equation(robot, "geometric_jacobian", place="link6"),
    )
    printed, corrected = (np.radians([0, 68.5, -135, theta, 90, 90]) for theta in (39.6, CORRECTED_THETA_4))
    times = np.linspace(0, 1, 51)
    s, v, a = (
        np.asarray(STROKE * np.polyval(c, times), dtype=np.float64)
        for c in ([6, -15, 10, 0, 0, 0], [30, -60, 30, 0, 0], [120, -180, 60, 0])
    )
    R, q, states = np.array(pose(corrected))[:3, :3], corrected, []
    for k in range(len(times)):
        q = _solve_pose(pose, jacobian, q, R, np.array([TARGET[0], s[k], TARGET[1]]))
        J = np.array(jacobian(q))
        qd = np.linalg.solve(J, [0, 0, 0, 0, v[k], 0])
        Jd = (np.array(jacobian(q + 1e-6 * qd)) - np.array(jacobian(q - 1e-6 * qd))) / 2e-6
        states.append((q, qd, np.linalg.solve(J, np.array([0, 0, 0, 0, a[k], 0]) - Jd @ qd)))
    moves = tuple(np.array([state[k] for state in states]) for k in range(3))
    tau = _torques("thomas_tesar", (moves[0], moves[1], moves[2]))
    hand = {theta: np.array(pose(q0))[:3, 3] for theta, q0 in ((39.6, printed), (CORRECTED_THETA_4, corrected))}
    rows = (
        Row.compare(
            "x of the hand at the start, theta_4 as printed", TARGET[0], float(hand[39.6][0]), 0.01, form=".3f"
        ),
        Row.leave_open(
            "z of the hand at the start, theta_4 = 39.6 deg as printed",
            f"{TARGET[1]:.2f}",
            "theta_4 of table 3 seems to be wrong: 93.4 deg puts the hand on the line",
            f"{hand[39.6][2]:.3f}",
        ),
        Row.compare("z with theta_4 = 93.4 deg", TARGET[1], float(hand[CORRECTED_THETA_4][2]), 0.015, form=".3f"),
        Row.leave_open(
            "figure 6, the spline s(t)", "a figure", "its stroke is not published: 0.5 m in 1 s is assumed", "drawn"
        ),
    )
    note = "The arm is Thomas & Tesar's (reference 4 of the paper), bundled as `thomas_tesar`."
    q0 = moves[0] - moves[0][0]
    joints = {f"joint {i + 1}": (times, q0[:, i]) for i in range(6)}
    torques = {f"joint {i + 1}": (times, tau[:, i]) for i in range(6)}
    return [
        PaperTable(
            "Example 2: Thomas & Tesar's arm along a straight line",
            "10 to 15 mm, angles are printed to 0.5 deg",
            rows,
            note,
        ),
        Figure("angeles-figure-6", "Figure 6: y of the hand, m", draw_lines({"s(t)": (times, s)}, "t, s", "y, m")),
        Figure(
            "angeles-figure-7",
            "Figure 7: joint trajectories of example 2, from the start",
            draw_lines(joints, "t, s", "q, rad"),
        ),
        Figure(
            "angeles-figure-8", "Figure 8: driving torques of example 2", draw_lines(torques, "t, s", "torque, N m")
        ),
    ]


def _solve_pose(pose: object, jacobian: object, q: Array, R: Array, p: Array) -> Array:
    """Solve for the pose by Newton's method: q with rotation R and origin p of the last link."""
    for _ in range(50):
        X = np.array(pose(q))  # type: ignore[operator]
        turn = R @ X[:3, :3].T
        axis = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]) / 2
        error = np.concatenate([axis, p - X[:3, 3]])
        if np.abs(error).max() < 1e-12:
            break
        q = q + np.linalg.solve(np.array(jacobian(q)), error)  # type: ignore[operator]
    return q
