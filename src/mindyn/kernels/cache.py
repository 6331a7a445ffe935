"""Disk cache of compiled objects.

One file per object, named by the hash of all that the code depends on. A file is a magic word, the SHA-256 of the
payload, and the payload: a truncated or damaged file is seen and built again. Files are written under a temporary
name and moved, so any number of processes may share the directory, and any of them may die. Trouble with the
directory only costs caching.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import llvmlite

import mindyn
from mindyn.kernels.machine import host

MAGIC = b"mindyn-object-1\n"
SIZE_LIMIT = 512 * 2**20
"""Bytes of cached objects above which the least recently used are deleted."""
_STALE_SECONDS = 3600.0
_TEMPORARY_PREFIX = ".writing-"


def cached(key: tuple[str, ...], build: Callable[[], bytes], *, prune: bool = True) -> bytes:
    """The object code of `key`, from disk if it is there unharmed, otherwise built and stored.

    prune  look through the folder for what must go, which takes time where there are thousands of files; what is
           stored without it goes when the next object is stored
    """
    folder = directory()
    if folder is None:
        return build()
    path = folder / f"{_digest((*key, *_surroundings()))}.o"
    payload = _read(path)
    if payload is None:
        payload = build()
        with contextlib.suppress(OSError):
            _write(path, payload, prune=prune)
    return payload


def directory() -> Path | None:
    """$MINDYN_CACHE_DIR, or `mindyn` in the user's cache directory; None for a user without a home."""
    chosen = os.environ.get("MINDYN_CACHE_DIR")
    if chosen:
        return Path(chosen)
    caches = os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(caches or "~/.cache").expanduser() / "mindyn"
    except RuntimeError:
        return None


def usage(folder: Path) -> tuple[int, int]:
    """Number and bytes of the objects in a cache folder."""
    sizes = [path.stat().st_size for path in folder.glob("*.o")]
    return len(sizes), sum(sizes)


def _digest(parts: tuple[str, ...]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def _surroundings() -> tuple[str, ...]:
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


def _read(path: Path) -> bytes | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    start = len(MAGIC) + hashlib.sha256().digest_size
    payload = content[start:]
    if content[:start] != MAGIC + hashlib.sha256(payload).digest():
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return payload


def _write(path: Path, payload: bytes, *, prune: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=_TEMPORARY_PREFIX, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(MAGIC + hashlib.sha256(payload).digest() + payload)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    if prune:
        _prune(path.parent)


def _prune(folder: Path) -> None:
    """Deletes the least recently used objects beyond the limit, and what killed processes left half-written."""
    entries = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            status = path.stat()
            if path.name.startswith(_TEMPORARY_PREFIX):
                if time.time() - status.st_mtime > _STALE_SECONDS:
                    path.unlink()
            elif path.suffix == ".o":
                entries.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= SIZE_LIMIT:
            return
        path.unlink(missing_ok=True)
        total -= size
