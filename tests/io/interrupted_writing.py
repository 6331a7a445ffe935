"""Replace the files of a folder repeatedly, stopping at each file operation in turn; print the result of each attempt.

Usage: interrupted_writing.py FOLDER kill|error|full beside|inside. Each attempt is a fork, which is killed (or whose
operation fails, or whose files may not grow further) at the next moment, until one attempt completes.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
from pathlib import Path

from mindyn.foundation.atomic_files import finish_replacement, replace_folder_files
from mindyn.foundation.errors import ExportError

NAMES = ("a.json", "b.bin", "gone.txt", "new.txt")
OLD = {"a.json": "old" * 10, "b.bin": "old" * 3000, "gone.txt": "old"}
NEW = {"a.json": "new" * 10, "b.bin": "new" * 3000, "new.txt": "new"}
OTHER_FILES = {"mine.txt": "of the user"}
EVENTS = ("open", "os.", "shutil.", "tempfile.", "ctypes.")
COMPLETED, FAILED = 0, 3


def write_until_stopped(target: Path, trouble: str, moment: int) -> None:
    """Write the new files in a fork, with trouble at the given moment."""
    count = 0

    def watch(event: str, _: tuple[object, ...]) -> None:
        nonlocal count
        if not event.startswith(EVENTS):
            return
        count += 1
        if count == moment and trouble == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if count == moment and trouble == "error":
            raise OSError(28, "No space left on device")

    if trouble == "full":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (500 * moment, resource.RLIM_INFINITY))
    else:
        sys.addaudithook(watch)
    try:
        with replace_folder_files(target, NAMES) as folder:
            for name, text in NEW.items():
                (folder / name).write_text(text)
    except (ExportError, OSError):
        os._exit(FAILED)
    os._exit(COMPLETED if trouble == "full" or count < moment else FAILED)


def read_texts(folder: Path) -> dict[str, str]:
    """Return the texts of the folder, except temporary files of killed attempts."""
    return {path.name: path.read_text() for path in folder.iterdir() if ".writing-" not in path.name}


def main() -> None:
    target, trouble, where = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    others = OTHER_FILES if where == "inside" else {}
    for moment in range(1, 200):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for name, text in (OLD | others).items():
            (target / name).write_text(text)
        pid = os.fork()
        if pid == 0:
            write_until_stopped(target, trouble, moment)
        _, status = os.waitpid(pid, 0)
        finish_replacement(target)
        texts = read_texts(target)
        state = "old" if texts == OLD | others else "new" if texts == NEW | others else f"broken: {sorted(texts)}"
        through = os.waitstatus_to_exitcode(status) == COMPLETED
        print(json.dumps({"moment": moment, "through": through, "state": state}))
        if through:
            return


if __name__ == "__main__":
    main()
