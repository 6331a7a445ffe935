"""Write files and folders atomically: the previous content stays until its replacement is complete on disk."""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import cache
from glob import escape as glob_escape
from pathlib import Path
from secrets import token_hex
from typing import Final

from mindyn.foundation.errors import Code, ExportError

_WRITE_HINT: Final = "check the permissions of the folder and the free disk space"
_SUCCESSOR: Final = ".mindyn-next"
"""Folder inside a target folder with complete files that replace those of the target (see `replace_folder_files`)."""
_MANIFEST: Final = ".replaced.json"
"""File inside the successor that lists the names to remove if the successor has no such file."""
_ABANDONED_AGE_S: Final = 86_400.0
"""Age after which temporary files of a process of another machine are removed."""


def write_file_atomically(path: str | Path, content: str | bytes) -> Path:
    """Write a file, and return its path. The content (text as UTF-8) is first written under a temporary name in the
    same folder, then renamed.
    """
    return write_files_atomically({path: content})[0]


def write_files_atomically(files: Mapping[str | Path, str | bytes]) -> tuple[Path, ...]:
    """Write files that belong together, and return their paths. No file is renamed to its path before all files are
    complete on disk.

    The first file, such as a log, is moved last. If one of the other files, such as its sidecar, changes, the previous
    version of the first file is renamed before. If the process is killed at any time, no reader finds a first file
    together with other files of another version.
    """
    with ExitStack() as leftovers:
        pairs = [(_write_temporary(Path(path), content, leftovers), Path(path)) for path, content in files.items()]
        (_, first), *others = pairs
        is_changed = any(not _has_same_content(*pair) for pair in others)
        with _set_aside(first) if is_changed else nullcontext():
            for temporary, target in reversed(pairs):
                with _convert_os_errors(target):
                    temporary.replace(target)
    return tuple(target for _, target in pairs)


def _has_same_content(temporary: Path, target: Path) -> bool:
    with suppress(OSError):
        return filecmp.cmp(temporary, target, shallow=False)
    return False


@contextmanager
def _set_aside(target: Path) -> Iterator[None]:
    """Rename a file inside the block; move it back if the block fails, remove it otherwise."""
    aside = _temporary_path(target, target.parent)
    with _convert_os_errors(target), suppress(FileNotFoundError):
        target.rename(aside)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            aside.rename(target)
        raise
    with suppress(OSError):
        aside.unlink(missing_ok=True)


