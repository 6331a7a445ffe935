"""Escape names and texts for each kind of file that mindyn writes.

One function for each target: TOML (`toml_string`, `toml_key`), XML (`xml_document`), C (`c_comment`, `c_include`) and
text templates (`fill_template`). A text that a target cannot represent raises an `ExportError` that names the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final
from xml.etree.ElementTree import Element, indent, tostring

from mindyn.foundation.errors import Code, ExportError

TERMINAL_COLUMNS: Final[ContextVar[int | None]] = ContextVar("columns", default=None)
"""Width available for text tables; the command line sets the width of its terminal, None means unlimited."""
_INVALID_IN_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that no XML 1.0 document can contain, escaped or not."""
_INVALID_IN_ATTRIBUTES: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""In addition, whitespace and control characters that XML readers replace or strip."""
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_PLACEHOLDER: Final = re.compile(r"@([A-Z]+)@")


def toml_string(text: str) -> str:
    """Return `text` as a TOML basic string: JSON's escapes plus an escaped DEL."""
    _require_unicode(text, "TOML")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_key(key: str) -> str:
    """Return `key` as a TOML key, without quotes if possible."""
    return key if _BARE_KEY.fullmatch(key) else toml_string(key)


def _require_unicode(text: str, target: str) -> None:
    """Raise `ExportError` if a text contains an unpaired surrogate."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        message = f"{target} cannot contain {text!r}: it has an unpaired surrogate, which is not a character"
        raise ExportError(message, code=Code.INVALID_VALUE, subject=repr(text)) from error


def xml_document(root: Element, *, declaration: bool = False, keep_whitespace: bool = False, above: str = "") -> str:
    """Return the text of an XML tree; raise `ExportError` for a name or text that a reader would not return unchanged.

    keep_whitespace  keep the whitespace between elements (for an edited file of the user) instead of indenting
    above            comments to write before the root element
    """
    for element in root.iter():
        if _is_comment(element):
            element.text = _INVALID_IN_XML.sub("_", str(element.text or ""))
            continue
        for value in element.attrib.values():
            if _INVALID_IN_ATTRIBUTES.search(value):
                message = f"XML cannot contain the name {value!r}: it has control characters"
                raise ExportError(message, hint="rename it", code=Code.INVALID_VALUE, subject=repr(value))
        if element.text and _INVALID_IN_XML.search(element.text):
            message = f"XML cannot contain the text {element.text!r}: it has control characters"
            raise ExportError(message, code=Code.INVALID_VALUE, subject=repr(element.text))
    if not keep_whitespace:
        indent(root)
    head = '<?xml version="1.0"?>\n' if declaration else ""
    return f"{head}{_INVALID_IN_XML.sub('_', above)}{tostring(root, encoding='unicode')}\n"


def _is_comment(element: Element) -> bool:
    tag: object = element.tag  # the tag of a comment is the function that created it
    return not isinstance(tag, str)


def xml_comment(text: str) -> str:
    """Return `text` as the content of a comment, which it cannot end."""
    return f" {text.replace('--', '- -')} "


def c_comment(text: str) -> str:
    """Return `text` as one line of ASCII that cannot open or close a comment, continue a line or form a trigraph."""
    plain = "".join(c if " " <= c <= "~" else " " if c.isspace() else "_" for c in text)
    plain = plain.replace("\\", "/").replace("?", "_")
    while "*/" in plain or "/*" in plain:
        plain = plain.replace("*/", "* /").replace("/*", "/ *")
    # A slash at the end or a star at the beginning would combine with the delimiters of the comment.
    return plain.strip("*/ ")


def c_include(file: str) -> str:
    """Return the line that includes a header; raise `ExportError` for a file name that some compilers reject."""
    if not re.fullmatch(r"[A-Za-z0-9_./+ -]+", file) or "//" in file:
        raise ExportError(
            f"C cannot include a header called {file!r}",
            hint="use only letters, digits, spaces and . _ + - in the file name",
            code=Code.INVALID_VALUE,
            subject=file,
        )
    return f'#include "{file}"'


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Replace each @NAME@ of a template by its value. @NAME@ inside an inserted value is not replaced."""
    return _PLACEHOLDER.sub(lambda place: values.get(place[1], place[0]), template)


HARD_SPACE: Final = "\xa0"
_UNBROKEN_SPACES: Final = re.compile(
    r"(?<=\d) (?=(?:%|N|m|s|rad|Hz|kg|mm|ms)(?![\w-]))|(?<=\+-) (?=\d)|(?<=\bN) (?=m\b)"
)
"""Spaces between a number and its unit, at which lines are not wrapped."""


def keep_units_together(text: str) -> str:
    """Return the text with hard spaces between numbers and units, and inside units."""
    return _UNBROKEN_SPACES.sub(HARD_SPACE, text)


def format_toml_value(value: Any) -> str:
    """Format a number, text, list or table as TOML."""
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml_key(key)} = {format_toml_value(entry)}" for key, entry in value.items()) + " }"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(format_toml_value, value))}]"
    return repr(float(value) if isinstance(value, float) else value)  # NumPy has its own repr
