"""`Answer`: yes, no or undecided to one question about parameter values, with the numbers that support it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

NEGATIVE_ANSWERS: Final = {
    "positive_definite": "not positive definite",
    "consistent": "inconsistent",
    "plausible": "implausible",
}
"""Adjective for a negative answer to each question."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Answer:
    """Answer to one question about parameter values.

    Attributes
    ----------
    question : {"positive_definite", "consistent", "plausible"}
    holds : bool or None
        Whether the answer is yes; None if the question could not be decided.
    reason : str
        Sentence that explains the answer without repeating it.
    witness : Mapping
        Numbers that prove or support the answer, in types that JSON can store: a configuration, a mass distribution, or
        a certificate of infeasibility.
    """

    question: str
    holds: bool | None
    reason: str
    witness: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Answer({self.question!r}, holds={self.holds})"

    @property
    def within_uncertainty(self) -> bool:
        """Return whether the answer is no, but feasible values lie within the uncertainty of the given values."""
        return self.holds is False and bool(self.witness.get("within_uncertainty", False))

    @property
    def has_plausible_projection(self) -> bool:
        """Return whether `make_feasible` gives a plausible model, or True if the check did not try the projection.

        The check tries it only if the values are not feasible.
        """
        return not self.witness.get("projection_problems")

    @property
    def sentence(self) -> str:
        """Return the answer and its reason as one sentence."""
        adjective = self.question.replace("_", " ") if self.holds else NEGATIVE_ANSWERS[self.question]
        word = "undecided" if self.holds is None else adjective
        return f"{word}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return the answer in types that JSON can store."""
        return {
            "question": self.question,
            "holds": self.holds,
            "sentence": self.sentence,
            "reason": self.reason,
            "witness": dict(self.witness),
        }


def combine_answers(holds: Mapping[str, bool | None]) -> bool | None:
    """Return whether the values are feasible, from the answers to the questions that were asked.

    The result is False if "positive_definite" or "consistent" is False. It is None (undecided) if "consistent" is None,
    or if "positive_definite" is None and "consistent" was not asked: consistent values have a positive definite matrix.
    """
    asked = [holds[question] for question in ("consistent", "positive_definite") if question in holds]
    if False in asked:
        return False
    return asked[0] if asked else True
