"""`check_feasible` and `make_feasible`: the three questions about an estimate together, and the remedies by name.

The third question is asked here: plausible is consistent with masses and centres of mass within bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from mindyn.errors import InputError, MissingPhysicsError, RobotError
from mindyn.estimators.estimate import Estimate
from mindyn.feasibility.answer import Answer, combine_answers
from mindyn.feasibility.bounds import Bounds, bounds_from_shapes
from mindyn.feasibility.conic import ConicError, InfeasibleProgramError
from mindyn.feasibility.consistent import CONSISTENT_DISTANCE, arm_witness, check_consistent
from mindyn.feasibility.consistent_projection import project_to_consistent
from mindyn.feasibility.nearest import find_nearest_compact, relative_metric
from mindyn.feasibility.physical_space import physical_values, space_of
from mindyn.feasibility.positive_definite import check_positive_definite
from mindyn.feasibility.projection import project_to_positive_definite
from mindyn.findings import Finding, Kind, Severity

Level = Literal["positive_definite", "consistent"]
_ANSWER_WORDS = {True: "yes", False: "NO", None: "?"}
PLAUSIBLE: Final = "plausible"


@dataclass(frozen=True, slots=True, eq=False)
class Feasibility:
    """Three answers, each stronger than the one before.

    possible    the inertia matrix is positive definite in every configuration [Yoshida 1996, chapter 4]
    consistent  some mass distribution of every link, and drives that brake, have these values
    plausible   and its masses and centres of mass are within bounds
    """

    positive_definite: Answer
    consistent: Answer
    plausible: Answer

    @property
    def answers(self) -> tuple[Answer, Answer, Answer]:
        """The three, the weakest first."""
        return self.positive_definite, self.consistent, self.plausible

    @property
    def is_infeasible(self) -> bool | None:
        """Whether no arm can have the values; None where that could not be decided."""
        exists = combine_answers({one.question: one.holds for one in self.answers})
        return None if exists is None else not exists

    def findings(self, estimate: Estimate) -> list[Finding]:
        """Return a finding if the values are not physically consistent, and none that are lie as near as noise."""
        if not self.is_infeasible or self.consistent.within_uncertainty:
            return []
        names = self.consistent.witness.get("contradicting", [])
        joints = {joint.child: joint.name for joint in estimate.robot.joints}
        of_links = [
            one.link_or_joint for one, name in zip(estimate.parameters, estimate.names, strict=True) if name in names
        ]
        message = "the values are not physically consistent, though they may predict the torque"
        remedy = "Pass --consistent, or see mindyn check; if many are negative, the torques may have the wrong sign"
        where = tuple(dict.fromkeys(joints.get(one, one) for one in of_links))
        return [Finding(Kind.INFEASIBLE_VALUES, Severity.WARNING, message, remedy, where, details=tuple(names))]

    def __str__(self) -> str:
        return "\n".join(f"{one.question:<10} {_ANSWER_WORDS[one.holds]:<3} {one.reason}" for one in self.answers)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {one.question: one.to_dict() for one in self.answers}


def check_feasible(estimate: Estimate, bounds: Bounds | None = None) -> Feasibility:
    """The three answers for an estimate; without bounds, plausible asks for centres within the links' shapes."""
    if not isinstance(estimate, Estimate):
        raise InputError(
            f"check_feasible judges an estimate, got {type(estimate).__name__}",
            hint="identify(...) or load_estimate(path) gives one; robot.consistency() judges a robot's links",
        )
    consistent = check_consistent(estimate)
    return Feasibility(_check_positive_definite(estimate), consistent, check_plausible(estimate, bounds))


def make_feasible(estimate: Estimate, level: Level = "consistent") -> Estimate:
    """The estimate moved the least, in the metric of its covariance by noise alone, to where `level` holds."""
    if level == "consistent":
        return project_to_consistent(estimate)
    if level == "positive_definite":
        return project_to_positive_definite(estimate)
    raise InputError(f'level = {level!r}; it may be: "possible", "consistent"')


def _check_positive_definite(estimate: Estimate) -> Answer:
    try:
        return check_positive_definite(estimate)
    except (InputError, MissingPhysicsError, RobotError) as refused:
        return Answer("positive_definite", None, f"{refused.message}.")


def check_plausible(estimate: Estimate, bounds: Bounds | None = None) -> Answer:
    """Whether links within the bounds have the estimate's values; without bounds, within the links' own shapes."""
    stated = bounds_from_shapes(estimate.robot) if bounds is None else bounds
    if stated.is_empty:
        return Answer(PLAUSIBLE, None, "no bounds were given, and the links state no shapes with a size.")
    space = space_of(estimate.regressor)
    try:
        found = find_nearest_compact(space, estimate.beta, relative_metric(space, estimate.beta), stated.rows(space))
    except InfeasibleProgramError:
        return Answer(PLAUSIBLE, False, "the bounds contradict each other: no links keep to all of them.")
    except ConicError as error:
        return Answer(PLAUSIBLE, None, f"{error.message}.")
    distance = found.distance / np.sqrt(len(estimate.beta))
    if distance <= CONSISTENT_DISTANCE:
        own = physical_values(estimate, space)
        x = found.x if own is None or not stated.are_satisfied(space, own) else own
        arm = arm_witness(space, x)
        listed = ", ".join(f"{name} {mass:.3g} kg" for name, mass in arm["masses"].items())
        return Answer(
            PLAUSIBLE,
            True,
            f"links within the bounds have these values ({listed}).",
            {"distance": distance, **arm},
        )
    moves = np.abs(found.beta - estimate.beta) * np.diag(relative_metric(space, estimate.beta))
    worst = [space.names[k] for k in np.argsort(moves)[::-1][:3]]
    return Answer(
        PLAUSIBLE,
        False,
        f"no links within the bounds have these values: the nearest differ by {100 * distance:.2g} % (rms), "
        f"most of all in {', '.join(worst)}.",
        {"distance": distance, "nearest": dict(zip(space.names, found.beta.tolist(), strict=True)), "most": worst},
    )
