"""Docstrings for the reference pages: the sentence as text, the table of symbols below it as it is written."""

from typing import Any

import griffe


class PlainDocstrings(griffe.Extension):
    """Keeps columns and line ends of everything after a docstring's first paragraph."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrites the docstring of every object that is collected."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """The first paragraph as a sentence, the rest as a block of plain text."""
    first, _, rest = text.strip().partition("\n\n")
    parts = first.split("`")
    said = "`".join(part if k % 2 else _escaped(part) for k, part in enumerate(parts))
    return f"{said}\n\n```text\n{rest.rstrip()}\n```" if rest.strip() else said


def _escaped(text: str) -> str:
    """Brackets, stars and signs of order are what they are, not links, emphasis and tags."""
    for sign in "[]*<>":
        text = text.replace(sign, f"&#{ord(sign)};")
    return text
