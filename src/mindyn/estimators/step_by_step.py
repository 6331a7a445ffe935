"""`StepByStep`: Yoshida's identification by a sequence of simple tests, each with few unknowns.

Test by test, rows A beta = z (see `step_rows`) are solved for the combinations of parameters that are not yet known,
with those already known on the right side. The whole is one linear map of all torque readings, from which the
covariance follows: errors of earlier tests are handed on to later ones, with all their correlations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate, JointResidual
from mindyn.estimators.integrated_rows import IntegratedRegressor
from mindyn.estimators.step_logs import FOLLOWED, LogChecks
from mindyn.estimators.step_rows import RowMaker, Rule
from mindyn.excitation.step_plan import StepPlan, StepTest
from mindyn.excitation.told_subspace import ToldSubspace
from mindyn.identifiability.base_sets import base_parameters
from mindyn.logs.log import Log
from mindyn.regression.information import RANK
from mindyn.regression.regressor import Regressor
from mindyn.robots.robot import Robot

Solution = Literal["steps", "together"]
ENOUGH_FREEDOM: Final = 8
"""Degrees of freedom from which tests of one kind state their own variance: it is then known to a factor of two."""


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
    checks: LogChecks = FOLLOWED
    solution: Solution = "steps"
    slack: float = 0.0

    def __post_init__(self) -> None:
        for name, choices in (("rule", Rule), ("solution", Solution)):
            if getattr(self, name) not in get_args(choices):
                raise InputError(f"{name} = {getattr(self, name)!r}; it may be: {', '.join(get_args(choices))}")

    def fit(self, robot: Robot, plan: StepPlan, logs: Mapping[str, Log]) -> Estimate:
        """The estimate from a log of every motion of the plan, by the motion's name."""
        integrated = _integrated_for(robot, plan)
        self.checks.require_all(plan, logs)
        maker = RowMaker(integrated, self.rule, plan.intervals, self.slack)
        groups = [_Group.of(maker, test, logs) for test in plan.tests]
        sequence = _Sequence.of(groups, np.isin(plan.names, plan.left_out))
        return _estimate(self, integrated.torque, plan, groups, sequence)


@lru_cache(maxsize=4)
def _integrated(robot: Robot, form: str, drives: bool) -> IntegratedRegressor:
    """Traced and compiled once for repeated fits."""
    return IntegratedRegressor.of(Regressor(robot, base=base_parameters(robot, form, drives=drives)), "momentum")


