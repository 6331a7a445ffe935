"""Read files of unknown origin safely: only regular files that are not too large, with specific error messages.

The limits, which no genuine file reaches, are defined here; `MINDYN_LIMITS=off` in the environment disables those on
sizes.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from mindyn.foundation.errors import Code, InputError, MindynError, shorten_text, suggest_name

MAX_SETTINGS_BYTES: Final = 2**20
"""Size of a settings file (a sidecar, limits, bounds); settings of a thousand joints are smaller."""
MAX_RECORD_BYTES: Final = 2**26
"""Size of a JSON file that mindyn wrote (an estimate, a plan)."""
ALWAYS_ALLOWED_BYTES: Final = 2**28
"""Size in memory that any file may have: 45 minutes of positions and torques of a 6R arm at 1 kHz. Reading takes at
most 4 times as much memory."""
NUMBER_BYTES: Final = 8
"""Size of a number in memory, however short it is in the file."""
MAX_EXPANSION_RATIO: Final = 64
"""Size in memory relative to the size of the file. Measured numbers contain noise: eight bytes compress to one at
best."""
MAX_COLUMNS: Final = 2**15
"""Columns of a log; a column of JSON takes 10 kB of memory, however few rows it has."""
MAX_ENTRIES: Final = 2**20
"""Keys, lists and elements of an estimate, a plan or a robot file; each takes up to 400 bytes of memory."""
MAX_TOML_KEYS: Final = 2**18
"""Parts of the keys of a TOML file; tomllib takes a kilobyte for each."""
MAX_NESTING: Final = 64
"""Nested lists and objects, and parts of a dotted TOML key: tomllib's memory grows with their square."""
MAX_NAMED_BYTES: Final = 500_000_000
"""Size of all files that a robot file names: meshes, includes and attached models."""
MAX_TRIANGLES: Final = 5_000_000
"""Triangles of all meshes of a robot; a mesh counts once for each use."""
MAX_BODIES: Final = 10_000
"""Bodies of a robot with all copies."""
MAX_INCLUDE_DEPTH: Final = 20
"""Files that include or attach each other in a chain."""
MAX_COMPARED_FILES: Final = 10_000
"""Files of a folder that are compared with the name of a missing one."""
LIFT_LIMITS_HINT: Final = "if the file is correct, set MINDYN_LIMITS=off in the environment"

ALLOW_OUTSIDE_FILES: Final = ContextVar("OUTSIDE_FILES", default=False)
"""Default for whether sidecar files may name files outside the folder of their log."""

