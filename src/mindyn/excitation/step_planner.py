"""`plan_tests`: Yoshida's static, constant-velocity and accelerated tests for any robot, in its primary joints.

Static tests go from the last joint to the first and tell what gravity tells; constant-velocity tests, again from the
last, tell friction; accelerated tests tell inertias. Of these, joint by joint from the last, first the joint moves by
itself (its velocity torques vanish in its own row, but for loops), at as few held positions as tell all that such
motions can tell;
then it moves together with one later joint, whose row is used. Every further held position is a further motion, so that
two-joint tests vary none as long as some test without tells something [Yoshida 1996, section 3.4]. What a two-joint
test would tell only faintly waits for later ones: of Yoshida's PUMA, joints 4 and 5 tell h5 from J5z through a
coupling of their motors of 1 : 73, joints 3 and 5 through the whole of J5z.

What a test tells is the rank of its rows outside the combinations that are already known (`IdentifiableSubspace`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.closed_motion import is_affine
from mindyn.errors import InputError
from mindyn.excitation.identifiable_subspace import NEW, IdentifiableSubspace
from mindyn.excitation.joint_reach import JointReach
from mindyn.excitation.loop_limits import require_closing_within
from mindyn.excitation.step_drafts import Draft, DraftMaker
from mindyn.excitation.step_plan import StepPlan, StepTest
from mindyn.notation import DRIVE_PARAMETERS
from mindyn.parameters.base import BaseParameters
from mindyn.parameters.labels import parameter_labels
from mindyn.regression.regressor import Regressor
from mindyn.robots.robot import Robot

GENERIC_CONFIGURATIONS: Final = 24
"""Random held configurations that show all that a motion can tell: base sets of one row have a dozen functions."""
TRIALS: Final = 12
"""Random held configurations of which the one that tells most clearly is taken."""
MOST_VARIED: Final = 3
"""Held joints that are varied in one test, at most."""
MARGIN: Final = 2.0
"""How much clearer than an estimate needs it (`NEW`) a plan determines. With 1, the logs of one of 30 plans of six-bars
left parameters open that the plan had counted; with 2, none."""
SCALING_STATES: Final = 200
"""Random states over which the columns have unit length."""


class _Choice(NamedTuple):
    """Held configurations of a draft, what they tell, and how clearly: the smallest singular value of the new part."""

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
    seed: int = 0,
) -> StepPlan:
    """The tests that tell the base parameters of a robot with its drives; of one with loops its primary joints move.

    base       the base set; the structural one, with drives where the robot states them, if left out
    ranges     joint -> (lower, upper), rad or m, in place of the robot's limits (without either: see `joint_reach`)
    seconds    length of an accelerated motion; a longer one sweeps farther and separates weakly seen parameters better
    intervals  over which an accelerated motion is integrated
    weakest    a two-joint test waits for others where the smallest singular value of what is new in it, columns having
               unit length, is below; 0: none waits, as in Yoshida's tests
    offsets    constant torques of the drives are unknown as well; else they are taken to be zero
    seed       of the held configurations
    """
    if not (np.isfinite(seconds) and seconds > 0):
        raise InputError(f"seconds = {seconds!r} must be a positive number")
    if not weakest >= 0:
        raise InputError(f"weakest = {weakest!r} must not be negative")
    if intervals < 2:
        raise InputError(f"intervals = {intervals!r}; an accelerated motion needs two at least")
    regressor = Regressor(robot, base=base)
    reach = JointReach.of(robot, ranges)
    if robot.loops and not is_affine(robot):
        require_closing_within(robot, reach.lower, reach.upper)
    drafts = DraftMaker(regressor, reach, seconds, intervals)
    return _Planner(drafts, () if offsets else _offsets(regressor), weakest, seed).plan()


def _offsets(regressor: Regressor) -> tuple[str, ...]:
    """Names of the drives' constant torques in the base set."""
    if not regressor.base.drives:
        return ()
    robot = regressor.robot
    labels = parameter_labels(robot, drives=True)[10 * robot.joint_count :]
    place, per_drive = DRIVE_PARAMETERS.index("offset"), len(DRIVE_PARAMETERS)
    names = labels[place : per_drive * len(robot.drives) : per_drive]
    return tuple(name for name in names if name in regressor.names)


