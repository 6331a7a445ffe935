"""Matrix products and factorisations of small blocks on one thread.

OpenBLAS starts its threads for blocks of 1024 rows already, where they gain nothing; on a machine that is busy
otherwise they wait for each other: a fit that takes 2 s on one thread took 100 s.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@cache
def _libraries() -> Any:
    import scipy.linalg.lapack  # noqa: F401 - SciPy brings a BLAS of its own, which must be loaded to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def on_one_blas_thread(function: Callable[P, T]) -> Callable[P, T]:
    """The function, with BLAS kept to one thread while it runs."""

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> T:
        with _libraries().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return limited
