"""Mutants of the code that fits and diagnoses: which single faults the tests do not notice.

    python tools/mutants.py map tests/regression tests/estimators ...   which test runs which line, and how long
    python tools/mutants.py run --count 240 --seed 1                    break one thing at a time, run its tests
    python tools/mutants.py list                                        the survivors, with what was changed

All write below `build/mutants` and go on where they were stopped. A mutant is caught when one of the quick tests that
run its line fails, or takes many times its processor time; what survives a few of them meets more. Which mutants are
met depends on the seed and on their own text alone, so that a change elsewhere leaves the sample as it was; those that
no result can show are counted apart (`faults.py` says which). The files must not change while it runs. Tests run
in forked processes that have imported everything: there, functions of the module get their code from the broken source;
faults outside of functions (numbers with a name, defaults) are met in processes that import the broken module. No file
of the source is changed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from faults import BrokenModule, Mutant, broken, functions_by_file, mutants_of, replace_code, sample_of
from lines_of_tests import (
    BUILD,
    LAYERS,
    NOT_MET,
    ROOT,
    SOURCE,
    import_everything,
    import_outside,
    in_fork,
    map_lines,
    mapped,
)

MOST_TESTS = 40
MOST_SECONDS = 3.0
"""Seconds of tests, in an unchanged tree, that a mutant meets; at most `MOST_OF_FILE` of one file at first."""
MOST_OF_FILE = 8
WAITS = 8
"""Seconds that a mutant's tests may take, of each of processor time that they may: machines have other work too."""
PASSES = 3
MORE = 4
"""Times as many tests, and seconds of them, that the survivors of one pass meet in the next."""
NEAR = 8
"""Lines before a line that no test is known to run in which one is looked for."""


@cache
def imported_by(file: str) -> frozenset[str]:
    """Modules of the package that a test file names in its imports."""
    return frozenset(re.findall(r"^from (mindyn[.\w]*) import", (ROOT / file).read_text(), re.MULTILINE))


def nearest(tests_by_line: dict[int, set[str]], line: int) -> set[str]:
    """Tests of a line, or of the one before it that has some: statements of several lines, and lines that are new."""
    return next((tests_by_line[k] for k in range(line, max(0, line - NEAR), -1) if tests_by_line.get(k)), set())


def quickest_for(
    mutant: Mutant,
    seconds: dict[str, float],
    lines: dict[str, dict[int, set[str]]],
    tried: Collection[str] = (),
    more: int = 1,
) -> list[str]:
    """The quickest tests that run the line: of test files that import the module or are named like it, then of others.

    For lines that run on import: tests that run any line of the file, or whose file imports it. The latter too where no
    test is known to run a line: those of files that were moved are not known before they are mapped again.

    tried  tests that it has survived
    more   times as many tests, and as many seconds of them, as in the first pass
    """
    tests_by_line = lines.get(mutant.file, {})
    module = ".".join(Path(mutant.file).with_suffix("").parts[1:])
    tests = nearest(tests_by_line, mutant.line) if mutant.in_function else set().union(*tests_by_line.values())
    if not (mutant.in_function and tests):
        tests = tests | {test for test in seconds if module in imported_by(test.partition("::")[0])}

    def of_module(test: str) -> bool:
        file = test.partition("::")[0]
        return module in imported_by(file) or Path(mutant.file).stem in file

    waiting = sorted(tests - set(tried), key=lambda item: (not of_module(item), seconds[item], item))
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
    return sorted(chosen, key=lambda entry: (seconds[entry], entry))


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
        try:
            for item, after in zip(items, [*items[1:], None], strict=True):
                if any(report.failed for report in runtestprotocol(item, log=False, nextitem=after)):
                    return 1
        except BaseException:
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

    code = in_fork(meet, processor_s, round(WAITS * processor_s))
    if code == NOT_MET:
        raise RuntimeError(f"{mutant.key} was not met by any test: is mindyn imported from {SOURCE}?")
    if code in (-signal.SIGXCPU, -signal.SIGKILL, -signal.SIGALRM):
        return "late"
    return "survived" if code == 0 else "caught"


