"""Split a range of samples over threads that are started once and reused."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from mindyn.foundation.algebra.requirements import require_count
from mindyn.foundation.compute_once import compute_once

_MIN_SAMPLES_PER_THREAD = 512
"""Fewer samples per thread take longer to hand over (about 20 us) than to compute."""

CORES_VARIABLE: Final = "MINDYN_CORES"
"""Environment variable with the largest number of cores to use."""


def usable_cores() -> int:
    """Return the number of cores that this process may use: at most `MINDYN_CORES`, if it is set to a number."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get(CORES_VARIABLE, "")
    return max(1, min(cores, int(limit))) if limit.isdecimal() else cores


def split_range(
    work: Callable[[int, int], int], count: int, threads: int, multiple: int, least: int = _MIN_SAMPLES_PER_THREAD
) -> int:
    """Call `work(first, last)` in several threads, on slices of 0 .. count; return the bitwise `or` of the results.

    Each slice but the last is a multiple of `multiple`. A thread gets at least `least` samples.
    """
    shares = max(1, min(require_count(threads, "threads"), count // least))
    if shares == 1:
        return work(0, count)
    size = -(-count // (shares * multiple)) * multiple
    starts = range(size, count, size)
    others = [_executor().submit(work, first, min(first + size, count)) for first in starts]
    status = work(0, size)
    for other in others:
        status |= other.result()
    return status


@compute_once
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=max(32, os.cpu_count() or 1), thread_name_prefix="mindyn")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_executor.forget)  # a forked child has no threads and must start its own
