"""`Plant`: the simulated robot M(q) qdd + h(q, qd) + F^T lam = tau, with dry friction lam inside its Coulomb box.

    h    gravity, Coriolis, and with drives their viscous friction and offsets
    F    (m, n) rows of the friction matrix whose drive has Coulomb friction; friction acts on the speeds s = F qd
    lam  (m,) friction torques at the side of their drives: lam = c sign(s) if s is not 0, |lam| <= c if s is 0

For friction at the motor, the rows of F are rows of the gear matrix, so that coupled drives need no special code. A
robot with dependent joints has n primary joints: M, h and F of all joints are projected onto them. If loops are solved
numerically, the state contains the positions of all joints. The positions of dependent joints change with W qd, and are
the start of Newton's iteration that closes the loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import casadi
import numpy as np

from mindyn.equations.catalogue import Function, build_equation
from mindyn.equations.chain import SX, constant
from mindyn.equations.closed_motion import CLOSURE, MAX_CLOSURE_ERROR, MIN_REGULARITY, closed_motion, is_affine
from mindyn.equations.drives import load_dependent_extras, load_friction_error
from mindyn.equations.forward_dynamics import Factors
from mindyn.equations.loop_closure import home_closure, primary_friction
from mindyn.equations.loop_equations import loop_equation
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, RobotError
from mindyn.kernels.closed_kernel import ClosedKernel, make_kernel
from mindyn.kernels.kernel import Kernel
from mindyn.kernels.loop_friction import closed_friction_rows
from mindyn.robots.drive_matrices import friction_matrix
from mindyn.robots.robot import CACHED_ROBOTS, Robot, require_robot


@dataclass(frozen=True, slots=True, eq=False)
class Plant:
    """Robot with dry friction: `rows` is F (m, n), and `levels` are the Coulomb torques c (m,), all above zero.

    smooth             robot without Coulomb friction, which gives all other equations
    with_drives        whether the drives are included
    closure_tolerance  largest residual of the loops, in the precision of the simulation
    turns              (m, all joints) if friction acts on dependent joints of solved loops: then F is turns W(q),
                       `rows` is F at home, and ds/dt has a term that depends only on positions and speeds
    redundant          whether the rows are linearly dependent: at rest, only F^T lam is determined then, and lam is the
                       smallest solution
    """

    smooth: Robot
    with_drives: bool
    rows: Array
    levels: Array
    closure_tolerance: float = MAX_CLOSURE_ERROR
    turns: Array | None = None
    redundant: bool = False

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the primary joints, in the order of q."""
        return self.smooth.primary_names

    @property
    def joint_count(self) -> int:
        """Number n of primary joints."""
        return len(self.joint_names)

    @property
    def has_friction(self) -> bool:
        """Whether some drive has Coulomb friction."""
        return len(self.rows) > 0

    @property
    def is_solved(self) -> bool:
        """Whether the state has the positions of all joints, because loops are solved by Newton's method."""
        return self.smooth.has_dependents and not is_affine(self.smooth)

    @property
    def position_count(self) -> int:
        """Number of positions in the state."""
        return len(self.smooth.joints) if self.is_solved else self.joint_count

    @property
    def primary(self) -> list[int]:
        """Indices of the primary joints in the positions of the state."""
        whole = [self.smooth.joint_index(name) for name in self.joint_names]
        return whole if self.is_solved else list(range(self.joint_count))

    def start(self, q: Array) -> Array:
        """Return the positions (..., positions) of the state from primary positions (..., n)."""
        if not self.is_solved or np.shape(q)[-1] == self.position_count:
            return q
        rows = np.asarray(q, dtype=np.float64).reshape(-1, self.joint_count)
        return home_closure(self.smooth).positions(rows).reshape(*np.shape(q)[:-1], -1)

    def function(self, name: str) -> Function:
        """Return an equation of the robot without Coulomb friction, including the closure of solved loops."""
        traced = loop_equation if self.smooth.has_dependents else build_equation
        return traced(self.smooth, name, with_drives=self.with_drives)

    def equation(self, name: str) -> Callable[..., SX]:
        """Return an equation as a function of expressions."""
        function = self.function(name)
        return lambda *arguments: function.call(list(arguments))[0]

    def kernel(self, name: str, matrices: Sequence[str] = ()) -> Kernel:
        """Return an equation as a kernel."""
        return make_kernel(self.smooth, self.function(name), matrices=matrices)

    def friction(self, q: SX, qd: SX) -> tuple[SX, SX]:
        """Return F (m, n) and (dF/dt) qd (m, 1)."""
        if self.turns is None:
            return constant(self.rows), casadi.SX(len(self.rows), 1)
        motion, turns = closed_motion(self.smooth, q, qd), constant(self.turns)
        return turns @ motion.W, turns @ motion.qdd

    def rows_at(self, q: Array) -> Array:
        """Return F (..., m, n) at positions (..., n) of the primary joints or (..., positions) of the state."""
        if self.turns is None and np.ndim(q) == 1:
            return self.rows
        if self.turns is None:
            return np.broadcast_to(self.rows, (*np.shape(q)[:-1], *self.rows.shape))
        return np.asarray(_friction_rows_kernel(self)(q))

    def rates(self, q: SX, qd: SX) -> SX:
        """Return the rates of the positions of the state; NaN if loops are open or nearly singular."""
        if not self.is_solved:
            return qd
        motion = closed_motion(self.smooth, q, qd)
        # Comparisons have a zero derivative; |c| has none if a loop closes exactly, and sensitivities need it.
        closed = (motion.closure[0] < self.closure_tolerance) * (motion.closure[1] > MIN_REGULARITY)
        return motion.qd + NAN_GUARD_SCALE * casadi.sqrt(closed - 0.5)


