"""`check_steps`: simulate every step-by-step test with the estimated values and compare it with the measurement.

The thesis examines the values of each test "by a small size simulation", so that a bad test is repeated before others
build on it [Yoshida 1996, section 3.6].

    accelerated        the joint whose row is used moves by the measured torque, the others move as measured:
                           dp/dt = tau - (Y_0 - Mdot) beta,   p = Y_p(q, qd) beta,  which is linear in qd
    static,            nothing accelerates, and no inertia is known yet: torques are compared
    constant velocity

Friction that depends on the direction acts as along the measured motion: its jumps cancel in the torque.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from mindyn.algebra.values import Array, RandomSource, ShortRepr, seed_from
from mindyn.equations.closed_motion import is_affine
from mindyn.equations.loop_closure import home_closure
from mindyn.errors import Code, InputError
from mindyn.estimators.estimate import Estimate
from mindyn.logs.log import Log
from mindyn.regression.integrated import IntegratedRegressor
from mindyn.robots.table import format_table
from mindyn.step_tests.estimator import StepByStep, TestRows, build_test_rows, noises_of
from mindyn.step_tests.plan import Sines, StepPlan, StepTest
from mindyn.step_tests.rows import find_held_motion

COVARIANCE_DRAWS: Final = 12
"""Number of draws from the covariance of the estimate, whose errors give the expected error."""
MAX_UNCERTAINTY_RATIO: Final = 3.0
"""Ratio of error to expected error above which a test is suspect, if the error is also relevant."""
MIN_RELATIVE_MISS: Final = 0.02
"""Smallest error of a suspect test relative to the measured motion or torque."""
START_STEP_RATIO: Final = 1e-4
"""Step of the start, relative to the size of a motion, for numerical derivatives."""
RUNAWAY_RATIO: Final = 100.0
"""Multiple of the largest position of a motion beyond which a simulated motion has diverged."""
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
        Rms of simulated minus measured, rad or m, N m or N; infinite if the simulated motion diverges.
    size : float
        Rms of the measurement; of positions about their mean.
    explained : float
        Rms that the uncertainty of the values and the noise of the readings explain.
    """

    test: str
    kind: str
    joint: str
    compared: Compared
    rms: float
    size: float
    explained: float

    @property
    def suspect(self) -> bool:
        """Return whether the error of the test exceeds what the uncertainty of the values explains."""
        return not self.rms <= max(MAX_UNCERTAINTY_RATIO * self.explained, MIN_RELATIVE_MISS * self.size)


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
    def suspect(self) -> tuple[StepCheck, ...]:
        """Return the tests to repeat, earliest first: later tests build on earlier ones."""
        return tuple(check for check in self.checks if check.suspect)

    @property
    def status(self) -> str:
        """Return the result in one sentence."""
        if not self.suspect:
            return f"{len(self.checks)} tests simulated with the estimated values agree with the measurements."
        first = self.suspect[0]
        rest = ", ".join(check.test for check in self.suspect[1:])
        tests = f"test {first.test}" + (f", nor {rest}" if rest else "")
        return f"the values do not reproduce {tests}: check the logs of {first.test} first, later tests use its result."

    def table(self) -> str:
        """Return the error of each test, its ratio to the measurement, and the expected error as a text table."""
        rows = [("test", "joint", "simulated", "rms", "relative [%]", "explained", "")]
        for check in self.checks:
            relative = 100 * check.rms / max(check.size, 1e-300)
            numbers = (f"{check.rms:.3g}", f"{relative:.3g}", f"{check.explained:.3g}")
            rows.append((check.test, check.joint, check.compared, *numbers, "suspect" if check.suspect else ""))
        return f"{format_table(rows)}\n\n{self.status}"

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the checks in types that JSON can store; the rms of a diverging motion is None."""
        return [
            {
                "test": check.test,
                "kind": check.kind,
                "joint": check.joint,
                "compared": check.compared,
                "rms": check.rms if np.isfinite(check.rms) else None,
                "measured_rms": check.size,
                "explained_rms": check.explained,
                "suspect": check.suspect,
            }
            for check in self.checks
        ]


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
    readings = [noise.reading for noise in noises_of(groups)]
    draws = _draws(estimate, np.random.default_rng(seed))
    runs = _find_motions(plan, logs)
    misses = _simulate_motions(
        integrated, runs, estimate.beta, draws, np.array([readings[run.test] for run in runs]), seed
    )
    return StepChecks(
        tuple(
            _check_torque(test, group, estimate.beta, draws, noise)
            if all(run.test != k for run in runs)
            else _check_motion(test, [(run, miss) for run, miss in zip(runs, misses, strict=True) if run.test == k])
            for k, (test, group, noise) in enumerate(zip(plan.tests, groups, readings, strict=True))
        )
    )


def _draws(estimate: Estimate, rng: np.random.Generator) -> Array:
    """Return errors (draws, p) of the values drawn from the covariance; unidentifiable parameters have none."""
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
    rms, size = (float(np.sqrt(np.mean(torque**2))) for torque in (missed, group.z))
    return StepCheck(test.name, test.kind, test.row, "torque", rms, size, float(explained))


@dataclass(frozen=True, slots=True, eq=False)
class _MeasuredMotion:
    """Measured accelerated motion, and the joint that is simulated.

    test, joint      numbers
    t (N,); q, qd (N, n); tau (N,) torque of the joint
    """

    test: int
    joint: int
    t: Array
    q: Array
    qd: Array
    tau: Array

    @property
    def size(self) -> float:
        return float(self.q[:, self.joint].std())


def _find_motions(plan: StepPlan, logs: Mapping[str, Log]) -> list[_MeasuredMotion]:
    """Return the motions whose row belongs to a joint that moves."""
    motions = []
    for k, test in enumerate(plan.tests):
        joint = plan.joints.index(test.row)
        for motion in test.motions:
            if isinstance(motion, Sines) and joint in motion.joints:
                q, qd, t, tau = find_held_motion(motion, logs[motion.name])
                motions.append(_MeasuredMotion(k, joint, t, q, qd, tau[:, joint]))
    return motions


def _simulate_motions(
    integrated: IntegratedRegressor, runs: Sequence[_MeasuredMotion], beta: Array, draws: Array, noise: Array, seed: int
) -> list[tuple[float, float]]:
    """Return the rms of simulated minus measured positions of every motion, and the rms to expect from the draws.

    Motions begin at the start that fits best: a start read from an encoder would dominate the error.
    """
    if not runs:
        return []
    batch = _Batch(integrated, runs)
    start = np.array([[run.q[0, run.joint], run.qd[0, run.joint]] for run in runs])
    steps = START_STEP_RATIO * np.array([[run.q[:, run.joint].std(), run.qd[:, run.joint].std()] for run in runs])
    for _ in range(2):
        plain, *moved = batch.missed([beta] * 3, [start, *(start + steps * unit for unit in np.eye(2))])
        slopes = [_slope(*misses) for misses in zip(plain, *moved, strict=True)]
        start = start - steps * np.array([_solve_start(slope, miss) for slope, miss in zip(slopes, plain, strict=True)])
    rng = np.random.default_rng([seed, 1])
    pushed = rng.normal(size=(len(draws) + 1, len(batch.t), len(runs))) * noise
    pushed[0] = 0.0
    final, *drawn = batch.missed([beta, *(beta + draws)], [start] * len(pushed), pushed)
    squares = [
        np.mean([np.mean(_remove_start_error(slope, moved[k] - base) ** 2) for moved in drawn])
        for k, (slope, base) in enumerate(zip(slopes, final, strict=True))
    ]
    return [(_rms(miss), float(np.sqrt(square))) for miss, square in zip(final, squares, strict=True)]


def _slope(plain: Array, *moved: Array) -> Array:
    """Return the change (N, 2) of the error with a start moved by one step; zero if a motion diverged."""
    slope = np.column_stack(moved) - plain[:, None]
    return slope if np.isfinite(slope).all() else np.zeros_like(slope)


def _solve_start(slope: Array, missed: Array) -> Array:
    return np.asarray(np.linalg.lstsq(slope, np.nan_to_num(missed), rcond=None)[0])


def _remove_start_error(slope: Array, missed: Array) -> Array:
    """Return the error that no other start explains; zero for a motion that diverged."""
    return np.nan_to_num(missed) - slope @ _solve_start(slope, missed)


def _rms(missed: Array) -> float:
    return float(np.sqrt(np.mean(missed**2))) if np.isfinite(missed).all() else float("inf")


def _check_motion(test: StepTest, motions: Sequence[tuple[_MeasuredMotion, tuple[float, float]]]) -> StepCheck:
    rms, explained, size = (
        float(np.sqrt(np.mean(np.square(values))))
        for values in zip(*((*miss, run.size) for run, miss in motions), strict=True)
    )
    return StepCheck(test.name, test.kind, test.row, "position", rms, size, explained)


class _Batch:
    """All motions together, integrated over the rows of their logs by Heun's method, for several sets of values."""

    def __init__(self, integrated: IntegratedRegressor, runs: Sequence[_MeasuredMotion]) -> None:
        self.integrated, self.runs = integrated, runs
        self.joints = np.array([run.joint for run in runs])
        longest = max(len(run.t) for run in runs)
        self.turning = np.array([parameter.depends_on_direction for parameter in integrated.torque.parameters])

        def stack_padded(values: Sequence[Array]) -> Array:
            """Stack values as (longest, runs, ...); short runs stay at their last row."""
            return np.stack([rows[np.minimum(np.arange(longest), len(rows) - 1)] for rows in values], axis=1)

        self.t, self.q = stack_padded([run.t for run in runs]), stack_padded([run.q for run in runs])
        self.qd, self.tau = stack_padded([run.qd for run in runs]), stack_padded([run.tau for run in runs])
        n, robot = self.q.shape[2], integrated.torque.robot
        self.closure = home_closure(robot) if robot.loops and not is_affine(robot) else None
        self.positions = self.q if self.closure is None else stack_padded([self.closure.along(run.q) for run in runs])
        positions = self.positions.reshape(-1, self.positions.shape[2])
        drift = self.drift(positions, self.qd.reshape(-1, n), np.tile(self.joints, longest))
        self.along = drift[:, self.turning].reshape(longest, len(runs), -1)

    def missed(self, beta: Sequence[Array], start: Sequence[Array], pushed: Array | None = None) -> list[list[Array]]:
        """Return simulated minus measured positions of every motion for each of m sets of values; NaN after divergence.

        beta    m times (p,)
        start   m times (runs, 2) position and speed
        pushed  (m, rows, runs) torque added to the measured one
        """
        values = np.repeat(np.array(beta), len(self.runs), axis=0)
        joints = np.tile(self.joints, len(beta))
        tau = self.tau - np.einsum("krp,mp->mkr", self.along, np.array(beta)[:, self.turning])
        tau = np.concatenate(list(tau if pushed is None else tau + pushed), axis=1)
        motion = _SimulatedJoints(self, np.where(self.turning, 0.0, values), joints, len(beta))
        t, (q, speed) = np.tile(self.t, len(beta)), np.concatenate(start).T
        positions = np.zeros(tau.shape)
        positions[0] = q
        p = motion.momentum(0, q, speed)
        force = tau[0] - motion.smooth_torque(0, q, speed)
        for k in range(1, len(tau)):
            h = t[k] - t[k - 1]
            predicted = q + h * speed
            predicted_speed = motion.speed(k, predicted, p + h * force)
            after = tau[k] - motion.smooth_torque(k, predicted, predicted_speed)
            q, p = q + h * (speed + predicted_speed) / 2, p + h * (force + after) / 2
            speed = motion.speed(k, q, p)
            force = tau[k] - motion.smooth_torque(k, q, speed)
            positions[k] = np.where(motion.lost, np.nan, q)
        runs = range(len(self.runs))
        errors = (positions - np.tile(self.q[:, runs, self.joints], len(beta))).reshape(len(tau), len(beta), -1)
        return [[errors[: len(self.runs[k].t), m, k] for k in runs] for m in range(len(beta))]

    def drift(self, q: Array, qd: Array, joints: Array) -> Array:
        """Return the row (N, p) of the simulated joint of Y_0 - Mdot."""
        drift = self.integrated.drift
        directions = drift.directions(q, qd, np.zeros(len(qd), dtype=np.int64), 1.0)
        parts = drift.parts(q, qd, np.zeros_like(qd), directions)
        return np.asarray(drift.dense(parts)[np.arange(len(q)), joints])


