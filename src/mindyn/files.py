"""Writing whole files and folders or none: what was there before stays until its successor is complete on the disk."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from glob import escape as glob_escape
from pathlib import Path
from typing import Final

from mindyn.errors import ExportError

_WRITE_HINT: Final = "is its folder yours to write, and is there space?"
_SUCCESSOR: Final = ".mindyn-next"
"""Inside a folder: its files are complete and take the place of those of the folder (see `replacing`)."""
_MANIFEST: Final = ".replaced.json"
"""Inside a successor: the names that go where the successor has no such file."""
_ABANDONED_AGE_S: Final = 86_400.0
"""Age after which what a killed process left beside a target is removed."""


def write_file_atomically(path: str | Path, content: str | bytes) -> None:
    """Write a file (text as UTF-8) under a temporary name beside `path`, then move it there."""
    write_files_atomically({path: content})


def write_files_atomically(files: Mapping[str | Path, str | bytes]) -> None:
    """Write several files that belong together: none is moved into place before all are complete on the disk."""
    with ExitStack() as leftovers:
        pairs = [(_write_temporary(Path(path), content, leftovers), Path(path)) for path, content in files.items()]
        for temporary, target in pairs:
            with _convert_os_errors(target):
                temporary.replace(target)


def _write_temporary(target: Path, content: str | bytes, leftovers: ExitStack) -> Path:
    _require_parent(target)
    _require_regular_file(target)
    with _convert_os_errors(target):
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=_temporary_prefix(target))
        temporary = Path(name)
        leftovers.callback(temporary.unlink, missing_ok=True)
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
    return temporary


def write_folder_atomically(path: str | Path, files: Mapping[str, str]) -> None:
    """Write the texts, by their paths inside, into a temporary folder beside `path`, then move it there.

    A folder that holds anything is left as it is and refused.
    """
    target = Path(path)
    if target.is_file() or (target.is_dir() and any(target.iterdir())):
        raise ExportError(f"{str(target)!r} is there already", hint="remove it first, or name another folder")
    with replace_folder_files(target, ()) as folder, _convert_os_errors(target):
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")


@contextmanager
def replace_folder_files(path: str | Path, names: Iterable[str]) -> Iterator[Path]:
    """An empty folder to write into, whose files then replace those called `names` in the folder `path`: all or none.

    Whatever else the folder holds stays. Killed at any moment, or with the disk full, the earlier files are whole or
    the new ones are. A folder that is new or holds nothing else is exchanged at once, by one system call. One that
    holds other files, is the working folder or a mount point, or lies where the system cannot exchange, keeps its
    identity: its files are moved one by one out of a complete successor inside it, and `finish_replacement`, which
    every command that reads or writes the folder calls first, completes moves that were interrupted.
    """
    target, known = Path(path).absolute(), frozenset(names)
    _require_parent(target)
    with _convert_os_errors(target):
        finish_replacement(target)
        target = target.resolve()
        inside = target.is_dir() and not _can_exchange(target, known)
        home = target if inside else target.parent
        _remove_abandoned(home, _temporary_prefix(target))
        temporary = Path(tempfile.mkdtemp(dir=home, prefix=_temporary_prefix(target)))
    try:
        yield temporary
        with _convert_os_errors(target):
            _swap_folders(temporary, target, known)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def finish_replacement(folder: str | Path) -> None:
    """Complete the moves of `replacing` that a killed process left half done; the folder then describes one run."""
    successor = Path(folder) / _SUCCESSOR
    if not successor.is_dir() or successor.is_symlink():
        return
    with _convert_os_errors(Path(folder)):
        coming = [one for one in successor.iterdir() if one.name != _MANIFEST]
        if any(successor.iterdir()):  # without even a manifest, all moves were made
            for name in _read_manifest(successor / _MANIFEST):
                (Path(folder) / name).unlink(missing_ok=True)
        for one in coming:
            one.replace(Path(folder) / one.name)
        (successor / _MANIFEST).unlink(missing_ok=True)
        successor.rmdir()


def _read_manifest(manifest: Path) -> list[str]:
    """Names, of files in the folder itself: a folder that came from elsewhere names nothing outside it."""
    try:
        names = json.loads(manifest.read_text(encoding="utf-8"))
    except (ValueError, FileNotFoundError):
        names = None
    if not isinstance(names, list) or not all(isinstance(n, str) and n == Path(n).name and n != ".." for n in names):
        raise ExportError(
            f"{str(manifest.parent)!r} was not written by mindyn", hint="remove it, if it is not what you meant"
        )
    return names


def _swap_folders(temporary: Path, target: Path, names: frozenset[str]) -> None:
    temporary.chmod(target.stat().st_mode & 0o7777 if target.is_dir() else 0o777 & ~_umask())
    for file in temporary.rglob("*"):
        _sync_to_disk(file)
    if temporary.parent == target.parent:
        if not target.exists():
            temporary.rename(target)
            return
        if _can_exchange(target, names) and _exchange_folders(temporary, target):
            return
    going = names - {one.name for one in temporary.iterdir()}
    (temporary / _MANIFEST).write_text(json.dumps(sorted(going)), encoding="utf-8")
    _sync_to_disk(temporary / _MANIFEST)
    temporary.rename(target / _SUCCESSOR)
    finish_replacement(target)


def _can_exchange(target: Path, names: frozenset[str]) -> bool:
    """Whether another folder may take the place of this one: it is ours, nobody works in it, it holds `names` alone."""
    if not hasattr(os, "geteuid") or target.is_mount() or not os.access(target.parent, os.W_OK):
        return False
    with suppress(OSError):
        here = Path.cwd()
        if here == target or target in here.parents:
            return False
    status = target.stat()
    ours = (status.st_uid, status.st_gid) == (os.geteuid(), os.getegid())
    return ours and all(one.name in names for one in target.iterdir())


def _exchange_folders(one: Path, other: Path) -> bool:
    """Exchange two folders by one system call; False where the system or the file system has none."""
    if sys.platform == "linux":
        call, flag, here = "renameat2", 2, (-100,)  # RENAME_EXCHANGE, AT_FDCWD
    elif sys.platform == "darwin":
        call, flag, here = "renamex_np", 2, ()  # RENAME_SWAP
    else:
        return False
    function = getattr(ctypes.CDLL(None), call, None)
    if function is None:
        return False
    return bool(function(*here, os.fsencode(one), *here, os.fsencode(other), flag) == 0)


def _sync_to_disk(path: Path) -> None:
    if path.is_file():
        with path.open("r+b") as file:
            os.fsync(file.fileno())


def _remove_abandoned(home: Path, prefix: str) -> None:
    for one in home.glob(f"{glob_escape(prefix)}*"):
        with suppress(OSError):
            if time.time() - one.stat().st_mtime > _ABANDONED_AGE_S:
                shutil.rmtree(one)


def _temporary_prefix(target: Path) -> str:
    """Of the temporary names beside a target: short enough for any file system, whatever the target's own length."""
    return f".{target.name[:60]}.writing-"