def _integrated_for(robot: Robot, plan: StepPlan) -> IntegratedRegressor:
    """Refuses a plan of other joints or parameters."""
    if plan.joints == robot.joint_names and plan.drives <= bool(robot.drives):
        integrated = _integrated(robot, plan.form, plan.drives)
        if plan.names == integrated.torque.names:
            return integrated
    raise InputError(
        f"the plan is of robot {plan.robot!r} with other joints or parameters than robot {robot.name!r} has",
        hint="plan_tests(robot) makes one for this robot",
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """The rows of one test: row is the number of its joint; plain A, z in N m or N; whitened ones (see `Rows`)."""

    row: int
    accelerated: bool
    A: Array
    z: Array
    white_A: Array
    white_z: Array
    friction: tuple[float, ...]

    @staticmethod
    def of(maker: RowMaker, test: StepTest, logs: Mapping[str, Log]) -> _Group:
        row = maker.regressor.robot.joint_index(test.row)
        made = [maker.rows(motion, logs[motion.name], row) for motion in test.motions]
        white = [one.whitened() for one in made]
        return _Group(
            row,
            test.kind == "accelerated",
            np.concatenate([one.A for one in made]),
            np.concatenate([one.z for one in made]),
            np.concatenate([A for A, _ in white]),
            np.concatenate([z for _, z in white]),
            tuple(value for one in made for value in one.friction),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Sequence:
    """All tests solved one after the other.

    told    what is known at the end; of it, the first `fixed` combinations from the beginning, as zero
    T       (p, m) with beta = T z, z (m,) the whitened right sides of all tests
    A, z    the whitened rows of all tests
    yields  for each test the number of combinations that became known
    """

    told: ToldSubspace
    fixed: int
    T: Array
    A: Array
    z: Array
    yields: tuple[int, ...]

    @staticmethod
    def of(groups: Sequence[_Group], known: NDArray[np.bool_]) -> _Sequence:
        """With N the new directions of a test, N beta = (A N^T)^+ (z - A L^T (L beta)), L beta known before."""
        A = np.concatenate([group.white_A for group in groups])
        told = ToldSubspace.of(np.linalg.norm(A, axis=0), known)
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
        return _Sequence(told, int(known.sum()), T, A, np.concatenate([group.white_z for group in groups]), tuple(yields))

    @property
    def beta(self) -> Array:
        return np.asarray(self.T @ self.z)

    def together(self, variances: Array) -> _Sequence:
        """The same rows solved at once, each by the inverse of its variance, for what the sequence has told."""
        L, weights = self.told.L[self.fixed :], 1 / np.sqrt(variances)
        root = np.linalg.pinv(self.told.scaled(self.A) @ L.T * weights[:, None], rcond=RANK)
        return replace(self, T=(L.T @ (root * weights)) / self.told.scales[:, None])

    def covariance(self, variances: Array) -> Array:
        """(p, p) from the variance of each row; infinite on the diagonal of what is not told."""
        spread = (self.T * variances) @ self.T.T
        open_ones = np.flatnonzero(~self.told.told())
        spread[open_ones, open_ones] = np.inf
        return np.asarray(spread)


def _reading_variances(groups: Sequence[_Group]) -> list[float]:
    """For each test the variance of one torque reading, from what no parameters can explain of its rows.

    Tests of one joint are pooled, accelerated ones and others by themselves where both have enough freedom: errors of
    the velocities are in the former only.
    """
    counted = [(group.row, group.accelerated, *_unexplained(group)) for group in groups]
    found = []
    for group in groups:
        own = [one for one in counted if one[0] == group.row]
        alike = [one for one in own if one[1] == group.accelerated]
        taken = alike if sum(one[3] for one in alike) >= ENOUGH_FREEDOM else own
        freedom = sum(one[3] for one in taken)
        if not freedom:
            raise InputError(
                f"no test of joint {group.row + 1}'s row has more rows than unknowns: nothing says how sure it is",
                hint="plan with more intervals",
            )
        found.append(sum(one[2] for one in taken) / freedom)
    return found


def _unexplained(group: _Group) -> tuple[float, int]:
    """Sum of squares of the part of the whitened rows that no parameters explain, and its degrees of freedom."""
    lengths = np.linalg.norm(group.white_A, axis=0)
    U, s, _ = np.linalg.svd(group.white_A[:, lengths > 0] / lengths[lengths > 0], full_matrices=False)
    U = U[:, s > RANK * s.max(initial=0.0)]
    rest = group.white_z - U @ (U.T @ group.white_z)
    return float(rest @ rest), len(rest) - U.shape[1]


def _estimate(
    settings: StepByStep, regressor: Regressor, plan: StepPlan, groups: Sequence[_Group], sequence: _Sequence
) -> Estimate:
    variances = _reading_variances(groups)
    each_row = np.repeat(variances, [len(group.z) for group in groups])
    if settings.solution == "together":
        sequence = sequence.together(each_row)
    robot, beta = regressor.robot, sequence.beta
    untold = tuple(name for name, told in zip(regressor.names, sequence.told.told(), strict=True) if not told)
    return Estimate(
        regressor,
        beta,
        sequence.covariance(each_row),
        _status(plan, groups, beta, untold),
        _residuals(robot, groups, beta),
        left_out=plan.left_out,
        untold=untold,
        provenance={
            "estimator": "step by step",
            "rule": settings.rule,
            "solution": settings.solution,
            "tests": plan.counts(),
            "motions": len(plan.motions),
            "yields": dict(zip((test.name for test in plan.tests), sequence.yields, strict=True)),
            "reading_noise": dict(zip((test.name for test in plan.tests), np.sqrt(variances).tolist(), strict=True)),
            "static_friction": {
                test.row: float(np.mean(group.friction))
                for test, group in zip(plan.tests, groups, strict=True)
                if group.friction
            },
        },
    )


def _residuals(robot: Robot, groups: Sequence[_Group], beta: Array) -> tuple[JointResidual, ...]:
    """Of mean torques, joint by joint; joints whose row no test uses are not among them."""
    found = []
    for joint, name in enumerate(robot.joint_names):
        own = [group for group in groups if group.row == joint]
        if own:
            z = np.concatenate([group.z for group in own])
            r = z - np.concatenate([group.A for group in own]) @ beta
            found.append(JointResidual(name, len(z), float(np.sqrt(np.mean(r**2))), float(np.sqrt(np.mean(z**2)))))
    return tuple(found)


def _status(plan: StepPlan, groups: Sequence[_Group], beta: Array, untold: tuple[str, ...]) -> str:
    squares = sum(float(np.sum((group.z - group.A @ beta) ** 2)) for group in groups)
    torques = sum(float(np.sum(group.z**2)) for group in groups)
    count = len(plan.names) - len(plan.left_out) - len(untold)
    told = (
        f"{len(plan.tests)} tests in {len(plan.motions)} motions tell {count} parameters and leave "
        f"{100 * np.sqrt(squares / max(torques, 1e-300)):.3g} % of the mean torques unexplained"
    )
    return f"{told}; they cannot tell: {', '.join(untold)}." if untold else f"{told}."
