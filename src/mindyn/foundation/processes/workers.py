"""Workers: processes that take over some of the tasks of a long computation.

Python runs one thread at a time, and most tasks of `identify` are thousands of short calls, so that threads do not use
further cores. loky starts the processes without running the user's script again, from scripts, notebooks and
standard input.

The parent computes too, and never depends on a worker: a task that fails there, or takes much longer than the others,
is computed in the parent as well. Every worker is an executor with one process, so that the loss of one, by whatever
cause, leaves the others alone.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from multiprocessing import parent_process
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mindyn.foundation.processes.cores import CORES_VARIABLE, usable_cores
from mindyn.foundation.processes.worker_messages import Outbox, run_message, start_worker

if TYPE_CHECKING:
    from loky import ProcessPoolExecutor

Result = TypeVar("Result")
NUMBERS_PER_WORKER: Final = 50_000
"""Rows times joints that justify one more worker: its imports take 0.6 s, as long as selecting settings on them."""
MAX_WORKERS: Final = 7
"""Selection has some ten passes over the rows that can run at the same time."""
WORKER_BYTES: Final = 400_000_000
"""Free memory for each worker: 140 MB of imports, and the samples of the selection."""
MIN_PATIENCE_S: Final = 2.0
"""Time after which a task of a worker is computed here too, if it also took 3 times as long as the others."""
PATIENCE: Final = 3.0
WAIT_S: Final = 0.1
"""Longest wait without a look at Ctrl-C: a longer one is not interrupted once polars has run."""
ENVIRONMENT: Final = {CORES_VARIABLE: "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}


class _Task:
    """A call that the parent or a worker computes. `state` is only changed under the lock of the pool."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments
        self.state = "waiting"  # then "running" and "ended"
        self.results = list[Any]()
        self.began, self.took_s = monotonic(), 0.0

    def compute(self) -> Any:
        """Compute the task here and return its result."""
        began = monotonic()
        self.results = [self.function(*self.arguments)]
        self.took_s, self.state = monotonic() - began, "ended"
        return self.results[0]


