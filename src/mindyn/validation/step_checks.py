"""`check_steps`: every step-by-step test repeated in simulation with the values found, beside what was measured.

The thesis examines the values that come of each test "by a small size simulation", so that a bad test is made again
before others build on it [Yoshida 1996, section 3.6].

    accelerated        the joint whose row is used moves by the measured torque, the others as they were measured:
                           dp/dt = tau - (Y_0 - Mdot) beta,   p = Y_p(q, qd) beta,  which is linear in qd
    static,            nothing accelerates, and no inertia is known yet: the torque that the values ask for
    constant velocity

Friction that turns over with the direction acts as along the measured motion: its jumps cancel in the torque.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.closed_motion import is_affine
from mindyn.equations.loop_closure import home_closure
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.step_by_step import StepByStep
from mindyn.estimators.step_noise import TestRows, noises_of
from mindyn.estimators.step_rows import RowMaker, find_held_motion
from mindyn.excitation.step_motions import Sines
from mindyn.excitation.step_plan import StepPlan, StepTest
from mindyn.logs.log import Log
from mindyn.regression.integrated import IntegratedRegressor
from mindyn.robots.table import format_table

COVARIANCE_DRAWS: Final = 12
"""Sets of values drawn from the estimate's covariance: their misses are what uncertainty explains."""
MAX_UNCERTAINTY_RATIO: Final = 3.0
"""Times what uncertainty explains from which a test is doubted, where it is a notable part of the motion too."""
MIN_RELATIVE_MISS: Final = 0.02
"""Part of the measured motion or torque that a miss is at least before a test is doubted."""
START_STEP_RATIO: Final = 1e-4
"""Part of a motion's size by which its start is moved to see how the end depends on it."""
RUNAWAY_RATIO: Final = 100.0
"""Times the farthest position of a motion from which a simulated one counts as run away."""
Compared = Literal["position", "torque"]


