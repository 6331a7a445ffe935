"""Compare traced equations with plain Newton-Euler, so that no wrong torque is returned.

Each equation is compared at a few random states of typical size. Inverse dynamics is compared by torques, the inertia
matrix by M qdd, forward dynamics by inserting qdd into Newton-Euler, and regressors by Y beta with random consistent
links.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import casadi
import numpy as np

from mindyn.equations.batch_evaluation import evaluate_batch
from mindyn.equations.closed_motion import is_affine
from mindyn.equations.drives import expand_loads, friction_torques, rotor_torques
from mindyn.equations.loop_closure import TreeState, home_closure, tree_state
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, RobotError
from mindyn.foundation.notation import DRIVE_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.parameters.base_set_verification import (
    COMPARED_STATES,
    Deviation,
    States,
    append_drive_parameters,
    find_worst_deviation,
    sample_links,
    sample_states,
    standard_rows,
)
from mindyn.robots.drive_matrices import drive_parameters
from mindyn.robots.robot import Robot

HOME_RANGE: Final = 0.2
"""Range around home in which closed configurations are searched, rad or loop lengths."""


DriveTerms = Literal["all", "rotors", "nothing"]
"""Drive torques to include: "all" are rotors, friction, offsets and extra torques; the other choices are only rotors,
and none.
"""


@dataclass(frozen=True)
class ReferenceDynamics:
    """Reference for a comparison: random states of the independent joints, and torques of standard parameters at these
    states.

    parameters  how link parameters enter the equation: "constant", "standard", "input", "base"
    base        the base set of beta, if any
    count       number of states
    """

    robot: Robot
    with_drives: bool
    parameters: str
    base: BaseParameters | None = None
    count: int = COMPARED_STATES

    @cached_property
    def states(self) -> States:
        """Motion of the independent joints (N, k); for solved loops, closed positions of all joints (N, n)."""
        every = sample_states(self.robot, self.count)
        kept = [self.robot.joint_index(joint.name) for joint in self.robot.primary_joints]
        q = every.q[:, kept] if is_affine(self.robot) else self._sample_closed(len(every.q))
        return States(q, every.qd[:, kept], every.qdd[:, kept])

    def _sample_closed(self, count: int) -> Array:
        """Return closed configurations (count, n) around home; if the loops close nowhere else, return home itself."""
        closure = home_closure(self.robot)
        primary, rng = list(closure.primary), np.random.default_rng(0)
        assert closure.constraints is not None
        units = closure.constraints.units[primary]
        p = closure.home[primary] + rng.uniform(-HOME_RANGE, HOME_RANGE, (2 * count, len(primary))) * units
        q, reached = closure.find_reachable(p)
        return np.vstack([q[reached], np.repeat(closure.home[None], count, axis=0)])[:count]

    @cached_property
    def values(self) -> Array:
        """Standard parameters (p,), then drive parameters: the robot's own values if they are constants, otherwise
        random values.
        """
        is_constant = self.parameters in ("constant", "standard")
        links = self.robot.phi if is_constant else sample_links(self.robot, 1)[0]
        if not self.with_drives:
            return links
        drive = drive_parameters(self.robot)
        if not is_constant:
            drive[:] = 1.0  # coefficients of extra torques: a zero would hide states without a value of the formula
            drive[: len(DRIVE_PARAMETERS) * len(self.robot.drives)] = append_drive_parameters(self.robot, links[None])[
                0, len(links) :
            ]
        return np.concatenate([links, drive])

    def extra_inputs(self) -> list[Array]:
        """Return the further inputs of the equation."""
        links = PARAMETERS_PER_LINK * len(self.robot.joints)
        if self.parameters == "input":
            return [self.values[:links], *([self.values[links:]] if self.with_drives else [])]
        return [self.beta] if self.parameters == "base" else []

    @property
    def beta(self) -> Array:
        """Base values of the parameters."""
        assert self.base is not None
        return np.asarray(self.base.matrix @ self.values)

    def torques(self, states: States, *, taking: DriveTerms = "all") -> tuple[Array, Array]:
        """Return the torques (N, k) of standard parameters, and the sums of the absolute values of their terms.

        `taking` selects the drive terms, if the equation has drives.
        """
        links = PARAMETERS_PER_LINK * len(self.robot.joints)
        motion = tree_state(self.robot, states.q, states.qd, states.qdd)
        rows = np.einsum("nij,nip->njp", motion.W, standard_rows(self.robot, States(motion.q, motion.qd, motion.qdd)))
        tau, size = rows @ self.values[:links], np.abs(rows) @ np.abs(self.values[:links])
        if self.with_drives and taking != "nothing":
            added = motion.project(self._drive_torques(motion, tau, friction=taking == "all"))
            tau, size = tau + added, size + np.abs(added)
        return tau, size

    def _drive_torques(self, motion: TreeState, rigid: Array, *, friction: bool) -> Array:
        """Return the torques (N, n) of rotors and, under the load of links and rotors, of friction."""
        robot = self.robot
        q, qd, qdd = (casadi.SX.sym(name, len(robot.joints)) for name in ("q", "qd", "qdd"))
        values = casadi.SX(self.values[PARAMETERS_PER_LINK * len(robot.joints) :])
        rotors = casadi.Function("rotors", [qdd], [rotor_torques(robot, qdd, values)])
        torques = evaluate_batch(rotors, motion.qdd)[:, :, 0]
        if not friction:
            return torques
        load = casadi.SX.sym("load", robot.joint_count)
        rubbing = friction_torques(robot, q, qd, values, expand_loads(robot, load))
        carried = rigid + motion.project(torques)
        function = casadi.Function("friction", [q, qd, load], [rubbing])
        return np.asarray(torques + evaluate_batch(function, motion.q, motion.qd, carried)[:, :, 0])


Comparator = Callable[[ReferenceDynamics, Callable[..., Array]], Deviation]
"""(reference, the equation over batches) -> deviation."""


def _at_rest(s: States) -> States:
    return States(s.q, s.qd, np.zeros_like(s.qdd))


def _states_at_rest(s: States) -> States:
    return States(s.q, np.zeros_like(s.qd), np.zeros_like(s.qdd))


def _compare_torques(
    arguments: Callable[[States], list[Array]], at: Callable[[States], States] = lambda s: s
) -> Comparator:
    def answer(w: ReferenceDynamics, call: Callable[..., Array]) -> Deviation:
        tau, size = w.torques(at(w.states))
        # If the terms of a joint vanish without acceleration, compare its rounding with the terms with acceleration.
        return find_worst_deviation(
            call(*arguments(w.states), *w.extra_inputs()) - tau, np.maximum(size, w.torques(w.states)[1])
        )

    return answer


def _compare_gravity(w: ReferenceDynamics, call: Callable[..., Array]) -> Deviation:
    if w.with_drives and w.parameters == "base":
        return Deviation(0, 0.0)  # a base value may combine the weight on a slide and the offset of its drive
    tau, size = w.torques(_states_at_rest(w.states), taking="nothing")
    moving = w.torques(w.states, taking="nothing")[1]  # scale for joints without gravity load
    return find_worst_deviation(call(w.states.q, *w.extra_inputs()) - tau, np.maximum(size, moving))


def _compare_matrix(w: ReferenceDynamics, call: Callable[..., Array]) -> Deviation:
    s = w.states
    pushed, size = w.torques(States(s.q, np.zeros_like(s.qd), s.qdd))
    rest, _ = w.torques(_states_at_rest(s))
    return find_worst_deviation(np.einsum("nij,nj->ni", call(s.q, *w.extra_inputs()), s.qdd) - (pushed - rest), size)


def _compare_coriolis(w: ReferenceDynamics, call: Callable[..., Array]) -> Deviation:
    s = w.states
    moving, size = w.torques(_at_rest(s), taking="rotors")
    rest, _ = w.torques(_states_at_rest(s), taking="rotors")
    whole = w.torques(s, taking="rotors")[1]
    error = np.einsum("nij,nj->ni", call(s.q, s.qd, *w.extra_inputs()), s.qd) - (moving - rest)
    return find_worst_deviation(error, np.maximum(size, whole))


def _compare_forward(w: ReferenceDynamics, call: Callable[..., Array]) -> Deviation:
    s = w.states
    tau, _ = w.torques(s)
    qdd = call(s.q, s.qd, tau, *w.extra_inputs())
    if not np.isfinite(qdd).all():
        # Links without inertia about an axis have no accelerations; the kernel reports that itself.
        return Deviation(0, 0.0)
    back, size = w.torques(States(s.q, s.qd, qdd))
    return find_worst_deviation(back - tau, size)


def _compare_regressor(arguments: Callable[[States], list[Array]]) -> Comparator:
    def answer(w: ReferenceDynamics, call: Callable[..., Array]) -> Deviation:
        tau, size = w.torques(w.states)
        Y = call(*arguments(w.states))
        return find_worst_deviation(Y @ (w.values if w.base is None else w.beta) - tau, size)

    return answer


COMPARATORS: dict[str, Comparator] = {
    "inverse_dynamics": _compare_torques(lambda s: [s.q, s.qd, s.qdd]),
    "bias": _compare_torques(lambda s: [s.q, s.qd], _at_rest),
    "gravity": _compare_gravity,
    "inertia_matrix": _compare_matrix,
    "coriolis": _compare_coriolis,
    "forward_dynamics": _compare_forward,
    "standard_regressor": _compare_regressor(lambda s: [s.q, s.qd, s.qdd]),
    "regressor": _compare_regressor(lambda s: [s.q, s.qd, s.qdd]),
}
"""How each equation is compared. Energies and kinematics need no comparison, because they do not use reduced
parameters; all other equations follow from the equations listed here.
"""


def equation_deviation(function: Any, witness: ReferenceDynamics) -> Deviation:
    """Return the relative deviation of a traced equation (a `casadi.Function`) from standard parameters."""
    count = len(witness.states.q)

    def call(*arrays: Array) -> Array:
        values = evaluate_batch(function, *(np.broadcast_to(x, (count, x.shape[-1])) for x in arrays))
        return values[..., 0] if function.name_out(0) in ("tau", "qdd") else values

    return COMPARATORS[function.name()](witness, call)


def deviation_error(robot: Robot, name: str, deviation: Deviation, hint: str) -> RobotError:
    """Return the error that replaces a wrong result."""
    joint = robot.primary_joints[deviation.joint].name
    return RobotError(
        f"{name} of {robot.name!r} would have an error of {deviation.size:.1e} at joint {joint!r}, relative to the "
        "terms of its torque from standard parameters",
        hint=hint,
        code=Code.INACCURATE,
        subject=joint,
    )
