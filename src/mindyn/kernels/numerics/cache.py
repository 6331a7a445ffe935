"""Disk cache of compiled objects.

Each object is a file whose name is the hash of its key; the key contains everything that the code depends on. The file
holds a magic word, the SHA-256 of key and payload, and the payload. A truncated or damaged file, or a file of another
key, is therefore detected and built again. Files are written under a temporary name and then renamed, so that any
number of processes may share the folder, and any process may crash.

Loaded code is executed. Therefore a folder or file is ignored unless it belongs to this user and nobody else can write
to it: nobody else can create such a file, and a moved file does not match its new name. An ignored folder, or any other
problem with it, only disables caching, and `mindyn doctor` reports it. (On systems without owners and modes, such as
Windows, the location of the user's cache folder protects it.)
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import mindyn
from mindyn.kernels.numerics.machine import host

MAGIC = b"mindyn-object-2\n"
MAX_CACHE_BYTES = 2**30
"""Above this size the least recently used objects are deleted."""
MAX_OBJECT_BYTES = 2**28
"""A larger file is not an object: a model of 50 joints takes a hundredth of this."""
_WRITES_PER_PRUNE = 16
"""Objects that a process writes between two scans of the folder: scanning a full one takes 50 ms."""
_STALE_SECONDS = 3600.0
_TEMPORARY_PREFIX = ".writing-"
_writes = itertools.count()


def load_or_build(key: tuple[str, ...], build: Callable[[], bytes], *, prune: bool = True) -> bytes:
    """Return the object code of `key` from disk if it is intact, otherwise build and store it.

    `prune=False` skips the scan for old objects, which is slow with thousands of files; the next write with `prune`
    deletes them.
    """
    folder = cache_directory()
    if folder is None:
        return build()
    digest = _digest((*key, *_build_environment()))
    with contextlib.suppress(OSError):
        _make_folder(folder)
    usable = find_distrust_reason(folder) is None
    payload = _read(folder, digest) if usable else None
    if payload is None:
        payload = build()
        if usable:
            with contextlib.suppress(OSError):
                _write(folder, digest, payload, prune=prune)
    return payload


def cache_directory() -> Path | None:
    """Return $MINDYN_CACHE_DIR, or `mindyn` in the user's cache directory; None for a user without a home."""
    chosen = os.environ.get("MINDYN_CACHE_DIR")
    if chosen:
        return Path(chosen)
    try:
        return _user_caches() / "mindyn"
    except RuntimeError:
        return None


def _user_caches() -> Path:
    """Return the folder where this platform keeps a user's caches."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local").expanduser()
    if sys.platform == "darwin":
        return Path("~/Library/Caches").expanduser()
    stated = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore relative paths.
    return Path(stated) if Path(stated).is_absolute() else Path("~/.cache").expanduser()


def find_distrust_reason(folder: Path) -> str | None:
    """Return why code in a folder must not be loaded; None if only this user can write to the folder, or if it does not
    exist.
    """
    try:
        status = folder.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror or str(error)
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a folder"
    return _check_status(status)


def _check_status(status: os.stat_result) -> str | None:
    if not hasattr(os, "geteuid"):
        return None
    if status.st_uid != os.geteuid():
        return f"it belongs to another user (number {status.st_uid})"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"other users may write to it (mode {stat.S_IMODE(status.st_mode):o})"
    return None


def cache_usage(folder: Path) -> tuple[int, int]:
    """Return the number of objects in a cache folder and their size in bytes."""
    sizes = [path.stat().st_size for path in folder.glob("*.o")]
    return len(sizes), sum(sizes)


def _digest(parts: tuple[str, ...]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def _build_environment() -> tuple[str, ...]:
    """Return what machine code depends on in addition to the program: its builder (version and source), LLVM, and the
    CPU.
    """
    import llvmlite

    sources = hashlib.sha256()
    package = Path(__file__).parent.parent
    for path in sorted([*(package / "numerics").glob("*.py"), *(package / "kernels").glob("*.py")]):
        sources.update(path.read_bytes())
    machine = host()
    return (
        mindyn.__version__,
        sources.hexdigest(),
        llvmlite.__version__,
        machine.triple,
        machine.cpu,
        machine.features,
    )


def _make_folder(folder: Path) -> None:
    """Create the folder with access only for its owner.

    If a wrong umask left the default folder open to others, restrict it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not folder.is_dir():
        folder.mkdir(mode=0o700, exist_ok=True)
    elif not os.environ.get("MINDYN_CACHE_DIR") and find_distrust_reason(folder):
        folder.chmod(0o700)


def _path(folder: Path, digest: str) -> Path:
    return folder / f"{digest}.o"


def _make_header(digest: str, payload: bytes) -> bytes:
    return MAGIC + hashlib.sha256(digest.encode() + payload).digest()


def _read(folder: Path, digest: str) -> bytes | None:
    path = _path(folder, digest)
    # Do not follow links, and do not wait for the other end of a pipe.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_OBJECT_BYTES or _check_status(status):
                return None
            content = file.read()
    except OSError:
        return None
    start = len(MAGIC) + hashlib.sha256().digest_size
    payload = content[start:]
    if content[:start] != _make_header(digest, payload):
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return payload


def _write(folder: Path, digest: str, payload: bytes, *, prune: bool) -> None:
    handle, temporary = tempfile.mkstemp(prefix=_TEMPORARY_PREFIX, dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_make_header(digest, payload) + payload)
        Path(temporary).replace(_path(folder, digest))
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    if prune and next(_writes) % _WRITES_PER_PRUNE == 0:
        _prune(folder)


def _prune(folder: Path) -> None:
    """Delete the least recently used objects beyond the limit, and half-written files of killed processes."""
    entries = []
    with os.scandir(folder) as files:  # there may be tens of thousands: Path objects take ten times as long
        for file in files:
            with contextlib.suppress(OSError):
                status = file.stat()
                if file.name.startswith(_TEMPORARY_PREFIX):
                    if time.time() - status.st_mtime > _STALE_SECONDS:
                        Path(file.path).unlink()
                elif file.name.endswith(".o"):
                    entries.append((status.st_mtime, status.st_size, file.path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= MAX_CACHE_BYTES:
            return
        Path(path).unlink(missing_ok=True)
        total -= size
