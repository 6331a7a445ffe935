"""A second process that takes a part of the tasks of a long computation.

Python runs one thread at a time, and most tasks of `identify` are thousands of short calls, so that threads do not use
a second core. The process is started by `subprocess` and imports mindyn alone. `multiprocessing` would import the
script of the user again: it would run twice, unless it has a `__main__` guard.

Pickled tasks go to the standard input of the process, and results come from its standard output. It ends with its
input, also if this process is killed. A task that fails there, for any reason, is run again here.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from multiprocessing import parent_process
from operator import length_hint
from pathlib import Path
from typing import IO, Any, Final, TypeVar

from mindyn.kernels.numerics.threads import CORES_VARIABLE, usable_cores

Result = TypeVar("Result")
NUMBER_BYTES: Final = 8
"""Size of the numbers before each message: how many parts it has, and their lengths."""
START: Final = "import sys; sys.path[:] = {path!r}; import {tasks}; from {module} import serve; serve()"
WAIT_S: Final = 0.005
"""Time between two looks whether the process is free: until then, tasks are run here."""


class _SecondProcess:
    """The process, and a lock for the thread that uses it."""

    def __init__(self, module: str) -> None:
        environment = os.environ | {CORES_VARIABLE: "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-P", "-c", START.format(path=[*map(str, sys.path)], tasks=module, module=__name__)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        self.lock = threading.Lock()

    def run(self, function: Callable[..., Result], task: tuple[Any, ...]) -> list[Result]:
        """Return a list with the result of a task, empty if it failed or the process has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        results = list[Result]()
        with suppress(Exception):
            message = _pickle((function, task))
            try:
                _write(self._process.stdin, message)
                answer = _read(self._process.stdout)
            except Exception:
                self._process.kill()  # the rest of a message would be taken for the next one
                raise
            results = _load(answer)
        return results

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.communicate()


_active: ContextVar[_SecondProcess | None] = ContextVar("second_process", default=None)


@contextmanager
def second_process(module: str, *, is_wanted: bool = True) -> Iterator[None]:
    """Start a process for `share_tasks` and `start_task` in the block, if there is a core for it.

    module  name of the module with the tasks, which takes the longest time of the start
    """
    process = _start(module) if is_wanted and _active.get() is None else None
    if process is None:
        yield
        return
    token = _active.set(process)
    try:
        start_task(int)  # it is ready, and free for others, when this ends
        yield
    finally:
        _active.reset(token)
        process.end()


def _start(module: str) -> _SecondProcess | None:
    is_python = Path(sys.executable or "").name.lower().startswith("python")  # a program may embed the interpreter
    if not is_python or usable_cores() < 2 or parent_process() is not None:
        return None
    try:
        return _SecondProcess(module)
    except OSError:  # the system has no memory, or no number, for another process
        return None


def has_second_process() -> bool:
    """Return whether tasks can be shared."""
    return _active.get() is not None


def share_tasks(function: Callable[..., Result], tasks: Sequence[tuple[Any, ...]]) -> list[Result]:
    """Return function(*task) for every task, in order; the second process takes a part of them.

    The function must be importable by its name. Its results do not depend on the process that computes them.
    """
    process, waiting, results = _active.get(), iter(range(len(tasks))), dict[int, Result]()
    if process is None or len(tasks) < 2:
        return [function(*task) for task in tasks]

    def run_there() -> None:
        while length_hint(waiting):
            if process.lock.acquire(timeout=WAIT_S):
                for number in waiting:  # both threads take the next task from one iterator
                    for result in process.run(function, tasks[number]):
                        results[number] = result
                process.lock.release()

    join = _start_thread(run_there)
    try:
        for number in waiting:
            results[number] = function(*tasks[number])
    finally:
        deque(waiting, 0)  # if a task failed, the other thread takes no more
    join()
    return [results[k] if k in results else function(*task) for k, task in enumerate(tasks)]


def start_task(function: Callable[..., Result], *task: Any) -> Callable[[], Result]:
    """Start a task in the second process; the returned function waits for its result, or computes it here."""
    process, results = _active.get(), list[Result]()
    if process is None:
        return lambda: function(*task)

    def run_there() -> None:
        with process.lock:
            results.extend(process.run(function, task))

    join = _start_thread(run_there)

    def wait() -> Result:
        join()
        return results[0] if results else function(*task)

    return wait


def _start_thread(run: Callable[[], None]) -> Callable[[], None]:
    """Start a thread, unless the system has no memory for another, and return the function that waits for its end."""
    thread = threading.Thread(target=run, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return lambda: None
    return thread.join


def serve() -> None:
    """Run the tasks of the standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal
    source, target = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is not a result
    while True:
        try:
            message = _read(source)
        except EOFError:
            return
        try:
            function, task = _load(message)
            results = _pickle([function(*task)])
        except Exception:
            results = _pickle([])
        _write(target, results)


def _pickle(message: object) -> list[memoryview]:
    """Return the pickle of a message and the arrays in it, which are not copied."""
    arrays: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(message, pickle.HIGHEST_PROTOCOL, buffer_callback=arrays.append)
    return [memoryview(pickled), *(array.raw() for array in arrays)]


def _write(stream: IO[bytes], parts: list[memoryview]) -> None:
    for number in (len(parts), *(part.nbytes for part in parts)):
        stream.write(number.to_bytes(NUMBER_BYTES, "little"))
    for part in parts:
        stream.write(part)
    stream.flush()


def _read(stream: IO[bytes]) -> list[bytearray]:
    """Return the pickle and the arrays of the next message; raise `EOFError` if the stream has ended."""
    (count,) = _read_numbers(stream, 1)
    parts = [bytearray(length) for length in _read_numbers(stream, count)]
    for part in parts:
        if stream.readinto(part) < len(part):  # type: ignore[attr-defined]  # a buffered stream has it
            raise EOFError
    return parts


def _read_numbers(stream: IO[bytes], count: int) -> list[int]:
    data = stream.read(count * NUMBER_BYTES)
    if len(data) < count * NUMBER_BYTES:
        raise EOFError
    return [int.from_bytes(data[k : k + NUMBER_BYTES], "little") for k in range(0, len(data), NUMBER_BYTES)]


def _load(parts: list[bytearray]) -> Any:
    return pickle.loads(parts[0], buffers=parts[1:])
