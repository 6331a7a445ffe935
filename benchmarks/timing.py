"""Time functions by the best of alternating runs, and describe the machine."""

import os
from collections.abc import Callable, Mapping
from importlib.metadata import version
from time import perf_counter

from mindyn import __version__
from mindyn.kernels.numerics.machine import host


def measure_best_times(
    functions: Mapping[str, Callable[[], object]], repetitions: int = 9, clock: Callable[[], float] = perf_counter
) -> dict[str, float]:
    """Return the time in seconds, by `clock`, of the fastest run of each function; runs alternate between functions."""
    best = dict.fromkeys(functions, float("inf"))
    for function in functions.values():
        function()
    for _ in range(repetitions):
        for name, function in functions.items():
            start = clock()
            function()
            best[name] = min(best[name], clock() - start)
    return best


def this_machine(*packages: str) -> str:
    """Return CPU, cores and registers, and the versions of mindyn and of other packages."""
    versions = ", ".join([f"mindyn {__version__}", *(f"{name} {version(name)}" for name in packages)])
    return f"{host().cpu} with {os.cpu_count()} cores and {host().lanes(64)} float64 lanes, {versions}"
