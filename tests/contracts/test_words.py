"""Names and prose use the words of the field: `words.toml` lists those that they must not use."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text())
IDENTIFIERS = set(WORDS["identifiers"]["banned"])
PROSE = [re.compile(pattern, re.MULTILINE) for pattern in WORDS["prose"]["banned"]]
FOLDERS = ("src", "tests", "benchmarks", "tools", "examples")


def is_exempt(path: Path) -> bool:
    return any(path.is_relative_to(ROOT / name) for name in WORDS["exceptions"])


def parts_of(name: str) -> set[str]:
    """Return the words of an identifier, in lower case."""
    return {part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def banned_identifiers(text: str) -> set[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME and parts_of(token.string) & IDENTIFIERS}


def prose_of(text: str) -> Iterator[str]:
    """Yield comments and string literals; a key without spaces is an identifier, not prose."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def banned_prose(text: str) -> set[str]:
    return {match.group() for pattern in PROSE for match in pattern.finditer(text)}


def python_files(folders: Sequence[str] = FOLDERS) -> Iterator[Path]:
    for folder in folders:
        yield from (path for path in (ROOT / folder).rglob("*.py") if not is_exempt(path))


def test_identifiers_use_plain_words():
    used = {str(path.relative_to(ROOT)): banned_identifiers(path.read_text()) for path in python_files()}
    assert {path: names for path, names in used.items() if names} == {}


def test_file_names_use_plain_words():
    assert [str(path) for path in python_files() if parts_of(path.stem) & IDENTIFIERS] == []


def test_docstrings_messages_and_comments_use_plain_words():
    used = {
        str(path.relative_to(ROOT)): {word for part in prose_of(path.read_text()) for word in banned_prose(part)}
        for path in python_files(WORDS["prose"]["folders"])
    }
    assert {path: words for path, words in used.items() if words} == {}


def test_documentation_uses_plain_words():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "leaderboard").rglob("*.md")]
    pages += (ROOT / "examples").rglob("*.ipynb")
    used = {str(page.relative_to(ROOT)): banned_prose(page.read_text()) for page in pages if not is_exempt(page)}
    assert {page: words for page, words in used.items() if words} == {}


@pytest.mark.parametrize("text", ["what the log tells", "2 is no share", "it is refused", "\nOf one sample"])
def test_banned_prose_is_seen(text):
    assert banned_prose(text)


@pytest.mark.parametrize("name", ["untold", "ToldSubspace", "mend_values", "is_told"])
def test_banned_identifiers_are_seen(name):
    assert banned_identifiers(f"{name} = 1")
