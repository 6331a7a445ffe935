"""Reading files that others made: regular files alone, of a size that is plausible, and errors that say what was wrong.

Limits that no honest file meets are stated here, once; `MINDYN_LIMITS=off` in the environment lifts those on sizes.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mindyn.errors import MindynError, shorten_text

MAX_SETTINGS_BYTES: Final = 2**20
"""Bytes of a file of settings (a sidecar, limits, bounds): a thousand joints take less."""
MAX_RECORD_BYTES: Final = 2**26
"""Bytes of a file that mindyn itself wrote as JSON (an estimate, a plan)."""
ALWAYS_ALLOWED_BYTES: Final = 2**28
"""Bytes that any file may become: 45 minutes of a 6R arm's positions and torques at 1 kHz. To read them takes 4 times
as much memory at most."""
NUMBER_BYTES: Final = 8
"""Bytes that a number takes once it is read, however short it is in the file."""
MAX_EXPANSION_RATIO: Final = 64
"""What a byte of a larger file may become. Measured numbers have noise: eight bytes of them take a byte and more."""
MAX_COLUMNS: Final = 2**15
"""Columns of a log; in memory a column of JSON takes 10 kB, however few rows it has."""
MAX_ENTRIES: Final = 2**20
"""Keys, lists and elements of an estimate, a plan or a robot file; in memory each takes up to 400 bytes."""
MAX_TOML_KEYS: Final = 2**18
"""Parts of the keys of a TOML file; tomllib takes a kilobyte for each."""
MAX_NESTING: Final = 64
"""Lists and objects inside each other, and parts of a dotted TOML key: tomllib takes memory by their square."""
LIFT_LIMITS_HINT: Final = "MINDYN_LIMITS=off in the environment lifts the limit, if the file is right"

ALLOW_OUTSIDE_FILES: Final = ContextVar("OUTSIDE_FILES", default=False)
"""Whether sidecar files may name files outside of the folder of their log, where no argument says so."""

# Linear in the text: no repetition gives back what it took; a JSON text that does not end reaches to the end of its
# line, and no TOML key begins at an escaped quote.
_STRING: Final = rb'"(?:[^"\\\n]|\\.)*+(?:"|\\?$)'
_PART: Final = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+"""
_KEY: Final = re.compile(rf"""(?<![\w"'.\\-]){_PART}(?:\.[ \t]*+{_PART})*+(?=[=\]])""")
_DEEP_KEY: Final = re.compile(rf"""(?<![\w"'.\\-])(?:{_PART}\.[ \t]*+){{{MAX_NESTING}}}""")
_JSON_VALUES: Final = re.compile(rb"(" + _STRING + rb"[ \t\r]*+:)|" + _STRING + rb"|[^\"{}\[\]\n]+", re.MULTILINE)
_JSON_TOKENS: Final = re.compile(_STRING + rb"|[{}\[\]]", re.MULTILINE)


@dataclass(slots=True)
class InputBudget:
    """What a file may ask for. Readers take a declared amount from it before they use memory or time for it.

    name  of the file, for messages
    size  bytes of the file
    """

    name: str
    size: int
    error: type[MindynError]
    max_keys: int = MAX_COLUMNS
    max_depth: int = MAX_NESTING
    unpacked: int = 0
    keys: int = 0
    paths: dict[tuple[int, bytes], int] = field(default_factory=dict)

    def take_bytes(self, count: int) -> None:
        """Raise if the file becomes larger than measurements of its size can be."""
        self.unpacked += count
        if self.unpacked > max(ALWAYS_ALLOWED_BYTES, MAX_EXPANSION_RATIO * self.size):
            self._reject(f"claims to hold {self.unpacked / 8:.3g} numbers in {self.size} bytes")

    def take_keys(self, count: int = 1) -> None:
        """Raise if there are too many columns, entries or elements."""
        self.keys += count
        if self.keys > self.max_keys:
            self._reject(f"has more than {self.max_keys} columns, keys or elements")

    def require_depth(self, depth: int) -> None:
        """Raise if lists, objects or keys are nested too deep."""
        if depth > self.max_depth:
            self._reject(f"is nested more than {self.max_depth} deep")

    def take_json(self, text: bytes) -> None:
        """Take the keys that JSON texts, one a line, have together; raise if one of them is nested too deep.

        A key counts once for each path to it: lines of a log repeat the same keys.
        """
        for shape in set(_JSON_VALUES.sub(rb"\1", text).split(b"\n")):
            stack, place = [0], 0
            for token in _JSON_TOKENS.findall(shape):
                if token in b"{[":
                    stack.append(place)
                    self.require_depth(len(stack) - 1)
                elif token in b"}]":
                    place = stack.pop() if len(stack) > 1 else 0
                else:
                    place = self.paths.setdefault((stack[-1], token), len(self.paths) + 1)
                    self.take_keys(max(0, place - self.keys))

    def _reject(self, claim: str) -> None:
        if are_limits_active():
            raise self.error(
                f"{self.name} {claim}", hint=f"the file is damaged, or made to fill the memory; {LIFT_LIMITS_HINT}"
            )