@dataclass(frozen=True, slots=True)
class StepCheck:
    """One test simulated with the values found.

    joint     whose row the test uses
    compared  what is compared, of that joint
    rms       simulated less measured: rad or m, N m or N; infinite where the simulated motion runs away
    size      rms of what was measured, of positions about their mean
    explained rms that the uncertainty of the values and the noise of the readings explain
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
        """Whether the values miss the test by more than their uncertainty explains."""
        return not self.rms <= max(MAX_UNCERTAINTY_RATIO * self.explained, MIN_RELATIVE_MISS * self.size)


@dataclass(frozen=True, slots=True)
class StepChecks:
    """All tests of a plan, in its order."""

    checks: tuple[StepCheck, ...]

    @property
    def suspect(self) -> tuple[StepCheck, ...]:
        """Tests to be made again: the first of them first, since later ones build on it."""
        return tuple(one for one in self.checks if one.suspect)

    @property
    def status(self) -> str:
        """The result in a sentence."""
        if not self.suspect:
            return f"{len(self.checks)} tests simulated with the values found agree with what was measured."
        first = self.suspect[0]
        rest = ", ".join(one.test for one in self.suspect[1:])
        told = f"the values do not repeat test {first.test}" + (f", nor {rest}" if rest else "")
        return f"{told}: look at the logs of {first.test} first, later tests use what it yields."

    def table(self) -> str:
        """Test by test: simulated less measured, as part of what was measured, and what uncertainty explains of it."""
        rows = [("test", "joint", "simulated", "rms", "of it [%]", "explained", "")]
        for one in self.checks:
            share = 100 * one.rms / max(one.size, 1e-300)
            numbers = (f"{one.rms:.3g}", f"{share:.3g}", f"{one.explained:.3g}")
            rows.append((one.test, one.joint, one.compared, *numbers, "suspect" if one.suspect else ""))
        return f"{format_table(rows)}\n\n{self.status}"

    def to_dict(self) -> list[dict[str, Any]]:
        """As JSON can hold it; a motion that runs away has no rms."""
        return [
            {
                "test": one.test,
                "kind": one.kind,
                "joint": one.joint,
                "compared": one.compared,
                "rms": one.rms if np.isfinite(one.rms) else None,
                "measured_rms": one.size,
                "explained_rms": one.explained,
                "suspect": one.suspect,
            }
            for one in self.checks
        ]


def check_steps(
    estimate: Estimate,
    plan: StepPlan,
    logs: Mapping[str, Log],
    *,
    settings: StepByStep | None = None,
    seed: int = 0,
) -> StepChecks:
    """Every test of the plan simulated with the estimate's values.

    logs      of every motion by its name: those that the values come of, or better of the same tests made once more
    settings  of the fit, for its rule of integrals and checks of logs; None: the usual ones
    seed      of the draws from the estimate's covariance
    """
    chosen = StepByStep() if settings is None else settings
    integrated = chosen.integrated(estimate.robot, plan)
    if estimate.names != integrated.torque.names:
        raise InputError(
            f"the estimate has other parameters than the plan: {', '.join(estimate.names[:5])}, ...",
            hint="check an estimate of StepByStep().fit(robot, plan, logs)",
        )
    chosen.checks.require_all(plan, logs)
    maker = RowMaker(integrated, chosen.rule, plan.intervals, chosen.slack)
    groups = [TestRows.of(maker, test, logs) for test in plan.tests]
    readings = [noise.reading for noise in noises_of(groups)]
    draws = _draws(estimate, np.random.default_rng(seed))
    runs = _find_motions(plan, logs)
    missed = _simulate_motions(
        integrated, runs, estimate.beta, draws, np.array([readings[run.test] for run in runs]), seed
    )
    return StepChecks(
        tuple(
            _check_torque(test, group, estimate.beta, draws, noise)
            if all(run.test != k for run in runs)
            else _check_motion(test, [(run, one) for run, one in zip(runs, missed, strict=True) if run.test == k])
            for k, (test, group, noise) in enumerate(zip(plan.tests, groups, readings, strict=True))
        )
    )


def _draws(estimate: Estimate, rng: np.random.Generator) -> Array:
    """(DRAWS, p) errors of the values; what the tests cannot tell takes no part in them, and has none."""
    told = np.isfinite(np.diag(estimate.covariance))
    covariance = np.where(np.outer(told, told), np.nan_to_num(estimate.covariance, posinf=0.0, neginf=0.0), 0.0)
    w, V = np.linalg.eigh(covariance)
    return np.asarray(rng.normal(size=(COVARIANCE_DRAWS, len(w))) * np.sqrt(np.maximum(w, 0.0)) @ V.T)


def _check_torque(test: StepTest, group: TestRows, beta: Array, draws: Array, reading: float) -> StepCheck:
    """Mean torques that the values ask for, beside the measured ones."""
    missed, spread = group.z - group.A @ beta, draws @ group.A.T
    # Rows are means of readings; whitening multiplies them by what makes their noise that of one reading.
    noise = reading * np.linalg.norm(group.z) / max(float(np.linalg.norm(group.white_z)), 1e-300)
    explained = np.sqrt(np.mean(spread**2) + noise**2)
    rms, size = (float(np.sqrt(np.mean(one**2))) for one in (missed, group.z))
    return StepCheck(test.name, test.kind, test.row, "torque", rms, size, float(explained))


@dataclass(frozen=True, slots=True, eq=False)
class _MeasuredMotion:
    """An accelerated motion as it was measured, and the joint that is simulated.

    test, joint      numbers
    t (N,); q, qd (N, n); tau (N,) the joint's torque
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
    """Of motions whose row is that of a joint that moves."""
    made = []
    for k, test in enumerate(plan.tests):
        joint = plan.joints.index(test.row)
        for motion in test.motions:
            if isinstance(motion, Sines) and joint in motion.joints:
                q, qd, t, tau = find_held_motion(motion, logs[motion.name])
                made.append(_MeasuredMotion(k, joint, t, q, qd, tau[:, joint]))
    return made


@dataclass(frozen=True, slots=True, eq=False)
class _PositionMiss:
    """rms of simulated less measured positions with the values, and with those drawn about them."""

    rms: float
    explained: float


