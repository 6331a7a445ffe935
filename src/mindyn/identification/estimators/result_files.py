"""JSON files of results: each has a format, a checksum, and the paths of its logs relative to its folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from mindyn.foundation.atomic_files import locate_beside, relative_path, write_file_atomically
from mindyn.foundation.errors import Code, InputError, shorten_text
from mindyn.foundation.safe_reading import read_json
from mindyn.logs.log import SourceFile

CHECKSUM: Final = "sha256"
"""Entry with the hash of the other entries."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ResultFormat:
    """Format of the files of one type of result.

    name       value of the entry "format"
    article, title  words for the result in messages, such as "an" and "elasticity"
    file_name  name of the file in the folder of a run
    origin     hint for a missing file: what writes it
    """

    name: str
    article: str
    title: str
    file_name: str
    origin: str

    def read(self, path: str | Path, convert: Callable[[Mapping[str, Any], Path], T]) -> T:
        """Read a file, or that of the folder of a run; `convert` turns its entries into the result.

        Raise `InputError` if the file is missing, damaged, was changed, or has another format.
        """
        path = Path(path) / self.file_name if Path(path).is_dir() else Path(path)
        values = read_json(path, self.title, InputError, self.origin)
        self._require_format(values, path)
        try:
            return convert(values, path)
        except (KeyError, IndexError, AttributeError, TypeError, ValueError, OverflowError, RecursionError) as error:
            reason = shorten_text(f"{type(error).__name__} {error}", 300)
            raise InputError(f"{path} is damaged: {reason}", code=Code.UNREADABLE, subject=path) from error

    def _require_format(self, values: Mapping[str, Any], path: Path) -> None:
        given, prefix = values.get("format"), self.name.rstrip("0123456789")
        if given == self.name:
            return
        is_other_version = isinstance(given, str) and given.startswith(prefix)
        raise InputError(
            f"{path} is not {self.article} {self.title} of mindyn: its format is {shorten_text(repr(given), 100)}, "
            f"not {self.name!r}",
            hint="another version of mindyn wrote it: use that version, or identify again" if is_other_version else "",
            code=Code.WRONG_FORMAT,
            subject=path,
        )


def write_result(path: str | Path, values: Mapping[str, Any]) -> Path:
    """Write the entries of a result with their checksum; return the path."""
    return write_file_atomically(path, json.dumps(add_checksum(values), indent=1) + "\n")


def result_folder(path: str | Path, folder: str | Path | None) -> Path:
    """Return the folder of a file; `folder` is the folder that the file will be moved to, if any."""
    return Path(path).parent if folder is None else Path(folder)


def with_relative_paths(sources: Sequence[Mapping[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Return saved sources with paths relative to the folder of the file that will contain them."""
    return [{**source, "path": relative_path(source["path"], folder)} for source in sources]


def with_located_paths(sources: Sequence[SourceFile], path: Path) -> tuple[SourceFile, ...]:
    """Return the sources of a file that was read, with the paths at which their files are now."""
    return tuple(replace(source, path=locate_beside(source.path, path.parent)) for source in sources)


def add_checksum(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a file with their hash."""
    return {**values, CHECKSUM: _hash_entries(values)}


def require_unchanged(values: Mapping[str, Any], path: str | Path, *, is_required: bool = True) -> None:
    """Raise `InputError` if an entry was changed after the file was written, or if a required checksum is missing.

    For example, a changed sign of gravity, a changed axis or a changed drive ratio agrees with all other entries, but
    changes the predicted torques.
    """
    if (CHECKSUM in values or is_required) and values.get(CHECKSUM) != _hash_entries(values):
        message = f"{path} was changed after mindyn wrote it: its checksum differs"
        hint = "restore the file or identify again"
        hint += "" if is_required else f"; without the entry {CHECKSUM!r} it is read unchecked"
        raise InputError(message, hint=hint, code=Code.DISAGREEMENT, subject=CHECKSUM)


def _hash_entries(values: Mapping[str, Any]) -> str:
    """Return the hash of all entries of a file except the hash itself. Spaces and the order of keys have no effect."""
    others = {name: value for name, value in values.items() if name != CHECKSUM}
    return hashlib.sha256(json.dumps(others, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()
