"""`plan_tests`: Yoshida's static, constant-velocity and accelerated tests for any robot, in its primary joints.

Static tests go from the last joint to the first and determine the gravity parameters. Constant-velocity tests, again
from the last joint, determine friction. Accelerated tests determine inertias, joint by joint from the last: first the
joint moves alone (without loops, its velocity torques vanish in its own row), at the fewest held positions that
determine all that such motions can determine. Then it moves together with one later joint, whose row is used. Every
further held position needs a further motion, so two-joint tests vary none while some test without variation adds
information [Yoshida 1996, section 3.4]. If a two-joint test would determine a parameter only weakly, the planner tries
later tests first: for Yoshida's PUMA, joints 4 and 5 separate h5 from J5z through a motor coupling of 1 : 73, joints 3
and 5 through all of J5z.

The information of a test is the rank of its rows outside the combinations that are already known
(`IdentifiableSubspace`).

`JointReach`: range and speed of every joint, from the limits of a robot, given ranges and defaults.

Drafts of step-by-step tests: their motions for a held configuration, and the regressor rows of these motions.

`simulate_tests`: the logs that a robot with known parameters gives in the motions of a plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, product
from typing import Final, NamedTuple

import numpy as np

from mindyn.equations.closed_motion import is_affine
from mindyn.foundation.algebra.requirements import require_number, require_positive
from mindyn.foundation.algebra.values import Array, RandomSource, seed_from
from mindyn.foundation.errors import Code, InputError, unknown_name_error
from mindyn.kernels.model import Model, compile_model
from mindyn.logs.log import Log, log_from_arrays
from mindyn.motions.excitation.constraints import require_closing
from mindyn.motions.simulation.results import Simulation
from mindyn.motions.simulation.sensors import Sensors, measure
from mindyn.motions.step_plans.plan import (
    BREAKAWAY_S,
    NEW,
    Breakaways,
    ConstantSpeed,
    IdentifiableSubspace,
    Sines,
    StepMotion,
    StepPlan,
    StepTest,
    Trajectory,
)
from mindyn.parameters.base import BaseParameters
from mindyn.parameters.parameter import standard_parameters
from mindyn.regression.regressor import Regressor
from mindyn.robots.parts import position_range
from mindyn.robots.robot import Robot

DEFAULT_RANGE: Final = {"revolute": (-np.pi, np.pi), "prismatic": (-0.3, 0.3)}
"""rad or m: range of joints without limits."""
DEFAULT_SPEED: Final = {"revolute": 3.0, "prismatic": 0.5}
"""rad/s or m/s: highest speed of a test within the limits."""
USED_SHARE: Final = 0.8
"""Fraction of a speed or acceleration limit that tests use."""
VALUES: Final = 3
"""Positions of a held joint that is varied, and of a joint whose breakaway is measured."""
LOWER_SPEED: Final = 1 / 3
"""The lower of the two constant speeds, relative to the higher one."""
STEADY: Final = 0.5
"""Length of a motion at constant speed, relative to an accelerated one."""
AVERAGED_PARTS: Final = 8
"""Parts of a motion at constant speed over each of which the torque is averaged."""
CYCLES: Final = (1.93, 0.46)
"""Cycles of the first and of the second joint of an accelerated motion. The second one, whose row is used, sweeps far,
which separates functions of its position from constants. The numbers are not whole: if a reversal falls on a row of the
log, the noise of the velocity decides the direction of friction."""
ROWS_AN_INTERVAL: Final = 8
"""Rows of a draft per interval."""


@dataclass(frozen=True, slots=True, eq=False)
class JointReach:
    """Limits of primary joints: lower, upper (n,) rad or m; speed, acceleration (n,), infinite if not stated."""

    lower: Array
    upper: Array
    speed: Array
    acceleration: Array

    @staticmethod
    def of(robot: Robot, ranges: Mapping[str, tuple[float, float]] | None = None) -> JointReach:
        """Return the limits of the robot; `ranges` (joint -> lower, upper) replace its position limits."""
        stated = dict(ranges or {})
        for name in stated:
            if name not in robot.primary_names:
                raise unknown_name_error("primary joint", name, robot.primary_names)
        joints = robot.primary_joints
        own_ranges = {joint.name: position_range(joint.limits, *DEFAULT_RANGE[joint.kind]) for joint in joints}
        pairs = np.array([*(own_ranges | stated).values()], dtype=np.float64)
        for joint, (low, high) in zip(joints, pairs, strict=True):
            if not (np.isfinite([low, high]).all() and low < high):
                message = f"the range of joint {joint.name!r} must be finite and not empty, got {low:g} to {high:g}"
                raise InputError(message, code=Code.OUT_OF_RANGE, subject=joint.name)
        speed = np.array([_limit_rate(joint.limits.velocity, DEFAULT_SPEED[joint.kind]) for joint in joints])
        acceleration = np.array([_limit_rate(joint.limits.acceleration, np.inf) for joint in joints])
        return JointReach(pairs[:, 0], pairs[:, 1], speed, acceleration)

    def amplitude(self, joint: int, frequency_hz: float) -> float:
        """Return the amplitude of a sine: a quarter of the range unless speed or acceleration allow less."""
        w = 2 * np.pi * frequency_hz
        allowed = (self.upper[joint] - self.lower[joint]) / 4, self.speed[joint] / w, self.acceleration[joint] / w**2
        return float(min(allowed))

    def steady_speed(self, joint: int, seconds: float) -> float:
        """Return the highest speed that can be kept for `seconds` within half the range."""
        return float(min(self.speed[joint], (self.upper[joint] - self.lower[joint]) / (2 * seconds)))

    def inside(self, joint: int, share: float, margin: float) -> float:
        """Return the position at a fraction (0 to 1) of the range, without a margin at both ends."""
        low, high = self.lower[joint] + margin, self.upper[joint] - margin
        return float(low + share * (high - low))

    def spread(self, joint: int, shares: Sequence[float]) -> tuple[float, ...]:
        """Divide the range into equal parts, one for each fraction, and return the position there."""
        count = len(shares)
        return tuple(self.inside(joint, (k + share) / count, 0.0) for k, share in enumerate(shares))


def _limit_rate(limit: float | None, default: float) -> float:
    return default if not limit else min(default, USED_SHARE * limit)


@dataclass(frozen=True, slots=True)
class Draft:
    """A test without a held configuration: its kind, the indices of the moving joints, and the row that is used."""

    kind: str
    joints: tuple[int, ...]
    row: int


@dataclass(frozen=True, slots=True, eq=False)
class DraftMaker:
    """Creates the motions and rows of drafts.

    reach      ranges and speeds of the joints
    seconds    length of an accelerated motion
    intervals  number of intervals over which it is integrated
    """

    regressor: Regressor
    reach: JointReach
    seconds: float
    intervals: int

    def configurations(self, draft: Draft, varied: Sequence[int], rng: np.random.Generator) -> list[Array]:
        """Return held configurations: a generic position of every joint, and a grid for the varied ones."""
        shares = rng.uniform(0.05, 0.95, len(self.reach.lower))
        grid = [[self.reach.inside(j, share, self._margin(draft, j))] for j, share in enumerate(shares)]
        for j in varied:
            grid[j] = list(self.reach.spread(j, rng.uniform(0.1, 0.9, VALUES).tolist()))
        return [np.array(positions) for positions in product(*grid)]

    def _margin(self, draft: Draft, joint: int) -> float:
        if joint not in draft.joints or draft.kind == "static":
            return 0.0
        if draft.kind == "accelerated":
            return self.reach.amplitude(joint, self._frequencies(draft)[draft.joints.index(joint)])
        return self.reach.steady_speed(joint, self._steady_s) * self._steady_s / 2

    @property
    def _steady_s(self) -> float:
        return STEADY * self.seconds

    def _frequencies(self, draft: Draft) -> tuple[float, ...]:
        return tuple(cycles / self.seconds for cycles in CYCLES[: len(draft.joints)])

    def motions(self, draft: Draft, configurations: Sequence[Array], name: str = "") -> tuple[StepMotion, ...]:
        """Return the motions of a draft, numbered from 1."""
        motions: list[StepMotion] = []
        for configuration in configurations:
            q = tuple(float(value) for value in configuration)
            joint = draft.joints[0]
            if draft.kind == "static":
                positions = self.reach.spread(joint, VALUES * (0.5,))
                motions.append(Breakaways(f"{name}-{len(motions) + 1}", q, joint, positions))
            elif draft.kind == "constant velocity":
                top = self.reach.steady_speed(joint, self._steady_s)
                for speed in (top, -top, LOWER_SPEED * top, -LOWER_SPEED * top):
                    motions.append(ConstantSpeed(f"{name}-{len(motions) + 1}", q, joint, speed, self._steady_s))
            else:
                frequencies = self._frequencies(draft)
                amplitudes = tuple(self.reach.amplitude(j, f) for j, f in zip(draft.joints, frequencies, strict=True))
                label = f"{name}-{len(motions) + 1}"
                motions.append(Sines(label, q, draft.joints, amplitudes, frequencies, self.seconds))
        return tuple(motions)

    def rows(self, draft: Draft, configurations: Sequence[Array]) -> Array:
        """Return the rows (m, p) of a draft's motions: Y at breakaways, or means of Y over intervals of the motion.

        The mean of Y(q, qd, qdd) over an interval is the integrated row of the equation of motion. The estimator
        computes the same integral without accelerations.
        """
        rate = ROWS_AN_INTERVAL * self.intervals / self.seconds
        if draft.kind == "constant velocity":
            rate = ROWS_AN_INTERVAL * AVERAGED_PARTS / self._steady_s
        trajectories = [motion.trajectory(rate) for motion in self.motions(draft, configurations)]
        q, qd, qdd = (np.concatenate([path[k] for path in trajectories]) for k in (1, 2, 3))
        if draft.kind == "static":
            qd = np.zeros_like(qd)
        parts = self.regressor.parts(q, qd, qdd)
        Y = np.zeros((len(q), self.regressor.count))
        Y[:, self.regressor.columns[draft.row]] = np.concatenate(parts[draft.row], axis=1)
        if draft.kind == "static":
            return Y[::2]
        each = Y.reshape(len(trajectories), -1, self.regressor.count)
        weights = np.array([0.5, *np.ones(ROWS_AN_INTERVAL - 1), 0.5]) / ROWS_AN_INTERVAL
        starts = range(0, each.shape[1] - 1, ROWS_AN_INTERVAL)
        return np.concatenate([np.einsum("k,mkp->mp", weights, each[:, a : a + ROWS_AN_INTERVAL + 1]) for a in starts])


GENERIC_CONFIGURATIONS: Final = 24
"""Random held configurations that show all that a motion can determine: one row depends on about twelve functions."""
TRIALS: Final = 12
"""Random held configurations, of which the planner takes the most informative one."""
MOST_VARIED: Final = 3
"""Largest number of held joints that are varied in one test."""
MARGIN: Final = 2.0
"""Factor on the threshold of an estimate (`NEW`). With 1, the logs of 1 of 30 plans for six-bars did not determine all
parameters that the plan had counted; with 2, the logs of every plan did."""
SCALING_STATES: Final = 200
"""Random states over which the columns have unit length."""


class _Choice(NamedTuple):
    """Held configurations of a draft, the directions that they determine, and the smallest singular value of these."""

    varied: tuple[int, ...]
    configurations: list[Array]
    directions: Array
    clearness: float

    @property
    def merit(self) -> tuple[int, float]:
        return len(self.directions), self.clearness


def plan_tests(
    robot: Robot,
    *,
    base: BaseParameters | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    seconds: float = 2.0,
    intervals: int = 10,
    weakest: float = 0.5,
    offsets: bool = False,
    rng: RandomSource = 0,
) -> StepPlan:
    """Plan simple tests that determine the base parameters of a robot and its drives [Yoshida 1996].

    In a robot with loops, the primary joints move.

    Parameters
    ----------
    robot : Robot
        Robot to test.
    base : BaseParameters, optional
        Base set; by default the structural one, with drives if the robot states them.
    ranges : mapping of joint name to (float, float), optional
        Lower and upper end, in rad or m, in place of the robot's limits. A joint without either gets a default range.
    seconds : float, default 2.0
        Duration of an accelerated motion. A longer one covers more of the range and separates weak parameters better.
    intervals : int, default 10
        Number of intervals over which an accelerated motion is integrated.
    weakest : float, default 0.5
        Postpone a two-joint test if the smallest singular value of its new part, with columns of unit length, is below
        this; with 0 no test is postponed, as in Yoshida's tests.
    offsets : bool, default False
        Whether constant torques of the drives are unknown too; otherwise they are taken as zero.
    rng : int, numpy.random.Generator or None, default 0
        Seed or generator of the random held configurations; None draws others in every call.

    Returns
    -------
    StepPlan
        The tests, and the parameters that they do not determine.

    Raises
    ------
    InputError
        If a number is out of range, or the loops of the robot do not close within the ranges.
    """
    seed = seed_from(rng)
    require_positive(seconds, "seconds")
    require_number(weakest, "weakest", "[0, inf]")
    require_number(intervals, "intervals", "[2, inf)")
    regressor = Regressor(robot, base=base)
    reach = JointReach.of(robot, ranges)
    if robot.loops and not is_affine(robot):
        require_closing(robot, reach.lower, reach.upper)
    drafts = DraftMaker(regressor, reach, seconds, intervals)
    return _Planner(drafts, () if offsets else _offsets(regressor), weakest, seed).plan()


def _offsets(regressor: Regressor) -> tuple[str, ...]:
    """Return the names of the drives' constant torques in the base set."""
    standard = standard_parameters(regressor.robot, with_drives=regressor.base.with_drives)
    return tuple(p.name for p in standard if p.kind == "offset" and p.name in regressor.names)


