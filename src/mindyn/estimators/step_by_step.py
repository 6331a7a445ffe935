"""`StepByStep`: Yoshida's identification by a sequence of simple tests, each with few unknowns.

Test by test, rows A beta = z (see `step_rows`) are solved for the combinations of parameters that are not yet known,
with those already known on the right side. The whole is one linear map of all torque readings, from which the
covariance follows: errors of earlier tests are handed on to later ones, with all their correlations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimate_parts import JointResidual
from mindyn.estimators.step_logs import MAX_TRACKING_ERROR, LogChecks
from mindyn.estimators.step_noise import Noise, TestRows, noises_of
from mindyn.estimators.step_rows import RowMaker, Rule
from mindyn.estimators.unidentifiable import infinite_variances
from mindyn.excitation.identifiable_subspace import IdentifiableSubspace
from mindyn.excitation.step_plan import StepPlan
from mindyn.identifiability.base_sets import base_parameters
from mindyn.logs.log import Log
from mindyn.regression.information import RANK_TOLERANCE
from mindyn.regression.integrated import IntegratedRegressor
from mindyn.regression.regressor import Regressor
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot

Solution = Literal["steps", "together"]


@dataclass(frozen=True, slots=True)
class StepByStep:
    """Settings of the step-by-step method.

    rule      of the integrals over accelerated motions: "trapezoid", or "gregory" (sixth order) for uniform samples
    checks    how closely logs must follow the plan
    solution  "steps": every test is solved for what is new in it, as Yoshida does; "together": the rows of all tests,
              weighed by their variances, are then solved at once, so that later tests mend what earlier ones told
    slack     N m or N by which a backward breakaway may lie above the forward one (noise where there is no friction)
    """

    rule: Rule = "trapezoid"
    checks: LogChecks = MAX_TRACKING_ERROR
    solution: Solution = "steps"
    slack: float = 0.0

    def __post_init__(self) -> None:
        for name, choices in (("rule", Rule), ("solution", Solution)):
            if getattr(self, name) not in get_args(choices):
                raise InputError(f"{name} = {getattr(self, name)!r}; it may be: {', '.join(get_args(choices))}")

    def fit(self, robot: Robot, plan: StepPlan, logs: Mapping[str, Log]) -> Estimate:
        """The estimate from a log of every motion of the plan, by the motion's name."""
        integrated = self.integrated(robot, plan)
        self.checks.require_all(plan, logs)
        maker = RowMaker(integrated, self.rule, plan.intervals, self.slack)
        groups = [TestRows.of(maker, test, logs) for test in plan.tests]
        sequence = _Sequence.of(groups, np.isin(plan.names, plan.dropped))
        return _estimate(self, integrated.torque, plan, groups, sequence)

    @staticmethod
    def integrated(robot: Robot, plan: StepPlan) -> IntegratedRegressor:
        """The columns of a plan's rows; refuses a plan of other joints or parameters."""
        if plan.joints == robot.primary_names and plan.drives <= bool(robot.drives):
            integrated = _integrate_test(robot, plan.form, plan.drives)
            if plan.names == integrated.torque.names:
                return integrated
        raise InputError(
            f"the plan is of robot {plan.robot!r} with other joints or parameters than robot {robot.name!r} has",
            hint="plan_tests(robot) makes one for this robot",
        )


@lru_cache(maxsize=4)
def _integrate_test(robot: Robot, form: str, drives: bool) -> IntegratedRegressor:
    """Traced and compiled once for repeated fits."""
    return IntegratedRegressor.of(Regressor(robot, base=base_parameters(robot, form, drives=drives)), "momentum")


