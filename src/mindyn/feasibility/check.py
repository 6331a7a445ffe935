"""`check_feasible` and `make_feasible`: the three questions about an estimate together, and the remedies by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from mindyn.errors import InputError, MissingPhysicsError, RobotError
from mindyn.estimators.estimate import Estimate
from mindyn.feasibility.answer import Answer, can_exist
from mindyn.feasibility.bounds import Bounds
from mindyn.feasibility.consistent import judge_consistent
from mindyn.feasibility.make_consistent import mend_consistent
from mindyn.feasibility.mending import mend_possible
from mindyn.feasibility.plausible import judge_plausible
from mindyn.feasibility.possible import judge_possible

Level = Literal["possible", "consistent"]
_WORDS = {True: "yes", False: "NO", None: "?"}


@dataclass(frozen=True, slots=True, eq=False)
class Feasibility:
    """Three answers, each stronger than the one before.

    possible    the inertia matrix is positive definite in every configuration [Yoshida 1996, chapter 4]
    consistent  some mass distribution of every link, and drives that brake, have these values
    plausible   and its masses and centres of mass are within bounds
    """

    possible: Answer
    consistent: Answer
    plausible: Answer

    @property
    def answers(self) -> tuple[Answer, Answer, Answer]:
        """The three, the weakest first."""
        return self.possible, self.consistent, self.plausible

    @property
    def refuted(self) -> bool | None:
        """Whether no arm can have the values; None where that could not be decided."""
        exists = can_exist({one.question: one.holds for one in self.answers})
        return None if exists is None else not exists

    def __str__(self) -> str:
        return "\n".join(f"{one.question:<10} {_WORDS[one.holds]:<3} {one.reason}" for one in self.answers)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {one.question: one.to_dict() for one in self.answers}


def check_feasible(estimate: Estimate, bounds: Bounds | None = None) -> Feasibility:
    """The three answers for an estimate; without bounds, plausible asks for centres within the links' shapes."""
    consistent = judge_consistent(estimate)
    return Feasibility(_possible(estimate), consistent, judge_plausible(estimate, bounds))


def make_feasible(estimate: Estimate, level: Level = "consistent") -> Estimate:
    """The estimate moved the least, in the metric of its covariance by noise alone, to where `level` holds."""
    if level == "consistent":
        return mend_consistent(estimate)
    if level == "possible":
        return mend_possible(estimate)
    raise InputError(f'level = {level!r}; it may be: "possible", "consistent"')


def _possible(estimate: Estimate) -> Answer:
    try:
        return judge_possible(estimate)
    except (InputError, MissingPhysicsError, RobotError) as refused:
        return Answer("possible", None, f"{refused.message}.")
