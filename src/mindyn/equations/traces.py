"""The inputs of tracing an equation: a robot, its symbols by name, and link parameters as numbers or expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

import casadi

from mindyn.equations.chain import SX, Chain, constant, kinematic_chain, reduced_chain, standard_chain, symbolic_chain
from mindyn.equations.drives import drive_torques, friction_torques, load_dependent_extras, rotor_torques, solve_load
from mindyn.equations.external_inputs import ExternalInputs, root_motion
from mindyn.equations.lean_dynamics import LeanChain, lean_chain, lean_chain_on_moving_root, lean_inverse_dynamics
from mindyn.equations.newton_euler import inverse_dynamics
from mindyn.foundation.notation import PARAMETERS_PER_LINK
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.parameters.structural import structural_base
from mindyn.robots.drive_matrices import drive_parameters, reflected_inertia
from mindyn.robots.robot import Robot

Parameters = Literal["constant", "standard", "input", "base"]
"""How an equation gets the link parameters: base values of the robot as constants, ten parameters of each link as
constants, phi as an input, or beta as an input.
"""


Needs = Literal["nothing", "torques", "torques on a moving root", "bodies"]

NEEDS_BEYOND_BASE: tuple[Needs, ...] = ("torques on a moving root", "bodies")
"""Equations that need more than base parameters, which describe only a robot whose root is at rest."""


@dataclass(frozen=True, slots=True)
class Request:
    """Options of `build_equation`; `moved` says whether frames may differ from those of the source."""

    with_drives: bool
    parameters: str
    base: BaseParameters | None
    link: str | None
    moved: bool = True


@dataclass(frozen=True, slots=True)
class Trace:
    """The inputs of tracing an equation: the robot, its symbols by name, and whether drives are included.

    make_chain        creates the chain once, and only for equations that use it
    lean              the robot's own base values for the lean recursion, if only torques are needed
    parameters        the symbols of parameters that are inputs, or with respect to which a regressor is differentiated
    phi               (10 n,) expressions of the link parameters, or None for the robot's own values
    drive_parameters  (4 drives + extras,) expressions, or None for the robot's own values
    """

    robot: Robot
    make_chain: Callable[[], Chain]
    lean: LeanChain | None
    symbols: dict[str, SX]
    parameters: dict[str, SX]
    phi: SX | None
    with_drives: bool
    drive_parameters: SX | None
    link: str

    def __getitem__(self, name: str) -> SX:
        return self.symbols[name]

    @property
    def chain(self) -> Chain:
        """The chain, with parameters as numbers or expressions."""
        return self.make_chain()

    def torques(self, qd: SX, qdd: SX) -> SX:
        """Return inverse dynamics of the rigid chain, by the recursion with the fewest operations."""
        if self.lean is None:
            return self.newton_euler(qd, qdd)
        return lean_inverse_dynamics(self.lean, self["q"], qd, qdd, self.outside)

    def newton_euler(self, qd: SX, qdd: SX) -> SX:
        """Return inverse dynamics of the rigid chain by plain Newton-Euler."""
        wrenches = self.outside.wrenches(len(self.robot.joints))
        return inverse_dynamics(self.chain, self["q"], qd, qdd, wrenches, self.outside.root)

    @property
    def outside(self) -> ExternalInputs:
        """External inputs of the equation."""
        root = self.symbols.get("root_motion")
        return ExternalInputs(None if root is None else root_motion(root), self.symbols.get("tip_wrench"))

    def add_drives(self, tau: SX, qd: SX, qdd: SX) -> SX:
        """Return tau plus the torques of the drives, if they are included."""
        if not self.with_drives:
            return tau
        return tau + drive_torques(self.robot, self["q"], qd, qdd, self.drive_parameters, tau)

    def subtract_drives(self, tau: SX, qd: SX) -> SX:
        """Return tau minus friction, offsets and extra torques: the torques of links and rotors."""
        if load_dependent_extras(self.robot):
            return solve_load(self.robot, self["q"], qd, tau, self.drive_parameters)
        values = constant(drive_parameters(self.robot)) if self.drive_parameters is None else self.drive_parameters
        return tau - friction_torques(self.robot, self["q"], qd, values, None)

    @property
    def drive_inertia(self) -> SX:
        """Inertia (n, n) that the rotors add to the inertia matrix."""
        if not self.with_drives:
            return casadi.SX(len(self.robot.joints), len(self.robot.joints))
        if self.drive_parameters is None:
            return constant(reflected_inertia(self.robot))
        qdd = casadi.SX.sym("qdd", len(self.robot.joints))
        return casadi.jacobian(rotor_torques(self.robot, qdd, self.drive_parameters), qdd)

    @property
    def rest(self) -> SX:
        """Zero joint velocity or acceleration."""
        return casadi.SX(len(self.robot.joints), 1)

    @property
    def all_parameters(self) -> SX:
        """The column of parameters with respect to which a regressor is differentiated."""
        return casadi.vertcat(*self.parameters.values())


def start_trace(robot: Robot, inputs: Sequence[str], needs: Needs, regressor_of: str, asked: Request) -> Trace:
    """Return the symbols and the chain of an equation with the given inputs."""
    n = len(robot.joints)
    shapes = {"wrenches": (n, 6), "dt": (1, 1), "root_motion": (9, 1), "tip_wrench": (6, 1)}
    symbols = {name: casadi.SX.sym(name, *shapes.get(name, (n, 1))) for name in inputs}
    given: dict[str, SX] = {}
    phi, drive, lean = None, None, None
    if needs == "nothing":
        make = partial(kinematic_chain, robot)
    elif regressor_of == "beta" or (asked.parameters == "base" and not regressor_of):
        given["beta"], phi, drive = _base_symbols(robot, asked)
    elif asked.parameters == "input" or regressor_of == "phi":
        phi = given["phi"] = casadi.SX.sym("phi", n * PARAMETERS_PER_LINK)
        if asked.with_drives:
            drive = given["drive_parameters"] = casadi.SX.sym("drive", len(drive_parameters(robot)))
    elif asked.parameters == "constant" and needs == "torques":
        make, lean = partial(reduced_chain, robot), lean_chain(robot)
    else:
        make = partial(standard_chain, robot, moved=asked.moved)
        if asked.parameters == "constant" and needs == "torques on a moving root":
            lean = lean_chain_on_moving_root(robot)
    if phi is not None:
        make = partial(symbolic_chain, robot, phi, moved=asked.moved)
    drives = asked.with_drives and needs != "nothing"
    return Trace(robot, cache(make), lean, symbols, given, phi, drives, drive, asked.link or "")


def _base_symbols(robot: Robot, asked: Request) -> tuple[SX, SX, SX | None]:
    """Return beta as symbols, and the standard and drive parameters that have these base values."""
    base = structural_base(robot, with_drives=asked.with_drives) if asked.base is None else asked.base
    beta = casadi.SX.sym("beta", base.count)
    everything = casadi.densify(constant(base.embedding) @ beta)
    links = len(robot.joints) * PARAMETERS_PER_LINK
    return beta, everything[:links], everything[links:] if asked.with_drives else None
