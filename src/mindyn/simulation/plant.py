"""`Plant`: what is simulated. M(q) qdd + h(q, qd) + F^T lam = tau, with dry friction lam inside its Coulomb box.

    h    gravity, Coriolis, and with drives their viscous friction and offsets
    F    (m, n) rows of the friction matrix whose drive has Coulomb friction; s = F qd are the speeds it acts on
    lam  (m,) friction torques, each at its drive's own side: lam = c sign(s) where s is not 0, |lam| <= c where it is

F is the gear matrix's row for friction at the motor, so coupled drives need nothing special.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import casadi
import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.catalogue import Function, equation
from mindyn.equations.chain import SX, constant
from mindyn.equations.forward_dynamics import factor, solve
from mindyn.errors import RobotError
from mindyn.robots.drive_matrices import friction_matrix, reflected_inertia
from mindyn.robots.robot import Robot


class Mechanism(Protocol):
    """What a step is traced from: a `Plant`, or a candidate whose parameters are symbols."""

    @property
    def rows(self) -> Array: ...  # noqa: D102
    @property
    def levels(self) -> Array | SX: ...  # noqa: D102
    @property
    def has_friction(self) -> bool: ...  # noqa: D102
    @property
    def ancestors(self) -> list[list[int]]: ...  # noqa: D102
    def equation(self, name: str) -> Callable[..., SX]: ...  # noqa: D102


@dataclass(frozen=True, slots=True, eq=False)
class Plant:
    """A robot and its dry friction: `rows` is F (m, n), `levels` the Coulomb torques c (m,), both without zeros.

    smooth  the robot without Coulomb friction; its equations take part in everything else
    drives  whether the drives take part
    """

    smooth: Robot
    drives: bool
    rows: Array
    levels: Array

    @property
    def has_friction(self) -> bool:
        """Whether some drive has Coulomb friction."""
        return len(self.levels) > 0

    @property
    def ancestors(self) -> list[list[int]]:
        """For each joint the earlier joints that M couples it to, nearest first (see `forward_dynamics.factor`)."""
        reflected = reflected_inertia(self.smooth)
        return coupled_joints(self.smooth, coupled=bool(np.count_nonzero(reflected - np.diag(np.diag(reflected)))))

    def equation(self, name: str) -> Function:
        """An equation of the robot without Coulomb friction."""
        return equation(self.smooth, name, drives=self.drives)


KEPT = 16
"""Robots whose plant and compiled kernels are kept: tracing a 6R arm takes 0.3 s, a simulation often less."""


@lru_cache(maxsize=KEPT)
def plant_of(robot: Robot, *, drives: bool) -> Plant:
    """The plant of a robot; refuses friction that does not determine its torques."""
    if robot.loops:
        equation(robot, "forward_dynamics")  # refuses loops, by name
    for extra in robot.extras if drives else ():
        if "sign" in extra.formula:
            raise RobotError(
                f"the extra torque {extra.name!r} ({extra.formula}) jumps at standstill, where a simulation must know "
                "what sticks: only the Coulomb friction of drives is handled so",
                hint="write it smoothly, with tanh(qd / speed), or leave it out of the simulated robot",
            )
    if not drives:
        return Plant(replace(robot, drives=()), False, np.zeros((0, robot.joint_count)), np.zeros(0))
    levels = np.array([drive.coulomb for drive in robot.drives])
    rows = friction_matrix(robot)[levels > 0]
    if np.linalg.matrix_rank(rows) < len(rows):
        raise RobotError(
            f"the friction speeds of robot {robot.name!r} depend on each other: its gear matrix is singular, "
            "so that dry friction at rest has no unique torques"
        )
    smooth = replace(robot, drives=tuple(replace(drive, coulomb=0.0) for drive in robot.drives))
    return Plant(smooth, True, rows, levels[levels > 0])


@dataclass(frozen=True, slots=True)
class Response:
    """How the plant answers at one state: qdd = free - W lam, and sdot = b - A lam.

    free  (n, 1) accelerations without dry friction
    W     (n, m) = M^-1 F^T;   A (m, m) = F M^-1 F^T;   b (m, 1) = F free
    D     (n, 1) pivots of M = L^T diag(D) L: all positive where M is positive definite
    """

    free: SX
    W: SX
    A: SX
    b: SX
    D: SX


def response(plant: Mechanism, q: SX, qd: SX, tau: SX) -> Response:
    """The response of a plant with friction, all from one factorisation of M."""
    M = plant.equation("inertia_matrix")(q)
    ancestors = plant.ancestors
    L, D = factor(M, ancestors)
    F = constant(plant.rows)
    free = solve(L, D, ancestors, tau - plant.equation("bias")(q, qd))
    columns = [solve(L, D, ancestors, casadi.densify(F[k, :].T)) for k in range(len(plant.rows))]
    W = casadi.horzcat(*columns) if columns else casadi.SX(len(ancestors), 0)
    return Response(free, W, casadi.densify(F @ W), casadi.densify(F @ free), D)


def coupled_joints(robot: Robot, *, coupled: bool) -> list[list[int]]:
    """Earlier joints of each joint, nearest first: those it hangs on, or all where drives couple branches."""
    return [list(reversed(range(i) if coupled else robot.path(i)[:-1])) for i in range(robot.joint_count)]


def acceleration(plant: Plant) -> Function:
    """qdd (n,) and lam (m,) of (q, qd, tau, slip (m,), stuck (m,)).

    Friction k slips with torque slip[k] where stuck[k] is 0; where it is 1, lam[k] is what keeps its speed constant.
    """
    n, m = plant.smooth.joint_count, len(plant.levels)
    q, qd, tau = (casadi.SX.sym(name, n) for name in ("q", "qd", "tau"))
    if not m:
        qdd = plant.equation("forward_dynamics")(q, qd, tau)
        return casadi.Function("acceleration", [q, qd, tau], [casadi.cse(qdd)], ["q", "qd", "tau"], ["qdd"])
    slip, stuck = casadi.SX.sym("slip", m), casadi.SX.sym("stuck", m)
    here = response(plant, q, qd, tau)
    known = slip * (1 - stuck)
    masked = here.A * (stuck @ stuck.T) + casadi.diag(1 - stuck)
    everyone = [list(reversed(range(k))) for k in range(m)]
    held = solve(*factor(masked, everyone), everyone, stuck * (here.b - here.A @ known))
    lam = known + held
    qdd = here.free - here.W @ lam
    names = ["q", "qd", "tau", "slip", "stuck"]
    results = casadi.cse([casadi.densify(qdd), casadi.densify(lam)])
    return casadi.Function("acceleration", [q, qd, tau, slip, stuck], results, names, ["qdd", "lam"])