def are_limits_active() -> bool:
    """Whether limits on sizes hold."""
    return os.environ.get("MINDYN_LIMITS", "").lower() != "off"


def _add_article(what: str) -> str:
    """The word with its article."""
    return f"{'an' if what[0] in 'aeiou' else 'a'} {what}"


def require_file(path: Path, what: str, error: type[MindynError]) -> int:
    """The bytes of a regular file, or of what a link leads to; refuses pipes and devices, which may never end."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise error(
            f"there is no {what} {shorten_text(str(path), 300)!r}", hint=f"paths are taken from {str(Path.cwd())!r}"
        ) from None
    except (OSError, ValueError) as problem:
        raise error(
            f"{what} {shorten_text(str(path), 300)!r} cannot be read: {describe_exception(problem)}"
        ) from problem
    if stat.S_ISDIR(status.st_mode):
        raise error(
            f"{shorten_text(str(path), 300)!r} is a folder, not {_add_article(what)}", hint="name the file inside it"
        )
    if not stat.S_ISREG(status.st_mode):
        raise error(
            f"{shorten_text(str(path), 300)!r} is no regular file (a device, a pipe or a socket), as {_add_article(what)} must be",
            hint="write what it gives into a file first",
        )
    return status.st_size


def read_small_text(path: Path, what: str, error: type[MindynError], largest: int, hint: str = "") -> str:
    """The UTF-8 text of a regular file of at most `largest` bytes."""
    size = require_file(path, what, error)
    if size > largest and are_limits_active():
        raise error(
            f"{path.name} has {size / 2**20:.3g} MiB; a {what} has at most {largest / 2**20:.3g} MiB",
            hint=f"was another file given in its place? {LIFT_LIMITS_HINT}",
        )
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError, MemoryError) as problem:
        raise error(f"{path.name} cannot be read as {what}: {describe_exception(problem)}", hint=hint) from problem


def read_toml(path: Path, what: str, error: type[MindynError], hint: str = "") -> dict[str, Any]:
    """The table of a TOML file of settings."""
    return parse_toml(read_small_text(path, what, error, MAX_SETTINGS_BYTES, hint), f"{path.name}", error, hint)


def parse_toml(text: str, name: str, error: type[MindynError], hint: str = "") -> dict[str, Any]:
    """The table of a TOML text; too many or too deep keys are rejected before they cost memory."""
    budget = InputBudget(name, len(text), error, MAX_TOML_KEYS)
    budget.require_depth(MAX_NESTING + 1 if _DEEP_KEY.search(text) else 0)
    budget.take_keys(text.count("[[") + sum(key.group().count(".") + 1 for key in _KEY.finditer(text)))
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as problem:  # of TOML, or of an integer of too many digits
        reason = "its brackets are nested too deep" if isinstance(problem, RecursionError) else str(problem)
        raise error(f"{name} is not valid TOML: {shorten_text(reason, 300)}", hint=hint) from problem


def read_json(path: Path, what: str, error: type[MindynError], hint: str = "") -> dict[str, Any]:
    """The table of a JSON file that mindyn wrote; refuses other values at its top."""
    text = read_small_text(path, what, error, MAX_RECORD_BYTES, hint)
    InputBudget(path.name, len(text), error, MAX_ENTRIES).take_keys(sum(map(text.count, "[{:")))
    InputBudget(path.name, len(text), error, MAX_ENTRIES).take_json(
        text.replace("\n", " ").encode("utf-8", "surrogatepass")
    )
    try:
        values = json.loads(text)
    except ValueError as problem:
        raise error(
            f"{path} cannot be read as {_add_article(what)}: {shorten_text(str(problem), 300)}", hint=hint
        ) from problem
    if not isinstance(values, dict):
        raise error(f"{path} is no {what}: it holds no table", hint=hint)
    return values


def describe_exception(problem: BaseException) -> str:
    """An exception of a library or the system in one short line."""
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    if isinstance(problem, MemoryError):
        return "it does not fit into memory"
    first = next(iter(str(problem).splitlines()), "")
    return shorten_text(f"{first} ({type(problem).__name__})" if first else type(problem).__name__, 300)
