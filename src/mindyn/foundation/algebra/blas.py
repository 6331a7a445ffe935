"""Limit BLAS to one thread for products and factorisations of small matrices.

OpenBLAS starts its threads for blocks of 1024 rows, where the threads save no time. On a busy machine the threads wait
for each other: a fit that takes 2 s on one thread took 100 s.
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
    import scipy.linalg.lapack  # noqa: F401 - threadpoolctl finds SciPy's BLAS only after it is loaded
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


_LOCK: Final = Lock()
_ACTIVE_LIMITS: list[Any] = []
"""The active limit, repeated once for each caller inside the block: BLAS has one limit for the whole process."""


@contextmanager
def use_one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside the block; the last thread that leaves restores the previous number."""
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
    """Decorate a function to run with BLAS limited to one thread."""

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> T:
        with use_one_blas_thread():
            return function(*args, **kwargs)

    return limited
