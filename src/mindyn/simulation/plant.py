"""`Plant`: what is simulated. M(q) qdd + h(q, qd) + F^T lam = tau, with dry friction lam inside its Coulomb box.

    h    gravity, Coriolis, and with drives their viscous friction and offsets
    F    (m, n) rows of the friction matrix whose drive has Coulomb friction; s = F qd are the speeds it acts on
    lam  (m,) friction torques, each at its drive's own side: lam = c sign(s) where s is not 0, |lam| <= c where it is

F is the gear matrix's row for friction at the motor, so coupled drives need nothing special. A robot with dependent
joints moves by its n primary ones: M, h and F are those of all its joints, projected. Where its loops are solved for,
the state has the positions of all joints, dependent ones as the start of the closure, which W qd carries along.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import casadi
import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.catalogue import Function, equation
from mindyn.equations.chain import SX, constant
from mindyn.equations.closed_motion import CLOSURE, MAX_CLOSURE_ERROR, MIN_REGULARITY, closed_motion, is_affine
from mindyn.equations.drives import load_dependent_extras, load_friction_error
from mindyn.equations.forward_dynamics import factor, solve
from mindyn.equations.loop_closure import home_closure, primary_friction
from mindyn.equations.loop_equations import loop_equation
from mindyn.errors import RobotError
from mindyn.kernels.closed_kernel import ClosedKernel, make_kernel
from mindyn.kernels.kernel import Kernel
from mindyn.kernels.loop_friction import friction_rows
from mindyn.robots.drive_matrices import friction_matrix, reflected_inertia
from mindyn.robots.robot import CACHED_ROBOTS, Robot, require_robot


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
    def rates(self, q: SX, qd: SX) -> SX: ...  # noqa: D102
    def friction(self, q: SX, qd: SX) -> tuple[SX, SX]: ...  # noqa: D102


@dataclass(frozen=True, slots=True, eq=False)
class Plant:
    """A robot and its dry friction: `rows` is F (m, n), `levels` the Coulomb torques c (m,), both without zeros.

    smooth  the robot without Coulomb friction; its equations take part in everything else
    drives  whether the drives take part
    closed_within  what may be left of the loops' equations, in the precision that it is simulated with
    turns   (m, all joints) where friction moves with dependent joints of solved loops: then F is turns W(q), `rows` is
            that at home, and ds/dt has a part that the speeds alone make
    redundant  the rows depend on each other: at rest only F^T lam is determined, and lam is the least that has it
    """

    smooth: Robot
    drives: bool
    rows: Array
    levels: Array
    closed_within: float = MAX_CLOSURE_ERROR
    turns: Array | None = None
    redundant: bool = False

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Of q: the primary joints."""
        return self.smooth.primary_names

    @property
    def joint_count(self) -> int:
        """n."""
        return len(self.joint_names)

    @property
    def has_friction(self) -> bool:
        """Whether some drive has Coulomb friction."""
        return len(self.levels) > 0

    @property
    def ancestors(self) -> list[list[int]]:
        """For each joint the earlier joints that M couples it to, nearest first (see `forward_dynamics.factor`)."""
        reflected = reflected_inertia(self.smooth)
        return coupled_joints(self.smooth, coupled=bool(np.count_nonzero(reflected - np.diag(np.diag(reflected)))))

    @property
    def is_solved(self) -> bool:
        """Whether the positions of the state are of all joints, closed by Newton's steps."""
        return self.smooth.has_dependents and not is_affine(self.smooth)

    @property
    def position_count(self) -> int:
        """Positions of the state."""
        return self.smooth.joint_count if self.is_solved else self.joint_count

    @property
    def primary(self) -> list[int]:
        """Where the positions of the primary joints stand in the state."""
        whole = [self.smooth.joint_index(name) for name in self.joint_names]
        return whole if self.is_solved else list(range(self.joint_count))

    def start(self, q: Array) -> Array:
        """Positions (..., positions) of the state of primary ones (..., n), or of those themselves."""
        if not self.is_solved or np.shape(q)[-1] == self.position_count:
            return q
        rows = np.asarray(q, dtype=np.float64).reshape(-1, self.joint_count)
        return home_closure(self.smooth).positions(rows).reshape(*np.shape(q)[:-1], -1)

    def function(self, name: str) -> Function:
        """An equation of the robot without Coulomb friction, with the closure where that is solved for."""
        traced = loop_equation if self.smooth.has_dependents else equation
        return traced(self.smooth, name, drives=self.drives)

    def equation(self, name: str) -> Callable[..., SX]:
        """What an equation gives at expressions."""
        function = self.function(name)
        return lambda *arguments: function.call(list(arguments))[0]

    def kernel(self, name: str, matrices: Sequence[str] = ()) -> Kernel:
        """An equation as a kernel."""
        return make_kernel(self.smooth, self.function(name), matrices=matrices)

    def friction(self, q: SX, qd: SX) -> tuple[SX, SX]:
        """F (m, n), and (dF/dt) qd (m, 1)."""
        if self.turns is None:
            return constant(self.rows), casadi.SX(len(self.rows), 1)
        motion, turns = closed_motion(self.smooth, q, qd), constant(self.turns)
        return turns @ motion.W, turns @ motion.qdd

    def rows_at(self, q: Array) -> Array:
        """F (..., m, n) at positions (..., n) of the primary joints or (..., positions) of the state."""
        if self.turns is None:
            return np.broadcast_to(self.rows, (*np.shape(q)[:-1], *self.rows.shape))
        return np.asarray(_friction_rows_kernel(self)(q))

    def rates(self, q: SX, qd: SX) -> SX:
        """Rates of the positions of the state; not a number where its loops are open or nearly singular."""
        if not self.is_solved:
            return qd
        motion = closed_motion(self.smooth, q, qd)
        # Comparisons have no slope: that of |c| is none where a loop closes exactly, and sensitivities ask for it.
        closed = (motion.closure[0] < self.closed_within) * (motion.closure[1] > MIN_REGULARITY)
        return motion.qd + NAN_GUARD_SCALE * casadi.sqrt(closed - 0.5)


