"""What the benchmarks time with: the library's own."""

from mindyn.kernels.timing import best_of

__all__ = ["best_of"]