# Possessive repetitions do not backtrack, so that matching takes linear time. An unterminated JSON string extends to
# the end of its line, and no TOML key starts at an escaped quote.
_STRING: Final = rb'"(?:[^"\\\n]|\\.)*+(?:"|\\?$)'
_PART: Final = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+"""
_KEY: Final = re.compile(rf"""(?<![\w"'.\\-]){_PART}(?:\.[ \t]*+{_PART})*+(?=[=\]])""")
_DEEP_KEY: Final = re.compile(rf"""(?<![\w"'.\\-])(?:{_PART}\.[ \t]*+){{{MAX_NESTING}}}""")
_JSON_VALUES: Final = re.compile(rb"(" + _STRING + rb"[ \t\r]*+:)|" + _STRING + rb"|[^\"{}\[\]\n]+", re.MULTILINE)
_JSON_TOKENS: Final = re.compile(_STRING + rb"|[{}\[\]]", re.MULTILINE)


@dataclass(slots=True)
class InputBudget:
    """Limits on the memory and the number of keys that a file may use. Readers check a declared amount before they use
    it.

    name  of the file, for messages
    size  of the file in bytes
    """

    name: str
    size: int
    error: type[MindynError]
    max_keys: int = MAX_COLUMNS
    max_depth: int = MAX_NESTING
    unpacked: int = 0
    keys: int = 0
    paths: dict[tuple[int, bytes], int] = field(default_factory=dict)
    named_bytes: int = 0
    triangles: int = 0
    bodies: int = 0

    def take_bytes(self, count: int) -> None:
        """Raise an error if the file expands to more memory than measurements in a file of its size can need."""
        self.unpacked += count
        if self.unpacked > max(ALWAYS_ALLOWED_BYTES, MAX_EXPANSION_RATIO * self.size):
            self._reject(f"claims to hold {self.unpacked / 8:.3g} numbers in {self.size} bytes")

    def take_keys(self, count: int = 1) -> None:
        """Raise if there are too many columns, entries or elements."""
        self.keys += count
        if self.keys > self.max_keys:
            self._reject(f"has more than {self.max_keys} columns, keys or elements")

    def require_depth(self, depth: int) -> None:
        """Raise if lists, objects or keys are nested too deeply."""
        if depth > self.max_depth:
            self._reject(f"is nested more than {self.max_depth} levels deep")

    def take_json(self, text: bytes) -> None:
        """Count the keys of JSON texts, one per line; raise if there are too many or one text is nested too deeply.

        A key counts once for each path to it, because the lines of a log repeat the same keys.
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

    def take_file(self, path: Path, what: str) -> int:
        """Return the size of another file that this file names. Raise an error if that file is not readable, or if all
        named files are too large together.
        """
        size = require_file(path, what, self.error)
        if self.named_bytes + size > MAX_NAMED_BYTES:
            self._reject(f"names files of more than {MAX_NAMED_BYTES // 10**6} MB, with {shorten_text(path.name, 100)}")
        self.named_bytes += size
        return size

    def take_triangles(self, count: int) -> None:
        """Raise if the meshes have too many triangles together."""
        if self.triangles + count > MAX_TRIANGLES:
            self._reject(f"has meshes of more than {MAX_TRIANGLES} triangles, each use counted")
        self.triangles += count

    def take_bodies(self, count: int) -> None:
        """Raise if the file and those that it names create too many bodies together."""
        if self.bodies + count > MAX_BODIES:
            self._reject(f"creates more than {MAX_BODIES} bodies")
        self.bodies += count

    def require_include_depth(self, depth: int) -> None:
        """Raise if files include or attach each other in too long a chain."""
        if depth > MAX_INCLUDE_DEPTH:
            self._reject(f"includes or attaches files more than {MAX_INCLUDE_DEPTH} levels deep")

    def _reject(self, claim: str) -> None:
        if are_limits_active():
            hint = f"the file may be damaged, or designed to fill the memory; {LIFT_LIMITS_HINT}"
            raise self.error(f"{self.name} {claim}", hint=hint, code=Code.UNSAFE_INPUT, subject=self.name)


def require_path(value: object, what: str, error: type[MindynError] = InputError) -> None:
    """Raise an error if a value is neither a string nor a path."""
    if not isinstance(value, str | os.PathLike) or isinstance(value, bytes):
        message = f"{what} must be a name or path (str or pathlib.Path), got {type(value).__name__}"
        raise error(message, code=Code.WRONG_TYPE, subject=what)


def is_file(path: str | Path) -> bool:
    """Whether a path is a file; False, not an error, if its name is too long or its folder cannot be read."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: str | Path) -> bool:
    """Whether a path is a folder; False, not an error, if its name is too long or its parent cannot be read."""
    return os.path.isdir(path)  # noqa: PTH112


def path_exists(path: str | Path) -> bool:
    """Whether a path exists; False, not an error, if its name is too long or its folder cannot be read."""
    return os.path.exists(path)  # noqa: PTH110


def are_limits_active() -> bool:
    """Whether the limits on sizes apply."""
    return os.environ.get("MINDYN_LIMITS", "").lower() != "off"


def _add_article(what: str) -> str:
    """Return the noun with "a" or "an"."""
    return f"{'an' if what[0] in 'aeiou' else 'a'} {what}"


def suggest_file(path: Path) -> str:
    """Return "did you mean 'run1.csv'?" if the folder of a missing file has one with a similar name; otherwise ""."""
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in islice(entries, MAX_COMPARED_FILES)]
    except (OSError, ValueError):
        return ""
    same_suffix = [name for name in names if Path(name).suffix.lower() == path.suffix.lower()]
    return suggest_name(path.name, same_suffix, "") or suggest_name(path.name, names, "")


def require_file(path: Path, what: str, error: type[MindynError]) -> int:
    """Return the size of a regular file in bytes, following links; raise `error` for a pipe or device."""
    shown, subject = shorten_text(str(path), 300), path.name
    try:
        status = path.stat()
    except FileNotFoundError:
        message = f"there is no {what} '{shown}'"
        hint = suggest_file(path) or f"relative paths start at '{Path.cwd()}'"
        raise error(message, hint=hint, code=Code.MISSING_FILE, subject=subject) from None
    except (OSError, ValueError) as problem:
        message = f"{what} '{shown}' cannot be read: {describe_exception(problem)}"
        raise error(message, code=Code.UNREADABLE, subject=subject) from problem
    if stat.S_ISDIR(status.st_mode):
        message, hint = f"'{shown}' is a folder, not {_add_article(what)}", "pass the file inside it"
        raise error(message, hint=hint, code=Code.WRONG_TYPE, subject=subject)
    if not stat.S_ISREG(status.st_mode):
        message = f"'{shown}' is a device, a pipe or a socket; {_add_article(what)} must be a regular file"
        raise error(message, hint="write its content to a file first", code=Code.WRONG_TYPE, subject=subject)
    return status.st_size