REDUNDANCY_REGULARISATION = 1e-10
"""Added to the diagonal of A, relative, where frictions are redundant: so much of what they resist moves on."""

NAN_GUARD_SCALE = 1e-30
"""By which a root is multiplied whose value does not matter: that of a negative number stops a motion."""


@lru_cache(maxsize=CACHED_ROBOTS)
def create_plant(robot: Robot, *, drives: bool) -> Plant:
    """The plant of a robot; refuses friction that does not determine its torques."""
    require_robot(robot, "a simulation moves")
    for extra in robot.extras if drives else ():
        if "sign" in extra.formula:
            raise RobotError(
                f"the extra torque {extra.name!r} ({extra.formula}) jumps at standstill, where a simulation must know "
                "what sticks: only the Coulomb friction of drives is handled so",
                hint="write it smoothly, with tanh(qd / speed), or leave it out of the simulated robot",
            )
    F = primary_friction(robot)
    if drives and (loaded := load_dependent_extras(robot)) and any(drive.coulomb for drive in robot.drives):
        raise load_friction_error(
            loaded[0], "it is simulated beside smooth friction alone, and drives have Coulomb friction that sticks"
        )
    if not drives:
        return Plant(replace(robot, drives=()), False, F[:0], np.zeros(0))
    levels = np.array([drive.coulomb for drive in robot.drives])
    dry = levels > 0
    smooth = replace(robot, drives=tuple(replace(drive, coulomb=0.0) for drive in robot.drives))
    turns = friction_matrix(robot)[dry]
    if not F[dry].any(axis=1).all():
        closure = home_closure(robot)
        rows = turns @ closure.velocity_matrix(closure.home[None])[0]
        redundant = bool(np.linalg.matrix_rank(rows) < len(rows))
        return Plant(smooth, True, rows, levels[dry], turns=turns, redundant=redundant)
    rows, levels = F[dry], levels[dry]
    if robot.has_dependents:
        rows, levels = _merge_coupled_friction(rows, levels)
    redundant = bool(np.linalg.matrix_rank(rows) < len(rows))
    if redundant and not robot.has_dependents:
        raise RobotError(
            f"the friction speeds of robot {robot.name!r} depend on each other: its gear matrix is singular, "
            "so that dry friction at rest has no unique torques"
        )
    return Plant(smooth, True, rows, levels, redundant=redundant)


@lru_cache(maxsize=CACHED_ROBOTS)
def _friction_rows_kernel(plant: Plant) -> ClosedKernel:
    assert plant.turns is not None
    return friction_rows(plant.smooth, plant.turns)[0]


