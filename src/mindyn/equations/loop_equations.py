"""Equations of robots with dependent joints as `casadi.Function`s of the primary joints, for kernels and source code.

If the closure is affine, q = A p + b (mimic joints, parallelograms), the equation of the open tree is projected by
exact algebra: its inputs are substituted, its output is multiplied by the constant A, and q has one entry for each
primary joint. For other loops, q has the positions of all n joints; the positions of dependent joints are the start of
Newton's method. Rates and torques belong to the primary joints, and a second output says how well the loops closed (see
`closed_motion`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import casadi

from mindyn.equations.catalogue import EQUATIONS, build_equation, require_load_usable
from mindyn.equations.chain import SX, constant
from mindyn.equations.closed_motion import CLOSURE, ClosedMotion, closed_motion, is_affine
from mindyn.equations.drives import (
    expand_loads,
    friction_torques,
    load_dependent_extras,
    require_loads_known,
    rotor_torques,
    solve_load,
)
from mindyn.equations.forward_dynamics import Factors, require_inertia
from mindyn.equations.inertia_matrix import coriolis_matrix, observer_step
from mindyn.equations.loop_closure import AffineClosure, affine_closure
from mindyn.equations.loop_constraints import open_tree
from mindyn.equations.traces import Parameters
from mindyn.foundation.errors import Code, InputError, RobotError, unknown_name_error
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.robots.drive_matrices import drive_parameters
from mindyn.robots.robot import Robot

_PROJECTIONS: dict[str, Callable[[SX, SX], SX]] = {
    "tau": lambda A, tau: A.T @ tau,
    "M": lambda A, M: A.T @ M @ A,
    "Y": lambda A, Y: A.T @ Y,
    "J": lambda A, J: J @ A,
}
"""Projection of each output of the open tree to the primary joints; other outputs are not projected."""

_MOTION_INPUTS = ("q", "qd", "qdd")
_JOINT_INPUTS = ("tau", "state", "gain")
"""Further inputs with one entry for each primary joint."""


def loop_equation(
    robot: Robot,
    name: str,
    *,
    with_drives: bool = False,
    parameters: Parameters = "constant",
    base: BaseParameters | None = None,
    link: str | None = None,
) -> Any:
    """Return the `casadi.Function` of an equation in the primary joints of a robot with dependent joints.

    The inputs qd, qdd and tau have one entry for each primary joint. The input q has one entry for each primary joint
    if the closure is affine, and one for each joint if not. The other parameters are those of `build_equation`.
    `regressor` and parameters="base" need `base`, a base set of the robot with its dependent joints.
    """
    if name not in EQUATIONS:
        raise unknown_name_error("equation", name, EQUATIONS)
    if unknown := _projection_error(name):
        raise RobotError(
            f"{name} does not support robots with loops: {', '.join(sorted(unknown))} has no projection",
            code=Code.UNSUPPORTED,
            subject=name,
        )
    if base is None and (name == "regressor" or parameters == "base"):
        raise InputError(
            f"{name} of a robot with loops needs base=, a base set of the robot with its loops",
            code=Code.MISSING_VALUE,
            subject="base",
        )
    return _ProjectedEquations(robot, with_drives, parameters, base, link).function(name)


def has_projection(name: str) -> bool:
    """Return whether `loop_equation` supports an equation."""
    return not _projection_error(name)


def _projection_error(name: str) -> set[str]:
    return set(EQUATIONS[name].inputs) - {*_MOTION_INPUTS, *_JOINT_INPUTS, "dt", "wrenches", "root_motion"}


class _ProjectedEquations:
    """Equations of the open tree on the motion of all joints, projected to the primary joints."""

    def __init__(
        self, robot: Robot, with_drives: bool, parameters: Parameters, base: BaseParameters | None, link: str | None
    ) -> None:
        self.loaded = with_drives and bool(load_dependent_extras(robot))
        self.robot, self.tree, self.link = robot, open_tree(robot), link
        self.options: dict[str, Any] = {"with_drives": with_drives, "parameters": parameters, "base": base}
        self.affine = affine_closure(robot) if is_affine(robot) else None
        count = robot.joint_count
        sizes = {"q": count if self.affine else len(robot.joints), "qd": count, "qdd": count, "dt": 1}
        sizes |= dict.fromkeys(_JOINT_INPUTS, count)
        self.symbols = {key: casadi.SX.sym(key, size) for key, size in sizes.items()}
        self.given: dict[str, SX] = {}

    def function(self, name: str) -> Any:
        """Return the function of an equation: its inputs and its output, and the closure output if the loops are solved
        numerically.
        """
        if self.loaded:
            require_loads_known(self.robot)
            require_load_usable(self.robot, name, self.options["parameters"])
        special: dict[str, Callable[[], tuple[ClosedMotion, SX]]] = {
            "forward_dynamics": self._forward_dynamics,
            "coriolis": self._coriolis,
            "momentum_observer": self._observer,
        }
        motion, result = special[name]() if name in special else self._tree(name)
        entry = EQUATIONS[name]
        inputs = {key: self.symbols[key] for key in entry.inputs} | self.given
        results: list[SX] = [result]
        names = [entry.output]
        if self.affine is None:
            results, names = [*results, motion.closure], [*names, CLOSURE]
        outputs: Any = casadi.cse(results)
        return casadi.Function(name, [*inputs.values()], outputs, [*inputs], names)

    def motion(self, *rates: str) -> ClosedMotion:
        """Return the motion of all joints as expressions; rates without a symbol are zero."""
        q = self.symbols["q"]
        pd, pdd = (self.symbols[key] if key in rates else None for key in ("qd", "qdd"))
        return closed_motion(self.robot, q, pd, pdd) if self.affine is None else _affine_motion(self.affine, q, pd, pdd)

    def evaluate_tree(self, name: str, motion: ClosedMotion, *, rigid: bool = False, **more: SX) -> SX:
        """Return an equation of the tree at a motion; with `rigid`, without drives.

        Its further inputs become inputs of the function.
        """
        options = self.options | ({"with_drives": False} if rigid else {})
        tree = build_equation(self.tree, name, link=self.link, check=False, **options)
        values = {"q": motion.q, "qd": motion.qd, "qdd": motion.qdd} | more
        for i in range(tree.n_in()):
            key = tree.name_in(i)
            if key not in values:
                symbol = self.given.setdefault(key, casadi.SX.sym(key, *tree.size_in(i)))
                self.symbols.setdefault(key, symbol)
        everything = self.given | values
        return tree(*(everything[tree.name_in(i)] for i in range(tree.n_in())))

    def torques(self, name: str, motion: ClosedMotion, qd: SX, qdd: SX, **more: SX) -> SX:
        """Return W^T (k, 1) of the tree's torques with drives that move with qd, qdd (n, 1).

        The load that friction depends on is the torque of a primary joint on links and rotors of all joints, by virtual
        work.
        """
        if not self.loaded:
            return motion.W.T @ self.evaluate_tree(name, motion, **more)
        tau = self.evaluate_tree(name, motion, rigid=True, **more)
        load = motion.W.T @ (tau + rotor_torques(self.tree, qdd, self.drive_parameters))
        friction = friction_torques(self.tree, motion.q, qd, self.drive_parameters, expand_loads(self.robot, load))
        return load + motion.W.T @ friction

    @property
    def drive_parameters(self) -> SX:
        """Drive parameters (4 drives + extras,): numbers, or an input."""
        values = drive_parameters(self.robot)
        if self.options["parameters"] != "input":
            return constant(values)
        return self.given.setdefault("drive_parameters", casadi.SX.sym("drive_parameters", len(values)))

    def _tree(self, name: str) -> tuple[ClosedMotion, SX]:
        entry = EQUATIONS[name]
        motion = self.motion(*entry.inputs)
        # With loops the acceleration of dependent joints is not zero at pdd = 0.
        traced = "inverse_dynamics" if name == "bias" else name
        if entry.output == "tau" and name != "gravity":
            return motion, self.torques(traced, motion, motion.qd, motion.qdd)
        result = self.evaluate_tree(traced, motion)
        kept = name == "energy_regressor" or entry.output not in _PROJECTIONS
        return motion, result if kept else _PROJECTIONS[entry.output](motion.W, result)

    def _coriolis(self) -> tuple[ClosedMotion, SX]:
        """Return C from Christoffel's symbols: half the Jacobian of the velocity torques with respect to qd.

        Rotors on dependent joints of a loop have velocity torques too, because their contribution to W^T M W changes
        with q.
        """
        motion = self.motion("qd")
        if self.options["with_drives"]:
            turning = self.evaluate_tree("inertia_matrix", motion) @ motion.qdd
            tree = turning + self.evaluate_tree("coriolis", motion) @ motion.qd
        else:
            tree = self.evaluate_tree("inverse_dynamics", motion) - self.evaluate_tree(
                "inverse_dynamics", self.motion()
            )
        return motion, coriolis_matrix(motion.W.T @ tree, self.symbols["qd"])

    def _observer(self) -> tuple[ClosedMotion, SX]:
        """Return the observer of the tree with the momentum W^T M W pd."""
        motion, rest = self.motion("qd"), self.motion()
        q, pd = self.symbols["q"], self.symbols["qd"]
        p = motion.W.T @ (self.evaluate_tree("inertia_matrix", motion) @ motion.qd)
        kinetic = casadi.gradient(casadi.dot(pd, p) / 2, q)
        primary = [self.robot.joint_index(name) for name in self.robot.primary_names]
        slope = kinetic if self.affine is not None else kinetic[primary]
        gravity = self.evaluate_tree("gravity", rest)
        drift = slope - motion.W.T @ gravity
        if self.options["with_drives"]:
            rigid = self.evaluate_tree("coriolis", motion) @ motion.qd + gravity
            drift -= motion.W.T @ (self.evaluate_tree("bias", motion) - rigid)
        given = (self.symbols[key] for key in ("tau", "state", "gain", "dt"))
        return motion, observer_step(p, drift, *given)

    def _forward_dynamics(self) -> tuple[ClosedMotion, SX]:
        """Solve (W^T M W) pdd = tau - W^T (torques at pdd = 0) by factoring."""
        motion, tau = self.motion("qd"), self.symbols["tau"]
        H = motion.W.T @ self.evaluate_tree("inertia_matrix", motion) @ motion.W
        if self.loaded:
            left = solve_load(self.robot, motion.q, motion.qd, tau, W=motion.W)
            turning = rotor_torques(self.tree, motion.qdd, self.drive_parameters)
            left -= motion.W.T @ (self.evaluate_tree("inverse_dynamics", motion, rigid=True) + turning)
        else:
            left = tau - motion.W.T @ self.evaluate_tree("inverse_dynamics", motion)
        factors = Factors(H)
        if self.affine is not None:  # random configurations are not closed
            require_inertia(casadi.diag(H), factors.D, self.symbols["q"], self.robot.primary_names)
        return motion, factors.solve(left)


def _affine_motion(affine: AffineClosure, p: SX, pd: SX | None, pdd: SX | None) -> ClosedMotion:
    A, b = constant(affine.matrix), constant(affine.offset)
    zero = casadi.SX(affine.matrix.shape[1], 1)
    qd, qdd = (A @ (zero if rate is None else rate) for rate in (pd, pdd))
    return ClosedMotion(A @ p + b, qd, qdd, A, casadi.SX(0, 1))
