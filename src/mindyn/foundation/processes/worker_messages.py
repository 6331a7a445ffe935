"""Messages between `identify` and its workers: pickled tasks, their results, and data that a worker keeps.

`SharedData` is pickled once, into a file of a private folder, and a task refers to it by number. A worker reads the
file when the first of its tasks needs it.
"""

from __future__ import annotations

import io
import os
import pickle
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from typing import Any, Final

PARENT_CHECK_S: Final = 0.5
"""Time between two checks that the parent still runs."""


class SharedData:
    """Data that many tasks need, such as the logs. A worker keeps the data, and everything that it computes from the
    data.
    """


class Outbox:
    """Write the messages to one pool of workers, and the files with the data that the workers share."""

    def __init__(self) -> None:
        self._lock, self._numbers, self._oldest = Lock(), count(), 0
        self._written: dict[int, tuple[int, Path, SharedData]] = {}
        self._folder: TemporaryDirectory[str] | None = None

    def write(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
        """Return the message with a task; raise if the task cannot be pickled."""
        buffer = io.BytesIO()
        pickler = _Pickler(buffer, self)
        pickler.dump((function, arguments))
        return self._oldest.to_bytes(8, "little") + buffer.getvalue()

    def refer(self, data: SharedData) -> tuple[int, str]:
        """Return the number and the file of shared data; the first call writes the file."""
        with self._lock:
            if id(data) not in self._written:
                if self._folder is None:
                    self._folder = TemporaryDirectory(prefix="mindyn-", ignore_cleanup_errors=True)
                number = next(self._numbers)
                path = Path(self._folder.name) / f"{number}.pickle"
                with path.open("wb") as file:
                    pickle.dump(data, file, pickle.HIGHEST_PROTOCOL)
                self._written[id(data)] = number, path, data  # `data` stays, so that its id stays its own
            number, path, _ = self._written[id(data)]
            return number, str(path)

    def forget(self) -> None:
        """Remove the files. The workers free the data with their next task."""
        with self._lock:
            self._oldest = next(self._numbers)
            for _, path, _ in self._written.values():
                path.unlink(missing_ok=True)
            self._written.clear()

    def close(self) -> None:
        """Remove the folder."""
        with self._lock:
            self._written.clear()
            if self._folder is not None:
                self._folder.cleanup()
                self._folder = None


class _Pickler(pickle.Pickler):
    """Pickle a task; shared data is replaced by references."""

    def __init__(self, file: io.BytesIO, outbox: Outbox) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._outbox = outbox

    def persistent_id(self, value: Any) -> tuple[int, str] | None:
        """Return the reference of shared data; None for other values, which are pickled."""
        return self._outbox.refer(value) if isinstance(value, SharedData) else None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, reference: tuple[int, str]) -> Any:
        """Return shared data; the first call reads its file."""
        number, path = reference
        if number not in _kept:
            with Path(path).open("rb") as file:
                _kept[number] = pickle.load(file)
        return _kept[number]


_kept: Final[dict[int, Any]] = {}


def start_worker(path: Sequence[str], module: str, parent: int) -> None:
    """Prepare a new worker: its prints go to stderr, and only the parent reacts to Ctrl-C."""
    import sys

    from loky import process_executor

    sys.path[:] = path
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process_executor._USE_PSUTIL = False  # else loky ends a worker that keeps 300 MB of logs as if it leaked memory
    Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    with suppress(Exception):  # then every task fails there, and is computed in the parent
        import_module(module)


def _end_with_parent(parent: int) -> None:
    """End this process as soon as its parent has ended, even in the middle of a computation."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_S)
    os._exit(1)


def run_message(message: bytes) -> bytes | None:
    """Return the pickled result of a task, or None if it failed: the parent runs it again and raises its error."""
    oldest = int.from_bytes(message[:8], "little")
    for number in [number for number in _kept if number < oldest]:
        del _kept[number]
    try:
        function, arguments = _Unpickler(io.BytesIO(memoryview(message)[8:])).load()
        return pickle.dumps(function(*arguments), pickle.HIGHEST_PROTOCOL)
    except Exception:
        return None
