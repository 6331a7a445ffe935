"""`SidecarDraft`: the lines that a sidecar would have, each with its evidence, `?` for what only the user can know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mindyn.escaping import make_printable, toml_key, toml_string

UNANSWERED: Final = "?"


@dataclass(frozen=True, slots=True)
class DraftLine:
    """One line of a draft.

    key       as in a sidecar, with a point before the entry of a table: units.torque
    value     what it would say; "?" where only the user can know
    evidence  why
    """

    key: str
    value: Any
    evidence: str

    @property
    def is_question(self) -> bool:
        """Whether only the user can know."""
        return bool(self.value == UNANSWERED)


@dataclass(frozen=True, slots=True, eq=False)
class SidecarDraft:
    """What a log seems to be: the lines of a sidecar, each with its evidence, and what else is worth knowing."""

    name: str
    beliefs: tuple[DraftLine, ...]
    notes: tuple[str, ...] = ()

    @property
    def questions(self) -> tuple[str, ...]:
        """Keys that only the user can answer."""
        return tuple(one.key for one in self.beliefs if one.is_question)

    def value(self, key: str) -> Any:
        """What the draft says of a key; None where it says nothing."""
        return next((one.value for one in self.beliefs if one.key == key), None)

    def stating(self, belief: DraftLine) -> SidecarDraft:
        """The draft with another line for the belief's key."""
        if all(one.key != belief.key for one in self.beliefs):
            return replace(self, beliefs=(*self.beliefs, belief))
        return replace(self, beliefs=tuple(belief if one.key == belief.key else one for one in self.beliefs))

    def without(self, key: str) -> SidecarDraft:
        """The draft without the lines of a key: its own, those of its table's entries, or that of the whole table."""
        table = key.partition(".")[0]
        kept = [one for one in self.beliefs if one.key not in (key, table) and not one.key.startswith(f"{key}.")]
        return replace(self, beliefs=tuple(kept))

    def noting(self, *notes: str) -> SidecarDraft:
        """The draft with further notes."""
        return replace(self, notes=(*self.notes, *notes))

    def stated(self) -> dict[str, Any]:
        """The keys of a sidecar, without those that are questions."""
        made: dict[str, Any] = {}
        for one in self.beliefs:
            if not one.is_question:
                key, _, entry = one.key.partition(".")
                made = {**made, key: {**made.get(key, {}), entry: one.value} if entry else one.value}
        return made

    def toml(self, *, confirmed: bool = False) -> str:
        """The text of the sidecar; unless it is confirmed, `read_log` refuses it."""
        lines = [f"# What the columns of {self.name} seem to mean."]
        if not confirmed:
            lines += [
                "# Put what is right in place of each ?, mend what is wrong, and delete the next line.",
                "draft = true",
            ]
        lines += [f"# note: {_join_lines(note)}" for note in self.notes]
        # Tables come last, as TOML wants it.
        for one in sorted(self.beliefs, key=lambda belief: belief.key.partition(".")[0] in DRAFT_TABLES):
            mark = "?  " if one.is_question else ""
            lines.append(f"{one.key} = {format_toml_value(one.value)}  # {mark}{_join_lines(one.evidence)}")
        return "\n".join(lines) + "\n"


def _join_lines(text: str) -> str:
    return make_printable(" ".join(text.split()))


DRAFT_TABLES: Final = ("columns", "units", "side", "files")


def format_toml_value(value: Any) -> str:
    """A number, text, list or table as TOML writes it."""
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml_key(key)} = {format_toml_value(one)}" for key, one in value.items()) + " }"
    return f"[{', '.join(map(format_toml_value, value))}]" if isinstance(value, Sequence) else repr(value)
