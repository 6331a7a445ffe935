"""Replay every attack, each in a process of its own with limits of time and memory; `make study NAME=attacks`.

An attack passes where mindyn either works or raises a `MindynError`, within 10 s and 2 GB, and no file is lost.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import cases

SECONDS = 10.0
LARGEST = 2 * 2**30
WORKED, REJECTED, ESCAPED, LOST = 0, 10, 11, 12


def attempt(run: Callable[[], None]) -> int:
    """In a fork: the outcome as an exit status."""
    from mindyn.foundation.errors import MindynError

    try:
        run()
    except MindynError as error:
        text = str(error)
        if len(text) > 5000:
            print(f"a message of {len(text)} characters", file=sys.stderr)
            return ESCAPED
        return REJECTED
    except cases.Lost as error:
        print(error, file=sys.stderr)
        return LOST
    except BaseException:
        traceback.print_exc()
        return ESCAPED
    return WORKED


def watch(run: Callable[[], None]) -> tuple[str, float, float, str]:
    """Outcome, seconds, peak bytes and what went to the standard error."""
    with tempfile.TemporaryFile() as message:
        start = time.monotonic()
        pid = os.fork()
        if pid == 0:
            os.dup2(message.fileno(), 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            # What data may grow to: address space is not memory, and thread pools reserve much of it.
            resource.setrlimit(resource.RLIMIT_DATA, (3 * LARGEST, 3 * LARGEST))
            os._exit(attempt(run))
        seconds_over = False
        while True:
            ended, status, used = os.wait4(pid, os.WNOHANG)
            if ended:
                break
            if time.monotonic() - start > SECONDS * cases.SLOWNESS:
                os.kill(pid, signal.SIGKILL)
                seconds_over = True
            time.sleep(0.02)
        message.seek(0)
        text = message.read().decode("utf-8", "replace")
    seconds, peak = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024.0
    code = os.waitstatus_to_exitcode(status)
    if seconds_over:
        return "HANGS", seconds, peak, text
    if code < 0:
        return f"CRASHES ({signal.Signals(-code).name})", seconds, peak, text
    words = {WORKED: "works", REJECTED: "rejected", ESCAPED: "FOREIGN EXCEPTION", LOST: "LOST DATA"}
    outcome = words.get(code, f"EXITS WITH {code}")
    if peak > LARGEST:
        outcome = "TAKES TOO MUCH MEMORY"
    if "panicked" in text:
        outcome = "SHOWS A RUST PANIC"
    if seconds > SECONDS:
        outcome = "TAKES TOO LONG"
    return outcome, seconds, peak, text


def prepare(case: cases.Case, folder: Path) -> Path:
    """The attack's file, made in a fork: libraries with threads must not have been used before the next one."""
    here, there = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(there, os.fsencode(str(case.prepare(folder)).encode("unicode_escape")))
        os._exit(0)
    os.close(there)
    with os.fdopen(here, "rb") as stream:
        text = stream.read()
    os.waitpid(pid, 0)
    return Path(text.decode("unicode_escape"))


def replay(wanted: list[str]) -> Iterator[bool]:
    for name, case in cases.all_cases():
        if wanted and not any(word in name for word in wanted):
            continue
        with tempfile.TemporaryDirectory(prefix="mindyn-attack-") as folder:
            path = prepare(case, Path(folder))
            outcome, seconds, peak, text = watch(lambda path=path, case=case: case.run(path))
        good = outcome in ("works", "rejected")
        print(
            f"{'ok  ' if good else 'FAIL'} {name:60s} {outcome:12s} {seconds:5.1f} s {peak / 2**20:6.0f} MB", flush=True
        )
        if not good:
            print("      " + "\n      ".join(text.splitlines()[-12:]))
        yield good


def main() -> int:
    results = list(replay(sys.argv[1:]))
    print(f"{sum(results)} of {len(results)} attacks passed")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
