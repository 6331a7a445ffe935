"""Split a range of samples over threads that are started once and reused."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from mindyn.errors import Code, InputError

_MIN_SAMPLES_PER_THREAD = 512
"""Fewer samples per thread take longer to hand over (about 20 us) than to compute."""

CORES_VARIABLE: Final = "MINDYN_CORES"
"""Environment variable with the largest number of cores to use."""

_THREAD_NAME_PREFIX = "mindyn"
_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def usable_cores() -> int:
    """Return the number of cores that this process may use: at most `MINDYN_CORES`, if it is set to a number."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get(CORES_VARIABLE, "")
    return max(1, min(cores, int(limit))) if limit.isdecimal() else cores


def split_range(
    work: Callable[[int, int], int], count: int, threads: int, multiple: int, least: int = _MIN_SAMPLES_PER_THREAD
) -> int:
    """Call `work(first, last)` on slices of 0 .. count, all but the last a multiple of `multiple`; return the `or` of
    the results.

    A thread takes at least `least` samples.
    """
    if not isinstance(threads, int) or threads < 1:
        raise InputError(
            f"threads must be a whole number of at least 1, got {threads!r}", code=Code.OUT_OF_RANGE, subject="threads"
        )
    shares = max(1, min(threads, count // least))
    if shares == 1:
        return work(0, count)
    size = -(-count // (shares * multiple)) * multiple
    starts = range(size, count, size)
    others = [_executor().submit(work, first, min(first + size, count)) for first in starts]
    status = work(0, size)
    for other in others:
        status |= other.result()
    return status


def _executor() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max_workers=max(32, os.cpu_count() or 1), thread_name_prefix=_THREAD_NAME_PREFIX)
        return _pool


def _forget_pool() -> None:
    """Drop the pool in a forked child, which has no threads and must start its own."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
