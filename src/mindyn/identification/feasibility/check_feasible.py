"""`check_feasible`: check whether a robot can have the values of an estimate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mindyn.foundation.algebra.requirements import require_type
from mindyn.foundation.algebra.values import ShortRepr
from mindyn.foundation.errors import InputError, MissingPhysicsError, RobotError
from mindyn.foundation.findings import Finding, Kind, Severity
from mindyn.foundation.pages.notebook_display import NotebookDisplay
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.feasibility.checks.answer import Answer, combine_answers
from mindyn.identification.feasibility.checks.consistent_values import check_consistent
from mindyn.identification.feasibility.checks.plausible_values import check_plausible
from mindyn.identification.feasibility.checks.positive_definite import check_positive_definite
from mindyn.identification.feasibility.conditions.user_bounds import Bounds
from mindyn.identification.feasibility.exported_model_check import check_projection

_ANSWER_WORDS = {True: "yes", False: "NO", None: "?"}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Feasibility(ShortRepr, NotebookDisplay):
    """Answers to three questions about parameter values; each question is stronger than the previous one.

    Attributes
    ----------
    positive_definite : Answer
        Whether the inertia matrix is positive definite in every configuration [Yoshida 1996, chapter 4].
    consistent : Answer
        Whether some mass distribution of every link, with dissipative friction, has these values.
    plausible : Answer
        Whether such links also have masses and centres of mass within bounds.
    """

    positive_definite: Answer
    consistent: Answer
    plausible: Answer

    @property
    def answers(self) -> tuple[Answer, Answer, Answer]:
        """Return the three answers, from the weakest to the strongest question."""
        return self.positive_definite, self.consistent, self.plausible

    @property
    def is_infeasible(self) -> bool | None:
        """Return whether no robot can have the values; None if undecided."""
        feasible = combine_answers({answer.question: answer.holds for answer in self.answers})
        return None if feasible is None else not feasible

    @property
    def has_plausible_projection(self) -> bool:
        """Return whether `make_feasible` gives a plausible model, or the values are consistent already."""
        return self.consistent.has_plausible_projection

    def findings(self, estimate: Estimate) -> list[Finding]:
        """Return a finding if the values are inconsistent by more than their uncertainty explains."""
        if not self.is_infeasible or self.consistent.within_uncertainty:
            return []
        names = self.consistent.witness.get("contradicting", [])
        joints = {joint.child: joint.name for joint in estimate.robot.joints}
        links = [
            parameter.link_or_joint
            for parameter, name in zip(estimate.parameters, estimate.names, strict=True)
            if name in names
        ]
        message = "the values are not physically consistent, though they may predict the torque"
        remedy = "Pass --consistent, or see mindyn check; if many are negative, the torques may have the wrong sign"
        subjects = tuple(dict.fromkeys(joints.get(link, link) for link in links))
        return [Finding(Kind.INFEASIBLE_VALUES, Severity.WARNING, message, remedy, subjects, details=tuple(names))]

    def __str__(self) -> str:
        return "\n".join(
            f"{answer.question.replace('_', ' '):<17} {_ANSWER_WORDS[answer.holds]:<3} {answer.reason}"
            for answer in self.answers
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the answers by question, in types that JSON can store."""
        return {answer.question: answer.to_dict() for answer in self.answers}


def check_feasible(estimate: Estimate, bounds: Bounds | None = None) -> Feasibility:
    """Check whether a robot can have the values of an estimate.

    Parameters
    ----------
    estimate : Estimate
        Estimate to use.
    bounds : Bounds, optional
        Limits on masses and centres of mass. By default the centres must lie within the collision shapes of the links.

    Returns
    -------
    Feasibility
        Whether the inertia matrix is positive definite, and the values are physically consistent and plausible.

    Raises
    ------
    InputError
        If `estimate` is not an `Estimate`.
    """
    hint = "use identify(...) or load_estimate(path); robot.consistency() checks the links of a robot"
    require_type(estimate, Estimate, "estimate", hint)
    try:
        positive_definite = check_positive_definite(estimate)
    except (InputError, MissingPhysicsError, RobotError) as error:
        positive_definite = Answer("positive_definite", None, f"{error.message}.")
    consistent = check_consistent(estimate)
    if not consistent.holds:
        consistent = _add_projection(consistent, estimate)
    return Feasibility(positive_definite, consistent, check_plausible(estimate, bounds))


def _add_projection(answer: Answer, estimate: Estimate) -> Answer:
    """Add to the answer why export would reject the model of `make_feasible` as implausible."""
    projection = check_projection(estimate)
    problems = ["the nearest consistent values were not found"] if projection is None else list(projection.problems)
    sentence = f" The nearest consistent model is not plausible: {problems[0]}." if problems else ""
    witness = {**answer.witness, "projection_problems": problems}
    return replace(answer, reason=f"{answer.reason}{sentence}", witness=witness)
