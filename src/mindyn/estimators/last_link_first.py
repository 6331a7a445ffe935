"""`LastLinkFirst`: Lin's recursive identification of a serial robot, one joint after the other from the last.

The torque of joint i depends on the minimal linear combinations (MLC) w_i, ..., w_n of its own and of the later joints
alone, and linearly. With w_(i+1), ..., w_n found, w_i is the least-squares solution of

    A_i w_i = tau_i - phi_i,    phi_i = sum_(j>i) A_ij w_j    [Lin 1995, eq. 94-116]

Parameters of drives are found at the last joint whose torque they touch: with w_i, or, where gears couple joints, with
those of a later one. The samples are read once: A_i, A_ij and tau_i enter through the R factor of joint i.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimator import Estimator, Needs
from mindyn.estimators.summaries import joint_residuals, unexplained_fraction
from mindyn.parameters.lin_structure import lin_structure
from mindyn.regression.information import Information, Solution, null_space, solve
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True)
class LastLinkFirst(Estimator):
    """Lin's recursive procedure; it takes rows of the base form "lin"."""

    @property
    def needs(self) -> Needs:
        """R factors alone."""
        return "information"

    def settings_for(self, robot: Robot, wanted: EquationSettings) -> EquationSettings:
        """Lin's own columns, with friction and rotors as wanted; but friction by the load is of other columns."""
        if not robot.drives:
            lin_structure(robot)  # refuses robots that are no chain
        friction = wanted.friction if isinstance(wanted.friction, str) else wanted.friction.without_load()
        return replace(wanted, base_form="lin", friction=friction)

    def fit(self, rows: Rows) -> Estimate:
        """The MLC with their covariance; `joint_conditions` of the provenance has the condition of every A_i."""
        if rows.regressor.base.form != "lin":
            raise InputError(
                f"the rows are of the base form {rows.regressor.base.form!r}, but Lin's recursion needs his own",
                hint='rows_of(robot, logs, Treatment(base_form="lin"))',
            )
        information = rows.information
        found = _PartialEstimate.nothing(rows.regressor.count)
        for joint in reversed(range(rows.robot.joint_count)):
            found.add(information, joint)
        return _estimate(rows, information, found)


@dataclass(slots=True, eq=False)
class _PartialEstimate:
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
    unidentifiable: list[str]

    @staticmethod
    def nothing(count: int) -> _PartialEstimate:
        return _PartialEstimate(np.zeros(count), np.zeros((count, count)), np.zeros(count, dtype=np.bool_), [], [])

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
        self.unidentifiable += [information.names[k] for k in own[open_ones]]
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


def _estimate(rows: Rows, information: Information, found: _PartialEstimate) -> Estimate:
    conditions = {
        name: value if np.isfinite(value) else None  # JSON has no infinity
        for name, value in zip(information.joint_names, found.conditions[::-1], strict=True)
    }
    return Estimate.from_fit(
        rows,
        found.beta,
        found.covariance,
        "last link first",
        unidentifiable=found.unidentifiable,
        status=_status(information, found, unexplained_fraction(joint_residuals(information, found.beta))),
        provenance={"joint_conditions": conditions},
    )


def _status(information: Information, found: _PartialEstimate, error: float) -> str:
    worst = int(np.argmax(found.conditions))
    told = (
        f"{len(information.names)} parameters, joint by joint from the last, leave {100 * error:.3g} % of the torque "
        f"unexplained; the worst conditioned joint is {information.joint_names[::-1][worst]!r} "
        f"({found.conditions[worst]:.3g})"
    )
    if not found.unidentifiable:
        return f"{told}."
    return (
        f"{told}; the rows of their own joint leave open: {', '.join(found.unidentifiable)}, and joints before suffer."
    )