def _simulate_motions(
    integrated: IntegratedRegressor, runs: Sequence[_MeasuredMotion], beta: Array, draws: Array, noise: Array, seed: int
) -> list[_PositionMiss]:
    """Every run from the start that fits best: a start read off an encoder would be the greatest error of all."""
    if not runs:
        return []
    batch = _Batch(integrated, runs)
    start = np.array([[run.q[0, run.joint], run.qd[0, run.joint]] for run in runs])
    steps = START_STEP_RATIO * np.array([[run.q[:, run.joint].std(), run.qd[:, run.joint].std()] for run in runs])
    for _ in range(2):
        plain, *moved = batch.missed([beta] * 3, [start, *(start + steps * one for one in np.eye(2))])
        slopes = [_slope(*one) for one in zip(plain, *moved, strict=True)]
        start = start - steps * np.array([_solve_start(*one) for one in zip(slopes, plain, strict=True)])
    rng = np.random.default_rng([seed, 1])
    pushed = rng.normal(size=(len(draws) + 1, len(batch.t), len(runs))) * noise
    pushed[0] = 0.0
    final, *drawn = batch.missed([beta, *(beta + draws)], [start] * len(pushed), pushed)
    squares = [
        np.mean([np.mean(_remove_start_error(slope, moved[k] - base) ** 2) for moved in drawn])
        for k, (slope, base) in enumerate(zip(slopes, final, strict=True))
    ]
    return [_PositionMiss(_rms(one), float(np.sqrt(square))) for one, square in zip(final, squares, strict=True)]


def _slope(plain: Array, *moved: Array) -> Array:
    """(N, 2) how the miss changes with a start moved by one step; zero where a motion ran away."""
    made = np.column_stack(moved) - plain[:, None]
    return made if np.isfinite(made).all() else np.zeros_like(made)


def _solve_start(slope: Array, missed: Array) -> Array:
    return np.asarray(np.linalg.lstsq(slope, np.nan_to_num(missed), rcond=None)[0])


def _remove_start_error(slope: Array, missed: Array) -> Array:
    """What no other start makes up for; nothing of a motion that ran away, which explains nothing."""
    return np.nan_to_num(missed) - slope @ _solve_start(slope, missed)


def _rms(missed: Array) -> float:
    return float(np.sqrt(np.mean(missed**2))) if np.isfinite(missed).all() else float("inf")


def _check_motion(test: StepTest, found: Sequence[tuple[_MeasuredMotion, _PositionMiss]]) -> StepCheck:
    rms, explained, size = (
        float(np.sqrt(np.mean(np.square(values))))
        for values in zip(*((one.rms, one.explained, run.size) for run, one in found), strict=True)
    )
    return StepCheck(test.name, test.kind, test.row, "position", rms, size, explained)


class _Batch:
    """All runs side by side, row by row of their logs, by Heun's rule; with several sets of values at once."""

    def __init__(self, integrated: IntegratedRegressor, runs: Sequence[_MeasuredMotion]) -> None:
        self.integrated, self.runs = integrated, runs
        self.joints = np.array([run.joint for run in runs])
        longest = max(len(run.t) for run in runs)
        self.turning = np.array([one.depends_on_direction for one in integrated.torque.parameters])

        def padded(values: Sequence[Array]) -> Array:
            """(longest, runs, ...): short runs stay at their last row."""
            return np.stack([one[np.minimum(np.arange(longest), len(one) - 1)] for one in values], axis=1)

        self.t, self.q = padded([run.t for run in runs]), padded([run.q for run in runs])
        self.qd, self.tau = padded([run.qd for run in runs]), padded([run.tau for run in runs])
        n, robot = self.q.shape[2], integrated.torque.robot
        self.closure = home_closure(robot) if robot.loops and not is_affine(robot) else None
        self.all_samples = self.q if self.closure is None else padded([self.closure.along(run.q) for run in runs])
        positions = self.all_samples.reshape(-1, self.all_samples.shape[2])
        drift = self.drift(positions, self.qd.reshape(-1, n), np.tile(self.joints, longest))
        self.along = drift[:, self.turning].reshape(longest, len(runs), -1)

    def missed(self, beta: Sequence[Array], start: Sequence[Array], pushed: Array | None = None) -> list[list[Array]]:
        """Simulated less measured positions of every run, for each of m sets of values; NaN from where one runs away.

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
        found = np.zeros(tau.shape)
        found[0] = q
        p = motion.momentum(0, q, speed)
        force = tau[0] - motion.smooth_torque(0, q, speed)
        for k in range(1, len(tau)):
            h = t[k] - t[k - 1]
            ahead = q + h * speed
            faster = motion.speed(k, ahead, p + h * force)
            after = tau[k] - motion.smooth_torque(k, ahead, faster)
            q, p = q + h * (speed + faster) / 2, p + h * (force + after) / 2
            speed = motion.speed(k, q, p)
            force = tau[k] - motion.smooth_torque(k, q, speed)
            found[k] = np.where(motion.lost, np.nan, q)
        runs = range(len(self.runs))
        gone = (found - np.tile(self.q[:, runs, self.joints], len(beta))).reshape(len(tau), len(beta), -1)
        return [[gone[: len(self.runs[k].t), m, k] for k in runs] for m in range(len(beta))]

    def drift(self, q: Array, qd: Array, joints: Array) -> Array:
        """(N, p) each row's own joint of Y_0 - Mdot."""
        drift = self.integrated.drift
        directions = drift.directions(q, qd, np.zeros(len(qd), dtype=np.int64), 1.0)
        parts = drift.parts(q, qd, np.zeros_like(qd), directions)
        return np.asarray(drift.dense(parts)[np.arange(len(q)), joints])


