"""Run tasks on any `concurrent.futures.Executor`: threads, processes, loky, Dask's `Client.get_executor()`.

Results are returned in the order of the tasks, so that a sum over them has the same bits for any number of workers.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from mindyn.foundation.errors import Code, InputError, MindynError
from mindyn.foundation.safe_reading import describe_exception

T = TypeVar("T")
_DASK_WORKER_ERRORS: Final = ("KilledWorker", "CommClosedError", "FutureCancelledError")
"""Names of Dask's errors, because Dask is not imported for them."""
_POLARS_TIMEOUT_S: Final = 10.0
"""Time limit for polars to read one number; it normally takes milliseconds."""
_polars_process: int | None = None
"""Process that has polars' threads; 0 if they are known to be missing."""


class WorkersLostError(MindynError):
    """The executor accepts no more work because a worker died or the executor was shut down."""


def run_tasks(executor: Executor | None, function: Callable[..., T], tasks: Iterable[tuple[Any, ...]]) -> Iterator[T]:
    """Yield function(*task) for every task, in order. Without an executor, the tasks run one after the other in this
    process.

    An exception of a task is raised here, and tasks that have not started are cancelled.
    """
    if executor is None:
        yield from (function(*task) for task in tasks)
        return
    require_executor(executor)
    waiting: list[Future[T]] = []
    try:
        with convert_worker_errors():
            waiting += [executor.submit(function, *task) for task in tasks]
        for future in waiting:
            with convert_worker_errors():
                result = future.result()
            yield result
    finally:
        for future in waiting:
            future.cancel()


def require_executor(executor: object) -> None:
    """Raise `InputError` if the object has no `submit` method."""
    if not callable(getattr(executor, "submit", None)):
        raise InputError(
            f"executor must have a submit method, got {type(executor).__name__}",
            hint="pass concurrent.futures.ProcessPoolExecutor(), or client.get_executor() of a Dask client",
            code=Code.WRONG_TYPE,
            subject="executor",
        )


def require_polars_threads() -> None:
    """Raise an error if this process is a fork of a process that had used polars, because every read would wait
    forever.

    A fork copies no threads, and polars starts its threads only once (see "Multiprocessing" in its user guide). The
    first call tests them, because another part of the program may have used polars before the fork.
    """
    global _polars_process
    if _polars_process is None:
        trial = threading.Thread(target=_try_polars, daemon=True)
        trial.start()
        trial.join(_POLARS_TIMEOUT_S)
        _polars_process = 0 if trial.is_alive() else os.getpid()
    if _polars_process != os.getpid():
        raise InputError(
            "this process was forked after polars had been used, and a fork does not copy the threads that read files",
            hint='start processes with "spawn": ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")), '
            "or read the logs before the fork",
            code=Code.UNSUPPORTED,
            subject="fork",
        )


def _try_polars() -> None:
    import polars

    polars.read_csv(b"1\n", has_header=False)


@contextmanager
def convert_worker_errors() -> Iterator[None]:
    """Convert the errors of a broken executor inside the block to `WorkersLostError`; other errors pass unchanged."""
    try:
        yield
    except Exception as error:
        shut = isinstance(error, RuntimeError) and "shutdown" in str(error)
        lost = isinstance(error, (BrokenExecutor, CancelledError)) or type(error).__name__ in _DASK_WORKER_ERRORS
        if not (lost or shut):
            raise
        raise WorkersLostError(
            f"the executor accepts no more work: {describe_exception(error)}",
            hint="a worker may have run out of memory: use fewer workers or a smaller chunk_rows=",
            code=Code.INTERNAL,
            subject="executor",
        ) from error


@contextmanager
def process_pool(workers: int) -> Iterator[Executor]:
    """Yield a pool of processes; an error in the block terminates them immediately.

    The processes ignore Ctrl-C, which a terminal sends to all of them; the main process receives it and ends them.
    """
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import active_children, get_context

    earlier = set(active_children())
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        try:
            with _defer_interrupts():
                for _ in range(workers):
                    pool.submit(int)  # starts a process if none is idle
            yield pool
        except BaseException:
            for worker in set(active_children()) - earlier:
                worker.terminate()
            raise


@contextmanager
def _defer_interrupts() -> Iterator[None]:
    """Delay a Ctrl-C that arrives inside the block until the end of the block. Processes started inside the block never
    receive it.

    Child processes inherit the signal mask. The mask applies to this thread only: another thread (of a progress bar,
    for example) can still receive the signal, and raising it during the start of a process could lose it. The handler
    therefore only records it.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # its start would unblock the signal
    received: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if callable(before):
        signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if callable(before):
            signal.signal(signal.SIGINT, before)
    if received:
        raise KeyboardInterrupt
