"""Reading robot files with care: size limits, safe XML, numbers that name where they stand."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import RobotFileError, shorten_text
from mindyn.reading import MAX_ENTRIES, InputBudget, describe_exception, require_file

MAX_FILE_BYTES: Final = 64 * 2**20
"""A robot description is text; anything larger is the wrong file. Bytes."""
_REJECTED_ENCODINGS: Final = ("punycode", "idna", "undefined", "unicode-escape", "raw-unicode-escape")
"""Codecs of Python that are not encodings of files; punycode takes time by the square of the length."""
MAX_TAG_DEPTH: Final = 500
"""Elements inside elements; MuJoCo's own reader has this limit too."""
MAX_FILE_NUMBER: Final = 1e15
"""Of lengths, masses and inertias, in SI units: products of a few of them stay finite."""


def read_text(path: Path) -> str:
    """The text of a robot file; refuses what is missing, a folder, too large or not UTF-8."""
    size = require_file(path, "file", RobotFileError)
    if size > MAX_FILE_BYTES:
        raise RobotFileError(
            f"{path.name} has {size / 2**20:.0f} MiB; a robot description has at most {MAX_FILE_BYTES / 2**20:.0f} MiB",
            hint="was a mesh, a log or an archive given in place of the robot?",
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RobotFileError(f"{path.name} cannot be read: {describe_exception(error)}") from error
    encoding = _detect_encoding(content)
    try:
        if codecs.lookup(encoding).name in _REJECTED_ENCODINGS:
            raise LookupError(encoding)
        return content.decode(encoding)
    except (UnicodeError, LookupError) as error:
        where = f" (byte {error.start})" if isinstance(error, UnicodeDecodeError) else ""
        name = "UTF-8" if encoding == "utf-8-sig" else f"UTF-8 or {encoding}"
        raise RobotFileError(f"{path.name} is not {name} text{where}", hint="save it as UTF-8") from error


def _detect_encoding(content: bytes) -> str:
    """The encoding by byte order mark or XML declaration; UTF-8 where there is neither."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    declared = re.match(rb"""\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""", content[:300])
    name = declared[1].decode("ascii").lower() if declared else "utf-8"
    return "utf-8-sig" if name in ("utf-8", "utf8", "us-ascii", "ascii", "utf-16") else name


def parse_xml(text: str, what: str, *, comments: bool = False) -> Element:
    """The root element of an XML text without entities of its own; prefixes of names stay as they are written.

    Namespaces are not resolved: files declare them or not (`<sensor:camera>`), and no reader of robots asks.
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
    if _UNKNOWN_ENTITY.search(text):  # with a document type the parser would leave out what it does not know
        parser.StartDoctypeDeclHandler = _reject_entities
    if comments:
        parser.CommentHandler = builder.comment
    try:
        parser.Parse(text.removeprefix("\ufeff").lstrip(), True)
        return builder.close()
    except (expat.ExpatError, UnicodeEncodeError) as error:
        place = f"look at line {error.lineno}, column {error.offset}; " if isinstance(error, expat.ExpatError) else ""
        reason = expat.ErrorString(error.code) if isinstance(error, expat.ExpatError) else str(error)
        raise RobotFileError(
            f"{what} is not well-formed XML: {reason}", hint=f"{place}is the file complete?"
        ) from error


def find_leading_comments(text: str) -> str:
    """The comments before the root element of an XML text, such as a licence; a parsed tree does not have them."""
    head = re.match(r"(?:\s|<\?.*?\?>|<!--.*?-->)*", text.removeprefix("\ufeff"), re.DOTALL)
    return "".join(f"{comment}\n" for comment in re.findall(r"<!--.*?-->", head[0] if head else "", re.DOTALL))


_UNKNOWN_ENTITY: Final = re.compile(r"&(?!(amp|lt|gt|quot|apos|#[0-9]+|#x[0-9a-fA-F]+);)")
"""A reference to an entity that XML does not define itself."""


def _reject_entities(*_: object) -> None:
    """Stops where an entity is declared, before it can be expanded; a document type alone is read over."""
    raise RobotFileError(
        "the document type of the XML has entities, which are refused: they can expand without bound or read files",
        hint="write their text in their place",
    )


XACRO_HINT: Final = "expand it first: pip install xacro, then xacro robot.xacro > robot.urdf"
"""What to do with a file in the macro language that URDFs are made from."""


def parse_numbers(text: str | None, count: int, what: str, largest: float = MAX_FILE_NUMBER) -> Array:
    """`count` finite numbers separated by blanks."""
    if text is None:
        raise RobotFileError(f"{what} is not stated; nothing is assumed in its place")
    words, shown = text.split(), shorten_text(text, 200)
    wanted = "a number" if count == 1 else f"{count} numbers"
    if len(words) != count:
        given = f"{shown!r}" if count == 1 else f"{len(words)}: {shown!r}"
        raise RobotFileError(f"{what} must be {wanted}, got {given}", hint=_explain_bad_numbers(text))
    try:
        values = np.array([float(word) for word in words])
    except ValueError as error:
        raise RobotFileError(f"{what} must be {wanted}, got {shown!r}", hint=_explain_bad_numbers(text)) from error
    if not np.isfinite(values).all():
        raise RobotFileError(f"{what} must be finite, got {shown!r}")
    if np.abs(values).max() > largest:
        raise RobotFileError(f"{what} must be at most {largest:g} in SI units, got {shown!r}")
    return values


def _explain_bad_numbers(text: str) -> str:
    """The likeliest cause of numbers that are none."""
    if "${" in text or "$(" in text:
        return XACRO_HINT
    if re.search(r"[0-9.][dD][+-]?[0-9]", text):
        return "write e in place of d before an exponent"
    return "numbers are separated by blanks, decimals by a point" if "," in text else ""


def parse_number(text: str | None, what: str, largest: float = MAX_FILE_NUMBER) -> float:
    """One finite number."""
    return float(parse_numbers(text, 1, what, largest)[0])
