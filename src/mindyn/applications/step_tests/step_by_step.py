"""`StepByStep`: Yoshida's identification by a sequence of simple tests, each with few unknowns.

Test by test, rows A beta = z (see `rows`) are solved for the combinations of parameters that are not yet known,
with the known ones on the right side. The result is one linear map of all torque readings, which gives the covariance:
errors of earlier tests propagate to later ones, with all their correlations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mindyn.applications.step_tests.log_checks import MAX_TRACKING_ERROR, LogChecks
from mindyn.applications.step_tests.step_rows import RowMaker, Rule
from mindyn.applications.step_tests.whitened_rows import Noise, TestRows, noises_of
from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, pluralise, require_choice
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimate_parts import FitData, ParameterValues, Provenance, Uncertainty
from mindyn.identification.estimators.estimate_records import JointResidual
from mindyn.identification.estimators.fit_summary import infinite_variances
from mindyn.logs.log import Log
from mindyn.motions.step_plans.identifiable_subspace import IdentifiableSubspace
from mindyn.motions.step_plans.plan import StepPlan
from mindyn.regression.information import RANK_TOLERANCE
from mindyn.regression.integrated import IntegratedRegressor
from mindyn.regression.regressor import Regressor
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot

Solution = Literal["steps", "together"]


@dataclass(frozen=True, slots=True)
class StepByStep:
    """Step-by-step method.

    Parameters
    ----------
    rule : "trapezoid" or "gregory"
        Rule of the integrals over accelerated motions; "gregory" (sixth order) needs uniform samples.
    checks : LogChecks
        How closely logs must follow the plan.
    solution : "steps" or "together"
        "steps" solves each test for its new combinations, as Yoshida does. "together" then solves the rows of all
        tests at once, weighted by their variances, so that later tests improve earlier results.
    slack : float
        N m or N by which a backward breakaway may exceed the forward one (noise without friction).
    """

    rule: Rule = "trapezoid"
    checks: LogChecks = MAX_TRACKING_ERROR
    solution: Solution = "steps"
    slack: float = 0.0

    def __post_init__(self) -> None:
        require_choice(self.rule, get_args(Rule), "rule")
        require_choice(self.solution, get_args(Solution), "solution")

    def fit(self, robot: Robot, plan: StepPlan, logs: Mapping[str, Log]) -> Estimate:
        """Fit logs of all motions of the plan.

        Parameters
        ----------
        robot : Robot
            The robot to identify.
        plan : StepPlan
            From `plan_tests(robot)`.
        logs : mapping of str to Log
            By the motion's name.

        Returns
        -------
        Estimate

        Raises
        ------
        InputError
            If the plan belongs to another robot, or a log is missing.
        LogError
            If a log does not follow its motion.
        """
        integrated = self.integrated(robot, plan)
        groups = build_test_rows(self, integrated, plan, logs)
        sequence = _Sequence.of(groups, np.isin(plan.names, plan.dropped))
        return _assemble_estimate(self, integrated.torque, plan, groups, sequence)

    @staticmethod
    def integrated(robot: Robot, plan: StepPlan) -> IntegratedRegressor:
        """Return the columns of a plan's rows; raise if the plan has other joints or parameters."""
        if plan.joints == robot.primary_names and plan.with_drives <= bool(robot.drives):
            integrated = _integrate_test(robot, plan.form, plan.with_drives)
            if plan.names == integrated.torque.names:
                return integrated
        raise InputError(
            f"the plan is of robot {plan.robot!r} with other joints or parameters than robot {robot.name!r} has",
            hint="plan_tests(robot) plans tests for this robot",
            code=Code.DISAGREEMENT,
            subject=plan.robot,
        )


def build_test_rows(
    settings: StepByStep, integrated: IntegratedRegressor, plan: StepPlan, logs: Mapping[str, Log]
) -> list[TestRows]:
    """Return the rows of every test; raise if a log is missing or does not follow the plan."""
    settings.checks.require_all(plan, logs)
    maker = RowMaker(integrated, settings.rule, plan.intervals, settings.slack)
    return [TestRows.of(maker, test, logs) for test in plan.tests]


