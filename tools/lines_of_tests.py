"""Record which test runs which line of the mutated packages, and the time of each test (`tools/mutants.py map`)."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import json
import os
import pkgutil
import resource
import signal
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FrameType

from faults import ROOT

SOURCE = ROOT / "src"
BUILD = ROOT / "build" / "mutants"
LAYERS = tuple(sorted(path.parent.name for path in (SOURCE / "mindyn").glob("*/__init__.py")))
"""The packages whose lines are recorded and mutated: all."""
LONGEST_TEST_S = 3.0
"""Processor time of a test; slower tests are stopped while lines are mapped, and not run on mutants."""
LONGEST_WAIT_S = 900
"""Wall time after which a forked process is stopped."""
NOT_RUN = 99
"""Exit code of a forked process that could not start its tests."""


def run_in_fork(work: Callable[[], int], processor_s: float | None = None, wait_s: int = LONGEST_WAIT_S) -> int:
    """Run `work` in a forked process without output; return its exit code, or minus the signal that ended it.

    Processes that wait forever, for example for a lock that a test did not release, are stopped.
    """
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        code = NOT_RUN
        signal.alarm(wait_s)
        try:
            if processor_s is not None:
                resource.setrlimit(resource.RLIMIT_CPU, (int(processor_s) + 1, int(processor_s) + 2))
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def import_outside() -> None:
    """Import the dependencies; put this repository's package first on the path, whatever is installed."""
    sys.path.insert(0, str(SOURCE))
    os.environ["PYTHONPATH"] = str(SOURCE)
    for name in ("numpy", "scipy.linalg", "scipy.signal", "scipy.optimize", "casadi", "llvmlite.binding"):
        importlib.import_module(name)
    for name in ("pytest", "polars", "clarabel", "coverage"):
        importlib.import_module(name)


def import_everything() -> None:
    """Import all modules of the package except those of optional frameworks."""
    package = importlib.import_module("mindyn")
    for result in pkgutil.walk_packages(package.__path__, "mindyn."):
        if result.name not in ("mindyn.kernels.torch", "mindyn.kernels.jax"):
            importlib.import_module(result.name)


def map_lines(tests: list[str]) -> None:
    """Run the tests file by file under coverage; write which test runs which line, and the time of each test."""
    files = [
        path
        for test in tests
        for path in ([Path(test)] if test.endswith(".py") else sorted(Path(test).rglob("test_*.py")))
    ]
    import_outside()
    import_everything()
    for path in files:
        out = BUILD / "lines" / (str(path).replace("/", "-") + ".json")
        if out.exists() and json.loads(out.read_text()).get("tests") == digest_of(path):
            continue
        out.parent.mkdir(parents=True, exist_ok=True)
        begin = time.time()
        code = run_in_fork(lambda: trace(path, out))  # noqa: B023
        print(f"{path}  {time.time() - begin:.0f} s", "" if out.exists() else f"ended with {code}", flush=True)


def trace(path: Path, out: Path) -> int:
    """Run one test file under coverage, test by test."""
    import coverage
    import pytest

    folders = [str(SOURCE / "mindyn" / layer) for layer in LAYERS]
    measured = coverage.Coverage(data_file=None, source=folders, branch=False, config_file=False)

    def too_long(_: int, frame: FrameType | None) -> None:
        while frame is not None:
            if "/coverage/" in frame.f_code.co_filename:  # an exception there would leave its lock closed
                signal.setitimer(signal.ITIMER_PROF, 0.01)
                return
            frame = frame.f_back
        pytest.fail("too slow for mutants")

    class Switch:
        seconds: dict[str, float]

        def __init__(self) -> None:
            self.seconds = {}

        def pytest_runtest_logstart(self, nodeid: str) -> None:
            measured.switch_context(nodeid)
            self.begin = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, LONGEST_TEST_S)

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            taken = time.process_time() - self.begin
            bad = not report.passed or self.seconds.get(report.nodeid) == float("inf")
            self.seconds[report.nodeid] = float("inf") if bad else taken

        def pytest_runtest_logfinish(self) -> None:
            signal.setitimer(signal.ITIMER_PROF, 0.0)

    switch = Switch()
    signal.signal(signal.SIGPROF, too_long)
    measured.start()
    code = pytest.main(["-q", "-p", "no:xdist", "-p", "no:cacheprovider", str(path)], plugins=[switch])
    measured.stop()
    data = measured.get_data()
    lines: dict[str, dict[str, list[str]]] = {}
    sources: dict[str, str] = {}
    for file in data.measured_files():
        name = str(Path(file).relative_to(ROOT))
        lines[name] = {str(k): v for k, v in data.contexts_by_lineno(file).items()}
        sources[name] = store_source(ROOT / name)
    seconds = {node: taken for node, taken in switch.seconds.items() if taken < LONGEST_TEST_S}
    if code in (0, 1):
        result = {"tests": digest_of(path), "seconds": seconds, "lines": lines, "sources": sources}
        out.write_text(json.dumps(result))
    return int(code)


def digest_of(path: Path) -> str:
    """Return a hash of a file's content, so that copies of a mapped file are not mapped again."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def store_source(path: Path) -> str:
    """Store a copy of a file, so that its mapped lines are found after it changes; return its hash."""
    content, digest = path.read_bytes(), digest_of(path)
    copy_of = BUILD / "sources" / f"{digest}.py"
    copy_of.parent.mkdir(parents=True, exist_ok=True)
    copy_of.write_bytes(content)
    return digest


@cache
def find_moved_lines(file: str, digest: str) -> dict[int, int]:
    """Return, for each mapped line of a file, its present line number; changed and removed lines have none."""
    before, now = ((path.read_text().splitlines()) for path in (BUILD / "sources" / f"{digest}.py", ROOT / file))
    same = difflib.SequenceMatcher(None, before, now, autojunk=False).get_matching_blocks()
    return {block.a + k + 1: block.b + k + 1 for block in same for k in range(block.size)}


def read_map() -> tuple[dict[str, float], dict[str, dict[int, set[str]]]]:
    """Return the time of each test in s, and for each file and line the tests that run it."""
    seconds: dict[str, float] = {}
    lines: dict[str, dict[int, set[str]]] = {}
    for path in sorted((BUILD / "lines").glob("*.json")):
        content = json.loads(path.read_text())
        if not all((ROOT / file).exists() for file in {test.partition("::")[0] for test in content["seconds"]}):
            continue  # moved tests are mapped at their new place
        seconds |= content["seconds"]
        for file, tests_by_line in content["lines"].items():
            if not (ROOT / file).exists():
                continue
            moved = find_moved_lines(file, content["sources"][file])
            for line, tests in tests_by_line.items():
                if int(line) in moved:
                    expected = lines.setdefault(file, {}).setdefault(moved[int(line)], set())
                    expected.update(set(tests) & set(content["seconds"]))
    return seconds, lines
