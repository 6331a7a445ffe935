"""`make_printable`: show characters that move the cursor, change colours or hide others as escapes."""

from __future__ import annotations

import unicodedata
from typing import Final

_HIDDEN_CATEGORIES: Final = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories of control and format characters, unpaired surrogates, and line and paragraph separators."""


def make_printable(text: str, keep: str = "") -> str:
    """Return a text for people: characters that move the cursor, change colours or hide others become escapes.

    keep  characters to leave as they are, such as the end of a line
    """
    if text.isprintable():
        return text
    return "".join(c if c in keep else _escape_hidden(c) for c in text)


def _escape_hidden(character: str) -> str:
    hidden = unicodedata.category(character) in _HIDDEN_CATEGORIES
    return character.encode("unicode_escape").decode("ascii") if hidden else character
