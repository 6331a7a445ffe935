"""`Note`: one thing worth knowing about a result, with a kind for programs and a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Note:
    """What a step changed, left out, assumed or doubts.

    kind      a word that stays the same when the sentence is reworded ("snapped", "left out", ...): programs ask for it
    sentence  what a person reads; `str(note)` is the sentence
    details   the single cases that the sentence sums up, one line each; shown on request
    """

    kind: str
    sentence: str
    details: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.sentence

    def to_dict(self) -> dict[str, object]:
        """The note for JSON; `Note(**...)` with a tuple of details is its inverse."""
        return {"kind": self.kind, "sentence": self.sentence, "details": list(self.details)}
