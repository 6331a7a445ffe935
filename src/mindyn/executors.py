"""Work spread over any `concurrent.futures.Executor`: threads, processes, loky, Dask's `Client.get_executor()`.

Results come in the order of the tasks, whoever finishes first, so that what is summed from them has the same bits on
any number of workers.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from mindyn.errors import InputError, MindynError
from mindyn.reading import describe_exception

T = TypeVar("T")
_DASK_WORKER_ERRORS: Final = ("KilledWorker", "CommClosedError", "FutureCancelledError")
"""Names of its errors: Dask is not imported for them."""
_POLARS_TIMEOUT_S: Final = 10.0
"""How long polars may take to read one number before its threads count as missing; it takes milliseconds."""
_polars_process: int | None = None
"""The process that is known to have polars' threads; 0 if they are known to be missing."""


class WorkersLostError(MindynError):
    """An executor that was given takes no more work: a worker died, or it was shut down."""


def run_tasks(executor: Executor | None, function: Callable[..., T], tasks: Iterable[tuple[Any, ...]]) -> Iterator[T]:
    """function(*task) of every task, in their order; without an executor one after the other, here.

    What a task raises is raised here, and tasks that have not begun are cancelled.
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
    """Refuses what takes no work: anything with a `submit` that gives futures does."""
    if not callable(getattr(executor, "submit", None)):
        raise InputError(
            f"{type(executor).__name__} is no executor",
            hint="concurrent.futures.ProcessPoolExecutor(), or of a Dask client: client.get_executor()",
        )


def require_polars_threads() -> None:
    """Raise if this process was forked from one that had used polars: every read would wait forever.

    A fork copies no threads, and polars starts its own once (see "Multiprocessing" in its user guide). The first call
    tries them, since another part of the program may have used polars before the fork.
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
            hint='start processes by "spawn": ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")), or '
            "read the logs before the fork",
        )


def _try_polars() -> None:
    import polars

    polars.read_csv(b"1\n", has_header=False)


@contextmanager
def convert_worker_errors() -> Iterator[None]:
    """Inside, an executor that broke is told as `WorkersLostError`; a program's own errors pass."""
    try:
        yield
    except Exception as error:
        shut = isinstance(error, RuntimeError) and "shutdown" in str(error)
        lost = isinstance(error, (BrokenExecutor, CancelledError)) or type(error).__name__ in _DASK_WORKER_ERRORS
        if not (lost or shut):
            raise
        raise WorkersLostError(
            f"the executor takes no more work: {describe_exception(error)}",
            hint="a worker that died has often run out of memory: fewer workers, or smaller chunk_rows=, need less",
        ) from error


@contextmanager
def process_pool(
    workers: int, start: Callable[..., None] | None = None, given: tuple[Any, ...] = ()
) -> Iterator[Executor]:
    """Processes of this machine, each begun by start(*given); whatever ends the block by an error ends them at once.

    They do not hear Ctrl-C, which a terminal sends to all: the first process does, and ends them.
    """
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import active_children, get_context

    earlier = set(active_children())
    with ProcessPoolExecutor(workers, get_context("spawn"), start, given) as pool:
        try:
            with _defer_interrupts():
                for _ in range(workers):
                    pool.submit(int)  # a process is started where none is idle
            yield pool
        except BaseException:
            for worker in set(active_children()) - earlier:
                worker.terminate()
            raise


@contextmanager
def _defer_interrupts() -> Iterator[None]:
    """Ctrl-C inside is raised at the end, and processes that are started inside never hear it.

    The block is inherited. It is this thread's alone: through another one (that of a progress bar, say) the signal
    comes nevertheless, and would be raised amid the start of a process, where it can be lost. Hence it is noted.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # when it is started it ends what is blocked
    heard: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if callable(before):
        signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if callable(before):
            signal.signal(signal.SIGINT, before)
    if heard:
        raise KeyboardInterrupt