def _require_small_file(path: Path, what: str, error: type[MindynError], largest: int) -> None:
    size = require_file(path, what, error)
    if size > largest and are_limits_active():
        raise error(
            f"{path.name} has {size / 2**20:.3g} MiB; {_add_article(what)} has at most {largest / 2**20:.3g} MiB",
            hint=f"did you pass another file? {LIFT_LIMITS_HINT}",
            code=Code.TOO_LARGE,
            subject=path.name,
        )


def read_small_bytes(path: Path, what: str, error: type[MindynError], largest: int) -> bytes:
    """Read a regular file of at most `largest` bytes."""
    _require_small_file(path, what, error, largest)
    try:
        return path.read_bytes()
    except (OSError, MemoryError) as problem:
        message = f"{path.name} cannot be read: {describe_exception(problem)}"
        raise error(message, code=Code.UNREADABLE, subject=path.name) from problem


def read_small_text(path: Path, what: str, error: type[MindynError], largest: int, hint: str = "") -> str:
    """Read the UTF-8 text of a regular file of at most `largest` bytes."""
    _require_small_file(path, what, error, largest)
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError, MemoryError) as problem:
        message = f"{path.name} cannot be read as {_add_article(what)}: {describe_exception(problem)}"
        raise error(message, hint=hint, code=Code.UNREADABLE, subject=path.name) from problem


def read_settings_toml(path: Path, what: str, error: type[MindynError], hint: str = "") -> dict[str, Any]:
    """Read a TOML settings file."""
    return parse_toml(read_small_text(path, what, error, MAX_SETTINGS_BYTES, hint), f"{path.name}", error, hint)


def parse_toml(text: str, name: str, error: type[MindynError], hint: str = "") -> dict[str, Any]:
    """Parse a TOML text; raise `error` before too many or too deeply nested keys use memory."""
    budget = InputBudget(name, len(text), error, MAX_TOML_KEYS)
    budget.require_depth(MAX_NESTING + 1 if _DEEP_KEY.search(text) else 0)
    budget.take_keys(text.count("[[") + sum(key.group().count(".") + 1 for key in _KEY.finditer(text)))
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as problem:  # invalid TOML, or an integer of too many digits
        reason = "its brackets are nested too deeply" if isinstance(problem, RecursionError) else str(problem)
        message = f"{name} is not valid TOML: {shorten_text(reason, 300)}"
        raise error(message, hint=hint, code=Code.WRONG_FORMAT, subject=name) from problem


def read_json(path: Path, what: str, error: type[MindynError], hint: str = "") -> dict[str, Any]:
    """Read a JSON file that mindyn wrote; raise `error` if its top level is not an object."""
    text = read_small_text(path, what, error, MAX_RECORD_BYTES, hint)
    InputBudget(path.name, len(text), error, MAX_ENTRIES).take_keys(sum(map(text.count, "[{:")))
    InputBudget(path.name, len(text), error, MAX_ENTRIES).take_json(
        text.replace("\n", " ").encode("utf-8", "surrogatepass")
    )
    try:
        values = json.loads(text)
    except ValueError as problem:
        message = f"{path} cannot be read as {_add_article(what)}: {shorten_text(str(problem), 300)}"
        raise error(message, hint=hint, code=Code.WRONG_FORMAT, subject=path.name) from problem
    if not isinstance(values, dict):
        message = f"{path} is not {_add_article(what)}: its top level is not an object"
        raise error(message, hint=hint, code=Code.WRONG_FORMAT, subject=path.name)
    return values


def describe_exception(problem: BaseException) -> str:
    """Return one short line about an exception of a library or the operating system."""
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    if isinstance(problem, MemoryError):
        return "it does not fit into memory"
    first = next(iter(str(problem).splitlines()), "")
    return shorten_text(f"{first} ({type(problem).__name__})" if first else type(problem).__name__, 300)