class _Planner:
    """Adds test after test, each with what it tells beyond those before it."""

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
        if robot.loops and not is_affine(robot):  # where they close
            reach = self.drafts.reach
            q = (reach.lower + reach.upper) / 2 + q / np.pi * (reach.upper - reach.lower) / 2
        Y = self.regressor.dense(self.regressor.parts(q, qd, qdd))
        return np.asarray(np.sqrt((Y**2).sum(axis=(0, 1)) / SCALING_STATES))

    def plan(self) -> StepPlan:
        robot = self.regressor.robot
        for joint in reversed(range(self.regressor.joint_count)):
            self._static(joint)
        if not self.regressor.base.drives:
            self.skipped.append("constant-velocity tests: the robot states no drives, so that there is no friction")
        driven = {drive.joint for drive in robot.drives} if self.regressor.base.drives else set()
        for joint in reversed(range(self.regressor.joint_count)):
            if self.regressor.joint_names[joint] in driven:
                self._constant_velocity(joint)
        for joint in reversed(range(self.regressor.joint_count)):
            self._accelerated(joint)
        every = reversed(range(self.regressor.joint_count))
        self._add_pairs([pair for joint in every for pair in self._pairs(joint)], 0.0)
        self._repeat_single_joints()
        if self.tests:
            self._determine_by_rows()
        untold = [
            name for name, told in zip(self.regressor.names, self.identifiable.identifiable(), strict=True) if not told
        ]
        return StepPlan(
            robot.name,
            self.regressor.joint_names,
            self.regressor.base.form,
            self.regressor.base.drives,
            self.regressor.names,
            self.dropped,
            tuple(self.tests),
            self.drafts.intervals,
            tuple(self.skipped),
            tuple(untold),
        )

    def _static(self, joint: int) -> None:
        draft = Draft("static", (joint,), joint)
        if not self._add(draft, self._fewest(draft)):
            name = self.regressor.joint_names[joint]
            self.skipped.append(f"static test of {name}: gravity does not turn it, or tells nothing new")

    def _constant_velocity(self, joint: int) -> None:
        draft = Draft("constant velocity", (joint,), joint)
        if not self._add(draft, self._fewest(draft)):
            name = self.regressor.joint_names[joint]
            self.skipped.append(f"constant-velocity test of {name}: its friction is known from the others")

    def _accelerated(self, joint: int) -> None:
        """The joint alone; then with a later joint, whose row is used."""
        alone = Draft("accelerated", (joint,), joint)
        if not self._add(alone, self._fewest(alone)):
            self.skipped.append(f"accelerated test of {self.regressor.joint_names[joint]} alone: nothing new")
        self._add_pairs(self._pairs(joint), self.weakest)

    def _repeat_single_joints(self) -> None:
        """Add tests of single joints at further positions while they determine more, as linkages need."""
        joints = range(self.regressor.joint_count)
        drafts = [Draft(kind, (joint,), joint) for kind in ("accelerated", "static") for joint in joints]
        while self.identifiable.rank < self.regressor.count and self._added_best(
            [(d, self._fewest(d)) for d in drafts], 0.0
        ):
            continue

    def _determine_by_rows(self) -> None:
        """Add tests until those of the plan determine all in the units of their own rows, as an estimate counts."""
        known, count, tests = self._subspace_of_rows(), 0, len(self.tests)
        while known.rank > count:
            self.identifiable, count, tests = known, known.rank, len(self.tests)
            self._repeat_single_joints()
            known = self._subspace_of_rows()
        del self.tests[tests:]
        self.identifiable = known

    def _subspace_of_rows(self) -> IdentifiableSubspace:
        """What the rows of all tests determine, with a margin for those of a log."""
        known = IdentifiableSubspace.of(np.linalg.norm(np.concatenate(self.rows), axis=0), self.known)
        for rows in self.rows:
            known = known.with_directions(known.new(rows, MARGIN * NEW)[2])
        return known

    def _pairs(self, joint: int) -> list[Draft]:
        return [Draft("accelerated", (joint, k), k) for k in range(joint + 1, self.regressor.joint_count)]

    def _add_pairs(self, pairs: Sequence[Draft], weakest: float) -> None:
        """Two-joint tests while they tell something clearly; varied only where nothing else tells more."""
        once = list(pairs)
        while draft := self._added_best([(one, self._best(one, ())) for one in once], weakest):
            once.remove(draft)
        while self._added_best([(one, self._fewest(one)) for one in pairs], weakest):
            continue

    def _added_best(self, found: Sequence[tuple[Draft, _Choice]], weakest: float) -> Draft | None:
        """The clear draft that yields most, added; of equals, the first. None where none yields anything."""
        clear = [pair for pair in found if pair[1].clearness >= weakest]
        draft, choice = max(clear, key=lambda pair: len(pair[1].directions), default=(None, None))
        return draft if draft is not None and choice is not None and self._add(draft, choice) else None

    def _fewest(self, draft: Draft) -> _Choice:
        """With as few held joints varied as tell all that this draft can tell."""
        anywhere = [self.drafts.configurations(draft, (), self.rng)[0] for _ in range(GENERIC_CONFIGURATIONS)]
        most = len(self.identifiable.new(self.drafts.rows(draft, anywhere))[2])
        best = self._best(draft, ())
        held = [j for j in range(self.regressor.joint_count) if j not in draft.joints]
        for count in range(1, MOST_VARIED + 1):
            if len(best.directions) >= most:
                break
            best = max([best, *self._varied(draft, combinations(held, count))], key=lambda one: one.merit)
        return best

    def _varied(self, draft: Draft, subsets: Iterable[tuple[int, ...]]) -> list[_Choice]:
        return [self._best(draft, varied) for varied in subsets]

    def _best(self, draft: Draft, varied: tuple[int, ...]) -> _Choice:
        """Of some random configurations the one that tells most, and most clearly."""
        choices = []
        for _ in range(TRIALS):
            configurations = self.drafts.configurations(draft, varied, self.rng)
            _, s, N = self.identifiable.new(self.drafts.rows(draft, configurations))
            choices.append(_Choice(varied, configurations, N, float(s.min()) if len(s) else 0.0))
        return max(choices, key=lambda one: one.merit)

    def _add(self, draft: Draft, choice: _Choice) -> bool:
        """Adds the test where it tells something."""
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
