"""`gather_all`: every log that has no factor file yet goes to a worker, and what comes back goes to disk at once.

Workers that die are replaced (`workers=`); a log that takes its worker with it again, alone, is excluded by name. An
executor of the user's own that breaks ends the run: what is finished stays on disk, and the same call goes on there.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from typing import Final

from mindyn.executors import WorkersLostError, convert_worker_errors, process_pool, require_executor
from mindyn.fleet.factors import Factor, FactorStore
from mindyn.fleet.work import Excluded, Task, gather_log

MAX_LOGS_IN_FLIGHT: Final = 512
"""Logs that are with an executor at once; their factors are small, and Dask likes to plan ahead."""
MAX_WORKER_DEATHS: Final = 2
"""Times that a log may take its worker with it before it is excluded."""
WORKER_DIED: Final = f"its worker died {MAX_WORKER_DEATHS} times: is it larger than the worker's memory?"
Progress = Callable[[int, int], None]
"""Called with logs done, and all of them."""


def gather_all(
    store: FactorStore, tasks: list[Task], *, executor: Executor | None, workers: int, progress: Progress
) -> list[Excluded]:
    """Writes the factor files of the tasks' logs; those that are excluded."""
    generation = pickle.dumps(store.generation)
    if executor is not None:
        require_executor(executor)
        made = _gather_by_executor(executor, generation, tasks)
    elif workers > 1:
        made = _gather_by_processes(workers, generation, tasks)
    else:
        made = (gather_log(generation, task) for task in tasks)
    excluded: list[Excluded] = []
    done = 0
    try:
        for done, one in enumerate(made, start=1):
            if isinstance(one, Factor):
                store.write(one)
            else:
                excluded.append(one)
            progress(done, len(tasks))
    except WorkersLostError as error:
        raise WorkersLostError(
            f"{error.message}; {done - len(excluded)} of {len(tasks)} logs are gathered and stay in {store.folder}",
            hint="the same call again, with an executor that works, reads only the others",
        ) from error
    return sorted(excluded, key=lambda one: one.name)


def _gather_by_executor(executor: Executor, generation: bytes, tasks: Iterable[Task]) -> Iterator[Factor | Excluded]:
    """As they are finished; a log that killed worker after worker of a cluster is excluded, a lost cluster is told."""
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
                    waiting[executor.submit(gather_log, generation, task)] = task
            if not waiting:
                return
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield waiting.pop(future), future
    finally:
        for future in waiting:
            future.cancel()


def _gather_by_processes(workers: int, generation: bytes, tasks: list[Task]) -> Iterator[Factor | Excluded]:
    """By processes of this machine; after a crash the logs that were under way go on alone, one after another."""
    left = {task.name: task for task in tasks}
    while left:
        suspects = yield from _gather_until_crash(workers, generation, left)
        for task in suspects:
            yield _gather_alone(generation, left.pop(task.name))


def _gather_until_crash(
    workers: int, generation: bytes, left: dict[str, Task]
) -> Generator[Factor | Excluded, None, list[Task]]:
    """Takes what is finished out of `left`; gives back the logs that were under way when a worker died."""
    waiting: dict[Future[Factor | Excluded], Task] = {}
    coming, broken = iter(list(left.values())), False
    with process_pool(workers) as pool:
        while not broken:
            try:
                while len(waiting) < 2 * workers and (task := next(coming, None)) is not None:
                    waiting[pool.submit(gather_log, generation, task)] = task
            except BrokenExecutor:
                broken = True
            done, _ = wait(waiting, return_when=ALL_COMPLETED if broken else FIRST_COMPLETED)
            broken = broken or any(isinstance(future.exception(), BrokenExecutor) for future in done)
            if broken:
                done, _ = wait(waiting)
            for future in done:
                if not isinstance(future.exception(), BrokenExecutor):
                    del left[waiting.pop(future).name]
                    yield future.result()
            if not waiting and not left:
                break
    return list(waiting.values())


def _gather_alone(generation: bytes, task: Task) -> Factor | Excluded:
    for _ in range(MAX_WORKER_DEATHS):
        with process_pool(1) as pool:
            try:
                return pool.submit(gather_log, generation, task).result()
            except BrokenExecutor:
                continue
    return Excluded(task.name, WORKER_DIED)
