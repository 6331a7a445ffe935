"""Dependent joints: q = U(p), qd = W pd, qdd = W pdd + Wdot pd, with the primary joints p.

The closure is exact if all dependent joints mimic others or belong to planar parallelograms: then q = A p + b with a
constant A = W. Otherwise, Newton's method follows the loops from the home configuration, which keeps the assembly; it
solves whole batches at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from mindyn.equations.batch_evaluation import evaluate_batch
from mindyn.equations.loop_constraints import (
    ClosingEquations,
    closing_equations,
    dependent_joints,
    loop_dependents,
    primary_joints,
)
from mindyn.equations.loop_newton import (
    CLOSED_TOLERANCE,
    MAX_STEP_SIZES,
    MIN_SINGULAR_VALUE,
    Mask,
    Newton,
    find_home,
)
from mindyn.foundation.algebra.values import Array, ShortRepr, frozen_array, native_array
from mindyn.foundation.errors import Code, InputError, RobotError
from mindyn.parameters.parallelogram import parallelogram_relations
from mindyn.robots.drive_matrices import friction_matrix, gear_matrix
from mindyn.robots.mimics import MimicMap, mimic_map
from mindyn.robots.robot import CACHED_ROBOTS, Robot

MAX_RELATION_CONDITION: Final = 1e6
"""Condition number up to which the relations of parallelograms determine the dependent joints."""


MAX_CACHED_MOTIONS: Final = 64
"""Number of motions whose closure is cached."""

HOME_HINT: Final = (
    "pass home=, a closed configuration in the intended assembly, to load_robot or compile_model, "
    "or move the zeros of the joints in the robot file"
)


@dataclass(frozen=True, slots=True)
class AffineClosure:
    """q = A p + b: matrix (n, k) and offset (n,)."""

    matrix: Array
    offset: Array


@dataclass(frozen=True)
class LoopClosure:
    """The configurations of a robot with dependent joints, as a function of its k primary joints.

    constraints  the equations of its loops; None without loops
    home         (n,) a closed configuration; all other configurations are reached from home without passing a singular
                 one
    notes        remaining openings, if the loops do not close to rounding
    """

    robot: Robot
    constraints: ClosingEquations | None
    home: Array
    notes: tuple[str, ...] = ()

    @cached_property
    def primary(self) -> tuple[int, ...]:
        """Joints that move independently, in the order of q; p is q[primary]."""
        return primary_joints(self.robot)

    @cached_property
    def dependent(self) -> tuple[int, ...]:
        """Joints that follow from loops."""
        return loop_dependents(self.robot)

    @cached_property
    def mimics(self) -> MimicMap:
        """How mimic joints follow the others."""
        return mimic_map(self.robot)

    @cached_property
    def _solved(self) -> dict[bytes, Array]:
        """The motions solved last: a fit requests the same log again and again."""
        return {}

    @property
    def primary_names(self) -> tuple[str, ...]:
        """Names of the primary joints, in the order of p."""
        return self.robot.primary_names

    @cached_property
    def affine(self) -> AffineClosure | None:
        """The exact closure if joints mimic others and every loop is a planar parallelogram, otherwise None."""
        candidates = [parallelogram_relations(self.robot, loop, self.home) for loop in self.robot.loops]
        relations = [rows for rows in candidates if rows is not None]
        if len(relations) < len(candidates):
            return None
        free, A_m = list(self.mimics.free), self.mimics.matrix
        primary, dependent = ([free.index(i) for i in which] for which in (self.primary, self.dependent))
        A_s = np.zeros((len(free), len(primary)))
        A_s[primary] = np.eye(len(primary))
        if relations:
            C = np.vstack(relations) @ A_m
            C_d, C_p = C[:, dependent], C[:, primary]
            if C_d.shape[0] != C_d.shape[1] or np.linalg.cond(C_d) > MAX_RELATION_CONDITION:
                return None
            A_s[dependent] = _solve_relations(C_d, -C_p)
        A = A_m @ A_s + 0.0
        return AffineClosure(A, self.home - A @ self.home[list(self.primary)])

    @cached_property
    def newton(self) -> Newton:
        """The numerical solver."""
        assert self.constraints is not None
        return Newton(self.constraints, self.primary, self.dependent, self.home)

    def positions(self, p: Array) -> Array:
        """Return joint positions q = U(p) (N, n) of primary positions (N, k).

        Raise an error if they cannot be reached from home.
        """
        if self.affine is not None:
            return np.asarray(p @ self.affine.matrix.T + self.affine.offset)
        key = _position_key(p)
        if key not in self._solved:
            q, reached = self.newton.solve(p)
            if not reached.all():
                raise self.newton.unreachable_error(p[~reached][0])
            self._keep(key, self.mimics.fill(q))
        return self._solved[key]

    def remember(self, q: Array) -> None:
        """Cache closed configurations q (N, n) of `find_reachable`, so that `positions` need not solve for them
        again.
        """
        self._keep(_position_key(q[:, list(self.primary)]), q)

    def continue_from(self, q: Array, p: Array) -> Array:
        """Return joint positions (n,) at p (k,), on a straight path from the closed configuration q (n,); if that
        fails, from home.
        """
        positions, reached = self.newton.walk(q[None], p[None])
        return self.mimics.fill(positions[0]) if reached[0] else self.positions(p[None])[0]

    def along(self, p: Array) -> Array:
        """Return joint positions (N, n) of a motion p (N, k), solved in order; the first row is reached from home.

        A motion may go around singular configurations that lie on the straight path from home.
        """
        q, reached = self.follow(p)
        return q if reached.all() else self.positions(p)  # unordered rows need not be reachable from one another

    def _keep(self, key: bytes, positions: Array) -> None:
        while len(self._solved) >= MAX_CACHED_MOTIONS:
            self._solved.pop(next(iter(self._solved)))
        self._solved[key] = positions

    def follow(self, p: Array, start: Array | None = None) -> tuple[Array, Mask]:
        """Return joint positions (N, n) of a motion p (N, k) and whether each row was reached, strictly in order.

        `start` (n,) is the closed configuration before the first row; by default the first row is reached from home.
        """
        if self.affine is not None:
            return self.positions(p), np.ones(len(p), dtype=bool)
        key = sha256(b"followed" + p.tobytes() + (b"" if start is None else start.tobytes())).digest()
        if key not in self._solved:
            q, reached = self.newton.along(p, start)
            if not reached.all():
                return self.mimics.fill(q), reached
            self._keep(key, self.mimics.fill(q))
        return self._solved[key], np.ones(len(p), dtype=bool)

    def find_reachable(self, p: Array) -> tuple[Array, Mask]:
        """Return joint positions (N, n) and whether each row of p (N, k) closes on a straight path from home.

        The finest steps are not tried: rows near a singular configuration are given up.
        """
        if self.affine is not None:
            return self.positions(p), np.ones(len(p), dtype=bool)
        q, reached = self.newton.walk(np.repeat(self.home[None], len(p), axis=0), p, MAX_STEP_SIZES[:2])
        return self.mimics.fill(q), reached

    def regularity(self, q: Array) -> Array:
        """Return for each closed configuration q (N, n) its distance (N,) from singular ones, 1 / |J_d^-1|; infinite
        for affine closures.
        """
        if self.affine is not None:
            return np.full(len(q), np.inf)
        assert self.constraints is not None
        units = self.constraints.units[list(self.dependent)]
        J_d = evaluate_batch(self.constraints.jacobian, q)[:, :, list(self.dependent)] * units
        sizes = np.linalg.svd(J_d, compute_uv=False)
        return np.asarray(1 / np.sqrt((1 / np.maximum(sizes, MIN_SINGULAR_VALUE) ** 2).sum(axis=1)))

    def velocity_matrix(self, q: Array) -> Array:
        """Return W (N, n, k) with qd = W pd, at closed configurations q (N, n)."""
        if self.affine is not None:
            return np.broadcast_to(self.affine.matrix, (len(q), *self.affine.matrix.shape))
        inverse, J = self._dependent_inverse(q)
        W = np.zeros((len(q), len(self.robot.joints), len(self.primary)))
        W[:, list(self.primary)] = np.eye(len(self.primary))
        W[:, list(self.dependent)] = -inverse @ J[:, :, list(self.primary)]
        return np.asarray(self.mimics.matrix @ W[:, list(self.mimics.free)])

    def acceleration_bias(self, q: Array, qd: Array) -> Array:
        """Return Wdot pd (N, n): the accelerations qdd at pdd = 0."""
        bias = np.zeros_like(q)
        if self.affine is None:
            assert self.constraints is not None
            inverse, _ = self._dependent_inverse(q)
            bias[:, list(self.dependent)] = -(inverse @ evaluate_batch(self.constraints.bias, q, qd))[:, :, 0]
        return np.asarray(bias[:, list(self.mimics.free)] @ self.mimics.matrix.T)

    def _dependent_inverse(self, q: Array) -> tuple[Array, Array]:
        """Return the pseudo-inverse of the dependent columns of J, and J; raise an error at singular configurations."""
        assert self.constraints is not None
        J = evaluate_batch(self.constraints.jacobian, q)
        units = self.constraints.units[list(self.dependent)]
        J_d = J[:, :, list(self.dependent)] * units
        smallest = np.linalg.svd(J_d, compute_uv=False)[:, -1]
        if (smallest < MIN_SINGULAR_VALUE).any():
            worst = int(np.argmin(smallest))
            raise self.newton.singular_error(q[worst], float(smallest[worst]))
        return np.asarray(np.linalg.pinv(J_d), dtype=np.float64) * units[:, None], J


def _position_key(p: Array) -> bytes:
    return sha256(b"positions" + p.tobytes()).digest()


def _solve_relations(C_d: Array, C_p: Array) -> Array:
    """Return C_d^-1 C_p.

    If all relations have integer coefficients, as relations of angles have, solve them in integers.
    """
    solution = np.linalg.solve(C_d, C_p)
    whole = all((part == np.round(part)).all() for part in (C_d, C_p)) and abs(np.linalg.det(C_d)) < 1.5
    return np.asarray(np.round(solution) if whole else solution)


def loop_closure(robot: Robot, home: ArrayLike | None = None) -> LoopClosure:
    """Return the closure of a robot's dependent joints in the assembly of `home` (n,), by default the robot's own.

    If the robot has no home, it is the closed configuration nearest to q = 0 with the primary joints at zero, if any.
    """
    if not robot.has_dependents:
        raise RobotError(
            f"robot {robot.name!r} has no closed loop and no mimic joint", code=Code.UNSUPPORTED, subject=robot.name
        )
    if not primary_joints(robot):
        raise RobotError(f"robot {robot.name!r} has no primary joint: all joints are dependent", subject=robot.name)
    if home is None:
        home = robot.home
    start = np.zeros(len(robot.joints)) if home is None else frozen_array(home, (len(robot.joints),), "home")
    start = mimic_map(robot).fill(start)
    if not robot.loops:
        return LoopClosure(robot, None, start)
    constraints, q, notes = find_home(closing_equations(robot), loop_dependents(robot), start)
    closure = LoopClosure(robot, constraints, mimic_map(robot).fill(q), notes)
    if closure.affine is None:
        _require_determined_joints(closure)
    return closure


@lru_cache(maxsize=CACHED_ROBOTS)
def home_closure(robot: Robot) -> LoopClosure:
    """Return the closure of a robot in the assembly of its own home; finding it takes about 10 ms."""
    return loop_closure(robot)


def with_home(robot: Robot, home: ArrayLike | None) -> Robot:
    """Return the robot in the assembly of `home` (n,); the robot itself if `home` is None."""
    return robot if home is None else replace(robot, home=np.asarray(home, dtype=np.float64))


@lru_cache(maxsize=CACHED_ROBOTS)
def affine_closure(robot: Robot) -> AffineClosure:
    """Return q = A p + b of a robot with mimic joints or parallelograms; q = p if it has neither."""
    if not robot.has_dependents:
        return AffineClosure(np.eye(len(robot.joints)), np.zeros(len(robot.joints)))
    affine = home_closure(robot).affine
    if affine is None:
        raise RobotError(
            f"the loops of robot {robot.name!r} are not parallelograms: their closure has no closed form",
            hint=f"use compile_model, which solves it numerically; for another assembly, {HOME_HINT}",
            code=Code.UNSUPPORTED,
            subject=robot.name,
        )
    return affine


def primary_friction(robot: Robot) -> Array:
    """Return F A (drives, k): friction acts on the speeds F A pd.

    If friction acts on a dependent joint of a loop that is solved numerically, its row is zero, because the true row
    varies with q.
    """
    F = friction_matrix(robot)
    if not robot.loops or home_closure(robot).affine is not None:
        return np.asarray(F @ affine_closure(robot).matrix)
    varying = np.asarray(F[:, list(dependent_joints(robot))].any(axis=1))
    return np.where(varying[:, None], 0.0, F[:, list(primary_joints(robot))])


def primary_gears(robot: Robot) -> Array:
    """Return the gear matrix (k, k) of the primary joints: turns of each motor per turn of the joints.

    Every joint must have a drive.
    """
    driven = [drive.joint for drive in robot.drives]
    rows = gear_matrix(robot)[[driven.index(name) for name in robot.primary_names]]
    if robot.has_dependents and rows[:, dependent_joints(robot)].any():
        if robot.loops and home_closure(robot).affine is None:
            raise RobotError(
                f"a motor of robot {robot.name!r} turns with a dependent joint of a solved loop: its position is not a "
                "fixed multiple of those of the primary joints",
                hint="log that joint on the joint side",
                code=Code.UNSUPPORTED,
                subject=robot.name,
            )
        return np.asarray(rows @ affine_closure(robot).matrix)
    return np.asarray(rows[:, primary_joints(robot)])


def _require_determined_joints(closure: LoopClosure) -> None:
    """Raise an error if the loops do not determine the chosen dependent joints, or if these joints cannot keep the
    loops closed.
    """
    assert closure.constraints is not None
    J = evaluate_batch(closure.constraints.jacobian, closure.home[None])[0] * closure.constraints.units
    J_d, J_p = J[:, list(closure.dependent)], J[:, list(closure.primary)]
    smallest = float(np.linalg.svd(J_d, compute_uv=False)[-1])
    if len(closure.dependent) > len(J_d) or smallest < MIN_SINGULAR_VALUE:
        raise closure.newton.singular_error(closure.home, smallest, HOME_HINT)
    free = J_p - J_d @ (np.linalg.pinv(J_d) @ J_p)
    if np.abs(free).max() > np.sqrt(CLOSED_TOLERANCE):
        names = ", ".join(closure.robot.joint_names[i] for i in closure.dependent)
        missing = np.linalg.matrix_rank(J, tol=np.sqrt(CLOSED_TOLERANCE)) - len(closure.dependent)
        raise RobotError(
            f"the loops of robot {closure.robot.name!r} leave fewer degrees of freedom than it has primary joints: "
            f"{missing} more must be dependent besides {names}",
            subject=closure.robot.name,
        )


@dataclass(frozen=True, slots=True, repr=False)
class TreeState(ShortRepr):
    """Motion of all n joints of the open tree for N samples: q, qd, qdd (N, n), and W (N, n, k)."""

    q: Array
    qd: Array
    qdd: Array
    W: Array

    def project(self, tau: Array) -> Array:
        """Return W^T tau (N, k) of torques (N, n) of the tree."""
        return np.asarray((self.W.transpose(0, 2, 1) @ tau[:, :, None])[:, :, 0])


def tree_state(robot: Robot, q: ArrayLike, qd: ArrayLike | None = None, qdd: ArrayLike | None = None) -> TreeState:
    """Return the motion of all joints of a robot from that of its primary joints.

    Parameters
    ----------
    robot : Robot
        Robot with closed loops or mimic joints; without them, all joints are primary.
    q : array_like, shape (N, k) or (N, n)
        Positions of the primary joints, or closed positions of all joints.
    qd, qdd : array_like, shape (N, k), optional
        Velocities and accelerations of the primary joints; zero by default.

    Returns
    -------
    TreeState
        `q`, `qd` and `qdd` (N, n) of all joints, and `W` (N, n, k) with qd = W pd.

    Raises
    ------
    InputError
        If an array has another shape, or is not finite.
    RobotError
        If the loops do not close at a position, or are singular there.
    """
    positions = _require_rows(q, "q", {len(robot.primary_names), len(robot.joints)})
    for rate, name in ((qd, "qd"), (qdd, "qdd")):
        if rate is not None:
            _require_rows(rate, name, {len(robot.primary_names)}, len(positions))
    if not robot.has_dependents:
        n, still = len(robot.joints), np.zeros(positions.shape)
        speeds, changes = (still if rate is None else np.asarray(rate, dtype=np.float64) for rate in (qd, qdd))
        return TreeState(positions, speeds, changes, np.broadcast_to(np.eye(n), (len(positions), n, n)))
    closure = home_closure(robot)
    if positions.shape[1] != len(robot.joints):
        positions = closure.positions(positions)
    return state_of(closure, positions, qd, qdd)


def _require_rows(value: ArrayLike, name: str, widths: set[int], count: int | None = None) -> Array:
    """Return `value` as finite rows of an allowed width; raise `InputError` for another shape."""
    rows = native_array(value, name)
    valid = " or ".join(f"({'N' if count is None else count}, {width})" for width in sorted(widths))
    if rows.ndim != 2 or rows.shape[1] not in widths or count not in (None, len(rows)):
        message = f"{name} has shape {rows.shape}, valid is {valid}"
        raise InputError(message, hint="pass one row for each sample", code=Code.WRONG_SHAPE, subject=name)
    if not np.isfinite(rows).all():
        raise InputError(f"{name} is not finite", hint="remove such rows", code=Code.NOT_FINITE, subject=name)
    return rows


def state_of(closure: LoopClosure, q: Array, qd: ArrayLike | None = None, qdd: ArrayLike | None = None) -> TreeState:
    """Return the motion at closed positions q (N, n), with rates (N, k) of the primary joints."""
    W = closure.velocity_matrix(q)
    speeds, changes = (
        np.zeros(q.shape) if rate is None else (W @ np.asarray(rate, dtype=np.float64)[:, :, None])[:, :, 0]
        for rate in (qd, qdd)
    )
    return TreeState(q, speeds, changes + closure.acceleration_bias(q, speeds), W)
