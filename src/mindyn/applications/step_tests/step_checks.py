"""`check_steps`: simulate every step-by-step test with the estimated values and compare it with the measurement.

The thesis examines the values of each test "by a small size simulation", so that a bad test is repeated before others
build on it [Yoshida 1996, section 3.6].

    accelerated        the joint whose row is used is moved by the measured torque:
                           dp/dt = tau - (Y_0 - Mdot) beta,   p = Y_p(q, qd) beta,  which is linear in qd
                       with gravity, velocity torques and friction along the measured motion
    static,            nothing accelerates, and no inertia is known yet: torques are compared
    constant velocity
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from mindyn.applications.step_tests.step_by_step import StepByStep, build_test_rows
from mindyn.applications.step_tests.step_rows import HeldMotion, find_held_motion, joint_row
from mindyn.applications.step_tests.whitened_rows import TestRows, noises_of
from mindyn.foundation.algebra.values import Array, RandomSource, ShortRepr, seed_from
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.json_values import to_json_value
from mindyn.identification.estimators.estimate import Estimate
from mindyn.logs.log import Log
from mindyn.motions.step_plans.plan import StepPlan, StepTest
from mindyn.motions.step_plans.step_motions import Sines
from mindyn.regression.integrated import IntegratedRegressor
from mindyn.robots.table import format_table

COVARIANCE_DRAWS: Final = 12
"""Number of draws from the covariance of the estimate, whose errors give the expected error."""
MAX_UNCERTAINTY_RATIO: Final = 3.0
"""Ratio of error to expected error above which a test is suspect, unless the error is negligible."""
MIN_RELATIVE_MISS: Final = 0.02
"""Smallest error of a suspect test relative to the measured motion or torque."""
Compared = Literal["position", "torque"]


@dataclass(frozen=True, slots=True)
class StepCheck:
    """Simulation of one test with the estimated values.

    Attributes
    ----------
    test, kind : str
    joint : str
        Joint whose row the test uses.
    compared : {"position", "torque"}
        Compared quantity of that joint.
    rms : float
        Rms of simulated minus measured, rad or m, N m or N; infinite if the values have no positive inertia.
    measured_rms : float
        Rms of the measurement; of positions about their mean.
    explained_rms : float
        Rms that the uncertainty of the values and the noise of the readings explain.
    """

    test: str
    kind: str
    joint: str
    compared: Compared
    rms: float
    measured_rms: float
    explained_rms: float

    @property
    def is_suspect(self) -> bool:
        """Return whether the error of the test exceeds what the uncertainty of the values explains."""
        return not self.rms <= max(MAX_UNCERTAINTY_RATIO * self.explained_rms, MIN_RELATIVE_MISS * self.measured_rms)


@dataclass(frozen=True, slots=True, repr=False)
class StepChecks(ShortRepr):
    """Simulations of all tests of a plan, in its order.

    Attributes
    ----------
    checks : tuple of StepCheck
        One check for each test.
    """

    checks: tuple[StepCheck, ...]

    @property
    def suspect_tests(self) -> tuple[StepCheck, ...]:
        """Return the tests to repeat, earliest first: later tests build on earlier ones."""
        return tuple(check for check in self.checks if check.is_suspect)

    @property
    def status(self) -> str:
        """Return the result in one sentence."""
        if not self.suspect_tests:
            return f"{len(self.checks)} tests simulated with the estimated values agree with the measurements."
        first = self.suspect_tests[0]
        rest = ", ".join(check.test for check in self.suspect_tests[1:])
        tests = f"test {first.test}" + (f", nor {rest}" if rest else "")
        return f"the values do not reproduce {tests}: check the logs of {first.test} first, later tests use its result."

    def table(self) -> str:
        """Return the error of each test, its ratio to the measurement, and the expected error as a text table."""
        rows = [("test", "joint", "simulated", "rms", "relative [%]", "explained", "")]
        for check in self.checks:
            relative = 100 * check.rms / max(check.measured_rms, 1e-300)
            numbers = (f"{check.rms:.3g}", f"{relative:.3g}", f"{check.explained_rms:.3g}")
            rows.append((check.test, check.joint, check.compared, *numbers, "suspect" if check.is_suspect else ""))
        return f"{format_table(rows)}\n\n{self.status}"

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the checks in types that JSON can store; an infinite rms is None."""
        return [to_json_value({**asdict(check), "suspect": check.is_suspect}) for check in self.checks]


