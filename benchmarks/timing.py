"""What the benchmarks time with, the library's own, and the machine they say they ran on."""

import os
from importlib.metadata import version

from mindyn import __version__
from mindyn.kernels.timing import measure_best_times
from mindyn.numerics.native import host

__all__ = ["measure_best_times", "this_machine"]


def this_machine(*packages: str) -> str:
    """CPU, cores, registers; versions of mindyn and of the packages beside it."""
    versions = ", ".join([f"mindyn {__version__}", *(f"{name} {version(name)}" for name in packages)])
    return f"{host().cpu} with {os.cpu_count()} cores and {host().lanes(64)} float64 lanes, {versions}"
