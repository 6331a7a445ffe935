"""Matrix products and factorisations of small blocks on one thread.

OpenBLAS starts its threads for blocks of 1024 rows already, where they gain nothing; on a machine that is busy
otherwise they wait for each other: a fit that takes 2 s on one thread took 100 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from threading import Lock
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@cache
def _load_controller() -> Any:
    import scipy.linalg.lapack  # noqa: F401 - SciPy brings a BLAS of its own, which must be loaded to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


_LOCK: Final = Lock()
_ACTIVE_LIMITS: list[Any] = []
"""The limit that holds, once for every thread inside: BLAS has one number of threads for the whole process."""


@contextmanager
def use_one_blas_thread() -> Iterator[None]:
    """BLAS is kept to one thread inside; the last thread to leave gives back the number that the first found."""
    with _LOCK:
        _ACTIVE_LIMITS.append(
            _ACTIVE_LIMITS[0] if _ACTIVE_LIMITS else _load_controller().limit(limits=1, user_api="blas")
        )
    try:
        yield
    finally:
        with _LOCK:
            limit = _ACTIVE_LIMITS.pop()
            if not _ACTIVE_LIMITS:
                limit.restore_original_limits()


def run_on_one_blas_thread(function: Callable[P, T]) -> Callable[P, T]:
    """The function, with BLAS kept to one thread while it runs."""

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> T:
        with use_one_blas_thread():
            return function(*args, **kwargs)

    return limited