class _SimulatedJoints:
    """The equation of the simulated joints with given values; `lost`: those without inertia, or far away."""

    def __init__(self, batch: _Batch, beta: Array, joints: Array, copies: int) -> None:
        self.batch, self.beta, self.joints, self.copies = batch, beta, joints, copies
        self.each = np.arange(len(joints))
        self.lost = np.zeros(len(joints), dtype=np.bool_)
        self.last = np.tile(batch.all_samples[0], (copies, 1))
        self.far = RUNAWAY_RATIO * np.tile([max(run.size, float(np.abs(run.q).max())) for run in batch.runs], copies)

    def state(self, k: int, q: Array, speed: Array | float) -> tuple[Array, Array]:
        """Positions and speeds (N, n) at a row, the simulated joint's own in place of the measured ones.

        Positions of all joints where loops are solved for, each from where it was before.
        """
        self.lost |= ~(np.abs(q) < self.far)
        made, moving = (np.tile(one[k], (self.copies, 1)) for one in (self.batch.q, self.batch.qd))
        own = self.each[~self.lost]
        made[own, self.joints[own]] = q[own]
        moving[own, self.joints[own]] = np.broadcast_to(speed, q.shape)[own]
        closure = self.batch.closure
        if closure is None:
            return made, moving
        found, reached = closure.newton.walk(self.last, made)
        self.lost |= ~reached
        self.last = np.where(
            reached[:, None], closure.mimics.fill(found), np.tile(self.batch.all_samples[k], (self.copies, 1))
        )
        return self.last, moving

    def momentum(self, k: int, q: Array, speed: Array | float) -> Array:
        columns = self.batch.integrated.momentum(*self.state(k, q, speed))[self.each, self.joints]
        return np.asarray(np.einsum("rp,rp->r", columns, self.beta[:, : columns.shape[1]]))

    def speed(self, k: int, q: Array, p: Array) -> Array:
        """At a momentum, which is linear in it."""
        made, moving = self.state(k, q, 0.0)
        faster = moving.copy()
        faster[self.each, self.joints] = 1.0
        columns = self.batch.integrated.momentum(np.tile(made, (2, 1)), np.concatenate([moving, faster]))
        own = columns[np.arange(len(columns)), np.tile(self.joints, 2)]
        still, unit = np.einsum("crp,rp->cr", own.reshape(2, len(q), -1), self.beta[:, : own.shape[1]])
        inertia = unit - still
        self.lost |= ~(inertia > 0)
        return np.where(self.lost, 0.0, (p - still) / np.where(self.lost, 1.0, inertia))

    def smooth_torque(self, k: int, q: Array, speed: Array) -> Array:
        """Torque of all that is smooth, at no acceleration."""
        drift = self.batch.drift(*self.state(k, q, speed), self.joints)
        return np.asarray(np.einsum("rp,rp->r", drift, self.beta))
