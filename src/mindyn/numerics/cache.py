"""Disk cache of compiled objects.

One file per object, named by the hash of all that the code depends on, its key. A file is a magic word, the SHA-256 of
key and payload, and the payload: a file that is truncated, damaged or another key's is seen and built again. Files are
written under a temporary name and moved, so any number of processes may share the directory, and any of them may die.

What is loaded is run. So nothing is taken from a folder or a file that is not this user's own or that others may write
to: nobody else can make a file of ours, and one of ours that is moved does not fit its new name. Such a folder, or any
trouble with it, only costs caching; `mindyn doctor` says so. (Where the system has no owners and modes, as on Windows,
the user's own cache folder is protected by its place.)
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

import llvmlite

import mindyn
from mindyn.numerics.machine import host

MAGIC = b"mindyn-object-2\n"
MAX_CACHE_BYTES = 2**30
"""Bytes of cached objects above which the least recently used are deleted."""
MAX_OBJECT_BYTES = 2**28
"""Bytes of a file above which it is no object: a model of 50 joints takes a hundredth of it."""
_WRITES_PER_PRUNE = 16
"""Objects that a process writes from one look at the whole folder to the next: a full one takes 50 ms."""
_STALE_SECONDS = 3600.0
_TEMPORARY_PREFIX = ".writing-"
_writes = itertools.count()


def load_or_build(key: tuple[str, ...], build: Callable[[], bytes], *, prune: bool = True) -> bytes:
    """The object code of `key`, from disk if it is there unharmed, otherwise built and stored.

    prune  look through the folder for what must go, which takes time where there are thousands of files; what is
           stored without it goes when the next object is stored
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
    """$MINDYN_CACHE_DIR, or `mindyn` in the user's cache directory; None for a user without a home."""
    chosen = os.environ.get("MINDYN_CACHE_DIR")
    if chosen:
        return Path(chosen)
    try:
        return _user_caches() / "mindyn"
    except RuntimeError:
        return None


def _user_caches() -> Path:
    """Where this platform keeps a user's caches."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local").expanduser()
    if sys.platform == "darwin":
        return Path("~/Library/Caches").expanduser()
    stated = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative paths ignored.
    return Path(stated) if Path(stated).is_absolute() else Path("~/.cache").expanduser()


def find_distrust_reason(folder: Path) -> str | None:
    """Why no code is taken from a folder, or put there; None where it is ours alone, or not there at all."""
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
    """Number and bytes of the objects in a cache folder."""
    sizes = [path.stat().st_size for path in folder.glob("*.o")]
    return len(sizes), sum(sizes)


def _digest(parts: tuple[str, ...]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def _build_environment() -> tuple[str, ...]:
    """What the code depends on besides the program: this package (version and generator source), LLVM, the CPU."""
    sources = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
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
    """The folder, for its owner alone; the user's default one, if an umask left it open to others, is closed."""
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
    # Without following links, and without waiting for a pipe's other end.
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
    """Deletes the least recently used objects beyond the limit, and what killed processes left half-written."""
    entries = []
    with os.scandir(folder) as found:  # there may be tens of thousands: paths would take ten times as long
        for one in found:
            with contextlib.suppress(OSError):
                status = one.stat()
                if one.name.startswith(_TEMPORARY_PREFIX):
                    if time.time() - status.st_mtime > _STALE_SECONDS:
                        Path(one.path).unlink()
                elif one.name.endswith(".o"):
                    entries.append((status.st_mtime, status.st_size, one.path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= MAX_CACHE_BYTES:
            return
        Path(path).unlink(missing_ok=True)
        total -= size