class _Planner:
    """Adds tests one by one, each with the parameters that it determines beyond the earlier tests."""

    def __init__(self, drafts: DraftMaker, dropped: tuple[str, ...], weakest: float, seed: int) -> None:
        self.drafts, self.dropped, self.weakest = drafts, dropped, weakest
        self.regressor = drafts.regressor
        self.rng = np.random.default_rng(seed)
        self.known = np.array([name in dropped for name in self.regressor.names])
        self.identifiable = IdentifiableSubspace.of(self._column_lengths(), self.known)
        self.tests: list[StepTest] = []
        self.rows: list[Array] = []
        self.skipped: list[str] = []

    def _column_lengths(self) -> Array:
        n, robot = self.regressor.joint_count, self.regressor.robot
        q, qd, qdd = self.rng.uniform(-1, 1, (3, SCALING_STATES, n)) * np.array([np.pi, 2.0, 10.0])[:, None, None]
        if robot.loops and not is_affine(robot):  # positions where the loops close
            reach = self.drafts.reach
            q = (reach.lower + reach.upper) / 2 + q / np.pi * (reach.upper - reach.lower) / 2
        Y = self.regressor.dense(self.regressor.parts(q, qd, qdd))
        return np.asarray(np.sqrt((Y**2).sum(axis=(0, 1)) / SCALING_STATES))

    def plan(self) -> StepPlan:
        robot, joints = self.regressor.robot, list(reversed(range(self.regressor.joint_count)))
        for joint in joints:
            self._single("static", joint, "static test of {}: gravity does not act on it, or adds no information")
        if not self.regressor.base.with_drives:
            self.skipped.append("constant-velocity tests: the robot has no drives, and therefore no friction")
        driven = {drive.joint for drive in robot.drives} if self.regressor.base.with_drives else set()
        for joint in joints:
            if self.regressor.joint_names[joint] in driven:
                reason = "constant-velocity test of {}: other tests determine its friction"
                self._single("constant velocity", joint, reason)
        for joint in joints:  # alone, then with a later joint, whose row is used
            self._single("accelerated", joint, "accelerated test of {} alone: adds no information")
            self._add_pairs(self._pairs(joint), self.weakest)
        self._add_pairs([pair for joint in joints for pair in self._pairs(joint)], 0.0)
        self._repeat_single_joints()
        if self.tests:
            self._determine_by_rows()
        unidentifiable = np.array(self.regressor.names)[~self.identifiable.identifiable()].tolist()
        return StepPlan(
            robot.name,
            self.regressor.joint_names,
            self.regressor.base.form,
            self.regressor.base.with_drives,
            self.regressor.names,
            self.dropped,
            tuple(self.tests),
            self.drafts.intervals,
            tuple(self.skipped),
            tuple(unidentifiable),
        )

    def _single(self, kind: str, joint: int, reason: str) -> None:
        """Add a test of one joint, or the reason why it is skipped."""
        draft = Draft(kind, (joint,), joint)
        if not self._add(draft, self._fewest(draft)):
            self.skipped.append(reason.format(self.regressor.joint_names[joint]))

    def _repeat_single_joints(self) -> None:
        """Add tests of single joints at further positions while they determine more, as linkages need."""
        joints = range(self.regressor.joint_count)
        drafts = [Draft(kind, (joint,), joint) for kind in ("accelerated", "static") for joint in joints]
        while self.identifiable.rank < self.regressor.count and self._add_best(
            [(d, self._fewest(d)) for d in drafts], 0.0
        ):
            continue

    def _determine_by_rows(self) -> None:
        """Add tests until the rows of the plan determine all parameters by the criterion of an estimate."""
        known, count, tests = self._subspace_of_rows(), 0, len(self.tests)
        while known.rank > count:
            self.identifiable, count, tests = known, known.rank, len(self.tests)
            self._repeat_single_joints()
            known = self._subspace_of_rows()
        del self.tests[tests:]
        self.identifiable = known

    def _subspace_of_rows(self) -> IdentifiableSubspace:
        """Return what the rows of all tests determine, with a margin for the rows of a log."""
        known = IdentifiableSubspace.of(np.linalg.norm(np.concatenate(self.rows), axis=0), self.known)
        for rows in self.rows:
            known = known.with_directions(known.new(rows, MARGIN * NEW)[2])
        return known

    def _pairs(self, joint: int) -> list[Draft]:
        return [Draft("accelerated", (joint, k), k) for k in range(joint + 1, self.regressor.joint_count)]

    def _add_pairs(self, pairs: Sequence[Draft], weakest: float) -> None:
        """Add two-joint tests while they are informative; vary held joints only if nothing else adds information."""
        once = list(pairs)
        while draft := self._add_best([(draft, self._best(draft, ())) for draft in once], weakest):
            once.remove(draft)
        while self._add_best([(draft, self._fewest(draft)) for draft in pairs], weakest):
            continue

    def _add_best(self, candidates: Sequence[tuple[Draft, _Choice]], weakest: float) -> Draft | None:
        """Add the draft that determines most, the first among equals, and return it; None if no draft adds anything."""
        clear = [pair for pair in candidates if pair[1].clearness >= weakest]
        draft, choice = max(clear, key=lambda pair: len(pair[1].directions), default=(None, None))
        return draft if draft is not None and choice is not None and self._add(draft, choice) else None

    def _fewest(self, draft: Draft) -> _Choice:
        """Choose configurations that vary the fewest held joints and determine all that the draft can."""
        anywhere = [self.drafts.configurations(draft, (), self.rng)[0] for _ in range(GENERIC_CONFIGURATIONS)]
        most = len(self.identifiable.new(self.drafts.rows(draft, anywhere))[2])
        best = self._best(draft, ())
        held = [j for j in range(self.regressor.joint_count) if j not in draft.joints]
        for count in range(1, MOST_VARIED + 1):
            if len(best.directions) >= most:
                break
            choices = [best, *(self._best(draft, varied) for varied in combinations(held, count))]
            best = max(choices, key=lambda choice: choice.merit)
        return best

    def _best(self, draft: Draft, varied: tuple[int, ...]) -> _Choice:
        """Choose the most informative of some random configurations."""
        choices = []
        for _ in range(TRIALS):
            configurations = self.drafts.configurations(draft, varied, self.rng)
            _, s, N = self.identifiable.new(self.drafts.rows(draft, configurations))
            choices.append(_Choice(varied, configurations, N, float(s.min()) if len(s) else 0.0))
        return max(choices, key=lambda choice: choice.merit)

    def _add(self, draft: Draft, choice: _Choice) -> bool:
        """Add the test if it determines something; return whether it does."""
        if not len(choice.directions):
            return False
        before, names = self.identifiable.identifiable(), np.array(self.regressor.names)
        self.identifiable = self.identifiable.with_directions(choice.directions)
        self.rows.append(self.drafts.rows(draft, choice.configurations))
        after = self.identifiable.identifiable()
        touched = (np.abs(choice.directions) > 1e-6).any(axis=0)
        number = 1 + sum(test.kind == draft.kind for test in self.tests)
        name = f"{draft.kind.replace(' ', '-')}-{number:02d}"
        joints = self.regressor.joint_names
        self.tests.append(
            StepTest(
                name,
                draft.kind,
                tuple(joints[j] for j in draft.joints),
                joints[draft.row],
                tuple(joints[j] for j in choice.varied),
                self.drafts.motions(draft, choice.configurations, name),
                len(choice.directions),
                tuple(names[after & ~before].tolist()),
                tuple(names[touched & ~after].tolist()),
            )
        )
        return True


