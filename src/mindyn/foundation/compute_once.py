"""Compute a value once, also if several threads need it at the same time.

`functools.cache` computes the value in each of these threads and keeps the last result. The other results are freed,
although another thread may already use an address inside one of them, such as the address of a function.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")


class _Once(Generic[T]):
    """Function without arguments that runs at most once in a process, until `forget` is called."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._values: list[T] = []
        self._lock = RLock()
        wraps(function)(self)
        _INSTANCES.append(self)

    def __call__(self) -> T:
        if not self._values:
            with self._lock:
                if not self._values:
                    self._values.append(self._function())
        return self._values[0]

    def forget(self) -> None:
        """Compute the value anew at the next call."""
        self._values = []

    def renew_lock(self) -> None:
        """Replace the lock: after a fork, the thread that holds the old lock may not exist in this process."""
        self._lock = RLock()


_INSTANCES: Final[list[_Once[Any]]] = []


def compute_once(function: Callable[[], T]) -> _Once[T]:
    """Decorate a function without arguments to run at most once in a process."""
    return _Once(function)


def _renew_locks() -> None:
    for instance in _INSTANCES:
        instance.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
