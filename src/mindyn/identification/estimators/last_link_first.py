"""`LastLinkFirst`: Lin's recursive identification of a serial robot, joint by joint from the last one.

The torque of joint i depends linearly on the minimal linear combinations (MLC) w_i, ..., w_n of its own and of the
later joints only. With w_(i+1), ..., w_n known, w_i is the least-squares solution of

    A_i w_i = tau_i - phi_i,    phi_i = sum_(j>i) A_ij w_j    [Lin 1995, eq. 94-116]

Drive parameters are identified at the last joint whose torque they affect: together with w_i or, if gears couple
joints, together with the MLC of a later joint. The samples are read once, because the R factor of joint i contains A_i,
A_ij and tau_i.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, pluralise
from mindyn.foundation.json_values import to_json_value
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimator import Estimator
from mindyn.identification.estimators.fit_summary import find_unidentifiable, unexplained_fraction
from mindyn.parameters.lin import lin_structure
from mindyn.regression.information import Information, solve
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
        """Fit the MLC and their covariance. The provenance contains the condition number of each A_i."""
        if rows.regressor.base.form != "lin":
            raise InputError(
                f'last link first needs rows of the base form "lin", got {rows.regressor.base.form!r}',
                hint='build_rows(robot, logs, EquationSettings(base_form="lin"))',
                code=Code.UNSUPPORTED,
                subject="base_form",
            )
        information = rows.information
        beta, covariance, conditions, unidentifiable = fit_backwards(information)
        estimate = Estimate.from_fit(
            rows,
            beta,
            covariance,
            "last link first",
            unidentifiable=unidentifiable,
            provenance={
                "joint_conditions": to_json_value({name: conditions[name] for name in information.joint_names})
            },
        )
        return estimate.with_provenance(status=_format_status(estimate, conditions))


def fit_backwards(information: Information) -> tuple[Array, Array, dict[str, float], list[str]]:
    """Return beta (p,), its covariance (p, p), the condition number of each A_i, and unidentifiable parameters.

    A_i has columns of unit length; its condition number is infinite if it is rank deficient. Parameters are
    unidentifiable if the rows of their own joint do not determine them.
    """
    names, count = information.names, len(information.names)
    beta, covariance, known = np.zeros(count), np.zeros((count, count)), np.zeros(count, dtype=np.bool_)
    conditions: dict[str, float] = {}
    unidentifiable: list[str] = []
    for joint in reversed(range(len(information.joint_names))):
        columns, factor = information.columns[joint], information.factors[joint]
        is_new = ~known[columns]
        new, later = columns[is_new], columns[~is_new]
        A, B, tau = factor[:, :-1][:, is_new], factor[:, :-1][:, ~is_new], factor[:, -1]
        solution = solve(A, tau - B @ beta[later])
        beta[new] = solution.beta
        residual = tau - factor[:, :-1] @ beta[columns]
        # Errors of later joints propagate: dw_i = A_i^+ e_i - G dw_later, G = A_i^+ B_i. They enter these residuals
        # too; their expected part is not noise of this joint.
        G = solution.inverse @ A.T @ B
        later_covariance = covariance[np.ix_(later, later)]
        added = np.einsum("ij,jk,ik->", B - A @ G, later_covariance, B - A @ G)
        freedom = max(1, information.counts[joint] - len(new))
        variance = max(0.0, float(residual @ residual) - float(added)) / freedom
        across = -G @ covariance[later]
        covariance[new] = across
        covariance[:, new] = across.T
        covariance[np.ix_(new, new)] = variance * solution.inverse + G @ later_covariance @ G.T
        known[new] = True
        unidentifiable += find_unidentifiable(A, [names[k] for k in new])
        has_full_rank = solution.rank == len(new)
        conditions[information.joint_names[joint]] = compute_condition(A) if has_full_rank else float("inf")
    return beta, covariance, conditions, unidentifiable


def compute_condition(A: Array) -> float:
    """Return the condition number of A with columns of unit length."""
    return float(np.linalg.cond(A / np.linalg.norm(A, axis=0)))


def _format_status(estimate: Estimate, conditions: dict[str, float]) -> str:
    worst = max(conditions, key=conditions.__getitem__)
    sentence = (
        f"{pluralise(len(estimate.names), 'parameter')}, joint by joint from the last, leave "
        f"{100 * unexplained_fraction(estimate.data.residuals):.3g} % of the torque unexplained; the worst conditioned "
        f"joint is {worst!r} ({conditions[worst]:.3g})"
    )
    if not estimate.values.unidentifiable:
        return f"{sentence}."
    names = ", ".join(estimate.values.unidentifiable)
    return f"{sentence}; the rows of their own joint do not determine {names}; this affects the joints before."