@dataclass(frozen=True, slots=True, eq=False)
class _Sequence:
    """All tests solved one after the other.

    told    what is known at the end; of it, the first `fixed` combinations from the beginning, as zero
    T       (p, m) with beta = T z, z (m,) the whitened right sides of all tests
    A, z    the whitened rows of all tests
    yields  for each test the number of combinations that became known
    """

    identifiable: IdentifiableSubspace
    fixed: int
    T: Array
    A: Array
    z: Array
    yields: tuple[int, ...]

    @staticmethod
    def of(groups: Sequence[TestRows], known: NDArray[np.bool_]) -> _Sequence:
        """With N the new directions of a test, N beta = (A N^T)^+ (z - A L^T (L beta)), L beta known before."""
        A = np.concatenate([group.white_A for group in groups])
        told = IdentifiableSubspace.of(np.linalg.norm(A, axis=0), known)
        values, start, yields = np.zeros((told.rank, len(A))), 0, []
        for group in groups:
            U, s, N = told.new(group.white_A)
            own = np.zeros((len(group.z), len(A)))
            own[:, start : start + len(group.z)] = np.eye(len(group.z))
            rest = own - told.scaled(group.white_A) @ told.L.T @ values
            values = np.vstack([values, (U / s).T @ rest])
            told = told.with_directions(N)
            start += len(group.z)
            yields.append(len(s))
        T = (told.L.T @ values) / told.scales[:, None]
        return _Sequence(
            told, int(known.sum()), T, A, np.concatenate([group.white_z for group in groups]), tuple(yields)
        )

    @property
    def beta(self) -> Array:
        return np.asarray(self.T @ self.z)

    def together(self, noises: Sequence[Noise]) -> _Sequence:
        """The same rows solved at once, each test by the inverse of its covariance, for what the sequence has told."""
        L, roots = (
            self.identifiable.L[self.fixed :],
            block_diag(*(np.linalg.cholesky(noise.covariance) for noise in noises)),
        )
        seen = np.linalg.solve(roots, self.identifiable.scaled(self.A) @ L.T)
        inverse = np.linalg.pinv(seen, rcond=RANK_TOLERANCE) @ np.linalg.inv(roots)
        return replace(self, T=(L.T @ inverse) / self.identifiable.scales[:, None])

    def covariance(self, noises: Sequence[Noise]) -> Array:
        """(p, p) of what is told."""
        return np.asarray(self.T @ block_diag(*(noise.covariance for noise in noises)) @ self.T.T)


def _estimate(
    settings: StepByStep, regressor: Regressor, plan: StepPlan, groups: Sequence[TestRows], sequence: _Sequence
) -> Estimate:
    noises = noises_of(groups)
    if settings.solution == "together":
        sequence = sequence.together(noises)
    robot, beta = regressor.robot, sequence.beta
    untold = tuple(
        name for name, told in zip(regressor.names, sequence.identifiable.identifiable(), strict=True) if not told
    )
    return Estimate(
        regressor,
        beta,
        infinite_variances(sequence.covariance(noises), regressor.names, untold),
        _status(plan, groups, sequence, untold),
        _residuals(robot, groups, beta),
        EquationSettings(base_form=plan.form, drives="stated"),
        dropped=plan.dropped,
        unidentifiable=untold,
        method="step by step",
        residual_of="mean torque",
        provenance={
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
        },
    )


def _residuals(robot: Robot, groups: Sequence[TestRows], beta: Array) -> tuple[JointResidual, ...]:
    """Of mean torques, joint by joint; joints whose row no test uses are not among them."""
    found = []
    for name in robot.primary_names:
        own = [group for group in groups if group.joint == name]
        if own:
            z = np.concatenate([group.z for group in own])
            r = z - np.concatenate([group.A for group in own]) @ beta
            found.append(JointResidual(name, len(z), float(np.sqrt(np.mean(r**2))), float(np.sqrt(np.mean(z**2)))))
    return tuple(found)


def _status(plan: StepPlan, groups: Sequence[TestRows], sequence: _Sequence, unidentifiable: tuple[str, ...]) -> str:
    beta = sequence.beta
    squares = sum(float(np.sum((group.z - group.A @ beta) ** 2)) for group in groups)
    torques = sum(float(np.sum(group.z**2)) for group in groups)
    count = len(plan.names) - len(plan.dropped) - len(unidentifiable)
    told = (
        f"{len(plan.tests)} tests in {len(plan.motions)} motions tell {count} parameters and leave "
        f"{100 * np.sqrt(squares / max(torques, 1e-300)):.3g} % of the mean torques unexplained"
    )
    pairs = zip(plan.tests, sequence.yields, strict=True)
    short = [f"{test.name} ({found} of {test.yields})" for test, found in pairs if found < test.yields]
    told += f"; combinations fewer than planned came from {', '.join(short)}" if short else ""
    return f"{told}; they cannot tell: {', '.join(unidentifiable)}." if unidentifiable else f"{told}."
