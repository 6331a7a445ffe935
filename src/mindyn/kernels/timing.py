"""Timing on a shared machine: the best of interleaved repetitions, so that all candidates see the same noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter


def measure_best_times(
    functions: Mapping[str, Callable[[], object]], repetitions: int = 9, clock: Callable[[], float] = perf_counter
) -> dict[str, float]:
    """Return the time in seconds, by `clock`, of the fastest run of each function; runs alternate between the
    functions.
    """
    best = dict.fromkeys(functions, float("inf"))
    for function in functions.values():
        function()
    for _ in range(repetitions):
        for name, function in functions.items():
            start = clock()
            function()
            best[name] = min(best[name], clock() - start)
    return best
