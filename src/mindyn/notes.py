"""`Note`: one thing worth knowing about a result, with a kind for programs and a sentence for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def grouped(notes: Iterable[Note], summaries: Mapping[str, str]) -> tuple[Note, ...]:
    """The notes, several of one kind as one with the single sentences as its details.

    summaries  for kinds that are grouped the sentence of several, with `{count}` in it; they come last, in this order,
               so that what is rare is seen first
    """
    given = list(notes)
    made = [note for note in given if note.kind not in summaries]
    for kind, sentence in summaries.items():
        alike = [note for note in given if note.kind == kind]
        if len(alike) > 1:
            cases = tuple(case for note in alike for case in note.details or (note.sentence,))
            alike = [Note(kind, sentence.format(count=len(cases)), cases)]
        made += alike
    return tuple(made)
