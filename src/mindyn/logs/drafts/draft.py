"""`SidecarDraft`: proposed lines of a sidecar file, each with its reason; `?` marks values that the user must give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from mindyn.foundation.algebra.values import ShortRepr
from mindyn.foundation.escaping import format_toml_value
from mindyn.foundation.printable import make_printable

UNANSWERED: Final = "?"


@dataclass(frozen=True, slots=True)
class DraftLine:
    """Line of a draft.

    key       key of the sidecar, with a dot before the entry of a table: units.torque
    value     proposed value; "?" if the user must give it
    evidence  reason for the value
    is_given  whether the user gave the value; a draft keeps such lines
    """

    key: str
    value: Any
    evidence: str
    is_given: bool = False

    @property
    def is_question(self) -> bool:
        """Whether the user must give the value."""
        return bool(self.value == UNANSWERED)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SidecarDraft(ShortRepr):
    """Proposed sidecar of a log: lines with their evidence, and notes."""

    name: str
    lines: tuple[DraftLine, ...]
    notes: tuple[str, ...] = ()

    @property
    def questions(self) -> tuple[str, ...]:
        """Keys whose value the user must give."""
        return tuple(line.key for line in self.lines if line.is_question)

    def value(self, key: str) -> Any:
        """Return the value of a key, or of a whole table if the key is one word without a dot; None if the draft has no
        such line.
        """
        lines = {line.key: line.value for line in self.lines}
        return lines.get(key, lines.get(key.partition(".")[0]))

    def is_given(self, key: str) -> bool:
        """Return whether the user gave the value of a key, or of its whole table."""
        return any(line.is_given and line.key in (key, key.partition(".")[0]) for line in self.lines)

    def with_given(self, given: Mapping[str, Any]) -> SidecarDraft:
        """Return the draft with values that the user gives, by key; "" removes an entry."""
        draft = self
        for key, value in given.items():
            line = DraftLine(key, value, "given by you", is_given=True)
            draft = draft.without_key(key)
            draft = draft if value == "" else replace(draft, lines=(*draft.lines, line))
        return draft

    def with_line(self, key: str, value: Any, evidence: str) -> SidecarDraft:
        """Return the draft with this line instead of a line with the same key.

        Lines that the user gave are not replaced.
        """
        if self.is_given(key):
            return self
        lines = {line.key: line for line in self.lines} | {key: DraftLine(key, value, evidence)}
        return replace(self, lines=tuple(lines.values()))

    def without_key(self, key: str) -> SidecarDraft:
        """Return the draft without a key: without its line, the lines of its table's entries, or the whole table."""
        table = key.partition(".")[0]
        kept = [line for line in self.lines if line.key not in (key, table) and not line.key.startswith(f"{key}.")]
        return replace(self, lines=tuple(kept))

    def with_notes(self, *notes: str) -> SidecarDraft:
        """Return the draft with further notes."""
        return replace(self, notes=(*self.notes, *notes))

    def to_metadata(self) -> dict[str, Any]:
        """Return the keys of the sidecar that have a value."""
        metadata: dict[str, Any] = {}
        for line in self.lines:
            if not line.is_question:
                key, _, entry = line.key.partition(".")
                metadata = {**metadata, key: {**metadata.get(key, {}), entry: line.value} if entry else line.value}
        return metadata

    def toml(self, *, confirmed: bool = False) -> str:
        """Return the text of the sidecar; `read_log` rejects it until it is confirmed."""
        text = [f"# Metadata of {self.name}, guessed from its names and numbers."]
        if not confirmed:
            text += ["# Replace each ? by a value, correct what is wrong, and delete the next line.", "draft = true"]
        text += [f"# note: {_join_lines(note)}" for note in self.notes]
        # TOML requires that tables come last.
        for line in sorted(self.lines, key=lambda entry: entry.key.partition(".")[0] in DRAFT_TABLES):
            mark = "?  " if line.is_question else ""
            text.append(f"{line.key} = {format_toml_value(line.value)}  # {mark}{_join_lines(line.evidence)}")
        return "\n".join(text) + "\n"


def _join_lines(text: str) -> str:
    return make_printable(" ".join(text.split()))


DRAFT_TABLES: Final = ("columns", "units", "side", "files")


def flatten_metadata(metadata: Mapping[str, Any], *, asked: bool = False) -> dict[str, Any]:
    """Return the keys of a sidecar as they are written in a draft, with a dot between a table and its entry.

    asked  also return keys whose value is a question
    """
    flat: dict[str, Any] = {}
    for key, value in metadata.items():
        entries = value.items() if key in DRAFT_TABLES and isinstance(value, Mapping) else [("", value)]
        flat |= {f"{key}.{entry}" if entry else key: item for entry, item in entries}
    return {key: value for key, value in flat.items() if key != "draft" and (asked or value != UNANSWERED)}