def check_steps(
    estimate: Estimate,
    plan: StepPlan,
    logs: Mapping[str, Log],
    *,
    settings: StepByStep | None = None,
    rng: RandomSource = 0,
) -> StepChecks:
    """Simulate every test of a plan with the values of an estimate.

    Parameters
    ----------
    estimate : Estimate
        Estimate to use.
    plan : StepPlan
        Plan of the tests.
    logs : Mapping of str to Log
        Log of every motion by its name: those of the fit, or better repetitions of the same tests.
    settings : StepByStep, optional
        Settings of the fit, for its integration rule and checks of logs.
    rng : int, numpy.random.Generator or None, default 0
        Seed or generator of the draws from the covariance of the estimate; None draws others in every call.

    Returns
    -------
    StepChecks
        One check for every test, in the order of the plan.

    Raises
    ------
    InputError
        If the estimate has other parameters than the plan, or a log is missing.
    """
    seed = seed_from(rng)
    steps = StepByStep() if settings is None else settings
    integrated = steps.integrated(estimate.robot, plan)
    if estimate.names != integrated.torque.names:
        raise InputError(
            f"the estimate has other parameters than the plan: {', '.join(estimate.names[:5])}, ...",
            hint="use an estimate of StepByStep().fit(robot, plan, logs)",
            code=Code.DISAGREEMENT,
            subject="estimate",
        )
    groups = build_test_rows(steps, integrated, plan, logs)
    rng = np.random.default_rng(seed)
    draws = _draw_errors(estimate, rng)
    checks = []
    for test, group, noise in zip(plan.tests, groups, noises_of(groups), strict=True):
        joint = plan.joints.index(test.row)
        runs = [
            find_held_motion(motion, logs[motion.name])
            for motion in test.motions
            if isinstance(motion, Sines) and joint in motion.joints
        ]
        if runs:
            missed = [
                _missed_positions(integrated, run, joint, estimate.beta, draws, noise.reading, rng) for run in runs
            ]
            sizes = [float(run[0][:, joint].std()) for run in runs]
            rms, explained, size = (_rms(values) for values in (*zip(*missed, strict=True), sizes))
            checks.append(StepCheck(test.name, test.kind, test.row, "position", rms, size, explained))
        else:
            checks.append(_check_torque(test, group, estimate.beta, draws, noise.reading))
    return StepChecks(tuple(checks))


def _draw_errors(estimate: Estimate, rng: np.random.Generator) -> Array:
    """Draw errors (draws, p) of the values from their covariance; those of unidentifiable parameters are zero."""
    known = np.isfinite(np.diag(estimate.covariance))
    covariance = np.where(np.outer(known, known), np.nan_to_num(estimate.covariance, posinf=0.0, neginf=0.0), 0.0)
    w, V = np.linalg.eigh(covariance)
    return np.asarray(rng.normal(size=(COVARIANCE_DRAWS, len(w))) * np.sqrt(np.maximum(w, 0.0)) @ V.T)


def _check_torque(test: StepTest, group: TestRows, beta: Array, draws: Array, reading: float) -> StepCheck:
    """Compare the mean torques of the values with the measured ones."""
    missed, spread = group.z - group.A @ beta, draws @ group.A.T
    # Rows are means of readings; whitening scales them to the noise of one reading.
    noise = reading * np.linalg.norm(group.z) / max(float(np.linalg.norm(group.white_z)), 1e-300)
    explained = np.sqrt(np.mean(spread**2) + noise**2)
    return StepCheck(test.name, test.kind, test.row, "torque", _rms(missed), _rms(group.z), float(explained))


def _rms(values: ArrayLike) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _missed_positions(
    integrated: IntegratedRegressor,
    run: HeldMotion,
    joint: int,
    beta: Array,
    draws: Array,
    reading: float,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Return the rms of simulated minus measured positions of a joint, and the rms to expect from draws and noise.

    The motion begins at the position and momentum that fit best: a start read from an encoder would dominate the error.
    """
    from scipy.integrate import cumulative_trapezoid

    q, qd, t, tau = run
    steps = np.diff(t)
    resting, moving = qd.copy(), qd.copy()
    resting[:, joint], moving[:, joint] = 0.0, 1.0
    still, unit = (integrated.momentum(q, speeds)[:, joint] for speeds in (resting, moving))
    drift = joint_row(integrated.drift, q, qd, joint)

    def missed(values: Array, pushed: Array | float) -> Array:
        """Return simulated minus measured positions (N,); infinite without a positive inertia."""
        inertia, at_rest = (rows @ values[: rows.shape[1]] for rows in (unit - still, still))
        if not (inertia > 0).all():
            return np.full(len(t), np.inf)
        force = tau[:, joint] + pushed - drift @ values
        p = cumulative_trapezoid(force, t, initial=0.0)
        ahead = (p[:-1] + steps * force[:-1] - at_rest[1:]) / inertia[1:]  # Heun's method: predicted speeds
        speed = (p - at_rest) / inertia
        position = np.cumsum([0.0, *(steps * (speed[:-1] + ahead) / 2)])
        starts = np.column_stack([np.ones_like(t), cumulative_trapezoid(1 / inertia, t, initial=0.0)])
        error = position - q[:, joint]
        return np.asarray(error - starts @ np.linalg.lstsq(starts, error, rcond=None)[0])

    plain = missed(beta, 0.0)
    if not np.isfinite(plain).all():
        return np.inf, 0.0
    changes = [missed(beta + draw, reading * rng.normal(size=len(t))) - plain for draw in draws]
    return _rms(plain), _rms([change for change in changes if np.isfinite(change).all()] or [0.0])
