"""`gather_all`: send every log without a factor file to a worker, and write each result at once.

Workers that die are replaced (`workers=`); a log that kills its worker again, alone, is excluded by name. If an
executor of the user breaks, the run ends: finished results stay on disk, and the same call continues from there.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import suppress
from typing import Final

from mindyn.applications.fleet.factor_files import Factor, FactorStore
from mindyn.applications.fleet.gather_one_log import Excluded, Task, gather_or_exclude
from mindyn.foundation.processes.executors import (
    WorkersLostError,
    convert_worker_errors,
    process_pool,
    require_executor,
)

MAX_LOGS_IN_FLIGHT: Final = 512
"""Largest number of logs submitted at once; their factors are small, and Dask schedules ahead."""
MAX_WORKER_DEATHS: Final = 2
"""Number of times that a log may kill its worker before it is excluded."""
WORKER_DIED: Final = f"its worker died {MAX_WORKER_DEATHS} times; the log may not fit into its memory"
Progress = Callable[[int, int], None]
"""Function that is called with the number of finished logs and their total number."""


def gather_all(
    store: FactorStore, tasks: list[Task], *, executor: Executor | None, workers: int, progress: Progress
) -> list[Excluded]:
    """Write the factor files of the logs of all tasks, and return the excluded logs."""
    generation = pickle.dumps(store.generation)
    if executor is not None:
        require_executor(executor)
        results = _gather_by_executor(executor, generation, tasks)
    elif workers > 1:
        results = _gather_by_processes(workers, generation, tasks)
    else:
        results = (gather_or_exclude(generation, task) for task in tasks)
    excluded: list[Excluded] = []
    done = 0
    try:
        for done, result in enumerate(results, start=1):
            if isinstance(result, Factor):
                store.write(result)
            else:
                excluded.append(result)
            progress(done, len(tasks))
    except WorkersLostError as error:
        raise WorkersLostError(
            f"{error.message}; {done - len(excluded)} of {len(tasks)} logs are gathered and kept in {store.folder}",
            hint="repeat the call with a working executor; it reads only the other logs",
            subject=store.folder,
        ) from error
    return sorted(excluded, key=lambda log: log.name)


def _gather_by_executor(executor: Executor, generation: bytes, tasks: Iterable[Task]) -> Iterator[Factor | Excluded]:
    """Yield results as they finish; exclude logs that kill workers of a cluster, and raise if the cluster is lost."""
    for task, future in _collect_finished(executor, generation, tasks, MAX_LOGS_IN_FLIGHT):
        error = future.exception() if not future.cancelled() else CancelledError("the future was cancelled")
        if error is None:
            yield future.result()
        elif type(error).__name__ == "KilledWorker":
            yield Excluded(task.name, WORKER_DIED)
        else:
            with convert_worker_errors():
                raise error


def _collect_finished(
    executor: Executor, generation: bytes, tasks: Iterable[Task], most: int
) -> Iterator[tuple[Task, Future[Factor | Excluded]]]:
    waiting: dict[Future[Factor | Excluded], Task] = {}
    coming = iter(tasks)
    try:
        while True:
            while len(waiting) < most and (task := next(coming, None)) is not None:
                with convert_worker_errors():
                    waiting[executor.submit(gather_or_exclude, generation, task)] = task
            if not waiting:
                return
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield waiting.pop(future), future
    finally:
        for future in waiting:
            future.cancel()


def _gather_by_processes(workers: int, generation: bytes, tasks: list[Task]) -> Iterator[Factor | Excluded]:
    """Yield results of processes of this machine; after a crash, gather the logs in progress one by one."""
    left = {task.name: task for task in tasks}
    while left:
        suspects: list[Task] = []
        with process_pool(workers) as pool, suppress(WorkersLostError):  # a broken pool accepts no further log
            for task, future in _collect_finished(pool, generation, list(left.values()), 2 * workers):
                if isinstance(future.exception(), BrokenExecutor):
                    suspects.append(task)
                else:
                    del left[task.name]
                    yield future.result()
        for task in suspects:
            yield _gather_alone(generation, left.pop(task.name))


def _gather_alone(generation: bytes, task: Task) -> Factor | Excluded:
    for _ in range(MAX_WORKER_DEATHS):
        with process_pool(1) as pool:
            try:
                return pool.submit(gather_or_exclude, generation, task).result()
            except BrokenExecutor:
                continue
    return Excluded(task.name, WORKER_DIED)
