"""Write a folder again and again, stopped at each of its file operations in turn; print what each attempt left.

Usage: interrupted_writing.py FOLDER kill|error|full beside|inside. Each attempt is a fork, which is killed (or whose
operation fails, or whose files may not grow further) at the next moment, until one attempt comes through.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
from pathlib import Path

from mindyn.errors import ExportError
from mindyn.files import finish_replacement, replace_folder_files

NAMES = ("a.json", "b.bin", "gone.txt", "new.txt")
OLD = {"a.json": "old" * 10, "b.bin": "old" * 3000, "gone.txt": "old"}
NEW = {"a.json": "new" * 10, "b.bin": "new" * 3000, "new.txt": "new"}
BYSTANDER = {"mine.txt": "of the user"}
EVENTS = ("open", "os.", "shutil.", "tempfile.", "ctypes.")
CAME_THROUGH, REFUSED = 0, 3


def stopped(target: Path, trouble: str, moment: int) -> None:
    """In a fork: write the new files, with trouble at the moment."""
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
        os._exit(REFUSED)
    os._exit(CAME_THROUGH if trouble == "full" or count < moment else REFUSED)


def texts(folder: Path) -> dict[str, str]:
    """What the folder holds, temporary names of killed attempts aside."""
    return {one.name: one.read_text() for one in folder.iterdir() if ".writing-" not in one.name}


def main() -> None:
    target, trouble, where = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    bystanders = BYSTANDER if where == "inside" else {}
    for moment in range(1, 200):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for name, text in (OLD | bystanders).items():
            (target / name).write_text(text)
        pid = os.fork()
        if pid == 0:
            stopped(target, trouble, moment)
        _, status = os.waitpid(pid, 0)
        finish_replacement(target)
        left = texts(target)
        state = "old" if left == OLD | bystanders else "new" if left == NEW | bystanders else f"broken: {sorted(left)}"
        through = os.waitstatus_to_exitcode(status) == CAME_THROUGH
        print(json.dumps({"moment": moment, "through": through, "state": state}))
        if through:
            return


if __name__ == "__main__":
    main()