@contextmanager
def _convert_os_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise ExportError(f"{str(target)!r} cannot be written: {reason}", hint=_WRITE_HINT) from error


def make_folder(path: str | Path) -> None:
    """Make a folder, and those above it, where they are not there yet."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExportError(f"{str(path)!r} cannot be a folder: {error.strerror}", hint="name another one") from error


@contextmanager
def make_output_folder(path: str | Path) -> Iterator[None]:
    """`make_folder` for what is written inside; left by an error or Ctrl-C, it removes empty ones that it made."""
    missing = _list_missing_folders(path)
    make_folder(path)
    try:
        yield
    except BaseException:
        _remove_empty(missing)
        raise


def require_writable(path: str | Path) -> None:
    """Refuses a folder that cannot be made or written into, before work that ends there; leaves nothing behind."""
    missing = _list_missing_folders(path)
    make_folder(path)
    try:
        with _convert_os_errors(Path(path)), tempfile.TemporaryFile(dir=path):
            pass
    finally:
        _remove_empty(missing)


def _list_missing_folders(path: str | Path) -> list[Path]:
    """The folder and those above it that are not there, the innermost first."""
    return [one for one in (Path(path).absolute(), *Path(path).absolute().parents) if not one.exists()]


def _remove_empty(folders: list[Path]) -> None:
    with suppress(OSError):  # the first that holds something, and those above it, stay
        for one in folders:
            one.rmdir()


def _require_regular_file(target: Path) -> None:
    """Refuses to take the place of a folder, a device or a pipe: /dev/null would be a file from then on."""
    with _convert_os_errors(target):
        if target.exists() and not target.is_file():
            what = "a folder" if target.is_dir() else "a device or a pipe"
            raise ExportError(f"{str(target)!r} cannot be written: it is {what}", hint="name a file to be written")


def _require_parent(target: Path) -> None:
    if not target.absolute().parent.is_dir():
        raise ExportError(
            f"there is no folder {str(target.parent)!r} to write {target.name} into", hint="make the folder first"
        )


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
