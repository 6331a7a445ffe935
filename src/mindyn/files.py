"""Writing whole files and folders or none."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from mindyn.errors import ExportError

_WRITABLE = "is its folder yours to write, and is there space?"


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write a file (text as UTF-8) under a temporary name beside `path`, then move it there."""
    target = Path(path)
    _require_parent(target)
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(target)
    except OSError as error:
        raise ExportError(f"{str(target)!r} cannot be written: {error.strerror}", hint=_WRITABLE) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def write_whole_folder(path: str | Path, files: Mapping[str, str]) -> None:
    """Write the texts, by their paths inside, into a temporary folder beside `path`, then move it there.

    A folder that holds anything is left as it is and refused.
    """
    target = Path(path)
    _require_parent(target)
    if target.is_file() or (target.is_dir() and any(target.iterdir())):
        raise ExportError(f"{str(target)!r} is there already", hint="remove it first, or name another folder")
    temporary = None
    try:
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
        for name, text in files.items():
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            (temporary / name).write_text(text, encoding="utf-8")
        temporary.chmod(0o777 & ~_umask())
        temporary.replace(target)
    except OSError as error:
        raise ExportError(f"{str(target)!r} cannot be written: {error.strerror}", hint=_WRITABLE) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def remove_files(folder: str | Path, names: Iterable[str]) -> None:
    """Remove the named files from a folder, those that are there; whatever else it holds stays."""
    for name in names:
        try:
            (Path(folder) / name).unlink(missing_ok=True)
        except OSError as error:
            raise ExportError(
                f"{str(Path(folder) / name)!r} cannot be replaced: {error.strerror}", hint="name another folder"
            ) from error


def make_folder(path: str | Path) -> None:
    """Make a folder, and those above it, where they are not there yet."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExportError(f"{str(path)!r} cannot be a folder: {error.strerror}", hint="name another one") from error


def _require_parent(target: Path) -> None:
    if not target.absolute().parent.is_dir():
        raise ExportError(
            f"there is no folder {str(target.parent)!r} to write {target.name} into", hint="make the folder first"
        )


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
