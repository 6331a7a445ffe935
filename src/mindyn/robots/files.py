"""Reading robot files with care: size limits, safe XML, numbers that name where they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import RobotFileError

LARGEST_FILE: Final = 64 * 2**20
"""A robot description is text; anything larger is the wrong file. Bytes."""


def read_text(path: Path) -> str:
    """The text of a robot file; refuses what is missing, a folder, too large or not UTF-8."""
    if not path.exists():
        raise RobotFileError(f"there is no file {str(path)!r}", hint=f"paths are taken from {str(Path.cwd())!r}")
    if not path.is_file():
        raise RobotFileError(f"{str(path)!r} is not a file", hint="name the file inside it")
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise RobotFileError(
            f"{path.name} has {size / 2**20:.0f} MiB; a robot description has at most {LARGEST_FILE / 2**20:.0f} MiB",
            hint="was a mesh, a log or an archive given in place of the robot?",
        )
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RobotFileError(f"{path.name} is not UTF-8 text (byte {error.start})") from error


class _NoDoctype(ElementTree.TreeBuilder):
    """A tree builder that stops at a document type, before any entity can be declared or expanded."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        del name, pubid, system
        raise RobotFileError(
            "the XML declares a document type; entities are refused: they can expand without bound or read files"
        )


def parse_xml(text: str, what: str) -> ElementTree.Element:
    """The root element of an XML text without DTD and entities."""
    parser = ElementTree.XMLParser(target=_NoDoctype())
    try:
        parser.feed(text.removeprefix("\ufeff"))
        return parser.close()
    except ElementTree.ParseError as error:
        line, column = error.position
        raise RobotFileError(
            f"{what} is not well-formed XML: {error.msg if hasattr(error, 'msg') else error}",
            hint=f"look at line {line}, column {column}; is the file complete?",
        ) from error


def numbers(text: str | None, count: int, what: str) -> Array:
    """`count` finite numbers separated by blanks."""
    words = (text or "").split()
    try:
        values = np.array([float(word) for word in words])
    except ValueError as error:
        raise RobotFileError(f"{what} must be {count} numbers, got {text!r}") from error
    if len(values) != count:
        raise RobotFileError(f"{what} must be {count} numbers, got {len(values)}: {text!r}")
    if not np.isfinite(values).all():
        raise RobotFileError(f"{what} must be finite, got {text!r}")
    return values


def number(text: str | None, what: str) -> float:
    """One finite number."""
    return float(numbers(text, 1, what)[0])
