"""`LastLinkFirst`: Lin's recursive identification of a serial robot, one joint after the other from the last.

The torque of joint i depends on the minimal linear combinations (MLC) w_i, ..., w_n of its own and of the later joints
alone, and linearly. With w_(i+1), ..., w_n found, w_i is the least-squares solution of

    A_i w_i = tau_i - phi_i,    phi_i = sum_(j>i) A_ij w_j    [Lin 1995, eq. 94-116]

Parameters of drives are found at the last joint whose torque they touch: with w_i, or, where gears couple joints, with
those of a later one. The samples are read once: A_i, A_ij and tau_i enter through the R factor of joint i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import casadi
import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.equations.catalogue import equation
from mindyn.equations.mlc_dynamics import mlc_inverse_dynamics
from mindyn.estimators.estimate import Estimate, JointResidual
from mindyn.estimators.least_squares import PLAIN
from mindyn.kernels.kernel import Kernel
from mindyn.logs.samples import Samples
from mindyn.parameters.base import BaseParameters
from mindyn.parameters.lin import lin_base, lin_base_with_drives
from mindyn.parameters.lin_structure import LinStructure, lin_structure
from mindyn.regression.friction import Friction
from mindyn.regression.gathering import gather
from mindyn.regression.information import Information, Solution, null_space, solve
from mindyn.regression.regressor import Regressor
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True)
class LastLinkFirst:
    """Settings of Lin's recursive procedure.

    friction    shape of the friction columns; `joint_side` names joints with columns of their own motion
    filter_hz   low pass on columns and torque alike
    decimation  of the filtered rows
    """

    friction: Friction = PLAIN
    filter_hz: float | None = None
    decimation: int = 1
    estimates_drives: ClassVar[bool] = False

    def regressor(self, robot: Robot) -> Regressor:
        """Y with tau = Y w, w the MLC, as the derivative of Lin's own recursion."""
        base = lin_base_with_drives(robot) if robot.drives else lin_base(robot)
        kernel = Kernel(mlc_regressor(lin_structure(robot), base), compact=["Y"], matrices=["Y"])
        return Regressor(robot, self.friction, base, kernel)

    def fit(self, robot: Robot, samples: Samples) -> Estimate:
        """The MLC with their covariance; `joint_conditions` of the provenance has the condition of every A_i."""
        regressor = self.regressor(robot)
        information = gather(regressor, samples, cutoff_hz=self.filter_hz, decimation=self.decimation)
        found = _Found.nothing(regressor.count)
        for joint in reversed(range(robot.joint_count)):
            found.add(information, joint)
        return _estimate(self, regressor, information, found)


def mlc_regressor(structure: LinStructure, base: BaseParameters) -> Any:
    """The `casadi.Function` (q, qd, qdd) -> Y (n, count) with tau = Y w [Lin 1995, eq. 57-92 and 94-116].

    Columns of drive parameters, where the base set has them, are those of the structural set.
    """
    n, count = len(structure.joints), len(structure.layout)
    motion = [casadi.SX.sym(name, n) for name in ("q", "qd", "qdd")]
    mlc = casadi.SX.sym("mlc", count)
    Y = casadi.jacobian(mlc_inverse_dynamics(structure, mlc, *motion), mlc)
    if base.drives:
        Y = casadi.horzcat(Y, equation(base.robot, "regressor", drives=True)(*motion)[:, count:])
    return casadi.Function("mlc_regressor", motion, [casadi.cse(Y)], ["q", "qd", "qdd"], ["Y"])


@dataclass(slots=True, eq=False)
class _Found:
    """What the joints so far, from the last, have given.

    beta, covariance  zero where not yet found
    known             which parameters are found
    conditions        of A_i with columns of unit length, joint by joint from the last; infinite: rank deficient
    untold            names of parameters that their own joint's rows leave open
    """

    beta: Array
    covariance: Array
    known: NDArray[np.bool_]
    conditions: list[float]
    untold: list[str]

    @staticmethod
    def nothing(count: int) -> _Found:
        return _Found(np.zeros(count), np.zeros((count, count)), np.zeros(count, dtype=np.bool_), [], [])

    def add(self, information: Information, joint: int) -> None:
        """Steps 2 to 4 for one joint: phi_i from what is known, then A_i w_i = tau_i - phi_i."""
        columns, factor = information.columns[joint], information.factors[joint]
        new = ~self.known[columns]
        own, later = columns[new], columns[~new]
        A, B, tau = factor[:, :-1][:, new], factor[:, :-1][:, ~new], factor[:, -1]
        solution = solve(A, tau - B @ self.beta[later])
        self.beta[own] = solution.beta
        residual = tau - factor[:, :-1] @ self.beta[columns]
        G = solution.inverse @ A.T @ B
        # Errors of later joints are in these residuals too; what they are expected to add is not noise of this joint.
        added = np.einsum("ij,jk,ik->", B - A @ G, self.covariance[np.ix_(later, later)], B - A @ G)
        freedom = max(1, information.counts[joint] - len(own))
        variance = max(0.0, float(residual @ residual) - float(added)) / freedom
        self._spread(solution, variance, own, later, G)
        self.known[own] = True
        open_ones = (np.abs(null_space(A)) > 1e-6).any(axis=1)
        self.untold += [information.names[k] for k in own[open_ones]]
        self.conditions.append(_condition(A) if solution.rank == len(own) else float("inf"))

    def _spread(
        self, solution: Solution, variance: float, own: NDArray[np.intp], later: NDArray[np.intp], G: Array
    ) -> None:
        """dw_i = A_i^+ e_i - G dw_later, G = A_i^+ B_i: later joints hand their errors on."""
        across = -G @ self.covariance[later]
        self.covariance[own] = across
        self.covariance[:, own] = across.T
        handed_on = G @ self.covariance[np.ix_(later, later)] @ G.T
        self.covariance[np.ix_(own, own)] = variance * solution.inverse + handed_on


def _condition(A: Array) -> float:
    return float(np.linalg.cond(A / np.linalg.norm(A, axis=0)))


def _estimate(settings: LastLinkFirst, regressor: Regressor, information: Information, found: _Found) -> Estimate:
    squares, torques = information.residuals(found.beta), information.torques()
    counts = np.array(information.counts)
    residuals = tuple(
        JointResidual(name, int(count), float(r), float(t))
        for name, count, r, t in zip(
            information.joint_names, counts, np.sqrt(squares / counts), np.sqrt(torques / counts), strict=True
        )
    )
    conditions = {
        name: value if np.isfinite(value) else None  # JSON has no infinity
        for name, value in zip(information.joint_names, found.conditions[::-1], strict=True)
    }
    for name in found.untold:
        k = information.names.index(name)
        found.covariance[k, k] = np.inf
    return Estimate(
        regressor,
        found.beta,
        found.covariance,
        _status(information, found, float(np.sqrt(squares.sum() / max(torques.sum(), 1e-300)))),
        residuals,
        settings.filter_hz,
        untold=tuple(found.untold),
        provenance={
            "estimator": "last link first",
            "joint_conditions": conditions,
            "decimation": settings.decimation,
        },
    )


def _status(information: Information, found: _Found, error: float) -> str:
    worst = int(np.argmax(found.conditions))
    told = (
        f"{len(information.names)} parameters, joint by joint from the last, leave {100 * error:.3g} % of the torque "
        f"unexplained; the worst conditioned joint is {information.joint_names[::-1][worst]!r} "
        f"({found.conditions[worst]:.3g})"
    )
    if not found.untold:
        return f"{told}."
    return f"{told}; the rows of their own joint leave open: {', '.join(found.untold)}, and joints before suffer."