class _Worker:
    """A process, and the task that this process computes."""

    def __init__(self, executor: ProcessPoolExecutor) -> None:
        self.executor = executor
        self.is_free = False

    def kill(self) -> None:
        """End the process, even if it is stopped. The method of loky needs psutil or the program pgrep."""
        processes = self.executor._processes
        while processes:
            _, process = processes.popitem()
            with suppress(OSError):
                os.kill(process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
            process.join()
        self.executor.shutdown(wait=False, kill_workers=True)


class _Pool:
    """Workers, and the tasks that wait for a free worker."""

    def __init__(self, module: str) -> None:
        self.module, self.pid = module, os.getpid()
        self.changed = threading.Condition()
        self.outbox = Outbox()
        self.workers = list[_Worker]()
        self._waiting = deque[_Task]()

    def grow(self, wanted: int) -> None:
        """Start workers until there are `wanted`, or until there are no more free cores or memory."""
        while len(self.workers) < wanted and available_bytes() >= WORKER_BYTES:
            if not self._start():
                return

    def _start(self) -> bool:
        """Start a worker. Return False if there is no free core, or if the process cannot be started."""
        from loky import ProcessPoolExecutor
        from loky.backend import get_context

        arguments = [*map(str, sys.path)], self.module, os.getpid()
        try:
            executor = ProcessPoolExecutor(
                1, context=get_context("loky"), initializer=start_worker, initargs=arguments, env=ENVIRONMENT
            )
        except (OSError, RuntimeError, NotImplementedError):
            return False
        worker = _Worker(executor)
        _LIVE.append(worker)
        self.workers.append(worker)
        if len(_LIVE) >= usable_cores():  # counted after it was added, because other threads start workers too
            self._remove(worker)
            return False
        with _without_interrupts():
            return self._send(worker, _Task(int, ()))  # its end says that the imports are done

    def put(self, tasks: Sequence[_Task]) -> None:
        """Add tasks; free workers take them."""
        with self.changed:
            self._waiting.extend(tasks)
        for worker in list(self.workers):
            self._feed(worker)

    def claim(self, task: _Task) -> bool:
        """Return whether the caller may compute a task, because no worker has begun it."""
        with self.changed:
            is_free = task.state == "waiting"
            if is_free:
                task.state, task.began = "running", monotonic()
            return is_free

    def wait(self, task: _Task, patience_s: float) -> None:
        """Wait until a worker has finished a task, or has taken longer than `patience_s`."""
        end = task.began + patience_s
        with self.changed:
            while task.state != "ended" and monotonic() < end:
                self.changed.wait(WAIT_S)

    def close(self) -> None:
        """End all workers at once, whatever they are doing."""
        with self.changed:
            self._waiting.clear()
        for worker in list(self.workers):
            self._remove(worker)
        self.outbox.close()

    def _feed(self, worker: _Worker) -> None:
        """If a worker is free, give it the next waiting task."""
        while True:
            with self.changed:
                while self._waiting and self._waiting[0].state != "waiting":
                    self._waiting.popleft()
                if not self._waiting or not worker.is_free or worker not in self.workers:
                    return
                task, worker.is_free = self._waiting.popleft(), False
                task.state, task.began = "running", monotonic()
            if self._send(worker, task):
                return

    def _send(self, worker: _Worker, task: _Task) -> bool:
        """Send a task to a worker; return whether the worker accepted it."""
        try:
            message = self.outbox.write(task.function, task.arguments)
        except Exception:  # the task cannot be pickled: it is computed here
            self._end(worker, task)
            return False
        try:
            future = worker.executor.submit(run_message, message)
        except Exception:  # the process ended, or the system has no memory or no thread for it
            self._end(worker, task)
            self._remove(worker)
            return False
        future.add_done_callback(lambda ended: self._receive(worker, task, ended))
        return True

    def _receive(self, worker: _Worker, task: _Task, future: Future[bytes | None]) -> None:
        """Store the result of a worker, and give the worker its next task."""
        if future.cancelled() or future.exception() is not None:
            self._end(worker, task)
            self._remove(worker)
            return
        with suppress(Exception):  # a result that cannot be read is computed here
            message = future.result()
            if message is not None:
                task.results = [pickle.loads(message)]
        self._end(worker, task)
        self._feed(worker)

    def _end(self, worker: _Worker, task: _Task) -> None:
        with self.changed:
            task.took_s, task.state, worker.is_free = monotonic() - task.began, "ended", True
            self.changed.notify_all()

    def _remove(self, worker: _Worker) -> None:
        with self.changed:
            if worker not in self.workers:
                return
            self.workers.remove(worker)
            _LIVE.remove(worker)
            self.changed.notify_all()
        worker.kill()


_LIVE: Final[list[_Worker]] = []
"""Workers of all pools: threads that identify at the same time share the cores."""
_active: ContextVar[_Pool | None] = ContextVar("workers", default=None)


def _current() -> _Pool | None:
    """Return the pool of this computation.

    Return None in a fork, because the threads of the pool stay in the parent.
    """
    pool = _active.get()
    return pool if pool is not None and pool.pid == os.getpid() and pool.workers else None


@contextmanager
def workers(module: str, count: int, *, is_wanted: bool = True) -> Iterator[None]:
    """Start workers for calls of `share_tasks` and `start_task` inside the block, if there are free cores.

    module name of the module with the tasks: a worker imports it when it starts, because this import takes the longest
    count number of workers that save time; if an outer block has workers already, their number grows to `count`
    """
    outer = _active.get()
    if not is_wanted or not _may_start() or (outer is not None and outer.pid != os.getpid()):
        yield
        return
    if outer is not None:
        outer.grow(count)
        yield
        return
    pool = _Pool(module)
    token = _active.set(pool)
    try:
        pool.grow(count)
        yield
    finally:
        _active.reset(token)
        pool.close()


def count_workers(rows: int, joints: int) -> int:
    """Return the number of workers that save time for logs of this size."""
    return min(MAX_WORKERS, max(1, round(rows * joints / NUMBERS_PER_WORKER)))


def has_workers() -> bool:
    """Return whether there are workers that can take tasks."""
    return _current() is not None


def worker_count() -> int:
    """Return the number of workers."""
    pool = _current()
    return 0 if pool is None else len(pool.workers)


def share_tasks(function: Callable[..., Result], tasks: Sequence[tuple[Any, ...]]) -> list[Result]:
    """Return function(*task) for every task, in order. Workers compute some of the tasks, and this process computes the
    others.

    The function must be importable by its name. Its results do not depend on the process that computes them.
    """
    pool = _current()
    if pool is None or len(tasks) < 2:
        return [function(*task) for task in tasks]
    shared = [_Task(function, task) for task in tasks]
    pool.put(shared[1:])  # the first one is computed here in any case
    try:
        for task in shared:
            if pool.claim(task):
                task.compute()
        for task in shared:
            pool.wait(task, max(MIN_PATIENCE_S, PATIENCE * _median_duration(shared)))
    finally:
        for task in shared:
            pool.claim(task)  # if a task failed, nobody begins another
    return [task.results[0] if task.results else task.compute() for task in shared]


def _median_duration(tasks: Sequence[_Task]) -> float:
    durations = sorted(task.took_s for task in tasks if task.state == "ended")
    return durations[len(durations) // 2]


def start_task(function: Callable[..., Result], *task: Any) -> Callable[[], Result]:
    """Give a task to a worker, and return a function that waits for the result. Without workers, that function computes
    the result itself.
    """
    pool = _current()
    if pool is None:
        return lambda: function(*task)
    started = _Task(function, task)
    pool.put([started])

    def wait() -> Result:
        if not pool.claim(started):
            pool.wait(started, max(MIN_PATIENCE_S, PATIENCE * (monotonic() - started.began)))
        result: Result = started.results[0] if started.results else started.compute()
        return result

    return wait


def forget_shared_data() -> None:
    """Let the workers free the memory of shared data, with their next task."""
    pool = _current()
    if pool is not None:
        pool.outbox.forget()


def _may_start() -> bool:
    """Return whether this process may start workers: it must not be a worker itself, and must have an open standard
    output.
    """
    is_python = Path(sys.executable or "").name.lower().startswith("python")  # a program may embed the interpreter
    has_output = all(stream is not None and not getattr(stream, "closed", False) for stream in (sys.stdout, sys.stderr))
    return is_python and has_output and usable_cores() > 1 and parent_process() is None


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start a process that never receives Ctrl-C, not even during its imports: a process inherits the blocked
    signals.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def available_bytes() -> float:
    """Return the memory that new processes may use; infinite if the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        free = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
        available = 1024.0 * int(free.split()[1])
        with suppress(OSError, ValueError):  # a container may have less
            group = Path("/sys/fs/cgroup")
            limit, used = ((group / name).read_text() for name in ("memory.max", "memory.current"))
            available = min(available, int(limit) - int(used))
        return available
    return float("inf")
