"""Angeles, Ma & Rojas 1988: table 1, and the two examples."""

from __future__ import annotations

import numpy as np

from mindyn.equations.catalogue import build_equation
from mindyn.foundation.algebra.values import Array
from mindyn.papers.counting import Counts
from mindyn.papers.lin_paper import JOINT_COUNT, NOTED_TOLERANCE, explained_row
from mindyn.papers.operation_tables import angeles_rows
from mindyn.papers.reproduction import PaperTable, Reproduction, Row
from mindyn.papers.traced_robots import kane_chain
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
    return Reproduction("angeles", CITATION, (_table_1(), _example_1(), _example_2()))


def _table_1() -> PaperTable:
    rows: list[Row] = [Row.quote(*algorithm) for algorithm in OTHER_ALGORITHMS]
    rows += [explained_row(row) for row in angeles_rows()]
    general = kane_chain(JOINT_COUNT, dense={"motion before"}, gravity="any").counts()
    coincident = kane_chain(JOINT_COUNT, dense={"motion before"}).counts()
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
    function = build_equation(load_robot(name), "inverse_dynamics", formulation="kane")
    return np.array([np.array(function(*sample)).ravel() for sample in zip(*motion, strict=True)])


def _example_1() -> PaperTable:
    tau = _torques("stanford", stanford_motion(np.array([0.0, 10.0])))
    half_weight = 6.1 * GRAVITY / 2
    rows = (
        Row.compare(
            "|f3(10)|: half the weight of links 3 .. 6, by statics", half_weight, abs(tau[-1, 2]), 5e-5, form=".4f"
        ),
        Row.compare("|tau4(10)|, the same in every reading of table 2", 0.22938, abs(tau[-1, 3]), 5e-6, form=".5f"),
        Row.compare("|tau5(0)|, the same in every reading of table 2", 0.35316, abs(tau[0, 4]), 5e-6, form=".5f"),
        Row.leave_open("figure 5, the torques", "a figure", "the paper prints no numbers, and table 2 is damaged"),
    )
    return PaperTable(
        "Example 1: Stanford arm", "5 in the last digit", rows, "Reference: recomputed by another program."
    )


CORRECTED_THETA_4 = 93.4
TARGET = (1.33, 1.80)


def _example_2() -> PaperTable:
    """Compare the start of Thomas & Tesar's arm on the line x = 1.33 m, z = 1.80 m."""
    pose = build_equation(load_robot("thomas_tesar"), "forward_kinematics", link="link6")
    printed, corrected = (
        np.array(pose(np.radians([0, 68.5, -135, theta, 90, 90])))[:3, 3] for theta in (39.6, CORRECTED_THETA_4)
    )
    rows = (
        Row.compare("x of the hand at the start, theta_4 as printed", TARGET[0], float(printed[0]), 0.01, form=".3f"),
        Row.leave_open(
            "z of the hand at the start, theta_4 = 39.6 deg as printed",
            f"{TARGET[1]:.2f}",
            "theta_4 of table 3 seems to be wrong: 93.4 deg puts the hand on the line",
            f"{printed[2]:.3f}",
        ),
        Row.compare("z with theta_4 = 93.4 deg", TARGET[1], float(corrected[2]), 0.015, form=".3f"),
        Row.leave_open("figure 6, the spline s(t)", "a figure", "its stroke is not published"),
    )
    return PaperTable(
        "Example 2: Thomas & Tesar's arm along a straight line",
        "10 to 15 mm, angles are printed to 0.5 deg",
        rows,
        "The arm is Thomas & Tesar's (reference 4 of the paper), bundled as `thomas_tesar`.",
    )