class _SimulatedJoints:
    """Equation of motion of the simulated joints; `lost` marks those that diverged or lack inertia."""

    def __init__(self, batch: _Batch, beta: Array, joints: Array, copies: int) -> None:
        self.batch, self.beta, self.joints, self.copies = batch, beta, joints, copies
        self.each = np.arange(len(joints))
        self.lost = np.zeros(len(joints), dtype=np.bool_)
        self.last = np.tile(batch.positions[0], (copies, 1))
        self.far = RUNAWAY_RATIO * np.tile([max(run.size, float(np.abs(run.q).max())) for run in batch.runs], copies)

    def state(self, k: int, q: Array, speed: Array | float) -> tuple[Array, Array]:
        """Return positions and speeds (N, n) at a row, with those of the simulated joint in place of the measured ones.

        If loops must be solved, the positions of all joints follow from those of the previous call.
        """
        self.lost |= ~(np.abs(q) < self.far)
        positions, speeds = (np.tile(rows[k], (self.copies, 1)) for rows in (self.batch.q, self.batch.qd))
        valid = self.each[~self.lost]
        positions[valid, self.joints[valid]] = q[valid]
        speeds[valid, self.joints[valid]] = np.broadcast_to(speed, q.shape)[valid]
        closure = self.batch.closure
        if closure is None:
            return positions, speeds
        closed, reached = closure.newton.walk(self.last, positions)
        self.lost |= ~reached
        self.last = np.where(
            reached[:, None], closure.mimics.fill(closed), np.tile(self.batch.positions[k], (self.copies, 1))
        )
        return self.last, speeds

    def momentum(self, k: int, q: Array, speed: Array | float) -> Array:
        columns = self.batch.integrated.momentum(*self.state(k, q, speed))[self.each, self.joints]
        return np.asarray(np.einsum("rp,rp->r", columns, self.beta[:, : columns.shape[1]]))

    def speed(self, k: int, q: Array, p: Array) -> Array:
        """Return the speed at a momentum, which is linear in it."""
        positions, speeds = self.state(k, q, 0.0)
        faster = speeds.copy()
        faster[self.each, self.joints] = 1.0
        columns = self.batch.integrated.momentum(np.tile(positions, (2, 1)), np.concatenate([speeds, faster]))
        rows = columns[np.arange(len(columns)), np.tile(self.joints, 2)]
        at_rest, unit = np.einsum("crp,rp->cr", rows.reshape(2, len(q), -1), self.beta[:, : rows.shape[1]])
        inertia = unit - at_rest
        self.lost |= ~(inertia > 0)
        return np.where(self.lost, 0.0, (p - at_rest) / np.where(self.lost, 1.0, inertia))

    def smooth_torque(self, k: int, q: Array, speed: Array) -> Array:
        """Return the torque of all smooth terms without acceleration."""
        drift = self.batch.drift(*self.state(k, q, speed), self.joints)
        return np.asarray(np.einsum("rp,rp->r", drift, self.beta))
