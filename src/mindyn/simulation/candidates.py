"""Compile closed loops of candidates: many parameter sets of one robot under one control law, with sensitivities.

A compiled step contains plant and law. The base values beta are an input, so that every lane of a register simulates
another candidate. With sensitivities, every lane has its own direction of beta. The step itself is differentiated,
including friction, so the sensitivities are exact derivatives of the simulation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import casadi
import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.catalogue import Function, equation
from mindyn.equations.chain import SX, constant
from mindyn.equations.closed_motion import is_affine
from mindyn.equations.loop_closure import primary_friction
from mindyn.equations.loop_equations import loop_equation
from mindyn.errors import Code, RobotError
from mindyn.kernels.kernel import Kernel
from mindyn.notation import DRIVE_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.parameters.base import BaseParameters
from mindyn.robots.drive_matrices import friction_matrix, gear_matrix
from mindyn.robots.robot import CACHED_ROBOTS, Robot
from mindyn.simulation.plant import Plant, coupled_joints, create_plant, plant_response
from mindyn.simulation.runge_kutta import State, law_inputs, runge_kutta_step, state_slope
from mindyn.simulation.time_loop import TimeLoop

STEP_STATES = ("q", "qd", "lam", "held")
"""States of a step: positions, velocities, friction torques, and the torque held between samples."""


@dataclass(frozen=True, slots=True, eq=False)
class CandidatePlant:
    """Plant whose base values are the symbols `beta` (p, 1); every drive may have Coulomb friction.

    shape   plant with the same joints, loops and friction speeds; its parameter values are not used
    levels  (m, 1) Coulomb torques. A negative estimate cannot hold a joint: its level is zero here, and its torque
            c sign(speed) is part of the bias
    """

    shape: Plant
    base: BaseParameters
    beta: SX
    levels: SX
    _smooth: SX
    _traced: dict[str, Function] = field(default_factory=dict)

    @staticmethod
    def of(robot: Robot, base: BaseParameters) -> CandidatePlant:
        """Create the symbolic plant; raise `RobotError` if friction torques are not determined."""
        shape = candidate_shape(robot, drives=base.drives)
        beta = casadi.SX.sym("beta", base.count)
        coulomb = _coulomb_indices(robot) if base.drives else []
        everything = casadi.densify(constant(base.embedding) @ beta)
        levels = casadi.fmax(everything[coulomb], 0) if coulomb else casadi.SX(0, 1)
        dry = np.flatnonzero(base.embedding[coulomb].any(axis=0)).tolist()
        smooth = casadi.SX(beta)
        for k in dry:
            smooth[k] = casadi.fmin(beta[k], 0)
        return CandidatePlant(shape, base, beta, levels, smooth)

    @property
    def robot(self) -> Robot:
        """Robot that gives the structure."""
        return self.shape.smooth

    @property
    def rows(self) -> Array:
        """Friction matrix, see `Plant`."""
        return self.shape.rows

    @property
    def has_friction(self) -> bool:
        """Whether the robot has drives."""
        return len(self.rows) > 0

    @property
    def ancestors(self) -> list[list[int]]:
        """Coupled joints, see `Plant`; gears that couple joints may reflect rotor inertia between them."""
        G = gear_matrix(self.robot) if self.base.drives else np.zeros((0, self.robot.joint_count))
        return coupled_joints(self.robot, coupled=bool((np.count_nonzero(G, axis=1) > 1).any()))

    def friction(self, q: SX, qd: SX) -> tuple[SX, SX]:
        """Return the friction matrix and its change, see `Plant`."""
        return self.shape.friction(q, qd)

    def rates(self, q: SX, qd: SX) -> SX:
        """Return the rates of the positions, see `Plant`."""
        return self.shape.rates(q, qd)

    def equation(self, name: str) -> Callable[..., SX]:
        """Return a symbolic equation without the Coulomb friction that can stick."""
        if name not in self._traced:
            traced = loop_equation if self.robot.has_dependents else equation
            self._traced[name] = traced(self.robot, name, drives=self.base.drives, parameters="base", base=self.base)
        return lambda *motion: self._traced[name].call([*motion, self._smooth])[0]


@lru_cache(maxsize=CACHED_ROBOTS)
def candidate_shape(robot: Robot, *, drives: bool) -> Plant:
    """Return a plant in which every drive may have Coulomb friction; raise `RobotError` if torques are not determined."""
    create_plant(robot, drives=drives)  # raises an error for discontinuous extra torques
    turns = friction_matrix(robot) if drives else np.zeros((0, robot.joint_count))
    rows = primary_friction(robot)[: len(turns)]
    if not robot.has_dependents and np.linalg.matrix_rank(rows) < len(rows):
        message = f"the friction speeds of robot {robot.name!r} are linearly dependent: its gear matrix is singular"
        raise RobotError(message, code=Code.INVALID_STRUCTURE, subject=robot.name)
    varies = not is_affine(robot) and not rows.any(axis=1).all()
    return Plant(robot, drives, rows, np.zeros(len(rows)), turns=turns if varies else None)


def _coulomb_indices(robot: Robot) -> list[int]:
    """Return the indices of the Coulomb torques among all standard parameters."""
    first, each = PARAMETERS_PER_LINK * robot.joint_count, len(DRIVE_PARAMETERS)
    return [first + each * k + DRIVE_PARAMETERS.index("coulomb") for k in range(len(robot.drives))]


def trace_closed_loop_step(plant: CandidatePlant, law: Function) -> Function:
    """Trace (q, qd, lam, held, beta, refresh, signals, dt) -> states after dt, and qdd and least pivot of M at the start.

    If refresh is 1, the law computes a new torque; if it is 0, the held torque continues.
    """
    n = plant.shape.joint_count
    sizes = {"q": plant.shape.position_count, "qd": n, "lam": len(plant.rows), "held": n}
    given: dict[str, SX] = {name: casadi.SX.sym(name, size) for name, size in sizes.items() if size}
    given |= {"beta": plant.beta, "refresh": casadi.SX.sym("refresh")}
    for k, name in enumerate(law.name_in()):
        if name not in given:
            given[name] = casadi.SX.sym(name, *law.size_in(k))
    dt = given["dt"] = casadi.SX.sym("dt")
    asked = law(*law_inputs(law, given, plant.shape.primary))
    tau = casadi.if_else(given["refresh"], asked, given["held"])
    state = State(given["q"], given["qd"], given.get("lam", casadi.SX(0, 1)))
    (_, qdd), _ = state_slope(plant, state, tau, dt)
    after = runge_kutta_step(plant, state, tau, dt)
    pivot = casadi.mmin(plant_response(plant, state.q, state.qd, tau).D)
    results = {"q_next": after.q, "qd_next": after.qd, "lam_next": after.lam, "held_next": tau}
    results = {name: value for name, value in results.items() if name.removesuffix("_next") in given}
    results |= {"qdd": qdd, "pivot": pivot}
    outputs = [casadi.densify(result) for result in casadi.cse([*results.values()])]
    return casadi.Function("closed_loop_step", [*given.values()], outputs, [*given], [*results])


def trace_sensitivity_step(step: Function) -> Function:
    """Trace the step and its derivative along a direction: `d_x` for every state x and for beta."""
    names = step.name_in()
    given = {name: casadi.SX.sym(name, *step.size_in(k)) for k, name in enumerate(names)}
    moving = [name for name in (*STEP_STATES, "beta") if name in given]
    along = {f"d_{name}": casadi.SX.sym(f"d_{name}", *given[name].shape) for name in moving}
    states = [k for k, name in enumerate(step.name_out()) if name.endswith("_next")]
    values = step(*given.values())
    kept = {step.name_out()[k]: values[k] for k in states}
    inputs, directions = casadi.vertcat(*(given[name] for name in moving)), casadi.vertcat(*along.values())
    changes = casadi.vertsplit(
        casadi.jtimes(casadi.vertcat(*kept.values()), inputs, directions),
        [0, *np.cumsum([state.shape[0] for state in kept.values()]).tolist()],
    )
    results = kept | {f"d_{name}": change for name, change in zip(kept, changes, strict=True)}
    outputs = [casadi.densify(result) for result in casadi.cse([*results.values()])]
    everything = given | along
    return casadi.Function("sensitivity_step", [*everything.values()], outputs, [*everything], [*results])


@dataclass(frozen=True, slots=True, eq=False)
class CompiledStep:
    """Step in machine code with the sizes and order of its inputs and outputs."""

    loop: TimeLoop
    sizes: dict[str, int]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @staticmethod
    def of(function: Function) -> CompiledStep:
        """Compile a step, or load it from the cache."""
        kernel = Kernel(function, shared=["dt"], check_finite=False)
        program = kernel.program
        sizes = {argument.name: argument.size for argument in program.arguments}
        return CompiledStep(
            TimeLoop(kernel),
            sizes,
            tuple(argument.name for argument in program.inputs),
            tuple(argument.name for argument in program.outputs),
        )


@lru_cache(maxsize=CACHED_ROBOTS)
def compile_steps(robot: Robot, base: BaseParameters, law: str) -> Any:
    """Return two functions that compile the step without and with sensitivities on first use; `law` is serialised."""
    function = trace_closed_loop_step(CandidatePlant.of(robot, base), casadi.Function.deserialize(law))
    plain = lru_cache(maxsize=1)(lambda: CompiledStep.of(function))
    return plain, lru_cache(maxsize=1)(lambda: CompiledStep.of(trace_sensitivity_step(function)))
