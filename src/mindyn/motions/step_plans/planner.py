"""`plan_tests`: Yoshida's static, constant-velocity and accelerated tests for any robot, in its primary joints.

Static tests go from the last joint to the first, and determine the gravity parameters. Constant-velocity tests, again
from the last joint to the first, determine friction. Accelerated tests determine inertias, joint by joint from the
last. In a first test, the joint moves alone (without loops, its velocity torques vanish in its own row), at the
smallest number of held positions that determines everything that such motions can determine. In further tests, the
joint moves together with one later joint, whose row is used. Because every further held position needs a further
motion, two-joint tests vary no held joint as long as a test without variation adds information [Yoshida 1996, section
3.4]. If a two-joint test would determine a parameter only weakly, the planner tries later tests first. An example is
Yoshida's PUMA: a test of joints 4 and 5 separates h5 from J5z only through a motor coupling of 1 : 73, a test of joints
3 and 5 through the full effect of J5z.

The information of a test is the rank of its rows outside the combinations that are already known
(`IdentifiableSubspace`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np

from mindyn.equations.closed_motion import is_affine
from mindyn.foundation.algebra.requirements import require_number, require_positive
from mindyn.foundation.algebra.values import Array, RandomSource, seed_from
from mindyn.motions.excitation.constraints import require_closing
from mindyn.motions.step_plans.candidate_tests import Draft, DraftMaker
from mindyn.motions.step_plans.identifiable_subspace import NEW, IdentifiableSubspace
from mindyn.motions.step_plans.joint_reach import JointReach
from mindyn.motions.step_plans.plan import StepPlan, StepTest
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.parameters.parameter import standard_parameters
from mindyn.regression.regressor import Regressor
from mindyn.robots.robot import Robot

GENERIC_CONFIGURATIONS: Final = 24
"""Number of random held configurations that determine everything that a motion can determine: one row depends on about
twelve functions.
"""
TRIALS: Final = 12
"""Number of random held configurations that are tried; the planner takes the most informative one."""
MOST_VARIED: Final = 3
"""Largest number of held joints that are varied in one test."""
MARGIN: Final = 2.0
"""Factor on the threshold of an estimate (`NEW`). With 1, the logs of 1 of 30 plans for six-bars did not determine all
parameters that the plan had counted; with 2, the logs of every plan did."""
SCALING_STATES: Final = 200
"""Number of random states from which the lengths of the columns are computed."""


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
    return _Planner(drafts, () if offsets else _offset_names(regressor), weakest, seed).plan()


def _offset_names(regressor: Regressor) -> tuple[str, ...]:
    """Return the names of the drives' constant torques in the base set."""
    standard = standard_parameters(regressor.robot, with_drives=regressor.base.with_drives)
    return tuple(p.name for p in standard if p.kind == "offset" and p.name in regressor.names)


class _Planner:
    """Add tests one by one, each with the parameters that it determines in addition to the tests before it."""

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
            self._add_single("static", joint, "static test of {}: gravity does not act on it, or adds no information")
        if not self.regressor.base.with_drives:
            self.skipped.append("constant-velocity tests: the robot has no drives, and therefore no friction")
        driven = {drive.joint for drive in robot.drives} if self.regressor.base.with_drives else set()
        for joint in joints:
            if self.regressor.joint_names[joint] in driven:
                reason = "constant-velocity test of {}: other tests determine its friction"
                self._add_single("constant velocity", joint, reason)
        for joint in joints:  # alone, then with a later joint, whose row is used
            self._add_single("accelerated", joint, "accelerated test of {} alone: adds no information")
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

    def _add_single(self, kind: str, joint: int, reason: str) -> None:
        """Add a test of one joint, or the reason why it is skipped."""
        draft = Draft(kind, (joint,), joint)
        if not self._add_test(draft, self._choose_fewest_varied(draft)):
            self.skipped.append(reason.format(self.regressor.joint_names[joint]))

    def _repeat_single_joints(self) -> None:
        """Add tests of single joints at further positions as long as they determine more; linkages need this."""
        joints = range(self.regressor.joint_count)
        drafts = [Draft(kind, (joint,), joint) for kind in ("accelerated", "static") for joint in joints]
        while self.identifiable.rank < self.regressor.count and self._add_best(
            [(d, self._choose_fewest_varied(d)) for d in drafts], 0.0
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
        """Return the combinations that the rows of all tests determine, with a margin for the rows of a log."""
        known = IdentifiableSubspace.of(np.linalg.norm(np.concatenate(self.rows), axis=0), self.known)
        for rows in self.rows:
            known = known.with_directions(known.new(rows, MARGIN * NEW)[2])
        return known

    def _pairs(self, joint: int) -> list[Draft]:
        return [Draft("accelerated", (joint, k), k) for k in range(joint + 1, self.regressor.joint_count)]

    def _add_pairs(self, pairs: Sequence[Draft], weakest: float) -> None:
        """Add two-joint tests while they are informative; vary held joints only if nothing else adds information."""
        once = list(pairs)
        while draft := self._add_best([(draft, self._choose_informative(draft, ())) for draft in once], weakest):
            once.remove(draft)
        while self._add_best([(draft, self._choose_fewest_varied(draft)) for draft in pairs], weakest):
            continue

    def _add_best(self, candidates: Sequence[tuple[Draft, _Choice]], weakest: float) -> Draft | None:
        """Add the draft that determines most (the first one if several are equal), and return it; None if no draft adds
        anything.
        """
        clear = [pair for pair in candidates if pair[1].clearness >= weakest]
        draft, choice = max(clear, key=lambda pair: len(pair[1].directions), default=(None, None))
        return draft if draft is not None and choice is not None and self._add_test(draft, choice) else None

    def _choose_fewest_varied(self, draft: Draft) -> _Choice:
        """Choose configurations that vary as few held joints as possible, yet determine all that the draft can."""
        anywhere = [self.drafts.configurations(draft, (), self.rng)[0] for _ in range(GENERIC_CONFIGURATIONS)]
        most = len(self.identifiable.new(self.drafts.rows(draft, anywhere))[2])
        best = self._choose_informative(draft, ())
        held = [j for j in range(self.regressor.joint_count) if j not in draft.joints]
        for count in range(1, MOST_VARIED + 1):
            if len(best.directions) >= most:
                break
            choices = [best, *(self._choose_informative(draft, varied) for varied in combinations(held, count))]
            best = max(choices, key=lambda choice: choice.merit)
        return best

    def _choose_informative(self, draft: Draft, varied: tuple[int, ...]) -> _Choice:
        """Choose the most informative of some random configurations."""
        choices = []
        for _ in range(TRIALS):
            configurations = self.drafts.configurations(draft, varied, self.rng)
            _, s, N = self.identifiable.new(self.drafts.rows(draft, configurations))
            choices.append(_Choice(varied, configurations, N, float(s.min()) if len(s) else 0.0))
        return max(choices, key=lambda choice: choice.merit)

    def _add_test(self, draft: Draft, choice: _Choice) -> bool:
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
