"""Ctrl-C that is not lost.

CasADi clears Python's errors where it tries conversions of its arguments, a KeyboardInterrupt among them, and while
equations are traced most of the time is spent there. So what nobody has handled after a moment is raised again.
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
"""Time after which an interrupt that nobody handles is raised again."""


@contextmanager
def reraise_interrupts() -> Iterator[None]:
    """Inside, Ctrl-C is raised until it is handled; code that handles one and goes on says so by `acknowledge`."""
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
    """Inside, Ctrl-C ends the process with one line: while modules are imported nothing is written that could be kept.

    A KeyboardInterrupt would be printed with a traceback where Python calls back from an import, and there it is lost.
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
    """The interrupt was heard: it is not raised again."""
    _HANDLER.rest()


class _ReraisingHandler:
    """A handler of SIGINT; one that comes by itself is raised only where no interrupt is being handled."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None
        self._own = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        own, self._own = self._own, False
        if own and (self._timer is None or _is_handling_interrupt()):
            return
        self.rest()
        self._timer = threading.Timer(RERAISE_DELAY_S, self._raise_again)
        self._timer.daemon = True
        self._timer.start()
        raise KeyboardInterrupt

    def rest(self) -> None:
        """Nothing is raised any more until the next Ctrl-C."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _raise_again(self) -> None:
        self._own = True
        main = threading.main_thread().ident
        if main is not None and hasattr(signal, "pthread_kill"):
            signal.pthread_kill(main, signal.SIGINT)  # ends a sleep or a wait as well
        else:
            _thread.interrupt_main()


_HANDLER: Final = _ReraisingHandler()


def _is_handling_interrupt() -> bool:
    """Whether this thread is on its way out of an interrupt, in `except`, `finally` or the end of a `with`."""
    error: BaseException | None = sys.exception()
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None
