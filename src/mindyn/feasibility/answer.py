"""`Comparator`: yes, no or undecided to one question about parameter values, with what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

NEGATIVE_ANSWERS: Final = {"positive_definite": "impossible", "consistent": "inconsistent", "plausible": "implausible"}
"""The word for a no to each question."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The answer to one question.

    question  "possible", "consistent" or "plausible"
    holds     True, False, or None where it could not be decided
    reason    why, as a sentence that does not say the answer once more
    witness   numbers that it rests on, as JSON can hold them: a configuration, a mass distribution, a contradiction
    """

    question: str
    holds: bool | None
    reason: str
    witness: Mapping[str, Any] = field(default_factory=dict)

    @property
    def within_uncertainty(self) -> bool:
        """Whether, after a no, values that an arm can have lie within the uncertainty of the values asked about."""
        return self.holds is False and bool(self.witness.get("within_uncertainty", False))

    @property
    def sentence(self) -> str:
        """The answer and its reason, as a person reads them."""
        word = "undecided" if self.holds is None else self.question if self.holds else NEGATIVE_ANSWERS[self.question]
        return f"{word}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "question": self.question,
            "holds": self.holds,
            "sentence": self.sentence,
            "reason": self.reason,
            "witness": dict(self.witness),
        }


def combine_answers(holds: Mapping[str, bool | None]) -> bool | None:
    """Whether an arm can have the values, from what holds of each question that was asked.

    No where "possible" or "consistent" is no; undecided, None, where "consistent" is, or "possible" if that alone was
    asked: what is consistent is possible.
    """
    asked = [holds[question] for question in ("consistent", "positive_definite") if question in holds]
    if False in asked:
        return False
    return asked[0] if asked else True
