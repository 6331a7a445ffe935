"""Mutants of the code that fits and judges: which single faults the tests do not notice.

    python tools/mutants.py map tests/regression tests/estimators ...   which test runs which line, and how long
    python tools/mutants.py run --count 240 --seed 1                    break one thing at a time, run its tests
    python tools/mutants.py list                                        the survivors, with what was changed

All write below `build/mutants` and go on where they were stopped. A mutant is caught when one of the quick tests that
run its line fails, or takes many times its processor time; what survives a few of them meets more. Which mutants are
met depends on the seed and on their own text alone, so that a change elsewhere leaves the sample as it was; those that
no result can tell are counted apart (`faults.py` says which). The files must not change while it runs. Tests run
in forked processes that have imported everything: there, functions of the module get their code from the broken source;
faults outside of functions (numbers with a name, defaults) are met in processes that import the broken module. No file
of the source is changed.
"""

from __future__ import annotations

import argparse
import difflib
import gc
import hashlib
import importlib.abc
import importlib.util
import json
import os
import pkgutil
import re
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from faults import ROOT, BrokenModule, Mutant, broken, functions_by_file, mutants_of, replace_code, sample_of

SOURCE = ROOT / "src"
BUILD = ROOT / "build" / "mutants"
LAYERS = ("logs", "regression", "estimators", "feasibility")
LONGEST_TEST_S = 3.0
"""Processor time of a test; longer ones are ended while lines are mapped, and not run on mutants."""
MOST_TESTS = 10
MOST_SECONDS = 3.0
"""Of tests, by their time when all is well, that a mutant meets; at most `MOST_OF_FILE` of one file at first."""
MOST_OF_FILE = 4
LONGEST_WAIT_S = 900
"""Of a test file that is mapped, or of a mutant's tests."""
PASSES = 3
MORE = 4
"""Times as many tests, and seconds of them, that the survivors of one pass meet in the next."""
NEAR = 8
"""Lines before a line that no test is known to run in which one is looked for."""


def in_fork(work: Callable[[], int], processor_s: float | None = None) -> int:
    """What a forked process returns whose output goes nowhere; negative: the signal that ended it.

    Processes that wait without end, as for a lock that a test's end left closed, are ended too.
    """
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        code = 99
        signal.alarm(LONGEST_WAIT_S)
        try:
            if processor_s is not None:
                resource.setrlimit(resource.RLIMIT_CPU, (int(processor_s) + 1, int(processor_s) + 2))
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def import_outside() -> None:
    """What tests and modules need of others."""
    for name in ("numpy", "scipy.linalg", "scipy.signal", "scipy.optimize", "casadi", "llvmlite.binding"):
        importlib.import_module(name)
    for name in ("pytest", "polars", "clarabel", "coverage"):
        importlib.import_module(name)


def import_everything() -> None:
    """Every module of the package that can be."""
    package = importlib.import_module("mindyn")
    for found in pkgutil.walk_packages(package.__path__, "mindyn."):
        if found.name not in ("mindyn.torch", "mindyn.jax"):
            importlib.import_module(found.name)


def map_lines(tests: list[str]) -> None:
    """Run the tests file by file under coverage; which test runs which line, and seconds of each test."""
    files = [
        path for one in tests for path in ([Path(one)] if one.endswith(".py") else sorted(Path(one).rglob("test_*.py")))
    ]
    import_outside()
    import_everything()
    for path in files:
        out = BUILD / "lines" / (str(path).replace("/", "-") + ".json")
        if out.exists() and json.loads(out.read_text()).get("tests") == digest_of(path):
            continue
        out.parent.mkdir(parents=True, exist_ok=True)
        begin = time.time()
        code = in_fork(lambda: trace(path, out))  # noqa: B023
        print(f"{path}  {time.time() - begin:.0f} s", "" if out.exists() else f"ended with {code}", flush=True)


def trace(path: Path, out: Path) -> int:
    """One test file under coverage, test by test."""
    import coverage
    import pytest

    folders = [str(SOURCE / "mindyn" / layer) for layer in LAYERS]
    measured = coverage.Coverage(data_file=None, source=folders, branch=False, config_file=False)

    def too_long(*_: object) -> None:
        pytest.fail("longer than mutants are worth")

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
        sources[name] = kept_source(ROOT / name)
    seconds = {node: taken for node, taken in switch.seconds.items() if taken < LONGEST_TEST_S}
    if code in (0, 1):
        found = {"tests": digest_of(path), "seconds": seconds, "lines": lines, "sources": sources}
        out.write_text(json.dumps(found))
    return int(code)