def _merge_coupled_friction(rows: Array, levels: Array) -> tuple[Array, Array]:
    """Frictions that a loop keeps in step as one: c1 at r and c2 at a r act as c1 + |a| c2 at r."""
    kept: list[Array] = []
    sums: list[float] = []
    for row, level in zip(rows, levels, strict=True):
        for k, other in enumerate(kept):
            share = float(row @ other / (other @ other))
            if np.array_equal(row, share * other):
                sums[k] += abs(share) * level
                break
        else:
            kept.append(row)
            sums.append(float(level))
    return np.array(kept).reshape(-1, rows.shape[1]), np.array(sums)


@dataclass(frozen=True, slots=True)
class PlantResponse:
    """How the plant answers at one state: qdd = free - W lam, and sdot = b - A lam.

    free  (n, 1) accelerations without dry friction
    F     (m, n) the friction speeds are F qd
    W     (n, m) = M^-1 F^T;   A (m, m) = F M^-1 F^T;   b (m, 1) = F free + (dF/dt) qd
    D     (n, 1) pivots of M = L^T diag(D) L: all positive where M is positive definite
    """

    free: SX
    F: SX
    W: SX
    A: SX
    b: SX
    D: SX


def plant_response(plant: Mechanism, q: SX, qd: SX, tau: SX) -> PlantResponse:
    """The response of a plant with friction, all from one factorisation of M."""
    M = plant.equation("inertia_matrix")(q)
    ancestors = plant.ancestors
    L, D = factor(M, ancestors)
    F, turning = plant.friction(q, qd)
    free = solve(L, D, ancestors, tau - plant.equation("bias")(q, qd))
    columns = [solve(L, D, ancestors, casadi.densify(F[k, :].T)) for k in range(F.shape[0])]
    W = casadi.horzcat(*columns) if columns else casadi.SX(len(ancestors), 0)
    return PlantResponse(free, F, W, casadi.densify(F @ W), casadi.densify(F @ free + turning), D)


def coupled_joints(robot: Robot, *, coupled: bool) -> list[list[int]]:
    """Earlier joints of each joint, nearest first: those it hangs on, or all where drives or loops couple branches."""
    if robot.has_dependents:
        return [list(reversed(range(i))) for i in range(len(robot.primary_names))]
    return [list(reversed(range(i) if coupled else robot.path(i)[:-1])) for i in range(robot.joint_count)]


def acceleration_function(plant: Plant) -> Function:
    """qdd (n,) and lam (m,) of (q, qd, tau, slip (m,), stuck (m,)); rates of all positions and the closure with loops.

    Friction k slips with torque slip[k] where stuck[k] is 0; where it is 1, lam[k] is what keeps its speed constant.
    """
    n, m = plant.joint_count, len(plant.levels)
    q = casadi.SX.sym("q", plant.position_count)
    qd, tau = (casadi.SX.sym(name, n) for name in ("qd", "tau"))
    solved, more = [], []
    if plant.is_solved:
        motion = closed_motion(plant.smooth, q, qd)
        solved, more = [motion.qd, motion.closure], ["rates", CLOSURE]
    if not m:
        qdd = plant.equation("forward_dynamics")(q, qd, tau)
        results = casadi.cse([qdd, *solved])
        return casadi.Function("acceleration", [q, qd, tau], results, ["q", "qd", "tau"], ["qdd", *more])
    slip, stuck = casadi.SX.sym("slip", m), casadi.SX.sym("stuck", m)
    here = plant_response(plant, q, qd, tau)
    known = slip * (1 - stuck)
    held_together = here.A * (1 + REDUNDANCY_REGULARISATION * casadi.SX.eye(m)) if plant.redundant else here.A
    masked = held_together * (stuck @ stuck.T) + casadi.diag(1 - stuck)
    everyone = [list(reversed(range(k))) for k in range(m)]
    held = solve(*factor(masked, everyone), everyone, stuck * (here.b - here.A @ known))
    lam = known + held
    qdd = here.free - here.W @ lam
    names = ["q", "qd", "tau", "slip", "stuck"]
    turning = {} if plant.turns is None else {"turning": plant.friction(q, qd)[1]}
    results = casadi.cse([casadi.densify(qdd), casadi.densify(lam), *map(casadi.densify, turning.values()), *solved])
    outputs = ["qdd", "lam", *turning, *more]
    return casadi.Function("acceleration", [q, qd, tau, slip, stuck], results, names, outputs)