def known_outcomes() -> dict[str, dict[str, Any]]:
    """Read earlier runs; for a mutant that was met more than once, the last."""
    record = BUILD / "outcomes.jsonl"
    read = map(json.loads, record.read_text().splitlines()) if record.exists() else ()
    return {item["key"]: item for item in read}


def every_mutant(layers: Collection[str]) -> list[Mutant]:
    """List the mutants of all files of some layers."""
    files = [path for layer in layers for path in sorted((SOURCE / "mindyn" / layer).glob("*.py"))]
    return [mutant for path in files for mutant in mutants_of(path)]


def run(count: int, seed: int, layers: list[str], again: bool, passes: int, share: tuple[int, int]) -> None:
    """Sample mutants and write what became of each; those that survive meet more of the tests that run their line.

    share  (k, n): every n-th of them from the k-th on, where n processes share the work
    """
    import_outside()
    os.chdir(ROOT)
    seconds, lines = mapped()
    chosen = sample_of(every_mutant(layers), count, seed)
    (BUILD / "sample.json").write_text(json.dumps([item.key for item in chosen]))
    known = known_outcomes()
    waiting = [item for item in chosen[share[0] :: share[1]] if again or item.key not in known]
    for number in range(passes):
        known = known_outcomes()
        waiting = [item for item in waiting if known.get(item.key, {}).get("outcome") not in ("caught", "late")]
        choices = {
            item.key: quickest_for(item, seconds, lines, known.get(item.key, {}).get("tests", ()), MORE**number)
            for item in waiting
        }
        run_once([item for item in waiting if choices[item.key] or item.key not in known], choices, seconds)


def run_once(waiting: list[Mutant], choices: dict[str, list[str]], seconds: dict[str, float]) -> None:
    """Each mutant meets the tests chosen for it: those in functions in a process that imports everything."""
    child = os.fork()
    if child == 0:
        import_everything()
        inner = [item for item in waiting if item.in_function]
        files = sorted({test.partition("::")[0] for item in inner for test in choices[item.key]})
        Collected(files)(lambda collected: meet(inner, choices, seconds, collected))
        os._exit(0)
    os.waitpid(child, 0)
    meet([item for item in waiting if not item.in_function], choices, seconds, None)


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
    caught = sum(item["outcome"] in ("caught", "late") for item in met)
    print(f"{len(met)} mutants, {caught} caught ({caught / max(1, len(met)):.1%})")
    every = every_mutant(LAYERS)
    apart = Counter(item.apart for item in every if item.apart)
    print(f"of {len(every)} in all, {sum(apart.values())} are counted apart and not drawn:", end=" ")
    print(", ".join(f"{reason} ({count})" for reason, count in apart.most_common()))
    for item in sorted(met, key=lambda entry: (entry["file"], entry["line"])):
        if item["outcome"] != "caught":
            print(f"{item['outcome']:9} {item['file']}:{item['line']}  {item['before']}  ->  {item['after']}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("map").add_argument("tests", nargs="+")
    entry = commands.add_parser("run")
    entry.add_argument("--count", type=int, default=240)
    entry.add_argument("--seed", type=int, default=1)
    entry.add_argument("--layers", nargs="+", default=list(LAYERS))
    entry.add_argument("--again", action="store_true", help="meet survivors of earlier runs again")
    entry.add_argument("--passes", type=int, default=PASSES, help="each with more tests for what survives")
    entry.add_argument("--share", type=int, nargs=2, default=(0, 1), help="K N: part K, from 0 on, of N processes")
    commands.add_parser("list")
    given = parser.parse_args()
    if given.command == "map":
        map_lines(given.tests)
    elif given.command == "run":
        run(given.count, given.seed, given.layers, given.again, given.passes, tuple(given.share))
    else:
        listed()
