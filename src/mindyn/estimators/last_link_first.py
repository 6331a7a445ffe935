"""`LastLinkFirst`: Lin's recursive identification of a serial robot, joint by joint from the last one.

The torque of joint i depends linearly on the minimal linear combinations (MLC) w_i, ..., w_n of its own and of the
later joints only. With w_(i+1), ..., w_n known, w_i is the least-squares solution of

    A_i w_i = tau_i - phi_i,    phi_i = sum_(j>i) A_ij w_j    [Lin 1995, eq. 94-116]

Drive parameters are identified at the last joint whose torque they affect: with w_i or, if gears couple joints, with
those of a later one. The samples are read once: A_i, A_ij and tau_i enter through the R factor of joint i.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.estimators.estimate import Estimate, Estimator
from mindyn.estimators.estimate_parts import joint_residuals, unexplained_fraction
from mindyn.parameters.lin import lin_structure
from mindyn.regression.information import Information, Solution, null_space, solve
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True)
class LastLinkFirst(Estimator):
    """Lin's recursive procedure, for rows of the base form "lin"."""

    needs = "information"

    def settings_for(self, robot: Robot, wanted: EquationSettings) -> EquationSettings:
        """Return the settings with Lin's columns, and without load-dependent friction, which needs other columns."""
        if not robot.drives:
            lin_structure(robot)  # raises unless the robot is a serial chain
        friction = wanted.friction if isinstance(wanted.friction, str) else wanted.friction.without_load()
        return replace(wanted, base_form="lin", friction=friction)

    def fit(self, rows: Rows) -> Estimate:
        """Fit the MLC and their covariance; the provenance has the condition number of each A_i."""
        if rows.regressor.base.form != "lin":
            raise InputError(
                f'last link first needs rows of the base form "lin", got {rows.regressor.base.form!r}',
                hint='build_rows(robot, logs, EquationSettings(base_form="lin"))',
                code=Code.UNSUPPORTED,
                subject="base_form",
            )
        information = rows.information
        partial = _PartialEstimate.nothing(rows.regressor.count)
        for joint in reversed(range(len(rows.robot.joints))):
            partial.add(information, joint)
        return _estimate(rows, information, partial)


@dataclass(slots=True, eq=False)
class _PartialEstimate:
    """Results of the joints so far, from the last one.

    beta, covariance  zero for parameters that are not yet known
    known             which parameters are known
    conditions        of A_i with columns of unit length, from the last joint; infinite: rank deficient
    unidentifiable    names of parameters that the rows of their own joint do not determine
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
        """Apply steps 2 to 4 to one joint: phi_i from the known parameters, then A_i w_i = tau_i - phi_i."""
        columns, factor = information.columns[joint], information.factors[joint]
        new = ~self.known[columns]
        joint_columns, later = columns[new], columns[~new]
        A, B, tau = factor[:, :-1][:, new], factor[:, :-1][:, ~new], factor[:, -1]
        solution = solve(A, tau - B @ self.beta[later])
        self.beta[joint_columns] = solution.beta
        residual = tau - factor[:, :-1] @ self.beta[columns]
        G = solution.inverse @ A.T @ B
        # Errors of later joints enter these residuals too; their expected part is not noise of this joint.
        added = np.einsum("ij,jk,ik->", B - A @ G, self.covariance[np.ix_(later, later)], B - A @ G)
        freedom = max(1, information.counts[joint] - len(joint_columns))
        variance = max(0.0, float(residual @ residual) - float(added)) / freedom
        self._spread(solution, variance, joint_columns, later, G)
        self.known[joint_columns] = True
        is_open = (np.abs(null_space(A)) > 1e-6).any(axis=1)
        self.unidentifiable += [information.names[k] for k in joint_columns[is_open]]
        self.conditions.append(_condition(A) if solution.rank == len(joint_columns) else float("inf"))

    def _spread(
        self, solution: Solution, variance: float, new: NDArray[np.intp], later: NDArray[np.intp], G: Array
    ) -> None:
        """Propagate the errors of later joints: dw_i = A_i^+ e_i - G dw_later, G = A_i^+ B_i."""
        across = -G @ self.covariance[later]
        self.covariance[new] = across
        self.covariance[:, new] = across.T
        handed_on = G @ self.covariance[np.ix_(later, later)] @ G.T
        self.covariance[np.ix_(new, new)] = variance * solution.inverse + handed_on


def _condition(A: Array) -> float:
    return float(np.linalg.cond(A / np.linalg.norm(A, axis=0)))


def _estimate(rows: Rows, information: Information, partial: _PartialEstimate) -> Estimate:
    conditions = {
        name: value if np.isfinite(value) else None  # JSON has no infinity
        for name, value in zip(information.joint_names, partial.conditions[::-1], strict=True)
    }
    return Estimate.from_fit(
        rows,
        partial.beta,
        partial.covariance,
        "last link first",
        unidentifiable=partial.unidentifiable,
        status=_status(information, partial, unexplained_fraction(joint_residuals(information, partial.beta))),
        provenance={"joint_conditions": conditions},
    )


def _status(information: Information, partial: _PartialEstimate, error: float) -> str:
    worst = int(np.argmax(partial.conditions))
    sentence = (
        f"{len(information.names)} parameters, joint by joint from the last, leave {100 * error:.3g} % of the torque "
        f"unexplained; the worst conditioned joint is {information.joint_names[::-1][worst]!r} "
        f"({partial.conditions[worst]:.3g})"
    )
    if not partial.unidentifiable:
        return f"{sentence}."
    names = ", ".join(partial.unidentifiable)
    return f"{sentence}; the rows of their own joint do not determine {names}; this affects the joints before."