def digest_of(path: Path) -> str:
    """Of a file's content: copies and fresh checkouts of a file that was mapped are not mapped again."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def kept_source(path: Path) -> str:
    """The digest under which a copy of a file is kept: lines that were mapped in it are found again when it changes."""
    content, digest = path.read_bytes(), digest_of(path)
    copy_of = BUILD / "sources" / f"{digest}.py"
    copy_of.parent.mkdir(parents=True, exist_ok=True)
    copy_of.write_bytes(content)
    return digest


@cache
def moved_lines(file: str, digest: str) -> dict[int, int]:
    """For each line of a file as it was mapped, its line now; what changed or went has none."""
    before, now = ((path.read_text().splitlines()) for path in (BUILD / "sources" / f"{digest}.py", ROOT / file))
    same = difflib.SequenceMatcher(None, before, now, autojunk=False).get_matching_blocks()
    return {block.a + k + 1: block.b + k + 1 for block in same for k in range(block.size)}


def mapped() -> tuple[dict[str, float], dict[str, dict[int, set[str]]]]:
    """Seconds of tests, and for each file and line the tests that run it."""
    seconds: dict[str, float] = {}
    lines: dict[str, dict[int, set[str]]] = {}
    for path in sorted((BUILD / "lines").glob("*.json")):
        one = json.loads(path.read_text())
        if not all((ROOT / file).exists() for file in {test.partition("::")[0] for test in one["seconds"]}):
            continue  # tests that have moved are mapped where they are now
        seconds |= one["seconds"]
        for file, told in one["lines"].items():
            if not (ROOT / file).exists():
                continue
            moved = moved_lines(file, one["sources"][file])
            for line, tests in told.items():
                if int(line) in moved:
                    own = lines.setdefault(file, {}).setdefault(moved[int(line)], set())
                    own.update(set(tests) & set(one["seconds"]))
    return seconds, lines


@cache
def imported_by(file: str) -> frozenset[str]:
    """Modules of the package that a test file names in its imports."""
    return frozenset(re.findall(r"^from (mindyn[.\w]*) import", (ROOT / file).read_text(), re.MULTILINE))


def nearest(told: dict[int, set[str]], line: int) -> set[str]:
    """Tests of a line, or of the one before it that has some: statements of several lines, and lines that are new."""
    return next((told[k] for k in range(line, max(0, line - NEAR), -1) if told.get(k)), set())


def quickest_for(
    mutant: Mutant,
    seconds: dict[str, float],
    lines: dict[str, dict[int, set[str]]],
    tried: Collection[str] = (),
    more: int = 1,
) -> list[str]:
    """The quickest tests that run the line: of test files that import the module or are named like it, then of others.

    Of lines that run on import: tests that run any line of the file, or whose file imports it. The latter too where no
    test is known to run a line: those of files that were moved are not known before they are mapped again.

    tried  tests that it has survived
    more   times as many tests, and as many seconds of them, as in the first pass
    """
    told = lines.get(mutant.file, {})
    module = ".".join(Path(mutant.file).with_suffix("").parts[1:])
    tests = nearest(told, mutant.line) if mutant.in_function else set().union(*told.values())
    if not (mutant.in_function and tests):
        tests = tests | {test for test in seconds if module in imported_by(test.partition("::")[0])}

    def of_module(test: str) -> bool:
        file = test.partition("::")[0]
        return module in imported_by(file) or Path(mutant.file).stem in file

    waiting = sorted(tests - set(tried), key=lambda one: (not of_module(one), seconds[one], one))
    of_file: Counter[str] = Counter()
    first, rest = [], []
    for test in waiting:
        of_file[test.partition("::")[0]] += 1
        near = of_file[test.partition("::")[0]] <= MOST_OF_FILE * (3 if of_module(test) else 1)
        (first if near else rest).append(test)
    chosen, spent = [], 0.0
    for test in [*first, *rest]:
        if not chosen or (len(chosen) < more * MOST_TESTS and spent + seconds[test] <= more * MOST_SECONDS):
            chosen.append(test)
            spent += seconds[test]
    return sorted(chosen, key=lambda one: (seconds[one], one))


class Collected:
    """A session of pytest that has collected the tests of some files, and runs some of them in forked processes."""

    def __init__(self, files: list[str]) -> None:
        self.files = files

    def __call__(self, work: Callable[[Collected], None]) -> None:
        """Collects, then does the work."""
        import pytest

        self.work = work
        how = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
        pytest.main([*how, *self.files], plugins=[self])

    def pytest_runtestloop(self, session: Any) -> bool:
        """In place of running all tests."""
        self.items = {item.nodeid: item for item in session.items}
        self.functions = functions_by_file()
        gc.freeze()  # what forked processes share is not copied by their collections
        self.work(self)
        return True

    def run(self, tests: list[str]) -> int:
        """1 as soon as one of the tests fails; called in a forked process."""
        from _pytest.runner import runtestprotocol

        items = [self.items[test] for test in tests]
        for item, after in zip(items, [*items[1:], None], strict=True):
            if any(report.failed for report in runtestprotocol(item, log=False, nextitem=after)):
                return 1
        return 0


def outcome(mutant: Mutant, tests: list[str], processor_s: float, collected: Collected | None) -> str:
    """What the tests say in a forked process: "caught", "late" or "survived"."""
    path = ROOT / mutant.file

    def meet() -> int:
        code = broken(mutant)
        if collected is not None:
            replace_code(collected.functions[str(path)], code)
            return collected.run(tests)
        import pytest

        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        sys.meta_path.insert(0, BrokenModule(name, path, code))
        return int(pytest.main(["-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider", *tests]))

    code = in_fork(meet, processor_s)
    if code in (-signal.SIGXCPU, -signal.SIGKILL, -signal.SIGALRM):
        return "late"
    return "survived" if code == 0 else "caught"


def known_outcomes() -> dict[str, dict[str, Any]]:
    """Of earlier runs; of a mutant met more than once, the last."""
    record = BUILD / "outcomes.jsonl"
    read = map(json.loads, record.read_text().splitlines()) if record.exists() else ()
    return {one["key"]: one for one in read}


def every_mutant(layers: Collection[str]) -> list[Mutant]:
    """Of all files of some layers."""
    files = [path for layer in layers for path in sorted((SOURCE / "mindyn" / layer).glob("*.py"))]
    return [mutant for path in files for mutant in mutants_of(path)]


def run(count: int, seed: int, layers: list[str], again: bool, passes: int) -> None:
    """Sample mutants and write what became of each; those that survive meet more of the tests that run their line."""
    import_outside()
    os.chdir(ROOT)
    seconds, lines = mapped()
    chosen = sample_of(every_mutant(layers), count, seed)
    (BUILD / "sample.json").write_text(json.dumps([one.key for one in chosen]))
    known = known_outcomes()
    waiting = [one for one in chosen if again or one.key not in known]
    for number in range(passes):
        known = known_outcomes()
        waiting = [one for one in waiting if known.get(one.key, {}).get("outcome") not in ("caught", "late")]
        choices = {
            one.key: quickest_for(one, seconds, lines, known.get(one.key, {}).get("tests", ()), MORE**number)
            for one in waiting
        }
        run_once([one for one in waiting if choices[one.key] or one.key not in known], choices, seconds)


def run_once(waiting: list[Mutant], choices: dict[str, list[str]], seconds: dict[str, float]) -> None:
    """Each mutant meets the tests chosen for it: those in functions in a process that imports everything."""
    child = os.fork()
    if child == 0:
        import_everything()
        inner = [one for one in waiting if one.in_function]
        files = sorted({test.partition("::")[0] for one in inner for test in choices[one.key]})
        Collected(files)(lambda collected: meet(inner, choices, seconds, collected))
        os._exit(0)
    os.waitpid(child, 0)
    meet([one for one in waiting if not one.in_function], choices, seconds, None)


def meet(
    mutants: list[Mutant], choices: dict[str, list[str]], seconds: dict[str, float], collected: Collected | None
) -> None:
    """Breaks one thing after the other and writes down what became of it."""
    known = known_outcomes()
    for number, mutant in enumerate(mutants, 1):
        survived, tests = known.get(mutant.key, {}).get("tests", []), choices[mutant.key]
        if collected is not None:
            tests = [test for test in tests if test in collected.items]
        allowed_s = 10 + 4 * sum(seconds[test] for test in tests)
        result = outcome(mutant, tests, allowed_s, collected) if tests else "survived" if survived else "not run"
        with (BUILD / "outcomes.jsonl").open("a") as file:
            tried = [*survived, *tests]
            file.write(json.dumps({"key": mutant.key, **asdict(mutant), "outcome": result, "tests": tried}) + "\n")
        shown = f"{mutant.file}:{mutant.line}  {mutant.before}  ->  {mutant.after}"
        sys.stderr.write(f"{number}/{len(mutants)} {result:9} {shown}\n")
        sys.stderr.flush()


def listed() -> None:
    """Counts and survivors of the last sample."""
    known = known_outcomes()
    met = [known[key] for key in json.loads((BUILD / "sample.json").read_text()) if key in known]
    caught = sum(one["outcome"] in ("caught", "late") for one in met)
    print(f"{len(met)} mutants, {caught} caught ({caught / max(1, len(met)):.1%})")
    every = every_mutant(LAYERS)
    apart = Counter(one.apart for one in every if one.apart)
    print(f"of {len(every)} in all, {sum(apart.values())} are counted apart and not drawn:", end=" ")
    print(", ".join(f"{reason} ({count})" for reason, count in apart.most_common()))
    for one in sorted(met, key=lambda one: (one["file"], one["line"])):
        if one["outcome"] != "caught":
            print(f"{one['outcome']:9} {one['file']}:{one['line']}  {one['before']}  ->  {one['after']}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("map").add_argument("tests", nargs="+")
    one = commands.add_parser("run")
    one.add_argument("--count", type=int, default=240)
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--layers", nargs="+", default=list(LAYERS))
    one.add_argument("--again", action="store_true", help="meet survivors of earlier runs again")
    one.add_argument("--passes", type=int, default=PASSES, help="each with more tests for what survives")
    commands.add_parser("list")
    given = parser.parse_args()
    if given.command == "map":
        map_lines(given.tests)
    elif given.command == "run":
        run(given.count, given.seed, given.layers, given.again, given.passes)
    else:
        listed()