def _write_temporary(target: Path, content: str | bytes, leftovers: ExitStack) -> Path:
    """Write the content to a temporary file next to the target and return its path."""
    require_parent(target)
    _require_regular_file(target)
    with _convert_os_errors(target):
        _remove_abandoned(target.parent, _temporary_prefix(target))
        temporary = _temporary_path(target, target.parent)
        leftovers.callback(temporary.unlink, missing_ok=True)
        with temporary.open("xb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
    return temporary


def write_folder_atomically(path: str | Path, files: Mapping[str, str]) -> None:
    """Write texts, given by their relative paths, into a temporary folder, then move it to `path`.

    Raise `ExportError` if `path` is a file or a folder that is not empty.
    """
    target = Path(path)
    if target.is_file() or (target.is_dir() and any(target.iterdir())):
        hint = "remove it first, or use another folder"
        raise ExportError(f"'{target}' already exists", hint=hint, code=Code.DUPLICATE, subject=target.name)
    with replace_folder_files(target, ()) as folder, _convert_os_errors(target):
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")


@contextmanager
def replace_folder_files(path: str | Path, names: Iterable[str]) -> Iterator[Path]:
    """Yield an empty folder, whose files then replace the files called `names` in the folder `path`: either all of them
    or none.

    Other files of the folder stay. If the process is killed at any time, or the disk is full, the folder contains
    either all old files or all new ones. A new folder is moved to its place. An existing one keeps its identity: its
    files are moved one by one out of a complete successor folder inside it. `finish_replacement`, which every command
    that reads or writes the folder calls first, completes interrupted moves.
    """
    target, known = Path(path).absolute(), frozenset(names)
    require_parent(target)
    with _convert_os_errors(target):
        finish_replacement(target)
        target = target.resolve()
        home = target if target.is_dir() else target.parent
        _remove_abandoned(home, _temporary_prefix(target))
        temporary = _temporary_path(target, home)
        temporary.mkdir()
    try:
        yield temporary
        with _convert_os_errors(target):
            _move_files(temporary, target, known)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def finish_replacement(folder: str | Path) -> None:
    """Complete the moves of `replace_folder_files` that a killed process left unfinished."""
    successor = Path(folder) / _SUCCESSOR
    if not successor.is_dir() or successor.is_symlink():
        return
    with _convert_os_errors(Path(folder)):
        new_files = [path for path in successor.iterdir() if path.name != _MANIFEST]
        if any(successor.iterdir()):  # an empty successor means that all moves are complete
            for name in _read_manifest(successor / _MANIFEST):
                (Path(folder) / name).unlink(missing_ok=True)
        for path in new_files:
            path.replace(Path(folder) / path.name)
        (successor / _MANIFEST).unlink(missing_ok=True)
        successor.rmdir()


def _read_manifest(manifest: Path) -> list[str]:
    """Read the names to remove; accept only files in the folder itself, because the folder may be from elsewhere."""
    try:
        names = json.loads(manifest.read_text(encoding="utf-8"))
    except (ValueError, FileNotFoundError):
        names = None
    if not isinstance(names, list) or not all(isinstance(n, str) and n == Path(n).name and n != ".." for n in names):
        message, hint = f"{str(manifest.parent)!r} was not written by mindyn", "remove it if you do not need it"
        raise ExportError(message, hint=hint, code=Code.WRONG_FORMAT, subject=manifest.parent.name)
    return names


def _move_files(temporary: Path, target: Path, names: frozenset[str]) -> None:
    """Replace the files of `target` called `names` by those of `temporary`."""
    for file in temporary.rglob("*"):
        _sync_to_disk(file)
    if not target.exists():
        temporary.rename(target)
        return
    removed = names - {path.name for path in temporary.iterdir()}
    (temporary / _MANIFEST).write_text(json.dumps(sorted(removed)), encoding="utf-8")
    _sync_to_disk(temporary / _MANIFEST)
    temporary.rename(target / _SUCCESSOR)
    finish_replacement(target)


def _sync_to_disk(path: Path) -> None:
    if path.is_file():
        with path.open("r+b") as file:
            os.fsync(file.fileno())


def _remove_abandoned(home: Path, prefix: str) -> None:
    """Remove temporary files and folders of processes of this machine that have ended, and those of yesterday."""
    for path in home.glob(f"{glob_escape(prefix)}*"):
        with suppress(OSError):
            machine, _, rest = path.name.removeprefix(prefix).partition("-")
            number = rest.partition("-")[0]
            has_ended = machine == _machine_name() and number.isdecimal() and not _is_running(int(number))
            if has_ended or time.time() - path.lstat().st_mtime > _ABANDONED_AGE_S:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


@cache
def _machine_name() -> str:
    """Return a name of this machine, or container, in which numbers of processes are unique."""
    space = ""
    with suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    return hashlib.sha256(f"{platform.node()} {space}".encode()).hexdigest()[:8]


def _is_running(number: int) -> bool:
    """Whether a process exists; True if the system has no harmless way to ask."""
    if os.name != "posix":
        return True
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _temporary_path(target: Path, home: Path) -> Path:
    """Return a new hidden name in a folder, which says which process of which machine uses it."""
    return home / f"{_temporary_prefix(target)}{_machine_name()}-{os.getpid()}-{token_hex(8)}"


def _temporary_prefix(target: Path) -> str:
    """Return the prefix of temporary names next to a target, short enough for any file system."""
    return f".{target.name[:60]}.writing-"


@contextmanager
def _convert_os_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"'{target}' cannot be written: {error.strerror or str(error)}"
        raise ExportError(message, hint=_WRITE_HINT, subject=target.name) from error


def make_folder(path: str | Path) -> None:
    """Create a folder and its missing parents."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"the folder '{path}' cannot be created: {error.strerror}"
        raise ExportError(message, hint="use another folder", subject=Path(path).name) from error


@contextmanager
def make_output_folder(path: str | Path) -> Iterator[None]:
    """Create a folder for output; if the block ends with an error or Ctrl-C, remove the new folders that are empty."""
    missing = _list_missing_folders(path)
    make_folder(path)
    try:
        yield
    except BaseException:
        _remove_empty(missing)
        raise


def require_writable(path: str | Path) -> None:
    """Raise `ExportError` if a folder cannot be created or written to; leave nothing behind."""
    missing = _list_missing_folders(path)
    make_folder(path)
    try:
        with _convert_os_errors(Path(path)), tempfile.TemporaryFile(dir=path):
            pass
    finally:
        _remove_empty(missing)


def _list_missing_folders(path: str | Path) -> list[Path]:
    """Return the folder and its parents that do not exist, the innermost first."""
    return [folder for folder in (Path(path).absolute(), *Path(path).absolute().parents) if not folder.exists()]


def _remove_empty(folders: list[Path]) -> None:
    with suppress(OSError):  # the first folder that is not empty, and its parents, stay
        for folder in folders:
            folder.rmdir()


def _require_regular_file(target: Path) -> None:
    """Raise `ExportError` if the target is a folder, a device or a pipe; /dev/null would become a regular file."""
    with _convert_os_errors(target):
        if target.exists() and not target.is_file():
            message = f"'{target}' cannot be written: it is {'a folder' if target.is_dir() else 'a device or pipe'}"
            raise ExportError(message, hint="pass a file name", code=Code.WRONG_TYPE, subject=target.name)


def require_parent(target: Path) -> None:
    """Raise `ExportError` if the folder of the target does not exist."""
    if not target.absolute().parent.is_dir():
        message = f"the folder {str(target.parent)!r} for {target.name} does not exist"
        raise ExportError(message, hint="create the folder first", code=Code.MISSING_FILE, subject=str(target.parent))


def relative_path(path: str, folder: Path) -> str:
    """Return the path of a file relative to a folder, with slashes. URLs are returned unchanged."""
    if "://" in path:
        return path
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive of Windows
        return str(Path(path).absolute())


def locate_beside(path: str, folder: Path) -> str:
    """Find a file that a run in `folder` refers to: at its relative path, in the parent of the folder, or in the
    folder.
    """
    if "://" in path:
        return path
    name = Path(path).name
    places = [folder / path, Path(path), folder.parent / name, folder / name]
    return os.path.normpath(next((place for place in places if place.exists()), places[0]))