@lru_cache(maxsize=4)
def _integrate_test(robot: Robot, form: str, with_drives: bool) -> IntegratedRegressor:
    """Trace and compile the columns, cached for repeated fits."""
    return IntegratedRegressor.of(
        Regressor(robot, base=base_parameters(robot, form, with_drives=with_drives)), "momentum"
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Sequence:
    """Solution of all tests, one after another.

    identifiable  combinations of parameters that are known after the last test
    fixed         number of combinations that were set to zero before the first test; they are the first ones
    T             (p, m) with beta = T z, where z (m,) contains the whitened right sides of all tests
    A, z          whitened rows of all tests
    yields        number of combinations that each test adds
    """

    identifiable: IdentifiableSubspace
    fixed: int
    T: Array
    A: Array
    z: Array
    yields: tuple[int, ...]

    @staticmethod
    def of(groups: Sequence[TestRows], known: NDArray[np.bool_]) -> _Sequence:
        """Solve N beta = (A N^T)^+ (z - A L^T (L beta)) for the new directions N of each test, with known L beta."""
        A = np.concatenate([group.white_A for group in groups])
        subspace = IdentifiableSubspace.of(np.linalg.norm(A, axis=0), known)
        values, start, yields = np.zeros((subspace.rank, len(A))), 0, []
        for group in groups:
            U, s, N = subspace.new(group.white_A)
            joint_rows = np.zeros((len(group.z), len(A)))
            joint_rows[:, start : start + len(group.z)] = np.eye(len(group.z))
            rest = joint_rows - subspace.scaled(group.white_A) @ subspace.L.T @ values
            values = np.vstack([values, (U / s).T @ rest])
            subspace = subspace.with_directions(N)
            start += len(group.z)
            yields.append(len(s))
        T = (subspace.L.T @ values) / subspace.scales[:, None]
        return _Sequence(
            subspace, int(known.sum()), T, A, np.concatenate([group.white_z for group in groups]), tuple(yields)
        )

    @property
    def beta(self) -> Array:
        return np.asarray(self.T @ self.z)

    def together(self, noises: Sequence[Noise]) -> _Sequence:
        """Solve all rows at once in the identifiable subspace, each test weighted by its inverse covariance."""
        from scipy.linalg import block_diag

        L = self.identifiable.L[self.fixed :]
        roots = block_diag(*(np.linalg.cholesky(noise.covariance) for noise in noises))
        seen = np.linalg.solve(roots, self.identifiable.scaled(self.A) @ L.T)
        inverse = np.linalg.pinv(seen, rcond=RANK_TOLERANCE) @ np.linalg.inv(roots)
        return replace(self, T=(L.T @ inverse) / self.identifiable.scales[:, None])

    def with_zeros(self, dropped: NDArray[np.bool_]) -> _Sequence:
        """Return the solution with dropped parameters exactly zero, not only up to rounding."""
        return replace(self, T=np.where(dropped[:, None], 0.0, self.T))

    def covariance(self, noises: Sequence[Noise]) -> Array:
        """Return the covariance (p, p) of the identifiable combinations."""
        from scipy.linalg import block_diag

        return np.asarray(self.T @ block_diag(*(noise.covariance for noise in noises)) @ self.T.T)


def _assemble_estimate(
    settings: StepByStep, regressor: Regressor, plan: StepPlan, groups: Sequence[TestRows], sequence: _Sequence
) -> Estimate:
    noises = noises_of(groups)
    if settings.solution == "together":
        sequence = sequence.together(noises)
    sequence = sequence.with_zeros(np.isin(plan.names, plan.dropped))
    robot, beta = regressor.robot, sequence.beta
    unidentifiable = tuple(np.array(regressor.names)[~sequence.identifiable.identifiable()].tolist())
    notes = {
        "rule": settings.rule,
        "solution": settings.solution,
        "tests": plan.counts(),
        "motions": len(plan.motions),
        "yields": dict(zip((test.name for test in plan.tests), sequence.yields, strict=True)),
        "noise": {
            test.name: {"reading": noise.reading, "momentum": noise.momentum}
            for test, noise in zip(plan.tests, noises, strict=True)
        },
        "static_friction": {
            test.row: float(np.mean(group.friction))
            for test, group in zip(plan.tests, groups, strict=True)
            if group.friction
        },
    }
    return Estimate(
        regressor,
        ParameterValues(beta, plan.dropped, unidentifiable),
        Uncertainty(infinite_variances(sequence.covariance(noises), regressor.names, unidentifiable)),
        FitData(
            EquationSettings(base_form=plan.form, drive_parameters="stated"),
            _residuals(robot, groups, beta),
            "mean torque",
        ),
        Provenance("step by step", _format_status(plan, groups, sequence, unidentifiable), notes=notes),
    )


def _residuals(robot: Robot, groups: Sequence[TestRows], beta: Array) -> tuple[JointResidual, ...]:
    """Return the residuals of mean torques of each joint that a test uses."""
    residuals = []
    for name in robot.primary_names:
        joint_groups = [group for group in groups if group.joint == name]
        if joint_groups:
            z = np.concatenate([group.z for group in joint_groups])
            r = z - np.concatenate([group.A for group in joint_groups]) @ beta
            residuals.append(JointResidual(name, len(z), float(np.sqrt(np.mean(r**2))), float(np.sqrt(np.mean(z**2)))))
    return tuple(residuals)


def _format_status(
    plan: StepPlan, groups: Sequence[TestRows], sequence: _Sequence, unidentifiable: tuple[str, ...]
) -> str:
    beta = sequence.beta
    squares = sum(float(np.sum((group.z - group.A @ beta) ** 2)) for group in groups)
    torques = sum(float(np.sum(group.z**2)) for group in groups)
    count = len(plan.names) - len(plan.dropped) - len(unidentifiable)
    sentence = (
        f"{len(plan.tests)} tests in {pluralise(len(plan.motions), 'motion')} determine {count} parameters and leave "
        f"{100 * np.sqrt(squares / max(torques, 1e-300)):.3g} % of the mean torques unexplained"
    )
    pairs = zip(plan.tests, sequence.yields, strict=True)
    short = [f"{test.name} ({recorded} of {test.yields})" for test, recorded in pairs if recorded < test.yields]
    sentence += f"; fewer combinations than planned came from {', '.join(short)}" if short else ""
    return f"{sentence}; unidentifiable: {', '.join(unidentifiable)}." if unidentifiable else f"{sentence}."
