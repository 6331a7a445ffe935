"""Names and texts that may hold anything, as each kind of file that mindyn writes can hold them.

One function for each target: TOML (`toml_string`, `toml_key`), XML (`xml_document`), C (`c_comment`, `c_include`), text
templates (`filled`) and the terminal (`printable`). What a target cannot hold at all is an `ExportError` that names it.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final
from xml.etree.ElementTree import Element, indent, tostring

from mindyn.errors import ExportError

TERMINAL_COLUMNS: Final[ContextVar[int | None]] = ContextVar("columns", default=None)
"""That a table of text may take: the command line sets those of its terminal; None: as many as it needs."""
_INVALID_IN_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that no XML 1.0 document can hold, escaped or not."""
_INVALID_IN_ATTRIBUTES: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Further the blanks and controls that readers of XML, and of names, replace or strip."""
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_PLACEHOLDER: Final = re.compile(r"@([A-Z]+)@")


def toml_string(text: str) -> str:
    """A TOML basic string: JSON's escapes are a subset of TOML's, once DEL is escaped too."""
    _require_unicode(text, "TOML")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_key(key: str) -> str:
    """A TOML key: bare where it can be."""
    return key if _BARE_KEY.fullmatch(key) else toml_string(key)


def _require_unicode(text: str, target: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ExportError(f"{target} cannot hold {text!r}: half of a surrogate pair is no character") from error


def xml_document(root: Element, *, declaration: bool = False, keep_whitespace: bool = False, above: str = "") -> str:
    """The text of an XML tree; refuses names and texts that a reader would not give back as they are.

    as_it_stands  blanks between elements stay: for a file of the user's that was edited; else they are indented
    above         comments that stand before the root
    """
    for element in root.iter():
        if _is_comment(element):
            element.text = _INVALID_IN_XML.sub("_", str(element.text or ""))
            continue
        for value in element.attrib.values():
            if _INVALID_IN_ATTRIBUTES.search(value):
                raise ExportError(f"XML cannot hold the name {value!r}: it has control characters", hint="rename it")
        if element.text and _INVALID_IN_XML.search(element.text):
            raise ExportError(f"XML cannot hold the text {element.text!r}: it has control characters")
    if not keep_whitespace:
        indent(root)
    head = '<?xml version="1.0"?>\n' if declaration else ""
    return f"{head}{_INVALID_IN_XML.sub('_', above)}{tostring(root, encoding='unicode')}\n"


def _is_comment(element: Element) -> bool:
    tag: object = element.tag  # of a comment, the function that made it
    return not isinstance(tag, str)


def xml_comment(text: str) -> str:
    """A text that cannot end the comment that it stands in."""
    return f" {text.replace('--', '- -')} "


def c_comment(text: str) -> str:
    """`text` on one line of plain ASCII that can neither close a comment, open one, continue a line, nor form a
    trigraph.
    """
    plain = "".join(c if " " <= c <= "~" else " " if c.isspace() else "_" for c in text)
    plain = plain.replace("\\", "/").replace("?", "_")
    while "*/" in plain or "/*" in plain:
        plain = plain.replace("*/", "* /").replace("/*", "/ *")
    # A slash at the end and a star at the beginning would join with the comment's own marks.
    return plain.strip("*/ ")


def c_include(file: str) -> str:
    """The line that includes a header: C has no escapes in a header's name, and compilers differ on odd ones."""
    if not re.fullmatch(r"[A-Za-z0-9_./+ -]+", file) or "//" in file:
        raise ExportError(
            f"C cannot include a header called {file!r}",
            hint="name the file with letters, digits, blanks, and . _ + - alone",
        )
    return f'#include "{file}"'


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """A template with each @NAME@ replaced, once: what values hold is not looked at again."""
    return _PLACEHOLDER.sub(lambda place: values.get(place[1], place[0]), template)


def make_printable(text: str, keep: str = "") -> str:
    """A text for the terminal: characters that move the cursor, change colours or hide others are shown as escapes."""
    return "".join(c if c in keep else _escape_hidden(c) for c in text)


def _escape_hidden(character: str) -> str:
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    return character.encode("unicode_escape").decode("ascii") if hidden else character
