"""Read robot files safely: limit their size, reject XML entities, and name the file entry of every invalid number."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, RobotFileError, shorten_text
from mindyn.foundation.safe_reading import MAX_ENTRIES, InputBudget, read_small_bytes

MAX_FILE_BYTES: Final = 64 * 2**20
"""Size of a robot description; a larger file is probably not a description."""
_REJECTED_ENCODINGS: Final = ("punycode", "idna", "undefined", "unicode-escape", "raw-unicode-escape")
"""Python codecs that are not file encodings; the time of punycode grows with the square of the length."""
MAX_TAG_DEPTH: Final = 500
"""Nesting depth of elements; MuJoCo's reader has the same limit."""
MAX_FILE_NUMBER: Final = 1e15
"""Largest length, mass or inertia in SI units: products of a few of them remain finite."""


def read_text(path: Path) -> str:
    """Read the text of a robot file; raise `RobotFileError` if it is missing, too large or wrongly encoded."""
    content = read_small_bytes(path, "file", RobotFileError, MAX_FILE_BYTES)
    encoding = _detect_encoding(content)
    try:
        if codecs.lookup(encoding).name in _REJECTED_ENCODINGS:
            raise LookupError(encoding)
        return content.decode(encoding)
    except (UnicodeError, LookupError) as error:
        where = f" (byte {error.start})" if isinstance(error, UnicodeDecodeError) else ""
        name = "UTF-8" if encoding == "utf-8-sig" else f"UTF-8 or {encoding}"
        message = f"{path.name} is not {name} text{where}"
        raise RobotFileError(message, hint="save it as UTF-8", code=Code.WRONG_FORMAT, subject=path.name) from error


def _detect_encoding(content: bytes) -> str:
    """Return the encoding from the byte order mark or the XML declaration; UTF-8 if there is none."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    declared = re.match(rb"""\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""", content[:300])
    name = declared[1].decode("ascii").lower() if declared else "utf-8"
    return "utf-8-sig" if name in ("utf-8", "utf8", "us-ascii", "ascii", "utf-16") else name


def parse_xml(text: str, what: str, *, comments: bool = False) -> Element:
    """Return the root element of an XML text. Custom entities are rejected; prefixes of names are kept as written.

    Namespaces are not resolved: not all files declare them (`<sensor:camera>`), and robot readers do not need them.
    """
    builder, depth = TreeBuilder(insert_comments=comments), 0
    budget = InputBudget(what, len(text), RobotFileError, MAX_ENTRIES, MAX_TAG_DEPTH)
    budget.take_keys(text.count("<") + text.count("="))

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        budget.require_depth(depth)
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.specified_attributes = True  # without those of the document type, which each element would have anew
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, builder.data
    parser.EntityDeclHandler = _reject_entities
    if _UNKNOWN_ENTITY.search(text):  # with a document type the parser would silently drop unknown entities
        parser.StartDoctypeDeclHandler = _reject_entities
    if comments:
        parser.CommentHandler = builder.comment
    try:
        parser.Parse(text.removeprefix("\ufeff").lstrip(), True)
        return builder.close()
    except (expat.ExpatError, UnicodeEncodeError) as error:
        place = f"check line {error.lineno}, column {error.offset}; " if isinstance(error, expat.ExpatError) else ""
        reason = expat.ErrorString(error.code) if isinstance(error, expat.ExpatError) else str(error)
        message, hint = f"{what} is not well-formed XML: {reason}", f"{place}is the file complete?"
        raise RobotFileError(message, hint=hint, code=Code.WRONG_FORMAT, subject=what) from error


def require_root(root: Element, tag: str, what: str) -> None:
    """Raise `RobotFileError` if the first element of a file has another tag."""
    if root.tag != tag:
        message = f"{what} starts with <{tag}>, this file with <{shorten_text(root.tag, 60)}>"
        hint = "edit a URDF with --to urdf, and MJCF with --to mjcf"
        raise RobotFileError(message, hint=hint, code=Code.WRONG_FORMAT, subject=root.tag)


def find_leading_comments(text: str) -> str:
    """Return the comments before the root element, such as a licence, which a parsed tree does not contain."""
    head = re.match(r"(?:\s|<\?.*?\?>|<!--.*?-->)*", text.removeprefix("\ufeff"), re.DOTALL)
    return "".join(f"{comment}\n" for comment in re.findall(r"<!--.*?-->", head[0] if head else "", re.DOTALL))


_UNKNOWN_ENTITY: Final = re.compile(r"&(?!(amp|lt|gt|quot|apos|#[0-9]+|#x[0-9a-fA-F]+);)")
"""Reference to an entity that XML does not predefine."""


def _reject_entities(*_: object) -> None:
    """Stop at the declaration of an entity, before it is expanded; a document type without entities is accepted."""
    raise RobotFileError(
        "the XML declares entities, which mindyn rejects because they can expand without bound or read files",
        hint="replace each entity by its text",
        code=Code.UNSAFE_INPUT,
        subject="entities",
    )


XACRO_HINT: Final = "expand it first: pip install xacro, then xacro robot.xacro > robot.urdf"
"""Instruction for a file in the macro language from which URDF files are generated."""


def parse_numbers(text: str | None, count: int, what: str) -> Array:
    """Parse `count` finite numbers separated by spaces."""
    if text is None:
        raise RobotFileError(f"{what} is missing, and there is no default", code=Code.MISSING_VALUE, subject=what)
    words, shown = text.split(), shorten_text(text, 200)
    expected, hint = "a number" if count == 1 else f"{count} numbers", _explain_bad_numbers(text)
    if len(words) != count:
        given = f"{shown!r}" if count == 1 else f"{len(words)}: {shown!r}"
        message = f"{what} must be {expected}, got {given}"
        raise RobotFileError(message, hint=hint, code=Code.WRONG_SHAPE, subject=what)
    try:
        values = np.array([float(word) for word in words])
    except ValueError as error:
        message = f"{what} must be {expected}, got {shown!r}"
        raise RobotFileError(message, hint=hint, code=Code.WRONG_TYPE, subject=what) from error
    if not np.isfinite(values).all():
        raise RobotFileError(f"{what} must be finite, got {shown!r}", code=Code.NOT_FINITE, subject=what)
    if np.abs(values).max() > MAX_FILE_NUMBER:
        message = f"{what} must be at most {MAX_FILE_NUMBER:g} in SI units, got {shown!r}"
        raise RobotFileError(message, code=Code.OUT_OF_RANGE, subject=what)
    return values


def _explain_bad_numbers(text: str) -> str:
    """Return a hint about the likely cause of text that is not a number."""
    if "${" in text or "$(" in text:
        return XACRO_HINT
    if re.search(r"[0-9.][dD][+-]?[0-9]", text):
        return "write e instead of d before an exponent"
    return "separate numbers by spaces, and use a decimal point" if "," in text else ""


def parse_number(text: str | None, what: str) -> float:
    """Parse one finite number."""
    return float(parse_numbers(text, 1, what)[0])
