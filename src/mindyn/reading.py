"""Reading files that others made: regular files alone, of a size that is plausible, and errors that say what was wrong.

Limits that no honest file meets are stated here, once; `MINDYN_LIMITS=off` in the environment lifts those on sizes.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any, Final

from mindyn.errors import MindynError, shortened

LARGEST_SETTINGS: Final = 2**20
"""Bytes of a file of settings (a sidecar, limits, bounds): a thousand joints take less."""
LARGEST_RECORD: Final = 2**28
"""Bytes of a file that mindyn itself wrote as JSON (an estimate, a plan)."""
PLAIN_NUMBERS: Final = 2**26
"""Numbers that any log may hold: half a gigabyte, an hour and a half of a 6R arm's positions and torques at 1 kHz."""
NUMBERS_PER_BYTE: Final = 8
"""Of larger logs: what a byte of the file may stand for. Measured numbers have noise: they take a byte and more."""
DEEPEST_KEY: Final = 64
"""Parts of a dotted TOML key: tomllib takes memory by the square of their number, 1.5 GB for a key of 40 kB."""
LIFT: Final = "MINDYN_LIMITS=off in the environment lifts the limit, if the file is right"

# Linear in the text: it begins between words alone, and no repetition gives back what it took.
_PART: Final = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_DEEP_KEY: Final = re.compile(rf"""(?<![\w"'.-])(?:{_PART}\.[ \t]*+){{{DEEPEST_KEY}}}""")


def limited() -> bool:
    """Whether limits on sizes hold."""
    return os.environ.get("MINDYN_LIMITS", "").lower() != "off"


def _one(what: str) -> str:
    """The word with its article."""
    return f"{'an' if what[0] in 'aeiou' else 'a'} {what}"


def require_file(path: Path, what: str, error: type[MindynError]) -> int:
    """The bytes of a regular file, or of what a link leads to; refuses pipes and devices, which may never end."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise error(
            f"there is no {what} {shortened(str(path), 300)!r}", hint=f"paths are taken from {str(Path.cwd())!r}"
        ) from None
    except (OSError, ValueError) as problem:
        raise error(f"{what} {shortened(str(path), 300)!r} cannot be read: {reason_of(problem)}") from problem
    if stat.S_ISDIR(status.st_mode):
        raise error(f"{shortened(str(path), 300)!r} is a folder, not {_one(what)}", hint="name the file inside it")
    if not stat.S_ISREG(status.st_mode):
        raise error(
            f"{shortened(str(path), 300)!r} is no regular file (a device, a pipe or a socket), as {_one(what)} must be",
            hint="write what it gives into a file first",
        )
    return status.st_size


def read_small_text(path: Path, what: str, error: type[MindynError], largest: int, hint: str = "") -> str:
    """The UTF-8 text of a regular file of at most `largest` bytes."""
    size = require_file(path, what, error)
    if size > largest and limited():
        raise error(
            f"{path.name} has {size / 2**20:.3g} MiB; a {what} has at most {largest / 2**20:.3g} MiB",
            hint=f"was another file given in its place? {LIFT}",
        )
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError, MemoryError) as problem:
        raise error(f"{path.name} cannot be read as {what}: {reason_of(problem)}", hint=hint) from problem


def read_toml(path: Path, what: str, error: type[MindynError], hint: str = "") -> dict[str, Any]:
    """The table of a TOML file of settings."""
    return parse_toml(read_small_text(path, what, error, LARGEST_SETTINGS, hint), f"{path.name}", error, hint)


def parse_toml(text: str, name: str, error: type[MindynError], hint: str = "") -> dict[str, Any]:
    """The table of a TOML text; keys and brackets that are nested beyond reason are refused before they cost memory."""
    if _DEEP_KEY.search(text):
        raise error(f"{name} has a dotted key of more than {DEEPEST_KEY} parts", hint=hint)
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as problem:  # of TOML, or of an integer of too many digits
        reason = "its brackets are nested too deep" if isinstance(problem, RecursionError) else str(problem)
        raise error(f"{name} is not valid TOML: {shortened(reason, 300)}", hint=hint) from problem


def read_json(path: Path, what: str, error: type[MindynError], hint: str = "") -> dict[str, Any]:
    """The table of a JSON file that mindyn wrote; refuses other values at its top."""
    text = read_small_text(path, what, error, LARGEST_RECORD, hint)
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as problem:
        reason = "its brackets are nested too deep" if isinstance(problem, RecursionError) else str(problem)
        raise error(f"{path} cannot be read as {_one(what)}: {shortened(reason, 300)}", hint=hint) from problem
    if not isinstance(values, dict):
        raise error(f"{path} is no {what}: it holds no table", hint=hint)
    return values


def require_plausible(numbers: int, size: int, name: str, error: type[MindynError]) -> None:
    """Refuse a file whose `size` bytes claim to hold far more numbers than measurements can be packed into."""
    if limited() and numbers > max(PLAIN_NUMBERS, NUMBERS_PER_BYTE * size):
        raise error(
            f"{name} claims to hold {numbers:.3g} numbers in {size} bytes",
            hint=f"the file is damaged, or made to fill the memory; {LIFT}",
        )


def reason_of(problem: BaseException) -> str:
    """An exception of a library or the system in one short line."""
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    if isinstance(problem, MemoryError):
        return "it does not fit into memory"
    first = next(iter(str(problem).splitlines()), "")
    return shortened(f"{first} ({type(problem).__name__})" if first else type(problem).__name__, 300)