REDUNDANCY_REGULARISATION = 1e-10
"""Value, relative to the diagonal of A, that is added to it if frictions are redundant; this fraction of the resisted
motion remains.
"""

NAN_GUARD_SCALE = 1e-30
"""Factor of a square root that is added only to produce NaN if loops are open, which stops the motion."""


@lru_cache(maxsize=CACHED_ROBOTS)
def create_plant(robot: Robot, *, with_drives: bool) -> Plant:
    """Create the plant of a robot; raise `RobotError` if its friction torques are not determined."""
    require_robot(robot, "simulate")
    for extra in robot.extras if with_drives else ():
        if "sign" in extra.formula:
            raise RobotError(
                f"the extra torque {extra.name!r} ({extra.formula}) is discontinuous at zero speed; a simulation "
                "supports only the Coulomb friction of drives there",
                hint="make it smooth with tanh(qd / speed), or remove it from the simulated robot",
                code=Code.UNSUPPORTED,
                subject=extra.name,
            )
    F = primary_friction(robot)
    if with_drives and (loaded := load_dependent_extras(robot)) and any(drive.coulomb for drive in robot.drives):
        raise load_friction_error(
            loaded[0], "a simulation supports it only without Coulomb friction of drives, which can stick"
        )
    if not with_drives:
        return Plant(replace(robot, drives=()), False, F[:0], np.zeros(0))
    levels = np.array([drive.coulomb for drive in robot.drives])
    dry = levels > 0
    smooth = replace(robot, drives=tuple(replace(drive, coulomb=0.0) for drive in robot.drives))
    rows, levels, turns = F[dry], levels[dry], None
    if not rows.any(axis=1).all():
        closure, turns = home_closure(robot), friction_matrix(robot)[dry]
        rows = turns @ closure.velocity_matrix(closure.home[None])[0]
    elif robot.has_dependents:
        rows, levels = _merge_coupled_friction(rows, levels)
    redundant = bool(np.linalg.matrix_rank(rows) < len(rows))
    if redundant and not robot.has_dependents:
        raise RobotError(
            f"the friction speeds of robot {robot.name!r} are linearly dependent: its gear matrix is singular, and dry "
            "friction at rest has no unique torques",
            code=Code.INVALID_STRUCTURE,
            subject=robot.name,
        )
    return Plant(smooth, True, rows, levels, turns=turns, redundant=redundant)


@lru_cache(maxsize=CACHED_ROBOTS)
def _friction_rows_kernel(plant: Plant) -> ClosedKernel:
    assert plant.turns is not None
    return closed_friction_rows(plant.smooth, plant.turns)[0]


def _merge_coupled_friction(rows: Array, levels: Array) -> tuple[Array, Array]:
    """Merge frictions that a loop couples: c1 at r and c2 at a r act as c1 + |a| c2 at r."""
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
    """Response of the plant in a state: qdd = free - W lam, and sdot = b - A lam.

    free  (n, 1) accelerations without dry friction
    F     (m, n) the friction speeds are F qd
    W     (n, m) = M^-1 F^T;   A (m, m) = F M^-1 F^T;   b (m, 1) = F free + (dF/dt) qd
    D     (n, 1) pivots of M = L^T diag(D) L, all positive if M is positive definite
    """

    free: SX
    F: SX
    W: SX
    A: SX
    b: SX
    D: SX


def plant_response(plant: Plant, q: SX, qd: SX, tau: SX) -> PlantResponse:
    """Return the response of a plant with friction, computed from a single factorisation of M."""
    M = Factors(plant.equation("inertia_matrix")(q))
    F, turning = plant.friction(q, qd)
    free, W = M.solve(tau - plant.equation("bias")(q, qd)), M.solve(casadi.densify(F.T))
    return PlantResponse(free, F, W, casadi.densify(F @ W), casadi.densify(F @ free + turning), M.D)


def acceleration_function(plant: Plant) -> Function:
    """Return the function (q, qd, tau, slip (m,), stuck (m,)) -> qdd (n,), lam (m,); with loops, also the rates and the
    closure.

    Friction k slips with torque slip[k] if stuck[k] is 0; if it is 1, lam[k] keeps its speed constant.
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
    lam = known + Factors(masked).solve(stuck * (here.b - here.A @ known))
    qdd = here.free - here.W @ lam
    names = ["q", "qd", "tau", "slip", "stuck"]
    turning = {} if plant.turns is None else {"turning": plant.friction(q, qd)[1]}
    results = casadi.cse([casadi.densify(qdd), casadi.densify(lam), *map(casadi.densify, turning.values()), *solved])
    outputs = ["qdd", "lam", *turning, *more]
    return casadi.Function("acceleration", [q, qd, tau, slip, stuck], results, names, outputs)