BARELY: Final = 1e-9
"""Fraction of its speed at which a joint breaks away: only the direction of friction matters."""


def simulate_tests(
    robot: Robot, plan: StepPlan, *, rate_hz: float = 200.0, sensors: Sensors | None = None, rng: RandomSource = 0
) -> dict[str, Log]:
    """Simulate a log for every motion of a plan: planned motions exactly followed, torques of the robot's model.

    Motions and their rounding to encoder counts are the same in every repetition. Give the sensors a `position_noise`
    of a fraction of a count if errors of encoders should differ. A breakaway is logged with the direction of its motion
    as velocity, and the torque at which static friction, taken as equal to Coulomb friction, gives way.

    Parameters
    ----------
    robot : Robot
        Robot with known parameters.
    plan : StepPlan
        Plan of the tests.
    rate_hz : float, default 200.0
        Sample rate of the logs of moving joints.
    sensors : Sensors, optional
        Sensors at the joints, without velocities; their own rate and seed do not count. By default exact values with
        velocities are logged.
    rng : int, numpy.random.Generator or None, default 0
        Seed or generator of the sensor noise, which also depends on the number of the motion; None draws other noise in
        every call.

    Returns
    -------
    dict of str to Log
        Logs by the name of the motion.

    Raises
    ------
    InputError
        If `rate_hz` is not positive.
    MissingPhysicsError
        If the robot lacks a parameter.
    """
    seed = seed_from(rng)
    require_positive(rate_hz, "rate_hz")
    model = _model(robot)
    logs = {}
    for number, (name, motion) in enumerate(plan.motions.items()):
        path = motion.trajectory(rate_hz)
        qd = BARELY * path.qd if isinstance(motion, Breakaways) else path.qd
        tau = model.inverse_dynamics(path.q, qd, path.qdd)
        if sensors is None:
            logs[name] = log_from_arrays(robot.primary_names, path.t, path.q, tau, path.qd)
        else:
            drawn = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
            logs[name] = _measure_torque(model, motion, path, tau, replace(sensors, rate_hz=rate_hz, seed=drawn))
    return logs


@lru_cache(maxsize=4)
def _model(robot: Robot) -> Model:
    """Return the compiled model; cached for repeated simulations."""
    return compile_model(robot, with_drives=bool(robot.drives))


def _measure_torque(model: Model, motion: StepMotion, path: Trajectory, tau: Array, sensors: Sensors) -> Log:
    """Return the readings of the sensors; breakaways are read by a person, without delays."""
    robot, instants = model.robot, isinstance(motion, Breakaways)
    if instants:
        sensors = replace(sensors, rate_hz=1 / BREAKAWAY_S, position_delay_s=0.0, torque_delay_s=0.0)
    sensors = replace(sensors, position_side="joint", torque_side="joint")
    none = np.zeros((len(path.t), 0), dtype=np.bool_)
    whole = Simulation(
        robot.primary_names, sensors.rate_hz, path.t, path.q, path.qd, path.qdd, tau, np.zeros_like(tau), none, 0
    )
    read = measure(robot, whole, sensors)
    velocity = path.qd if instants else None
    return log_from_arrays(robot.primary_names, read.t, read.position, read.torque, velocity)
