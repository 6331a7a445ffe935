"""Raise the interrupt of Ctrl-C again if a library loses it.

CasADi clears Python exceptions while it tries to convert its arguments. This includes KeyboardInterrupt, and tracing
equations spends most of its time there. If no code has handled an interrupt after a short time, the interrupt is raised
again.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

RERAISE_DELAY_S: Final = 0.3
"""Time after which an unhandled interrupt is raised again."""


@contextmanager
def reraise_interrupts() -> Iterator[None]:
    """Raise Ctrl-C inside the block until it is handled; code that handles it calls `acknowledge_interrupt`."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _HANDLER)
    try:
        yield
    finally:
        acknowledge_interrupt()
        signal.signal(signal.SIGINT, before)


@contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """End the process with one line of text if Ctrl-C is pressed inside the block: while modules are imported and
    before anything is written.

    Python would print a traceback and lose a KeyboardInterrupt that is raised in a callback of an import.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    signal.signal(signal.SIGINT, _exit_process)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _exit_process(number: int, frame: FrameType | None) -> None:
    del frame
    os.write(2, b"interrupted: nothing was written\n")
    os._exit(128 + number)


def acknowledge_interrupt() -> None:
    """Stop raising the current interrupt again."""
    _HANDLER.cancel()


class _ReraisingHandler:
    """Handler of SIGINT that raises an interrupt repeatedly until some code handles it."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None
        self._is_reraised = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        is_reraised, self._is_reraised = self._is_reraised, False
        if is_reraised and (self._timer is None or _is_handling_interrupt()):
            return
        self.cancel()
        self._timer = threading.Timer(RERAISE_DELAY_S, self._raise_again)
        self._timer.daemon = True
        self._timer.start()
        raise KeyboardInterrupt

    def cancel(self) -> None:
        """Stop raising the current interrupt; the next Ctrl-C raises a new one."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _raise_again(self) -> None:
        self._is_reraised = True
        main = threading.main_thread().ident
        if main is not None and hasattr(signal, "pthread_kill"):
            signal.pthread_kill(main, signal.SIGINT)  # also interrupts a sleep or a wait
        else:
            _thread.interrupt_main()


_HANDLER: Final = _ReraisingHandler()


def _is_handling_interrupt() -> bool:
    """Whether this thread is handling an interrupt, in `except`, `finally` or at the end of a `with` block."""
    error: BaseException | None = sys.exception()
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None
